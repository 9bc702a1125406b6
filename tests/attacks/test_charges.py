"""Every charge of every method against the release that it is for, and every release against its charge, person by person.

A person's releases come from neighbours' plays (`releases`), their charges from the ledger. Faults are put into each charge
of each method, one at a time, and into each sampler: every one must be seen.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.backbones import adaptable
from dpcl_core.methods import catalog, references
from dpcl_core.methods.common.dpsgd import ROUNDING
from dpcl_core.privacy import accounting
from dpcl_core.privacy.ledger import Entry, Ledger, ledger_entries
from dpcl_core.spec import RunSpec
from tests.attacks import releases, small_plays
from tests.attacks.units import IN_ROUNDS, IN_STEPS, PROVED, UNITS
from tests.methods import small_network, test_planned

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Play:
    """A method with settings beside those of its small play. `units`, where others than the method's: see `UNITS`."""

    method: str
    settings: Mapping[str, object]
    units: tuple[tuple[float, ...], int] | None = None

    @property
    def spec(self) -> RunSpec:
        return small_plays.spec(self.method, **self.settings)

    @property
    def draws(self) -> int:
        return (self.units or UNITS[self.method])[1]

    @property
    def is_of_clients(self) -> bool:
        return catalog.card(self.method).has_clients


_ADAPTED = ((1 + ROUNDING) / 12,), 1  # of pictures: means, not sums
_SUM, _CLIP = math.hypot(1, 0.5), 1.0
_COPIES = {"adjacency": "replace", "label_share": 0.1, "embedding_clip": 1.0}
_ROOT = math.sqrt(small_plays.pecl_small.LENGTH)  # a text's noise over that of a token
PLAYS: Mapping[str, Play] = {
    **{name: Play(name, {}) for name in PROVED},
    **{f"{name}, learned lists": Play(name, {"labels": "dp-learned"}) for name in ("cosine", "peft-ensemble", "non-cl")},
    "peft-ensemble, film": Play("peft-ensemble", {"adapter": "film"}, _ADAPTED),
    "naive, lora": Play("naive", {"adapter": "lora"}, _ADAPTED),
    "naive, all layers": Play("naive", {"adapter": "all"}, _ADAPTED),
    "non-cl, film": Play("non-cl", {"adapter": "film"}, (tuple((1 + ROUNDING) / (12 * k) for k in (1, 2, 3)), 1)),
    "non-cl, released once": Play("non-cl", {"release": "once"}),
    "dp-agem, budget per task": Play("dp-agem", {"budget": "per-task"}),
    "cslr-central, in rounds": Play("cslr-central", {"releases": "round"}, ((math.sqrt(2) * _SUM, math.sqrt(2) * _CLIP), 2)),
    "lm-ewc, from gradients": Play("lm-ewc", {"fisher": "gradients"}),
    "pecl, no mean score": Play("pecl", {"mean_score": "public"}),
    "pecl, on copies": Play("pecl", {**_COPIES, "mode": "local"}, ((_ROOT,), 1)),
    "lm-er, on copies": Play("lm-er", {**_COPIES, "mechanism": "fn"}, ((_ROOT,), 1)),
}


def play(
    name: str, neighbour: int | None = None, *, is_anybody_drawn: bool = True, times: Any = lambda purpose: 1.0
) -> tuple[releases.Heard, Ledger]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptable, "load", lambda *args, **named: small_network.network(double=False))
        small_plays.without_gradients(patch)
        with releases.listening(patch, PLAYS[name].draws, is_anybody_drawn=is_anybody_drawn, times=times) as heard:
            _, ledger = small_plays.played(PLAYS[name].spec, neighbour=neighbour)
    return heard, ledger


@cache
def honest(name: str) -> tuple[releases.Heard, Ledger, list[list[int | None]]]:
    """A play, its ledger, and for each task how its releases read a person of that task (`releases.reading`)."""
    heard, ledger = play(name)
    chosen = PLAYS[name]
    others = [play(name, task)[0] for task in range(small_plays.n_tasks(chosen.method))]
    return heard, ledger, [releases.reading(heard, other, is_client=chosen.is_of_clients) for other in others]


def trouble(name: str, heard: releases.Heard, ledger: Ledger) -> str:
    """What of these releases and this ledger does not fit together, in words; empty where everything does."""
    units, draws = PLAYS[name].units or UNITS[PLAYS[name].method]
    _, _, read = honest(name)
    if len(heard.releases) != len(read[0]):
        return "another number of releases"
    groups = replace(ledger, recurrence="once").events_by_people()
    if ledger.recurrence == "every" and len(ledger.events_by_people().get("everyone", [])) != len(ledger.entries):
        return "somebody in every task is not charged for everything"
    for task, of_task in enumerate(read):
        charges = releases.charged(groups.get(f"people of task {task + 1}", []))
        done: Counter[releases.Use] = Counter()
        for use, times in releases.uses(heard, of_task).items():
            fitting = [charge for charge in charges if _fits(use, charge, units)]
            if not fitting:
                return f"people of task {task + 1}: {use} is not charged among {dict(charges)}"
            done[fitting[0]] += times
        if any(done[charge] != draws * times for charge, times in charges.items()):
            return f"people of task {task + 1}: {dict(charges)} are charged, {dict(done)} done"
    return ""


def _fits(use: releases.Use, charge: releases.Use, units: Sequence[float]) -> bool:
    if use[0] != charge[0] or not math.isclose(use[2], charge[2], rel_tol=1e-6):
        return False
    of_one = units if use[0] == "gaussian" else (1.0,)
    return any(np.allclose(use[1], np.multiply(charge[1], unit), rtol=1e-6, atol=0) for unit in of_one)


def _changed(event: dp.DpEvent, steps: int = 0, noise: float = 1.0, rate: float = 1.0) -> dp.DpEvent | None:
    """The event with that many steps more, noise and rate times these factors; None where that leaves it as it is."""
    match event:
        case dp.SelfComposedDpEvent(inner, count) if steps:
            return dp.SelfComposedDpEvent(inner, count + steps)
        case dp.SelfComposedDpEvent(inner, count):
            changed = _changed(inner, 0, noise, rate)
            return changed and dp.SelfComposedDpEvent(changed, count)
        case dp.GaussianDpEvent(z) if noise != 1:
            return dp.GaussianDpEvent(z * noise)
        case dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(z)) if not steps:
            return accounting.gaussian_step(z * noise, q * rate)
        case accounting.SampledGroupDpEvent(z, rates) if not steps:
            return accounting.SampledGroupDpEvent(z * noise, tuple(q * rate for q in rates))
    return None


def _with_event(entry: Entry, **change: float) -> list[Entry] | None:
    changed = _changed(entry.event, **change)  # type: ignore[arg-type]
    return None if changed is None else [replace(entry, event=changed)]


# What a fault makes of one entry; None: the entry has nothing of the kind.
CHARGED: Mapping[str, Callable[[Entry, int], list[Entry] | None]] = {
    "any charge left out": lambda entry, n_tasks: [],
    "a step less charged": lambda entry, n_tasks: _with_event(entry, steps=-1),
    "more noise charged": lambda entry, n_tasks: _with_event(entry, noise=1.3),
    "a lower rate charged": lambda entry, n_tasks: _with_event(entry, rate=1 / 1.3),
    "others charged": lambda entry, n_tasks: [replace(entry, people_of=((entry.people_of[0] + 1) % n_tasks,))],
}
HAVING: Mapping[str, Sequence[str]] = {  # the methods that a fault is put into; of them every charge and sampler
    **dict.fromkeys(("any charge left out", "others charged"), PROVED),
    "a step less charged": IN_STEPS,
    "more noise charged": [name for name in PROVED if name != "independent-laplace"],
    "a lower rate charged": (*IN_STEPS, *IN_ROUNDS),
    "sampled 1.3 times as often": (*IN_STEPS, *IN_ROUNDS),
    "first task's rate charged": ("lm-er",),  # of the others, everybody in a batch is there at one rate
}


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_charged_is_what_is_done_to_each_person(name: str) -> None:
    heard, ledger, _ = honest(name)
    assert trouble(name, heard, ledger) == ""
    is_for_each_release = PLAYS[name].method == "non-cl"  # the others' budget is for everything
    spent = max(ledger.by_task().values()) if is_for_each_release else ledger.epsilon()
    assert spent <= PLAYS[name].spec.privacy.epsilons[0]


@pytest.mark.parametrize("name", PLAYS)
def test_what_was_planned_is_what_is_charged(name: str) -> None:
    _, ledger, _ = honest(name)
    spec = PLAYS[name].spec
    plan = references.run_plan(spec, spec, small_plays.facts(spec), [spec.cells()], 1)
    assert {epsilon: test_planned.counted(book) for epsilon, book in plan.ledgers} == {
        spec.privacy.epsilons[0]: test_planned.counted(ledger_entries(ledger))
    }


@pytest.mark.parametrize("name", PLAYS)
def test_nobody_is_read_whom_the_coins_left_out(name: str) -> None:
    """With empty batches, what was sampled is nothing: the sums are exactly zero."""
    heard, _, read = honest(name)
    sampled = {place for of_task in read for place, batch in enumerate(of_task) if batch is not None and batch >= 0}
    if not sampled:
        return
    empty, _ = play(name, is_anybody_drawn=False)
    assert len(empty.releases) == len(heard.releases)
    assert not any(part.any() for place in sampled for part in empty.releases[place].clean)


@pytest.mark.parametrize("fault", CHARGED)
@pytest.mark.parametrize("name", PLAYS)
def test_a_fault_in_any_charge_is_seen(name: str, fault: str) -> None:
    heard, ledger, read = honest(name)
    faulty = [CHARGED[fault](entry, len(read)) for entry in ledger.entries]
    assert name not in PROVED or (name in HAVING[fault]) == any(wrong is not None for wrong in faulty)
    for place, (entry, wrong) in enumerate(zip(ledger.entries, faulty, strict=True)):
        if wrong is not None:
            entries = [*ledger.entries[:place], *wrong, *ledger.entries[place + 1 :]]
            assert trouble(name, heard, replace(ledger, entries=entries)) != "", entry


@pytest.mark.parametrize("name", HAVING["first task's rate charged"])
def test_everybody_charged_at_the_rate_of_the_first_task_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, ledger, _ = honest(name)
    of_part = accounting.of_part
    monkeypatch.setattr(accounting, "of_part", lambda event, place: of_part(event, 0))
    assert trouble(name, heard, ledger) != ""


def _kind(purpose: str) -> str:
    return re.sub(r"\d[\d.]*", "#", purpose)


@pytest.mark.parametrize("name", PLAYS)
def test_a_learner_that_samples_more_often_than_is_charged_is_seen(name: str) -> None:
    """Whatever its coins are for: batches of a task, replays, clients."""
    tossed = [coins for release in honest(name)[0].releases for coins in release.batches if coins.n]
    found = {_kind(coins.purpose) for coins in tossed if coins.rate < 1}  # references read everybody
    assert name not in PROVED or (name in HAVING["sampled 1.3 times as often"]) == bool(found)
    for sampler in found:
        heard, ledger = play(name, times=lambda purpose, own=sampler: 1.3 if _kind(purpose) == own else 1.0)
        assert trouble(name, heard, ledger) != "", sampler


def test_only_these_learners_make_coins_that_no_steps_are_charged_with() -> None:
    """What is kept for later earns no credit, and a round's clients are charged by the coins that drew them."""
    makers = {name for name, function in _functions() if any(map(_makes_coins, ast.walk(function)))}
    assert makers == {"dp_agem._keep", "baseline.keep_some", "client_training.participation"}


def test_nothing_is_computed_between_what_is_charged_and_the_coins() -> None:
    """Plays ask for one epsilon: a learner that samples more often at another one alone would pass them."""
    drawing = {name: function for name, function in _functions() if any(map(_draws_batches, ast.walk(function)))}
    assert set(drawing) == {"trainer._batches", "dp_agem._source", "adapted_model.batches_of"}
    for name, function in drawing.items():
        nodes = list(ast.walk(function))
        assert not any(isinstance(node, ast.Mult | ast.Div | ast.Pow) for node in nodes), name
        for call in (node for node in nodes if _draws_batches(node)):
            assert isinstance(call.func.value, ast.Name | ast.Attribute), name  # what was charged, not another one
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        assert called.isdisjoint({"Steps", "replace", "type"}), name


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for file in (ROOT / "dpcl_core" / "methods").rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                yield f"{file.stem}.{function.name}", function


def _draws_batches(node: ast.AST) -> TypeGuard[ast.Call]:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "batches"
    return is_call and bool(node.args) and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "self")


def _makes_coins(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Batches"
