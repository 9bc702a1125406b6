"""DP-Stat-Share: CSLR with lists of one entry. Only the card's list length differs."""

from dataclasses import dataclass, replace

from dpcl_core.methods.federated import cslr_central
from dpcl_core.methods.federated import params as federated
from dpcl_core.spec import parameter


@dataclass(frozen=True, kw_only=True)
class DpStatShareParams(cslr_central.CslrCentralParams):
    """CSLR with lists of one entry: nothing to match."""

    list_size: int = parameter(1, "List entries", "Gaussians in a client's list: one.", ge=1, le=1)


CARD = replace(
    cslr_central.CARD,
    name="dp-stat-share", title="DP-Stat-Share",
    summary="CSLR with one Gaussian for each client and label in place of a list: nothing is matched, and the rest is the "
    "same. The paper names no source that describes it; this version follows its numbers.",
    source=f"Baseline of {federated.SOURCE}, read as lists of one entry",
    params=DpStatShareParams, key_settings=("rounds", "dimensions", "replay_weight"), module=__name__,
    table_names=lambda spec: ("Repair: DP-Stat-Share", federated.axes(spec)),
    reference="DP-Stat-Share",
)

make_learner = cslr_central.make_learner
