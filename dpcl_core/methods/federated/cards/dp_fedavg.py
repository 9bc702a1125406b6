"""Card of federated training with noise and without replay."""

from __future__ import annotations

from dpcl_core.methods.federated.cards import federated_params, printed


class DpFedAvgParams(federated_params.ClippedParams):
    """Rounds of a clipped, noised head."""


CARD = federated_params.card(
    name="dp-fedavg",
    title="DP-FedAvg, no replay",
    summary="Clients train the head in rounds, one task after another; each client's update is clipped, and the sum gets "
    "noise. Nothing protects it from forgetting.",
    source="McMahan et al. 2018; DP-SGD (no replay) of Shihab et al. 2026",
    params=DpFedAvgParams,
    matters=("rounds", "participation", "clip_norm"),
    module="dpcl_core.methods.federated.dp_fedavg",
    planned="dpcl_core.methods.federated.release_schedule:rounds",
    printed=printed.FED_AVG,
    asks_clients=True,
    table_names=lambda spec: ("DP-SGD (no replay)", ""),
    reference="DP-SGD (no replay)",
)
