"""One run, whole: opens the data, hands tasks to the method, evaluates, and says what happens."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import checks, metrics
from dpcl_core.backbones import cache, pixels
from dpcl_core.backbones.extractor import pictures as as_pictures
from dpcl_core.data import catalog as datasets
from dpcl_core.data import load
from dpcl_core.data.dataset import Content, Dataset
from dpcl_core.data.texts import TextForm, Texts
from dpcl_core.events import AuditNote, CellFinished, Event, Note, Progress, Started, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.base import Known, Learner
from dpcl_core.methods.cards.language import LanguageParams
from dpcl_core.methods.facts import Facts
from dpcl_core.methods.outlook import outlook
from dpcl_core.privacy import signal
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.statement import guarantee
from dpcl_core.privacy.together import together
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, OpenStream, Table, TaskStream
from dpcl_core.spec import Cell, RunSpec

Steps = Generator[int, None, NDArray[np.generic]]
_AUDIT_TRIALS = 1000  # releases a side at the end of a run: shows epsilon up to 5.6, in well under a second


def run(spec: RunSpec, *, device: str = "cpu") -> Generator[Event]:
    """Carries out one run and says what happens. Everything it does is in this loop.

    Raises BadInput for anything a person can mend, before any private example is touched where that is possible.
    """
    checks.check(spec)
    yield Progress("data", 0, 1, None, f"loading {spec.data.dataset}")
    dataset = load.load(spec.data)
    table = yield from _table(spec, dataset, device)
    public = checks.public_classes(spec, dataset.classes)
    streams = {seed: open_stream(spec, table, seed) for seed in spec.seeds}
    first = streams[spec.seeds[0]]
    yield Started(
        n_tasks=len(first.tasks),
        task_names=_task_names(list(streams.values())),
        dataset_title=dataset.title,
        n_train=len(dataset.train),
        n_test=len(dataset.test),
    )
    checks.refuse_small_task(spec, [(task.name, len(task.train)) for stream in streams.values() for task in stream.tasks])
    facts = Facts(dataset.n_people, len(first.tasks), len(table.classes), first.recurrence)
    n_home = float(np.mean([len(np.unique(task.test.labels)) for task in first.tasks]))
    if warning := signal.note(outlook(spec, n_features=_n_features(table), classes_per_task=n_home, facts=facts)):
        yield Note("warning", warning)
    for cells in _groups(spec):
        yield from _learn(spec, cells, streams, public, table, dataset, device)


def _learn(
    spec: RunSpec,
    cells: Sequence[Cell],
    streams: Mapping[int, TaskStream],
    public: Sequence[int],
    table: Table,
    dataset: Dataset,
    device: str,
) -> Iterator[Event]:
    """One learner through all tasks of its cells."""
    started = time.perf_counter()
    seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
    stream = streams[seeds[0]]
    ledgers = {cell: Ledger(spec.privacy.delta, spec.privacy.adjacency, streams[cell.seed].recurrence) for cell in cells}
    known = Known(
        n_inputs=_n_features(table),
        n_classes=len(table.classes),
        public=tuple(public),
        n_people=dataset.n_people,
        n_tasks=len(stream.tasks),
        device=device,
        form=table.form,
        recurrence=stream.recurrence,
        classes=table.classes,
        texts=table.texts,
        canaries=dataset.canaries,
    )
    learner = methods.maker(spec.method)(spec, cells, known)
    matrices: dict[Cell, list[tuple[float | None, ...]]] = {cell: [] for cell in cells}
    for step in range(len(stream.tasks)):
        yield from learner.learn({seed: streams[seed].tasks[step] for seed in seeds}, ledgers)
        for seed in seeds:
            own = [cell for cell in cells if cell.seed == seed]
            for cell, result in zip(own, _evaluated(learner, seed, streams[seed], step, len(own)), strict=True):
                matrices[cell].append(result.by_task)
                yield TaskLearned(cell, step, result.by_task, result.pooled, ledgers[cell].epsilon(), result.by_rule)
    seconds = (time.perf_counter() - started) / len(cells)
    all_models = together(ledgers) if 1 < len(cells) == len(list(spec.cells())) else None
    audits = _audits(spec) if methods.card(spec.method).guarantee == "nominal" else {}
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
                assumed=(*streams[cell.seed].assumed, *methods.card(spec.method).assumes),
                limits=datasets.card(spec.data.dataset).limits,
                together=all_models,
                audit=audits.get(cell.epsilon),
                notes=methods.card(spec.method).notes(spec.params),
            ),
            seconds,
        )


def _audits(spec: RunSpec) -> dict[float, AuditNote]:
    """What attacks on the method's mechanism prove, by budget; for methods whose epsilon is nominal."""
    found = methods.auditor(spec.method)(spec, _AUDIT_TRIALS)
    notes = [AuditNote(one.lower_bound, one.confidence, one.trials, one.attack, one.adversary) for one in found]
    return dict(zip(spec.privacy.epsilons, notes, strict=True))


@dataclass(frozen=True, slots=True)
class _Result:
    """Accuracy by task and over all test examples; None where nothing could be evaluated."""

    by_task: tuple[float | None, ...]
    pooled: float | None
    by_rule: Mapping[str, tuple[float | None, ...]]


def _evaluated(learner: Learner, seed: int, stream: TaskStream, step: int, n_cells: int) -> list[_Result]:
    """Accuracy of the seed's models on the tasks seen so far, one result a budget. Test data count as public."""
    hits: list[dict[str, NDArray[np.int64]]] = []  # by task: right answers of each budget under each rule
    tested = stream.tasks[: step + 1]
    for task in tested:
        scores = learner.scores(seed, task) if len(task.test) else {}
        hits.append({rule: _right(found, task.test.labels) for rule, found in scores.items()})
    rules = next((tuple(found) for found in hits if found), ())

    def by_task(rule: str, cell: int) -> tuple[float | None, ...]:
        return tuple(float(f[rule][cell]) / len(task.test) if f else None for f, task in zip(hits, tested, strict=True))

    n_evaluated = sum(len(task.test) for f, task in zip(hits, tested, strict=True) if f)
    return [
        _Result(
            by_task=by_task(rules[0], cell) if rules else (None,) * len(tested),
            pooled=float(sum(f[rules[0]][cell] for f in hits if f)) / n_evaluated if rules else None,
            by_rule={rule: by_task(rule, cell) for rule in rules} if len(rules) > 1 else {},
        )
        for cell in range(n_cells)
    ]


def _right(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Right answers of each budget [epsilons]; a model that knows no label at all is never right."""
    answers = np.where(np.isfinite(scores).any(axis=2), scores.argmax(axis=2), -1)
    right: NDArray[np.int64] = (answers == labels).sum(axis=1)
    return right


def _n_features(table: Table) -> int:
    """Feature size, 0 where the method reads the examples themselves."""
    return table.train.table.shape[1] if table.train.table.ndim == 2 else 0


def _groups(spec: RunSpec) -> list[list[Cell]]:
    """The cells that one learner takes, as the method's card says."""
    shares = methods.card(spec.method).shares
    cells = list(spec.cells())
    if shares == "all":
        return [cells]
    if shares == "epsilons":
        return [[cell for cell in cells if cell.seed == seed] for seed in spec.seeds]
    return [[cell] for cell in cells]


def _table(spec: RunSpec, dataset: Dataset, device: str) -> Generator[Event, None, Table]:
    """What the method reads, features or images of both splits, in the order of the dataset's rows."""
    n_train, total = len(dataset.train), len(dataset.train) + len(dataset.test)
    examples: list[Examples] = []
    for split, before in ((dataset.train, 0), (dataset.test, n_train)):
        read = yield from inputs(spec, split.images, device, before=before, total=total)
        examples.append(Examples(read, split.labels))
    return Table(
        train=examples[0],
        test=examples[1],
        classes=dataset.classes,
        train_sources=dataset.train.sources,
        test_sources=dataset.test.sources,
        sources=dataset.sources,
        form=pixels.form(dataset.train.images) if spec.data.backbone == "pixels" else None,
        texts=_text_form(spec),
    )


def _text_form(spec: RunSpec) -> TextForm | None:
    """How encoded texts lie in the table, for methods that read texts."""
    if not isinstance(spec.params, LanguageParams):
        return None
    return TextForm(spec.params.length, may_show=datasets.card(spec.data.dataset).may_show)


def inputs(
    spec: RunSpec, images: Content, device: str, *, before: int = 0, total: int | None = None
) -> Generator[Event, None, NDArray[np.generic]]:
    """What the method reads of these examples: features [n, K], the pictures themselves [n, ...], or encoded
    texts int32 [n, length, planes].

    `before`: examples done before these, of `total` in all (None: only these).
    """
    n_all = len(images) if total is None else total
    text = f"computing features with {spec.data.backbone}"
    if spec.params.inputs == "images":
        text = f"decoding pictures for {spec.data.backbone}"
    if isinstance(spec.params, LanguageParams):
        text = f"reading texts for {spec.data.backbone}"
    yield Progress("backbone", before, n_all, None, text)
    if isinstance(spec.params, LanguageParams):
        from dpcl_core.backbones.language import reader

        assert isinstance(images, Texts)
        return reader.read(images, spec.data.backbone, spec.params.length)
    if spec.params.inputs == "images":
        from dpcl_core.backbones import adaptable, pictures  # a network that is trained brings torch along

        read = pictures.table(as_pictures(images, spec.data.backbone), adaptable.load(spec.data.backbone).asked)
        return (yield from _counted(read, before, n_all, text))
    return (yield from _counted(cache.computed(spec.data.backbone, images, device), before, n_all, text))


def _counted(steps: Steps, before: int, total: int, text: str) -> Generator[Event, None, NDArray[np.generic]]:
    """What the steps give, with a word on progress for every batch; `before`: examples done before these."""
    while True:
        try:
            done = next(steps)
        except StopIteration as ended:
            return cast(NDArray[np.generic], ended.value)
        yield Progress("backbone", before + done, total, None, text)


def _task_names(streams: Sequence[TaskStream]) -> tuple[str, ...]:
    """The names of the tasks; "task k" where another seed learns something else there."""
    names = zip(*([task.name for task in stream.tasks] for stream in streams), strict=True)
    return tuple(each[0] if len(set(each)) == 1 else f"task {k + 1}" for k, each in enumerate(names))


def open_stream(spec: RunSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed, as the scenario deals out the table. Raises BadInput as the scenario does."""
    module = import_module(scenarios.card(spec.scenario.kind).module)
    return cast(OpenStream, module.open_stream)(spec.scenario, table, seed)
