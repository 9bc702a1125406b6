"""Runs that never ran: event streams made up by rule, and stores filled with runs in any state. Needs no data, no engine."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import update

from dpcl_core import checks, metrics
from dpcl_core.errors import FailureKind
from dpcl_core.events import AuditNote, CellFinished, Claim, Event, Guarantee, Note, Progress, Started, TaskLearned
from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.runs import process, worker
from dpcl_core.runs.run import Failure, Status
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE, runs
from dpcl_core.spec import Cell, LabelSetting, RunSpec


def a_spec(
    *, epsilons=(1.0, 8.0, math.inf), seeds=(0, 1, 2), tasks=5, labels: LabelSetting = "prior-const", dataset="digits"
) -> RunSpec:
    """A small run of the cosine classifier, on the bundled digits unless another dataset is named."""
    raw = {"method": "cosine", "labels": labels, "data": {"dataset": dataset, "backbone": "pixels"}, "seeds": list(seeds)}
    scenario = {"kind": "class-incremental", "tasks": tasks}
    return checks.parse({**raw, "scenario": scenario, "privacy": {"epsilons": list(epsilons)}})


def recorded(spec: RunSpec, *, n_tasks: int = 5) -> list[Event]:
    """Everything a run of this spec could say, the same each time: accuracy falls with tasks and rises with epsilon."""
    said: list[Event] = [
        Progress("data", 0, 1, None, f"loading {spec.data.dataset}"),
        Progress("backbone", 0, 1, None, f"computing features with {spec.data.backbone}"),
        Started(n_tasks, tuple(f"task {k + 1}" for k in range(n_tasks)), "Digits (8 × 8)", 1437, 360),
        Note("info", "A recorded run, played back."),
    ]
    for task in range(n_tasks):
        said.append(Progress("training", 1, 1, task, f"summing features of task {task + 1}"))
        for cell in spec.cells():
            said.append(TaskLearned(cell, task, row := _row(cell, task), sum(row) / len(row), _spent(spec, cell)))
    return said + [_finished(spec, cell, n_tasks) for cell in spec.cells()]


def altered(events: Sequence[Event], kind: type[Any], change: Callable[[Any], Event]) -> list[Event]:
    """The same, those of a kind changed."""
    return [change(event) if isinstance(event, kind) else event for event in events]


def promising(events: Sequence[Event], **changes: Any) -> list[Event]:
    """The same, with other guarantees."""
    return altered(events, CellFinished, lambda event: replace(event, guarantee=replace(event.guarantee, **changes)))


def half(events: Sequence[Event]) -> list[Event]:
    """What of these is there after the third task, before any model is finished."""
    return [
        event
        for event in events
        if not isinstance(event, CellFinished) and not (isinstance(event, (TaskLearned, Progress)) and (event.task or 0) > 2)
    ]


def claimed(events: Sequence[Event]) -> list[Event]:
    """The same, of a method whose finite budgets are only claimed by its publication, with an audit beside each."""
    audit = AuditNote(5.61, 0.95, 1000, "differencing the memory", "sees the noisy records and knows one of them")

    def unproved(event: Event) -> Event:
        if isinstance(event, TaskLearned):
            return replace(event, epsilon=math.inf)
        if not isinstance(event, CellFinished):
            return event
        asked, given = event.cell.epsilon, event.guarantee
        terms = {"ε1": 0.25 * asked, "ε1/γ_x": 0.0, "ε1/γ": 0.25 * asked, "ε2": 0.5 * asked}
        claim = Claim(asked, "Lai et al. 2022, Theorem 2", terms, {"λ": 100.0})
        caveat = "No noise was added." if math.isinf(asked) else "One noise vector is shared by all records."
        parts = dict.fromkeys(given.parts, math.inf)
        unbounded = replace(given, epsilon=math.inf, parts=parts, claim=claim, audit=audit, caveats=(caveat,))
        return replace(event, guarantee=unbounded)

    return [unproved(event) for event in events]


def fill(
    store: Store, spec: RunSpec, events: Sequence[Event], *, status: Status = "finished", name: str | None = None,
    device: str = "cpu", failure: Failure | None = None,
) -> str:  # fmt: skip
    """Puts a run that said `events` into the store in any state and gives its id; `failure` for "failed" and "lost".

    A run under way belongs to this process, which counts as its worker while it lives. A device holds one of those only.
    """
    run_id = store.create(spec, name=name, device=device)
    set_state(store, run_id, status, failure or (a_failure("worker-died" if status == "lost" else "diverged")), device)
    store.append(run_id, events)
    return run_id


def finished(store: Store, spec: RunSpec, *, n_tasks: int = 5, name: str | None = None) -> str:
    """Puts a run of these settings that has finished into the store, and gives its id."""
    return fill(store, spec, recorded(spec, n_tasks=n_tasks), name=name)


def set_state(store: Store, run_id: str, status: str, failure: Failure, device: str = "cpu") -> None:
    """Puts a stored run into any state; `failure` for "failed" and "lost"."""
    now, mine = time.time(), process.me()
    values: dict[str, object] = {"status": status}
    if status != "queued":
        values |= {"started": now - 10, "heartbeat": now, "seconds": 10.0}
    if status in ACTIVE:
        values |= {"machine": mine.machine, "pid": mine.pid, "ticks": mine.ticks, "runs_on": process.here(device)}
    elif status != "queued":
        values |= {"finished": now}
    if status in ("failed", "lost"):
        values |= {"error_kind": failure.kind, "error": failure.sentence, "error_log": failure.log}
    alter(store, run_id, **values)  # no run passes through these states in such order by itself


def submit(app: Any) -> str:
    """The id of a new run that an app has been given."""
    run_id = app.store.create(a_spec())
    app.submit(run_id)
    return run_id


def claim(store: Store, spec: RunSpec | None = None, **options: Any) -> str:
    """The id of a new run that this process has claimed."""
    run_id = store.create(spec or a_spec(), **options)
    assert store.claim(run_id, process.me())
    return run_id


def ended(store: Store, run_id: str, end: str = "finished") -> str:
    """The id of a waiting run that was claimed and has ended so."""
    assert store.claim(run_id)
    store.end(run_id, end)  # type: ignore[arg-type]
    return run_id


def carried_out(store: Store, run_id: str, **options: Any) -> Status:
    """How a waiting run ends that this process claims and carries out."""
    assert store.claim(run_id, process.me())
    return worker.carry_out(store, run_id, **options)


def alter(store: Store, run_id: str, **columns: object) -> None:
    """Writes into a run's row what no run gets by itself, as after an outage."""
    store.change(update(runs).where(runs.c.id == run_id).values(**columns))


def a_failure(kind: FailureKind) -> Failure:
    """A failure of a kind, with words to look for."""
    return Failure(kind, f"This run failed on purpose ({kind}).", "Traceback: made up for a test")


@dataclass(frozen=True, slots=True)
class Memory:
    """Checkpoints in memory: they outlive a run, but not its process."""

    saved: dict[int, list[Checkpoint]] = field(default_factory=dict)

    def of(self, group: int) -> Sequence[Checkpoint]:
        return tuple(self.saved.get(group, ()))

    def save(self, checkpoint: Checkpoint) -> None:
        self.saved.setdefault(checkpoint.group, []).append(checkpoint)


def slowly(events: Sequence[Event], seconds: float) -> Iterator[Event]:
    """The events, spread evenly over so many seconds."""
    for event in events:
        yield event
        time.sleep(seconds / len(events))


def _accuracy(cell: Cell, after_task: int, on_task: int) -> float:
    kept = 0.95 if math.isinf(cell.epsilon) else 0.95 * cell.epsilon / (cell.epsilon + 0.5)
    return round(kept - 0.03 * (after_task - on_task) - 0.01 * (cell.seed % 3), 4)


def _row(cell: Cell, task: int) -> tuple[float, ...]:
    return tuple(_accuracy(cell, task, on_task) for on_task in range(task + 1))


def _spent(spec: RunSpec, cell: Cell) -> float:
    return math.inf if spec.labels == "data" else cell.epsilon


def _finished(spec: RunSpec, cell: Cell, n_tasks: int) -> CellFinished:
    leak = ("The list of labels is read from the data: it can show with certainty that someone took part.",)
    guarantee = Guarantee(
        epsilon=_spent(spec, cell), delta=spec.privacy.delta, unit="one training image", claimed_epsilon=cell.epsilon,
        adjacency="add-remove: neighbouring datasets differ by one image added or removed", noise=spec.privacy.noise,
        composition="parallel: every image is in one task", assumptions=("the list of classes is public",),
        scope="every classifier released along the stream, one after each task", not_covered=("the test images",),
        caveats=leak if spec.labels == "data" else (),
        parts={f"task {task + 1}": _spent(spec, cell) for task in range(n_tasks)},
    )  # fmt: skip
    return CellFinished(cell, metrics.summary([_row(cell, task) for task in range(n_tasks)]), guarantee, 0.25)
