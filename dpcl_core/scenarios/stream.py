"""Tasks and the stream they arrive in: the common ground of every scenario and every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import coins
from dpcl_core.data.dataset import Form, Source
from dpcl_core.data.texts import TextForm
from dpcl_core.spec import Recurrence, ScenarioSpec, Unit


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Rows of a table of inputs (features float32 [N, K], or images), with labels int64 [n].

    `users` int64 [n]: which client holds each example, where the privacy unit is a client. `sentences` int64 [n], ascending:
    which sentence each example, a word of it, belongs to, where words are what is labelled. `rows` int64 [n] are this
    selection's places in `table` (None: all of it): the streams of many seeds then share one table, and a task's inputs are
    gathered when they are read. `columns` int64 [K]: the order that this selection's values come in (None: the table's
    own), as permuted tasks have it. `keys` uint64 [n]: what public coins are tossed from; None: from the inputs themselves.
    """

    table: NDArray[np.generic]
    labels: NDArray[np.int64]
    users: NDArray[np.int64] | None = None
    rows: NDArray[np.int64] | None = None
    columns: NDArray[np.int64] | None = None
    sentences: NDArray[np.int64] | None = None
    keys: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def tossed(self, draw: np.random.Generator) -> NDArray[np.float64]:
        """A number in [0, 1) for each example [n]: a public function of its own bytes and of the generator's next word."""
        keys = coins.keys(row.tobytes() for row in self.inputs) if self.keys is None else self.keys
        return coins.tossed(keys, draw)

    @property
    def inputs(self) -> NDArray[np.generic]:
        """The inputs [n, ...]; a fresh copy unless these are all rows of the table, in its own order of columns."""
        chosen = self.table if self.rows is None else self.table[self.rows]
        # take, not an index: it leaves the rows in one piece each, which whatever reads batches of them is faster by.
        return chosen if self.columns is None else np.take(chosen, self.columns, axis=1)

    def take(self, places: NDArray[np.int64]) -> Examples:
        """The examples at these places, in this order."""
        return Examples(
            self.table,
            self.labels[places],
            None if self.users is None else self.users[places],
            places if self.rows is None else self.rows[places],
            self.columns,
            None if self.sentences is None else self.sentences[places],
            None if self.keys is None else self.keys[places],
        )


def joined(parts: Sequence[Examples]) -> Examples:
    """The examples of several selections from one table, one after the other."""
    first = parts[0]
    users = _concatenated([part.users for part in parts])
    sentences = _concatenated([part.sentences for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    if any(part.columns is not None for part in parts):  # each in an order of its own: no table has them all
        inputs = np.concatenate([part.inputs for part in parts])
        return Examples(inputs, labels, users, sentences=sentences)
    assert all(part.table is first.table for part in parts)
    rows = [np.arange(len(part.labels)) if part.rows is None else part.rows for part in parts]
    return Examples(first.table, labels, users, np.concatenate(rows), sentences=sentences)


def _concatenated(found: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """One after the other; None where a part has none."""
    known = [part for part in found if part is not None]
    return np.concatenate(known) if len(known) == len(found) else None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All examples of a dataset, before they become tasks. Everything but the examples is public.

    `train_sources`, `test_sources`: int64 [n], which of `sources` each example comes from; None where `sources` is empty.
    `form`: how the examples' own values lie in a row, where the inputs are these values; None for features of a network.
    `texts`: how encoded texts are read, where the inputs are texts. `n_people`: the public nominal number of training
    examples; 0 where a scenario does not ask for it. `undeclared`: names of training labels from len(classes) on, private as
    the examples are.
    """

    train: Examples
    test: Examples
    classes: tuple[str, ...]
    train_sources: NDArray[np.int64] | None = None
    test_sources: NDArray[np.int64] | None = None
    sources: tuple[Source, ...] = ()
    form: Form | None = None
    texts: TextForm | None = None
    n_people: int = 0
    undeclared: tuple[str, ...] = ()

    def homes(self, n_tasks: int, seed: int) -> NDArray[np.int64]:
        """The task of each undeclared label: a public coin of its own name, so that no other label ever moves it."""
        keys = coins.keys(name.encode("utf-8", "surrogatepass") for name in self.undeclared)
        return (coins.tossed(keys, generator(seed, "tasks of undeclared labels")) * n_tasks).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One task of a stream. Everything but `train` (and `test`, a public benchmark) is public.

    `prior` is the public label set of the task under task-wise priors (ascending class indices); `task_id` is given only
    where the scenario tells the model at test time which task an example belongs to.
    """

    index: int
    name: str
    train: Examples
    test: Examples
    prior: tuple[int, ...]
    task_id: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TaskStream:
    """The tasks of one seed, in order, with what is public about all of them.

    `recurrence` says whether a privacy unit can occur in more than one task: "once" (tasks share no unit, so their budgets
    compose in parallel) or "every" (a unit may be in each task: sequential composition). It is a property of the scenario,
    decided before any data is seen, never counted from the data. "once" also needs that a record's task depends on that
    record alone, through a public map (its label's, its source's, or a public coin of its own bytes): cutting a stream every
    so many records would let one record move all others. What else a stream takes as given stands in `assumed`: sentences
    that the statement prints in place of that rule.
    `classes` are what labels of this stream index, mostly the table's. `unit`: what is protected, an example or all that a
    client holds. `metric`: share of right answers, or micro-F1 of whole entities where labels are BIO tags of words.
    `looks_ahead`: every task is also evaluated before it is learned, as forward transfer needs.
    """

    tasks: tuple[Task, ...]
    classes: tuple[str, ...]
    recurrence: Recurrence
    unit: Unit = "example"
    assumed: tuple[str, ...] = ()
    metric: Literal["accuracy", "entity-f1"] = "accuracy"
    looks_ahead: bool = False


class OpenStream(Protocol):
    """What every scenario's module offers as `open_stream`: the same tasks for the same settings, table and seed.

    Raises BadInput as the module's `n_tasks` does.
    """

    def __call__(self, settings: ScenarioSpec, table: Table, seed: int) -> TaskStream: ...


class CountTasks(Protocol):
    """What every scenario's module offers as `n_tasks`: how many tasks the settings give, from public facts alone.

    Raises BadInput naming the setting that does not fit the dataset. `sources` are names.
    """

    def __call__(self, settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...]) -> int: ...


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers of their own for each (seed, purpose): the order of classes shares none with batches or noise."""
    return np.random.default_rng([seed, int.from_bytes(sha256(purpose.encode()).digest()[:8])])
