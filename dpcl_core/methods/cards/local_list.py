"""Card of lists that are noised before they leave a client."""

from __future__ import annotations

from dpcl_core.layers import ADDED
from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import cslr
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params


class LocalListParams(cslr.ListParams, cslr.ReleaseParams, cslr.ServerParams):
    """One noisy list a client and task; a head trained on what the server makes of them."""


def derived(params: Params, facts: Facts) -> str:
    """What the settings come to."""
    return f"{facts.n_tasks} lists of every client, each noised before it leaves; the head costs nothing more."


CARD = MethodCard(
    name="local-list",
    title="Noisy lists, nobody trusted",
    summary="Every client adds noise to its own list of Gaussians, once a task, and sends it; the server clusters the lists "
    "it got and trains the head on texts invented from their averages. Shows what it costs to trust nobody.",
    source=f"{cslr.SOURCE}, under local trust",
    params=LocalListParams,
    module="dpcl_core.methods.local_list",
    shares="epsilons",
    labels=cslr.LABELS,
    scenarios=cslr.SCENARIOS,
    refuses=cslr.check,
    derived=derived,
    assumes=cslr.SIMULATED[:1],
    needs_anchors=True,
    printed=ADDED,
)
