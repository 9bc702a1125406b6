"""How many public axes a run's features are taken along: a public rule of the budget and of the size of a class."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpcl_core.backbones import axes
from dpcl_core.backbones import catalog as backbones
from dpcl_core.methods.catalog import card
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.budget import training_budget
from dpcl_core.spec import RunSpec

FEWEST, MOST = 16, 640
_PER_RATIO = 5.0


def numbers(spec: RunSpec, facts: PublicSizes) -> Mapping[float, int]:
    """Number of axes for each budget; empty where features are taken as the network gives them."""
    network = backbones.card(spec.data.backbone)
    if spec.params.inputs == "text" or spec.data.axes == 0 or axes.public_part(network, spec.data.dataset) is None:
        return {}
    return {epsilon: spec.data.axes or by_rule(spec, epsilon, facts) for epsilon in spec.privacy.epsilons}


def by_rule(spec: RunSpec, epsilon: float, facts: PublicSizes) -> int:
    """Five times the people of a class over the noise on their sum, between 16 and 640, all public numbers.

    The noise is that of one Gaussian release a task under this budget; under one list for all tasks a class that comes once
    gets it in every task. Measured with the cosine classifier on CIFAR-10 along CIFAR-100's axes, 20 to 700 examples a
    class, epsilon 0.5 to 8: the rule's number was within a factor of two of the best of nine.
    """
    if math.isinf(epsilon):
        return MOST
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    noise = gaussian.sigma(left, delta, gaussian.SENSITIVITY[spec.privacy.adjacency])
    adds_up = card(spec.method).is_one_release and spec.labels in ("prior-const", "dp-learned")
    ratio = facts.n_people / facts.n_classes / (noise * math.sqrt(facts.n_tasks if adds_up else 1))
    return round(min(MOST, max(FEWEST, _PER_RATIO * ratio)))
