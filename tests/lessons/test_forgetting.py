"""The small classifier's gradient is that of its loss, it forgets as the lesson says, and sums do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.lessons import adding
from tests.lessons import reference


def loss(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, listed: np.ndarray) -> float:
    logits = (rows @ weights.T)[:, listed]
    own = (rows @ weights.T)[np.arange(len(labels)), labels]
    return float((np.log(np.exp(logits).sum(axis=1)) - own).mean())


@pytest.mark.parametrize("hidden", [[], [1, 3]])
def test_the_gradient_is_the_losses_own(hidden: list[int]) -> None:
    """Central differences with a step of 1e-5 are good to 1e-9 here."""
    random = np.random.default_rng(3)
    weights, rows, labels = random.normal(size=(4, 3)), random.normal(size=(9, 3)), random.choice([0, 2], 9)
    listed = ~np.isin(np.arange(4), hidden)
    found = adding.gradient(weights, rows, labels, listed)
    for place in np.ndindex(*weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = 1e-5
        slope = (loss(weights + moved, rows, labels, listed) - loss(weights - moved, rows, labels, listed)) / 2e-5
        assert found[place] == pytest.approx(slope, abs=1e-8)
    assert not found[hidden].any()


def test_plain_training_forgets_and_each_remedy_forgets_less() -> None:
    plain, own = adding.forgotten(adding.learned("plain")), adding.forgotten(adding.learned("own labels"))
    kept = [adding.forgotten(adding.learned("replay", n)) for n in (1, 5, 20)]
    assert plain > 0.9
    assert plain > own > kept[1]
    assert kept == sorted(kept, reverse=True)
    assert adding.forgotten(adding.learned("sums")) < kept[1]


def test_a_memory_of_nothing_is_plain_training() -> None:
    np.testing.assert_array_equal(adding.learned("replay", 0), adding.learned("plain"))


def test_sums_are_the_cosine_classifier_of_a_run() -> None:
    """Runs have the same order of digits as seed 0; both are means over tasks after the last."""
    accuracy, _ = reference.learned("prior", adding.N_TASKS, (math.inf,), (0,))
    (final,) = reference.final_accuracies(accuracy)[math.inf]
    assert adding.learned("sums")[-1].mean() == pytest.approx(final, abs=1e-9)
    assert adding.of_noise(math.inf)[0] == pytest.approx(final, abs=1e-9)


def test_much_noise_takes_accuracy_and_little_does_not() -> None:
    clean = adding.of_noise(math.inf)[0]
    assert adding.of_noise(0.1)[0] < 0.5 * clean
    assert adding.of_noise(8.0)[0] == pytest.approx(clean, abs=0.02)
