"""A small federated stream without data and encoder: clients, classes around directions of a sphere, public points."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core import checks
from dpcl_core.events import Event
from dpcl_core.explorers.matching_log import Observer
from dpcl_core.methods import catalog
from dpcl_core.methods.common.method import Learner, PublicContext
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import Cell, RunSpec, fields_of

WIDTH, N_CLASSES, N_CLIENTS = 24, 4, 8
_FEW = {"params": {"rounds": 3, "local_steps": 2, "hidden": 8}}  # of methods that train in rounds
_STEPS = {"params": {"steps": 30, "samples": 60, "hidden": 8}}


def points(
    directions: NDArray[np.float64], per_class: int, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Unit vectors [n, d] around each direction, and which one [n]."""
    labels = np.repeat(np.arange(len(directions)), per_class)
    rows = directions[labels] + 0.12 * random.standard_normal((len(labels), directions.shape[1]))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), labels


def stream(
    seed: int = 0, per_class: int = 80, n_clients: int = N_CLIENTS, classes_per_task: int = 1, width: int = WIDTH
) -> tuple[TaskStream, NDArray[np.float32]]:
    """Tasks of some classes each, all clients in every one, and 300 public points [300, d] around other directions too."""
    random = np.random.default_rng(seed)
    directions = np.linalg.qr(random.standard_normal((width, width)))[0][: N_CLASSES + 4] + 0.35
    z, labels = points(directions[:N_CLASSES], per_class, random)
    tests, test_labels = points(directions[:N_CLASSES], 30, random)
    users = random.integers(0, n_clients, len(z))
    tasks = []
    for index in range(N_CLASSES // classes_per_task):
        own = tuple(range(index * classes_per_task, (index + 1) * classes_per_task))
        rows, test_rows = np.flatnonzero(np.isin(labels, own)), np.flatnonzero(np.isin(test_labels, own))
        train = Examples(z, labels[rows], users[rows], rows)
        tasks.append(Task(index, f"task {index + 1}", train, Examples(tests, test_labels[test_rows], None, test_rows), own))
    public, _ = points(directions, 300 // len(directions) + 1, random)
    names = tuple("abcd")
    return TaskStream(tuple(tasks), names, "every", "user"), random.permutation(public)[:300]


def with_rows(of: TaskStream, rows: Callable[[Task], Examples]) -> TaskStream:
    """The same tasks with other training rows."""
    return replace(of, tasks=tuple(replace(task, train=rows(task)) for task in of.tasks))


def kept(of: TaskStream, stays: Callable[[Task], NDArray[np.bool_]]) -> TaskStream:
    """The same tasks with some of their training rows."""
    return with_rows(of, lambda task: task.train.take(np.flatnonzero(stays(task))))


def at_home(of: TaskStream, n_clients: int = N_CLIENTS) -> TaskStream:
    """The same tasks, each with as many clients that are in no other."""
    own = n_clients // len(of.tasks)
    homes = with_rows(of, lambda task: replace(task.train, users=task.train.users % own + own * task.index))  # type: ignore[operator]
    return replace(homes, recurrence="once")


def spec(method: str, **changes: object) -> RunSpec:
    """A run of a method of clients, with seeded noise."""
    raw: dict[str, object] = {"method": method, "labels": "prior", "privacy": {"epsilons": [4.0], "noise": "seeded"}}
    return checks.parse({**raw, "scenario": {"kind": "federated", "clients": N_CLIENTS}, "seeds": [0], **changes})


def small(method: str, **changes: object) -> RunSpec:
    """A run that takes a fraction of a second."""
    fields = fields_of(catalog.card(method).params)
    params = _FEW if "rounds" in fields else _STEPS if "steps" in fields else {"params": {}}
    merged = {**params["params"], **changes.pop("params", {})}  # type: ignore[dict-item]
    if "dimensions" in fields and method != "cslr-published":
        merged = {"dimensions": 4, **merged}
    if "anchors" in fields:
        merged = {"anchors": 20, "restarts": 1, **merged}
    if catalog.card(method).guarantee == "none":
        changes = {"privacy": {"epsilons": [math.inf], "noise": "seeded"}, **changes}
    return spec(method, **{"params": merged, **changes})


def known(of: TaskStream, anchors: NDArray[np.float32] | None, n_clients: int = N_CLIENTS) -> PublicContext:
    """What the engine would hand over."""
    return PublicContext(
        n_inputs=of.tasks[0].train.table.shape[1],
        n_classes=len(of.classes),
        public=tuple(range(len(of.classes))),
        n_people=sum(len(task.train) for task in of.tasks),
        n_tasks=len(of.tasks),
        recurrence=of.recurrence,
        classes=of.classes,
        n_users=n_clients,
        anchors=anchors,
    )


def run(
    asked: RunSpec, of: TaskStream, anchors: NDArray[np.float32] | None, n_clients: int = N_CLIENTS
) -> tuple[dict[Cell, Ledger], Mapping[Cell, list[float]], list[Event], list[Learner]]:
    """All cells of a spec: ledgers, accuracy on all classes after each task, what was said, learners."""
    ledgers = {cell: Ledger(asked.privacy.delta, asked.privacy.adjacency, of.recurrence) for cell in asked.cells()}
    accuracies: dict[Cell, list[float]] = {cell: [] for cell in asked.cells()}
    said: list[Event] = []
    learners = []
    shares = catalog.card(asked.method).cells_per_learner
    cells = list(asked.cells())
    groups = [[cell for cell in cells if cell.seed == seed] for seed in asked.seeds]
    for group in [[cell] for cell in cells] if shares == "cell" else groups:
        learner = catalog.maker(asked.method)(asked, group, known(of, anchors, n_clients))
        observer = Observer(asked, group, known(of, anchors, n_clients))
        learners.append(learner)
        for task in of.tasks:
            said += observer.events(learner.learn({group[0].seed: task}, ledgers))
            right = np.zeros(len(group))
            for tested in of.tasks:
                scores, *_ = learner.scores(group[0].seed, tested).values()
                right += (scores.argmax(axis=2) == tested.test.labels).sum(axis=1)
            for place, cell in enumerate(group):
                accuracies[cell].append(right[place] / sum(len(tested.test) for tested in of.tasks))
    return ledgers, accuracies, said, learners
