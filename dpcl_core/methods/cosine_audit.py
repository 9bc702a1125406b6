"""Attacks on the DP cosine classifier, run through the very mechanism that the classifier uses."""

from __future__ import annotations

import numpy as np

from dpcl_core.privacy.audit import Audited, lower_bound
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import RunSpec

_N_FEATURES = 16
_N_KNOWN = 20
_ADVERSARY = "sees the released sums and label list of one task, knows every other example and the example in question"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget of the spec: is the person with the new example in the data, or not?

    The neighbours: a task of known examples, and the same with one more of a label that occurs nowhere else (under
    "replace": its features are turned round, or its label is one that the others have). The attacker projects the
    released sums on the example's features, the most powerful test against a Gaussian; where the label list is read from
    the data he only looks whether the label is in it. Args: trials: releases on each side.
    """
    return [_attacked(spec, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, epsilon: float, trials: int) -> Audited:
    generator = np.random.default_rng(0)
    known = generator.standard_normal((_N_KNOWN, _N_FEATURES))
    person = generator.standard_normal(_N_FEATURES)
    person /= np.linalg.norm(person)
    labels = np.arange(_N_KNOWN, dtype=np.int64) % 2
    features_in, labels_in = np.vstack([known, person]), np.append(labels, 2)
    features_out, labels_out = known, labels
    if spec.privacy.adjacency == "replace":
        features_out = np.vstack([known, -person])
        labels_out = np.append(labels, 0 if spec.labels == "data" else 2)
    std = class_sums_std(epsilon, spec.privacy.delta, spec.privacy.adjacency)
    ledger = Ledger(spec.privacy.delta, spec.privacy.adjacency, "once")

    def score(features: np.ndarray, present: np.ndarray) -> float:
        """One release, and how strongly it speaks for the person."""
        book = Ledger(spec.privacy.delta, spec.privacy.adjacency, "once")
        space = label_space(spec.labels, (0, 1, 2), (0, 1, 2), present, [book], task=0)
        sums = noisy_class_sums(features, present, space, 3, [std], [ReleaseNoise()], [book], task=0)
        ledger.entries[:] = book.entries
        return float(2 in space) if spec.labels == "data" else float(sums[0, 2] @ person)

    took_part = np.array([score(features_in, labels_in) for _ in range(trials)])
    stayed_away = np.array([score(features_out, labels_out) for _ in range(trials)])
    return Audited(
        claimed=epsilon,
        accounted=ledger.epsilon(),
        lower_bound=lower_bound(took_part, stayed_away, spec.privacy.delta),
        delta=spec.privacy.delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="is the label in the list?" if spec.labels == "data" else "projection of the sums on the example",
        adversary=_ADVERSARY,
    )
