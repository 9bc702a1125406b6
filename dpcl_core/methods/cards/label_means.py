"""Card of noisy class means, keyed by label."""

from __future__ import annotations

from dpcl_core.layers import ADDED
from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import cslr
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params


class LabelMeansParams(cslr.ReleaseParams):
    """What is released of every class; nothing is trained."""


def derived(params: Params, facts: Facts) -> str:
    """What the settings come to."""
    return f"{facts.n_tasks} releases in all, of every client each; nothing is trained."


CARD = MethodCard(
    name="label-means",
    title="Noisy class means",
    summary="Labels are known when a client computes: it sends the mean of each class, clipped, once a task, and the sum "
    "gets noise. A text gets the class whose mean is nearest. No lists, nothing matched or trained: what a method with "
    "lists must beat.",
    source="Nearest class mean, released once a task under user-level privacy",
    params=LabelMeansParams,
    module="dpcl_core.methods.label_means",
    shares="epsilons",
    labels=cslr.LABELS,
    scenarios=cslr.SCENARIOS,
    refuses=cslr.check,
    derived=derived,
    assumes=cslr.SIMULATED,
    needs_anchors=True,
    printed=ADDED,
)
