"""Streams without clients: new classes or sources in every task, permuted values, blurred tasks, one class against the rest.

`n_tasks` and `open_stream` are those of every such scenario (`scenarios.catalog`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput, at_most
from dpcl_core.scenarios.catalog import Blurry, ClassGroups, IBlurry, OneVsRest, Permuted, SourceIncremental, Split
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator
from dpcl_core.spec import ScenarioSpec


def n_tasks(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput naming the setting that does not fit a dataset with these public facts."""
    match settings:
        case ClassGroups():
            per_task(settings, n_classes)
            _of_tasks(settings.order if isinstance(settings, Split) else None, settings.tasks)
            return settings.tasks
        case SourceIncremental():
            return _n_sources(settings, sources)
        case Permuted():
            return _n_permuted(settings)
        case Blurry():
            return at_most("scenario.tasks", settings.tasks, n_classes, _CLASSES)
    assert isinstance(settings, OneVsRest)
    if n_classes < 2:
        raise BadInput("scenario.kind", settings.kind, "needs a dataset of two classes or more")
    return at_most("scenario.tasks", settings.tasks or n_classes, n_classes, _CLASSES)


def open_stream(settings: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed, as the function of their scenario says below. Raises BadInput as `n_tasks` does."""
    n = n_tasks(settings, len(table.classes), tuple(source.name for source in table.sources))
    return next(opened for kind, opened in _OPENED.items() if isinstance(settings, kind))(settings, table, seed, n)


_CLASSES = ", the number of classes"


# Every task brings something new: classes in an order drawn for the seed or in the dataset's own, or a source.


def _class_groups(settings: ClassGroups, table: Table, seed: int, n: int) -> TaskStream:
    """Equally many classes in each of `n` tasks.

    A record goes to the task of its class, by a public map that is drawn before any record is read: adding or removing a
    record changes one task by that record, so each is in at most one task. An undeclared label is in the task that a coin of
    its own name gives.

    Classes come in an order drawn for the seed; under `split` in the dataset's own order, the same for every seed, and with
    a user-given order of tasks a task keeps the number of its group as its name. If `tasks` times `classes_per_task` is less
    than the number of classes, the others occur in no task.
    """
    size, is_split = per_task(settings, len(table.classes)), isinstance(settings, Split)
    order = np.arange(len(table.classes)) if is_split else generator(seed, "class order").permutation(len(table.classes))
    homes = table.homes(n, 0 if is_split else seed)
    tasks = [
        class_task(index, f"task {part + 1}", order[part * size : (part + 1) * size].tolist(), table, homes)
        for index, part in enumerate(_of_tasks(settings.order if isinstance(settings, Split) else None, n))
    ]
    return TaskStream(tuple(tasks), table.classes, recurrence="once")


def _source_by_source(settings: SourceIncremental, table: Table, seed: int, _n: int) -> TaskStream:
    """One source in each task: in the given order, or in one drawn for the seed.

    As of classes, a record goes to the task of its source. A task's prior is the public list of its source's classes.
    """
    names = [source.name for source in table.sources]
    drawn = generator(seed, "source order").permutation(len(names)).tolist()
    places = drawn if settings.order is None else [names.index(name) for name in settings.order]
    tasks = [source_task(index, place, table) for index, place in enumerate(places)]
    return TaskStream(tuple(tasks), table.classes, recurrence="once")


def _n_sources(settings: SourceIncremental, sources: tuple[str, ...]) -> int:
    """The number of sources. Raises BadInput for data without them, and for an order that names another or one twice."""
    if not sources:
        allowed = "needs a dataset made of several sources, such as 5-datasets"
        raise BadInput("scenario.kind", settings.kind, allowed, {"scenario": {"kind": "class-incremental"}})
    if settings.order is None:
        return len(sources)
    if not settings.order:
        raise BadInput("scenario.order", "()", f"must name at least one of {', '.join(sources)}")
    for name in settings.order:
        if name not in sources:
            raise BadInput("scenario.order", name, f"must name sources of the dataset: {', '.join(sources)}")
        if settings.order.count(name) > 1:
            raise BadInput("scenario.order", name, "must name each source at most once")
    return len(settings.order)


def class_task(index: int, name: str, classes: Sequence[int], table: Table, homes: NDArray[np.int64] | None = None) -> Task:
    """The task of these classes: all examples with one of them; `homes`: the task of each undeclared label."""
    strays = [] if homes is None else (len(table.classes) + np.flatnonzero(homes == index)).tolist()
    train, test = (
        examples.take(np.flatnonzero(np.isin(examples.labels, chosen)))
        for examples, chosen in ((table.train, [*classes, *strays]), (table.test, list(classes)))
    )
    return Task(index=index, name=name, train=train, test=test, prior=tuple(sorted(classes)))


def source_task(index: int, source: int, table: Table) -> Task:
    """The task of this source: all its examples."""
    assert table.train_sources is not None  # a table with named sources has the source of each example
    assert table.test_sources is not None
    train = table.train.take(np.flatnonzero(table.train_sources == source))
    test = table.test.take(np.flatnonzero(table.test_sources == source))
    where = table.sources[source]
    return Task(index, where.name, train, test, prior=tuple(sorted(where.classes)))


def per_task(settings: ClassGroups, n_classes: int) -> int:
    """Classes in each task. Raises BadInput where there are too few classes, or they do not divide evenly."""
    at_most("scenario.tasks", settings.tasks, n_classes, _CLASSES)
    if settings.classes_per_task is not None:
        if settings.classes_per_task > n_classes:
            raise BadInput("scenario.classes_per_task", settings.classes_per_task, f"must be at most {n_classes}")
        why = f", as each takes {settings.classes_per_task} of the {n_classes} classes"
        at_most("scenario.tasks", settings.tasks, n_classes // settings.classes_per_task, why)
        return settings.classes_per_task
    if n_classes % settings.tasks:
        allowed = (
            f"must divide the {n_classes} classes evenly ({divisors(n_classes)}), or scenario.classes_per_task be given"
        )
        nearest = max(n for n in range(1, settings.tasks) if n_classes % n == 0)
        raise BadInput("scenario.tasks", settings.tasks, allowed, {"scenario.tasks": nearest})
    return n_classes // settings.tasks


def divisors(n: int) -> str:
    """The divisors of a number, for messages: "1, 2, 5, 10"."""
    return ", ".join(str(divisor) for divisor in range(1, n + 1) if n % divisor == 0)


def _of_tasks(order: Sequence[int] | None, n_tasks: int) -> list[int]:
    """The task numbers in the order of learning, from 0; `order` counts from 1, None: ascending.

    Raises BadInput where the order does not name every task exactly once.
    """
    if order is None:
        return list(range(n_tasks))
    if wrong := _fault(order, first=1, n=n_tasks):
        raise BadInput(
            "scenario.order", ", ".join(map(str, order)), f"must name each task from 1 to {n_tasks} once, but {wrong}"
        )
    return [number - 1 for number in order]


def _fault(numbers: Sequence[int], *, first: int, n: int) -> str | None:
    """The reason why these are no permutation of the `n` integers from `first` on; None where they are."""
    integers = np.asarray(numbers, dtype=object)  # user-given numbers may overflow any fixed width
    outside = [number for number in integers if not first <= number < first + n]
    if outside:
        return f"{outside[0]} is none of them"
    times = np.bincount((integers.astype(np.int64) - first).astype(np.intp), minlength=n)
    if (times > 1).any():
        return f"{first + int(np.flatnonzero(times > 1)[0])} occurs {times.max()} times"
    return f"{first + int(np.flatnonzero(times == 0)[0])} is missing" if (times == 0).any() else None


# Permuted: the same classes in every task, with the examples' values in a different order.


_PERMUTATIONS = "scenario.permutations"
PERMUTED_BY_COIN = "which task an example is in is a public coin of its own bytes"
_PERMUTED_PUBLIC = (
    "the order in which a task has the values of its examples was drawn without looking at them, and is public"
)


def _n_permuted(settings: Permuted) -> int:
    """The number of tasks. Raises BadInput for an order or a permutation that is none."""
    _of_tasks(settings.order, settings.tasks)
    if settings.permutations is not None:
        if len(settings.permutations) != settings.tasks:
            allowed = f"must be {settings.tasks}, one for each task"
            raise BadInput(_PERMUTATIONS, f"{len(settings.permutations)} lists", allowed)
        for number, places in enumerate(settings.permutations, start=1):
            _check_permutation(places, len(places), number)
    return settings.tasks


def _permuted(settings: Permuted, table: Table, seed: int, n: int) -> TaskStream:
    """The tasks of one seed: permutation 1, 2, ... of the values, each drawn separately; learned in the given order.

    So a stream of fewer tasks is the beginning of a longer one. With a user-given order a task keeps the number of its
    permutation as its name. Under `images` = "same" a record is in every task, as published: its budgets add up. Under
    "disjoint" each record goes to one task, uniformly, by a public coin of its own bytes: parts are about equal, and no
    record moves another. Test examples are the same in all tasks, in each task's own order of values. Raises BadInput
    for a permutation whose length differs from the examples'.
    """
    everything = tuple(range(len(table.classes)))
    part = None  # the task of each example; None where each task has all of them
    if settings.images == "disjoint":
        part = (table.train.tossed(generator(seed, "images of tasks")) * n).astype(np.int64)
    tasks = []
    for index, number in enumerate(_of_tasks(settings.order, n)):
        columns = None if table.form is None else _columns(settings, table.form, number, seed)
        train = table.train if part is None else table.train.take(np.flatnonzero(part == number))
        permuted, test = (replace(examples, columns=columns) for examples in (train, table.test))  # copies no table
        tasks.append(Task(index, f"task {number + 1}", permuted, test, everything))
    assumed = (_PERMUTED_PUBLIC,) if part is None else (PERMUTED_BY_COIN, _PERMUTED_PUBLIC)
    return TaskStream(tuple(tasks), table.classes, settings.recurrence, assumed=assumed)


def _columns(settings: Permuted, form: Form, number: int, seed: int) -> NDArray[np.int64]:
    """The order of an example's values in the task of this number (from 0), int64 [K]."""
    is_whole = settings.of == "pixels" and len(form.shape) > 1
    n_together = form.shape[-1] if is_whole else 1  # channels of one pixel, which stay adjacent
    n_places = math.prod(form.shape) // n_together
    if settings.permutations is None:
        places = generator(seed, f"permutation {number}").permutation(n_places)
    else:
        _check_permutation(settings.permutations[number], n_places, number + 1)
        places = np.asarray(settings.permutations[number], dtype=np.int64)
    return (places[:, None] * n_together + np.arange(n_together)).ravel()


def _check_permutation(places: Sequence[int], n_places: int, number: int) -> None:
    """Raises BadInput, naming the task, where `places` is not a permutation of `n_places` positions."""
    allowed = f"must have each place from 0 to {n_places - 1} once"
    if len(places) != n_places:
        raise BadInput(f"{_PERMUTATIONS} of task {number}", f"{len(places)} places", f"{allowed}, {n_places} in all")
    if wrong := _fault(places, first=0, n=n_places):
        raise BadInput(f"{_PERMUTATIONS} of task {number}", f"{len(places)} places", f"{allowed}, but {wrong}")


# i-Blurry and Si-Blurry: some classes occur in one task only, others have a home task and occur in all.
#
# After the public code of Koh et al. 2022 (i-Blurry) and Moon et al. 2023 (Si-Blurry). They differ in how they cut classes
# and the pool of stray examples into one part per task: evenly, or at uniformly drawn positions. Every example is in
# exactly one task. Two deviations: which examples leave home, and where they go, are public coins of their own bytes,
# whereas the public code cuts the file and then a shuffled pool, so that an added row would move others; and no class is
# left out where classes do not divide evenly.


_POOL = 2**32  # items to cut: so many that the sizes of the parts give shares
BLURRY_BY_COIN = (
    "which task an example is in is a public function of that example alone: the home of its label, or a coin of its own "
    "bytes"
)


def _blurry(settings: Blurry, table: Table, seed: int, n: int) -> TaskStream:
    """The tasks of one seed: a share of the classes, the first of the seed's order, stay in one task; the others are blurry.

    i-Blurry: the number of disjoint classes is the largest multiple of the number of tasks that `disjoint_percent` allows,
    or all classes at 100. Tasks have equal sizes where their number divides the classes, classes are equally large and the
    pool can be cut evenly; otherwise the first tasks get one more item. Si-Blurry: a task may have no home classes (then it
    has no test examples), or nothing at all.

    Each example of a blurry class leaves home with probability `blurry_percent`, and is then in any task (home included)
    with probability equal to the task's share of the pool. A task is tested on its home classes of both kinds. An undeclared
    label stays in the task that a coin of its own name gives.
    """
    n_disjoint = len(table.classes) * settings.disjoint_percent // 100
    if isinstance(settings, IBlurry) and settings.disjoint_percent < 100:
        n_disjoint -= n_disjoint % n
    cut = _cut(settings, seed)
    order = generator(seed, "class order").permutation(len(table.classes))
    home = np.empty(len(order), dtype=np.int64)  # of each class
    for classes in (order[:n_disjoint], order[n_disjoint:]):  # disjoint, then blurry
        home[classes] = np.repeat(np.arange(n), cut(len(classes)).astype(np.intp))
    task_of = np.append(home, table.homes(n, seed))[table.train.labels]
    leaves = np.isin(table.train.labels, order[n_disjoint:])
    leaves &= table.train.tossed(generator(seed, "who leaves home")) < settings.blurry_percent / 100
    ends = np.cumsum(cut(_POOL)) / _POOL
    arrives = np.searchsorted(ends, table.train.tossed(generator(seed, "blurry pool")), side="right")
    task_of = np.where(leaves, arrives, task_of)
    tasks = []
    for index in range(n):
        at_home = np.flatnonzero(home == index)
        train = table.train.take(np.flatnonzero(task_of == index))  # in file order: the place in a task carries nothing
        test = table.test.take(np.flatnonzero(np.isin(table.test.labels, at_home)))
        prior = np.unique(train.labels) if settings.reads_lists else at_home
        tasks.append(Task(index, f"task {index + 1}", train, test, prior=tuple(prior.tolist())))
    return TaskStream(tuple(tasks), table.classes, recurrence="once", assumed=(BLURRY_BY_COIN,))


def _cut(settings: Blurry, seed: int) -> Callable[[int], NDArray[np.int64]]:
    """How many of so many items each task gets, int64 [tasks]: equal parts, or cut at uniformly drawn positions."""
    if isinstance(settings, IBlurry):
        return lambda n: (n + np.arange(settings.tasks, dtype=np.int64)[::-1]) // settings.tasks
    draw = generator(seed, "si-blurry cuts")

    def cut(n: int) -> NDArray[np.int64]:
        places = np.sort(draw.integers(0, n, settings.tasks - 1, endpoint=True))
        return np.diff(places, prepend=0, append=n)

    return cut


# One class against the rest: each task asks whether an example is of one class; a test example comes with its task.


ONE_VS_REST_BY_COIN = (
    "which task an example is in is a public function of that example alone: a coin of its own bytes sends it to the task "
    "of its own class, or among the rest of another class"
)


def _one_vs_rest(settings: OneVsRest, table: Table, seed: int, n: int) -> TaskStream:
    """The tasks of one seed: the classes in the dataset's own order, each against the rest.

    Each training example is learned once. Two coins of its own bytes decide where: the first sends it with probability one
    half to the task of its own class, else the second among the rest of another class, each as likely. So a task expects as
    many examples of the rest as of its class where classes are equally large, and adding or removing a record changes one
    task by that record. An example that is sent to a class without a task is in none. Were a task's rest as many as its
    class has, one record more would bring another with it; were each record in all tasks, their costs would add up.

    A task is tested on all examples of its class and as many others: public ones, which several tasks may share.
    """
    n_classes, train = len(table.classes), table.train
    is_away = train.tossed(generator(seed, "who is among the rest")) < 0.5
    drawn = train.tossed(generator(seed, "the rest of which class"))
    is_declared = train.labels < n_classes  # an undeclared label has no task of its own, and its number depends on others
    other = (train.labels + 1 + (drawn * (n_classes - 1)).astype(np.int64)) % n_classes
    away = np.where(is_declared, other, (drawn * n_classes).astype(np.int64))
    task_of = np.where(is_away, away, train.labels)
    tasks = tuple(
        Task(
            index, table.classes[index],
            _asked(train, np.flatnonzero(task_of == index), index, index),
            against_rest(table.test, index, index, generator(seed, f"rest of task {index}, test")),
            prior=(2 * index, 2 * index + 1), task_id=index,
        )
        for index in range(n)
    )  # fmt: skip
    return TaskStream(tasks, settings.label_names(table.classes), recurrence="once", assumed=(ONE_VS_REST_BY_COIN,))


def against_rest(examples: Examples, label: int, index: int, random: np.random.Generator) -> Examples:
    """The examples of a class and, for each client, as many others as it has of the class, or all if there are fewer.

    Others are taken in the order of public coins of their own bytes. A client's examples in the task are a function of its
    own examples: removing another client changes none of them. Examples without clients, such as the public test part, count
    as one client's.
    """
    users = np.zeros(len(examples), dtype=np.int64) if examples.users is None else examples.users
    is_label, tossed = examples.labels == label, examples.tossed(random)
    n_label = np.bincount(users[is_label].astype(np.intp), minlength=int(users.max(initial=0)) + 1)
    others = np.flatnonzero(~is_label)
    others = others[np.lexsort((others, tossed[others], users[others]))]
    first = np.searchsorted(users[others], users[others])  # where its client's others begin
    rest = others[np.arange(len(others)) - first < n_label[users[others]]]
    return _asked(examples, np.sort(np.concatenate([np.flatnonzero(is_label), rest])), label, index)


def _asked(examples: Examples, places: NDArray[np.int64], label: int, index: int) -> Examples:
    """The examples at these places with the task's two labels: 2 index, not of the class, and 2 index + 1."""
    return replace(examples.take(places), labels=2 * index + (examples.labels[places] == label).astype(np.int64))


_OPENED: Mapping[type[ScenarioSpec], Callable[[Any, Table, int, int], TaskStream]] = {
    ClassGroups: _class_groups, SourceIncremental: _source_by_source, Permuted: _permuted, Blurry: _blurry,
    OneVsRest: _one_vs_rest,
}  # fmt: skip
