"""Tasks, streams of tasks and tables of examples: the types shared by all scenarios and methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import coins
from dpcl_core.data.dataset import Form, Source
from dpcl_core.data.texts import TextForm
from dpcl_core.spec import Recurrence, Unit


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Rows of a table of inputs (features float32 [N, K], or images), with labels int64 [n].

    `users` int64 [n]: the client that holds each example, where the privacy unit is a client. `sentences` int64 [n],
    ascending: the sentence of each example, where examples are words. `rows` int64 [n]: this selection's rows of `table`
    (None: all of it), so that the streams of many seeds share one table, and a task's inputs are gathered when they are
    read. `columns` int64 [K]: the order of this selection's values (None: the table's own), for permuted tasks. `keys`
    uint64 [n]: keys of public coins; None: derived from the inputs themselves.
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
        # take, not an index: it keeps each row contiguous, which makes reading batches faster.
        return chosen if self.columns is None else np.take(chosen, self.columns.astype(np.intp), axis=1)

    def neighbouring_words(self, most: int) -> NDArray[np.int64]:
        """Places of `most` neighbouring words of every sentence, or all it has; a public coin of its own says which."""
        assert self.sentences is not None
        first, end = (np.searchsorted(self.sentences, self.sentences, side) for side in ("left", "right"))
        n_starts = np.maximum(end - first - most, 0) + 1
        after = np.arange(len(self)) - first - (self.tossed(generator(0, "words that count")) * n_starts).astype(np.int64)
        return np.flatnonzero((after >= 0) & (after < most))

    def take(self, places: NDArray[np.int64]) -> Examples:
        """The examples at these places, in this order."""
        rows = places if self.rows is None else self.rows[places]
        users, sentences = (None if of is None else of[places] for of in (self.users, self.sentences))
        keys = None if self.keys is None else self.keys[places]
        return Examples(self.table, self.labels[places], users, rows, self.columns, sentences, keys)


def join_examples(parts: Sequence[Examples]) -> Examples:
    """The examples of several selections from one table, one after the other."""
    first = parts[0]
    users = _concatenated([part.users for part in parts])
    sentences = _concatenated([part.sentences for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    if any(part.columns is not None for part in parts):  # the orders may differ: no table has all of them
        return Examples(np.concatenate([part.inputs for part in parts]), labels, users, sentences=sentences)
    assert all(part.table is first.table for part in parts)
    rows = [np.arange(len(part.labels)) if part.rows is None else part.rows for part in parts]
    return Examples(first.table, labels, users, np.concatenate(rows), sentences=sentences)


def _concatenated(parts: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """The arrays concatenated; None where a part is None."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All examples of a dataset, before they become tasks. Everything but the examples is public.

    `train_sources`, `test_sources`: int64 [n], index into `sources` of each example; None where `sources` is empty.
    `form`: layout of the examples' own values in a row, where the inputs are these values; None for features of a network.
    `texts`: how encoded texts are read, where the inputs are texts. `n_people`: the public nominal number of training
    examples; 0 where the scenario does not need it. `undeclared`: names of training labels from len(classes) on, private
    like the examples.
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

    def along_first(self, n_inputs: int) -> Table:
        """The table with only the first inputs of every row."""
        train, test = (replace(part, table=part.table[:, :n_inputs]) for part in (self.train, self.test))
        return replace(self, train=train, test=test)

    def homes(self, n_tasks: int, seed: int) -> NDArray[np.int64]:
        """The task of each undeclared label, by a public coin of its own name, so that no other label affects it."""
        keys = coins.keys(name.encode("utf-8", "surrogatepass") for name in self.undeclared)
        return (coins.tossed(keys, generator(seed, "tasks of undeclared labels")) * n_tasks).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One task of a stream. Everything but `train` (and `test`, a public benchmark) is public.

    `prior` is the public label set of the task under task-wise priors (ascending class indices), private where the scenario
    `reads_lists`; `task_id` is set only where the scenario gives the model each test example's task.
    """

    index: int
    name: str
    train: Examples
    test: Examples
    prior: tuple[int, ...]
    task_id: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TaskStream:
    """The tasks of one seed, in order, with public facts about all of them.

    `recurrence` says whether a privacy unit can occur in more than one task: "once" (tasks share no unit, so their budgets
    compose in parallel) or "every" (a unit may be in each task: sequential composition). It is a property of the scenario,
    fixed before any data is read, never counted from the data. "once" also requires that a record's task depends only on
    that record, through a public map (of its label, its source, or a public coin of its own bytes): cutting a stream every n
    records would let one record move all others. Other assumptions are in `assumed`: sentences that the statement prints in
    place of that rule.
    `classes`: the class names that labels of this stream index, mostly the table's. `unit`: the privacy unit, an example or
    all that a client holds. `metric`: accuracy, or micro-F1 of whole entities where labels are BIO tags of words.
    `looks_ahead`: every task is also evaluated before it is learned, for forward transfer.
    """

    tasks: tuple[Task, ...]
    classes: tuple[str, ...]
    recurrence: Recurrence
    unit: Unit = "example"
    assumed: tuple[str, ...] = ()
    metric: Literal["accuracy", "entity-f1"] = "accuracy"
    looks_ahead: bool = False


def generator(seed: int, purpose: str) -> np.random.Generator:
    """An independent generator for each (seed, purpose), so that class orders, batches and noise share no numbers."""
    return np.random.default_rng([seed, int.from_bytes(sha256(purpose.encode()).digest()[:8])])
