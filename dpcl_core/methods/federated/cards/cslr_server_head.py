"""Card of CSLR whose head the server trains on the releases."""

from __future__ import annotations

from dpcl_core.methods.federated.cards import federated_params, printed


class CslrServerHeadParams(federated_params.ListParams, federated_params.ReleaseParams, federated_params.ServerParams):
    """One release per task, and a head trained on the mixture of all releases."""


CARD = federated_params.card(
    name="cslr-server-head",
    title="CSLR, head on the server",
    summary="Every client matches its texts to public groups and sends one clipped vector per task. The sum gets noise once "
    "and becomes a mixture of Gaussians. The server trains the head on texts generated from these mixtures alone, for all "
    "tasks: the head costs nothing beyond the release.",
    source=f"{federated_params.SOURCE}, repaired: matched on the client, released once a task, head from the release",
    params=CslrServerHeadParams,
    matters=("anchors", "list_size", "matcher"),
    module="dpcl_core.methods.federated.cslr_server_head",
    planned="dpcl_core.methods.federated.release_schedule:releases",
    shares="epsilons",
    derived=lambda params, facts: f"{facts.n_tasks} releases in all, of every client each; the head costs nothing more.",
    needs_anchors=True,
    asks_clients=True,
    printed=printed.SERVER_HEAD,
    table_names=lambda spec: ("Repair: CSLR, head on the server", federated_params.axes(spec)),
    reference="CSLR",
)
