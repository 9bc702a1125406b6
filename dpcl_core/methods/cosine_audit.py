"""Attacks on the DP cosine classifier, run through the very mechanism that the classifier uses."""

from __future__ import annotations

import numpy as np

from dpcl_core.privacy.audit import Audited, lower_bound
from dpcl_core.privacy.budget import training_budget
from dpcl_core.privacy.labels import LabelLists, kept, people_to_be_named
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import Cell, RunSpec

_N_FEATURES = 16
_N_KNOWN = 20
_MOST_KNOWN = 20_000
_ADVERSARY = "sees the released sums and label list of one task, knows every other example and the example in question"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget of the spec: is the person with the new example in the data, or not?

    The neighbours: a task of known examples, and the same with one more of a label that occurs nowhere else (under
    "replace": its features are turned round, or its label is one that the others have). The attacker projects the
    released sums on the example's features, the most powerful test against a Gaussian; where the label list is read from
    the data he only looks whether the label is in it. A learned list leaves such a label out, so there the example shares
    its label with enough others for it to be listed. Args: trials: releases on each side.
    """
    return [_attacked(spec, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, epsilon: float, trials: int) -> Audited:
    cell, is_learned = Cell(epsilon, 0), spec.labels == "dp-learned"
    own, n_known = 2, _N_KNOWN
    if is_learned:
        needed = people_to_be_named(spec.privacy, epsilon, 1, _MOST_KNOWN // 4)
        own, n_known = 0, _N_KNOWN if needed is None else max(_N_KNOWN, 4 * needed)
    generator = np.random.default_rng(0)
    known = generator.standard_normal((n_known, _N_FEATURES))
    person = generator.standard_normal(_N_FEATURES)
    person /= np.linalg.norm(person)
    labels = np.arange(n_known, dtype=np.int64) % 2
    features_in, labels_in = np.vstack([known, person]), np.append(labels, own)
    features_out, labels_out = known, labels
    if spec.privacy.adjacency == "replace":
        features_out = np.vstack([known, -person])
        labels_out = np.append(labels, 0 if spec.labels == "data" else own)
    std = class_sums_std(*training_budget(spec.privacy, spec.labels, epsilon), spec.privacy.adjacency)
    lists = LabelLists(spec, [cell], (0, 1, 2), n_tasks=1)
    ledger = Ledger(spec.privacy.delta, spec.privacy.adjacency, "once")

    def score(features: np.ndarray, present: np.ndarray) -> float:
        """One release, and how strongly it speaks for the person."""
        book = Ledger(spec.privacy.delta, spec.privacy.adjacency, "once")
        (space,) = lists.released([cell], (0, 1, 2), present, {cell: book}, tasks=(0,))
        listed = kept(present, space)
        sums = noisy_class_sums(features[listed], present[listed], space, 3, [std], [ReleaseNoise()], [book], task=0)
        ledger.entries[:] = book.entries
        return float(own in space) if spec.labels == "data" else float(sums[0, own] @ person)

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
