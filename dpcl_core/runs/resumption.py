"""Runs that survive their process: checkpoints in the store, and the way back into the queue.

A run may be resumed where its process died, where it was stopped, and where the store failed; not where it failed by itself:
that, too, can depend on private data, and another try would ask them again. See `methods.common.state` for the argument.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import cast

from safetensors import SafetensorError, deserialize
from sqlalchemy import ColumnElement, Connection, Row, Select, Text, and_, delete, func, insert, or_, select, update
from sqlalchemy import cast as cast_in_store

from dpcl_core import paths
from dpcl_core.errors import BadInput, StoreRefused, StoreTrouble, StoreUnusable, instead_of
from dpcl_core.events import CellFinished, Classifier, Event, JsonValue, Progress, Started, from_json, to_json
from dpcl_core.methods.common.state import Checkpoint, are_from_the_first_on
from dpcl_core.runs import charges, database, process, queue, run, tables
from dpcl_core.runs.process import Patience
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import OPEN, audits, checkpoints, classifiers, events, resumptions, runs, shards, turns

BY_ITSELF = 2  # times that a run is resumed before a person has to
FRESH_SECONDS = 3600.0  # a run that was silent for longer may be one of a restored backup: that is left to a person
_GIVEN_UP = " Its process has now ended three times, so it waits for a person: Resume tries again."
_ATTENDED = " It ends with the command or script that it was started from: dpcl resume {} goes on with it, as does Resume."
_LEFT = "The command that carried out this run, dpcl work, was ended."
_SILENT = (
    " It had given no sign of life for over an hour, so it does not go on by itself: if a backup was restored since, take "
    "Retry, else Resume."
)
_UNKNOWN = (
    "results of it have left this computer that its store does not have, as where a backup was restored, and noise must not "
    "be drawn twice; Retry starts a new run"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """The checkpoints of one run in its store; outlasts a store that is away, then raises StoreTrouble.

    `part`: the part of the run that this process carries out; None: all of it.
    """

    store: Store
    run_id: str
    patience: Patience = field(default_factory=Patience)
    part: str | None = None

    def of(self, group: int) -> Sequence[Checkpoint]:
        """The group's checkpoints, whose events leave from now on.

        Raises StoreUnusable where one is damaged, as `_whole` does, and where the store is behind what has left already.
        """
        left = self.patience.outlast(lambda: n_tasks(self.run_id))
        saved = _saved(checkpoints.c.run_id == self.run_id, checkpoints.c.learner == group)
        kept = [_whole(row) for row in self.patience.outlast(lambda: self.store.rows(saved))]
        n = kept[-1].task + 1 if kept else 0
        if n < left.get(group, 0):
            raise StoreUnusable(_UNKNOWN)
        if kept:
            self.patience.outlast(lambda: record(self.run_id, group, n))
        return kept

    def save(self, checkpoint: Checkpoint) -> None:
        """Saves a checkpoint in place of the state before it. Raises BadInput in a process from which the run was taken."""
        self.patience.outlast(lambda: self._save(checkpoint))
        self.patience.outlast(lambda: record(self.run_id, checkpoint.group, checkpoint.task + 1))

    def _save(self, checkpoint: Checkpoint) -> None:
        place = {"run_id": self.run_id, "learner": checkpoint.group}
        documents = [to_json(event) for event in checkpoint.events]
        of_learner = [checkpoints.c[name] == value for name, value in place.items()]
        state = {"document": checkpoint.document, "arrays": checkpoint.arrays}
        with self.store.holding(self.part or self.run_id, process.me()) as connection:
            if self.part is not None:  # of a whole whose process died, which may go on by itself, the parts go on
                goes_on = runs.c.deleted.is_(None) & runs.c.status.not_in(("finished", "failed", "cancelled"))
                if connection.scalar(select(runs.c.id).where(runs.c.id == self.run_id, goes_on)) is None:
                    raise BadInput("run", self.run_id, "is over, so that its parts end")
            connection.execute(update(checkpoints).where(*of_learner).values(document=None, arrays=None))
            # It is there if an earlier attempt was saved and the answer was lost.
            connection.execute(delete(checkpoints).where(*of_learner, checkpoints.c.task == checkpoint.task))
            digest = _digest(checkpoint.group, checkpoint.task, documents) + _digest(checkpoint.document, checkpoint.arrays)
            values = {**place, "task": checkpoint.task, "events": documents, **state, "digest": digest}
            connection.execute(insert(checkpoints).values(**values))


def check_known(store: Store, run_id: str, patience: Patience) -> None:
    """Raises StoreUnusable where the store is behind what has left this computer of a run, in any group of it."""
    left = patience.outlast(lambda: n_tasks(run_id))  # read first: parts that go on add to both, to the store first
    counted = select(checkpoints.c.learner, func.max(checkpoints.c.task) + 1).where(checkpoints.c.run_id == run_id)
    found = patience.outlast(lambda: store.pairs(counted.group_by(checkpoints.c.learner)))
    if any(found.get(group, 0) < n for group, n in left.items()):
        raise StoreUnusable(_UNKNOWN)


def carried_on(store: Store, run_id: str, stream: Iterable[Event], patience: Patience) -> Iterator[Event]:
    """The events of a run that goes on, without those that are stored already; marks it as running when it has started.

    Outlasts a store that is away, then raises StoreTrouble.
    """
    stored = patience.outlast(lambda: Counter(map(_key, _stored(store, run_id))))
    for event in stream:
        key = _key(to_json(event)) if stored and not isinstance(event, Progress) else ""
        if stored[key]:
            stored[key] -= 1
            if isinstance(event, Started):
                patience.outlast(lambda: store.begin(run_id, by=process.me()))
        else:
            yield event


def why_not(store: Store, run_id: str) -> str | None:
    """The reason why a run cannot be resumed, as a part of a sentence; None where it can be."""
    with store.reading() as connection:
        return _why_not(connection, run.checked_id(run_id))


def resume(store: Store, run_id: str) -> None:
    """Puts a run back into its queue, at its old place.

    Raises BadInput where it cannot be resumed, where this visitor may have no more runs, and where it exceeds a budget.
    """
    store.check_mine(run_id)
    with store.writing() as connection:
        why = _why_not(connection, run.checked_id(run_id))
        if why is None and store.visitor is not None:
            tables.take(connection, tables.QUEUE)
            work = connection.execute(select(*run.WORK).where(runs.c.id == run_id)).one()
            queue.note(connection, store.visitor)
            queue.check_limits(connection, store.visitor, work.n_cells, *run.estimates(connection, [work]))
        if why is None:
            charges.check_again(connection, run_id, is_start=False)
        if why is not None or not _requeued(connection, run_id):
            raise BadInput("run", run_id, f"cannot be resumed: {why or 'another process was faster'}")
        connection.execute(delete(resumptions).where(resumptions.c.run_id == run_id))


def hand_back(store: Store, run_id: str) -> None:
    """Puts the run that this process carries out back into its queue, for another process; one that is to stop ends."""
    if store.status(run_id) == "stopping":
        store.end(run_id, "cancelled", by=process.me())
    elif store.end(run_id, "lost", run.Failure("worker-died", _LEFT, ""), by=process.me()):
        resume(store, run_id)


def resume_by_itself(connection: Connection, run_id: str) -> bool:
    """Resumes a run whose process died after a checkpoint, at most twice until a person does; whether it did.

    A part of a run counts anew with every checkpoint. Not for a run that ends with the command that it was started from. A
    process that dies before the first checkpoint is likely to die again, of what its data need: that is left to a person.
    Not so a part of a run, whose machine may be gone. A run that was silent for long is left to a person, too: of a backup
    that was restored, it may have gone on long ago and released what would be drawn again.
    """
    of_run, _, groups = _checkpoints_of(connection, run_id)
    n = connection.scalar(select(func.count()).select_from(checkpoints).where(of_run)) or 0
    before = connection.execute(select(resumptions).where(resumptions.c.run_id == run_id)).first()
    n_times = before.n_times if before is not None and (groups is None or before.n_checkpoints == n) else 0
    of_process = select(runs.c.attended, database.now() - runs.c.heartbeat).where(runs.c.id == run_id)
    is_attended, silent = connection.execute(of_process).one()
    if not is_attended and (not (n or groups) or _why_not(connection, run_id) is not None):
        return False
    if is_attended or n_times >= BY_ITSELF or silent is None or silent > FRESH_SECONDS:
        why = _ATTENDED.format(run_id) if is_attended else _GIVEN_UP if n_times >= BY_ITSELF else _SILENT
        connection.execute(update(runs).where(runs.c.id == run_id).values(error=runs.c.error + why))
        return False
    connection.execute(delete(resumptions).where(resumptions.c.run_id == run_id))
    connection.execute(insert(resumptions).values(run_id=run_id, n_checkpoints=n, n_times=n_times + 1))
    return _requeued(connection, run_id)


def _requeued(connection: Connection, run_id: str) -> bool:
    ended = or_(runs.c.status.in_(("lost", "cancelled")), (runs.c.status == "failed") & runs.c.error_kind.in_(run.RESUMABLE))
    change = update(runs).where(runs.c.id == run_id, runs.c.deleted.is_(None), ended)
    process = ("runs_on", "machine", "pid", "ticks", "heartbeat")
    nothing = dict.fromkeys((*process, "attended", "finished", "error_kind", "error", "error_log"))
    return connection.execute(change.values(status="queued", **nothing)).rowcount == 1


def _why_not(connection: Connection, run_id: str) -> str | None:
    row = connection.execute(select(runs).where(runs.c.id == run_id)).first()
    if row is None:
        raise run.no_such_run(run_id)
    if row.deleted is not None:
        return "it is deleted, and its checkpoints with it"
    if row.status in (*OPEN, "finished"):
        return f"it is {row.status}"
    if row.status == "failed" and row.error_kind not in run.RESUMABLE:
        return "it failed by itself, and would fail again; change its settings and start a new run"
    if row.status == "cancelled" and row.error_kind is not None:
        return "it took longer than its server allows; take fewer examples, budgets or seeds and start a new run"
    for table, column in ((turns, turns.c.run_id), (audits, audits.c.id)):
        if connection.scalar(select(column).select_from(table).where(column == run_id)) is not None:
            return "it is part of a tuning or an audit"
    of_run, whole_id, groups = _checkpoints_of(connection, run_id)
    try:
        left = n_tasks(whole_id)  # read first, as in `check_known`
        saved = [_whole(row) for row in connection.execute(_saved(of_run))]
    except StoreTrouble as damaged:
        return str(damaged)
    by_group = {group: list(of_group) for group, of_group in groupby(saved, lambda checkpoint: checkpoint.group)}
    if not all(are_from_the_first_on(of_group) for of_group in by_group.values()):
        return "some of its checkpoints are missing, and noise must not be drawn twice; Retry starts a new run"
    newest = [of_group[-1] for of_group in by_group.values()]
    if any(one.document is None and not any(isinstance(event, CellFinished) for event in one.events) for one in newest):
        return "the state of its method was not kept, and its noise must not be drawn twice; Retry starts a new run"
    learned = select(events.c.seq).where(events.c.run_id == run_id, events.c.kind.in_(("TaskLearned", "CellFinished")))
    if not saved and connection.execute(learned.limit(1)).first() is not None:
        return "it has results but no checkpoints; Retry starts a new run"
    over = select(shards.c.groups).join(runs, runs.c.id == shards.c.id).where(runs.c.status == "finished")
    if any(by_group.keys().isdisjoint(groups) for groups in connection.scalars(over.where(shards.c.run_id == run_id))):
        return "a part of it has finished, but its checkpoints are deleted; Retry starts a new run"
    if any(len(by_group.get(group, ())) < n for group, n in left.items() if groups is None or group in groups):
        return _UNKNOWN
    return None


def _checkpoints_of(connection: Connection, run_id: str) -> tuple[ColumnElement[bool], str, Sequence[int] | None]:
    """Which checkpoints are of a run, or of the part of one; the id of the whole run, and the part's groups (None: all)."""
    part = connection.execute(select(shards).where(shards.c.id == run_id)).one_or_none()
    if part is None:
        return checkpoints.c.run_id == run_id, run_id, None
    return and_(checkpoints.c.run_id == part.run_id, checkpoints.c.learner.in_(part.groups)), part.run_id, part.groups


_Row = Row[int, int, str, str | None, bytes | None, str]


def _digest(*parts: object) -> str:
    """32 letters that change with any of these: what a failing disk or a hand has changed is not believed."""
    found = sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
    return found.hexdigest()[:32]


def _saved(*of: ColumnElement[bool]) -> Select[int, int, str, str | None, bytes | None, str]:
    """Checkpoints as they lie in the store, in order of group and task; events as text, which may be damaged."""
    said = cast_in_store(checkpoints.c.events, Text).label("events")
    state = (checkpoints.c.document, checkpoints.c.arrays, checkpoints.c.digest)
    query = select(checkpoints.c.learner, checkpoints.c.task, said, *state)
    return query.where(*of).order_by(checkpoints.c.learner, checkpoints.c.task)


def _whole(row: _Row) -> Checkpoint:
    """A checkpoint that can be read. Raises StoreUnusable for a damaged one.

    To leave it out would be wrong: of a group only the newest has a state, so that its tasks would be learned again, and
    their noise drawn twice for what has left already, but charged once.
    """
    said = events_of(row.learner, row.task, row.events, row.digest)
    if (row.document, row.arrays) != (None, None) and row.digest[32:] != _digest(row.document, row.arrays):
        raise _damaged(row.learner, row.task)
    with instead_of(ValueError, TypeError, RecursionError, SafetensorError, say=_damaged(row.learner, row.task)):
        if row.document is not None and row.arrays is not None:
            json.loads(row.document)
            deserialize(row.arrays)  # type: ignore[no-untyped-call]
    return Checkpoint(row.learner, row.task, said, row.document, row.arrays)


def events_of(group: int, task: int, text: str, digest: str | None) -> tuple[Event, ...]:
    """The events in a checkpoint; `digest`: kept with it.

    Raises StoreUnusable, with which one it is, where they are not those that were saved.
    """
    with instead_of(ValueError, TypeError, KeyError, RecursionError, say=_damaged(group, task)):
        documents = json.loads(text)
        if digest is None or digest[:32] != _digest(group, task, documents):
            raise _damaged(group, task)
        return tuple(map(from_json, documents))


def _damaged(group: int, task: int) -> StoreUnusable:
    where = f"after task {task + 1} of its group {group + 1} of models"
    return StoreUnusable(f"the checkpoint {where} is damaged, and noise must not be drawn twice; Retry starts a new run")


def _stored(store: Store, run_id: str) -> Iterator[dict[str, JsonValue]]:
    """The documents of a run's stored events; of classifiers, which are large, what `_key` needs."""
    of_classifiers = select(classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
    with store.reading() as connection:
        rows = connection.execute(select(events.c.payload).where(events.c.run_id == run_id, events.c.kind != "Progress"))
        yield from (row.payload for row in rows)
        for row in connection.execute(of_classifiers.where(classifiers.c.run_id == run_id)):
            yield {"event": Classifier.__name__, "cell": {"epsilon": row.epsilon, "seed": row.seed}, "task": row.task}


def _key(document: dict[str, JsonValue]) -> str:
    """What makes an event the same as a stored one: all of it, or of a classifier its model and task."""
    if document["event"] == Classifier.__name__:
        cell = cast("dict[str, float]", document["cell"])
        return json.dumps([Classifier.__name__, float(cell["epsilon"]), cell["seed"], document["task"]])
    return json.dumps(document, sort_keys=True)


# What has left the runs that this computer carried out, kept outside the store: a restored backup does not know it.
#
# A file for each run, to which a line `GROUP N` is appended before the results of a group's first N tasks leave. It outlives
# the run: a backup may have it under way, and it would draw its noise again for what somebody has seen.


_LINE = re.compile(rb"(\d{1,9}) (\d{1,9})")


def n_tasks(run_id: str) -> dict[int, int]:
    """By group, of how many tasks results have left this computer; a group without any is not in it.

    Raises StoreTrouble where that cannot be read, as StoreRefused where this user may not.
    """
    path, found = _released(run_id), dict[int, int]()
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return found
    except OSError as error:
        raise _refused("read", error) from error
    for line in lines:
        if said := _LINE.fullmatch(line):  # a power cut may have left a part of the last one: nothing had left then
            group, n = map(int, said.groups())
            found[group] = max(n, found.get(group, 0))
    return found


def record(run_id: str, group: int, n: int) -> None:
    """Writes down that results of a group's first `n` tasks leave from now on; the disk has it when this returns.

    Raises StoreTrouble where the disk refuses, as StoreRefused where this user may not write: nothing may leave then.
    Written again where it stands already: an earlier attempt may have failed before the disk had it.
    """
    path = _released(run_id)
    with instead_of(OSError, say=partial(_refused, "written")):
        is_new = not path.exists()
        paths.make_folder(path.parent)
        # Appended whole: parts of a run may write at once.
        with os.fdopen(paths.open_file(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
            file.write(b"\n%d %d" % (group, n))  # on a line of its own, also after a part of one
            os.fsync(file.fileno())
        if is_new:
            for folder in (path.parent, path.parent.parent):
                paths.keep_names(folder)


def _released(run_id: str) -> Path:
    return paths.inside(paths.home() / "released", f"{run_id}.txt", "run")


def _refused(done: str, error: OSError) -> StoreTrouble:
    kind = StoreRefused if isinstance(error, PermissionError) else StoreTrouble
    return kind(f"what has left a run cannot be {done} in released/ of the home folder: {error.strerror or 'unknown error'}")
