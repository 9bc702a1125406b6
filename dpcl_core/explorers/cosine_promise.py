"""The cosine classifier's guarantee at a budget, without a run: from a ledger that its own mechanism wrote."""

from __future__ import annotations

import numpy as np

from dpcl_core.events import Guarantee
from dpcl_core.methods.features.cards.cosine import CosineParams
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.privacy.statement import guarantee
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.spec import Cell, LabelSetting, PrivacySpec, RunSpec


def promised(
    labels: LabelSetting, epsilon: float, delta: float, *, n_tasks: int, n_classes: int, n_people: int, n_seeds: int
) -> Guarantee:
    """The guarantee of a class-incremental stream with seeded noise, under add/remove of one example.

    The mechanism runs on empty tasks: its ledger entries do not depend on the data.
    """
    spec = RunSpec(
        method="cosine",
        params=CosineParams(),
        scenario=ClassIncremental(tasks=n_tasks),
        labels=labels,
        privacy=PrivacySpec(epsilons=(epsilon,), delta=delta, noise="seeded"),
        seeds=tuple(range(n_seeds)),
    )
    cell = Cell(epsilon, 0)
    ledger = Ledger(delta, spec.privacy.adjacency, "once")
    std = class_sums_std(epsilon, delta, spec.privacy.adjacency)
    no_rows, no_labels = np.zeros((0, 1)), np.zeros(0, dtype=np.int64)
    public = range(n_classes)
    for task in range(n_tasks):
        prior = [label for label in public if label % n_tasks == task]
        space = label_space(labels, prior, public, no_labels, [ledger], task=task)
        noises = [SeededNoise(cell, "promise")]
        noisy_class_sums(no_rows, no_labels, space, n_classes, [std], noises, [ledger], task=task)
    return guarantee(ledger, spec, cell, unit="example", n_people=n_people, n_tasks=n_tasks)
