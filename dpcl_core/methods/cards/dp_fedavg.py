"""Card of federated training with noise and without replay."""

from __future__ import annotations

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import cslr, cslr_print


class DpFedAvgParams(cslr.ClippedParams):
    """Rounds of a clipped, noised head."""


CARD = MethodCard(
    name="dp-fedavg",
    title="DP-FedAvg, no replay",
    summary="Clients train the head in rounds, task after task; every client's change is clipped and the sum gets noise. "
    "Nothing keeps it from forgetting.",
    source="McMahan et al. 2018; DP-SGD (no replay) of Shihab et al. 2026",
    params=DpFedAvgParams,
    module="dpcl_core.methods.dp_fedavg",
    shares="cell",
    labels=cslr.LABELS,
    scenarios=cslr.SCENARIOS,
    refuses=cslr.check,
    derived=cslr.derived,
    assumes=cslr.SIMULATED,
    printed=cslr_print.FED_AVG,
)
