"""The cosine classifier with noise remembered over tasks, and with releases shrunk before they are added."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import safetensors.numpy

from dpcl_core import checks, engine
from dpcl_core.checkpoints import Checkpoint, Memory
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, TaskLearned
from dpcl_core.metrics import mean
from dpcl_core.privacy import continual
from dpcl_core.spec import RunSpec

SEEDS = list(range(5))


def a_spec(
    scenario: str = "class-incremental", *, seeds: Sequence[int] = SEEDS, noise: str = "seeded", **params: str
) -> RunSpec:
    return checks.parse(
        {
            "method": "cosine", "data": {"dataset": "digits"}, "labels": "prior-const", "seeds": list(seeds),
            "scenario": {"kind": scenario, "tasks": 5}, "privacy": {"epsilons": [0.5, 1.0], "noise": noise},
            "params": params,
        }
    )  # fmt: skip


def accuracies(spec: RunSpec) -> dict[tuple[float, str], float]:
    """Mean final accuracy over seeds, in percent, by budget and rule."""
    last = {event.cell: event for event in engine.run(spec) if isinstance(event, TaskLearned)}
    found: dict[tuple[float, str], list[float]] = {}
    for cell, event in last.items():
        for rule, values in event.by_rule.items():
            found.setdefault((cell.epsilon, rule), []).append(100 * (mean(values) or 0.0))
    return {key: float(np.mean(values)) for key, values in found.items()}


@pytest.fixture(scope="module")
def arms() -> dict[str, dict[tuple[float, str], float]]:
    return {noise: accuracies(a_spec(noise_over_tasks=noise)) for noise in ("fresh", "remembered")}


def test_both_ways_give_back_much_of_what_adding_noise_takes(arms: dict[str, dict[tuple[float, str], float]]) -> None:
    """Digits, five tasks of two classes, ε = 0.5: 47, 81 and 66 % with 10 seeds, which spread by less than 6 points."""
    added, shrunk = arms["fresh"][0.5, "cosine"], arms["fresh"][0.5, "shrunk"]
    assert shrunk > added + 15
    assert arms["remembered"][0.5, "cosine"] > added + 8
    assert arms["fresh"][1.0, "shrunk"] > arms["fresh"][1.0, "cosine"] + 4
    assert arms["fresh"][1.0, "shrunk"] > 80


def test_what_is_asked_is_charged_once_for_the_people_of_every_task() -> None:
    spec = a_spec(seeds=[0], noise="release", noise_over_tasks="remembered")
    ends = [event for event in engine.run(spec) if isinstance(event, CellFinished)]
    assert len(ends) == 2
    for event in ends:
        (entry,) = event.ledger.entries  # type: ignore[union-attr]
        assert entry.people_of == (0, 1, 2, 3, 4)
        assert event.guarantee.epsilon == pytest.approx(event.cell.epsilon, rel=1e-4)
        assert event.guarantee.epsilon <= event.cell.epsilon


class _Broken(Exception):
    pass


class _Stopping(Memory):
    """Fails when the third task is saved."""

    def save(self, checkpoint: Checkpoint) -> None:
        if checkpoint.task == 2:
            raise _Broken
        super().save(checkpoint)


def test_a_broken_run_goes_on_to_the_same_releases_and_its_checkpoints_hold_no_clean_sum() -> None:
    spec = a_spec(seeds=[0, 1], noise_over_tasks="remembered")

    def learned(events: Sequence[Event]) -> list[tuple[object, ...]]:
        return [(one.cell, one.task, one.accuracy, one.by_rule) for one in events if isinstance(one, TaskLearned)]

    unbroken = learned(list(engine.run(spec, keep=(whole := Memory()))))
    keep = _Stopping()
    with pytest.raises(_Broken):
        list(engine.run(spec, keep=keep))
    resumed = Memory(keep.saved)
    assert learned(list(engine.run(spec, keep=resumed))) == unbroken
    exact = {checkpoint.arrays for of_group in whole.saved.values() for checkpoint in of_group}
    for content in exact - {None}:
        for name, array in safetensors.numpy.load(content).items():  # type: ignore[arg-type]
            assert array.dtype in (np.float64, np.bool_), name  # no steps of an exact sum
            steps = array[array != 0] * 2.0**20  # of clean sums; noise has steps of 2^-22 of it, at these budgets
            assert array.dtype == np.bool_ or not len(steps) or (steps != np.rint(steps)).mean() > 0.5, name


def test_noise_is_remembered_only_where_that_is_proved_and_pays() -> None:
    def refusal(changes: dict[str, object]) -> str:
        raw = a_spec(noise_over_tasks="remembered").jsonable() | changes
        with pytest.raises(BadInput) as caught:
            checks.check_run(checks.parse(raw))
        assert caught.value.fix == {"params.noise_over_tasks": "fresh"}
        return str(caught.value)

    assert "one public list" in refusal({"labels": "prior"})
    assert "one public list" in refusal({"labels": "dp-learned"})
    assert "saves no noise" in refusal({"scenario": {"kind": "permuted", "tasks": 5}})
    assert "saves no noise" in refusal({"scenario": {"kind": "class-incremental", "tasks": 1}})


def test_more_releases_than_there_is_room_for_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continual, "MOST_BYTES", 20_000)  # five tasks of ten classes and 64 pixels take 25,600
    with pytest.raises(BadInput, match="0 MB of releases a model") as caught:
        list(engine.run(a_spec(seeds=[0], noise_over_tasks="remembered")))
    assert caught.value.fix == {"params.noise_over_tasks": "fresh"}


def test_the_runs_own_rule_follows_from_public_facts() -> None:
    def first_rule(scenario: str, **params: str) -> str:
        event = next(e for e in engine.run(a_spec(scenario, seeds=[0], **params)) if isinstance(e, TaskLearned))
        assert event.accuracy == next(iter(event.by_rule.values()))
        return next(iter(event.by_rule))

    assert first_rule("class-incremental") == "cosine"
    assert first_rule("class-incremental", prediction="by-stream") == "shrunk"
    assert first_rule("i-blurry", prediction="by-stream") == "cosine"
    raw = a_spec(seeds=[0]).jsonable() | {"labels": "prior"}
    assert not any(event.by_rule for event in engine.run(checks.parse(raw)) if isinstance(event, TaskLearned))


def test_without_noise_all_arms_are_one() -> None:
    raw = a_spec(seeds=[0], noise_over_tasks="remembered").jsonable()
    raw["privacy"] |= {"epsilons": ["inf"]}
    found = accuracies(checks.parse(raw))
    assert found[math.inf, "cosine"] == pytest.approx(found[math.inf, "shrunk"], abs=0.3)  # rows on a coarser grid
    plain = accuracies(checks.parse(raw | {"params": {}}))
    assert plain[math.inf, "cosine"] == pytest.approx(found[math.inf, "cosine"], abs=0.3)
