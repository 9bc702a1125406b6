"""Figures as SVG: every builder's picture is drawn, values stand where closed forms say, and texts carry no markup in."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.colors import sample_colorscale

import dpcl_core.figures
from dpcl_core.figures import svg, theme
from dpcl_core.figures.picture import Parts, Picture
from dpcl_core.figures.svg_axes import Axis, Extreme, needed_range, number_text
from dpcl_core.figures.svg_text import lines, width
from dpcl_core.figures.svg_traces import scaled
from tests.figures.pictures import PICTURES

NS = "{http://www.w3.org/2000/svg}"
MARGIN = {"l": 100, "r": 20, "t": 10, "b": 90}  # wide enough for all labels, so that no margin grows
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 100, 700, 10, 310


def drawn(*traces: object, **layout: object) -> ElementTree.Element:
    """These traces in the common layout, with fixed margins."""
    figure = go.Figure(list(traces), theme.layout(False, height=HEIGHT, margin=MARGIN, **layout))
    return ElementTree.fromstring(svg.drawn(Picture(figure, "A finding. With a second sentence."), width=WIDTH))


def circles(root: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.iter(f"{NS}circle")]


def bars(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of all rectangles of traces."""
    return [
        tuple(float(one.attrib[name]) for name in ("x", "y", "width", "height"))
        for group in root.iter(f"{NS}g")
        for one in group.findall(f"{NS}rect")
    ]  # type: ignore[misc]


@pytest.mark.parametrize("builder", PICTURES)
def test_the_title_below_a_figure_fits_on_a_phone(builder: str) -> None:
    """Plotly breaks no line, and a card has 316 pixels there."""
    for name, part in PICTURES[builder](False).figure.to_dict()["layout"].items():
        title = (part.get("title") or {}) if name.startswith("xaxis") else {}
        for line in lines(title.get("text") or ""):
            assert width(line, title["font"]["size"] if "font" in title else 12) <= 290, line


def test_a_text_with_a_ground_hides_what_is_behind_it() -> None:
    note = {"x": 0.5, "y": 0.5, "text": "value", "showarrow": False, "font": {"size": 12}}
    line = go.Scatter(x=[0, 1], y=[0, 1], mode="lines")
    plain, covering = (drawn(line, annotations=[note | more]) for more in ({}, {"bgcolor": "#fffffe"}))
    assert not [one for one in plain.iter(f"{NS}rect") if one.get("fill") == "#fffffe"]
    (ground,) = [one for one in covering.iter(f"{NS}rect") if one.get("fill") == "#fffffe"]
    (text,) = [one for one in covering.iter(f"{NS}text") if "".join(one.itertext()) == "value"]
    assert float(ground.attrib["x"]) < float(text.attrib["x"]) < float(ground.attrib["x"]) + float(ground.attrib["width"])
    everything = list(covering.iter())
    assert everything.index(ground) < everything.index(text)


def builders() -> set[str]:
    """Every public function of the figures' room that gives a picture."""
    found = set()
    for module in pkgutil.iter_modules(dpcl_core.figures.__path__):
        members = inspect.getmembers(importlib.import_module(f"dpcl_core.figures.{module.name}"), inspect.isfunction)
        for name, function in members:
            is_own = function.__module__ == f"dpcl_core.figures.{module.name}" and not name.startswith("_")
            if is_own and inspect.get_annotations(function).get("return") == "Picture":
                found.add(f"{module.name}.{name}")
    return found


def test_every_builder_is_among_the_pictures() -> None:
    assert {name.partition(",")[0] for name in PICTURES} == builders()


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(("dark", "wide"), [(False, 720), (True, 360)])
def test_every_picture_is_one_readable_svg_of_its_size(name: str, dark: bool, wide: int) -> None:
    picture = PICTURES[name](dark)
    root = ElementTree.fromstring(svg.drawn(picture, width=wide, dark=dark))
    assert root.tag == f"{NS}svg"
    assert root.attrib["viewBox"] == f"0 0 {wide} {picture.figure.layout.height:g}"
    assert root.findtext(f"{NS}desc") == root.attrib["aria-label"] == picture.finding
    assert "nan" not in ElementTree.tostring(root, encoding="unicode").replace(picture.finding, "").lower().split('"')
    tags = {one.tag.removeprefix(NS) for one in root.iter()}
    assert tags <= {
        "svg", "title", "desc", "defs", "clipPath", "pattern", "g", "rect", "path", "circle", "text", "tspan",
    }, "nothing that runs or fetches"  # fmt: skip
    shown = [one for one in root.iter() if one.tag in (f"{NS}path", f"{NS}circle", f"{NS}text") and one.attrib]
    assert len(shown) > 3 or not picture.figure.data
    ids = [one.attrib["id"] for one in root.iter() if "id" in one.attrib]
    used = re.findall(r"url\(#([^)]*)\)", ElementTree.tostring(root, encoding="unicode"))
    assert len(ids) == len(set(ids))
    assert set(used) <= set(ids)


@pytest.mark.parametrize("name", PICTURES)
def test_no_label_is_outside_of_the_drawing(name: str) -> None:
    """By the estimated widths: the widest of them fits on a page of the usual width."""
    root = ElementTree.fromstring(svg.drawn(PICTURES[name](False)))
    for one in root.iter(f"{NS}text"):
        if "transform" in one.attrib or one.find(f"{NS}tspan") is not None:
            continue
        x, wide = float(one.attrib["x"]), width(one.text or "", float(one.attrib["font-size"]))
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[one.attrib["text-anchor"]]
        assert left >= -1, one.text
        assert left + wide <= 721, one.text


def test_ends_of_a_linear_axis_are_the_plots_edges() -> None:
    line = go.Scatter(x=[2, 4, 3], y=[-1, 3, 1], mode="markers", marker={"size": 8})
    root = drawn(line, xaxis={"range": [2, 4]}, yaxis={"range": [-1, 3]})
    assert circles(root) == [(LEFT, BOTTOM), (RIGHT, TOP), ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2)]


def test_decades_of_a_log_axis_are_equally_long() -> None:
    line = go.Scatter(x=[0.1, 1, 10, 100], y=[0] * 4, mode="markers")
    root = drawn(line, xaxis={"type": "log", "range": [-1, 2], "dtick": 1}, yaxis={"range": [-1, 1]})
    assert [x for x, _ in circles(root)] == [LEFT, LEFT + 200, LEFT + 400, RIGHT]
    assert {"0.1", "1", "10", "100"} <= {text.text for text in root.iter(f"{NS}text")}


def test_a_log_axis_leaves_out_what_has_no_place_on_it() -> None:
    line = go.Scatter(x=[-1.0, 0.0, 1.0], y=[0] * 3, mode="markers")
    assert len(circles(drawn(line, xaxis={"type": "log", "range": [-1, 1], "tickvals": [1]}))) == 1


def test_bars_start_at_zero_and_share_their_category() -> None:
    two = (go.Bar(x=["a", "b"], y=[4, -2]), go.Bar(x=["a", "b"], y=[2, 1]))
    found = bars(drawn(*two, yaxis={"range": [-2, 4]}, bargap=0.5, showlegend=False))
    zero, slot = TOP + 300 * 4 / 6, 300
    assert [bar[2] for bar in found] == [slot * 0.5 / 2] * 4
    assert [(bar[1], bar[1] + bar[3]) for bar in found] == [
        (TOP, zero), (zero, BOTTOM), (zero - 100, zero), (zero - 50, zero)
    ]  # fmt: skip
    assert found[0][0] + found[0][2] == found[2][0] == LEFT + slot / 2, "side by side around the category's middle"
    over = bars(drawn(*two, yaxis={"range": [-2, 4]}, barmode="overlay", bargap=0.5, showlegend=False))
    assert {bar[0] for bar in over} == {LEFT + slot / 4, LEFT + slot * 5 / 4}


def test_lying_bars_grow_from_the_left() -> None:
    (bar,) = bars(drawn(go.Bar(y=["a"], x=[0.5], orientation="h"), xaxis={"range": [0, 1]}))
    assert (bar[0], bar[2]) == (LEFT, 300)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.77, 1.0])
def test_cells_have_the_colours_of_plotlys_scale(share: float) -> None:
    scale = ((0.0, "#8cbfe4"), (0.5, "#fbf6f1"), (0.75, "#f6cda6"), (1.0, "#ee9a55"))
    (text,) = sample_colorscale([list(stop) for stop in scale], [share])
    assert scaled(scale, share) == "#{:02x}{:02x}{:02x}".format(*map(int, re.findall(r"\d+", text)))


def test_a_heatmap_leaves_unknown_cells_out_and_rounds_halves_up() -> None:
    z = np.array([[0.5, np.nan], [2.5, 10.0]])
    cells = go.Heatmap(
        z=z, colorscale=[[0, "#000000"], [1, "#ffffff"]], zmin=0, zmax=10, showscale=False, texttemplate="%{z:.0f}"
    )
    hidden = {"visible": False}
    root = drawn(cells, xaxis=hidden, yaxis=hidden)
    assert [text.text for text in root.iter(f"{NS}text")] == ["1", "3", "10"]
    paths = {one.attrib["fill"]: one.attrib["d"] for one in root.iter(f"{NS}path") if one.attrib["d"].endswith("Z")}
    assert set(paths) == {"#0d0d0d", "#404040", "#ffffff"}
    assert paths["#ffffff"] == f"M400,{TOP}H{RIGHT}V160H400Z"


def test_gaps_break_a_line_and_steps_turn_where_their_shape_says() -> None:
    ranges = {"xaxis": {"range": [0, 6], "visible": False}, "yaxis": {"range": [0, 3], "visible": False}}
    for missing in (None, math.nan):
        root = drawn(go.Scatter(x=[0, 1, 2, 3, 4], y=[0, 1, missing, 2, 3], mode="lines"), **ranges)
        (line,) = [one.attrib["d"] for one in root.iter(f"{NS}path")]
        assert line == "M100,310L200,210M400,110L500,10"
    steps = drawn(go.Scatter(x=[0, 2], y=[0, 3], mode="lines", line={"shape": "hvh"}), **ranges)
    assert [one.attrib["d"] for one in steps.iter(f"{NS}path")] == ["M100,310L200,310L200,10L300,10"]


def test_error_bars_reach_as_far_as_they_say() -> None:
    error = {"type": "data", "symmetric": False, "array": [1], "arrayminus": [2], "width": 0}
    dot = go.Scatter(x=[1], y=[2], mode="markers", error_y=error)
    root = drawn(dot, xaxis={"range": [0, 2], "visible": False}, yaxis={"range": [0, 3], "visible": False})
    assert [one.attrib["d"] for one in root.iter(f"{NS}path")] == ["M400,310L400,10"]


def test_a_range_leaves_room_for_marks_and_starts_at_zero_where_it_should() -> None:
    """Of 100 pixels, marks take 10 at both ends and 5 % are free: values span 70 of them."""
    low, high = needed_range([Extreme(0.0, 10, 10, True), Extreme(7.0, 10, 10, True)], 100.0)
    assert (low, high) == pytest.approx((-1.5, 8.5))
    low, high = needed_range([Extreme(2.0, 0, 0, True), Extreme(9.5, 0, 0, True)], 100.0, to_zero=True)
    assert (low, high) == pytest.approx((0.0, 10.0))
    assert needed_range([Extreme(3.0)], 100.0) == (2.0, 4.0)
    assert needed_range([Extreme(-6e-16), Extreme(3e-16)], 100.0) == (-1.0, 1.0), "what rounding leaves is drawn flat"
    assert needed_range([Extreme(25.0), Extreme(25.000000000000004)], 100.0) == pytest.approx((24.0, 26.0))
    assert needed_range([Extreme(-6e-16), Extreme(0.0)], 100.0, to_zero=True) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "step", "largest", "text"),
    [(0.5, 0.5, 2, "0.5"), (-10, 10, 20, "−10"), (0, 5000, 20_000, "0"), (15_000, 5000, 20_000, "15k"), (1.0, 0.2, 1, "1"),
     (1000, 500, 2000, "1000"), (0.0001, 0.0001, 0.0001, "100μ")],
)  # fmt: skip
def test_numbers_at_ticks_are_written_as_plotly_writes_them(value: float, step: float, largest: float, text: str) -> None:
    assert number_text(value, step, largest) == text


def test_ticks_lie_at_round_numbers() -> None:
    axis = Axis("x", {"tickfont": {"size": 13, "color": "#000000"}}, "linear", length=600.0, low=-0.3, high=3.1)
    assert [label for _, label in axis.ticks()] == ["0", "0.5", "1", "1.5", "2", "2.5", "3"]


def test_markup_of_data_is_shown_and_never_taken() -> None:
    evil = '<script>alert(1)</script><b onload="x()">&lt;img src=x&gt;</b> "\' & <b>bold</b>'
    line = go.Scatter(x=[evil, "b"], y=[1, 2], name=evil, mode="lines+text", text=[evil, "t"])
    figure = go.Figure([line, line], theme.layout(False, height=300, legend_room=40, xaxis={"title": evil}))
    figure.add_annotation(x=0, y=1, text=evil, showarrow=False)
    root = ElementTree.fromstring(svg.drawn(Picture(figure, evil), source=evil))
    assert {one.tag.removeprefix(NS) for one in root.iter()} <= {
        "svg", "title", "desc", "defs", "clipPath", "g", "rect", "path", "text", "tspan"
    }  # fmt: skip
    assert not [name for one in root.iter() for name in one.attrib if name.startswith("on")]
    assert root.findtext(f"{NS}desc") == evil
    texts = ["".join(one.itertext()) for one in root.iter(f"{NS}text")]
    assert any("<script>alert(1)</script>" in text for text in texts)
    assert any(evil in text for text in texts)
    assert not [one.text for one in root.iter(f"{NS}tspan") if one.attrib.get("font-weight") == "bold"]


@pytest.mark.parametrize(
    ("trace", "layout"),
    [
        (go.Pie(values=[1]), {}),
        (go.Scatter(x=[1], y=[1], stackgroup="one"), {}),
        (go.Scatter(x=[1], y=[1], mode="markers", marker={"symbol": "asterisk"}), {}),
        (go.Scatter(x=[1, 2], y=[1, 2], mode="lines", line={"dash": "5px"}), {}),
        (go.Scatter(x=[1, 2], y=[1, 2], fill="tonextx", fillcolor="#000000"), {}),
        (go.Scatter(x=["2020-01-01"], y=[1]), {"xaxis": {"type": "date"}}),
        (go.Bar(x=[1], y=[1]), {"barmode": "stack"}),
        (go.Heatmap(z=[[1]]), {}),
        (go.Scatter(x=[1], y=[1]), {"xaxis": {"side": "top"}}),
        (go.Scatter(x=[1], y=[1]), {"annotations": [{"text": "a", "x": 1, "y": 1}]}),
        (go.Scatter(x=[1], y=[1]), {"title": "a title"}),
    ],
)
def test_what_cannot_be_drawn_is_an_error_and_is_not_left_out(trace: object, layout: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        drawn(trace, **layout)


def test_the_ground_is_the_themes_and_the_source_stands_below() -> None:
    picture = PICTURES["curves.accuracy_over_tasks"](True)
    root = ElementTree.fromstring(svg.drawn(picture, dark=True, source="Digits <8×8> · 1 seed"))
    assert root.find(f"{NS}rect").attrib["fill"] == theme.ink(True).ground  # type: ignore[union-attr]
    last = list(root.iter(f"{NS}text"))[-1]
    assert last.text == "Digits <8×8> · 1 seed"
    assert float(last.attrib["y"]) > picture.figure.layout.height
    assert float(root.attrib["height"]) > float(last.attrib["y"])


@pytest.mark.parametrize("name", PICTURES)
def test_plain_parts_are_drawn_as_the_figure_that_plotly_reads_from_them(name: str) -> None:
    picture = PICTURES[name](False)
    read = picture.figure
    parts = Parts([trace.to_plotly_json() for trace in read.data], read.layout.to_plotly_json())
    assert svg.drawn(picture) == svg.drawn(cast(Picture, SimpleNamespace(parts=parts, finding=picture.finding)))
