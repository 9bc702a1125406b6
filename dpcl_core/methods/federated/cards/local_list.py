"""Card of CSLR under local trust."""

from __future__ import annotations

from dpcl_core.layers import ADDED
from dpcl_core.methods.federated.cards import federated_params


class LocalListParams(federated_params.ListParams, federated_params.ReleaseParams, federated_params.ServerParams):
    """One noisy list per client and task; a head trained on the server's aggregate of them."""


CARD = federated_params.card(
    name="local-list",
    title="Noisy lists, no trusted server",
    summary="Every client adds noise to its own list of Gaussians once per task and sends it. The server clusters the noisy "
    "lists and trains the head on texts generated from their averages. Shows what it costs to trust no one.",
    source=f"{federated_params.SOURCE}, under local trust",
    params=LocalListParams,
    matters=("anchors", "list_size", "matcher"),
    module="dpcl_core.methods.federated.local_list",
    planned="dpcl_core.methods.federated.release_schedule:releases",
    shares="epsilons",
    derived=lambda params, facts: (
        f"{facts.n_tasks} lists of every client, each noised before it leaves; the head costs nothing more."
    ),
    assumes=lambda params: federated_params.SIMULATED[:1],
    needs_anchors=True,
    printed=ADDED,
    table_names=lambda spec: ("Added: noisy lists, no trusted server", federated_params.axes(spec)),
    reference="CSLR",
)
