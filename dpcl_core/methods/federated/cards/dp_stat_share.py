"""Card of shared statistics: one Gaussian per client and task."""

from __future__ import annotations

from pydantic import Field

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.federated.cards import federated_params, printed
from dpcl_core.methods.federated.cards.cslr_central import CslrCentralParams, notes


class DpStatShareParams(CslrCentralParams):
    """CSLR with lists of one entry: nothing to match."""

    list_size: int = Field(1, ge=1, le=1, description="Gaussians in a client's list: one.")


CARD = MethodCard(
    name="dp-stat-share",
    title="DP-Stat-Share",
    summary="CSLR with one Gaussian a client and label in place of a list: nothing is matched, and all else is the same. "
    "The paper names no source that describes it; this is what its numbers say.",
    source=f"Baseline of {federated_params.SOURCE}, read as lists of one entry",
    params=DpStatShareParams,
    module="dpcl_core.methods.federated.dp_stat_share",
    shares="cell",
    labels=federated_params.LABELS,
    scenarios=federated_params.SCENARIOS,
    refuses=federated_params.check,
    derived=federated_params.derived,
    notes=notes,
    assumes=federated_params.SIMULATED,
    needs_anchors=True,
    printed=printed.STAT_SHARE,
    table_names=lambda spec: ("Repair: DP-Stat-Share", federated_params.axes(spec)),
    reference="DP-Stat-Share",
    differences=federated_params.differences,
)
