"""The engine from Python, as a notebook uses it."""

import doctest
import math
import re
from collections.abc import Callable

import numpy as np
import pytest

import dpcl_core as dpcl
from dpcl_core import api
from dpcl_core.events import Classifier, Event, Progress, TaskLearned
from dpcl_core.results import FIGURES
from dpcl_core.runs.store import Store
from tests.support.asserting import refuses

pytestmark = pytest.mark.usefixtures("home")


def test_a_run_is_kept_and_found_again() -> None:
    heard: list[Event] = []
    result = dpcl.run("digits-cosine", epsilons=[1.0, math.inf], seeds=[0], on_event=heard.append)
    assert result.run_id is not None
    # Of progress the store keeps only what is worth it, and classifiers beside the events.
    assert [event for event in heard if not isinstance(event, Progress | Classifier)] == [
        event for event in result.events if not isinstance(event, Progress)
    ]
    assert (result.spec.privacy.epsilons, list(result.cells["epsilon"])) == ((1.0, math.inf), [1.0, math.inf])
    assert result.guarantee(1.0).epsilon <= 1.0
    assert set(result.metrics["metric"]) == {"AA", "AF", "BWT", "FWT", "Last", "Avg"}
    learned = [event for event in heard if isinstance(event, TaskLearned)]
    assert len(result.accuracy) == sum(value is not None for event in learned for value in event.accuracy)
    again = dpcl.load(result.run_id)
    assert (again.events, again.spec) == (result.events, result.spec)


def test_settings_are_changed_by_their_names() -> None:
    result = dpcl.run("digits-cosine", epsilons=[1.0], seeds=[3], settings={"labels": "prior", "scenario.tasks": 2})
    assert (result.n_tasks, result.spec.labels, result.spec.seeds) == (2, "prior", (3,))
    assert dpcl.run(result.spec).spec == result.spec


def test_a_sweep_is_one_table() -> None:
    table = dpcl.sweep("digits-cosine", {"labels": ["prior", "prior-const"]}, epsilons=[math.inf], seeds=[0, 1])
    assert list(table.columns) == ["labels", "run_id", "epsilon", "seed", "metric", "value"]
    assert table.groupby("labels")["run_id"].nunique().to_dict() == {"prior": 1, "prior-const": 1}
    assert len(table) == 2 * 2 * 6


def test_an_interrupted_sweep_starts_no_further_run() -> None:
    heard: list[Event] = []

    def interrupt(event: Event) -> None:
        heard.append(event)
        if isinstance(event, TaskLearned):
            raise KeyboardInterrupt

    table = dpcl.sweep("digits-cosine", {"labels": ["prior", "prior-const"]}, epsilons=[1.0], seeds=[0], on_event=interrupt)
    assert sum(isinstance(event, TaskLearned) for event in heard) == 1
    assert list(table.columns) == ["labels", "run_id", "epsilon", "seed", "metric", "value"]
    assert [run.status for run in Store().list_runs()] == ["cancelled"]


def test_a_sweep_is_checked_before_its_first_run() -> None:
    refuses(r"labels = unknown", dpcl.sweep, "digits-cosine", {"labels": ["prior", "unknown"]}, epsilons=[1.0], seeds=[0])
    with pytest.raises(dpcl.BadInput, match=r"data\.backbone"):  # one that can be read, but not carried out
        dpcl.sweep("digits-cosine", {"data.backbone": ["pixels", "minilm"]}, epsilons=[1.0], seeds=[0])
    assert not Store().list_runs()


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: dpcl.run(None), "preset_or_spec = None: must be a preset's name, a RunSpec, or settings as a mapping"),  # type: ignore[arg-type]
    (lambda: dpcl.run("digits-cosine", epsilons=1.0), "epsilons = 1.0: must be a list"),  # type: ignore[arg-type]
    (lambda: dpcl.run("digits-cosine", epsilons="10"), "epsilons = 10: must be a list"),  # type: ignore[arg-type]
    (lambda: dpcl.run("digits-cosine", seeds=0), "seeds = 0: must be a list"),  # type: ignore[arg-type]
    (lambda: dpcl.sweep("digits-cosine", {"labels": "prior"}), "labels = prior: must be a list"),
    (lambda: dpcl.account(epsilon="1", delta=1e-5), "epsilon = 1: must be a number"),  # type: ignore[arg-type]
    (lambda: dpcl.account(epsilon=1, delta=1e-5, steps=2.5), "steps = 2.5: must be a whole number"),  # type: ignore[arg-type]
    (lambda: dpcl.account(epsilon=1, delta=1e-5, adjacency="swap"), "adjacency = swap: must be one of"),  # type: ignore[arg-type]
])
def test_a_value_of_another_kind_is_one_sentence(call: Callable[[], object], sentence: str) -> None:
    refuses(re.escape(sentence), call)


def test_accounts_and_audits() -> None:
    assert dpcl.account(epsilon=1.0, delta=1e-5).sigma == pytest.approx(3.7306, abs=1e-3)  # Balle and Wang's analytic noise
    found = dpcl.audit({"method": "cosine", "privacy": {"epsilons": [1.0], "delta": 1e-5}, "seeds": [0]}, trials=200)
    assert all(audited.lower_bound <= audited.accounted for audited in found)


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(api, extraglobs={"run": api.run, "account": api.account}).failed == 0


def test_numpy_numbers_are_numbers() -> None:
    settings = {"scenario.tasks": np.int64(2), "privacy.delta": np.float64(1e-5)}
    result = dpcl.run("digits-cosine", epsilons=np.array([1.0]), seeds=np.arange(1), settings=settings, here=True)
    assert (result.spec.privacy.epsilons, result.spec.seeds, result.n_tasks) == ((1.0,), (0,), 2)
    assert result.run_id is None
    assert not Store().list_runs(), "a run here needs no store"
    assert dpcl.account(epsilon=np.float32(1.0), delta=np.float64(1e-5), steps=np.int32(1)).sigma > 3


def test_all_that_a_cell_can_end_with_shows_itself() -> None:
    result = dpcl.run("digits-cosine", epsilons=[1.0, 8.0, math.inf], seeds=[0, 1, 2], here=True)
    pictures = [result.figure(name) for name in FIGURES]
    for shown in (result, result.statement, result.card, *pictures):
        in_notebook, line = shown._repr_html_(), repr(shown)
        assert len(in_notebook.encode()) <= 60_000
        assert in_notebook.count("<svg") == (1 if shown in (result, *pictures) else 0)
        assert "\n" not in line
        assert len(line) < 1000
        assert isinstance(hash(shown), int)
    assert repr(result).startswith("<Result of ")
    assert "ε = 1: " in repr(result)
    assert "likelier because of any one training example" in result._repr_html_()
    assert "epsilon 1, delta 1e-05" in repr(result.guarantee(1.0))
    assert hash(result.guarantee(1.0)) != hash(result.guarantee(8.0))
    assert "accounted epsilon 1" in str(result.statement)
    assert "<b>" in pictures[0]._repr_html_()
    again = dpcl.run(result.spec, here=True)
    assert (hash(result), hash(result.card)) == (hash(again), hash(again.card))
