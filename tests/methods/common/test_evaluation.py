"""What an evaluation says of scores: shares of right answers and micro-F1, pooled, ahead of time and of untrained models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcl_core import metrics
from dpcl_core.data.texts import tags_of
from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import evaluated, untrained
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import Cell


class Told:
    """A learner of two budgets that answers what it was told, the second budget always with class 0."""

    def __init__(self, answers: Mapping[int, list[int]], n_classes: int) -> None:
        self.answers, self.n_classes = answers, n_classes

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        yield from ()

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        if task.index not in self.answers:
            return {}
        first = np.eye(self.n_classes)[self.answers[task.index]]
        second = np.eye(self.n_classes)[np.zeros(len(task.test), dtype=int)]
        return {"argmax": np.stack([first, second])}


def stream(*labels: list[int], sentences: tuple[list[int], ...] | None = None, **more: object) -> TaskStream:
    tasks = []
    for index, of_task in enumerate(labels):
        marked = None if sentences is None else np.array(sentences[index], dtype=np.int64)
        test = Examples(np.zeros((len(of_task), 1)), np.array(of_task, dtype=np.int64), sentences=marked)
        tasks.append(Task(index, f"task {index}", test, test, (0,)))
    return TaskStream(tuple(tasks), tags_of(("PER",)), "every", **more)  # type: ignore[arg-type]


def test_accuracy_by_task_and_over_all() -> None:
    found = evaluated(Told({0: [0, 1, 1, 2], 1: [2, 2]}, 3), 0, stream([0, 1, 1, 1], [2, 0]), 1, 2)
    assert found[0].by_task == (0.75, 0.5)
    assert found[0].pooled == 4 / 6
    assert found[1].by_task == (0.25, 0.5)
    assert (found[0].ahead, found[0].by_rule) == (None, {})


def test_a_model_whose_list_of_labels_is_empty_remembers_nothing_perfectly() -> None:
    """Its budget has no accuracy and no forgetting; the other one's are as they were."""

    class Speechless(Told):
        def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
            found = super().scores(seed, task)
            return {rule: np.stack([both[0], np.full_like(both[1], -np.inf)]) for rule, both in found.items()}

    learner, of = Speechless({0: [0, 1], 1: [2, 2]}, 3), stream([0, 1], [2, 0])
    rows = [evaluated(learner, 0, of, step, 2) for step in range(2)]
    assert [row[0].by_task for row in rows] == [(1.0,), (1.0, 0.5)]
    assert [(row[1].by_task, row[1].pooled) for row in rows] == [((None,), None), ((None, None), None)]
    summary = metrics.summary([row[1].by_task for row in rows])
    assert summary["AA"] is summary["AF"] is summary["BWT"] is None


def test_a_task_that_no_model_answers_is_none_and_not_zero() -> None:
    found = evaluated(Told({1: [2, 2]}, 3), 0, stream([0, 1], [2, 0]), 1, 1)
    assert found[0].by_task == (None, 0.5)
    assert found[0].pooled == 0.5
    nobody = evaluated(Told({}, 3), 0, stream([0, 1], []), 1, 1)
    assert (nobody[0].by_task, nobody[0].pooled) == ((None, None), None)


def test_entities_count_whole_and_pooled_f1_is_of_pooled_counts() -> None:
    there = [1, 2, 0, 1], [1, 0]
    words = [0, 0, 0, 1], [0, 0]
    of = stream(*there, sentences=words, metric="entity-f1", looks_ahead=True)
    told = Told({0: [1, 2, 0, 0], 1: [1, 1]}, 3)
    first, nothing = evaluated(told, 0, of, 1, 2)
    assert first.by_task == (2 / 3, 2 / 3)  # one of two found and none too many; one found and one too many
    assert first.pooled == 2 * 2 / (3 + 3)
    assert nothing.by_task == (0.0, 0.0)
    assert evaluated(told, 0, of, 0, 2)[0].ahead == 2 / 3


def test_entity_scores_are_decoded_under_the_mask() -> None:
    of = stream([0, 2], sentences=([0, 0],), metric="entity-f1")
    (found,) = evaluated(Told({0: [0, 2]}, 3), 0, of, 0, 1)
    assert found.by_task == (0.0,), "the inside tag behind O is never emitted, so that nothing is found"
    empty = stream([0, 0], sentences=([0, 0],), metric="entity-f1")
    assert evaluated(Told({0: [0, 0]}, 3), 0, empty, 0, 1)[0].by_task == (None,), "no entity there, none told"


def test_forward_transfer_is_what_a_model_knows_before_it_learns_less_the_untrained() -> None:
    of = stream([0, 1], [1, 1], [0, 0], looks_ahead=True)
    told = Told({0: [0, 1], 1: [1, 0], 2: [0, 0]}, 3)
    base = untrained(told, 0, of, 2)
    assert base == [(1.0, 0.5, 1.0), (0.5, 0.0, 1.0)]
    found = [evaluated(told, 0, of, step, 2)[0] for step in range(3)]
    rows = [(*one.by_task, one.ahead) for one in found]
    assert rows == [(1.0, 0.5), (1.0, 0.5, 1.0), (1.0, 0.5, 1.0, None)]
    said = metrics.summary(rows, [0.0, 0.25, 0.5])
    assert said["FWT"] == pytest.approx(((0.5 - 0.25) + (1.0 - 0.5)) / 2)
    assert said["AA"] == pytest.approx(2.5 / 3)
    assert metrics.summary(rows)["FWT"] is None
    of_one_task = metrics.summary([(0.5, None)], [0.25])
    assert (of_one_task["BWT"], of_one_task["FWT"]) == (None, None)


def test_the_mean_right_after_learning_is_aa_less_its_share_of_bwt() -> None:
    """Card section 13, check 15: AA - BWT (T - 1) / T = mean of the diagonal."""
    random = np.random.default_rng(3)
    for n in (2, 4, 7):
        matrix = [tuple(random.random(k + 2).tolist()) for k in range(n)]
        said = metrics.summary(matrix)
        diagonal = np.mean([row[k] for k, row in enumerate(matrix)])
        assert said["AA"] - said["BWT"] * (n - 1) / n == pytest.approx(diagonal, abs=1e-12)
