"""Federated: clients hold the examples, and tasks arrive in an order that is the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import Federated
from dpcl_core.scenarios.class_incremental import task as of_classes
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator
from dpcl_core.spec import ScenarioSpec

MIN_ROWS = 10  # examples that every client holds at least
_DRAWS = 1000
_ASSUMED = ("which client holds an example was drawn by lot here, and stands for who would have written it",)


def n_tasks(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput naming the setting that does not fit a dataset with these public facts."""
    chosen = cast(Federated, settings)
    by_source = chosen.protocol == "domain-incremental"
    if (by_source or chosen.partition == "domain") and not sources:
        field = "protocol" if by_source else "partition"
        allowed = "needs a dataset made of several sources, such as amazon-domains"
        raise BadInput(f"scenario.{field}", getattr(chosen, field), allowed)
    named, available = chosen.order, len(sources) if by_source else n_classes
    if named is not None:
        for name in named:
            if by_source and name not in sources:
                raise BadInput("scenario.order", name, f"must name sources of the dataset: {', '.join(sources)}")
            if named.count(name) > 1:
                raise BadInput("scenario.order", name, "must name each at most once")
        if not 1 <= len(named) <= available:
            raise BadInput("scenario.order", f"{len(named)} names", f"must name 1 to {available} of them")
        available = len(named)
    tasks = chosen.tasks or available
    what = "sources" if by_source else "classes"
    if tasks > available:
        raise BadInput("scenario.tasks", tasks, f"must be at most {available}, the number of {what}")
    if chosen.protocol == "class-incremental" and available % tasks:
        divisors = [str(n) for n in range(1, available + 1) if available % n == 0]
        raise BadInput("scenario.tasks", tasks, f"must divide the {available} classes evenly ({', '.join(divisors)})")
    if chosen.protocol == "one-vs-rest" and n_classes < 2:
        raise BadInput("scenario.protocol", chosen.protocol, "needs a dataset of two classes or more")
    if chosen.partition == "domain":
        n_home = tasks if by_source else len(sources)
        if chosen.clients < n_home:
            raise BadInput("scenario.clients", chosen.clients, f"must be at least {n_home}, one client a source")
    return tasks


def open_stream(settings: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed, in the same order for every seed; their training examples say which client holds them.

    A client may be in every task, so that what it releases adds up, unless tasks are sources and each client belongs to one.
    The partition depends on the seed and the examples' labels and sources, on nothing else: another method meets the same.
    Raises BadInput as `n_tasks` does, for an order that names no class, and where some client would hold fewer than ten
    examples.
    """
    chosen = cast(Federated, settings)
    n = n_tasks(chosen, len(table.classes), tuple(source.name for source in table.sources))
    groups = _order(chosen, table, n)
    tasks = _tasks(chosen, _dealt_out(chosen, table, groups, seed), groups, seed)
    return TaskStream(
        tasks=tuple(tasks),
        classes=chosen.label_names(table.classes),
        recurrence=chosen.recurrence,
        unit="user",
        assumed=_ASSUMED,
        metric="entity-f1" if table.train.sentences is not None else "accuracy",
        looks_ahead=True,
    )


def _order(chosen: Federated, table: Table, n: int) -> list[list[int]]:
    """The classes of each task, or its one source."""
    by_source = chosen.protocol == "domain-incremental"
    names = tuple(source.name for source in table.sources) if by_source else table.classes
    for name in chosen.order or ():
        if name not in names:
            raise BadInput("scenario.order", name, f"must name classes of the dataset: {', '.join(names)}")
    asked = [names.index(name) for name in chosen.order or names]
    size = len(asked) // n if chosen.protocol == "class-incremental" else 1
    return [asked[index * size : (index + 1) * size] for index in range(n)]


def _dealt_out(chosen: Federated, table: Table, groups: Sequence[Sequence[int]], seed: int) -> Table:
    """The table with clients beside the training examples that occur in a task, -1 beside all others."""
    by_source = chosen.protocol == "domain-incremental"
    train, sources = table.train, table.train_sources
    if by_source:
        occurs = np.isin(cast(NDArray[np.int64], sources), np.concatenate(groups))
    elif chosen.protocol == "one-vs-rest":
        occurs = np.ones(len(train), dtype=np.bool_)
    else:
        occurs = np.isin(train.labels, np.concatenate(groups))
    used = np.flatnonzero(occurs)
    # Words of a sentence stay together: what is dealt out are sentences there, single examples elsewhere.
    unit = used if train.sentences is None else train.sentences[used]
    _, first, of_row = np.unique(unit, return_index=True, return_inverse=True)
    heads = used[first]
    labels = np.zeros(len(heads), dtype=np.int64) if train.sentences is not None else train.labels[heads]
    homes = None if sources is None else sources[heads]
    users = np.full(len(train), -1, dtype=np.int64)
    if len(heads):
        random = generator(seed, "partition")
        what = "examples" if train.sentences is None else "sentences"
        if chosen.partition == "domain":
            owners = _by_source(cast(NDArray[np.int64], homes), chosen.clients, random, what)
        else:
            kinds = labels if homes is None or not by_source else labels * len(table.sources) + homes
            owners = _by_dirichlet(kinds, chosen, random, what)
        users[used] = owners[of_row]
    return replace(table, train=replace(train, users=users))


def _by_dirichlet(
    kinds: NDArray[np.int64], chosen: Federated, random: np.random.Generator, what: str
) -> NDArray[np.int64]:
    """A client for each example: the examples of a kind are split by shares from a symmetric Dirichlet distribution.

    Shares are drawn again until every client holds ten examples. Raises BadInput where a thousand draws do not get there.
    """
    n_clients = chosen.clients
    if len(kinds) < MIN_ROWS * n_clients:
        most = len(kinds) // MIN_ROWS
        allowed = f"must be at most {most}: each client holds {MIN_ROWS} of {len(kinds)} {what} or more"
        if most < 2:  # one alone would have nobody to hide among
            allowed = f"must have {MIN_ROWS} training {what} each, and there are {len(kinds)} in all: take more of them"
        raise BadInput("scenario.clients", n_clients, allowed)
    _, of_row, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
    for _ in range(_DRAWS):
        shares = random.dirichlet(np.full(n_clients, chosen.alpha), size=len(sizes))
        counts = random.multinomial(sizes, shares)
        if counts.sum(axis=0).min() >= MIN_ROWS:
            break
    else:
        allowed = f"{_DRAWS:,} draws left a client with fewer than {MIN_ROWS} {what}: take fewer clients or a larger alpha"
        raise BadInput("scenario.clients", n_clients, allowed)
    owners = np.empty(len(kinds), dtype=np.int64)
    for kind, count in enumerate(counts):
        rows = np.flatnonzero(of_row == kind)
        owners[random.permutation(rows)] = np.repeat(np.arange(n_clients), count)
    return owners


def _by_source(
    homes: NDArray[np.int64], n_clients: int, random: np.random.Generator, what: str
) -> NDArray[np.int64]:
    """A client for each example: clients belong to the sources in turn, and share out what is there evenly, by lot."""
    owners = np.empty(len(homes), dtype=np.int64)
    found = np.unique(homes)
    for place, home in enumerate(found):
        rows, clients = np.flatnonzero(homes == home), np.arange(place, n_clients, len(found))
        if len(rows) < MIN_ROWS * len(clients):
            allowed = f"leaves a client with fewer than {MIN_ROWS} {what}: its source has {len(rows)}"
            raise BadInput("scenario.clients", n_clients, allowed)
        owners[random.permutation(rows)] = clients[np.arange(len(rows)) % len(clients)]
    return owners


def _tasks(chosen: Federated, table: Table, groups: Sequence[Sequence[int]], seed: int) -> Iterator[Task]:
    for index, group in enumerate(groups):
        if chosen.protocol == "one-vs-rest":
            yield _one_vs_rest(index, group[0], table, seed)
        elif chosen.protocol == "domain-incremental":
            yield _of_source(index, group[0], table)
        else:
            name = table.classes[group[0]] if len(group) == 1 else f"task {index + 1}"
            yield of_classes(index, name, group, table)


def _of_source(index: int, source: int, table: Table) -> Task:
    train, test = (
        examples.take(np.flatnonzero(cast(NDArray[np.int64], sources) == source))
        for examples, sources in ((table.train, table.train_sources), (table.test, table.test_sources))
    )
    where = table.sources[source]
    return Task(index=index, name=where.name, train=train, test=test, prior=tuple(sorted(where.classes)))


def _one_vs_rest(index: int, label: int, table: Table, seed: int) -> Task:
    """The examples of one class and as many of all others, drawn by lot; each stays with its client. Chance is one half."""
    train, test = (
        _against_rest(examples, label, index, generator(seed, f"rest of task {index}, {split}"))
        for examples, split in ((table.train, "train"), (table.test, "test"))
    )
    prior = (2 * index, 2 * index + 1)
    return Task(index=index, name=table.classes[label], train=train, test=test, prior=prior, task_id=index)


def _against_rest(examples: Examples, label: int, index: int, random: np.random.Generator) -> Examples:
    own, others = np.flatnonzero(examples.labels == label), np.flatnonzero(examples.labels != label)
    rest = random.choice(others, size=min(len(own), len(others)), replace=False)
    places = np.sort(np.concatenate([own, rest]))
    taken = examples.take(places)
    return replace(taken, labels=2 * index + (examples.labels[places] == label).astype(np.int64))
