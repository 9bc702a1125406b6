"""Rooms of a class: visitors with invented names, one open question at a time, and everybody's runs on one plot.

A room keeps no more than that: a digest of each visitor's token, a name drawn by lot, an answer. It ends a day after it was
opened, and then all of it is deleted; runs stay with the store.
"""

import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import groupby
from statistics import fmean
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import JsonValue, TaskLearned, of_kind, plain_number
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped
from dpcl_core.runs import queue
from dpcl_core.runs.run import checked_id, clean_line, spec_of
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import members, room_runs, rooms, runs, votes
from dpcl_core.spec import RunSpec

SECONDS = 86_400.0  # a room ends a day after it was opened
MOST_MEMBERS = 200
LONGEST_TITLE, LONGEST_QUESTION, LONGEST_CHOICE = 80, 500, 120
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowel: a code is no word; no I or O: they look like digits
_COLOURS = (
    "amber", "azure", "coral", "copper", "crimson", "golden", "green", "indigo", "ivory", "jade", "lilac", "olive", "pearl",
    "plum", "ruby", "sand", "scarlet", "silver", "teal", "violet",
)  # fmt: skip
_ANIMALS = (
    "badger", "bear", "beaver", "bison", "crane", "deer", "dolphin", "falcon", "fox", "gecko", "hare", "heron", "ibex",
    "lynx", "marten", "otter", "owl", "puffin", "raven", "robin", "salmon", "seal", "stork", "swan", "tiger", "turtle",
    "walrus", "weasel", "wolf", "wren",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Poll:
    """A question to the room. `truth`: the index of the right answer, once the teacher shows it; `is_open`: takes votes."""

    id: str
    question: str
    choices: tuple[str, ...]
    is_open: bool = True
    truth: int | None = None

    def is_about(self, question: str, choices: Sequence[str]) -> bool:
        """Whether it asks this, with these answers, in the same words."""
        asked, *answers = (" ".join(words.split()) for words in (question, *choices))
        return (self.question, self.choices) == (asked, tuple(answers))


Document = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Room:
    """A room as it is now: visitors' names and answers by digest of their token, names by id of their runs.

    `points`: one for each finished budget of a run, with the mean final accuracy in [0, 1] over its seeds, and the standing
    of its ε. `curve`: of the shown run, the mean accuracy over its seeds on the tasks learned so far, task by task, at the
    budget that is shown first; None also where its settings can no longer be read.
    """

    code: str
    title: str
    owner: str
    ends: float
    names: dict[str, str]
    poll: Poll | None
    choices: dict[str, int]
    runs: dict[str, str]
    points: Sequence[Document]
    shown: str | None
    curve: Document | None

    def belongs_to(self, token: str) -> bool:
        """Whether the visitor with this token opened the room."""
        return self.owner == digest(token)

    def as_seen_by(self, token: str) -> Document:
        """The room as a document for one visitor, who sees the counts of all answers once the own one is given."""
        me, poll = digest(token), None
        shown: Document | None = None
        if self.poll is not None:
            mine, counts = self.choices.get(me), Counter(self.choices.values())
            sees = mine is not None or me == self.owner or not self.poll.is_open
            poll = {
                **asdict(self.poll), "choices": list(self.poll.choices), "votes": len(self.choices), "mine": mine,
                "counts": [counts[place] for place in range(len(self.poll.choices))] if sees else None,
            }  # fmt: skip
        if self.shown is not None:
            shown = {"run": self.shown, "name": self.runs.get(self.shown, ""), "curve": self.curve}
        return {
            "code": self.code, "title": self.title, "people": len(self.names), "you": self.names.get(me), "poll": poll,
            "points": [*self.points], "shown": shown,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rooms:
    """The rooms of a store. A visitor is known by a token, a long random text that only the visitor's browser keeps."""

    store: Store

    def open(self, title: str, token: str) -> str:
        """Opens a room that belongs to the token and gives its code.

        Raises BadInput for an empty or long title, and where this visitor may open no more.
        """
        named, now = clean_line("title", title, LONGEST_TITLE), time.time()
        code = "".join(secrets.choice(_LETTERS) for _ in range(6))
        with self.store.writing() as connection:
            _delete(connection, connection.scalars(select(rooms.c.code).where(rooms.c.ends <= now)).all())
            if (opener := self.store.visitor) is not None:
                opener = replace(opener, owner=digest(token))  # of a classroom the browser, whoever is logged in
                queue.note(connection, opener)
                queue.check_rooms(connection, opener)
            values = {"code": code, "owner": digest(token), "title": named, "created": now, "ends": now + SECONDS}
            connection.execute(insert(rooms).values(**values))
        return code

    def close(self, code: str, token: str) -> None:
        """Ends a room and deletes what it kept. Raises BadInput for a room of somebody else."""
        with self.store.writing() as connection:
            _owned(connection, code, token)
            _delete(connection, [clean_code(code)])

    def join(self, code: str, token: str) -> str:
        """Lets a visitor in, once, and gives the name drawn for this room. Raises BadInput for a full or unknown room."""
        with self.store.writing() as connection:
            room = _row(connection, code, locked=True).code  # one at a time: each gets a name that nobody has
            if (name := connection.scalar(_name_of(room, token))) is not None:
                return str(name)
            taken = set(connection.scalars(select(members.c.name).where(members.c.room == room)))
            if len(taken) >= MOST_MEMBERS:
                raise BadInput("room", room, f"is full: at most {MOST_MEMBERS} visitors")
            name = secrets.choice([one for one in _NAMES if one not in taken])
            connection.execute(insert(members).values(room=room, token=digest(token), name=name))
        return name

    def leave(self, code: str, token: str) -> None:
        """Deletes a visitor's name and answer; points of the visitor's runs go, too."""
        with self.store.writing() as connection:
            mine = _name_of(code, token).scalar_subquery()
            connection.execute(delete(room_runs).where(room_runs.c.room == code, room_runs.c.name == mine))
            for table in (votes, members):
                connection.execute(delete(table).where(table.c.room == code, table.c.token == digest(token)))

    def room_of(self, token: str) -> str | None:
        """The code of the newest room that a visitor is in, while it lasts."""
        found = select(rooms.c.code).join(members).where(members.c.token == digest(token), rooms.c.ends > time.time())
        return self.store.scalar(found.order_by(rooms.c.created.desc()))

    def of_owner(self, token: str) -> list[tuple[str, str]]:
        """Codes and titles of the rooms that belong to a token, newest first."""
        found = select(rooms.c.code, rooms.c.title).where(rooms.c.owner == digest(token), rooms.c.ends > time.time())
        return [(row.code, row.title) for row in self.store.rows(found.order_by(rooms.c.created.desc()))]

    def ask(self, code: str, token: str, question: str, choices: Sequence[str]) -> None:
        """Puts a question to the room, in place of the one before.

        Raises BadInput for a room of somebody else, an empty or long text, and fewer than two or more than four answers.
        """
        asked = clean_line("question", question, LONGEST_QUESTION)
        answers = tuple(clean_line("answers", choice, LONGEST_CHOICE) for choice in choices)
        allowed = "must be two to four different answers, one per line"
        if not 2 <= len(answers) <= 4:
            raise BadInput("answers", f"{len(answers)} answer{'s' if len(answers) != 1 else ''}", allowed)
        if twice := [answer for answer in answers if answers.count(answer) > 1]:
            raise BadInput("answers", f"{twice[0]}, more than once", allowed)
        self._poll(code, token, Poll(secrets.token_hex(6), asked, answers))

    def end_poll(self, code: str, token: str, truth: int | None = None) -> None:
        """Takes no more votes, and shows which answer is right, if given. Raises BadInput for a room of somebody else."""
        poll = self.state(code).poll
        if poll is not None:
            self._poll(code, token, Poll(poll.id, poll.question, poll.choices, False, truth))

    def vote(self, code: str, token: str, poll: str, choice: int) -> None:
        """A visitor's answer; a later one replaces it. Raises BadInput where the poll is over or there is no such answer."""
        with self.store.writing() as connection:
            row, me = _row(connection, code, locked=True), digest(token)
            asked = _read_poll(row.poll)
            if asked is None or asked.id != poll or not asked.is_open:
                raise BadInput("poll", poll, "takes no more answers")
            if not 0 <= choice < len(asked.choices):
                raise BadInput("answer", choice, f"must be 0 to {len(asked.choices) - 1}")
            if not connection.scalar(_name_of(row.code, token)):
                raise BadInput("room", row.code, "join it first")
            mine = (votes.c.room == row.code) & (votes.c.poll == poll) & (votes.c.token == me)
            if not connection.execute(update(votes).where(mine).values(choice=choice)).rowcount:
                connection.execute(insert(votes).values(room=row.code, poll=poll, token=me, choice=choice))

    def add_run(self, code: str, token: str, run_id: str) -> None:
        """Puts a visitor's run on the room's plot. Raises BadInput for an unknown run or a visitor who is not in."""
        with self.store.writing() as connection:
            room = _row(connection, code, locked=True).code
            if (name := connection.scalar(_name_of(room, token))) is None:
                raise BadInput("room", room, "join it first")
            taken = BadInput("run", run_id, "must be a run of this store that is in no room yet")
            with instead_of(IntegrityError, say=taken):
                connection.execute(insert(room_runs).values(run_id=checked_id(run_id), room=room, name=name))

    def show(self, code: str, token: str, run_id: str | None) -> None:
        """Shows one of the room's runs to everybody, or none. Raises BadInput for a room of somebody else or another run."""
        with self.store.writing() as connection:
            room = _owned(connection, code, token)
            if run_id is not None:
                of_room = select(room_runs.c.run_id).join(runs).where(room_runs.c.room == room, room_runs.c.run_id == run_id)
                if connection.scalar(of_room.where(runs.c.deleted.is_(None))) is None:
                    raise BadInput("run", run_id, "must be a run of this room")
            connection.execute(update(rooms).where(rooms.c.code == room).values(shown_run=run_id))

    def state(self, code: str) -> Room:
        """The room as it is now. Raises BadInput for a code that no open room has."""
        with self.store.reading() as connection:
            row = _row(connection, code)
            poll = _read_poll(row.poll)
            names = dict(connection.execute(select(members.c.token, members.c.name).where(members.c.room == row.code)).all())
            of_poll = select(votes.c.token, votes.c.choice).where(votes.c.room == row.code)
            choices = dict(connection.execute(of_poll.where(votes.c.poll == ("" if poll is None else poll.id))).all())
            listed = select(room_runs.c.run_id, room_runs.c.name, runs.c.spec).join(runs).where(room_runs.c.room == row.code)
            of_room = connection.execute(listed.where(runs.c.deleted.is_(None)).order_by(runs.c.number)).all()
        specs = {one.run_id: spec_of(one.spec) for one in of_room}
        names_of_runs = {one.run_id: one.name for one in of_room}
        shown = row.shown_run if row.shown_run in specs else None  # it may be deleted, or gone with who left
        return Room(
            code=row.code, title=row.title, owner=row.owner, ends=row.ends, names=names, poll=poll, choices=choices,
            runs=names_of_runs, points=self._points(names_of_runs, specs),
            shown=shown, curve=None if shown is None else self._curve(shown, specs[shown]),
        )  # fmt: skip

    def _poll(self, code: str, token: str, poll: Poll) -> None:
        with self.store.writing() as connection:
            room = _owned(connection, code, token)
            connection.execute(delete(votes).where(votes.c.room == room, votes.c.poll != poll.id))
            connection.execute(update(rooms).where(rooms.c.code == room).values(poll=asdict(poll)))

    def _points(self, names: Mapping[str, str], specs: Mapping[str, RunSpec | None]) -> list[Document]:
        results, points = self.store.results(list(names)), list[Document]()
        for run_id, spec in specs.items():
            if spec is None:
                continue
            for epsilon, of_budget in groupby(results[run_id], key=lambda cell: cell.cell.epsilon):
                known = [score for cell in of_budget if (score := cell.metrics["AA"]) is not None]
                if known:
                    said = {"epsilon": plain_number(epsilon), "standing": methods.standing(spec), "accuracy": fmean(known)}
                    points.append({"run_id": run_id, "name": names[run_id], "method": spec.method, **said})
        return points

    def _curve(self, run_id: str, spec: RunSpec | None) -> Document | None:
        if spec is None:
            return None
        epsilon = spec.privacy.usual_epsilon
        learned = (one for one in of_kind(self.store.events(run_id), TaskLearned) if one.cell.epsilon == epsilon)
        by_task = grouped((one.task, score) for one in learned for score in one.accuracy if score is not None)
        accuracy: list[JsonValue] = [fmean(scores) for _, scores in sorted(by_task.items())]
        return {"epsilon": plain_number(epsilon), "standing": methods.standing(spec), "accuracy": accuracy}


def digest(token: str) -> str:
    """What is kept of a token: whoever reads the store cannot act as the visitor."""
    return sha256(token.encode()).hexdigest()


def clean_code(code: str) -> str:
    """A room's code as it is kept, from what somebody typed. Raises BadInput for anything else."""
    cleaned = "".join(code.split()).upper()
    if len(cleaned) != 6 or not set(cleaned) <= set(_LETTERS):
        raise BadInput("room", code[:20].strip() or "nothing", "must be the six letters that your teacher shows")
    return cleaned


def _row(connection: Connection, code: str, *, locked: bool = False) -> Any:
    """The room of a code; `locked`: no other transaction changes it or what belongs to it before this one ends."""
    query = select(rooms).where(rooms.c.code == clean_code(code), rooms.c.ends > time.time())
    found = connection.execute(query.with_for_update() if locked else query).first()
    if found is None:
        raise BadInput("room", clean_code(code), "no such room is open: rooms end after a day")
    return found


def _name_of(room: str, token: str) -> Select[str]:
    """The name of a visitor who is in a room."""
    return select(members.c.name).where(members.c.room == room, members.c.token == digest(token))


def _owned(connection: Connection, code: str, token: str) -> str:
    row = _row(connection, code, locked=True)
    if row.owner != digest(token):
        raise BadInput("room", row.code, "belongs to another browser: only the one that opened it can change it")
    return str(row.code)


def _delete(connection: Connection, codes: Sequence[str]) -> None:
    for table in (votes, members, room_runs):
        connection.execute(delete(table).where(table.c.room.in_(codes)))
    connection.execute(delete(rooms).where(rooms.c.code.in_(codes)))


def _read_poll(document: Any) -> Poll | None:
    return None if document is None else Poll(**{**document, "choices": tuple(document["choices"])})


_NAMES = tuple(f"{colour} {animal}" for colour in _COLOURS for animal in _ANIMALS)
