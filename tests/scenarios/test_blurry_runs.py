"""A blurred stream whose first task is empty goes through the engine whole, whatever the labels come from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import LIST_FROM_DATA, NOT_DP, guarantee_words, standing
from dpcl_core.scenarios.central import BLURRY_BY_COIN
from dpcl_core.spec import Cell

SEED = 24  # of the digits in 8 tasks: training examples 0 508 122 265 6 271 172 3, and the 1st, 5th, 8th are not tested


@pytest.mark.parametrize(
    ("labels", "task_prior"), [("prior-const", "home"), ("prior", "home"), ("prior", "occurring"), ("data", "home")]
)
def test_a_stream_with_empty_tasks_runs_through(
    labels: str, task_prior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
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
