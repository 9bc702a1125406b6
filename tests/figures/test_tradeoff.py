"""Accuracy and forgetting against the budget: a log axis, and no noise as a column of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
import pytest

from dpcl_core.figures import tradeoff
from dpcl_core.figures.curves import Series
from dpcl_core.figures.picture import Picture
from tests.figures.making import accuracy, by_rule


def _picture(**more: object) -> Picture:
    return _pictures(A=accuracy(**more))  # type: ignore[arg-type]


def _pictures(standings: Mapping[str, str] = {}, **tables: pd.DataFrame) -> Picture:
    """Runs by letter, of these standings, each in a colour of its own."""
    colours = {"A": "#0072b2", "B": "#d55e00", "C": "#008c68"}
    return tradeoff.trade_off(
        [Series(name, table, colours[name], standing=standings.get(name, "bound")) for name, table in tables.items()]
    )


def test_no_noise_is_a_column_that_no_line_reaches() -> None:
    traces = [trace for trace in _picture().figure.data if trace.yaxis == "y"]
    line = next(trace for trace in traces if "lines" in trace.mode)
    alone = next(trace for trace in traces if trace.mode == "markers")
    assert list(line.x) == pytest.approx([math.log10(0.5), math.log10(8)])
    assert alone.x[0] > math.log10(8)
    mean = 100 * sum(by_rule(math.inf, 1, 3, i) for i in range(4)) / 4
    assert alone.y[0] == pytest.approx(mean)


def test_axis_says_the_budgets_themselves() -> None:
    axis = _picture().figure.layout.xaxis2
    assert list(axis.ticktext) == ["0.5", "8", "no noise"]


def test_forgetting_has_a_panel_of_its_own_and_none_when_undefined() -> None:
    assert [t for t in _picture().figure.data if t.yaxis == "y2"]
    assert not [t for t in _picture(n_tasks=1).figure.data if t.yaxis == "y2"]


def test_finding_says_rises_only_where_it_rises() -> None:
    low, high = (100 * sum(by_rule(e, 1, 3, i) for i in range(4)) / 4 for e in (0.5, 8.0))
    assert f"rises from {low:.1f} to {high:.1f} %" in _picture().finding
    falling = _picture(rule=lambda e, s, k, i: 0.5 - 0.01 * min(e, 9.0))
    assert "falls" in falling.finding
    level = _picture(rule=lambda e, s, k, i: 0.5)
    assert "stays at 50.0 %" in level.finding


def test_only_no_noise_and_only_one_budget_work() -> None:
    assert _picture(epsilons=(math.inf,)).finding.startswith("Without noise final accuracy is ")
    assert "; without noise it is " in _picture().finding
    assert _picture(epsilons=(2.0,)).finding.startswith("At ε = 2 final accuracy is")


def test_a_run_without_noise_alone_is_said_beside_another() -> None:
    picture = _pictures(A=accuracy(), B=accuracy(epsilons=(math.inf,)))
    assert " B: without noise final accuracy is " in picture.finding


def test_an_unfinished_run_is_left_out_by_name() -> None:
    picture = _pictures(A=accuracy().query("seed > 9"), B=accuracy())
    assert {trace.name for trace in picture.figure.data} == {"B"}
    assert picture.figure.data[0].line.color == "#d55e00"


def test_budgets_that_bound_nothing_are_on_no_line() -> None:
    picture = _pictures({"B": "none"}, A=accuracy(), B=accuracy())
    bars = [trace.name for trace in picture.figure.data if trace.type == "bar" and trace.yaxis == "y"]
    assert bars == ["B (no bound)"]
    joined = [trace.name for trace in picture.figure.data if trace.type == "scatter" and "lines" in trace.mode]
    assert set(joined) == {"A"}
    assert "from asked ε = 0.5 to 8 (total ∞)" in picture.finding
    assert picture.finding.endswith("It is not comparable with one that is a bound.")


def test_claimed_budgets_are_hatched_bars_that_no_line_joins() -> None:
    picture = _pictures({"B": "claimed", "C": "claimed"}, A=accuracy(), B=accuracy(), C=accuracy())
    bars = [trace for trace in picture.figure.data if trace.type == "bar" and trace.yaxis == "y"]
    assert [bar.name for bar in bars] == ["B (claimed)", "C (claimed)"]
    assert all(bar.marker.pattern.shape == "/" and len(bar.x) == 2 for bar in bars)
    assert bars[0].x[0] + bars[0].width <= bars[1].x[0] + 1e-9, "beside one another"
    joined = [trace.name for trace in picture.figure.data if trace.type == "scatter" and "lines" in trace.mode]
    assert set(joined) == {"A"}
    assert "only claimed, not verified" in picture.figure.layout.xaxis2.title.text
    assert "from claimed ε = 0.5 to 8" in picture.finding
    assert picture.finding.endswith("A claimed ε is no bound and is not comparable with one.")
    assert "claimed" not in _picture().finding + str(_picture().figure.layout.xaxis2.title.text)
    alone = [trace for trace in picture.figure.data if trace.type == "scatter" and trace.name == "B"]
    assert [len(trace.x) for trace in alone] == [1, 1], "without noise nothing is claimed: a dot in its column"
