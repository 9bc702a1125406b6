"""PeCL's scores: the printed formulas and their closed forms, ranges, scopes, and the weights that losses give a token."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest

from dpcl_core.errors import BadInput
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.sensitivity import Form, Scope, Unlearning

FORMS: tuple[Form, ...] = get_args(Form)


def tables(n_tasks: int, n_tables: int, size: int = 40) -> list[np.ndarray]:
    """Counts of many shapes: from flat to steep, with tokens of no task and of all."""
    generator = np.random.default_rng(0)
    steepness = 0.1 + 3 * generator.random(n_tables)
    return [
        generator.poisson(generator.gamma(shape, 30, (n_tasks, size))) * (generator.random((1, size)) < 0.9)
        for shape in steepness
    ]


def test_the_closed_form_is_equation_1() -> None:
    """1 - P^alpha exp(-(1 - alpha) Score2) and its square, to 1e-12, against the sum in the exponent."""
    generator = np.random.default_rng(1)
    p, score2 = np.exp(-generator.gamma(1.0, 4.0, 5000)), generator.uniform(-0.154, 0.366, 5000)
    nobody = np.zeros(5000, dtype=bool)
    for alpha in (0.0, 0.2, 0.5, 0.8, 1.0):
        found = sensitivity.scores(np.log(p), score2, nobody, alpha=alpha)
        printed = 1 - np.exp(-(alpha * -np.log(p) + (1 - alpha) * score2))
        np.testing.assert_allclose(found, printed, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found, 1 - p**alpha * np.exp(-(1 - alpha) * score2), rtol=0, atol=1e-12)
        np.testing.assert_allclose((1 - found) ** 2, p ** (2 * alpha) * np.exp(-2 * (1 - alpha) * score2), atol=1e-12)
    half = sensitivity.scores(np.log(p), score2, nobody)
    np.testing.assert_allclose(sensitivity.nominal_epsilon(half), 1 + 9 * p * np.exp(-score2), rtol=1e-12)


def test_known_scores() -> None:
    """A uniform digit at alpha 0.5; what probability exceeds the threshold, at five values of alpha (section 3)."""
    none = np.zeros(1)
    assert sensitivity.scores(np.log([0.1]), none, none > 0)[0] == pytest.approx(0.6838, abs=5e-5)
    for alpha, limit in ((0.2, 0.010), (0.3, 0.047), (0.5, 0.160), (0.7, 0.270), (0.8, 0.318)):
        exact = 0.4 ** (1 / alpha)
        assert exact == pytest.approx(limit, abs=5e-4)
        either = sensitivity.scores(np.log([exact * 0.999, exact * 1.001]), np.zeros(2), np.zeros(2) > 0, alpha=alpha)
        assert (either > 0.6).tolist() == [True, False]


def test_stop_words_score_exactly_nothing_and_the_clamp_keeps_all_in_range() -> None:
    log_p, score2 = np.array([-50.0, -1e-9, -3.0]), np.array([0.3, -0.154, 0.0])
    assert sensitivity.scores(log_p, score2, np.array([True, False, False]))[0] == 0.0
    free = sensitivity.scores(log_p, score2, np.zeros(3, bool))
    held = sensitivity.scores(log_p, score2, np.zeros(3, bool), clamped=True)
    assert free[1] < 0 == held[1]
    assert free[2] == held[2]
    assert sensitivity.scores(np.array([-1e9]), np.zeros(1), np.zeros(1, bool))[0] == 1.0


@pytest.mark.parametrize(
    ("n_salient", "low", "high"),
    [(0, 0, 0.3584), (1, 0.0366, 0.3663), (2, 0.0462, 0.3235), (3, 0.0405, 0.2433), (4, 0.0243, 0.1337), (5, 0, 0),
     (6, -0.0308, -0.1542)],
)  # fmt: skip
def test_score2_by_the_number_of_tasks_with_the_token(n_salient: int, low: float, high: float) -> None:
    """N = 6, tau = 0.2: the ends of each range are reached, exactly 0 at five tasks, negative at all six."""
    for share, rest, expected in ((0.2, 0.0, low), (1.0, 0.2 - 1e-9, high)):
        shares = np.array([share] * n_salient + [rest] * (6 - n_salient))
        of_tasks = np.stack([np.round(shares * 10**10), np.full(6, 10**10)], axis=1).astype(np.int64)
        found = sensitivity.commonness(of_tasks)[0]
        assert found == pytest.approx(expected, abs=1e-4)
        assert n_salient != 5 or found == 0.0


def test_score2_stays_in_its_range_and_the_smoothed_form_is_never_negative() -> None:
    for of_tasks in tables(6, 300):
        printed, clipped, smoothed = (sensitivity.commonness(of_tasks, form) for form in FORMS)
        assert (printed >= -0.15416).all()
        assert (printed < 0.36628).all()
        assert (smoothed >= 0).all()
        np.testing.assert_array_equal(clipped, np.maximum(printed, 0))
    for n_tasks in (1, 2, 3):
        assert all((sensitivity.commonness(one, "smoothed") >= 0).all() for one in tables(n_tasks, 50))


def test_score2_is_the_sum_of_equation_3() -> None:
    """Token by token, task by task, as it is printed."""
    (of_tasks,) = tables(4, 1)
    for token in range(of_tasks.shape[1]):
        shares = [row[token] / row.max() for row in of_tasks]
        salient = sum(share >= 0.2 for share in shares)
        expected = sum(share * math.log(4 / (1 + salient)) for share in shares) / 4
        assert sensitivity.commonness(of_tasks)[token] == pytest.approx(expected, abs=1e-12)


def test_counts_leave_out_padding() -> None:
    tokens = np.array([[3, 1, 3, -1], [3, -1, -1, -1]], dtype=np.int32)
    assert sensitivity.counts(tokens, 5).tolist() == [0, 1, 0, 3, 0]
    assert sensitivity.salience(np.array([[0, 1, 0, 3], [0, 0, 0, 0]])).tolist() == [[0, 1 / 3, 0, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("form", FORMS)
def test_scopes_look_at_what_they_say(form: Form) -> None:
    """Seen: later tasks change nothing. Public and off: no private text changes anything. All: later tasks do."""
    before, public = tables(6, 1)[0], tables(2, 1)[0]
    later, own = before.copy(), before.copy()
    later[4:] = np.roll(later[4:], 1, axis=1) + 7
    own[:] = np.roll(own, 3, axis=1)

    def found(scope: Scope, of_tasks: np.ndarray, task: int = 2) -> np.ndarray:
        return sensitivity.scoped_commonness(scope, of_tasks, public, task, form)

    np.testing.assert_array_equal(found("seen", before), found("seen", later))
    assert not np.array_equal(found("seen", before), found("seen", own))
    for scope in ("public", "off"):
        np.testing.assert_array_equal(found(scope, before), found(scope, own))
    assert not np.array_equal(found("all", before), found("all", later))
    assert not found("off", before).any()
    assert (found("seen", before, 0) >= 0).all(), "the printed logarithm would be negative for a first task"
    np.testing.assert_array_equal(sensitivity.scoped_commonness("public", before, public[:0], 0, form), 0)


def test_the_nominal_budget_at_known_scores_and_beyond_its_range() -> None:
    found = sensitivity.nominal_epsilon(np.array([1, 0.6, 0.5, 0]))
    np.testing.assert_allclose(found, [1, 2.44, 3.25, 10], atol=1e-12)
    score = sensitivity.scores(np.zeros(1), np.array([math.log(6 / 7)]), np.zeros(1, bool))
    assert score[0] == pytest.approx(-0.0801, abs=1e-4)
    assert sensitivity.nominal_epsilon(score)[0] == pytest.approx(11.50, abs=1e-9)
    said = sensitivity.out_of_range(score)
    assert said is not None
    assert said.startswith("1 token has a score below 0, down to -0.0801: the nominal budget rises to 11.50, above")
    assert sensitivity.out_of_range(np.array([0.0, 1.0])) is None
    several = str(sensitivity.out_of_range(np.array([-0.1, -0.01, 0.5])))
    assert several.startswith("2 tokens have scores below 0, down to -0.1")
    assert sensitivity.nominal_epsilon(np.array([0.5]), 2, 4)[0] == 2.5
    for lower, upper in ((0.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(BadInput, match="eps_lower"):
            sensitivity.nominal_epsilon(np.zeros(1), lower, upper)


def test_the_penalty_falls_as_tasks_get_more_sensitive() -> None:
    assert [sensitivity.penalty_strength(mean) for mean in (0.0, 0.4, 1.0)] == pytest.approx([10, 6.4, 1])
    assert sensitivity.penalty_strength(0.5, 2, 4) == 3


def test_a_sentence_has_one_score_and_no_token_of_it_is_left_without_noise() -> None:
    scores = np.array([[0.0, 0.8, 0.4, 0.3], [0.0, 0.5, 0.0, 0.0]])
    is_token = np.array([[True, True, True, False], [True, True, False, False]])
    found = sensitivity.sentence_scores(scores, is_token)
    np.testing.assert_allclose(found, [[0.4, 0.4, 0.4, 0], [0.25, 0.25, 0, 0]])
    np.testing.assert_array_equal(sensitivity.sentence_scores(scores, np.zeros((2, 4), bool)), 0)


def total_loss(losses: np.ndarray, scores: np.ndarray, unlearning: Unlearning, loss: str, public: np.ndarray) -> float:
    """Eqs. 12 and 13 at lambda 2, theta_u 0.6, margin 0.5, times M, term by term; the label's own tokens left out."""
    total = 0.0
    for own, score, reference in zip(losses, scores, public, strict=True):
        private = score > 0.6
        if loss == "full" and not (private and unlearning in ("mask", "hinge")):
            total += own
        if private:
            term = {"printed": own, "flipped": -own, "hinge": max(0.0, reference + 0.5 - own)}.get(unlearning, 0.0)
            total += 2 * (score - 0.6) * term
    return total


@pytest.mark.parametrize("loss", ["full", "answer"])
@pytest.mark.parametrize("unlearning", get_args(Unlearning))
def test_weights_are_the_slope_of_the_loss_in_each_tokens_cross_entropy(unlearning: Unlearning, loss: str) -> None:
    generator = np.random.default_rng(5)
    losses, public, scores = generator.gamma(2, 1, 200), generator.gamma(2, 1, 200), generator.random(200)
    found = sensitivity.loss_weights(
        scores, unlearning, "full" if loss == "full" else "answer", strength=2, margin=0.5, gap=losses - public
    )
    for token in range(200):
        moved = losses.copy()
        moved[token] += 1e-6
        rise = total_loss(moved, scores, unlearning, loss, public) - total_loss(losses, scores, unlearning, loss, public)
        assert found[token] == pytest.approx(rise / 1e-6, abs=1e-6)
    if unlearning == "printed":
        assert (found >= (1.0 if loss == "full" else 0.0)).all(), "the printed sign learns sensitive tokens harder"


def test_printed_weights_at_known_scores() -> None:
    """Section 10: up to 1.4 at lambda 1 and 5 at lambda 10; flipped within [0.6, 1]; the hinge stops at its margin."""
    scores = np.array([0.0, 0.6, 1.0])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "printed", "full"), [1, 1, 1.4])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "printed", "full", strength=10), [1, 1, 5])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "printed", "answer"), [0, 0, 0.4])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "flipped", "full"), [1, 1, 0.6])
    np.testing.assert_allclose(sensitivity.loss_weights(scores, "mask", "full"), [1, 1, 0])
    gaps = np.array([0.9, 1.0, 1.1])
    np.testing.assert_allclose(sensitivity.loss_weights(np.ones(3), "hinge", "full", margin=1, gap=gaps), [-0.4, 0, 0])
    with pytest.raises(ValueError, match="gap"):
        sensitivity.loss_weights(scores, "hinge", "full")
