"""Card of the DP cosine classifier."""

from __future__ import annotations

from dpcl_core.methods.features import trainer
from dpcl_core.methods.features.cards import adaptation_params, printed
from dpcl_core.spec import Params


class CosineParams(Params):
    """Settings of the cosine classifier: none, because the budget alone sets its noise."""


CARD = adaptation_params.card(
    name="cosine",
    title="DP cosine classifier",
    summary="Sums the unit-length features of each class once per task, with Gaussian noise. A test example gets the class "
    "whose noisy sum is closest in direction. Nothing is trained, so a later task cannot overwrite an earlier one.",
    source="Tobaben et al. 2025, Algorithm 1",
    params=CosineParams,
    module="dpcl_core.methods.features.cosine",
    planned="dpcl_core.methods.features.cosine:planned",
    forecast=trainer.of_class_sums,
    is_one_release=True,
    is_in_playground=True,
    printed=printed.COSINE,
    table_names=lambda spec: ("Cosine classifier", ""),
)
