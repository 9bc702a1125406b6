"""Clipped sums of last layers: one example is worth one to the last digit, whatever it holds and wherever it stands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.features.linear_heads import Prepared, clipped_residuals, clipped_sums
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from tests.methods.training import plan, trained_heads

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
    targets = np.arange(len(rows)) % n_columns
    return Prepared.of(rows, targets, np.ones((2, n_columns), bool), expected, dtype)


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
def test_logits_are_sums_that_no_order_of_additions_rounds(
    dtype: np.dtype, size: float, n_inputs: int, n_columns: int
) -> None:
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
def test_sums_of_neighbours_differ_by_the_clipping_norm_at_most(
    dtype: np.dtype, n_inputs: int, n_columns: int, size: float
) -> None:
    """In whole numbers, so that nothing is rounded away: of 60 examples, one after the other is left out."""
    clip = 0.5
    clips = np.full(2, clip, dtype)
    data, weights = prepared(examples(60, n_inputs), n_columns, dtype=dtype), weights_of(n_columns, n_inputs, size, dtype)
    step = int(1 / data.unit)
    everyone = np.arange(60)
    whole = clipped_sums(data, everyone, weights, clips)[0] * np.float64(step)
    assert np.isfinite(whole).all()
    longest = 0
    for place in everyone[:: 1 if dtype == SINGLE and n_inputs < 193 else 7]:
        fewer = clipped_sums(data, np.delete(everyone, place), weights, clips)[0] * np.float64(step)
        for change in whole - fewer:
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
def test_sums_equal_a_loop_over_examples_up_to_their_grid(dtype: np.dtype) -> None:
    """Each entry of R and X is cut off by less than a step; the steps' sum over the batch bounds the difference."""
    clips = (0.5, math.inf)
    rows, n_columns = np.random.default_rng(3).standard_normal((40, 20)), 5
    data, weights = prepared(rows, n_columns, dtype=dtype), weights_of(n_columns, 20, 0.3, dtype)
    found = np.concatenate(clipped_sums(data, np.arange(40), weights, np.array(clips[:1], dtype)))
    with_one = np.hstack([rows, np.ones((40, 1))])
    for budget, clip in enumerate(clips):
        total, n_clipped = np.zeros((n_columns, 21)), 0
        for row, target in zip(with_one, data.targets, strict=True):
            raised = np.exp(weights[budget].astype(np.float64) @ row)
            gradient = np.outer(raised / raised.sum() - np.eye(n_columns)[target], row)
            n_clipped += np.linalg.norm(gradient) > clip
            total += gradient * min(1.0, clip / (np.linalg.norm(gradient) + 1e-6))
        if math.isinf(clip):
            np.testing.assert_allclose(found[budget], total, rtol=0, atol=1e3 * np.finfo(dtype).eps)
        else:
            assert n_clipped == 40
            n_steps = linear_heads._RESIDUAL_STEPS[dtype]
            steps = 40 * (data.unit * n_steps + 1 / n_steps)
            np.testing.assert_allclose(found[budget], total / clip, rtol=0, atol=steps / 2)


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
