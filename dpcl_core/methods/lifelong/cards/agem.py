"""Card of A-GEM without noise."""

from __future__ import annotations

from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.lifelong.cards import network_params, printed
from dpcl_core.spec import RunSpec


class AgemParams(network_params.BatchParams):
    """Settings of A-GEM: those of fixed batches and memory, and no others."""


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a finite budget, and as `network_params.check` does."""
    network_params.refuse_budgets(spec, "A-GEM adds no noise; dp-agem is its private form")
    network_params.check(spec, facts)


CARD = network_params.network_card(
    name="agem",
    title="A-GEM without noise",
    summary="A whole network learns one task after another and keeps one batch of each. A step that would make it worse on "
    "the kept batches is projected until it does not. Adds no noise: an upper bound for the private versions.",
    source="Chaudhry et al. 2019; the noiseless baseline of Lai et al. 2022",
    params=AgemParams,
    matters=("epochs", "learning_rate", "memory_pick"),
    module="dpcl_core.methods.lifelong.agem",
    shares="cell",
    refuses=check,
    derived=network_params.derived,
    guarantee="none",
    batch_size=network_params.batch_size,
    printed=printed.AGEM,
    table_names=lambda spec: ("A-GEM", network_params.variant(spec, "noiseless")),
    differences=network_params.differences,
)
