"""CSLR's theorems in numbers: Theorem 2 against simulation, what grows with anchors and what does not, Proposition 3."""

from __future__ import annotations

import math
from dataclasses import astuple
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom

from dpcl_core import metrics
from dpcl_core.errors import BadInput
from dpcl_core.explorers import matching


def test_theorem_2_at_the_papers_sizes() -> None:
    assert matching.n_entries(200, 6, 4) == 4800
    assert [matching.anchors_needed(4800, 0.05, p) for p in (0.18, 0.43, 0.46)] == [111, 47, 44]
    with pytest.raises(BadInput, match=r"p = 0.0: must lie in \(0, 1\]"):
        matching.anchors_needed(4800, 0.05, 0.0)
    with pytest.raises(BadInput, match="eta"):
        matching.anchors_needed(4800, 2.0, 0.5)


def test_with_as_many_anchors_as_theorem_2_asks_for_failures_are_rarer_than_eta() -> None:
    """60 pairs, each hit by an anchor with chance 0.3 on its own; 2,000 draws. False alarm below 1e-6."""
    generator, p, n_pairs, eta = np.random.default_rng(1), 0.3, 60, 0.5
    n_elements = math.ceil(math.sqrt(n_pairs))  # N^2 counts the pairs: no slack from them
    m = matching.anchors_needed(n_elements, eta, p)
    failures = sum(bool((~(generator.random((n_pairs, m)) < p).any(axis=1)).any()) for _ in range(2000))
    assert failures <= binom.ppf(1 - 1e-6, 2000, eta)
    few = sum(bool((~(generator.random((n_pairs, m // 3)) < p).any(axis=1)).any()) for _ in range(2000))
    assert few > binom.ppf(1 - 1e-6, 2000, eta), "a third of the anchors does not do"


def _signatures() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    modes = np.arange(24) % 4
    centres = generator.standard_normal((4, 400))
    return centres[modes] + 0.2 * generator.standard_normal((24, 400)), modes


def test_on_nested_anchors_the_smallest_margin_never_falls() -> None:
    signatures, modes = _signatures()
    margins = [matching.separation(signatures[:, :m], modes, 1.0).least_margin for m in range(1, 60)]
    assert margins == sorted(margins)


def test_separation_is_what_a_loop_over_pairs_finds() -> None:
    signatures, modes, gamma = *_signatures(), 0.8
    signatures = signatures[:, :30]
    hits, margins, inside = [], [], []
    for i in range(24):
        for j in range(i):
            apart = np.abs(signatures[i] - signatures[j])
            if modes[i] == modes[j]:
                inside.append(apart.max() > gamma / 2)
            else:
                hits.append(np.mean(apart >= gamma))
                margins.append(apart.max())
    found = matching.separation(signatures, modes, gamma)
    assert astuple(found) == pytest.approx((np.mean(hits), min(hits), min(margins), np.mean(inside)))


def test_more_anchors_pull_entries_of_one_mode_apart_too() -> None:
    """What Theorem 2 does not say: its "consequently" needs none of these pairs to differ by gamma / 2."""
    signatures, modes = _signatures()
    shares = [matching.separation(signatures[:, :m], modes, 1.0).apart_inside for m in (2, 20, 200)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9


def test_without_pairs_there_is_no_number() -> None:
    assert math.isnan(matching.separation(np.ones((3, 2)), np.zeros(3, np.int64), 1.0).mean_hit)
    assert math.isnan(matching.separation(np.ones((2, 2)), np.array([0, 1]), 1.0).apart_inside)


@pytest.mark.parametrize("n_modes", [1, 2, 3, 4, 5])
def test_a_random_order_is_wrong_somewhere_and_in_most_slots(n_modes: int) -> None:
    orders = list(permutations(range(n_modes)))
    not_all = np.mean([order != tuple(range(n_modes)) for order in orders])
    wrong = np.mean([[slot != k for k, slot in enumerate(order)] for order in orders])
    assert matching.misaligned(n_modes) == pytest.approx((not_all, wrong))


def test_the_last_theorem_has_no_content_at_the_papers_sizes_and_the_identity_of_table_2_and_3() -> None:
    assert matching.forgetting_terms(384, 500, 3) == pytest.approx((0.876, 0.577), abs=1e-3)
    assert metrics.right_after_learning(62.1, -7.1, 4) == pytest.approx(67.425)
