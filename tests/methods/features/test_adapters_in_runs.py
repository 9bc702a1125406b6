"""FiLM and LoRA in whole runs of the engine: pictures instead of features, one network for all models."""

from __future__ import annotations

import math

import pytest

from dpcl_core import checks, engine
from dpcl_core.backbones import adaptable
from dpcl_core.events import CellFinished, Event, TaskLearned
from dpcl_core.spec import RunSpec
from tests.support.tiers import quick

METHODS = [("peft-ensemble", "film"), ("naive", "lora"), ("non-cl", "film")]


pytestmark = pytest.mark.usefixtures("home")


def spec(method: str, adapter: str, **changes: object) -> RunSpec:
    raw = {
        "method": method, "params": {"adapter": adapter, "epochs": 2, "sample_rate": 0.5}, "seeds": [3],
        "data": {"dataset": "digits", "train_per_class": 6, "test_per_class": 4, "backbone": "vit-cifar100"},
        "privacy": {"epsilons": [8.0, math.inf], "noise": "seeded"}, "scenario": {"tasks": 2},
    }  # fmt: skip
    return checks.parse(raw | changes)


def told(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        (event.cell, event.task, event.accuracy, event.by_rule, event.epsilon)
        for event in events
        if isinstance(event, TaskLearned)
    ]


@pytest.mark.parametrize(("method", "adapter"), quick(1, METHODS))
def test_a_run_releases_a_model_after_every_task_within_its_budget(method: str, adapter: str) -> None:
    events = list(engine.run(spec(method, adapter)))
    learned = [event for event in events if isinstance(event, TaskLearned)]
    assert [(event.cell.epsilon, event.task, len(event.accuracy)) for event in learned] == [
        (8.0, 0, 1), (math.inf, 0, 1), (8.0, 1, 2), (math.inf, 1, 2),
    ]  # fmt: skip
    assert all(accuracy is not None for event in learned for accuracy in event.accuracy)
    spent = [event.epsilon for event in learned if event.cell.epsilon == 8.0]
    assert 7.5 < spent[0] <= 8.0
    assert spent[1] <= 8.0 if method != "non-cl" else spent[1] > 8.0  # non-cl uses the first task's people again
    assert sum(isinstance(event, CellFinished) for event in events) == 2


def test_same_spec_and_seed_give_the_same_events() -> None:
    first, again = (told(list(engine.run(spec("naive", "lora")))) for _ in range(2))
    assert first == again


def test_the_models_of_a_run_share_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded for the pictures of each split and once for training, whatever the number of tasks, budgets and seeds."""
    loaded, load = [], adaptable.load

    def counted(name: str, device: str = "cpu", resolution: int | None = None) -> adaptable.Network:
        loaded.append(name)
        return load(name, device, resolution)

    monkeypatch.setattr(adaptable, "load", counted)
    list(engine.run(spec("peft-ensemble", "film", seeds=[0, 1])))
    assert len(loaded) == 3
