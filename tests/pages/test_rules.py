"""A run whose method has several prediction rules can be looked at under each of them, from what was said alone."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core.events import Event, TaskLearned
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from tests.pages.conftest import Open, words
from tests.support import replay

SPEC = replay.a_spec()


def under_three_rules(events: list[Event]) -> list[Event]:
    """Median is right 10 points less often than the run's own rule, Entropy 20."""

    def shifted(event: TaskLearned, less: float) -> tuple[float | None, ...]:
        return tuple(None if value is None else value - less for value in event.accuracy)

    return [
        replace(event, by_rule={"argmax": event.accuracy, "median": shifted(event, 0.1), "entropy": shifted(event, 0.2)})
        if isinstance(event, TaskLearned)
        else event
        for event in events
    ]


SAID = under_three_rules(replay.recorded(SPEC))


def numbers(encoded: dict[str, str]) -> np.ndarray:
    """An array as plotly sends it."""
    return np.frombuffer(base64.b64decode(encoded["bdata"]), dtype=encoded["dtype"])


def ends(page: AppTest) -> list[float]:
    """The last point of every line of the first figure with lines: the accuracy curves."""
    charts = [json.loads(chart.proto.spec)["data"] for chart in page.get("plotly_chart")]
    curves = next(data for data in charts if data[0]["type"] == "scatter")
    lines = [trace for trace in curves if "lines" in trace["mode"] and trace["name"] in ("ε = 1", "ε = 8", "no noise")]
    assert len(lines) == 3
    return [float(numbers(trace["y"])[-1]) for trace in lines]


def corner(page: AppTest) -> float:
    """The first number of the accuracy matrix."""
    charts = [json.loads(chart.proto.spec)["data"] for chart in page.get("plotly_chart")]
    return float(numbers(next(data for data in charts if data[0]["type"] == "heatmap")[0]["z"])[0])


@pytest.mark.parametrize("status", ["finished", "running"])
def test_switching_the_rule_redraws_curves_and_matrix_from_what_was_said(
    status: Status, open_page: Open, store: Store
) -> None:
    events = SAID if status == "finished" else [event for event in SAID if type(event).__name__ != "CellFinished"]
    run_id = replay.fill(store, SPEC, events, status=status)
    page = open_page("train", v="1", run=run_id)
    assert not page.exception
    assert "costs no privacy" in words(page)
    switch = next(control for control in page.get("button_group") if control.label == "Prediction rule")
    assert list(switch.options) == ["ArgMax", "Median", "Entropy"]
    before, was = ends(page), corner(page)
    page.session_state[switch.key] = "entropy"  # a press; AppTest has no hands for this control
    page = page.run()
    assert not page.exception
    assert ends(page) == pytest.approx([end - 20 for end in before])
    assert corner(page) == pytest.approx(was - 20)
    assert "Entropy rule" in words(page)
    if status == "finished":
        assert page.query_params["ru"] == "entropy"


def test_the_link_keeps_the_rule_and_a_wrong_one_shows_the_runs_own(open_page: Open, store: Store) -> None:
    run_id = replay.fill(store, SPEC, SAID)
    own = ends(open_page("train", v="1", run=run_id))
    assert ends(open_page("train", v="1", run=run_id, ru="median")) == pytest.approx([end - 10 for end in own])
    page = open_page("train", v="1", run=run_id, ru="loudest")
    assert not page.exception
    assert ends(page) == own


def test_a_method_with_one_rule_has_no_switch(open_page: Open, store: Store) -> None:
    replay.fill(store, SPEC, replay.recorded(SPEC))
    page = open_page("train")
    assert not any(control.label == "Prediction rule" for control in page.get("button_group"))
    assert "rule" not in words(page).partition("n = ")[2][:120]
