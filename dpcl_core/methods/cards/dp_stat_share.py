"""Card of shared statistics: one Gaussian a client and task."""

from __future__ import annotations

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import cslr
from dpcl_core.methods.cards.cslr_central import CslrCentralParams, check, notes


class DpStatShareParams(CslrCentralParams):
    """CSLR with lists of one entry: nothing to match."""

    list_size: int = 1


CARD = MethodCard(
    name="dp-stat-share",
    title="DP-Stat-Share",
    summary="CSLR with one Gaussian a client and label in place of a list: nothing is matched, and all else is the same. "
    "The paper names no source that describes it; this is what its numbers say.",
    source=f"Baseline of {cslr.SOURCE}, read as lists of one entry",
    params=DpStatShareParams,
    module="dpcl_core.methods.dp_stat_share",
    shares="epsilons",
    labels=cslr.LABELS,
    scenarios=cslr.SCENARIOS,
    refuses=check,
    derived=cslr.derived,
    notes=notes,
    assumes=cslr.SIMULATED,
    needs_anchors=True,
)
