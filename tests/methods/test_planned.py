"""The plan of a run: what all of its models together will do, entered and said before the first of them is released."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import dp_accounting as dp
import pytest

from dpcl_core import engine
from dpcl_core.data import catalog as datasets
from dpcl_core.events import CellFinished, Classifier, Event, Note, Planned, TaskLearned, Written, of_kind
from dpcl_core.methods import catalog, references
from dpcl_core.privacy import card, card_document, gaussian, statement
from dpcl_core.privacy.ledger import Ledger, joint_release
from dpcl_core.spec import Cell, RunSpec
from tests import test_neighbours as settings
from tests.support.asserting import refuses
from tests.support.tiers import of_methods
from tests.test_neighbours import METHODS, D, Door, lies, spec

Raw = Mapping[str, Any]
_PERMUTED = {"scenario": {"kind": "permuted", "tasks": 2}, "labels": "prior-const"}
_REPLACED = {"privacy": {"adjacency": "replace"}}
_LM, _ROUNDS, _LISTS, _HEADS = settings._LM, settings._ROUNDS, settings._LISTS, settings._HEADS
_AGEM = {"epochs": 1, "sample_rate": 0.5, "memory_size": 8, "replay_rate": 0.5}
# Settings under which a method enters other events.
ALSO: Mapping[str, tuple[str, Door, Raw]] = {
    "lists, everybody in every task": ("cosine", settings.PICTURES, {**_PERMUTED, "labels": "dp-learned"}),
    "all data, everybody in each": ("non-cl", settings.PICTURES, {**_PERMUTED, "labels": "dp-learned", "params": _HEADS}),
    "all data once": ("non-cl", settings.PICTURES, {**settings._LEARNED, "params": {**_HEADS, "release": "once"}}),
    "heads, replaced": ("naive", settings.PICTURES, {"params": _HEADS, **_PERMUTED, **_REPLACED}),
    "replays of everybody": ("dp-agem", settings.TABLE, {"params": _AGEM, **_PERMUTED}),
    "samples that retire": ("dp-agem", settings.TABLE, {"params": {**_AGEM, "budget": "per-task", "memory_epsilon_cap": 5}}),
    "sums of everybody": ("dp-coeff-memory", settings.PICTURES, {"labels": "prior-const", **_PERMUTED, **_REPLACED}),
    "copies of everybody": ("independent-laplace", settings.PICTURES, {"params": {"steps": 2}, **_PERMUTED, **_REPLACED}),
    "noisy copies": ("lm-er", settings.TEXTS, {"params": {**_LM, "mechanism": "fn"}, **_REPLACED}),
    "local": ("pecl", settings.TEXTS, {"params": {**_LM, "mode": "local"}, **_REPLACED}),
    "a mean score": ("pecl", settings.TEXTS, {"params": {**_LM, "mean_score_std": 0.1}, **_REPLACED}),
    "a task's budget": ("lm-gem", settings.TEXTS, {"params": {**_LM, "budget": "per-task"}}),
    "Fisher information": ("lm-ewc", settings.TEXTS, {"params": {**_LM, "fisher": "released"}}),
    "a release a round": (
        "cslr-central", settings.TEXTS,
        {"params": {**_LISTS, **_ROUNDS, "participation": 0.7, "releases": "round"}, "scenario": settings._CLASSES},
    ),
    "a clean head": (
        "cslr-central", settings.TEXTS,
        {"params": {**_LISTS, **_ROUNDS, "head": "clean"}, "scenario": settings._CLASSES},
    ),
    "no bound": ("cosine", settings.PICTURES, {"labels": "data"}),
}  # fmt: skip
_FIXED = {"cslr-published": [4.0, 8.0], "pecl-published": [10.0]}


def asked(name: str, door: Door, raw: Raw, seeds: tuple[int, ...]) -> RunSpec:
    """Two budgets where the method allows two."""
    privacy = dict(raw.get("privacy", {}))
    given = privacy.get("epsilons", [4.0])
    privacy["epsilons"] = _FIXED.get(name, given if math.inf in given else [*given, 60.0])
    return spec(name, {**raw, "privacy": privacy}, door[0], seeds=list(seeds))


def counted(written: Written) -> Counter[tuple[object, ...]]:
    """How often what is done to whom; noise to nine digits. Rounds of one kind add up."""
    found: Counter[tuple[object, ...]] = Counter()
    for one in written.entries:
        kind = one.mechanism
        noise = None if kind.noise_multiplier is None else f"{kind.noise_multiplier:.9g}"
        given = (one.task, one.people_of, one.shares_batches, kind.kind, noise, kind.sample_rates, kind.epsilon, kind.delta)
        found[given] += one.count * kind.steps
    return found


def card_of(events: list[Event]) -> list[card.Checked]:
    (plan,) = of_kind(events, Planned)
    written = card_document.document("0" * 12, "m", "d", [*of_kind(events, CellFinished)], plan)
    return card.verify(json.dumps(written).encode())


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(engine, "_with_untrained", lambda events, *_: events)


@pytest.mark.parametrize("name", of_methods([*METHODS, *ALSO], also=("a task's budget",)))
def test_all_models_are_planned_first_and_do_just_that(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method, door, raw = ALSO[name] if name in ALSO else (name, *METHODS[name])
    lies(door, D, tmp_path, monkeypatch)
    run = asked(method, door, raw, (0, 1) if method in ("cosine", "label-means", "dp-fedavg", "agem") else (0,))
    events = list(engine.run(run))
    (plan,) = of_kind(events, Planned)
    before = list(takewhile(lambda event: not isinstance(event, TaskLearned | Classifier | CellFinished), events))
    assert plan in before
    assert [cell for learner in plan.learners for cell in learner] != []
    assert {cell for learner in plan.learners for cell in learner} == {*run.cells()}
    if run.n_cells > 1:
        sentence = statement.all_planned(plan)
        assert [note for note in of_kind(before, Note) if sentence in note.text]
        name_of_all = statement.all_models(run.n_cells, plan.delta, run.privacy.delta)
    for one in (finished := [*of_kind(events, CellFinished)]):
        assert one.ledger is not None
        assert one.guarantee.epsilon <= plan.epsilon
        if math.isfinite(one.guarantee.epsilon):  # else it is enough that the plan has no bound either
            assert counted(one.ledger) == counted(dict(plan.ledgers)[one.cell.epsilon])
        if run.n_cells > 1:
            assert one.guarantee.parts[name_of_all] == plan.epsilon
            assert any(sentence in line for line in one.guarantee.not_covered)
    assert len(finished) == run.n_cells
    # The second account adds up who is charged, by learner and seed, and by an accountant of its own.
    assert [one.verdict for one in card_of(events)] == ["matches"] * run.n_cells


def test_a_run_that_is_broken_off_keeps_what_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door, raw = METHODS["dp-fedavg"]
    lies(door, D, tmp_path, monkeypatch)
    events: list[Event] = []
    for event in (running := engine.run(asked("dp-fedavg", door, raw, (0, 1)))):
        events.append(event)
        if isinstance(event, CellFinished):
            running.close()
            break
    (found,) = card_of(events)
    assert found.verdict == "matches"
    assert [number.name for number in found.numbers if number.name.startswith("all 4 models of this run")]


def run_of(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """A run of one model of the method on a neighbour's data."""
    door, raw = METHODS[name]
    lies(door, D, tmp_path, monkeypatch)
    return engine.run(spec(name, raw, door[0]))


def test_one_model_says_no_more_than_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = list(run_of("dp-fedavg", tmp_path, monkeypatch))
    (plan,), (one,) = of_kind(events, Planned), of_kind(events, CellFinished)
    assert plan.epsilon == pytest.approx(one.guarantee.epsilon, rel=1e-3)
    assert not [name for name in one.guarantee.parts if name.startswith(statement.OF_ALL)]
    assert not [event for event in of_kind(events, Note) if "together" in event.text]
    assert not [line for line in one.guarantee.not_covered if "models" in line]


@pytest.mark.parametrize("name", ["dp-fedavg", "cosine"])
def test_what_a_container_says_is_declared(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To clients, too: a column that is named after a person names that person, whoever holds the row."""
    assert METHODS[name][0][1] == ".parquet"
    events = list(run_of(name, tmp_path, monkeypatch))
    (one,), (plan,) = of_kind(events, CellFinished), of_kind(events, Planned)
    said = "what a parquet file says of its columns, for all rows together: names, types and lists of categories"
    assert one.guarantee.not_covered.count(said) == 1
    assert (datasets.card("own:mine").limits[0] in one.guarantee.not_covered) is (name == "cosine")
    assert said in json.dumps(card_document.document("0" * 12, "m", "d", [one], plan))


def test_learners_share_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of two learners compose in sequence, those of one on the same batches in one step each."""

    def books(step: dp.DpEvent) -> dict[Cell, Ledger]:
        found = {cell: Ledger(1e-5, "add-remove", "once") for cell in (Cell(1.0, 0), Cell(8.0, 0))}
        for ledger in found.values():
            ledger.spend(dp.SelfComposedDpEvent(step, 4), task=0, what="steps", shares_batches=True)
        return found

    def apart(of: dict[Cell, Ledger]) -> float:
        return joint_release([{cell: ledger} for cell, ledger in of.items()])[0]

    assert apart(books(dp.GaussianDpEvent(30.0))) == pytest.approx(gaussian.epsilon(30.0 / math.sqrt(8), 1e-5), rel=1e-4)
    sampled = books(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(0.8)))
    assert apart(sampled) < 0.9 * joint_release([sampled])[0]


def test_a_model_that_does_more_than_was_planned_releases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = references.run_plan

    def less(*arguments: Any) -> Planned:
        plan, fewer = real(*arguments), []
        for asked, ledger in plan.ledgers:
            first, *rest = ledger.entries
            short = replace(first, mechanism=replace(first.mechanism, steps=first.mechanism.steps - 1))
            fewer.append((asked, replace(ledger, entries=(short, *rest))))
        return replace(plan, ledgers=tuple(fewer))

    monkeypatch.setattr(references, "run_plan", less)
    said: list[Event] = []
    refuses("mend the plan", said.extend, run_of("dp-fedavg", tmp_path, monkeypatch))
    assert not [event for event in said if isinstance(event, TaskLearned | Classifier | CellFinished)]


def test_every_method_with_a_proof_has_a_plan() -> None:
    for name in METHODS:
        method = catalog.card(name)
        assert bool(method.planned) == (method.guarantee == "proved"), name
