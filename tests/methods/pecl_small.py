"""PeCL on the bundled model, small: two tasks of twelve short texts, and one budget trained on them as a run does it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcl_core import checks
from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import Span, TextForm, Texts
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import LearnerEvent, PublicContext
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec
from tests.methods.training import public_context

LENGTH = 24
CLASSES = ("world", "sports", "good", "poor")
STRINGS = (
    "The government of the north signed a treaty with Anna Reed.",
    "The striker won the final and the cup for Port Guytown.",
    "I was served at noon, the soup was fine and the bread warm.",
    "A cold plate and a rude waiter, said Ben Cole of 12 Hill Road.",
)
NAMES = ("news", "restaurants")


def texts(n: int, task: int, start: int = 0) -> Examples:
    strings = [f"{STRINGS[2 * task + (start + k) % 2]} It was day {start + k}." for k in range(n)]
    spans = [(Span(0, 3, "D:year"), Span(len(string) - 12, len(string), "NAME")) for string in strings]
    labels = np.array([2 * task + (start + k) % 2 for k in range(n)], np.int64)
    return Examples(plain_language.read(Texts(strings, spans), "lm-tiny", LENGTH), labels)


def stream(n: int = 12, n_tasks: int = 2) -> list[Task]:
    return [Task(k, NAMES[k], texts(n, k), texts(4, k, 100), (2 * k, 2 * k + 1)) for k in range(n_tasks)]


def known(n: int = 12, n_tasks: int = 2, may_show: bool = True, **more: Any) -> PublicContext:
    return public_context(0, 4, n * n_tasks, n_tasks, classes=CLASSES, texts=TextForm(LENGTH, may_show=may_show), **more)


def spec(
    method: str = "pecl", epsilon: float = 8.0, adjacency: str = "add-remove", *, backbone: str = "lm-tiny", **params: object
) -> RunSpec:
    raw = {
        "method": method, "params": {"length": LENGTH, "epochs": 2, "batch_size": 6, **params}, "labels": "prior",
        "data": {"dataset": "pii-synthetic", "backbone": backbone}, "scenario": {"kind": "source-incremental"},
        "seeds": [0], "privacy": {"epsilons": [epsilon], "delta": 1e-3, "noise": "seeded", "adjacency": adjacency},
    }  # fmt: skip
    return checks.parse(raw)


def trained(
    given: RunSpec, tasks: Sequence[Task] | None = None, context: PublicContext | None = None, **public: Any
) -> tuple[Any, Ledger, list[LearnerEvent]]:
    tasks = stream() if tasks is None else tasks
    (cell,) = given.cells()
    learner = methods.maker(given.method)(given, [cell], context or known(n_tasks=len(tasks), **public))
    ledger = Ledger(given.privacy.delta, given.privacy.adjacency, "once")
    return learner, ledger, [event for task in tasks for event in learner.learn({0: task}, {cell: ledger})]
