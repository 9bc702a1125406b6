"""Card of shared statistics: one Gaussian per client and task."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from dpcl_core.methods.federated.cards import cslr_central, federated_params


class DpStatShareParams(cslr_central.CslrCentralParams):
    """CSLR with lists of one entry: nothing to match."""

    list_size: int = Field(1, ge=1, le=1, title="List entries", description="Gaussians in a client's list: one.")


CARD = replace(
    cslr_central.CARD,
    name="dp-stat-share",
    title="DP-Stat-Share",
    summary="CSLR with one Gaussian for each client and label in place of a list: nothing is matched, and the rest is the "
    "same. The paper names no source that describes it; this version follows its numbers.",
    source=f"Baseline of {federated_params.SOURCE}, read as lists of one entry",
    params=DpStatShareParams,
    matters=("rounds", "dimensions", "replay_weight"),
    module="dpcl_core.methods.federated.dp_stat_share",
    table_names=lambda spec: ("Repair: DP-Stat-Share", federated_params.axes(spec)),
    reference="DP-Stat-Share",
)
