"""Runs of methods on features: noise remembered over tasks, labels that are learned late, and public axes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import safetensors.numpy
from dp_accounting import GaussianDpEvent
from scipy.linalg import toeplitz

from dpcl_core import checks, engine, errors, metrics
from dpcl_core.backbones import catalog, extractor
from dpcl_core.data import catalog as datasets
from dpcl_core.events import CellFinished, Event, Progress, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.methods import references
from dpcl_core.methods.common import stream_noise
from dpcl_core.methods.common.method import Learner, PublicContext, PublicSizes, of_spec
from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.methods.features import cosine, peft_ensemble
from dpcl_core.privacy import continual, gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import search
from dpcl_core.tuning.settings import TuneSpec
from tests.support import replay, watching
from tests.support.asserting import refusal_of

SEEDS = list(range(5))
FIVE = PublicSizes(1000, 5, 10)


def a_spec(
    scenario: str = "class-incremental", *, seeds: Sequence[int] = SEEDS, noise: str = "seeded", labels: str = "prior-const",
    **params: str,
) -> RunSpec:
    return checks.parse({
        "method": "cosine", "data": {"dataset": "digits"}, "labels": labels, "seeds": list(seeds), "params": params,
        "scenario": {"kind": scenario, "tasks": 5}, "privacy": {"epsilons": [0.5, 1.0], "noise": noise},
    })  # fmt: skip


def accuracies(spec: RunSpec) -> dict[tuple[float, str], float]:
    """Mean final accuracy over seeds, in percent, by budget and rule."""
    last = {event.cell: event for event in engine.run(spec) if isinstance(event, TaskLearned)}
    found: dict[tuple[float, str], list[float]] = {}
    for cell, event in last.items():
        for rule, values in event.by_rule.items():
            found.setdefault((cell.epsilon, rule), []).append(100 * (metrics.mean(values) or 0.0))
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
        assert pytest.approx(event.cell.epsilon, rel=1e-4) == event.guarantee.epsilon <= event.cell.epsilon


class _Broken(Exception):
    pass


class _Stopping(replay.Memory):
    """Fails when the third task is saved."""

    def save(self, checkpoint: Checkpoint) -> None:
        if checkpoint.task == 2:
            raise _Broken
        super().save(checkpoint)


@pytest.mark.parametrize(("scenario", "labels"), [
    ("class-incremental", "prior-const"), ("i-blurry", "prior-const"), ("i-blurry", "dp-learned"),
])  # fmt: skip
def test_a_broken_run_goes_on_to_the_same_releases_and_its_checkpoints_hold_no_clean_sum(scenario: str, labels: str) -> None:
    """On blurred tasks, too, where rows lie outside of their class's home task."""
    spec = a_spec(scenario, seeds=[0, 1], labels=labels, noise_over_tasks="remembered")

    def learned(events: Sequence[Event]) -> list[tuple[object, ...]]:
        return [(one.cell, one.task, one.accuracy, one.by_rule) for one in events if isinstance(one, TaskLearned)]

    unbroken = learned(list(engine.run(spec, keep=(whole := replay.Memory()))))
    keep = _Stopping()
    with pytest.raises(_Broken):
        list(engine.run(spec, keep=keep))
    assert learned(list(engine.run(spec, keep=replay.Memory(keep.saved)))) == unbroken
    for content in {checkpoint.arrays for of_group in whole.saved.values() for checkpoint in of_group} - {None}:
        for name, array in safetensors.numpy.load(content).items():  # type: ignore[arg-type]
            assert array.dtype in (np.float64, np.bool_), name  # no steps of an exact sum
            steps = array[array != 0] * 2.0**20  # of clean sums; noise has steps of 2^-22 of it, at these budgets
            assert array.dtype == np.bool_ or not len(steps) or (steps != np.rint(steps)).mean() > 0.5, name


def test_noise_is_remembered_only_where_that_is_proved_and_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(changes: dict[str, object]) -> str:
        refused = refusal_of(checks.check_run, checks.parse(a_spec(noise_over_tasks="remembered").jsonable() | changes))
        assert refused.fix == {"params.noise_over_tasks": "fresh"}
        return str(refused)

    assert "one list for all tasks" in refusal({"labels": "prior"})
    assert "no class returns" in refusal({"labels": "dp-learned"})
    assert "public or learned" in refusal({"labels": "data"})
    in_all = "in any of the 5 tasks the last of 5 sums has 5.25 times the noise of a single one, with fresh noise 5 times"
    assert in_all in refusal({"scenario": {"kind": "permuted", "tasks": 5}})
    assert "saves no noise" in refusal({"scenario": {"kind": "class-incremental", "tasks": 1}})
    unlisted = {"labels": "dp-learned", "scenario": {"kind": "i-blurry", "tasks": 5}, "data": {"dataset": "own:shelf"}}
    unread = replace(datasets.card("digits"), name="own:shelf", classes=())
    monkeypatch.setattr(stream_noise.datasets, "card", lambda name: unread)
    with pytest.raises(errors.BadInput, match="all possible labels in the schema"):
        stream_noise.check_remembered(checks.parse({**a_spec(noise_over_tasks="remembered").jsonable(), **unlisted}), FIVE)


def test_more_releases_than_there_is_room_for_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continual, "MOST_BYTES", 20_000)  # five tasks of ten classes and 64 pixels take 25,600
    with pytest.raises(errors.BadInput, match="0 MB of releases a model") as caught:
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


@pytest.mark.parametrize("rows", [2, 3])
def test_a_person_with_several_rows_is_covered_wherever_they_lie(rows: int) -> None:
    """In one task or in several: the joint loss of all releases is below what the ledger says of a person with so many rows.

    Rows in one task are the worst, whatever C is, so C is chosen as for people of one row.
    """
    of = continual.choose(5).factorisation
    ledger = Ledger(1e-5, "add-remove", "once", rows_per_unit=rows)
    ledger.spend(GaussianDpEvent(4.0), task=0, what=continual.WHAT, people_of=tuple(range(5)))
    c, std = toeplitz(of.column, np.zeros(5)), 4.0 * of.sensitivity()
    losses = {tasks: np.linalg.norm(c[:, list(tasks)].sum(axis=1)) / std
              for tasks in combinations_with_replacement(range(5), rows)}  # fmt: skip
    assert max(losses, key=lambda tasks: losses[tasks]) == (0,) * rows
    worst = gaussian.epsilon(1 / losses[(0,) * rows], 1e-5)
    assert worst <= ledger.epsilon() < 3 * worst


# Learned lists: a label that is named late has all of its rows from the first task on, and no noise of its own beginning.


N_TASKS, N_ROWS = 4, 400


def blurred(
    epsilon: float = 4.0, *, seed: int = 0, noise: str = "seeded"
) -> tuple[cosine.CosineClassifier, Ledger, list[np.ndarray]]:
    """A learner of learned lists after four tasks: label 0 in each, label 1 once until the third, label 2 never enough.

    Also its ledger, and the sums over rows of the first two labels, task by task.
    """
    spec = a_spec("i-blurry", seeds=[seed], noise=noise, labels="dp-learned", noise_over_tasks="remembered")
    spec = replace(spec, privacy=replace(spec.privacy, epsilons=(epsilon,)))
    context = PublicContext(n_people=N_TASKS * N_ROWS, n_tasks=N_TASKS, n_classes=3, n_inputs=8, public=(0, 1, 2))
    (cell,) = spec.cells()
    learner, ledger, random = cosine.make_learner(spec, [cell], context), Ledger(1e-5, "add-remove", "once"), np.random
    rows, clean = random.default_rng(0).standard_normal((N_TASKS, N_ROWS, 8)), []
    for index, found in enumerate(rows):
        n_ones = N_ROWS // 2 if index >= 2 else 1  # which is never named, whatever the budget
        labels = np.repeat([1, 2, 0], [n_ones, 1, N_ROWS - n_ones - 1])
        task = Task(index, f"task {index + 1}", Examples(found, labels), Examples(found[:0], labels[:0]), (0, 1, 2))
        list(learner.learn({seed: task}, {cell: ledger}))
        units = continual.coarse_unit_rows(found, continual.ROW_STEP)
        clean.append(np.stack([units[labels == label].sum(axis=0) for label in (0, 1)]))
    return learner, ledger, clean


def test_a_label_that_is_named_late_has_all_its_rows_and_hidden_ones_nothing() -> None:
    learner, _, clean = blurred(epsilon=2000.0)  # next to no noise
    (cell,) = learner._noises
    assert learner.released(cell)["labels"].tolist() == [True, True, False]
    np.testing.assert_allclose(learner.released(cell)["sums"][:2], np.sum(clean, axis=0), atol=0.2)
    assert not learner.released(cell)["sums"][2].any()
    releases = np.stack(learner._stream_releases[0])[:, 0]
    assert releases.shape == (N_TASKS, 3, 8)  # public numbers, whatever is hidden
    assert not releases[:, 2].any()
    assert releases[:, :2].any(axis=2).all()  # from the first task on, though label 1 was named at the third


def test_lists_are_charged_to_their_task_and_the_sums_once_to_everyone() -> None:
    _, ledger, _ = blurred(noise="release")
    sums = [entry for entry in ledger.entries if entry.what == continual.WHAT]
    assert [entry.people_of for entry in sums] == [(0, 1, 2, 3)]
    lists = [entry for entry in ledger.entries if entry.what != continual.WHAT]
    assert [entry.people_of for entry in lists] == [(0,), (1,), (2,), (3,)]
    assert 3.5 < ledger.epsilon() <= 4.0
    spec = a_spec("i-blurry", seeds=[0], labels="dp-learned", noise_over_tasks="remembered")
    planned = Ledger(1e-5, "add-remove", "once")
    cosine.planned(spec, PublicSizes(N_TASKS * N_ROWS, N_TASKS, 3), 4.0, planned)
    assert ledger.by_people() == planned.by_people()


def test_noise_of_a_late_label_is_that_of_one_named_from_the_start() -> None:
    """Every running sum of label 1 deviates as the decoder says: 8 coordinates of 40 models, 20 % is four deviations."""
    found = []
    for seed in range(40):
        learner, _, clean = blurred(seed=seed)
        (cell,) = learner._noises
        found.append(learner.released(cell)["sums"][1] - np.sum(clean, axis=0)[1])
    of = learner._streams[39].factorisation
    assert np.std(found) == pytest.approx(learner._stds[0] * of.sensitivity() * of.prefix_noise[-1], rel=0.2)


def test_remembering_pays_where_lists_are_learned_and_classes_return() -> None:
    """Ten classes in each of five tasks, ε = 2, of which 1.6 for the lists: 40 and 56 % on average."""
    arms = {}
    for noise in ("fresh", "remembered"):
        raw = a_spec("i-blurry", labels="dp-learned", noise_over_tasks=noise).jsonable()
        raw["scenario"] |= {"tasks": 5, "disjoint_percent": 0, "blurry_percent": 100}
        raw["privacy"] |= {"epsilons": [2.0], "label_share": 0.8}
        ends = [e for e in engine.run(checks.parse(raw)) if isinstance(e, TaskLearned) and e.task == 4]
        arms[noise] = np.mean([metrics.mean(event.accuracy) or 0.0 for event in ends])
    assert arms["remembered"] > arms["fresh"] + 0.05


# Runs along public axes: each budget has its own number of them, in what is released and in the forecast of noise.


MISSING = catalog.available(catalog.card("lite0"))
is_here = pytest.mark.skipif(MISSING is not None, reason="lite0 is not here: dpcl fetch lite0")
EPSILONS = (0.5, 8.0, math.inf)
SMALL = {"dataset": "digits", "backbone": "lite0", "resolution": 96, "train_per_class": 20, "test_per_class": 5}


def axes_spec(method: str = "cosine", **data: object) -> RunSpec:
    raw = {"scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": EPSILONS, "noise": "seeded"}}
    return checks.parse({"method": method, "data": SMALL | data, "seeds": [0], **raw})


@pytest.fixture
def learners(monkeypatch: pytest.MonkeyPatch) -> list[Learner]:
    """The learners that runs make, in order."""
    made: list[Learner] = []
    for module in (cosine, peft_ensemble):
        watching.watched(monkeypatch, module, "make_learner", lambda found, given: made.append(found))
    return made


@is_here
@pytest.mark.parametrize("method", ["cosine", "peft-ensemble"])
def test_each_budget_releases_as_many_axes_as_the_rule_says(method: str, learners: list[Learner]) -> None:
    run = axes_spec(method)
    events: list[Event] = list(engine.run(run))
    counts = methods.axes_by_epsilon(run, of_spec(run))
    assert len(set(counts.values())) == 3, "the test needs budgets that differ"
    assert len({event.cell for event in events if isinstance(event, TaskLearned)}) == 3
    for learner, (epsilon, n_axes) in zip(learners, counts.items(), strict=True):
        cell = next(cell for cell in run.cells() if cell.epsilon == epsilon)
        widths = {array.shape[1] for name, array in learner.released(cell).items() if name != "labels"}
        assert widths == {n_axes + (method == "peft-ensemble")}, "a last layer has a bias beside"


@is_here
def test_without_axes_features_are_as_the_network_gives_them(learners: list[Learner]) -> None:
    run = axes_spec(axes=0)
    list(engine.run(run))
    (learner,) = learners
    assert learner.released(next(run.cells()))["sums"].shape[1] == 1280


@is_here
@pytest.mark.parametrize("adapter", ["head", "film"])
def test_tuning_trains_on_as_many_axes_as_the_run_it_is_for(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a trial are of a fifth of the classes: their number over all classes would give fewer axes."""
    raw = asdict(axes_spec("peft-ensemble")) | {"scenario": {"kind": "class-incremental", "tasks": 5}}
    run = checks.parse({**raw, "privacy": {"epsilons": [8.0]}, "params": {"adapter": adapter}})
    (n_axes,) = methods.axes_by_epsilon(run, of_spec(run)).values()
    assert methods.FEWEST < n_axes < methods.MOST, "the test needs a number between the rule's ends"
    seen: list[tuple[PublicContext, int]] = []

    def accuracy(axes_spec: RunSpec, context: PublicContext, task: Task) -> Iterator[Progress]:
        seen.append((context, task.train.inputs.shape[1]))
        return iter(())

    monkeypatch.setattr(search, "_accuracy", accuracy)
    list(extractor.result_of(search.prepared(TuneSpec(base=run, n_trials=1, on="private"), "cpu")).train(run.params))
    ((context, width),) = seen
    assert context.n_axes == {8.0: n_axes}, "what adapters go by"
    assert width == (n_axes if adapter == "head" else 3), "maps of 96 pixels have three places on a side"


def test_forecast_counts_the_axes_that_are_taken() -> None:
    facts = of_spec(axes_spec(train_per_class=3))
    by_rule, all_features = (
        references.forecast(run, n_features=1280, classes_per_task=5, facts=facts)[0]
        for run in (axes_spec(train_per_class=3), axes_spec(train_per_class=3, axes=0))
    )
    n_axes = methods.by_rule(axes_spec(train_per_class=3), EPSILONS[0], facts)
    assert by_rule.ratio == pytest.approx(all_features.ratio * math.sqrt(n_axes / 1280))
