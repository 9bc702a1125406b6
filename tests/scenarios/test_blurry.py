"""Blurred tasks: each example in one task, home shares and sizes as counted by hand, and draws with empty tasks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import LIST_FROM_DATA, NOT_DP, guarantee_words, standing
from dpcl_core.scenarios import central
from dpcl_core.scenarios.catalog import Blurry, ClassIncremental, IBlurry, SiBlurry
from dpcl_core.scenarios.central import BLURRY_BY_COIN
from dpcl_core.scenarios.stream import Table, TaskStream
from dpcl_core.spec import Cell
from tests.scenarios.making import records, table

LABELS = st.lists(st.integers(0, 6), max_size=60)
SETTINGS = st.builds(
    lambda kind, **rest: kind(**rest),
    st.sampled_from([IBlurry, SiBlurry]),
    tasks=st.integers(1, 7),
    disjoint_percent=st.integers(0, 100),
    blurry_percent=st.integers(0, 100),
    task_prior=st.sampled_from(["home", "occurring"]),
)


def balanced(n_classes: int, per_class: int) -> Table:
    return table(np.repeat(np.arange(n_classes), per_class).tolist(), list(range(n_classes)), n_classes)


def counts(stream: TaskStream) -> np.ndarray:
    """Training examples [tasks, classes]."""
    return np.array([np.bincount(task.train.labels.astype(np.intp), minlength=len(stream.classes)) for task in stream.tasks])


def test_a_case_counted_by_hand() -> None:
    """Four classes of 1,000, two tasks: one disjoint and one blurry class each; of the latter a fifth is elsewhere."""
    stream = central.open_stream(IBlurry(tasks=2, disjoint_percent=50, blurry_percent=40), balanced(4, 1000), seed=3)
    found = counts(stream)
    for task, row, other in zip(stream.tasks, found, found[::-1], strict=True):
        assert len(task.prior) == len(task.test) == 2
        assert sorted(task.test.labels) == list(task.prior)
        disjoint, home = sorted(task.prior, key=lambda label: -row[label])
        assert (row[disjoint], other[disjoint]) == (1000, 0)
        assert abs(other[home] - 200) < 76, "six standard deviations of a binomial of 1,000 at 0.4 / 2"
        assert other[home] == 1000 - row[home]
    assert (stream.recurrence, stream.unit) == ("once", "example")
    assert stream.assumed == (central.BLURRY_BY_COIN,)


def test_an_odd_number_of_classes_keeps_every_class() -> None:
    """Seven classes, three tasks, half disjoint: three are (one a task), four are blurry with homes 2, 1, 1."""
    stream = central.open_stream(IBlurry(tasks=3, blurry_percent=0), balanced(7, 4), seed=0)
    assert [len(task.prior) for task in stream.tasks] == [3, 2, 2]
    assert sorted(label for task in stream.tasks for label in task.prior) == list(range(7))
    assert [len(task.train) for task in stream.tasks] == [12, 8, 8]


@pytest.mark.parametrize(("tasks", "blurry_percent", "share"), [(10, 10, 0.91), (5, 30, 0.76), (5, 50, 0.60)])
def test_sizes_and_home_shares_of_the_published_streams(tasks: int, blurry_percent: int, share: float) -> None:
    """Of 50 classes of 200 the share that stays has a standard error below 0.005; sizes vary as binomials."""
    settings = IBlurry(tasks=tasks, blurry_percent=blurry_percent)
    stream = central.open_stream(settings, balanced(100, 200), seed=1)
    found = counts(stream)
    strays = 10_000 * blurry_percent / 100
    assert max(abs(len(task.train) - 20_000 // tasks) for task in stream.tasks) < 6 * np.sqrt(2 * strays / tasks)
    blurred = np.flatnonzero((found > 0).sum(axis=0) > 1)
    assert len(blurred) == 50
    assert found.max(axis=0)[blurred].mean() / 200 == pytest.approx(share, abs=0.02)
    assert share == pytest.approx(1 - blurry_percent / 100 + blurry_percent / 100 / tasks)


def test_all_classes_disjoint_is_the_class_incremental_split() -> None:
    given_table = balanced(10, 3)
    plain = central.open_stream(ClassIncremental(tasks=5), given_table, 7)
    for percent in (0, 100):  # of no examples
        found = central.open_stream(IBlurry(tasks=5, disjoint_percent=100, blurry_percent=percent), given_table, 7)
        assert [task.prior for task in found.tasks] == [task.prior for task in plain.tasks]
        assert [records(task) for task in found.tasks] == [records(task) for task in plain.tasks]
    uneven = central.open_stream(IBlurry(tasks=3, disjoint_percent=100, blurry_percent=100), given_table, 7)
    assert [len(task.prior) for task in uneven.tasks] == [4, 3, 3]
    assert ((counts(uneven) > 0).sum(axis=0) == 1).all(), "also a class that is left over stays in one task"


def test_everything_blurred_spreads_every_class_evenly() -> None:
    """Each of 25 counts is binomial around 200; six standard deviations (12.6) are passed once in 10^8."""
    settings = IBlurry(tasks=5, disjoint_percent=0, blurry_percent=100)
    found = counts(central.open_stream(settings, balanced(5, 1000), seed=2))
    assert np.abs(found - 200).max() < 76
    assert np.abs(found.sum(axis=1) - 1000).max() < 170


def test_strays_are_drawn_at_random_and_not_from_the_front_of_the_file() -> None:
    """750 or so of a class's 1,000 rows end at home; their mean row is 499.5 with standard error 5.3, else it is 583."""
    stream = central.open_stream(IBlurry(tasks=2, disjoint_percent=0, blurry_percent=50), balanced(2, 1000), seed=5)
    for task in stream.tasks:
        rows = task.train.inputs[task.train.labels == task.prior[0], 0] % 1000
        assert 650 < len(rows) < 850
        assert abs(float(rows.mean()) - 499.5) < 32


@given(LABELS, LABELS, SETTINGS, st.integers(0, 2**32 - 1))
def test_every_example_is_in_exactly_one_task(train: list[int], test: list[int], settings: Blurry, seed: int) -> None:
    stream = central.open_stream(settings, table(train, test, 7), seed)
    assert len(stream.tasks) == settings.tasks
    assert sorted(record for task in stream.tasks for record in records(task)) == list(enumerate(train))
    assert sorted(int(row) for task in stream.tasks for row in task.test.inputs[:, 0]) == list(range(1000, 1000 + len(test)))
    for task in stream.tasks:
        rows = task.train.inputs[:, 0]
        assert (np.diff(rows) > 0).all(), "in the order of the file"
        if settings.task_prior == "occurring":
            assert task.prior == tuple(sorted(set(task.train.labels.tolist())))
    again = central.open_stream(settings, table(train, test, 7), seed)
    assert [records(task) for task in again.tasks] == [records(task) for task in stream.tasks]


@given(st.sampled_from([IBlurry, SiBlurry]), st.integers(1, 7), st.integers(0, 100), LABELS, st.integers(0, 2**32 - 1))
def test_home_priors_are_a_map_that_no_record_changes(
    kind: type[IBlurry | SiBlurry], tasks: int, percent: int, labels: list[int], seed: int
) -> None:
    settings = kind(tasks=tasks, disjoint_percent=percent)
    streams = [central.open_stream(settings, table(given_labels, [], 7), seed) for given_labels in (labels, [])]
    priors = [[task.prior for task in stream.tasks] for stream in streams]
    assert priors[0] == priors[1]
    assert sorted(label for prior in priors[0] for label in prior) == list(range(7))


def test_random_cuts_give_tasks_of_many_sizes_with_the_right_mean() -> None:
    """400 draws of 5 tasks over 1,000 examples: sizes average 200 always and spread; every place is cut about as often."""
    streams = [central.open_stream(SiBlurry(), balanced(20, 50), seed) for seed in range(400)]
    sizes = np.array([[len(task.train) for task in stream.tasks] for stream in streams])
    assert (sizes.sum(axis=1) == 1000).all()
    # Each task's share is a mixture with standard deviation below 0.17, so its mean over 400 draws has one below 8.5.
    assert np.abs(sizes.mean(axis=0) - 200).max() < 43
    assert sizes.std() > 60


def test_random_cuts_leave_tasks_empty_now_and_then() -> None:
    streams = [central.open_stream(SiBlurry(), balanced(10, 4), seed) for seed in range(60)]
    empty = [task for stream in streams for task in stream.tasks if not len(task.train)]
    assert empty
    assert any(len(task.train) and not len(task.test) for stream in streams for task in stream.tasks), "strays alone"


# A blurred stream whose first task is empty goes through the engine whole, whatever the labels come from.


SEED = 24  # of the digits in 8 tasks: training examples 0 508 122 265 6 271 172 3, and the 1st, 5th, 8th are not tested


@pytest.mark.parametrize(
    ("labels", "task_prior"), [("prior-const", "home"), ("prior", "home"), ("prior", "occurring"), ("data", "home")]
)
def test_a_stream_with_empty_tasks_runs_through(labels: str, task_prior: str, home: Path) -> None:
    spec = checks.parse(
        {
            "labels": labels,
            "data": {"dataset": "digits", "backbone": "pixels"},
            "scenario": {"kind": "si-blurry", "tasks": 8, "task_prior": task_prior},
            "privacy": {"epsilons": [1.0, math.inf]},
            "seeds": [SEED],
        }
    )
    events = list(engine.run(spec))
    points = {(event.cell, event.task): event for event in events if isinstance(event, TaskLearned)}
    first, last = points[Cell(math.inf, SEED), 0], points[Cell(math.inf, SEED), 7]
    assert (first.accuracy, first.pooled) == ((None,), None)
    assert [value is None for value in last.accuracy] == [True, False, False, False, True, False, False, True]
    finished = [event for event in events if isinstance(event, CellFinished)]
    assert [event.cell.epsilon for event in finished] == [1.0, math.inf]
    for event in finished:
        found = event.metrics["AA"]
        assert found is not None
        assert 0 < found <= 1
        assert BLURRY_BY_COIN in guarantee_words(event.guarantee).assumptions
        assert not any("public rule" in text for text in event.guarantee.assumptions)
    bound = finished[0].guarantee.epsilon
    assert math.isinf(bound) if spec.reads_labels else bound == pytest.approx(1.0, rel=2e-5)


ROWS = "".join(f"{place}.5,{place % 5},{'abc'[place % 3]}\n" for place in range(120))
TEST = "".join(f"{place}.25,{place % 3},{'abcd'[place % 4]}\n" for place in range(40))


@pytest.mark.parametrize(
    ("method", "params"), [("cosine", {}), ("dp-coeff-memory", {"steps": 2}), ("non-cl", {"epochs": 1})]
)
def test_a_list_of_the_labels_that_occur_has_no_bound(
    method: str, params: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more person has a label of their own, which a task's list then shows."""
    given = {}
    for name, more in (("without", ""), ("with", "7.5,1,d\n")):
        monkeypatch.setenv("DPCL_HOME", str(tmp_path / name))
        folder = tmp_path / name / "data" / "mine"
        folder.mkdir(parents=True)
        (folder / "train.csv").write_text("x,y,label\n" + ROWS + more)
        (folder / "test.csv").write_text("x,y,label\n" + TEST)
        for labels in ("prior", "prior-const"):
            spec = checks.parse(
                {
                    "method": method, "params": params, "labels": labels,
                    "data": {"dataset": "own:mine", "backbone": "pixels"},
                    "scenario": {"kind": "i-blurry", "tasks": 2, "disjoint_percent": 0, "task_prior": "occurring"},
                    "privacy": {"epsilons": [1.0]}, "seeds": [0],
                }
            )  # fmt: skip
            (given[name, labels],) = [event.guarantee for event in engine.run(spec) if isinstance(event, CellFinished)]
            assert methods.standing(spec) == standing(given[name, labels])
    for labels in ("prior", "prior-const"):
        assert given["without", labels] == given["with", labels]
    read, public = guarantee_words(given["with", "prior"]), guarantee_words(given["with", "prior-const"])
    assert (read.is_private, public.is_private) == (False, True)
    assert read.banner == NOT_DP.format(reason=LIST_FROM_DATA)
    assert not [text for text in read.assumptions if "list of labels" in text]
    assert given["with", "prior"].composition == given["with", "prior-const"].composition
