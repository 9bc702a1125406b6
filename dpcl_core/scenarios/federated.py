"""Federated: clients hold the examples, and tasks arrive in the same order for all clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput, at_most
from dpcl_core.scenarios import catalog, central
from dpcl_core.scenarios.catalog import Federated, OfClients
from dpcl_core.scenarios.central import against_rest
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator
from dpcl_core.spec import Recurrence, ScenarioSpec, fields_of, parameter

MIN_ROWS = 10  # examples that every client can expect to hold
_DRAWS, _NUMBERS = 1000, 500_000  # draws of a partition at most, and numbers in them: so many take some milliseconds
ASSUMED = ("which client holds an example was drawn by lot here, and stands for who would have written it",)


def n_tasks(settings: Federated, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput naming the setting that does not fit a dataset with these public facts."""
    by_source, what = settings.by_source, "sources" if settings.by_source else "classes"
    if (by_source or settings.partition == "domain") and not sources:
        field = "protocol" if by_source else "partition"
        allowed = "needs a dataset made of several sources, such as amazon-domains"
        fix = {f"scenario.{field}": getattr(type(settings), field)}
        raise BadInput(f"scenario.{field}", getattr(settings, field), allowed, fix)
    named, available = settings.order, len(sources) if by_source else n_classes
    if named is not None:
        for name in named:
            if by_source and name not in sources:
                raise BadInput("scenario.order", name, f"must name sources of the dataset: {', '.join(sources)}")
            if named.count(name) > 1:
                raise BadInput("scenario.order", name, "must name each at most once")
        if not 1 <= len(named) <= available:
            raise BadInput("scenario.order", f"{len(named)} names", f"must name 1 to {available} {what}")
        available = len(named)
    tasks = at_most("scenario.tasks", settings.tasks or available, available, f", the number of {what}")
    if settings.protocol == "class-incremental" and available % tasks:
        allowed = f"must divide the {available} classes evenly ({central.divisors(available)})"
        raise BadInput("scenario.tasks", tasks, allowed)
    if settings.protocol == "one-vs-rest" and n_classes < 2:
        raise BadInput("scenario.protocol", settings.protocol, "needs a dataset of two classes or more")
    if settings.partition == "domain":
        n_home = tasks if by_source else len(sources)
        if settings.clients < n_home:
            allowed = f"must be at least {n_home}, one client a source"
            raise BadInput("scenario.clients", settings.clients, allowed, {"scenario.clients": n_home})
    return tasks


def open_stream(settings: Federated, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed, in the same order for every seed; `users` of their training examples names the client.

    A client may be in every task, so its releases add up, unless tasks are sources and each client belongs to one. Which
    client holds an example depends only on the seed and that example: the same for every method. Raises BadInput as
    `n_tasks` does, for an order that names no class, and where a client's expected number of examples is below ten.
    """
    n = n_tasks(settings, len(table.classes), tuple(source.name for source in table.sources))
    groups = _order(settings, table, n)
    dealt = dealt_out(settings, table, groups, seed)
    tasks = tuple(_task(settings, dealt, index, group, seed) for index, group in enumerate(groups))
    return of_clients(TaskStream(tasks, settings.label_names(table.classes), settings.recurrence), settings)


def _order(settings: Federated, table: Table, n: int) -> list[list[int]]:
    """The classes of each task, or its one source."""
    names = tuple(source.name for source in table.sources) if settings.by_source else table.classes
    for name in settings.order or ():
        if name not in names:
            raise BadInput("scenario.order", name, f"must name classes of the dataset: {', '.join(names)}")
    requested = [names.index(name) for name in settings.order or names]
    size = len(requested) // n if settings.protocol == "class-incremental" else 1
    return [requested[index * size : (index + 1) * size] for index in range(n)]


def dealt_out(settings: Federated, table: Table, groups: Sequence[Sequence[int]], seed: int) -> Table:
    """The table with the client of each training example that occurs in a task, -1 for all others.

    The clients' shares of each kind of example are public; an example goes to a client by a coin of its own bytes, words
    with their sentence. So no example and no client affects where other examples are.
    """
    train, users = table.train, np.full(len(table.train), -1, dtype=np.int64)
    kinds, occur = _kinds(settings, table, train, table.train_sources, groups)
    ends = np.cumsum(_shares(settings, table, groups, seed), axis=1)
    ends /= ends[:, -1:]
    tossed = train.tossed(generator(seed, "who holds an example"))
    for kind in np.unique(kinds[occur]):
        rows = np.flatnonzero(occur & (kinds == kind))
        users[rows] = np.searchsorted(ends[kind], tossed[rows], side="right")
    return replace(table, train=replace(train, users=users))


def _kinds(
    settings: Federated, table: Table, examples: Examples, sources: NDArray[np.int64] | None, groups: Sequence[Sequence[int]]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each example [n]: its kind (each kind has its own client shares), and whether it is in a task."""
    homes = np.zeros(len(examples), dtype=np.int64) if sources is None else sources
    labels = examples.labels if examples.sentences is None else np.zeros(len(examples), dtype=np.int64)
    if settings.protocol == "one-vs-rest":
        occur = np.ones(len(examples), dtype=np.bool_)
    else:
        occur = np.isin(homes if settings.by_source else labels, np.concatenate(groups))
    if settings.partition == "domain":
        return homes, occur
    return (labels * max(1, len(table.sources)) + homes if settings.by_source else labels), occur


def _shares(settings: Federated, table: Table, groups: Sequence[Sequence[int]], seed: int) -> NDArray[np.float64]:
    """The share of each client in each kind of example [kinds, clients], from public facts alone.

    Kinds have nominal sizes, in proportion to the test part. Raises BadInput where a client's expected number of examples is
    below ten.
    """
    kinds, occur = _kinds(settings, table, table.test, table.test_sources, groups)
    what = "examples" if table.test.sentences is None else "sentences"
    n_units = float(table.n_people)
    if table.test.sentences is not None:
        n_units *= len(np.unique(table.test.sentences)) / len(table.test)
    n_kinds = len(table.classes) * max(1, len(table.sources))
    sizes = n_units * np.bincount(kinds[occur].astype(np.intp), minlength=n_kinds) / max(1, len(kinds))
    if settings.partition == "domain":
        homes = sorted(np.concatenate(groups).tolist()) if settings.by_source else range(len(table.sources))
        return _by_source(sizes, homes, settings.clients, what)
    return _by_dirichlet(sizes, settings, generator(seed, "partition"), what)


def _by_dirichlet(
    sizes: NDArray[np.float64], settings: Federated, random: np.random.Generator, what: str
) -> NDArray[np.float64]:
    """Shares from a symmetric Dirichlet distribution under which every client expects ten examples: the first of some draws.

    Where no draw is such, the first is mixed with even shares, as little as gives the poorest client its ten. Raises
    BadInput where there are too few examples for so many clients.
    """
    n_clients, n_all = settings.clients, round(sizes.sum())
    if n_all < MIN_ROWS * n_clients:
        most = n_all // MIN_ROWS
        allowed = f"must be at most {most}: each client holds {MIN_ROWS} of {n_all} {what} or more"
        if most < 2:  # a single client could not be hidden among others
            allowed = f"must have {MIN_ROWS} training {what} each, and there are {n_all} in all: take more of them"
        raise BadInput("scenario.clients", n_clients, allowed, {"scenario.clients": most} if most >= 2 else None)
    first, least = None, 0.0
    for _ in range(max(1, min(_DRAWS, _NUMBERS // (n_clients * len(sizes))))):
        shares = random.dirichlet(np.full(n_clients, settings.alpha), size=len(sizes))
        poorest = float((sizes @ shares).min())
        if poorest >= MIN_ROWS * (1 - 1e-9):
            return shares
        first, least = (shares, poorest) if first is None else (first, least)
    assert first is not None
    mean = float(sizes.sum()) / n_clients
    even = min(1.0, (MIN_ROWS - least) / (mean - least)) if mean > least else 1.0
    return (1 - even) * first + even / n_clients


def _by_source(sizes: NDArray[np.float64], homes: Sequence[int], n_clients: int, what: str) -> NDArray[np.float64]:
    """Even shares; clients are assigned to the sources in turn."""
    shares = np.ones((len(sizes), n_clients))
    held = [round(sizes[home]) for home in homes]
    most, n_held = min((place + len(homes) * (n // MIN_ROWS), n) for place, n in enumerate(held))
    if n_clients > most:
        allowed = f"must be at most {most}: each client holds {MIN_ROWS} or more of the {n_held} {what} of its source"
        if most < len(homes):
            allowed = f"must have {MIN_ROWS} training {what} of a source each, and one has fewer in all: take more of them"
        raise BadInput("scenario.clients", n_clients, allowed, {"scenario.clients": most} if most >= len(homes) else None)
    for place, home in enumerate(homes):
        shares[home] = np.arange(n_clients) % len(homes) == place
    return shares


def _task(settings: Federated, table: Table, index: int, group: Sequence[int], seed: int) -> Task:
    """The task of these classes or of this one source.

    In one-vs-rest it has the examples of one class and, within each client, as many of all others; on the test part, chance
    is one half.
    """
    label, names = group[0], table.classes
    if settings.by_source:
        return central.source_task(index, label, table)
    if settings.protocol != "one-vs-rest":
        return central.class_task(index, names[label] if len(group) == 1 else f"task {index + 1}", group, table)
    train, test = (
        against_rest(examples, label, index, generator(seed, f"rest of task {index}, {split}"))
        for examples, split in ((table.train, "train"), (table.test, "test"))
    )
    return Task(index, names[label], train, test, prior=(2 * index, 2 * index + 1), task_id=index)


# Any stream with clients: the examples of its tasks are held by clients, and all that a client holds is protected.
#
# The stream decides which task an example is in, and a lot drawn for each label which client holds it. Both are public
# functions of that example alone, so that no client moves what another one holds. A client may hold examples of every task.


@dataclass(frozen=True, kw_only=True)
class Held(OfClients):
    """What a stream has beside its own settings where clients hold the examples."""

    recurrence: ClassVar[Recurrence] = "every"
    alpha: float = parameter(
        0.5, ge=0.01, le=1000,
        description="Each label's examples are dealt out in shares drawn from a Dirichlet distribution of this "
        "concentration: small, and most examples of a label lie with few clients.",
    )  # fmt: skip

    def pooled(self, n_classes: int, sources: tuple[str, ...]) -> ScenarioSpec | None:
        """The stream without clients."""
        plain = catalog.card(str(fields_of(type(self))["kind"].default)).settings
        return plain(**{name: getattr(self, name) for name in fields_of(plain)})


@dataclass(frozen=True, kw_only=True)
class HeldClassIncremental(Held, catalog.ClassIncremental):
    """New classes in every task, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldSplit(Held, catalog.Split):
    """Classes in their own order, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldPermuted(Held, catalog.Permuted):
    """Values in another order, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldSourceIncremental(Held, catalog.SourceIncremental):
    """New sources, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldIBlurry(Held, catalog.IBlurry):
    """Blurred tasks of equal size, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldSiBlurry(Held, catalog.SiBlurry):
    """Blurred tasks of random size, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldOneVsRest(Held, catalog.OneVsRest):
    """One class against the rest, with clients."""


_HELD = (
    HeldClassIncremental, HeldSplit, HeldPermuted, HeldSourceIncremental, HeldIBlurry, HeldSiBlurry, HeldOneVsRest,
)  # fmt: skip
_SETTINGS: Mapping[str, type[ScenarioSpec]] = {one.kind: one for one in _HELD}


def settings_of(kind: str, *, has_clients: bool) -> type[ScenarioSpec]:
    """The settings of a stream, for a method with clients or without. Raises BadInput for an unknown stream."""
    plain = catalog.card(kind).settings
    return _SETTINGS.get(kind, plain) if has_clients else plain


def dealt_to_clients(settings: Held, table: Table, seed: int) -> Table:
    """The table with the client of every training example. Raises BadInput where a client expects fewer than ten."""
    of_all = Federated(clients=settings.clients, alpha=settings.alpha, protocol="one-vs-rest")  # where all examples occur
    return dealt_out(of_all, table, (), seed)


def of_clients(stream: TaskStream, settings: Held | Federated) -> TaskStream:
    """The stream with the client as privacy unit, in any task."""
    return replace(stream, recurrence=settings.recurrence, unit="user", assumed=ASSUMED, looks_ahead=True)
