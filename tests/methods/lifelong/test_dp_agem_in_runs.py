"""DP-A-GEM in whole runs: what the statement says of replays, and the attack from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpcl_core import checks, cli, engine
from dpcl_core.events import CellFinished, Guarantee, TaskLearned
from dpcl_core.privacy.statement import guarantee_words

SETTINGS: dict[str, Any] = {
    "method": "dp-agem", "data": {"dataset": "digits", "train_per_class": 60, "test_per_class": 20}, "seeds": [0],
    "params": {"epochs": 1, "sample_rate": 0.2, "memory_size": 40, "replay_rate": 0.5},
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("home")


def guaranteed(**changes: Any) -> tuple[Guarantee, list[float]]:
    """What the run promises at the end, and epsilon after each task."""
    so_far: list[float] = []
    for event in engine.run(checks.parse({**SETTINGS, **changes})):
        if isinstance(event, TaskLearned):
            so_far.append(event.epsilon)
        if isinstance(event, CellFinished):
            return event.guarantee, so_far
    raise AssertionError("the run did not end")


def test_the_statement_tells_own_task_and_whole_life_apart() -> None:
    given, so_far = guaranteed(scenario={"kind": "split", "tasks": 5}, privacy={"epsilons": [4.0]})
    own = [given.parts[f"task {task}"] for task in range(1, 6)]
    life = [given.parts[f"people of task {task}"] for task in range(1, 6)]
    assert own == pytest.approx([own[0]] * 5)
    assert life == sorted(life, reverse=True)
    assert life[4] == own[4]
    assert given.epsilon == life[0] == so_far[-1] <= 4.0
    assert given.epsilon > 3.98
    assert so_far == sorted(so_far)
    assert so_far[0] == own[0]
    assert "again" in given.composition
    assert "kept for replay" in guarantee_words(given).caveats[0]


def test_one_image_in_all_permuted_tasks_pays_for_all_of_them() -> None:
    given, so_far = guaranteed(scenario={"kind": "permuted", "tasks": 3}, privacy={"epsilons": [4.0]})
    assert given.composition.startswith("sequential")
    assert given.parts["the same person in every task"] == given.epsilon == so_far[-1]
    assert 3.98 < given.epsilon <= 4.0


@pytest.mark.slow
def test_the_attack_is_run_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(checks.to_toml(checks.parse({**SETTINGS, "privacy": {"epsilons": [8.0]}})), encoding="utf-8")
    assert cli.main(["audit", str(path), "--trials", "1000", "--json"]) == 0
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert max(found["audited_lower_bound"] for found in audits) > 0.2
    assert all(found["audited_lower_bound"] < found["accounted_epsilon"] <= 8.0 for found in audits)
    assert {found["through"] for found in audits} == {"learner"}
