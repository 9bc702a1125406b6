"""Matchers, confusion, anchors, signal and scores: what is drawn is what the tables say, and the sentence says it too."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpcl_core.figures import curves, grids, matching
from dpcl_core.runs import frames as tables
from tests.support.signatures import TOLD

ENTRIES, AGREEMENT = tables.entries([TOLD]), tables.agreement([TOLD])


def test_confusion_counts_entries() -> None:
    picture = matching.confusion(ENTRIES, ("World", "Sports"), ("World", "Sports"))
    assert picture.figure.data[0].z.tolist() == [[2, 0], [1, 1]]
    assert picture.finding == "75 % of entries lie in the group of their mode (chance 50 %); adjusted Rand index 0.00."
    unknown = matching.confusion(ENTRIES.assign(mode=-1), ("World",), ())
    assert "unknown" in unknown.finding


def test_the_matcher_in_use_stands_out_and_the_best_is_named() -> None:
    picture = matching.matcher_bars(AGREEMENT[AGREEMENT["noise"].isna()])
    bar, numbers = picture.figure.data
    assert dict(zip(bar.y, bar.x, strict=True)) == dict(TOLD.agreement)
    assert [text.strip() for text in numbers.text] == ["0.00", "<b> 0.50</b>", "0.80"]
    assert len({bar.marker.color[0], bar.marker.color[2]}) == 1 != len(set(bar.marker.color))
    best = "Public axes agrees best with the truth (0.80)"
    assert picture.finding == f"{best}; anchors, centred, which is used here, has 0.50."
    assert "unknown" in matching.matcher_bars(AGREEMENT.head(0)).finding
    lost = matching.matcher_bars(AGREEMENT.assign(agreement=-0.004))
    assert lost.finding == "No matcher agrees with the truth much better than chance does (the most: 0.00)."


@pytest.mark.parametrize(("local", "place"), [(1.4, "top"), (90.0, "bottom")])
def test_names_of_two_near_lines_stand_one_under_the_other(local: float, place: str) -> None:
    drawn = matching.agreement_by_noise(AGREEMENT, {"central": 0.97, "local": local}).figure.layout.annotations
    assert [one.yanchor for one in drawn if one.text.startswith(("central", "local"))] == ["bottom", place]


def test_noise_curves_stand_at_their_levels_with_what_a_budget_demands() -> None:
    picture = matching.agreement_by_noise(AGREEMENT, TOLD.demanded, chosen=0.1)
    assert [list(line.y) for line in picture.figure.data] == [[1.0, 0.2], [1.0, 0.6]]
    assert [list(line.customdata) for line in picture.figure.data] == [["0", "0.1"]] * 2
    lines = sorted(shape.x0 for shape in picture.figure.layout.shapes if shape.line.dash == "dash")
    assert lines == pytest.approx([math.log10(0.03), math.log10(0.9)])
    assert picture.finding == (
        "At noise 0.1 anchors, centred agrees best with the truth: 0.60. The budget requires: central 0.03, local 0.9."
    )
    without = matching.agreement_by_noise(AGREEMENT, {"local": math.inf})
    assert without.finding == "At noise 0.1 anchors, centred agrees best with the truth: 0.60."
    lost = matching.agreement_by_noise(AGREEMENT.assign(agreement=0.02), {}, chosen=0.1)
    assert lost.finding == "At noise 0.1 no matcher agrees with the truth much better than chance does."
    assert "unknown" in matching.agreement_by_noise(AGREEMENT.head(0), {}).finding


def test_what_more_anchors_buy() -> None:
    picture = grids.diagnostics(tables.anchors([TOLD]))
    drawn = {line.name: list(line.y) for line in picture.figure.data}
    assert drawn["agreement with the truth"] == [0.7, 0.9]
    assert drawn["least gap"] == [0.9, 1.3]
    assert picture.finding.startswith("From 10 to 50 anchors p̂ stays near 0.60 (it was 0.61)")
    assert picture.finding.endswith("Theorem 2 requires more anchors than there can be.")
    assert "no two modes" in grids.diagnostics(tables.anchors([])).finding


def test_a_statistic_that_drowns_is_stamped() -> None:
    picture = grids.signal_and_noise(tables.statistics([TOLD]))
    signal, noise = picture.figure.data
    assert list(signal.x) == [0.4, 0.8]
    assert list(noise.x) == [0.15, 40.0]
    assert ["noise only" in name for name in signal.y] == [False, True]
    assert picture.finding == (
        "Noise only: second moment. The noise on second moment is 50 times as long as the statistic itself."
    )
    clean = tables.statistics([TOLD]).assign(noise=0.0)
    assert grids.signal_and_noise(clean).finding == "Nothing carries noise here."


def test_scores_have_a_dot_a_seed_and_the_printed_value_as_a_tick() -> None:
    rows = [(4.0, seed, name, value) for seed in (0, 1) for name, value in (("AA", 0.6 + 0.1 * seed), ("BWT", -0.05))]
    table = pd.DataFrame([*rows, (4.0, 0, "FWT", math.nan)], columns=["epsilon", "seed", "metric", "value"])
    picture = curves.by_seed(table, epsilon=4.0, n_tasks=5, published={"AA": [62.1], "FWT": [1.0]})
    drawn = {trace.name: [round(float(x), 6) for x in trace.x] for trace in picture.figure.data}
    assert drawn == {"published": [62.1], "AA": [60.0, 70.0], "BWT": [-5.0, -5.0], "mean": [65.0, -5.0]}
    said = "At ε = 4, mean of 2 seeds: average accuracy 65.0, backward transfer −5.0 points."
    implied = "Right after learning a task: 69.0, which is AA − BWT (T − 1) / T."
    assert picture.finding.startswith(f"{said} {implied} Published: average accuracy 62.1")
    assert "when the first model has learned all its tasks" in curves.by_seed(table, epsilon=8.0, n_tasks=5).finding
