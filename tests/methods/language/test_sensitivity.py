"""PeCL's scores, the weights that losses give a token, and the losses themselves, against the printed formulas."""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from dpcl_core.methods.language import params, sensitivity
from dpcl_core.methods.language.gradients import Batch, log_probs
from dpcl_core.methods.language.public_text import ANSWER, TEMPLATE, TEXT
from dpcl_core.methods.language.training import Unlearning, pecl_loss, task_loss
from tests.methods.language import tiny
from tests.support.asserting import refuses

FORMS: tuple[sensitivity.Form, ...] = get_args(sensitivity.Form)


def tables(n_tasks: int, n_tables: int, size: int = 40) -> list[np.ndarray]:
    """Counts of many shapes: from flat to steep, with tokens of no task and of all."""
    generator = np.random.default_rng(0)
    return [
        generator.poisson(generator.gamma(shape, 30, (n_tasks, size))) * (generator.random((1, size)) < 0.9)
        for shape in 0.1 + 3 * generator.random(n_tables)
    ]


def test_the_closed_form_is_equation_1() -> None:
    """1 - P^alpha exp(-(1 - alpha) Score2) and its square, to 1e-12, against the sum in the exponent."""
    generator = np.random.default_rng(1)
    p, score2 = np.exp(-generator.gamma(1.0, 4.0, 5000)), generator.uniform(-0.154, 0.366, 5000)
    nobody = np.zeros(5000, dtype=bool)
    for alpha in (0.0, 0.2, 0.5, 0.8, 1.0):
        found = sensitivity.scores(np.log(p), score2, nobody, alpha=alpha)
        np.testing.assert_allclose(found, 1 - np.exp(-(alpha * -np.log(p) + (1 - alpha) * score2)), rtol=0, atol=1e-12)
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


@pytest.mark.parametrize(("n_salient", "low", "high"), [
    (0, 0, 0.3584), (1, 0.0366, 0.3663), (2, 0.0462, 0.3235), (3, 0.0405, 0.2433), (4, 0.0243, 0.1337), (5, 0, 0),
    (6, -0.0308, -0.1542),
])  # fmt: skip
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
    assert sensitivity.counts(np.array([[3, 1, 3, -1], [3, -1, -1, -1]], dtype=np.int32), 5).tolist() == [0, 1, 0, 3, 0]
    assert sensitivity.salience(np.array([[0, 1, 0, 3], [0, 0, 0, 0]])).tolist() == [[0, 1 / 3, 0, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("form", FORMS)
def test_scopes_look_at_what_they_say(form: sensitivity.Form) -> None:
    """Seen: later tasks change nothing. Public and off: no private text changes anything. All: later tasks do."""
    before, public = tables(6, 1)[0], tables(2, 1)[0]
    later, own = before.copy(), before.copy()
    later[4:] = np.roll(later[4:], 1, axis=1) + 7
    own[:] = np.roll(own, 3, axis=1)

    def found(scope: sensitivity.Scope, of_tasks: np.ndarray, task: int = 2) -> np.ndarray:
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
    np.testing.assert_allclose(sensitivity.nominal_epsilon(np.array([1, 0.6, 0.5, 0])), [1, 2.44, 3.25, 10], atol=1e-12)
    score = sensitivity.scores(np.zeros(1), np.array([math.log(6 / 7)]), np.zeros(1, bool))
    assert score[0] == pytest.approx(-0.0801, abs=1e-4)
    assert sensitivity.nominal_epsilon(score)[0] == pytest.approx(11.50, abs=1e-9)
    said = sensitivity.out_of_range(score)
    assert said.startswith("1 token has a score below 0, down to -0.0801: the nominal budget rises to 11.50, above")
    assert sensitivity.out_of_range(np.array([0.0, 1.0])) is None
    several = str(sensitivity.out_of_range(np.array([-0.1, -0.01, 0.5])))
    assert several.startswith("2 tokens have scores below 0, down to -0.1")
    assert sensitivity.nominal_epsilon(np.array([0.5]), 2, 4)[0] == 2.5
    for lower, upper in ((0.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)):
        refuses("eps_lower", sensitivity.nominal_epsilon, np.zeros(1), lower, upper)


def test_the_penalty_falls_as_tasks_get_more_sensitive() -> None:
    """Check 14."""
    assert [sensitivity.penalty_strength(mean) for mean in (0.0, 0.4, 1.0)] == pytest.approx([10, 6.4, 1], rel=0, abs=1e-12)
    assert sensitivity.penalty_strength(0.5, 2, 4) == 3


def test_a_sentence_has_one_score_and_no_token_of_it_is_left_without_noise() -> None:
    scores = np.array([[0.0, 0.8, 0.4, 0.3], [0.0, 0.5, 0.0, 0.0]])
    found = sensitivity.sentence_scores(scores, np.array([[True, True, True, False], [True, True, False, False]]))
    np.testing.assert_allclose(found, [[0.4, 0.4, 0.4, 0], [0.25, 0.25, 0, 0]])
    np.testing.assert_array_equal(sensitivity.sentence_scores(scores, np.zeros((2, 4), bool)), 0)


def total_loss(losses: np.ndarray, scores: np.ndarray, unlearning: str, loss: str, public: np.ndarray) -> float:
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
@pytest.mark.parametrize("unlearning", get_args(sensitivity.Unlearning))
def test_weights_are_the_slope_of_the_loss_in_each_tokens_cross_entropy(unlearning: str, loss: str) -> None:
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
    refuses("gap", sensitivity.loss_weights, scores, "hinge", "full", error=ValueError)


# Losses: the printed weights by autograd, what one step does to a sensitive token, and where a term ends.


def drawn(given: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities that ask for gradients, scores in [0, 1] on texts, and a reference."""
    generator = torch.Generator().manual_seed(0)
    likely, scores, reference = (torch.rand(given.ids.shape, generator=generator, dtype=torch.float64) for _ in range(3))
    return (-3 * likely).requires_grad_(True), scores * (given.role == TEXT), -3 * reference


def slopes_of(loss: str, unlearning: Unlearning) -> tuple[Tensor, Tensor, Batch]:
    """What the total loss grows by with each token's cross-entropy, by autograd, and the scores."""
    given = tiny.batch()
    likely, scores, reference = drawn(given)
    return slopes(likely, given, loss, unlearning, scores, reference), scores, given


def slopes(likely: Tensor, given: Batch, loss: str, unlearning: Unlearning, scores: Tensor, reference: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(pecl_loss(likely, given, loss, unlearning, scores, reference).sum(), likely)
    return -found


@pytest.mark.parametrize("strength", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("loss", ["full", "answer"])
def test_published_weights_are_those_of_the_card(loss: str, sign: int, strength: float) -> None:
    """Check 9: (1 + lambda (s - theta)+) / M for full, lambda (s - theta)+ / M on the text for answer."""
    found, scores, given = slopes_of(loss, Unlearning("printed" if sign > 0 else "flipped", strength, 0.6))
    length = given.mask[:, 1:].sum(1, keepdim=True)
    extra = sign * strength * (scores - 0.6).clamp(min=0) / length
    is_text, is_answer = given.role == TEXT, given.role == ANSWER
    of_task = (given.mask & (torch.arange(given.ids.shape[1]) > 0)) / length
    if loss == "answer":
        of_task = is_answer / is_answer.sum(1, keepdim=True)
    torch.testing.assert_close(found, of_task + extra * is_text, rtol=0, atol=1e-15)


@pytest.mark.parametrize("loss", ["full", "answer"])
@pytest.mark.parametrize("form", ["printed", "flipped", "mask", "hinge"])
def test_weights_equal_those_that_pages_show(form: params.UnlearningForm, loss: str) -> None:
    given = tiny.batch()
    likely, scores, reference = drawn(given)
    found = slopes(likely, given, loss, Unlearning(form, 2.0, 0.5, margin=0.7), scores, reference)
    found, inside = found * given.mask[:, 1:].sum(1, keepdim=True), (given.role == TEXT).numpy()
    gap = (reference - likely).detach().numpy()
    shown = sensitivity.loss_weights(scores.numpy(), form, loss, strength=2.0, threshold=0.5, gap=gap, margin=0.7)
    np.testing.assert_allclose(found.numpy()[inside], shown[inside], rtol=0, atol=2e-7)  # weights are single


def test_no_gradient_flows_through_the_scores() -> None:
    given = tiny.batch()
    likely, scores, reference = drawn(given)
    scores.requires_grad_(True)
    for form in ("printed", "hinge", "npo"):
        total = pecl_loss(likely, given, "full", Unlearning(form), scores, reference).sum()
        assert torch.autograd.grad(total, [likely, scores], allow_unused=True)[1] is None


@pytest.mark.parametrize("form", ["mask", "unlikelihood", "npo", "hinge"])
def test_bounded_forms_take_sensitive_tokens_out_of_the_task(form: params.UnlearningForm) -> None:
    """Without their own term nothing of them is left, and other tokens count as before."""
    without, scores, given = slopes_of("full", Unlearning(form, 0.0, 0.6))
    plain, _, _ = slopes_of("full", Unlearning("none"))
    is_sensitive = (given.role == TEXT) & (scores > 0.6)
    assert is_sensitive.any()
    assert not without[is_sensitive].any()
    torch.testing.assert_close(without[~is_sensitive], plain[~is_sensitive])


@pytest.mark.parametrize("loss", ["full", "answer"])
def test_the_loss_is_a_mean_inside_each_text(loss: str) -> None:
    """A text's loss does not depend on who is in the batch; only the text that answers is learned under answer."""
    net, of = tiny.adapted(), task_loss(loss)
    whole = of.of(log_probs(net, tiny.batch()), tiny.batch())
    for row in tiny.ALL:
        alone = tiny.batch(tiny.ALL[row : row + 1])
        torch.testing.assert_close(of.of(log_probs(net, alone), alone)[0], whole[row], rtol=0, atol=1e-12)


def test_template_and_padding_have_no_part_in_unlearning() -> None:
    given = tiny.batch()
    likely, _, reference = drawn(given)
    found = slopes(likely, given, "answer", Unlearning("printed"), torch.ones_like(likely), reference)
    assert not found[(given.role == TEMPLATE) | ~given.mask].any()
    assert found[given.role == TEXT].all()


def step_on_one_token(form: params.UnlearningForm, margin: float) -> tuple[float, float]:
    """How much log p of one sensitive token rises in a gradient step on its text, and the length of that step's gradient."""
    net, given, place = tiny.adapted(), tiny.batch(np.array([1])), 5
    parameters, before = list(net.trainable().values()), log_probs(net, given).detach()
    scores = torch.zeros_like(before)
    scores[0, place] = 1.0
    total = pecl_loss(log_probs(net, given), given, "full", Unlearning(form, 5.0, 0.6, margin), scores, before).sum()
    steps = torch.autograd.grad(total, parameters)
    with torch.no_grad():
        for parameter, slope in zip(parameters, steps, strict=True):
            parameter -= 1e-3 * slope
        after = log_probs(net, given)
    return float(after[0, place] - before[0, place]), float(tiny.row(steps).norm())


def test_one_step_with_each_term() -> None:
    """Check 10: printed raises log p more than no term does; the hinge lowers it while it is at work, and then stops."""
    without, printed = step_on_one_token("none", 0.0)[0], step_on_one_token("printed", 0.0)[0]
    assert printed > without > 0
    assert step_on_one_token("flipped", 0.0)[0] < without
    at_work, masked, done = (step_on_one_token("hinge", margin) for margin in (2.0, -1.0, -3.0))
    assert at_work[0] < 0
    assert masked == done == step_on_one_token("mask", 0.0)  # past the margin nothing of the term is left, to the last bit


@pytest.mark.parametrize("gap", [0.0, 0.4, 0.999, 1.001, 3.0])
def test_the_hinge_ends_exactly_at_its_margin(gap: float) -> None:
    """`gap`: how many nats less likely than the public model has it the token is."""
    given = tiny.batch()
    scores, reference = (given.role == TEXT).double(), torch.full(given.ids.shape, -1.0, dtype=torch.float64)
    likely, term = (reference - gap).requires_grad_(True), Unlearning("hinge", 1.0, 0.6, margin=1.0)
    inside = slopes(likely, given, "answer", term, scores, reference)[given.role == TEXT]
    assert (inside < 0).all() if gap < 1 else not inside.any()


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.9])
@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_bounded_terms_have_their_closed_slopes(p: float, beta: float) -> None:
    """Unlikelihood: p / (1 - p). NPO: 2 p^beta / (p^beta + p_ref^beta), never above 2."""
    given = tiny.batch()
    scores, p_ref = (given.role == TEXT).double(), 0.2
    reference = torch.full(given.ids.shape, math.log(p_ref), dtype=torch.float64)
    length = given.mask[:, 1:].sum(1, keepdim=True)
    for form, expected in (("unlikelihood", p / (1 - p)), ("npo", 2 * p**beta / (p**beta + p_ref**beta))):
        likely = torch.full(given.ids.shape, math.log(p), dtype=torch.float64, requires_grad=True)
        found = -slopes(likely, given, "answer", Unlearning(form, 1.0, 0.6, beta=beta), scores, reference)
        inside = (found * length / 0.4)[given.role == TEXT]
        torch.testing.assert_close(inside, torch.full_like(inside, expected), rtol=1e-9, atol=0)
