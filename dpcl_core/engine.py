"""One run, whole: opens the data, hands tasks to the method, evaluates, and says what happens."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from dpcl_core import checks, metrics
from dpcl_core.backbones import cache
from dpcl_core.data import load
from dpcl_core.data.dataset import Dataset
from dpcl_core.events import CellFinished, Event, Progress, Started, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.base import Learner
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.statement import guarantee
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, OpenStream, Table, TaskStream
from dpcl_core.spec import Cell, RunSpec


def run(spec: RunSpec, *, device: str = "cpu") -> Generator[Event]:
    """Carries out one run and says what happens. Everything it does is in this loop.

    Raises BadInput for anything a person can mend, before any private example is touched where that is possible.
    """
    checks.check(spec)
    yield Progress("data", 0, 1, None, f"loading {spec.data.dataset}")
    dataset = load.load(spec.data)
    yield Progress("backbone", 0, 1, None, f"computing features with {spec.data.backbone}")
    table = _table(spec, dataset, device)
    public = checks.public_classes(spec, dataset.classes)
    streams = {seed: _open_stream(spec, table, seed) for seed in spec.seeds}
    first = streams[spec.seeds[0]]
    yield Started(
        n_tasks=len(first.tasks),
        task_names=tuple(task.name for task in first.tasks),
        dataset_title=dataset.title,
        n_train=len(dataset.train),
        n_test=len(dataset.test),
    )
    for cells in _groups(spec):
        yield from _learn(spec, cells, streams, public, dataset)


def _learn(
    spec: RunSpec, cells: Sequence[Cell], streams: Mapping[int, TaskStream], public: Sequence[int], dataset: Dataset
) -> Iterator[Event]:
    """One learner through all tasks of its cells."""
    started = time.perf_counter()
    seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
    stream = streams[seeds[0]]
    ledgers = {
        cell: Ledger(spec.privacy.delta, spec.privacy.adjacency, streams[cell.seed].recurrence) for cell in cells
    }
    n_inputs = stream.tasks[0].train.inputs.shape[1]
    learner = methods.maker(spec.method)(spec, cells, n_inputs, len(dataset.classes), public)
    matrices: dict[Cell, list[tuple[float, ...]]] = {cell: [] for cell in cells}
    for step in range(len(stream.tasks)):
        yield from learner.learn({seed: streams[seed].tasks[step] for seed in seeds}, ledgers)
        for seed in seeds:
            own = [cell for cell in cells if cell.seed == seed]
            for cell, result in zip(own, _evaluated(learner, seed, streams[seed], step, len(own)), strict=True):
                matrices[cell].append(result.by_task)
                yield TaskLearned(cell, step, result.by_task, result.pooled, ledgers[cell].epsilon())
    seconds = (time.perf_counter() - started) / len(cells)
    for cell in cells:
        yield CellFinished(
            cell,
            metrics.summary(matrices[cell]),
            guarantee(
                ledgers[cell],
                spec,
                cell,
                unit=streams[cell.seed].unit,
                n_people=dataset.n_people,
                n_tasks=len(stream.tasks),
            ),
            seconds,
        )


@dataclass(frozen=True, slots=True)
class _Result:
    by_task: tuple[float, ...]
    pooled: float


def _evaluated(learner: Learner, seed: int, stream: TaskStream, step: int, n_cells: int) -> list[_Result]:
    """Accuracy of the seed's models on the tasks seen so far, one result a budget. Test data count as public."""
    tests = [task.test for task in stream.tasks[: step + 1]]
    hits = [(learner.scores(seed, test.inputs).argmax(axis=2) == test.labels).sum(axis=1) for test in tests]
    return [
        _Result(
            by_task=tuple(float(found[cell]) / len(test) for found, test in zip(hits, tests, strict=True)),
            pooled=float(sum(found[cell] for found in hits)) / sum(len(test) for test in tests),
        )
        for cell in range(n_cells)
    ]


def _groups(spec: RunSpec) -> list[list[Cell]]:
    """The cells that one learner takes, as the method's card says."""
    shares = methods.card(spec.method).shares
    cells = list(spec.cells())
    if shares == "all":
        return [cells]
    if shares == "epsilons":
        return [[cell for cell in cells if cell.seed == seed] for seed in spec.seeds]
    return [[cell] for cell in cells]


def _table(spec: RunSpec, dataset: Dataset, device: str) -> Table:
    """What the method reads: features of both splits, in the order of the dataset's rows."""
    train, test = (
        Examples(cache.features(spec.data.backbone, split.images, device), split.labels)
        for split in (dataset.train, dataset.test)
    )
    return Table(
        train=train,
        test=test,
        classes=dataset.classes,
        train_sources=dataset.train.sources,
        test_sources=dataset.test.sources,
        sources=dataset.sources,
    )


def _open_stream(spec: RunSpec, table: Table, seed: int) -> TaskStream:
    module = import_module(scenarios.card(spec.scenario.kind).module)
    return cast(OpenStream, module.open_stream)(spec.scenario, table, seed)
