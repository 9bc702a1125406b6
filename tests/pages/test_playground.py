"""The Playground without a browser: sources, pins, links and the plain slider; the element itself is tested in Chromium."""

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import engine, metrics
from dpcl_core.checks import parse
from dpcl_core.elements import calculator
from dpcl_core.elements.element import TEACHING
from dpcl_core.events import Started, TaskLearned
from dpcl_core.explorers.cosine_replay import promised
from dpcl_core.privacy import statement
from dpcl_core.runs.store import Store
from dpcl_core.scenarios.catalog import IBlurry
from dpcl_core.spec import LabelSetting
from pages.parts import state
from tests.pages.conftest import Open, Patch, drawings, press, turned, words
from tests.support import replay
from tests.support.asserting import includes, raising


def test_first_visit_shows_the_digits_with_their_promise(open_page: Open) -> None:
    page = open_page("explore", view="playground")
    includes(words(page), "After 5 tasks: 90.0 % without noise, ", TEACHING)
    assert "Whatever is published" not in words(page), "a statement opens when it is asked for"
    said = words(turned(page, "play-promise"))
    includes(said, "at most 2.72 times likelier because of any", "For teaching only: a recorded noise seed")
    assert len(drawings(page)) == 1  # the other tabs draw when they are opened


@pytest.mark.parametrize(("n_tasks", "most"), [("5", 300_000), ("10", 250_000)])
def test_the_element_is_fed_the_same_at_every_budget(open_page: Open, n_tasks: str, most: int) -> None:
    """What is sent must not depend on where the slider was let go, or it would be sent again each time."""
    page = open_page("explore", view="playground", e="2", t=n_tasks)
    sent = page.get("bidi_component")[0].proto.bytes
    fed = json.loads(sent)
    assert (fed["start"], fed["stops"][0], fed["stops"][-1]) == (2.0, 0.1, "inf")
    assert len(sent) < most
    page.run()
    assert page.get("bidi_component")[0].proto.bytes == sent


def test_the_plain_slider_says_the_same_as_the_element(open_page: Open) -> None:
    not_private = words(open_page("explore", view="playground", l="data", plain="1", e="2"))
    includes(not_private, "Not DP. The list of labels is read from the data", f"\n{statement.NO_ODDS}")
    assert "73.11 %" not in not_private
    page = open_page("explore", view="playground", plain="1", e="0.5", t="2")
    source = calculator.digits("prior-const", 2)
    assert not page.get("bidi_component")
    assert source.sentence(0.5) in words(page)
    assert page.get("plotly_chart"), "a browser without the element for ε has none for figures"
    page.select_slider[0].set_value(math.inf).run()
    assert source.sentence(math.inf) in words(page)
    assert page.query_params["e"] == "inf"
    assert "No bound" in words(page)


def test_elements_that_cannot_load_give_way_to_slider_and_plotly(open_page: Open, monkeypatch: Patch) -> None:
    monkeypatch.setattr("pages.parts.figure_card.mounted", raising(FileNotFoundError("drag.mjs")))
    page = open_page("explore", view="playground")
    assert page.get("plotly_chart"), "and figures are drawn by Plotly"
    assert page.select_slider[0].value == 1.0
    assert calculator.digits("prior-const", 5).sentence(1.0) in words(page)


def test_pins_are_kept_in_the_link_and_compared(open_page: Open) -> None:
    page = open_page("explore", view="playground", p="prior~5~1,data~10~0.5", e="8")
    said = words(page)
    assert "Here now is ε = 8, 5 tasks, one list; A is ε = 1, 5 tasks, task lists; B is ε = 0.5, 10 tasks" in said
    press(page, "Pin this state")
    assert page.query_params["p"] == "prior~5~1,data~10~0.5,prior-const~5~8"
    assert next(button for button in page.button if button.label == "Pin this state").disabled
    press(page, "✕ A")
    assert page.query_params["p"] == "data~10~0.5,prior-const~5~8"


@pytest.mark.parametrize("pin", ["nonsense", "prior~3~1", "prior~5~banana", "0123456789ab~1", "../x~1"])
def test_a_broken_pin_breaks_nothing(open_page: Open, pin: str) -> None:
    page = open_page("explore", view="playground", p=pin)
    assert any("a state that no longer exists" in button.label for button in page.button)


@pytest.mark.parametrize(("labels", "spent", "scenario", "has_odds"), [
    ("prior", 1.0, None, True), ("dp-learned", 0.93, None, True), ("prior", 2.44, None, False),
    ("prior", 1.0, IBlurry(task_prior="occurring"), False),  # lists are read from the examples: no bound
])  # fmt: skip
def test_odds_are_those_of_the_runs_own_ledger(
    open_page: Open, store: Store, labels: LabelSetting, spent: float, scenario: IBlurry | None, has_odds: bool
) -> None:  # fmt: skip
    """No odds of ε where more was spent, or nothing bounds it."""
    spec = replay.a_spec(labels=labels, epsilons=(1.0,), seeds=(0,))
    events = replay.promising(replay.recorded(spec), epsilon=spent)
    run = replay.fill(store, spec if scenario is None else replace(spec, scenario=scenario), events)
    said = words(open_page("explore", view="playground", run=run, plain="1", want="80"))
    assert ("guesses whether you took part is right at most 73.11 %" in said) is has_odds
    assert ("totals more than the ε of the slider" in said) is (spent == 2.44)
    assert (statement.NO_ODDS in said) is ("no ε bounds that" in said) is (scenario is not None)


def test_broken_links_are_answered(open_page: Open, store: Store) -> None:
    said = words(open_page("explore", view="playground", e="banana", t="3", zz="1"))
    includes(said, "asks for ε = banana: must be ", "asks for tasks = 3: must be one of 2, 5, 10; using 5 instead.", "zz")
    failed = replay.fill(store, replay.a_spec(), [], status="failed")
    for run, why in (("0123456789ab", "Showing the digits instead."), (failed, "must be a finished run of the cosine")):
        assert why in words(open_page("explore", view="playground", run=run))


def test_a_stored_run_steps_through_its_trained_budgets(open_page: Open, store: Store) -> None:
    run_id = replay.finished(store, replay.a_spec(epsilons=(0.5, 1.0, 8.0)), name="my run")
    page = open_page("explore", view="playground", run=run_id, e="2", plain="1")
    said = words(page)
    slider = page.select_slider[0]
    assert list(slider.options) == ["0.5", "1", "8"]
    assert slider.value == 1.0  # 2 was not trained; 1 is next to it on the log axis
    includes(said, "test examples are right after 5 tasks.", "ε has 3 values.")
    assert "without noise" not in said.split("test examples are right")[1][:40]  # this run has no such cell


def test_a_run_too_large_to_send_is_not_offered() -> None:
    spec = replay.a_spec(epsilons=[0.1 * k for k in range(1, 33)], seeds=range(60))
    events = replay.recorded(spec)
    opened = next(event for event in events if isinstance(event, Started))
    assert 32 * 60 * opened.n_tasks * (opened.n_tasks + 1) / 2 > calculator.MAX_NUMBERS
    assert calculator.finished_cells(state.Result("x", "large", spec, tuple(events))) is None


def learned(epsilon: float, n_seeds: int, **more: object) -> list[TaskLearned]:
    """What the engine reports of the bundled digits in five tasks."""
    asked = {"data": {"test_per_class": 30}, "scenario": {"tasks": 5}, "privacy": {"epsilons": [epsilon]}, **more}
    return [one for one in engine.run(parse({**asked, "seeds": list(range(n_seeds))})) if isinstance(one, TaskLearned)]


def test_digits_at_a_budget_agree_with_the_engine_within_its_noise() -> None:
    """Another draw of the noise, the same law: final accuracies differ by less than five standard errors."""
    drawn = np.array([np.mean(event.accuracy) for event in learned(1.0, 20) if event.task == 4])  # type: ignore[arg-type]
    ours = np.array([metrics.average_accuracy(m)[-1] for m in calculator.digits("prior-const", 5).matrices(1.0)])
    error = math.sqrt(drawn.var(ddof=1) * (1 / len(drawn) + 1 / len(ours)))
    assert abs(drawn.mean() - ours.mean()) < 5 * error
    assert error < 0.03  # the comparison can tell a wrong noise scale apart


@pytest.mark.parametrize(("labels", "epsilon"), [("prior-const", 1.0), ("prior", 4.0), ("data", 1.0), ("prior", math.inf)])
def test_recorded_promises_are_what_the_ledger_says_now(labels: str, epsilon: float) -> None:
    source = calculator.digits(labels, 5)  # type: ignore[arg-type]
    counts = {"n_tasks": 5, "n_classes": 10, "n_people": source.n_people, "n_seeds": source.n_seeds}
    now = promised(labels, epsilon, source.delta, **counts)  # type: ignore[arg-type]
    recorded = calculator.digits_guarantee(labels, 5, epsilon)  # type: ignore[arg-type]
    # Words to the letter; numbers to the rounding of one processor's mathematics against another's.
    assert replace(recorded, epsilon=now.epsilon, parts=now.parts, advantage=now.advantage, hits=now.hits) == now
    assert (recorded.advantage is None) == (recorded.hits is None) == math.isinf(now.epsilon)
    assert [recorded.advantage or 0, recorded.hits or 0] == pytest.approx([now.advantage or 0, now.hits or 0], rel=1e-9)
    assert recorded.epsilon == pytest.approx(now.epsilon, rel=1e-9)
    assert recorded.parts == pytest.approx(dict(now.parts), rel=1e-9)
    assert math.isinf(now.epsilon) == (labels == "data" or math.isinf(epsilon))
    chances = [calculator.digits(labels, n).references.chance for n in calculator.TASKS]  # type: ignore[arg-type, union-attr]
    assert chances == pytest.approx([0.1] * 3, abs=0.015), "of the test part"
    between = calculator.digits_guarantee("prior", 2, 0.37)  # between the stops, through the ledger
    assert (between.epsilon, between.claimed_epsilon) == (pytest.approx(0.37, abs=1e-4), 0.37)


def test_a_run_with_tasks_that_were_not_tested_keeps_its_gaps(open_page: Open) -> None:
    spec = replay.a_spec(epsilons=(1.0,), seeds=(0, 1))
    events = replay.altered(replay.recorded(spec), TaskLearned, lambda event: replace(
        event, accuracy=(None, *event.accuracy[1:]), pooled=None if event.task == 0 else event.pooled))  # fmt: skip
    source = calculator.finished_cells(state.Result("x", "gaps", spec, tuple(events)))
    assert source is not None
    assert (source.matrices(1.0)[0][0], set(source.frame(1.0)["on_task"])) == ([None], {1, 2, 3, 4})
    last = [event.accuracy[1:] for event in events if isinstance(event, TaskLearned) and event.task == 4]
    mean = sum(value for row in last for value in row if value is not None) / 8
    assert f"{100 * mean:.1f} %" in source.sentence(1.0)


def test_the_epsilon_that_a_wanted_accuracy_needs_is_computed_from_the_digits(open_page: Open) -> None:
    said = words(open_page("explore", view="playground", v="1", want="80"))
    found = re.search(r"80 % accuracy needs ε of about ([0-9.]+) \(", said)
    assert found
    source = calculator.digits("prior-const", 5)
    below, above = (np.nanmean(source.frame(float(found[1]) * by).query("after_task == 4")["accuracy"]) for by in (0.9, 1.1))
    assert below < 0.8 < above, "the replay agrees"
    assert max(high / low for low, high in itertools.pairwise(sorted(source.finals))) < 1.05
