"""What a figure's points say near a pointer: where they are drawn, and in the words of their templates."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from dpcl_core.figures import svg, theme
from dpcl_core.figures.picture import Picture
from tests.figures.pictures import PICTURES

MARGIN = {"l": 100, "r": 20, "t": 10, "b": 90}  # wide enough for all labels, so that no margin grows
NS = "{http://www.w3.org/2000/svg}"


def document(*traces: object, **layout: object) -> dict[str, object]:
    figure = go.Figure(list(traces), theme.layout(False, height=400, margin=MARGIN, **layout))
    return svg.in_page(Picture(figure, "A finding."), place=720)


def said(*traces: object, **layout: object) -> list[tuple[float, float, str]]:
    return document(*traces, **layout)["said"]  # type: ignore[return-value]


def test_points_speak_where_they_are_drawn() -> None:
    one = go.Scatter(
        x=[0, 5, 10], y=[0, 1, 2], mode="markers", name="first & last", customdata=[[1, 0.25], [2, 0.5], [3, 0.75]],
        text=["a", "b", "<c>"],
        hovertemplate="%{text}, %{fullData.name}<br>%{customdata[0]:.0f} of %{x}: %{customdata[1]:.1f}<extra>x</extra>",
    )  # fmt: skip
    of = document(one, xaxis={"range": [0, 10]}, yaxis={"range": [0, 2]})
    assert of["said"] == [
        (100, 310, "a, first & last\n1 of 0: 0.2"), (400, 160, "b, first & last\n2 of 5: 0.5"),
        (700, 10, "<c>, first & last\n3 of 10: 0.8"),
    ]  # fmt: skip
    root = ElementTree.fromstring(str(of["svg"]))
    drawn = [(float(mark.attrib["cx"]), float(mark.attrib["cy"])) for mark in root.iter(f"{NS}circle")]
    assert drawn == [(x, y) for x, y, _ in of["said"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("orientation", ["v", "h"])
def test_bars_speak_at_their_ends(orientation: str) -> None:
    names, values = ["one", "two"], [1.0, 2.0]
    x, y = (names, values) if orientation == "v" else (values, names)
    bar = go.Bar(x=x, y=y, orientation=orientation, hovertemplate="%{y}: %{x}<extra></extra>")
    along, across = ("xaxis", "yaxis") if orientation == "v" else ("yaxis", "xaxis")
    found = said(bar, **{across: {"range": [0, 2]}, along: {"range": [-0.5, 1.5]}})
    ends = [(250, 160), (550, 10)] if orientation == "v" else [(400, 235), (700, 85)]
    assert [(x, y) for x, y, _ in found] == ends
    assert [words for *_, words in found] == ["1: one", "2: two"] if orientation == "v" else ["one: 1", "two: 2"]


def test_cells_speak_in_their_middle() -> None:
    grid = go.Heatmap(
        z=[[1.25, None], [3, 4]], x=["a", "b"], y=["c", "d"], text=[["one", ""], ["three", "four"]], showscale=False,
        colorscale=[(0, "#ffffff"), (1, "#000000")], hovertemplate="%{y} to %{x}: %{z:.1f} %{text}<extra></extra>",
    )  # fmt: skip
    assert said(grid, xaxis={"type": "category"}, yaxis={"type": "category"}) == [
        (250, 235, "c to a: 1.2 one"), (250, 85, "d to a: 3.0 three"), (550, 85, "d to b: 4.0 four"),
    ]  # fmt: skip


def test_letters_of_a_presenter_are_larger_for_the_same_place() -> None:
    usual, large = (svg.in_page(PICTURES["curves.accuracy_over_tasks"](False), place=780, factor=f) for f in (1.0, 1.3))
    assert [usual["place"], large["place"]] == [780, 780]  # the browser shows both as wide
    assert [usual["width"], large["width"]] == [780, 600]


def test_what_plotly_skips_says_nothing() -> None:
    quiet = go.Scatter(x=[1], y=[1], mode="markers", hoverinfo="skip", hovertemplate="never")
    assert said(quiet, go.Scatter(x=[1], y=[1]), go.Scatter(x=[1, 2], y=[1, None], hovertemplate="here")) == [
        (pytest.approx(said(go.Scatter(x=[1, 2], y=[1, None], hovertemplate="here"))[0][0]), 160, "here")
    ]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no field that can be said of a point: marker"):
        said(go.Scatter(x=[1], y=[1], hovertemplate="%{marker.size}"))


@pytest.mark.parametrize("name", PICTURES)
def test_every_figure_is_drawn_on_a_page_as_in_an_export(name: str) -> None:
    picture = PICTURES[name](False)
    of = svg.in_page(picture, place=600)
    named = re.compile("<title>.*?</title><desc>.*?</desc>")  # a browser would show a title beside the words of a point
    assert of["svg"] == named.sub("", svg.drawn(picture, width=600))
    root = ElementTree.fromstring(str(of["svg"]))
    assert [float(one) for one in root.attrib["viewBox"].split()] == [0, 0, 600, picture.figure.layout.height]
    for _, _, words in of["said"]:  # type: ignore[attr-defined]
        assert words
        assert "%{" not in words
        assert "<br" not in words
