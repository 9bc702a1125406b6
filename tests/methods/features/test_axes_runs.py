"""Runs along public axes: each budget has its own number of them, in what is released and in the forecast of noise."""

import math
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from dpcl_core import checks, engine
from dpcl_core.backbones import catalog
from dpcl_core.backbones.extractor import result_of
from dpcl_core.events import Event, Progress, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.methods import references
from dpcl_core.methods.common.method import Learner, PublicContext, of_spec
from dpcl_core.methods.features import cosine, peft_ensemble
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import search
from dpcl_core.tuning.settings import TuneSpec
from tests.support.watching import watched

MISSING = catalog.available(catalog.card("lite0"))
is_here = pytest.mark.skipif(MISSING is not None, reason="lite0 is not here: dpcl fetch lite0")
EPSILONS = (0.5, 8.0, math.inf)
SMALL = {"dataset": "digits", "backbone": "lite0", "resolution": 96, "train_per_class": 20, "test_per_class": 5}


def spec(method: str = "cosine", **data: object) -> RunSpec:
    raw = {"scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": EPSILONS, "noise": "seeded"}}
    return checks.parse({"method": method, "data": SMALL | data, "seeds": [0], **raw})


@pytest.fixture
def learners(monkeypatch: pytest.MonkeyPatch) -> list[Learner]:
    """The learners that runs make, in order."""
    made: list[Learner] = []
    for module in (cosine, peft_ensemble):
        watched(monkeypatch, module, "make_learner", lambda found, given: made.append(found))
    return made


@is_here
@pytest.mark.parametrize("method", ["cosine", "peft-ensemble"])
def test_each_budget_releases_as_many_axes_as_the_rule_says(method: str, learners: list[Learner]) -> None:
    run = spec(method)
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
    run = spec(axes=0)
    list(engine.run(run))
    (learner,) = learners
    assert learner.released(next(run.cells()))["sums"].shape[1] == 1280


@is_here
@pytest.mark.parametrize("adapter", ["head", "film"])
def test_tuning_trains_on_as_many_axes_as_the_run_it_is_for(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a trial are of a fifth of the classes: their number over all classes would give fewer axes."""
    raw = asdict(spec("peft-ensemble")) | {"scenario": {"kind": "class-incremental", "tasks": 5}}
    run = checks.parse({**raw, "privacy": {"epsilons": [8.0]}, "params": {"adapter": adapter}})
    (n_axes,) = methods.axes_by_epsilon(run, of_spec(run)).values()
    assert methods.FEWEST < n_axes < methods.MOST, "the test needs a number between the rule's ends"
    seen: list[tuple[PublicContext, int]] = []

    def accuracy(spec: RunSpec, context: PublicContext, task: Task) -> Iterator[Progress]:
        seen.append((context, task.train.inputs.shape[1]))
        return iter(())

    monkeypatch.setattr(search, "_accuracy", accuracy)
    list(result_of(search.prepared(TuneSpec(base=run, n_trials=1, on="private"), "cpu")).train(run.params))
    ((context, width),) = seen
    assert context.n_axes == {8.0: n_axes}, "what adapters go by"
    assert width == (n_axes if adapter == "head" else 3), "maps of 96 pixels have three places on a side"


def test_forecast_counts_the_axes_that_are_taken() -> None:
    facts = of_spec(spec(train_per_class=3))
    by_rule, all_features = (
        references.forecast(run, n_features=1280, classes_per_task=5, facts=facts)[0]
        for run in (spec(train_per_class=3), spec(train_per_class=3, axes=0))
    )
    n_axes = methods.by_rule(spec(train_per_class=3), EPSILONS[0], facts)
    assert by_rule.ratio == pytest.approx(all_features.ratio * math.sqrt(n_axes / 1280))
