"""A learner's classifier after a task: arrays that it released, and the rule by which they classify without it."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core import arrays as arrays_file
from dpcl_core.data import texts
from dpcl_core.events import Classifier, Fact
from dpcl_core.methods.common.method import Learner, PublicContext, TaskBlind
from dpcl_core.metrics import mean
from dpcl_core.privacy.sums import row_blocks
from dpcl_core.scenarios.stream import Examples, Task, TaskStream, join_examples
from dpcl_core.spec import Cell

# Test scores of a seed's models on tasks: accuracy, or micro-F1 of entities. Test data count as public.


# By rule: points reached and points possible for each budget's model, int64 [epsilons, 2]. For both metrics, their sums over
# tasks give the score over all of them.
Marks = Mapping[str, NDArray[np.int64]]
_SCORES = 1 << 20  # that are made at once


@dataclass(frozen=True, slots=True)
class Result:
    """Accuracy by task and over all test examples; None if there was nothing to evaluate. `ahead`: on the next task."""

    by_task: tuple[float | None, ...]
    pooled: float | None
    by_rule: Mapping[str, tuple[float | None, ...]]
    ahead: float | None


def evaluated(learner: Learner, seed: int, stream: TaskStream, step: int, n_cells: int) -> list[Result]:
    """Results of the seed's models on the tasks seen so far, one per budget; also on the next if the stream looks ahead."""
    marks = _all_marks(learner, seed, stream, stream.tasks[: step + 1], n_cells)
    rules = next((tuple(of_task) for of_task in marks if of_task), ())
    next_task = stream.tasks[step + 1 : step + 2] if stream.looks_ahead else ()
    ahead = [_marks(learner, seed, stream, task) for task in next_task]

    def by_task(rule: str, cell: int) -> tuple[float | None, ...]:
        return tuple(_score([of_task], rule, cell) for of_task in marks)

    return [
        Result(
            by_task=by_task(rules[0], cell) if rules else (None,) * len(marks),
            pooled=_score(marks, rules[0], cell) if rules else None,
            by_rule={rule: by_task(rule, cell) for rule in rules} if len(rules) > 1 else {},
            ahead=_score(ahead, rules[0], cell) if rules else None,
        )
        for cell in range(n_cells)
    ]


def untrained(learner: Learner, seed: int, stream: TaskStream, n_cells: int) -> list[tuple[float | None, ...]]:
    """Scores of the untrained models on each task, one row per budget; None if the method has no untrained model."""
    marks = [_marks(learner, seed, stream, task) for task in stream.tasks]
    rule = next((next(iter(of_task)) for of_task in marks if of_task), "")
    return [tuple(_score([of_task], rule, cell) for of_task in marks) for cell in range(n_cells)]


def zero_shot(streams: Sequence[TaskStream], scores: Callable[[Task], NDArray[np.floating]]) -> float | None:
    """Accuracy of a model that has seen no training example: mean over tasks, then over streams; None without a test.

    A model that names no label is wrong. `scores`: gives [n, classes] for `task.test`, asked once for what seeds share.
    """
    known: dict[tuple[str, tuple[int, ...], bytes], float] = {}
    means = []
    for stream in streams:
        found = []
        for task in (task for task in stream.tasks if len(task.test)):
            key = task.name, task.prior, b"" if task.test.rows is None else task.test.rows.tobytes()
            if key not in known:
                known[key] = _score([{"": _right(_told(scores(task), task)[None], task.test.labels)}], "", 0) or 0.0
            found.append(known[key])
        means.append(mean(found))
    return mean(means)


def _all_marks(learner: Learner, seed: int, stream: TaskStream, tasks: Sequence[Task], n_cells: int) -> list[Marks]:
    """The marks of each task: by one pass over all test examples, in blocks, where a learner does not ask for their task."""
    tests = [task.test for task in tasks]
    is_joint = stream.metric == "accuracy" and all(
        task.task_id is None and task.test.columns is None and task.test.table is tests[0].table for task in tasks
    )
    if not is_joint or not isinstance(learner, TaskBlind):
        return [_marks(learner, seed, stream, task) for task in tasks]
    together, found = join_examples(tests), dict[str, list[NDArray[np.int64]]]()
    for rows in row_blocks(len(together), n_cells * len(stream.classes), _SCORES):
        part = together.take(np.arange(len(together))[rows])
        for rule, scores in learner.scores(seed, replace(tasks[0], test=part)).items():
            found.setdefault(rule, []).append(_answers(scores, part.labels))
    answers = {rule: np.concatenate(parts, axis=1) for rule, parts in found.items()}
    ends = np.cumsum([0, *map(len, tests)])
    return [{rule: _counts(of[:, a:b]) for rule, of in answers.items()} if a < b else {} for a, b in pairwise(ends)]


def _marks(learner: Learner, seed: int, stream: TaskStream, task: Task) -> Marks:
    scores = learner.scores(seed, task) if len(task.test) else {}
    scores = {rule: _told(of_rule, task) for rule, of_rule in scores.items()}
    if stream.metric == "entity-f1":
        return {rule: _entity_marks(of_rule, task.test, stream.classes) for rule, of_rule in scores.items()}
    return {rule: _right(of_rule, task.test.labels) for rule, of_rule in scores.items()}


def _score(marks: Sequence[Marks], rule: str, cell: int) -> float | None:
    """Points reached over points possible, summed over the evaluated tasks; None if there were none."""
    reached, possible = np.sum([of_task[rule][cell] for of_task in marks if of_task] or [[0, 0]], axis=0).tolist()
    return reached / possible if possible else None


def masked(scores: NDArray[np.floating], classes: Sequence[int] | NDArray[np.int64]) -> NDArray[np.floating]:
    """A copy of scores [..., n, n_classes] with -inf outside of these classes."""
    found = np.full_like(scores, -np.inf)
    chosen = list(classes)
    found[..., chosen] = scores[..., chosen]
    return found


def _told(scores: NDArray[np.floating], task: Task) -> NDArray[np.floating]:
    """Scores [..., n, classes] of the task's test examples; only its own labels count where they come with their task."""
    return scores if task.task_id is None else masked(scores, task.prior)


def _right(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Right answers and number of answers [epsilons, 2]; a model without any label, such as an empty learned list, has none.

    Counting them as wrong would score below a guess, and equally after every task, which would look like perfect memory.
    """
    return _counts(_answers(scores, labels))


def _answers(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 for each right answer, 0 for a wrong one, -1 where a model has no label [epsilons, n]."""
    best = scores.argmax(axis=2)
    has_labels = np.isfinite(np.take_along_axis(scores, best[:, :, None], axis=2)[:, :, 0])
    if not has_labels.all():  # the largest of numbers among which one is none is that
        has_labels = np.isfinite(scores).any(axis=2)
    return np.where(has_labels, best == labels, -1)


def _counts(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([(answers > 0).sum(axis=1), answers.shape[1] * (answers >= 0).any(axis=1)], axis=1)


def _entity_marks(scores: NDArray[np.floating], test: Examples, classes: Sequence[str]) -> NDArray[np.int64]:
    """Twice the true positives, and predicted plus actual entities [epsilons, 2], after decoding by the rules of BIO."""
    assert test.sentences is not None  # streams of tagged words have sentence boundaries
    decoded = [texts.decode(of_budget, test.sentences, classes) for of_budget in scores]
    return np.array([texts.f1_counts(one, test.labels, test.sentences, classes) for one in decoded], dtype=np.int64)


Arrays = Mapping[str, NDArray[np.generic]]
LARGEST = 64_000_000  # bytes of all classifiers of a run together
PUBLIC = "public."  # before the name of an array that no example has changed


@dataclass(frozen=True, slots=True)
class Rule:
    """How released arrays classify.

    `name`: a function in its family's `rules`. `arrays`: what it reads of `Learner.released`, and nothing else is kept.
    `columns`: the label of each row of these arrays. `competing`: labels that can be predicted after this task; `by_task`:
    those of each task so far, where the task of an example is known when it is predicted. `facts`: public numbers and names;
    `public`: public arrays, the same whatever the examples are. `uses_all`: the arrays of earlier tasks belong to it, too.
    """

    name: str
    arrays: tuple[str, ...]
    columns: Sequence[int] | NDArray[np.int64]
    competing: Sequence[int] | NDArray[np.int64]
    by_task: Sequence[Sequence[int]] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    public: Arrays = field(default_factory=dict)
    uses_all: bool = False


@runtime_checkable
class Classifying(Protocol):
    """A learner whose releases classify without it."""

    def rule(self, cell: Cell) -> Rule | None:
        """How the cell's releases so far classify; None before the first release."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a rule reads of one task: arrays by name, names of their rows, names that compete, public facts.

    `task`: the index of the examples' own task, where it is known.
    """

    arrays: Arrays
    classes: tuple[str, ...]
    competing: tuple[str, ...]
    facts: Mapping[str, Any]
    task: int | None = None

    def real(self, name: str) -> NDArray[np.floating]:
        """An array of real numbers."""
        return cast("NDArray[np.floating]", self.arrays[name])

    def chosen(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """The competing columns [n, competing] of scores [n, classes]."""
        return scores[:, [self.classes.index(name) for name in self.competing]]


def cell_classifier(
    learner: Learner, cell: Cell, tasks: Sequence[Task], context: PublicContext, reads: Mapping[str, Fact], n_cells: int
) -> Classifier | None:
    """The cell's classifier after the last of these tasks, to be kept with the run; None where there is none, or no room.

    Every task has room for its share of `LARGEST`, and the last one for its cell's: what fits is a public number, as sizes
    of releases are. `reads`: how examples become the learner's inputs.
    """
    rule = learner.rule(cell) if isinstance(learner, Classifying) else None
    if rule is None:
        return None
    released, task = learner.released(cell), len(tasks) - 1
    arrays = {name: released[name] for name in rule.arrays} | {f"{PUBLIC}{name}": one for name, one in rule.public.items()}
    is_last = task == context.n_tasks - 1 and not rule.uses_all
    if sum(array.nbytes for array in arrays.values()) > LARGEST // n_cells // (1 if is_last else context.n_tasks):
        return None
    names = (*context.classes, *context.undeclared)  # an undeclared label is in a rule only once it was released
    content = arrays_file.save(arrays)
    columns, competing = (tuple(names[label] for label in labels) for labels in (rule.columns, rule.competing))
    lists = rule.by_task
    if tasks[0].task_id is not None:  # an example comes with its task
        lists = [[label for label in of.prior if label in rule.competing] for of in tasks]
    by_task = tuple(tuple(names[label] for label in of_task) for of_task in lists)
    facts, text = {**rule.facts, **reads}, base64.b64encode(content).decode("ascii")
    return Classifier(cell, task, rule.name, columns, competing, by_task, facts, rule.uses_all, text)
