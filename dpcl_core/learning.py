"""One learner on all tasks: trains, evaluates, saves a checkpoint after every task, and finishes the learner's cells."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Protocol

import numpy as np

from dpcl_core import arrays as arrays_file
from dpcl_core import metrics
from dpcl_core.backbones import bundled as public_axes
from dpcl_core.backbones import extractor
from dpcl_core.checks import ResolvedRun
from dpcl_core.data import catalog
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import AuditNote, CellFinished, Event, Fact, JsonValue, Planned, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common import classifier, method, state
from dpcl_core.methods.common.given_lists import GivenLists, budget
from dpcl_core.methods.common.method import Learner, LearnerEvent, MakeLearner, Observation, PublicContext
from dpcl_core.privacy import budgets, ledger
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.labels import spend_on_read_list
from dpcl_core.privacy.ledger import Ledger, ledger_entries
from dpcl_core.privacy.recount import exceeds
from dpcl_core.scenarios.stream import Task, TaskStream
from dpcl_core.spec import Cell, RunSpec
from dpcl_core.version import __version__

_LARGEST = 1 << 29  # bytes of a checkpoint's arrays; a value of SQLite has at most 10^9
_NO_WAY_BACK = "cannot be resumed: {why}; Retry starts it from the beginning, as a new run with a budget of its own"


class Observer(Protocol):
    """Turns observations of a simulation into events for its visualisations, and passes the learner's events on."""

    KEPT: ClassVar[tuple[str, ...]]

    def events(self, learner_events: Iterable[LearnerEvent]) -> Iterator[Event]: ...


Observe = Callable[[RunSpec, Sequence[Cell], PublicContext], Observer]
ClosingAudit = Callable[[RunSpec], Mapping[float, AuditNote]]  # lower bounds on epsilon by requested epsilon


class _NoObserver:
    """Drops what only visualisations need."""

    KEPT: ClassVar[tuple[str, ...]] = ()

    def events(self, learner_events: Iterable[LearnerEvent]) -> Iterator[Event]:
        return (event for event in learner_events if not isinstance(event, Observation))


@dataclass
class Group:
    """The cells of one learner.

    `requested`: the run's settings; `run`: with the budget of one row where a person has several; `place`: of the group
    among the run's; `keep`: for its checkpoints, if any; `make`: makes the learner, where that is not as usual; `written`:
    when own data were (`own.written_at`), asked before reading them; `planned`: the plan of the whole run, None for a
    learner alone: its models' joint epsilon is then not stated; `observe`, `audit`: as `engine.run` takes them.
    """

    requested: RunSpec
    run: ResolvedRun
    cells: Sequence[Cell]
    streams: Mapping[int, TaskStream]
    context: PublicContext
    place: int = 0
    keep: state.Keep | None = None
    make: MakeLearner | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    planned: Planned | None = None
    observe: Observe | None = None
    audit: ClosingAudit | None = None

    def __post_init__(self) -> None:
        self.spec = self.run.spec
        self._started = time.perf_counter()  # less what the processes before this one took
        self._of_seeds = metrics.grouped((cell.seed, cell) for cell in self.cells)
        self._names = dict(zip(self.spec.cells(), self.requested.cells(), strict=True))
        self._rounds: list[Mapping[int, Task]] = [
            {seed: self.streams[seed].tasks[step] for seed in self._of_seeds} for step in range(self.context.n_tasks)
        ]
        privacy, rows = self.requested.privacy, self.run.rows_per_unit
        self._ledgers = {
            cell: Ledger(privacy.delta, privacy.adjacency, self.streams[cell.seed].recurrence, rows_per_unit=rows)
            for cell in self.cells
        }
        self._matrices: dict[Cell, list[tuple[float | None, ...]]] = {cell: [] for cell in self.cells}
        self._lists: GivenLists | None = None
        if self.spec.labels != self.requested.labels:
            of_row = replace(self.requested, privacy=budgets.for_a_row(privacy, rows))
            self._of_row = dict(zip(self.spec.cells(), of_row.cells(), strict=True))
            self._lists = GivenLists(of_row, self.context, self.context.public)
            self._show_lists(self._lists)

    def events(self) -> Iterator[Event]:
        """The events of all tasks, and of the cells' ends. Those of tasks with a checkpoint are passed on from there.

        Nothing of a task leaves before its checkpoint is saved, but what is public: see `methods.common.state`. Raises
        BadInput where the newest checkpoint has no way back, or one before it is missing.
        """
        kept = () if self.keep is None else self.keep.of(self.place)
        if not state.are_from_the_first_on(kept):
            raise self._refusal("some of its checkpoints are missing, and noise must not be drawn twice")
        for checkpoint in kept:
            yield from checkpoint.events
        if kept and kept[-1].task == self.context.n_tasks - 1:
            return
        cells, rounds = self.cells, self._rounds
        learner = (self.make or methods.maker(self.spec.method))(self.spec, cells, self.context)
        observer = _NoObserver() if self.observe is None else self.observe(self.spec, cells, self.context)
        baselines = self._baselines(learner)
        if kept:
            self._restore(kept[-1], learner, observer)
        elif isinstance(learner, method.Surveying):
            learner.survey({seed: self.streams[seed].tasks for seed in self._of_seeds}, self._ledgers)
        for step in range(len(kept), len(rounds)):
            if isinstance(learner, method.Prefetching):
                learner.prefetch(rounds[step : step + 2])
            if self._lists is not None:
                self._give_lists(self._lists, step)
            elif self.spec.labels == "prior" and self.spec.scenario.reads_lists:  # a learner takes its task's list as public
                spend_on_read_list(self._ledgers.values(), task=step)
            held: list[Event] = []
            for event in observer.events(learner.learn(rounds[step], self._ledgers)):
                if state.is_public(event):
                    yield event
                else:
                    held.append(event)
            held += self._learned(learner, step)
            is_last = step == len(rounds) - 1
            if is_last:
                held += self._finished(baselines)
            if self.keep is not None:
                state_after = (None, None) if is_last else self._state(learner, observer)
                self.keep.save(state.Checkpoint(self.place, step, tuple(held), *state_after))
            yield from held

    def _give_lists(self, lists: GivenLists, step: int) -> None:
        """Releases the lists of a task, and puts them in place of what the stream says of its labels."""
        for seed, of_seed in self._of_seeds.items():
            cells, books = [self._of_row[cell] for cell in of_seed], [self._ledgers[cell] for cell in of_seed]
            lists.give(self._rounds[step][seed], cells, books)
        self._show_lists(lists)

    def _show_lists(self, lists: GivenLists) -> None:
        """Gives every task its list if it has one by now."""
        self._rounds = [{seed: lists.given(task, seed) for seed, task in of.items()} for of in self._rounds]
        self.streams = {
            seed: replace(stream, tasks=tuple(lists.given(task, seed) for task in stream.tasks))
            for seed, stream in self.streams.items()
        }

    def _learned(self, learner: Learner, step: int) -> Iterator[Event]:
        """Evaluates every cell after a task; keeps its classifier. Raises BadInput as `_spent` does."""
        for seed, matching in self._of_seeds.items():
            results = classifier.evaluated(learner, seed, self.streams[seed], step, len(matching))
            seen = self.streams[seed].tasks[: step + 1]
            for cell, result in zip(matching, results, strict=True):
                self._matrices[cell].append((*result.by_task, result.ahead))
                spent = self._spent(cell, self._ledgers[cell])
                yield TaskLearned(cell, step, result.by_task, result.pooled, spent, result.by_rule, result.ahead)
                kept = classifier.cell_classifier(learner, cell, seen, self.context, self._reads, self.spec.n_cells)
                yield from () if kept is None else (kept,)

    def _spent(self, cell: Cell, ledger: Ledger) -> float:
        """Epsilon so far.

        Raises BadInput where noise was made for a budget and the accountant has no bound for it, and where a model did more
        than was planned: nothing of it leaves, and the plan's bound holds.
        """
        spent = ledger.epsilon()
        is_meant = self.run.method.guarantee == "proved" and not self.spec.params.is_noise_given
        is_noisy = not any(isinstance(entry.event, dp.NonPrivateDpEvent) for entry in ledger.entries)
        if math.isinf(spent) and math.isfinite(cell.epsilon) and is_meant and is_noisy:
            no_bound = f"at delta = {ledger.delta:g} its noise has no bound"
            allowed = f"is not kept: {no_bound}; take a smaller epsilon or a larger delta"
            raise BadInput("privacy.epsilons", cell.epsilon, allowed)
        plan = self.planned
        if plan is not None and exceeds(ledger_entries(ledger), dict(plan.ledgers)[self._names[cell].epsilon]):
            allowed = "entered more into its ledger than its card's `planned` says; mend the plan"
            raise BadInput("method", self.spec.method, allowed)
        return spent

    def _finished(self, baselines: Mapping[Cell, tuple[float | None, ...]]) -> Iterator[CellFinished]:
        spec, cells, context, ledgers, card = self.spec, self.cells, self.context, self._ledgers, self.run.method
        rows, data = self.run.rows_per_unit, self.run.dataset
        seconds = coarse((time.perf_counter() - self._started) / len(cells))
        audits = self.audit(spec) if self.audit is not None and card.guarantee == "nominal" else {}
        for cell in cells:
            stream = self.streams[cell.seed]
            self._claim_lists(cell, ledgers[cell])
            yield CellFinished(
                cell,
                metrics.summary(self._matrices[cell], baselines.get(cell)),
                guarantee(
                    ledgers[cell],
                    self.requested,
                    self._names[cell],
                    unit=_unit(data, stream),
                    n_people=context.n_people // rows if context.n_users is None else context.n_users,
                    n_tasks=context.n_tasks,
                    assumed=(*stream.assumed, *card.assumes(spec.params)),
                    # Of clients what the files say for all rows; the rest is of single people.
                    limits=data.limits if stream.unit != "user" else catalog.public_by_form(data) if data.is_own else (),
                    planned=self.planned,
                    audit=audits.get(cell.epsilon),
                    notes=card.notes(spec.params),
                    layer=card.printed.layer(self.requested),
                ),
                seconds,
                ledger_entries(ledgers[cell]),
                baselines.get(cell, ()),
            )

    def _claim_lists(self, cell: Cell, ledger: Ledger) -> None:
        """Adds what given lists cost to what a publication claims for the rest."""
        if ledger.claimed is None or self._lists is None or self.requested.labels != "dp-learned":
            return
        of_lists = self.context.n_recurring * budget(self._lists.spec.privacy, self._of_row[cell].epsilon, self.context)[0]
        terms = {**ledger.claimed.terms, "lists of labels": of_lists}
        ledger.claimed = replace(ledger.claimed, epsilon=ledger.claimed.epsilon + of_lists, terms=terms, accounted=None)

    def _baselines(self, learner: Learner) -> dict[Cell, tuple[float | None, ...]]:
        """Accuracy of untrained models on every task, by cell, in streams that look ahead."""
        baselines: dict[Cell, tuple[float | None, ...]] = {}
        for seed, cells_of_seed in self._of_seeds.items():
            if self.streams[seed].looks_ahead:
                results = classifier.untrained(learner, seed, self.streams[seed], len(cells_of_seed))
                baselines |= zip(cells_of_seed, results, strict=True)
        return baselines

    @cached_property
    def _reads(self) -> dict[str, Fact]:
        """How an example becomes the learner's input: public facts that a kept classifier is used with."""
        spec, form, network = self.spec, self.context.form, self.run.backbone
        # An adapter has its axes among its arrays.
        is_along = bool(self.context.n_axes) and spec.params.inputs == "features"
        public = public_axes.public_part(network, spec.data.dataset) if is_along else None
        return {
            "inputs": spec.params.inputs,
            "network": network.name,
            "network_identity": extractor.identity(network.name, self.context.device, spec.data.resolution),
            "resolution": spec.data.resolution,
            "n_inputs": self.context.n_inputs,
            "is_tagged": self.streams[self.cells[0].seed].metric == "entity-f1",
            **({} if public is None else {"axes": public}),
            **({} if form is None else {"shape": form.shape, "low": form.low, "high": form.high}),
            **({} if form is None or form.encoding is None else {"rows": form.encoding}),
            **{f"{role}_column": column for role, column in self.run.dataset.roles if role == "text"},
        }

    # Checkpoints

    def _state(self, learner: Learner, observer: Observer) -> tuple[str | None, bytes | None]:
        """The state to go on from after a task; nothing for a learner that cannot be kept, or is too large to be."""
        if not isinstance(learner, state.Durable):
            return None, None
        parts, arrays = state.saved({"learner": learner, "observer": observer})
        if sum(array.nbytes for array in arrays.values()) > _LARGEST:
            return None, None
        document: dict[str, JsonValue] = {
            "program": __version__,
            "data": self._data_digest,
            "parts": parts,
            "ledgers": [ledger.document(self._ledgers[cell]) for cell in self.cells],
            "matrices": [[list(row) for row in self._matrices[cell]] for cell in self.cells],
            "seconds": time.perf_counter() - self._started,
            "lists": [] if self._lists is None else self._lists.document(),
        }
        return json.dumps(document), arrays_file.save(dict(arrays))

    def _restore(self, checkpoint: state.Checkpoint, learner: Learner, observer: Observer) -> None:
        """Gives fresh parts the state after the checkpoint's task."""
        if checkpoint.document is None or checkpoint.arrays is None or not isinstance(learner, state.Durable):
            raise self._refusal("the state of its method was not kept, and its noise must not be drawn twice")
        damaged = self._refusal(f"its checkpoint after task {checkpoint.task + 1} is damaged")
        with instead_of(ValueError, TypeError, LookupError, AttributeError, say=damaged):
            document = json.loads(checkpoint.document)
            if (wrote := document["program"]) != __version__:
                raise self._refusal(f"version {wrote} of the program wrote its checkpoint, this is {__version__}")
            if document["data"] != self._data_digest:
                raise self._refusal("its data have changed, or were written again, since it began")
            for cell, entries, rows in zip(self.cells, document["ledgers"], document["matrices"], strict=True):
                ledger.refill(self._ledgers[cell], entries)
                self._matrices[cell][:] = [tuple(row) for row in rows]
            self._started -= float(document["seconds"])
            if self._lists is not None:
                self._lists.lists |= {seed: [tuple(one) for one in of] for seed, of in document["lists"]}
                self._show_lists(self._lists)
            state.restore({"learner": learner, "observer": observer}, document["parts"], arrays_file.load(checkpoint.arrays))
        if isinstance(learner, state.Recalling):
            learner.recall(self._rounds[: checkpoint.task + 1])

    def _refusal(self, why: str) -> BadInput:
        return BadInput("resume", self.spec.method, _NO_WAY_BACK.format(why=why))

    @cached_property
    def _data_digest(self) -> str:
        """Digest of which rows are in which task, with which labels: places in a checkpoint mean these rows.

        Of own data also of their rows by their keys, which are digests of their own bytes (features are not in it: another
        processor rounds otherwise), and of when they were written: own data that were written again are other data even
        where no row has changed, so that a refusal says what somebody has done, and nothing about a row.
        """
        is_own = self.run.dataset.is_own
        digest = sha256(json.dumps(self.written).encode() if is_own else b"")
        for tasks in self._rounds:
            for task in tasks.values():
                rows = np.arange(len(task.train)) if task.train.rows is None else task.train.rows
                digest.update(np.array(task.train.table.shape).tobytes() + rows.tobytes() + task.train.labels.tobytes())
                if is_own and task.train.keys is not None:
                    digest.update(task.train.keys.tobytes())
        return digest.hexdigest()


def coarse(seconds: float) -> float:
    """Seconds, rounded up to 1, 2 or 5 times a power of ten: times depend on private data, and no bound covers them."""
    power = 10.0 ** math.floor(math.log10(max(seconds, 1e-6)))
    return next(step * power for step in (1, 2, 5, 10, 20) if seconds <= step * power)


def _unit(card: catalog.DatasetCard, stream: TaskStream) -> str:
    """The privacy unit, as one of `privacy.guarantee.PROTECTED`."""
    if stream.unit == "example" and card.has_people:
        return "person"
    return {"text": "text", "tagged": "sentence"}.get(card.kind, "example") if stream.unit == "example" else stream.unit
