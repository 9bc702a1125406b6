"""One complete run: opens the data, passes tasks to the method, evaluates, and yields events."""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core import checks
from dpcl_core.backbones import bundled as public_axes
from dpcl_core.backbones import extractor
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.pixels import values_form
from dpcl_core.data import catalog as datasets
from dpcl_core.data import load, own
from dpcl_core.data.dataset import Content, Dataset, Form, Images
from dpcl_core.data.texts import Sentences, TextForm, Texts
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Note, Planned, Progress, References, Started, TaskLearned
from dpcl_core.learning import ClosingAudit, Group, Observe
from dpcl_core.methods import catalog as methods
from dpcl_core.methods import references
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.common.state import Division, Keep
from dpcl_core.privacy import budgets, gaussian, labels, noise_forecast, statement
from dpcl_core.privacy.accounting import list_budget, training_budget
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, Table, TaskStream
from dpcl_core.spec import Cell, RunSpec

_ENTITIES = (
    "Accuracy here is the micro-F1 of whole names: a name counts if its span and type are exact. Tags are decoded so that "
    "no name continues without a beginning."
)
_PARTS = 20  # progress events while features are computed


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """What a run's learners are given: its streams by seed and the public facts about them, before anything is learned.

    `run`: with the budget of one row where a person has several; `known`: between which scores it is read; `table`: all
    examples; `written`: when own data were (`own.written_at`), asked before they were read.
    """

    run: checks.ResolvedRun
    table: Table
    streams: Mapping[int, TaskStream]
    context: PublicContext
    known: References
    planned: Planned | None = None
    written: Mapping[str, int] = field(default_factory=dict)

    def of_cells(self, cells: Sequence[Cell]) -> tuple[Mapping[int, TaskStream], PublicContext]:
        """The streams and public facts of these cells of one learner, along as many public axes as their budget affords."""
        spec = self.run.spec
        if not self.context.n_axes or spec.params.inputs != "features":
            return self.streams, self.context
        n_axes = self.context.n_axes[cells[0].epsilon]
        narrow, seeds = self.table.along_first(n_axes), dict.fromkeys(cell.seed for cell in cells)
        streams = {seed: scenarios.open_stream(spec.scenario, narrow, seed) for seed in seeds}
        anchors = self.context.anchors
        return streams, replace(self.context, n_inputs=n_axes, anchors=None if anchors is None else anchors[:, :n_axes])


def run(
    spec: RunSpec,
    *,
    device: str = "cpu",
    keep: Keep | None = None,
    division: Division | None = None,
    observe: Observe | None = None,
    audit: ClosingAudit | None = None,
) -> Generator[Event]:
    """Carries out one run and yields its events. Everything it does is in this loop.

    `keep`: where its checkpoints lie, one for every task; None: it cannot be resumed. If there are some, the run goes on
    after them and yields all events of the unbroken run, saved ones as they were saved. `division`: which groups of cells
    this process carries out, and where the events of the others come from; None: it carries out all. `observe`: makes what
    turns a simulation's observations into events; None: they are dropped. `audit`: attacks a method whose epsilon is nominal
    when the run ends; None: nobody does.

    Raises BadInput for anything the user can correct, where possible before any private example is touched.
    """
    requested = checks.check_run(spec)
    opened = yield from open_run(requested, device=device)
    groups = _groups(requested, opened.run, opened.context)
    if division is not None:
        division.begin(len(groups), opened.context.n_tasks)

    def learn(place: int) -> Iterator[Event]:
        streams, context = opened.of_cells(groups[place])
        group = Group(
            spec, opened.run, groups[place], streams, context, place, keep,
            written=opened.written, planned=opened.planned, observe=observe, audit=audit,
        )  # fmt: skip
        return group.events()

    # Clients' lists are short: threads that share a product wait for each other, three times as long on a busy computer.
    with threadpool_limits(1 if spec.scenario.n_users is not None else None):
        for place in range(len(groups)):
            events = learn(place) if division is None else division.events(place, partial(learn, place))
            yield from _as_requested(events if place else _with_untrained(events, opened), spec, opened.run.spec)


def open_run(requested: checks.ResolvedRun, *, device: str = "cpu") -> Generator[Event, None, Opened]:
    """Loads the data of a run, computes features and opens its streams; yields the events until then. Raises as `run`."""
    # A person has several rows: learners get the budget of one row, and all that leaves here has the person's.
    spec, rows = requested.spec, requested.rows_per_unit
    run = replace(requested, spec=replace(spec, privacy=budgets.for_a_row(spec.privacy, rows)))
    _refuse_unbounded(requested, run.spec)
    run = replace(run, spec=requested.with_lists(run.spec))
    needed = datasets.needed_bytes(spec.data) / 1e9
    size = f", which needs about {needed:.2g} GB of memory" if needed >= 1 else ""
    yield Progress("data", 0, 1, None, f"loading {spec.data.dataset}{size}")
    written = own.written_at(spec.data.dataset)
    dataset = _occurring(
        spec, load.load_dataset(spec.data, undeclared=spec.labels == "dp-learned" and run.method.learns_lists)
    )
    table = yield from _table(requested, dataset, device)
    streams = {seed: scenarios.open_stream(spec.scenario, table, seed) for seed in spec.seeds}
    first = streams[spec.seeds[0]]
    names = zip(*([task.name for task in stream.tasks] for stream in streams.values()), strict=True)
    public = checks.public_classes(spec, first.classes)
    # "task k" where task k differs between seeds
    named = tuple(of[0] if len(set(of)) == 1 else f"task {k}" for k, of in enumerate(names, start=1))
    yield Started(len(first.tasks), named, dataset.title, n_train=dataset.n_people, n_test=len(dataset.test))
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
        source_sizes=requested.facts.source_sizes,
        n_inputs=table.train.table.shape[1] if table.train.table.ndim == 2 else 0,
        public=tuple(public),
        device=device,
        form=table.form if spec.data.backbone == "pixels" else None,
        classes=first.classes,
        texts=table.texts,
        canaries=dataset.canaries,
        undeclared=dataset.undeclared,
        counted=not requested.dataset.is_own,
    )
    tasks = [task for stream in streams.values() for task in stream.tasks]
    sizes = [int(context.task_size)] * len(tasks)  # nothing is counted in the user's own data
    if context.counted:
        sizes = [int(np.isin(task.train.labels, public).sum()) for task in tasks]
    checks.refuse_small_task(run.spec, zip((task.name for task in tasks), sizes, strict=True))
    n_home = float(np.mean([len(np.unique(task.test.labels)) for task in first.tasks]))
    expected = references.forecast(run.spec, n_features=context.n_inputs, classes_per_task=n_home, facts=context)
    if warning := noise_forecast.note(expected):
        yield Note("warning", warning)
    context = replace(context, anchors=(yield from _anchors(requested, dataset, device)))
    context = replace(context, n_axes=methods.axes_by_epsilon(run.spec, context))
    plan = references.run_plan(spec, run.spec, context, _groups(requested, run, context), rows)
    yield plan
    if spec.n_cells > 1:
        yield Note("info", f"The {spec.n_cells} models of this run: {statement.all_planned(plan)}.")
    return Opened(run, table, streams, context, known, plan, written)


def _refuse_unbounded(requested: checks.ResolvedRun, of_row: RunSpec) -> None:
    """Raises BadInput where all that a method will release has no bound for a person of several rows, if that is known."""
    asked, rows = requested.spec, requested.rows_per_unit
    if rows == 1 or not requested.method.is_one_release:
        return
    privacy, sizes = of_row.privacy, requested.facts
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
            allowed = f"must be smaller where a person or sentence has {rows} rows: {no_bound}"
            raise BadInput("privacy.epsilons", epsilon, allowed)


def _as_requested(events: Iterator[Event], requested: RunSpec, of_row: RunSpec) -> Iterator[Event]:
    """Translates cells and refused budgets from those of one row to the requested ones."""
    cells = dict(zip(of_row.cells(), requested.cells(), strict=True))
    try:
        for event in events:
            cell = getattr(event, "cell", None)
            yield event if cell is None else cast(Event, replace(cast(CellFinished, event), cell=cells[cell]))
    except BadInput as refused:
        budgets = of_row.privacy.epsilons
        if refused.field == "privacy.epsilons" and refused.value in budgets:
            value = requested.privacy.epsilons[budgets.index(refused.value)]
            raise BadInput(refused.field, value, refused.allowed, refused.fix) from refused
        raise


def _with_untrained(events: Iterator[Event], opened: Opened) -> Iterator[Event]:
    """The first learner's events; if it is a language model, what it answers untrained follows its first task.

    Not before: opening a model takes seconds, and its texts are shown first.
    """
    spec, is_asked = opened.run.spec, opened.run.spec.params.inputs != "text"
    for event in events:
        yield event
        if isinstance(event, TaskLearned) and not is_asked:
            is_asked = True
            fresh = methods.maker(spec.method)(spec, list(spec.cells())[:1], opened.context)
            yield references.answered(opened.known, list(opened.streams.values()), fresh)


def _groups(requested: checks.ResolvedRun, run: checks.ResolvedRun, context: PublicContext) -> list[list[Cell]]:
    """The cells grouped by learner, as the method's card says; one learner takes cells of one number of axes.

    Cells that are given lists learned under DP have a learner each: noise, and so a list, is never shared.
    """
    spec, shares, cells = run.spec, run.method.cells_per_learner, list(run.spec.cells())
    n_axes = context.n_axes if spec.params.inputs == "features" else {}
    counts = dict.fromkeys(n_axes.get(cell.epsilon, 0) for cell in cells)
    if requested.gives_lists and requested.spec.labels == "dp-learned":
        shares = "cell"
    if shares == "all":
        return [[cell for cell in cells if n_axes.get(cell.epsilon, 0) == count] for count in counts]
    if shares == "epsilons":
        kinds = [(seed, count) for seed in spec.seeds for count in counts]
        return [[cell for cell in cells if (cell.seed, n_axes.get(cell.epsilon, 0)) == kind] for kind in kinds]
    return [[cell] for cell in cells]


def _table(run: checks.ResolvedRun, dataset: Dataset, device: str) -> Generator[Event, None, Table]:
    """The method's inputs (features, images or texts) of both splits, in the order of the dataset's rows."""
    spec = run.spec
    n_train, n_test = dataset.n_people, len(dataset.test)
    examples: list[Examples] = []
    for split, span in ((dataset.train, (0, n_train)), (dataset.test, (n_train, n_train + n_test))):
        read = yield from inputs(spec, run.backbone, split.images, device, span=(*span, n_train + n_test))
        words = split.images.sentence_of if isinstance(split.images, Sentences) else None
        examples.append(Examples(read, split.labels, sentences=words, keys=split.keys))
    train, sources = examples[0], dataset.train.sources
    if train.sentences is not None and run.rows_per_unit > 1:
        places = train.neighbouring_words(run.rows_per_unit)
        train, sources = train.take(places), None if sources is None else sources[places]
    # The form of encoded texts, for methods that read texts.
    texts = TextForm(spec.params.text_length, may_show=run.dataset.may_show) if spec.params.inputs == "text" else None
    form = None  # of values that a stream may put in another order: the examples' own, or of texts what a network makes
    if spec.data.backbone == "pixels":
        form = values_form(dataset.train.images)
    elif run.scenario.needs_values:
        form = Form(examples[0].table.shape[1:], -1.0, 1.0)
    return Table(
        train=train,
        test=examples[1],
        classes=dataset.classes,
        train_sources=sources,
        test_sources=dataset.test.sources,
        sources=dataset.sources,
        form=form,
        texts=texts,
        n_people=dataset.n_people,
        undeclared=dataset.undeclared,
    )


def inputs(
    spec: RunSpec, network: BackboneCard, images: Content, device: str, *, span: tuple[int, int, int] | None = None,
    of: str = "",
) -> Generator[Event, None, NDArray[np.generic]]:
    """The method's inputs for these examples: features [n, K], images [n, ...], or encoded texts int32 [n, length, planes].

    Features are along all of the network's public axes, where it has some; a learner gets the first `axes.numbers` of them.

    `span`: first, last and total count for progress events, all public numbers (None: only these examples). `of`: whose
    features they are, in words after "features".
    """
    span = span or (0, len(images), len(images))
    doing = {"features": f"computing features{of} with", "images": "decoding pictures for", "text": "reading texts for"}
    if spec.params.inputs == "images" and not isinstance(images, Images):
        doing["images"] = "reading examples for"
    text = f"{doing[spec.params.inputs]} {network.title.partition(',')[0]}"
    yield Progress("backbone", span[0], span[2], None, text)
    if spec.params.inputs == "text":
        from dpcl_core.backbones import plain_language

        assert isinstance(images, Texts)
        return plain_language.read(images, spec.data.backbone, spec.params.text_length)
    if spec.params.inputs == "images":
        from dpcl_core.backbones import adaptable  # a network that is trained loads torch

        inside = adaptable.load(spec.data.backbone, device, spec.data.resolution).features
        return (yield from _counted(inside.stored(images), len(images), span, text))
    steps = extractor.computed(spec.data.backbone, images, device, spec.data.resolution)
    features = yield from _counted(steps, len(images), span, text)
    public = None if spec.data.axes == 0 else public_axes.public_part(network, spec.data.dataset)
    return features if public is None else public_axes.load(network.name, public).along(features)


def _counted(
    steps: Generator[int, None, NDArray[np.generic]], n: int, span: tuple[int, int, int], text: str
) -> Generator[Event, None, NDArray[np.generic]]:
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


def _anchors(run: checks.ResolvedRun, dataset: Dataset, device: str) -> Generator[Event, None, NDArray[np.float32] | None]:
    """Features of public examples for methods that use anchors, along the network's public axes as the data's; else None."""
    if not run.method.needs_anchors:
        return None
    public = load.public_examples(dataset.train.images)
    what = "sentences" if isinstance(public.content, Texts | Sentences) else "examples"
    yield Note("info", f"Public {what}: {public.title}.")
    features = yield from inputs(run.spec, run.backbone, public.content, device, of=f" of public {what}")
    return cast(NDArray[np.float32], features)[public.rows]
