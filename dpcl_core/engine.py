"""One complete run: opens the data, passes tasks to the method, evaluates, and yields events."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import cast

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core import checks
from dpcl_core.backbones import bundled as public_axes
from dpcl_core.backbones import catalog as backbones
from dpcl_core.backbones import extractor, pixels
from dpcl_core.backbones.extractor import pictures as as_pictures
from dpcl_core.checkpoints import Division, Keep, Whole
from dpcl_core.data import anchors, load, own
from dpcl_core.data import catalog as datasets
from dpcl_core.data.dataset import Content, Dataset
from dpcl_core.data.texts import Sentences, TextForm, Texts
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Note, Planned, Progress, References, Started, TaskLearned
from dpcl_core.learning import Group
from dpcl_core.methods import catalog, references
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.dpsgd import of_spec, source_sizes
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.references import forecast
from dpcl_core.privacy import calculator, gaussian, labels, ledger, statement
from dpcl_core.privacy.accounting import list_budget, training_budget
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, OpenStream, Table, TaskStream
from dpcl_core.spec import Cell, RunSpec

Steps = Generator[int, None, NDArray[np.generic]]
_ENTITIES = (
    "Accuracy here is the micro-F1 of whole names: a name counts if its span and type are exact. Tags are decoded so that "
    "no name continues without a beginning."
)
_PARTS = 20  # progress events while features are computed


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """What a run's learners are given: its streams by seed and the public facts about them, before anything is learned.

    `spec`: the run's settings, with the budget of one row where a person has several; `known`: between which scores it is
    read; `table`: all examples; `written`: when own data were (`own.written`), asked before they were read.
    """

    spec: RunSpec
    table: Table
    streams: Mapping[int, TaskStream]
    context: PublicContext
    known: References
    planned: Planned | None = None
    written: Mapping[str, int] = field(default_factory=dict)

    def of_cells(self, cells: Sequence[Cell]) -> tuple[Mapping[int, TaskStream], PublicContext]:
        """The streams and public facts of these cells of one learner, along as many public axes as their budget affords."""
        if not self.context.n_axes or self.spec.params.inputs != "features":
            return self.streams, self.context
        n_axes = self.context.n_axes[cells[0].epsilon]
        narrow, seeds = self.table.along_first(n_axes), dict.fromkeys(cell.seed for cell in cells)
        return {seed: open_stream(self.spec, narrow, seed) for seed in seeds}, replace(self.context, n_inputs=n_axes)


def run(
    spec: RunSpec,
    *,
    device: str = "cpu",
    keep: Keep | None = None,
    division: Division = Whole(),  # noqa: B008 (a value that nothing changes)
) -> Generator[Event]:
    """Carries out one run and yields its events. Everything it does is in this loop.

    `keep`: where its checkpoints lie, one for every task; None: it cannot be resumed. If there are some, the run goes on
    after them and yields all events of the unbroken run, saved ones as they were saved. `division`: which groups of cells
    this process carries out, and where the events of the others come from.

    Raises BadInput for anything the user can correct, where possible before any private example is touched.
    """
    asked, of = spec, (yield from opened(spec, device=device))
    spec = of.spec
    groups = _groups(spec, of.context)

    def here(place: int) -> Iterator[Event]:
        group, planned = groups[place], of.planned
        return Group(asked, spec, group, *of.of_cells(group), place, keep, written=of.written, planned=planned).events()

    division.begin(len(groups), of.context.n_tasks)
    # Clients' lists are short: threads that share a product wait for each other, three times as long on a busy computer.
    with threadpool_limits(1 if spec.scenario.kind == "federated" else None):
        for place in range(len(groups)):
            learned = division.events(place, partial(here, place))
            events = learned if place else _with_untrained(learned, of.known, spec, of.streams, of.context)
            yield from _as_asked(events, asked, spec)


def opened(spec: RunSpec, *, device: str = "cpu") -> Generator[Event, None, Opened]:
    """Loads the data of a run, computes features and opens its streams; yields the events until then. Raises as `run`."""
    checks.check(asked := spec)
    # A person has several rows: learners get the budget of one row, and all that leaves here has the person's.
    rows = datasets.card(spec.data.dataset).rows_per_unit
    of_row = spec.model_copy(update={"privacy": ledger.for_a_row(spec.privacy, rows)})
    _refuse_unbounded(spec, of_row, rows)
    yield Progress("data", 0, 1, None, f"loading {spec.data.dataset}")
    written = own.written(spec.data.dataset)
    dataset = _occurring(spec, load.load(spec.data, undeclared=spec.labels == "dp-learned"))
    table = yield from _table(spec, dataset, device)
    streams = {seed: open_stream(spec, table, seed) for seed in spec.seeds}
    first = streams[spec.seeds[0]]
    public = checks.public_classes(spec, first.classes)
    yield Started(
        n_tasks=len(first.tasks),
        task_names=_task_names(list(streams.values())),
        dataset_title=dataset.title,
        n_train=dataset.n_people,
        n_test=len(dataset.test),
    )
    known = references.before_training(spec, list(streams.values()), public, device)
    yield known
    if first.metric == "entity-f1":
        yield Note("info", _ENTITIES)
    context = PublicContext(
        n_people=dataset.n_people,
        n_tasks=len(first.tasks),
        n_classes=len(first.classes),
        recurrence=first.recurrence,
        n_users=spec.scenario.n_users,
        source_sizes=source_sizes(spec),
        n_inputs=table.train.table.shape[1] if table.train.table.ndim == 2 else 0,
        public=tuple(public),
        device=device,
        form=table.form,
        classes=first.classes,
        texts=table.texts,
        canaries=dataset.canaries,
        undeclared=dataset.undeclared,
        counted=not datasets.card(spec.data.dataset).is_own,
    )
    spec = of_row
    tasks = [task for stream in streams.values() for task in stream.tasks]
    sizes = [int(context.task_size)] * len(tasks)  # nothing is counted in the user's own data
    if context.counted:
        sizes = [int(np.isin(task.train.labels, public).sum()) for task in tasks]
    checks.refuse_small_task(spec, zip((task.name for task in tasks), sizes, strict=True))
    n_home = float(np.mean([len(np.unique(task.test.labels)) for task in first.tasks]))
    if warning := calculator.note(forecast(spec, n_features=context.n_inputs, classes_per_task=n_home, facts=context)):
        yield Note("warning", warning)
    context = replace(context, anchors=(yield from _anchors(spec, dataset, device)))
    context = replace(context, n_axes=catalog.numbers(spec, context))
    plan = references.of_run(asked, spec, context, _groups(spec, context), rows)
    yield plan
    if asked.n_cells > 1:
        yield Note("info", f"The {asked.n_cells} models of this run: {statement.all_planned(plan)}.")
    return Opened(spec, table, streams, context, known, plan, written)


def _refuse_unbounded(asked: RunSpec, of_row: RunSpec, rows: int) -> None:
    """Raises BadInput where all that a method will release has no bound for a person of several rows, if that is known."""
    if rows == 1 or not methods.card(asked.method).is_one_release:
        return
    privacy, sizes = of_row.privacy, of_spec(asked)
    for epsilon, of_one in zip(asked.privacy.epsilons, privacy.epsilons, strict=True):
        if math.isinf(epsilon):
            continue
        ledger = Ledger(asked.privacy.delta, privacy.adjacency, sizes.recurrence, rows_per_unit=rows)
        left, delta = training_budget(privacy, asked.labels, of_one)
        release = dp.GaussianDpEvent(gaussian.sigma(left, delta, gaussian.SENSITIVITY[privacy.adjacency]))
        names = labels.event(*list_budget(privacy, of_one, sizes.n_tasks), privacy.adjacency)
        for task in range(sizes.n_tasks):
            for event in (names, release) if asked.labels == "dp-learned" else (release,):
                ledger.spend(event, task=task, what="planned")
        if math.isinf(ledger.epsilon()):
            no_bound = f"the releases of all tasks have no bound at delta = {ledger.delta:g}"
            raise BadInput("privacy.epsilons", epsilon, f"must be smaller where a person has {rows} rows: {no_bound}")


def _as_asked(events: Iterator[Event], asked: RunSpec, spec: RunSpec) -> Iterator[Event]:
    """The events of the cells of `spec`, under the names that the same cells have in `asked`; so too a refused budget."""
    cells = dict(zip(spec.cells(), asked.cells(), strict=True))
    try:
        for event in events:
            cell = getattr(event, "cell", None)
            yield event if cell is None else cast(Event, replace(cast(CellFinished, event), cell=cells[cell]))
    except BadInput as refused:
        budgets = spec.privacy.epsilons
        if refused.field == "privacy.epsilons" and refused.value in budgets:
            value = asked.privacy.epsilons[budgets.index(refused.value)]
            raise BadInput(refused.field, value, refused.allowed, refused.fix) from refused
        raise


def _with_untrained(
    events: Iterator[Event], known: References, spec: RunSpec, streams: Mapping[int, TaskStream], context: PublicContext
) -> Iterator[Event]:
    """The first learner's events; if it is a language model, what it answers untrained follows its first task.

    Not before: opening a model takes seconds, and its texts are shown first.
    """
    is_asked = not backbones.card(spec.data.backbone).is_language_model
    for event in events:
        yield event
        if isinstance(event, TaskLearned) and not is_asked:
            is_asked = True
            fresh = methods.maker(spec.method)(spec, list(spec.cells())[:1], context)
            yield references.answered(known, list(streams.values()), fresh)


def _groups(spec: RunSpec, context: PublicContext) -> list[list[Cell]]:
    """The cells grouped by learner, as the method's card says; one learner takes cells of one number of axes."""
    shares, cells = methods.card(spec.method).shares, list(spec.cells())
    n_axes = context.n_axes if spec.params.inputs == "features" else {}
    if shares == "all":
        counts = dict.fromkeys(n_axes.get(cell.epsilon, 0) for cell in cells)
        return [[cell for cell in cells if n_axes.get(cell.epsilon, 0) == count] for count in counts]
    if shares == "epsilons":
        return [[cell for cell in cells if cell.seed == seed] for seed in spec.seeds]
    return [[cell] for cell in cells]


def _table(spec: RunSpec, dataset: Dataset, device: str) -> Generator[Event, None, Table]:
    """The method's inputs (features, images or texts) of both splits, in the order of the dataset's rows."""
    n_train, n_test = dataset.n_people, len(dataset.test)
    examples: list[Examples] = []
    for split, span in ((dataset.train, (0, n_train)), (dataset.test, (n_train, n_train + n_test))):
        read = yield from inputs(spec, split.images, device, span=(*span, n_train + n_test))
        words = split.images.sentence_of if isinstance(split.images, Sentences) else None
        examples.append(Examples(read, split.labels, sentences=words, keys=split.keys))
    texts = None  # the form of encoded texts, for methods that read texts
    if spec.params.inputs == "text":
        texts = TextForm(spec.params.text_length, may_show=datasets.card(spec.data.dataset).may_show)
    return Table(
        train=examples[0],
        test=examples[1],
        classes=dataset.classes,
        train_sources=dataset.train.sources,
        test_sources=dataset.test.sources,
        sources=dataset.sources,
        form=pixels.form(dataset.train.images) if spec.data.backbone == "pixels" else None,
        texts=texts,
        n_people=dataset.n_people,
        undeclared=dataset.undeclared,
    )


def _along_axes(spec: RunSpec, features: NDArray[np.generic]) -> NDArray[np.generic]:
    """The features along the network's public axes, where it has some and the run does not turn them off."""
    network = backbones.card(spec.data.backbone)
    public = public_axes.public_part(network, spec.data.dataset)
    if spec.data.axes == 0 or public is None:
        return features
    return public_axes.load(network.name, public).along(features)


def inputs(
    spec: RunSpec, images: Content, device: str, *, span: tuple[int, int, int] | None = None
) -> Generator[Event, None, NDArray[np.generic]]:
    """The method's inputs for these examples: features [n, K], images [n, ...], or encoded texts int32 [n, length, planes].

    Features are along all of the network's public axes, where it has some; a learner gets the first `axes.numbers` of them.

    `span`: first, last and total count for progress events, all public numbers (None: only these examples).
    """
    span = span or (0, len(images), len(images))
    doing = {"features": "computing features with", "images": "decoding pictures for", "text": "reading texts for"}
    text = f"{doing[spec.params.inputs]} {_network(spec)}"
    yield Progress("backbone", span[0], span[2], None, text)
    if spec.params.inputs == "text":
        from dpcl_core.backbones import plain_language

        assert isinstance(images, Texts)
        return plain_language.read(images, spec.data.backbone, spec.params.text_length)
    if spec.params.inputs == "images":
        from dpcl_core.backbones import adaptable  # a network that is trained loads torch

        inside = adaptable.load(spec.data.backbone, device, spec.data.resolution).features
        read = inside.stored(as_pictures(images, spec.data.backbone))
        return (yield from _counted(read, len(images), span, text))
    steps = extractor.computed(spec.data.backbone, images, device, spec.data.resolution)
    return _along_axes(spec, (yield from _counted(steps, len(images), span, text)))


def _network(spec: RunSpec) -> str:
    """The network's name for readers, without what it is."""
    return backbones.card(spec.data.backbone).title.partition(",")[0]


def _counted(steps: Steps, n: int, span: tuple[int, int, int], text: str) -> Generator[Event, None, NDArray[np.generic]]:
    """The result of the steps on `n` examples, with the same progress events whatever `n` is and whatever was cached.

    `span`: the public first, last and total count of these events.
    """
    first, last, total = span
    parts = 0
    while True:
        try:
            done = next(steps)
        except StopIteration as ended:
            for part in range(parts, _PARTS):
                yield Progress("backbone", first + (last - first) * (part + 1) // _PARTS, total, None, text)
            return cast(NDArray[np.generic], ended.value)
        while parts < _PARTS and done * _PARTS >= (parts + 1) * n:
            parts += 1
            yield Progress("backbone", first + (last - first) * parts // _PARTS, total, None, text)


def _occurring(spec: RunSpec, dataset: Dataset) -> Dataset:
    """The dataset without sources that belong to no task, so that no features are computed for them."""
    names = tuple(source.name for source in dataset.sources)
    used = [place for place, name in enumerate(names) if name in spec.scenario.sources_used(names)]
    if len(used) == len(names):
        return dataset
    train, test = (
        split.take(np.flatnonzero(np.isin(cast(NDArray[np.int64], split.sources), used)))
        for split in (dataset.train, dataset.test)
    )
    return replace(dataset, train=train, test=test, n_people=round(dataset.n_people * len(test) / len(dataset.test)))


def _anchors(spec: RunSpec, dataset: Dataset, device: str) -> Generator[Event, None, NDArray[np.float32] | None]:
    """Features of public sentences for methods that use anchors, else None."""
    if not methods.card(spec.method).needs_anchors:
        return None
    sentences = anchors.public(is_tagged=isinstance(dataset.train.images, Sentences))
    yield Note("info", f"Public sentences: {sentences.title}.")
    text = f"computing features of public sentences with {_network(spec)}"
    steps, n = extractor.computed(spec.data.backbone, sentences.content, device), len(sentences.content)
    features = cast(NDArray[np.float32], (yield from _counted(steps, n, (0, n, n), text)))
    return features[sentences.rows]


def _task_names(streams: Sequence[TaskStream]) -> tuple[str, ...]:
    """The names of the tasks; "task k" where task k differs between seeds."""
    names = zip(*([task.name for task in stream.tasks] for stream in streams), strict=True)
    return tuple(candidates[0] if len(set(candidates)) == 1 else f"task {k + 1}" for k, candidates in enumerate(names))


def open_stream(spec: RunSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed, as the scenario splits the table. Raises BadInput as the scenario does."""
    module = import_module(scenarios.card(spec.scenario.kind).module)
    return cast(OpenStream, module.open_stream)(spec.scenario, table, seed)
