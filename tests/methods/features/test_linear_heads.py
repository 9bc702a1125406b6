"""Heads trained in closed form: against Opacus, against a loop, on neighbours, and their noise against its law."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT
from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.features.linear_heads import Prepared, clipped_sums
from dpcl_core.privacy.gaussian import grid32
from dpcl_core.privacy.noise import Batches, ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell
from tests.methods.training import N_FEATURES, Prescribed, Recorded, Silent, data, opacus, plan, spreads, told, trained_heads

SPACE = (0, 1, 2, 3)
BATCHES = ([0, 3, 4, 7, 9, 20], [1, 2, 5], [], [11, 12, 13, 29], [6], [0, 1, 2, 3, 8, 17, 25])


def some_weights(n_budgets: int = 1, n_columns: int = 4, seed: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_budgets, n_columns, N_FEATURES + 1))


def test_training_equals_opacus_on_the_same_batches_and_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights after six steps of Opacus' hooks and optimizer, with Adam, in float64; one batch is empty.

    Up to the grid on which our sums are exact, 2^-22 of the clipping norm.
    """
    torch = pytest.importorskip("torch")
    from opacus import GradSampleModule

    features, labels = data()
    generator = np.random.default_rng(1)
    draws = [generator.standard_normal((4, N_FEATURES + 1)) for _ in BATCHES]
    schedule, sigma = plan(), 1.3
    ours = trained_heads(
        linear_heads.fresh([SPACE], N_FEATURES, 4, np.float64),
        features, labels, schedule, [sigma], Prescribed(BATCHES), [Recorded(draws)],  # type: ignore[arg-type]
    )  # fmt: skip

    module = torch.nn.Linear(N_FEATURES, 4).double()
    torch.nn.init.zeros_(module.weight)
    torch.nn.init.zeros_(module.bias)
    wrapped = GradSampleModule(module, loss_reduction="sum")
    waiting: list[object] = []
    adam = torch.optim.Adam(wrapped.parameters(), lr=schedule.learning_rate)
    optimizer = opacus(monkeypatch, adam, sigma, schedule, waiting)
    for batch, draw in zip(BATCHES, draws, strict=True):
        waiting[:] = [torch.from_numpy(draw[:, :-1].copy()), torch.from_numpy(draw[:, -1].copy())]
        optimizer.zero_grad()
        inputs, targets = torch.from_numpy(features[batch]), torch.from_numpy(labels[batch])
        torch.nn.functional.cross_entropy(wrapped(inputs), targets, reduction="sum").backward()
        optimizer.step()
    np.testing.assert_allclose(ours.weights[0, :, :-1], module.weight.detach().numpy(), rtol=0, atol=2e-7)
    np.testing.assert_allclose(ours.weights[0, :, -1], module.bias.detach().numpy(), rtol=0, atol=2e-7)


def test_clipped_sums_equal_a_loop_over_examples_with_a_norm_for_each_budget() -> None:
    """Up to the grid on which they are exact: two numbers are cut off by less than 2^-22 each, for each of 15 examples."""
    features, labels = data()
    weights = some_weights(n_budgets=2)
    batch = np.arange(0, 30, 2)
    longest = np.sqrt((features[batch] ** 2).sum(axis=1) + 1)
    clips = np.quantile(longest, [0.3, 0.6])
    prepared = Prepared.of(features, labels, np.ones((2, 4), bool), 15.0, np.dtype(np.float64))
    found, _ = clipped_sums(prepared, batch, weights, clips)
    for budget, clip in enumerate(clips):
        total = np.zeros((4, N_FEATURES + 1))
        n_clipped = 0
        for place in batch:
            row = np.append(features[place], 1.0)
            raised = np.exp(weights[budget] @ row)
            gradient = np.outer(raised / raised.sum() - np.eye(4)[labels[place]], row)
            norm = math.sqrt(float((gradient**2).sum()))
            n_clipped += norm > clip
            total += gradient * min(1.0, clip / (norm + 1e-6))
        assert 0 < n_clipped < len(batch)
        np.testing.assert_allclose(found[budget] * clip, total, rtol=0, atol=clip * 15 * 2 * 2.0**-22)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_of_a_step_has_the_announced_spread(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square of 48,000 draws on an empty batch: false alarm 1e-6; a spread 10 % wrong would be seen always."""
    start = linear_heads.fresh([range(20)], 99, 20, dtype)
    nobody = np.zeros((0, 99)), np.zeros(0, dtype=np.int64)
    found: list[np.ndarray] = []
    monkeypatch.setattr(linear_heads.Adam, "step", lambda _, weights, gradient: found.append(gradient.ravel().copy()))
    sigma = 1.6
    trained_heads(start, *nobody, plan(n_steps=24), [sigma], Batches(0.3, None), [ReleaseNoise()])
    drawn = np.concatenate(found)
    assert len(drawn) == 24 * 2000
    assert len({step.tobytes() for step in found}) == 24  # no step takes another's noise again
    assert [spreads(drawn, factor * sigma * 0.7 / 9.0) for factor in (1, 0.9, 1.1)] == [True, False, False]


@pytest.mark.parametrize("rows", [np.zeros((0, 7)), np.full((1, 7), 3.3), np.full((40, 7), 1e-3)])
def test_no_last_digit_of_a_step_tells_whose_sums_it_has(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody, somebody or a crowd that needs two products: all sums come as multiples of the noise's own public grid."""
    found: list[np.ndarray] = []
    monkeypatch.setattr(linear_heads.Adam, "step", lambda _, weights, gradient: found.append(gradient.astype(np.float64)))
    labels = np.arange(len(rows)) % 4
    sums_are_gradients = plan(clip_norm=1.0, expected_batch=1.0)
    trained_heads(
        linear_heads.fresh([SPACE], 7, 4), rows, labels, sums_are_gradients, [1.3], Batches(1.0, None), [ReleaseNoise()]
    )
    steps = np.stack(found) / grid32(1.3)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert np.gcd.reduce(np.abs(steps).astype(np.int64).ravel()) == 1  # and of no coarser one


def test_noise_does_not_tell_in_which_precision_the_sums_came() -> None:
    """The same sums and the same bits, once in single and once in double precision: the same result, to the last digit."""

    def bits() -> Callable[[int], bytes]:
        return np.random.default_rng(0).bytes

    clean = np.random.default_rng(1).integers(-(2**24), 2**24, (4, 500)).astype(np.float32) * np.float32(2.0**-18)
    for multipliers in ((0.01, 0.7), (40.0, 120.0), (500.0, 1e4)):
        noises = [[ReleaseNoise(chosen)] * 2 for chosen in (bits(), bits())]
        single, double = (linear_heads._addition(own, multipliers, clean[:2], 1) for own in noises)
        sums = clean.reshape(2, 2, 500)
        np.testing.assert_array_equal(single(sums.copy()), double(sums.astype(np.float64)))


def test_budgets_side_by_side_learn_what_each_would_alone() -> None:
    """They share batches; weights, clipping, label spaces and noise are each one's own."""
    features, labels = data()
    spaces, sigmas = [(0, 1, 2, 3), (1, 3), (0, 2)], [0.0, 0.8, 2.0]
    generator = np.random.default_rng(2)
    draws = [[generator.standard_normal((4, N_FEATURES + 1)) for _ in BATCHES] for _ in spaces]

    def learned(which: list[int]) -> linear_heads.Heads:
        allowed = np.array([np.isin(np.arange(4), spaces[k]) for k in which])
        start = linear_heads.Heads(np.zeros((len(which), 4, N_FEATURES + 1)), np.arange(4), allowed, 4)
        noises = [Recorded(draws[k]) for k in which]
        return trained_heads(start, features, labels, plan(), [sigmas[k] for k in which], Prescribed(BATCHES), noises)  # type: ignore[arg-type]

    together = learned([0, 1, 2])
    for k in range(3):
        np.testing.assert_allclose(together.weights[k], learned([k]).weights[0], atol=1e-13)


def test_examples_of_labels_outside_the_space_are_as_if_absent() -> None:
    features, labels = data()
    inside = np.isin(labels, (1, 3))
    start = linear_heads.fresh([(1, 3)], N_FEATURES, 4, np.float64)
    every = [list(range(int(inside.sum())))] * 6
    with_others = trained_heads(start, features, labels, plan(), [0.0], Prescribed(every), [Silent()])  # type: ignore[arg-type]
    without = trained_heads(start, features[inside], labels[inside], plan(), [0.0], Prescribed(every), [Silent()])  # type: ignore[arg-type]
    np.testing.assert_array_equal(with_others.weights, without.weights)
    scores = with_others.logits(features)
    assert np.isneginf(scores[0][:, [0, 2]]).all()
    assert np.isfinite(scores[0][:, [1, 3]]).all()


@pytest.mark.parametrize("space", [(0, 1), ()])
def test_an_empty_task_takes_the_same_noisy_steps(space: tuple[int, ...]) -> None:
    """Neither weights of zero nor fewer steps tell that nobody was there; a budget without any label trains as well."""
    spaces = [space, (0, 1)]
    start = linear_heads.fresh(spaces, N_FEATURES, 4)
    nothing = np.zeros((0, N_FEATURES)), np.zeros(0, dtype=np.int64)
    training = linear_heads.train_heads(start, *nothing, plan(), [1.0, 1.0], Batches(0.3, None), [ReleaseNoise()] * 2)
    steps, found = told(training)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert (found.weights != 0).all()


def test_an_empty_task_and_one_person_are_hard_to_tell_apart() -> None:
    """Best threshold on the length of the weights, 600 trainings a side (paper card, C14): advantage below 0.15.

    Chance alone gives more with probability below 1e-5 (two-sample Kolmogorov and Smirnov). A head left at zero: 1.
    """
    start = linear_heads.fresh([(0, 1)], N_FEATURES, 2)
    nobody, person = np.zeros((0, N_FEATURES)), np.full((1, N_FEATURES), 1.0)

    def lengths(features: np.ndarray) -> np.ndarray:
        given = start, features, np.zeros(len(features), dtype=np.int64), plan(n_steps=20), [4.0]
        trained = (trained_heads(*given, Batches(0.3, None), [ReleaseNoise()]) for _ in range(600))
        return np.array([np.linalg.norm(one.weights) for one in trained])

    without, with_one = np.sort(lengths(nobody)), np.sort(lengths(person))
    cuts = np.concatenate([without, with_one])
    gap = np.searchsorted(without, cuts) / 600 - np.searchsorted(with_one, cuts) / 600
    assert np.abs(gap).max() < 0.15


def test_training_starts_from_the_model_it_is_given() -> None:
    features, labels = data()
    start = linear_heads.fresh([SPACE], N_FEATURES, 4, np.float64)
    first = trained_heads(start, features, labels, plan(), [0.0], Prescribed(BATCHES), [Silent()])  # type: ignore[arg-type]
    before = first.weights.copy()
    second = trained_heads(first, features, labels, plan(), [0.0], Prescribed(BATCHES), [Silent()])  # type: ignore[arg-type]
    np.testing.assert_array_equal(first.weights, before)
    assert np.abs(second.weights - before).max() > 1e-3


@pytest.mark.parametrize(("learning_rate", "within"), [(1e38, 2), (1000.0, 5), (100.0, 100)])
def test_a_diverging_run_stops_at_once_and_says_where(learning_rate: float, within: int) -> None:
    """Noise of no data at all pushes the weights: a step of Adam is about a learning rate long."""
    features, labels = data()
    start = linear_heads.fresh([SPACE], N_FEATURES, 4)
    reckless = plan(learning_rate=learning_rate, n_steps=400)
    with pytest.raises(Diverged) as stopped, np.errstate(all="ignore"):
        trained_heads(start, features, labels, reckless, [1.0], Batches(0.3, 0), [SeededNoise(Cell(1.0, 0), "a test")])
    assert f"of 400 with params.learning_rate = {learning_rate:g}" in str(stopped.value)
    assert int(str(stopped.value).split()[4]) <= within


@pytest.mark.parametrize("sigma", [0.0, 1.0, 30.0])
def test_the_fastest_training_that_is_tuned_for_stays_far_from_the_bound(sigma: float) -> None:
    """At the upper end of Table A2's learning rates, however much noise there is."""
    features, labels = data()
    start = linear_heads.fresh([SPACE], N_FEATURES, 4)
    fastest = plan(learning_rate=0.01, n_steps=2000)
    found = trained_heads(start, features, labels, fastest, [sigma], Batches(0.3, 0), [ReleaseNoise()])
    assert np.abs(found.weights).max() < LARGEST_WEIGHT / 20


def test_one_budget_that_diverges_ends_the_training_of_its_seed() -> None:
    """No weights of the others are handed out: a run has all of its models or none."""
    features, labels = data()
    start = linear_heads.fresh([SPACE, SPACE], N_FEATURES, 4)
    far = linear_heads.Heads(np.stack([start.weights[0], start.weights[1] + 999.9]), start.columns, start.allowed, 4)
    with pytest.raises(Diverged, match="diverged at step"):
        trained_heads(far, features, labels, plan(learning_rate=0.5), [1.0, 1.0], Batches(0.3, 0), [ReleaseNoise()] * 2)
