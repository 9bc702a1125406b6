"""DP-A-GEM: what each step reads, adds and divides by, whom the ledger charges, and A-GEM as its limit without noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dpcl_core import checks
from dpcl_core.data.dataset import Form
from dpcl_core.errors import Diverged
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.lifelong import agem, dp_agem, nets, odometer
from dpcl_core.methods.lifelong.params import BatchParams
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, Recurrence, RunSpec
from tests.methods.training import public_context, taught
from tests.support.tiers import quick

FORM = Form((6, 6, 1), 0.0, 1.0)
N_CLASSES, PER_TASK, DELTA = 4, 40, 1e-5
PARAMS: Mapping[str, Any] = {"epochs": 2, "sample_rate": 0.5, "memory_size": 20, "replay_rate": 0.5, "learning_rate": 0.2}


def spec(params: Mapping[str, Any] | None = None, **changes: Any) -> RunSpec:
    raw = {"method": "dp-agem", "params": {**PARAMS, **(params or {})}, "scenario": {"kind": "split", "tasks": 2}}
    return checks.parse({"privacy": {"epsilons": [4.0], "noise": "seeded"}, "seeds": [0], **raw, **changes})


def stream(n_tasks: int = 3, n: int = PER_TASK) -> list[Task]:
    """Two classes in each task, in turn; one pixel of its own is bright for each class."""
    generator = np.random.default_rng(7)
    found = []
    for index in range(n_tasks):
        classes = (2 * (index % 2), 2 * (index % 2) + 1)
        labels = np.asarray(classes)[np.arange(n) % 2].astype(np.int64)
        rows = generator.uniform(0, 0.4, (n, 36)).astype(np.float32)
        rows[np.arange(n), 8 * labels] = 1.0
        examples = Examples(rows, labels)
        found.append(Task(index, f"task {index + 1}", examples, examples, classes))
    return found


def known(n_tasks: int, recurrence: Recurrence = "once", n_people: int | None = None) -> PublicContext:
    people = PER_TASK * (n_tasks if recurrence == "once" else 1) if n_people is None else n_people
    return public_context(36, N_CLASSES, people, n_tasks, form=FORM, recurrence=recurrence)


def learned(
    run: RunSpec, tasks: Sequence[Task], facts: PublicContext | None = None
) -> tuple[dp_agem.DpAgem, dict[Cell, Ledger]]:
    facts = facts or known(len(tasks))
    learner = dp_agem.make_learner(run, list(run.cells()), facts)
    ledgers = {cell: Ledger(DELTA, run.privacy.adjacency, facts.recurrence) for cell in run.cells()}
    for task in tasks:
        for progress in learner.learn(dict.fromkeys(run.seeds, task), ledgers):
            assert 0 < progress.done <= progress.total
    return learner, ledgers


def weights(learner: dp_agem.DpAgem, cell: Cell) -> Tensor:
    return torch.cat([part.detach().reshape(-1) for part in learner._models[cell]._net.parameters()])


@pytest.mark.parametrize("projection", ["if-violated", "always", "never"])
@pytest.mark.parametrize("scope", ["joint", "per-block"])
def test_without_noise_on_whole_tasks_it_is_a_gem(projection: str, scope: str) -> None:
    """All of a task in its one batch, all of it kept: every step and every reference are those of A-GEM."""
    common = {"learning_rate": 0.3, "projection": projection, "scope": scope}
    whole = {"epochs": 5, "sample_rate": 1.0, "replay_rate": 1.0, "memory_size": PER_TASK}
    tasks = stream(2)
    run = spec({**whole, **common}, privacy={"epsilons": [math.inf]})
    ours, _ = learned(run, tasks)
    plain = replace(run, method="agem", params=BatchParams(batch_size=PER_TASK, epochs=5, **common))  # type: ignore[arg-type]
    theirs = agem.make_learner(plain, list(plain.cells()), known(2))
    taught(theirs, plain, tasks)
    for task in tasks:
        np.testing.assert_allclose(ours.scores(0, task)["argmax"], theirs.scores(0, task)["argmax"], rtol=0, atol=2e-4)
        assert np.abs(ours.scores(0, task)["argmax"]).max() > 0.2


@pytest.mark.parametrize("recurrence", quick(1, ["once", "every"]))
@pytest.mark.parametrize("budget", ["lifetime", "per-task"])
def test_the_ledger_is_the_composition_made_by_hand(budget: str, recurrence: Recurrence) -> None:
    """Three tasks of four steps: sample 1 is used 4 + 2 times, sample 2 twice; whose data each entry read is written."""
    run = spec({"budget": budget})
    learner, ledgers = learned(run, stream(), known(3, recurrence))
    model, book = learner._models[Cell(4.0, 0)], ledgers[Cell(4.0, 0)]
    noises = model._noises

    def step(noise: float) -> dp.DpEvent:
        return dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(noise))

    expected = [
        (0, (0,), dp.SelfComposedDpEvent(step(noises.first), 4)),
        (1, (1,), dp.SelfComposedDpEvent(step(noises.later), 4)),
        (1, (0,), dp.SelfComposedDpEvent(step(noises.later), 4)),
        (2, (2,), dp.SelfComposedDpEvent(step(noises.later), 4)),
        (2, (0,), dp.SelfComposedDpEvent(step(noises.later), 2)),
        (2, (1,), dp.SelfComposedDpEvent(step(noises.later), 2)),
    ]
    assert [(entry.task, entry.people_of, entry.event) for entry in book.entries] == expected

    def total(*counts: tuple[float, int]) -> float:
        accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
        for noise, count in counts:
            accountant.compose(step(noise), count)
        return float(accountant.get_epsilon(DELTA))

    if recurrence == "every":
        assert book.epsilon() == pytest.approx(total((noises.first, 4), (noises.later, 16)), rel=1e-3)
    else:
        by_hand = {
            "people of task 1": total((noises.first, 4), (noises.later, 6)),
            "people of task 2": total((noises.later, 6)),
            "people of task 3": total((noises.later, 4)),
        }
        assert book.by_people() == pytest.approx(by_hand, rel=1e-3)
        own = {0: total((noises.first, 4)), 1: total((noises.later, 4)), 2: total((noises.later, 4))}
        assert book.by_task() == pytest.approx(own, rel=1e-3)
    assert book.epsilon() == pytest.approx(odometer.worst_epsilon(model._public, noises, model._turns), rel=1e-6)
    assert book.epsilon() <= 4.0
    assert budget == "per-task" or book.epsilon() > 3.98


def test_what_is_written_down_is_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every use of every sample is seen happening, and only of examples of its own task that were kept."""
    run = spec({"memory_size": 10})
    tasks = stream()
    read: list[tuple[int, int]] = []  # (task being learned, task read)
    now = [0]
    plain = dp_agem.Model._noisy_gradient

    def watched(self: dp_agem.Model, source: dp_agem.Source) -> list[Tensor]:
        (whose,) = [k for k, task in enumerate(tasks) if source.examples.table is task.train.table]
        read.append((now[0], whose))
        return plain(self, source)

    monkeypatch.setattr(dp_agem.Model, "_noisy_gradient", watched)
    learner = dp_agem.make_learner(run, list(run.cells()), known(3))
    ledgers = {cell: Ledger(DELTA, "add-remove", "once") for cell in run.cells()}
    for now[0], task in enumerate(tasks):
        list(learner.learn({0: task}, ledgers))
    counted = {(entry.task, entry.people_of[0]): entry.event.count for entry in ledgers[Cell(4.0, 0)].entries}
    assert counted == {pair: read.count(pair) for pair in set(read)}
    samples = learner._models[Cell(4.0, 0)]._samples
    assert all(0 < len(examples) < PER_TASK for examples, _ in samples)


def test_nothing_is_drawn_before_it_is_in_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    run = spec()
    book = Ledger(DELTA, "add-remove", "once")
    written: list[int] = []

    def nothing(self: dp_agem.Model, source: dp_agem.Source) -> list[Tensor]:
        written.append(len(book.entries))
        return []

    monkeypatch.setattr(dp_agem.Model, "_noisy_gradient", nothing)
    monkeypatch.setattr(dp_agem.Model, "_step", lambda *args: None)
    monkeypatch.setattr(nets, "projected", lambda grads, *args: grads)
    learner = dp_agem.make_learner(run, list(run.cells()), known(3))
    for task in stream():
        list(learner.learn({0: task}, {Cell(4.0, 0): book}))
    assert written == [1] * 4 + [3] * 8 + [6] * 8


def sources(run: RunSpec, n_people: int = PER_TASK) -> tuple[dp_agem.Model, dp_agem.Source, dp_agem.Source]:
    """A model that learns its second task, that task, and the sample of the first, where nobody is in either."""
    nobody = [Task(t.index, t.name, t.train.take(np.arange(0)), t.test, t.prior) for t in stream(2, 4)]
    cell = next(iter(run.cells()))
    model = dp_agem.Model(run, cell, known(2, n_people=n_people))
    list(model.learn(nobody[0], Ledger(DELTA, "add-remove", "once")))
    steps, replays = model._account(1, model._turns[1], Ledger(DELTA, "add-remove", "once"))
    own = model._source(nobody[1].train, (2, 3), steps, 1, None)
    examples, labels = model._samples[0]
    kept = model._source(examples, model._competing(labels), replays[0], 1, 0)
    return model, own, kept


def noise_alone(run: RunSpec, n_people: int = PER_TASK) -> tuple[Tensor, Tensor]:
    """A step's gradient and its reference, where nobody is in the task nor in the sample."""
    model, *both = sources(run, n_people)
    own, kept = (torch.cat([part.reshape(-1) for part in model._noisy_gradient(source)]).double() for source in both)
    return own, kept


@pytest.mark.parametrize("budget", ["lifetime", "per-task"])
def test_noise_has_the_calibrated_size_over_public_numbers_and_no_other(budget: str) -> None:
    """About 257,000 coordinates each: standard deviation within five standard errors, false alarm below 1e-6; ten per cent
    more or less is far outside. Sums are divided by expected sizes, though nobody was there."""
    run = spec({"budget": budget, "clip_norm": 0.3}, privacy={"epsilons": [4.0]})
    own, kept = noise_alone(run, n_people=100)
    noises = odometer.noises(run.params.plan(run.privacy, 2, "once"), 4.0)  # type: ignore[arg-type]
    for found, expected_batch in ((own, 0.5 * 50), (kept, 0.5 * 20)):
        std = noises.later * 0.3 / expected_batch
        error = 5 / math.sqrt(2 * len(found))
        assert error < 0.02
        assert float(found.square().mean().sqrt()) / std == pytest.approx(1, abs=error)
        assert abs(float(found.mean())) < 5 * std / math.sqrt(len(found))
    assert abs(float(functional.cosine_similarity(own, kept, dim=0))) < 5 / math.sqrt(len(own))


def test_gradient_and_reference_share_neither_noise_nor_coins_even_from_a_seed() -> None:
    own, kept = noise_alone(spec())
    assert abs(float(functional.cosine_similarity(own, kept, dim=0))) < 5 / math.sqrt(len(own))
    _, task, sample = sources(spec())
    assert not np.array_equal(task.batches.draw(100), sample.batches.draw(100))


def test_released_noise_is_never_repeated_and_cells_share_none() -> None:
    release = [noise_alone(spec(privacy={"epsilons": [4.0]}))[0] for _ in range(2)]
    assert not torch.equal(*release)
    seeded = [noise_alone(spec(privacy={"epsilons": [epsilon], "noise": "seeded"}))[0] for epsilon in (4.0, 4.0, 4.5)]
    assert torch.equal(seeded[0], seeded[1])
    scaled = seeded[2] * float(seeded[0].norm() / seeded[2].norm())
    assert float((seeded[0] - scaled).norm()) > float(seeded[0].norm())


def test_coins_of_a_release_come_from_the_operating_system() -> None:
    for noise, is_seeded in (("release", False), ("seeded", True)):
        run = spec(privacy={"epsilons": [4.0], "noise": noise})
        model = dp_agem.Model(run, Cell(4.0, 0), known(2))
        own, _ = model._account(0, [None], Ledger(1e-5, "add-remove", "once"))
        assert model._source(stream(1)[0].train, (0, 1), own, 0, None).batches.is_seeded == is_seeded


def test_sums_are_divided_by_the_nominal_size_whatever_is_there() -> None:
    """Half the people are missing: without noise, a step of the whole task is half as long."""
    run = spec({"sample_rate": 1.0, "epochs": 1}, privacy={"epsilons": [math.inf]})
    moves = []
    for n_people in (PER_TASK, 2 * PER_TASK):
        learner, _ = learned(run, stream(1), known(1, n_people=n_people))
        fresh = dp_agem.make_learner(run, list(run.cells()), known(1))
        cell = Cell(math.inf, 0)
        moves.append(weights(learner, cell) - weights(fresh, cell))
    torch.testing.assert_close(moves[0], 2 * moves[1], rtol=0, atol=1e-7)
    assert float(moves[0].norm()) > 1e-3


def test_how_many_are_kept_is_left_to_chance() -> None:
    """Each of 40 by a coin of 1/2: sizes differ from run to run, and lie within what has a chance of 1e-6."""
    sizes = {
        len(learned(spec(privacy={"epsilons": [4.0]}), stream(1))[0]._models[Cell(4.0, 0)]._samples[0][0]) for _ in range(12)
    }
    assert len(sizes) > 1
    assert all(5 <= size <= 35 for size in sizes)


def test_a_cap_that_allows_no_replay_is_plain_noisy_training() -> None:
    fixed = {"budget": "fixed", "noise_multiplier": 1.5}
    none, plain, free = (
        learned(spec({**fixed, **changes}), stream())
        for changes in ({"memory_epsilon_cap": 0.1}, {"projection": "never"}, {})
    )
    cell = Cell(4.0, 0)
    assert torch.equal(weights(none[0], cell), weights(plain[0], cell))
    assert not torch.equal(weights(free[0], cell), weights(plain[0], cell))
    assert [entry.people_of for entry in none[1][cell].entries] == [(0,), (1,), (2,)]


def test_a_capped_life_ends_within_the_cap_and_the_others_go_on() -> None:
    fixed = {"budget": "fixed", "noise_multiplier": 2.5, "epochs": 4}
    cell = Cell(20.0, 0)
    privacy = {"epsilons": [20.0], "noise": "seeded"}
    free = learned(spec(fixed, privacy=privacy), stream())[1][cell].by_people()
    cap = (free["people of task 1"] + free["people of task 3"]) / 2
    capped = learned(spec({**fixed, "memory_epsilon_cap": cap}, privacy=privacy), stream())[1][cell].by_people()
    assert free["people of task 1"] > cap >= capped["people of task 1"] > 0.9 * cap
    assert capped["people of task 2"] > free["people of task 2"]  # takes turns that the retired sample left
    assert capped["people of task 3"] == free["people of task 3"]


@pytest.mark.parametrize(
    ("labels", "head", "competing"),
    [
        ("prior-const", "shared", [True] * 4),
        ("prior", "shared", [True, True, False, False]),
        ("prior", "per-task", [True, True, False, False]),
    ],
)
def test_labels_that_do_not_compete_have_no_score(labels: str, head: str, competing: list[bool]) -> None:
    tasks = stream(2)
    learner, _ = learned(spec({"head": head}, labels=labels), tasks[:1], known(2))
    assert np.isfinite(learner.scores(0, tasks[0])["argmax"]).all(axis=(0, 1)).tolist() == competing
    learner, _ = learned(spec({"head": head}, labels=labels), tasks)
    second = np.isfinite(learner.scores(0, tasks[1])["argmax"]).all(axis=(0, 1)).tolist()
    assert second == ([False, False, True, True] if head == "per-task" else [True] * 4)


def test_without_noise_and_with_little_of_it_a_task_is_learned() -> None:
    params = {"epochs": 30, "learning_rate": 0.5, "budget": "fixed", "noise_multiplier": 0.1, "clip_norm": 5.0}
    run = spec(params, privacy={"epsilons": [1e4, math.inf], "noise": "seeded"}, labels="prior")
    tasks = stream(1)
    learner, ledgers = learned(run, tasks)
    right = (learner.scores(0, tasks[0])["argmax"].argmax(axis=2) == tasks[0].test.labels).mean(axis=1)
    assert right[1] == 1.0
    assert right[0] > 0.9
    assert ledgers[Cell(math.inf, 0)].epsilon() == math.inf > ledgers[Cell(1e4, 0)].epsilon()


def test_training_that_diverges_says_so_at_once() -> None:
    run = spec({"learning_rate": 100.0, "epochs": 50}, privacy={"epsilons": [math.inf]})
    with pytest.raises(Diverged, match=r"diverged at step \d+ of 100 with params.learning_rate = 100"):
        learned(run, stream(1))
