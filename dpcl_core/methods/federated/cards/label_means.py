"""Card of noisy class means, keyed by label."""

from __future__ import annotations

from dpcl_core.layers import ADDED
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.federated.cards import federated_params
from dpcl_core.spec import Params


class LabelMeansParams(federated_params.ReleaseParams):
    """The statistics released of every class; nothing is trained."""


def derived(params: Params, facts: PublicSizes) -> str:
    """The settings in numbers."""
    return f"{facts.n_tasks} releases in all, of every client each; nothing is trained."


CARD = MethodCard(
    name="label-means",
    title="Noisy class means",
    summary="Labels are known when a client computes: it sends the mean of each class, clipped, once a task, and the sum "
    "gets noise. A text gets the class whose mean is nearest. No lists, nothing matched or trained: what a method with "
    "lists must beat.",
    source="Nearest class mean, released once a task under user-level privacy",
    params=LabelMeansParams,
    module="dpcl_core.methods.federated.label_means",
    shares="epsilons",
    labels=federated_params.LABELS,
    scenarios=federated_params.SCENARIOS,
    refuses=federated_params.check,
    derived=derived,
    assumes=federated_params.SIMULATED,
    needs_anchors=True,
    printed=ADDED,
    table_names=lambda spec: ("Added: class means", federated_params.axes(spec)),
)
