"""Card of CSLR whose head the server trains on what was released."""

from __future__ import annotations

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import cslr, cslr_print
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params


class CslrServerHeadParams(cslr.ListParams, cslr.ReleaseParams, cslr.ServerParams):
    """One release a task, and a head trained on the mixture of all releases."""


def derived(params: Params, facts: Facts) -> str:
    """What the settings come to."""
    return f"{facts.n_tasks} releases in all, of every client each; the head costs nothing more."


CARD = MethodCard(
    name="cslr-server-head",
    title="CSLR, head on the server",
    summary="Every client matches its texts to public groups and sends one clipped vector a task; the sum gets noise once "
    "and becomes a mixture of Gaussians. The server trains the head on texts invented from it alone, of all tasks: the head "
    "costs nothing beyond the release.",
    source=f"{cslr.SOURCE}, repaired: matched on the client, released once a task, head from the release",
    params=CslrServerHeadParams,
    module="dpcl_core.methods.cslr_server_head",
    shares="epsilons",
    labels=cslr.LABELS,
    scenarios=cslr.SCENARIOS,
    refuses=cslr.check,
    derived=derived,
    assumes=cslr.SIMULATED,
    needs_anchors=True,
    printed=cslr_print.SERVER_HEAD,
)
