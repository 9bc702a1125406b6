"""Small pieces for tests of trained methods: data, recorded noise, prescribed batches."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.stats import chi2

from dpcl_core.backbones.extractor import result_of
from dpcl_core.events import Progress
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.method import Learner, PublicContext
from dpcl_core.methods.features import linear_heads
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Addition32
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, Recurrence, RunSpec

N_FEATURES = 5
T = TypeVar("T")


def told(steps: Generator[int, None, T]) -> tuple[list[int], T]:
    """All that a training yields, and what it returns."""
    found = []
    while True:
        try:
            found.append(next(steps))
        except StopIteration as ended:
            return found, ended.value


def taught(learner: Learner, run: RunSpec, tasks: Iterable[Task], recurrence: Recurrence = "once") -> dict[Cell, Ledger]:
    """The ledgers of a learner that has learned these tasks, the same for all seeds."""
    ledgers = {cell: Ledger(run.privacy.delta, run.privacy.adjacency, recurrence) for cell in run.cells()}
    for task in tasks:
        for said in learner.learn(dict.fromkeys(run.seeds, task), ledgers):
            assert not isinstance(said, Progress) or 0 <= said.done <= said.total
    return ledgers


def learned(run: RunSpec, tasks: Iterable[Task], known: PublicContext) -> tuple[Any, dict[Cell, Ledger]]:
    """A new learner of the run that has learned these tasks, and its ledgers."""
    learner = methods.maker(run.method)(run, list(run.cells()), known)
    return learner, taught(learner, run, tasks, known.recurrence)


def spreads(drawn: np.ndarray, std: float, false_alarm: float = 1e-6) -> bool:
    """Whether the sum of squares fits normal numbers of this standard deviation (chi-square)."""
    statistic = float((drawn.astype(np.float64) ** 2).sum()) / std**2
    return bool(chi2.ppf(false_alarm / 2, drawn.size) < statistic < chi2.isf(false_alarm / 2, drawn.size))


def trained_heads(*given: Any, **named: Any) -> linear_heads.Heads:
    """The classifiers that a training of last layers returns after its last step."""
    return result_of(linear_heads.train_heads(*given, **named))


def data(n: int = 30, n_classes: int = 4, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, 5] float64 of very different lengths, so that some gradients are clipped and some are not; labels [n]."""
    generator = np.random.default_rng(seed)
    scale = np.exp(generator.uniform(-3, 2, n))[:, None]
    return scale * generator.standard_normal((n, N_FEATURES)), generator.integers(0, n_classes, n)


def plan(**changes: float) -> Schedule:
    usual = Schedule(sample_rate=0.3, n_steps=6, clip_norm=0.7, learning_rate=0.05, expected_batch=9.0)
    return replace(usual, **changes)  # type: ignore[arg-type]


class Recorded:
    """Noise that gives out prescribed arrays, one a call or several on top of each other."""

    def __init__(self, draws: Sequence[np.ndarray] = ()) -> None:
        self._draws = list(draws)

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        if self._draws[0].shape != shape:  # several at once
            return np.stack([self.normal(shape[1:]) for _ in range(shape[0])])
        return self._draws.pop(0).copy()

    def added(self, clean: np.ndarray, std: float) -> np.ndarray:
        return (clean + std * self.normal(clean.shape)).astype(clean.dtype)

    added32 = added

    def additions32(self, size: int, std: float, count: int) -> Addition32:
        return lambda clean: self.added32(clean, std)


class Silent(Recorded):
    """Noise that is zero."""

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


class Prescribed:
    """Batches that were chosen beforehand."""

    def __init__(self, batches: Sequence[Sequence[int]]) -> None:
        self._batches = [np.asarray(batch, dtype=np.intp) for batch in batches]  # as real ones: 32 bits in a page

    def draw(self, n_records: int) -> np.ndarray:
        return self._batches.pop(0)


def public_context(n_inputs: int, n_classes: int, n_people: int, n_tasks: int, **more: Any) -> PublicContext:
    """Public facts of a stream all of whose classes are public."""
    public = more.pop("public", range(n_classes))
    return PublicContext(
        n_inputs=n_inputs, n_classes=n_classes, public=tuple(public), n_people=n_people, n_tasks=n_tasks, **more
    )
