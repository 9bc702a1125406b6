"""Ranking measures against scikit-learn and loops; the plain pattern word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from dpcl_core.events import ScoredText
from dpcl_core.explorers.tokens import AGAINST, EVERY, auroc, average_precision, by_kind, gathered, patterns, recall, scores
from tests.support.texts import SCORED


@pytest.mark.parametrize("digits", [1, 6])
def test_measures_equal_those_of_scikit_learn_ties_included(digits: int) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        is_hit = random.random(200) < 0.3
        score = np.round(random.random(200) + 0.3 * is_hit, digits)
        assert auroc(score, is_hit) == pytest.approx(roc_auc_score(is_hit, score), abs=1e-12)
        assert average_precision(score, is_hit) == pytest.approx(average_precision_score(is_hit, score), abs=1e-12)


def test_auroc_is_the_share_of_pairs_in_order() -> None:
    score, is_hit = np.array([0.1, 0.5, 0.5, 0.9]), np.array([False, True, False, True])
    pairs = [1.0 if hit > other else 0.5 if hit == other else 0.0 for hit in (0.5, 0.9) for other in (0.1, 0.5)]
    assert auroc(score, is_hit) == np.mean(pairs)


def test_nothing_to_tell_apart_is_no_number() -> None:
    none = np.zeros(3, np.bool_)
    assert math.isnan(auroc(np.arange(3.0), none))
    assert math.isnan(auroc(np.arange(3.0), ~none))
    assert math.isnan(average_precision(np.arange(3.0), none))
    assert math.isnan(recall(np.arange(3.0), none, 0.5))
    empty = gathered([])
    assert not empty.is_private.any()
    assert math.isnan(scores(np.zeros(0), empty).auroc[EVERY])


def test_an_oracle_has_1_everywhere_and_a_constant_a_half() -> None:
    tokens = gathered([SCORED, SCORED])
    oracle = scores(tokens.is_private.astype(np.float64), tokens)
    assert set(oracle.auroc.values()) == {1.0}
    assert set(oracle.precision.values()) == {1.0}
    flat = scores(np.zeros(len(tokens.kinds)), tokens)
    assert set(flat.auroc.values()) == {0.5}
    assert flat.precision == pytest.approx(flat.share)


def test_look_alikes_are_not_private_and_are_a_group_of_their_own() -> None:
    tokens = gathered([SCORED])
    assert tokens.is_private.tolist() == [kind == "NAME" for kind in SCORED.kinds]
    assert tokens.is_lookalike.tolist() == [kind == "D:city" for kind in SCORED.kinds]
    score = np.where(tokens.is_lookalike, 2.0, np.where(tokens.is_private, 1.0, 0.0))
    found = scores(score, tokens)
    assert found.auroc[AGAINST] == 0.0
    assert found.auroc[EVERY] == pytest.approx(6 / 7)
    assert by_kind(score, tokens) == {"D:city": 1.0, "NAME": 1.0}


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ((" plain", " words"), [False, False]),
        ((" O", "kafor", " said"), [True, True, False]),  # the capital letter marks the whole word
        ((" grace", ".o", "@", "example.org", " x"), [True, True, True, True, False]),
        ((" 5", "5", " 7", "th"), [True, True, False, False]),  # one digit is not two
        ((" ", "\n", ""), [False, False, False]),
        (("É", "t", "é", " été"), [True, True, True, False]),
        ((), []),
    ],
)
def test_the_pattern_word_by_word(tokens: tuple[str, ...], expected: list[bool]) -> None:
    assert patterns(tokens) == expected


def test_the_pattern_is_gathered_with_its_tokens() -> None:
    text = ScoredText(("A", " b"), (0.5, 0.5), (0.0, 0.0), (False, True), ("", "NAME"), "")
    tokens = gathered([text, text])
    assert tokens.has_pattern.tolist() == [True, False] * 2
    assert tokens.is_stop.tolist() == [False, True] * 2
