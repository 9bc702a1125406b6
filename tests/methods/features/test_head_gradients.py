"""Last layers: sums that no neighbour moves by more than one, closed forms, Opacus, noise, and cards."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT
from dpcl_core.methods.features import adapters, linear_heads, process_pool
from dpcl_core.methods.features.linear_heads import Prepared, clipped_residuals, clipped_sums
from dpcl_core.privacy.gaussian import grid32
from dpcl_core.privacy.noise import Batches, ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell
from tests.methods.training import N_FEATURES, Prescribed, Recorded, data, plan, spreads, told, trained_heads
from tests.support import second_device

STRANGE = (2e19, 1e38, -1e38, 1e300, 1e-38, 1e-45, 0.0, np.nan, np.inf, -np.inf)
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def examples(n: int, n_inputs: int, seed: int = 5) -> np.ndarray:
    """Features [n, n_inputs]; the first rows hold what nobody expects, wholly or in one place, and two rows are alike."""
    rows = np.random.default_rng(seed).standard_normal((n, n_inputs))
    for place, value in enumerate(STRANGE):
        rows[2 * place], rows[2 * place + 1, 0] = value, value
    rows[-1] = rows[-2]
    return rows


def prepared(rows: np.ndarray, n_columns: int, expected: float = 30.0, dtype: np.dtype = SINGLE) -> Prepared:
    return Prepared.of(rows, np.arange(len(rows)) % n_columns, np.ones((2, n_columns), bool), expected, dtype)


def weights_of(n_columns: int, n_inputs: int, size: float, dtype: np.dtype = SINGLE) -> np.ndarray:
    """[2, columns, n_inputs + 1], two columns alike, so that their logits tie."""
    found = np.random.default_rng(1).standard_normal((2, n_columns, n_inputs + 1)) * size
    found[:, 1] = found[:, 0]
    return found.astype(dtype)


def residuals(data: Prepared, batch: np.ndarray, weights: np.ndarray, clips: np.ndarray) -> np.ndarray:
    """[epsilons, columns, b], before anything is cut off."""
    filled = np.append(batch, np.zeros(-len(batch) % linear_heads._LANES, np.int64)).astype(np.intp)  # of 32 bits in a page
    return clipped_residuals(data, filled, data.directions[filled], None, weights, clips)[:, :, : len(batch)]


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize(("n_inputs", "n_columns"), [(1, 2), (64, 10), (193, 33), (400, 10), (1030, 7)])
@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_what_an_example_adds_depends_on_nobody_else(dtype: np.dtype, n_inputs: int, n_columns: int, size: float) -> None:
    """Bit by bit, also before anything is cut off: in batches of other sizes, at other places, in another order of data."""
    rows, clips = examples(60, n_inputs), np.array([0.5, 1e6], dtype)
    data, weights = prepared(rows, n_columns, dtype=dtype), weights_of(n_columns, n_inputs, size, dtype)
    alone = residuals(data, np.arange(60), weights, clips)
    generator = np.random.default_rng(2)
    for count in (1, 2, 5, 15, 16, 17, 31, 47, 48, 59, 60):
        batch = generator.permutation(60)[:count]
        np.testing.assert_array_equal(residuals(data, batch, weights, clips), alone[:, :, batch])
    order = generator.permutation(60)
    moved = Prepared.of(rows[order][3:], data.targets[order][3:], data.allowed, 30.0, dtype)
    for name in ("rows", "lengths", "directions"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(data, name)[order][3:])


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-25, 1e-20, 1e-12, 0.3, 1000.0])
@pytest.mark.parametrize(("n_inputs", "n_columns"), [(1, 2), (193, 33), (1030, 7)])
def test_no_order_of_additions_rounds_logits(dtype: np.dtype, size: float, n_inputs: int, n_columns: int) -> None:
    """No sum of absolute products, in any part of it, needs more digits than the precision has; and logits are near."""
    rows = examples(60, n_inputs)
    rows[-3] = 0
    rows[-3, 0] = 1e6  # all of its length in one number, as is that of the weights beside it
    data, weights = prepared(rows, n_columns, dtype=dtype), weights_of(n_columns, n_inputs, size, dtype)
    weights[0, 1:], weights[0, 0, 1:] = 0, 0
    whole, per_step = linear_heads.whole_weights(data, weights)
    np.testing.assert_array_equal(whole, np.rint(whole))
    directions = data.directions.astype(np.float64) / data.unit
    most = np.abs(whole.reshape(-1, n_inputs + 1).astype(np.float64)) @ np.abs(directions).T
    assert most.max() <= linear_heads._LARGEST_WHOLE[dtype]
    if size >= 1e-12:
        assert most.max() > linear_heads._LARGEST_WHOLE[dtype] / 16  # and few digits are wasted
        lengths = np.linalg.norm(weights.reshape(2, -1).astype(np.float64), axis=1)
        assert (np.abs(whole * per_step[:, None, None] - weights) <= lengths[:, None, None] * 2.0**-13).all()


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize(("n_inputs", "n_columns"), [(1, 2), (64, 10), (193, 33)])
@pytest.mark.parametrize("size", [0.0, 1000.0])
def test_sums_of_neighbours_differ_by_the_norm(dtype: np.dtype, n_inputs: int, n_columns: int, size: float) -> None:
    """In whole numbers, so that nothing is rounded away: of 60 examples, one after the other is left out."""
    clips = np.full(2, 0.5, dtype)
    data, weights = prepared(examples(60, n_inputs), n_columns, dtype=dtype), weights_of(n_columns, n_inputs, size, dtype)
    step = int(1 / data.unit)
    everyone = np.arange(60)
    whole = clipped_sums(data, everyone, weights, clips)[0] * np.float64(step)
    assert np.isfinite(whole).all()
    longest = 0
    for place in everyone[:: 1 if dtype == SINGLE and n_inputs < 193 else 7]:
        for change in whole - clipped_sums(data, np.delete(everyone, place), weights, clips)[0] * np.float64(step):
            length = sum(int(number) ** 2 for number in change.ravel())
            assert length <= step**2
            longest = max(longest, length)
    assert longest > (0.9 * step) ** 2  # no looser bound holds
    broken = [2 * place + k for place, value in enumerate(STRANGE) if not np.isfinite(value) for k in (0, 1)]
    np.testing.assert_array_equal(clipped_sums(data, np.array(broken), weights, clips)[0], 0)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_sums_of_any_order_and_number_of_cores_are_the_same(dtype: np.dtype) -> None:
    """Rows of one number fill a direction with its largest steps, so that single precision alone could not hold the sums."""
    rows = np.concatenate([np.full((500, 1), 1e6), np.random.default_rng(0).standard_normal((500, 1))])
    data, weights = prepared(rows, 10, 1000.0, dtype), weights_of(10, 1, 1.0, dtype)
    clips, everyone = np.full(2, 0.01, dtype), np.arange(1000)
    first, _ = clipped_sums(data, everyone, weights, clips)
    assert first.dtype == DOUBLE
    for seed in range(3):
        with threadpool_limits(1 + seed % 2):
            again, _ = clipped_sums(data, np.random.default_rng(seed).permutation(1000), weights, clips)
        np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_sums_equal_a_loop_over_examples_with_a_norm_for_each_budget_up_to_their_grid(dtype: np.dtype) -> None:
    """Each entry of R and X is cut off by less than a step; the steps' sum over the batch bounds the difference."""
    rows, n_columns, clips = np.random.default_rng(3).standard_normal((40, 20)), 5, (0.5, 3.5, math.inf)
    targets = np.arange(40) % n_columns
    data = Prepared.of(rows, targets, np.ones((3, n_columns), bool), 30.0, dtype)
    weights = (0.3 * np.random.default_rng(1).standard_normal((3, n_columns, 21))).astype(dtype)
    found = np.concatenate(clipped_sums(data, np.arange(40), weights, np.array(clips[:2], dtype)))
    with_one, n_clipped = np.hstack([rows, np.ones((40, 1))]), [0, 0, 0]
    for budget, clip in enumerate(clips):
        total = np.zeros((n_columns, 21))
        for row, target in zip(with_one, targets, strict=True):
            raised = np.exp(weights[budget].astype(np.float64) @ row)
            gradient = np.outer(raised / raised.sum() - np.eye(n_columns)[target], row)
            n_clipped[budget] += int(np.linalg.norm(gradient) > clip)
            total += gradient * min(1.0, clip / (np.linalg.norm(gradient) + 1e-6))
        if math.isinf(clip):
            np.testing.assert_allclose(found[budget], total, rtol=0, atol=1e3 * np.finfo(dtype).eps)
        else:
            n_steps = linear_heads._RESIDUAL_STEPS[dtype]
            steps = 40 * (data.unit * n_steps + 1 / n_steps)
            np.testing.assert_allclose(found[budget], total / clip, rtol=0, atol=steps / 2)
    assert n_clipped[0] == 40 > n_clipped[1] > 0


@pytest.mark.parametrize("value", [2e19, 1e38, 1e300])
def test_one_enormous_example_stops_no_training(value: float) -> None:
    """Ten trainings each: infinity times zero stopped eight of ten."""
    rows = np.random.default_rng(0).standard_normal((50, 8))
    rows[7] = value
    labels = np.arange(50) % 3
    for _ in range(10):
        start = linear_heads.fresh([(0, 1, 2)], 8, 3)
        found = trained_heads(start, rows, labels, plan(n_steps=30), [1.0], Batches(0.3, None), [ReleaseNoise()])
        assert np.isfinite(found.weights).all()
        assert np.isfinite(found.logits(rows)).all()


# Heads trained in closed form: against Opacus, against a loop, on neighbours, and their noise against its law.


FOUR = (0, 1, 2, 3)
BATCHES = ([0, 3, 4, 7, 9, 20], [1, 2, 5], [], [11, 12, 13, 29], [6], [0, 1, 2, 3, 8, 17, 25])


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
        linear_heads.fresh([FOUR], 7, 4), rows, labels, sums_are_gradients, [1.3], Batches(1.0, None), [ReleaseNoise()]
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


@pytest.mark.parametrize("space", [(0, 1), ()])
def test_an_empty_task_takes_the_same_noisy_steps(space: tuple[int, ...]) -> None:
    """Neither weights of zero nor fewer steps tell that nobody was there; a budget without any label trains as well."""
    start = linear_heads.fresh([space, (0, 1)], N_FEATURES, 4)
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
    assert np.abs(np.searchsorted(without, cuts) / 600 - np.searchsorted(with_one, cuts) / 600).max() < 0.15


@pytest.mark.parametrize(("learning_rate", "within"), [(1e38, 2), (1000.0, 5), (100.0, 100)])
def test_a_diverging_run_stops_at_once_and_says_where(learning_rate: float, within: int) -> None:
    """Noise of no data at all pushes the weights: a step of Adam is about a learning rate long."""
    features, labels = data()
    start = linear_heads.fresh([FOUR], N_FEATURES, 4)
    reckless = plan(learning_rate=learning_rate, n_steps=400)
    with pytest.raises(Diverged) as stopped, np.errstate(all="ignore"):
        trained_heads(start, features, labels, reckless, [1.0], Batches(0.3, 0), [SeededNoise(Cell(1.0, 0), "a test")])
    assert f"of 400 with params.learning_rate = {learning_rate:g}" in str(stopped.value)
    assert int(str(stopped.value).split()[4]) <= within


@pytest.mark.parametrize("sigma", [0.0, 1.0, 30.0])
def test_the_fastest_training_that_is_tuned_for_stays_far_from_the_bound(sigma: float) -> None:
    """At the upper end of Table A2's learning rates, however much noise there is."""
    features, labels = data()
    start = linear_heads.fresh([FOUR], N_FEATURES, 4)
    fastest = plan(learning_rate=0.01, n_steps=2000)
    found = trained_heads(start, features, labels, fastest, [sigma], Batches(0.3, 0), [ReleaseNoise()])
    assert np.abs(found.weights).max() < LARGEST_WEIGHT / 20


def test_one_budget_that_diverges_ends_the_training_of_its_seed() -> None:
    """No weights of the others are handed out: a run has all of its models or none."""
    features, labels = data()
    start = linear_heads.fresh([FOUR, FOUR], N_FEATURES, 4)
    far = linear_heads.Heads(np.stack([start.weights[0], start.weights[1] + 999.9]), start.columns, start.allowed, 4)
    with pytest.raises(Diverged, match="diverged at step"):
        trained_heads(far, features, labels, plan(learning_rate=0.5), [1.0, 1.0], Batches(0.3, 0), [ReleaseNoise()] * 2)


# Last layers whose products are computed on a card: the processor's sums bit by bit, and where it is worth a card.


CLIPS = np.array([0.5, 1e6], np.float32)


@pytest.mark.parametrize(("n_inputs", "n_columns"), [(1, 2), (64, 10), (193, 33), (1030, 7)])
@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_sums_are_the_processors_bit_by_bit(n_inputs: int, n_columns: int, size: float) -> None:
    """Also where a batch is far larger than expected, so that single precision cannot hold its sums."""
    data, weights = prepared(examples(60, n_inputs), n_columns, expected=2.0), weights_of(n_columns, n_inputs, size)
    generator = np.random.default_rng(3)
    found = set()
    for count in (0, 1, 5, 16, 60, 5000):
        batch = generator.integers(0, 60, count)
        expected, _ = clipped_sums(data, batch, weights, CLIPS)
        with second_device.attached():
            there = adapters.Directions.of(data.directions, second_device.NAME)
            assert second_device.is_on_card(there.rows)
            sums, _ = clipped_sums(data, batch, weights, CLIPS, there)
        np.testing.assert_array_equal(sums, expected)
        assert sums.dtype == expected.dtype
        found.add(sums.dtype)
    assert SINGLE in found


def test_budgets_without_noise_stay_on_the_processor_beside_those_on_the_card() -> None:
    data, weights = prepared(examples(60, 8), 3), weights_of(3, 8, 1.0)
    batch, clips = np.arange(20, 60), CLIPS[:1]
    expected = clipped_sums(data, batch, weights, clips)
    with second_device.attached():
        found = clipped_sums(data, batch, weights, clips, adapters.Directions.of(data.directions, second_device.NAME))
    for sums, same in zip(found, expected, strict=True):
        np.testing.assert_array_equal(sums, same)


def test_a_training_on_a_card_gives_the_same_classifiers() -> None:
    rows, labels = np.random.default_rng(0).standard_normal((80, 12)), np.arange(80) % 4
    start = linear_heads.fresh([range(4), range(3)], 12, 4)

    def trained(device: str) -> np.ndarray:
        noises = [SeededNoise(Cell(epsilon, 0), "x") for epsilon in (1.0, 8.0)]
        steps = plan(n_steps=20)
        return trained_heads(start, rows, labels, steps, [2.0, 0.5], Batches(0.3, 0), noises, device=device).weights

    with second_device.attached():
        on_card = trained(second_device.NAME)
    np.testing.assert_array_equal(on_card, trained("cpu"))


def test_rounded_products_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that rounds what it multiplies to bfloat16's eight bits changes sums; the comparison above sees it."""

    def rounded(self: adapters.Directions, whole: np.ndarray) -> np.ndarray:
        short = (torch.from_numpy(whole).view(torch.int32) & ~0xFFFF).view(torch.float32)
        return (short @ self.rows.T.float().cpu()).numpy()

    data, weights = prepared(examples(60, 64), 10), weights_of(10, 64, 1.0)
    expected, _ = clipped_sums(data, np.arange(20, 60), weights, CLIPS)
    monkeypatch.setattr(adapters.Directions, "scores", rounded)
    found, _ = clipped_sums(data, np.arange(20, 60), weights, CLIPS, adapters.Directions.of(data.directions, "cpu"))
    assert (found != expected).any()


def test_directions_that_do_not_fit_stay_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: torch.Tensor, device: str) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.Tensor, "to", full)
    assert adapters.Directions.of(np.zeros((3, 2), np.float32), "cuda:0") is None
    assert linear_heads._on_card(np.zeros((3, 2), np.float32), "cuda:0") is None
    assert linear_heads._on_card(np.zeros((3, 2)), "cuda:0") is None  # double precision


def test_small_heads_are_not_worth_a_card() -> None:
    assert not process_pool.is_wide(64, 2 * 10 * 193)
    assert process_pool.is_wide(500, 2 * 100 * 1281)
