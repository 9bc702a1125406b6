"""Card of noisy class means, keyed by label."""

from __future__ import annotations

from dpcl_core.layers import ADDED
from dpcl_core.methods.federated.cards import federated_params


class LabelMeansParams(federated_params.ReleaseParams):
    """The statistics released of every class; nothing is trained."""


CARD = federated_params.card(
    name="label-means",
    title="Noisy class means",
    summary="Each client sends the clipped mean of each of its classes once per task, and the sum gets noise. A text gets "
    "the class with the nearest mean. No lists, no matching, no training: the baseline that a method with lists must "
    "beat.",
    source="Nearest class mean, released once a task under user-level privacy",
    params=LabelMeansParams,
    matters=("dimensions", "radius", "slots"),
    module="dpcl_core.methods.federated.label_means",
    planned="dpcl_core.methods.federated.release_schedule:releases",
    shares="epsilons",
    derived=lambda params, facts: f"{facts.n_tasks} releases in all, of every client each; nothing is trained.",
    needs_anchors=True,
    asks_clients=True,
    printed=ADDED,
    table_names=lambda spec: ("Added: class means", federated_params.axes(spec)),
)
