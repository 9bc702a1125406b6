"""A blurred stream whose first task is empty goes through the engine whole, whatever the labels come from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.privacy.statement import words
from dpcl_core.scenarios.blurry import BY_COIN, ORACLE
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
        assert BY_COIN in words(event.guarantee).assumptions
        assert (ORACLE in words(event.guarantee).assumptions) is (task_prior == "occurring")
        assert not any("public rule" in text for text in event.guarantee.assumptions)
    bound = finished[0].guarantee.epsilon
    assert math.isinf(bound) if labels == "data" else bound == pytest.approx(1.0, rel=2e-5)
