"""An exercise that runs in the page "Train in this page": ten lines of a learner, and the tests that they must pass.

The code is the reader's own, runs in the reader's browser alone, and sees public digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.rows import digits
from dpcl_core.privacy import gaussian

Floats = NDArray[np.float64]
_EPSILON, _DELTA, _SHARE = 1.0, 1e-5, 0.8
_SEED: Final = 20_251_129  # of the noise: for teaching only
_LONG = 10.0  # the length of a row that no honest picture has
_CLASSES, _WIDTH, _ABSENT = 4, 6, 3  # of a small dataset, and its class without a row


class Verdict(NamedTuple):
    """A test's result in a sentence."""

    is_passed: bool
    said: str


class _Wrong(Exception):
    """The code cannot be tested; its text says why."""


def check(code: str) -> dict[str, list[Any]]:
    """What a learner's code does right and wrong: `passed` and `said`, one of each a test, in order.

    `code`: Python that defines `learn(rows, labels, n_classes, sigma, noise)`; NumPy is there as `np`. Never raises for what
    the code does: a mistake in it is the one sentence said.
    """
    try:
        learn = _defined(code)
        found = [_one_person(learn), _every_class(learn), _right(learn)]
    except _Wrong as wrong:
        found = [Verdict(False, str(wrong))]
    return {"passed": [one.is_passed for one in found], "said": [one.said for one in found]}


Noise = Callable[[Any], Floats]
Learn = Callable[[Floats, NDArray[np.int64], int, float, Noise], Floats]


def _defined(code: str) -> Learn:
    names: dict[str, Any] = {"np": np}
    _tried(lambda: exec(compile(code, "learner", "exec"), names))
    if not callable(names.get("learn")):
        raise _Wrong("There is no function learn(rows, labels, n_classes, sigma, noise).")

    def learn(rows: Floats, labels: NDArray[np.int64], n_classes: int, sigma: float, noise: Noise) -> Floats:
        given: Floats = _tried(
            lambda: np.asarray(names["learn"](rows.copy(), labels.copy(), n_classes, sigma, noise), np.float64)
        )
        wanted = (n_classes, rows.shape[1])
        if given.shape != wanted:
            raise _Wrong(f"learn gave numbers of shape {list(given.shape)}: it must give sums {list(wanted)}.")
        if not np.isfinite(given).all():
            raise _Wrong("learn gave a number that is not finite.")
        return given

    return learn


def _tried(does: Callable[[], Any]) -> Any:
    try:
        return does()
    except Exception as error:
        trace, line = error.__traceback__, getattr(error, "lineno", None)
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "learner" else line
            trace = trace.tb_next
        what = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise _Wrong(f"Line {line}: {what}." if line else f"{what}.") from error


def _small() -> tuple[Floats, NDArray[np.int64]]:
    """Rows and labels of a few people; the first row is far too long."""
    generator = np.random.default_rng(_SEED)
    rows = generator.normal(size=(12, _WIDTH))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] *= _LONG
    return rows, np.arange(12) % _ABSENT


def _one_person(learn: Learn) -> Verdict:
    """Whether leaving out any one row moves the sums before noise by at most 1."""
    rows, labels = _small()
    whole = learn(rows, labels, _CLASSES, 0.0, np.zeros)
    others = (np.delete(np.arange(len(rows)), one) for one in range(len(rows)))
    moved = max(float(np.linalg.norm(whole - learn(rows[of], labels[of], _CLASSES, 0.0, np.zeros))) for of in others)
    if moved <= 1 + 1e-9:  # rounding of sums of a dozen numbers is 1e-15
        return Verdict(True, "One person moves the sums by at most 1.")
    return Verdict(False, f"One person moves the sums by {moved:.3g}, and may by at most 1: what bounds a row's length?")


def _every_class(learn: Learn) -> Verdict:
    """Whether every number of every class gets a draw of its own, times sigma."""
    rows, labels = _small()
    drawn = iter(range(1, 10**6))

    def noise(shape: Any) -> Floats:
        return np.array([float(next(drawn)) for _ in range(math.prod(np.atleast_1d(shape)))]).reshape(shape)

    sigma = 2.0
    added = (learn(rows, labels, _CLASSES, sigma, noise) - learn(rows, labels, _CLASSES, sigma, np.zeros)) / sigma
    if bare := [label for label in range(_CLASSES) if np.allclose(added[label], 0)]:
        return Verdict(False, f"Class {bare[0]} gets no noise, because nobody is in it: and that is told to everyone.")
    draws = np.rint(added)
    if not np.allclose(draws, added) or len(np.unique(draws)) < added.size:
        return Verdict(False, "Each number needs a draw of its own, times sigma: noise that two share can be subtracted.")
    return Verdict(True, "Every class gets noise, whether or not somebody is in it.")


def _right(learn: Learn) -> Verdict:
    """Whether the noisy sums tell new digits apart."""
    images, labels = digits()
    rows, n_train = np.asarray(images.content).reshape(len(labels), -1) / 255, 3 * len(labels) // 4
    generator, sigma = np.random.default_rng(_SEED), gaussian.sigma(_EPSILON, _DELTA)
    sums = learn(rows[:n_train], labels[:n_train], 10, sigma, generator.standard_normal)
    scores = rows[n_train:] @ (sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)[:, None]).T
    share = float((scores.argmax(axis=1) == labels[n_train:]).mean())
    said = f"With ε = {_EPSILON:g} it gets {100 * share:.1f} % of new digits right"
    return Verdict(share >= _SHARE, f"{said}." if share >= _SHARE else f"{said}: {100 * _SHARE:.0f} % are possible.")
