"""Pictures, and their SVG and PNG: drawn whole, where closed forms say, every text letter by letter."""

import importlib
import inspect
import io
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from html import unescape
from itertools import pairwise
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
import resvg_py
from PIL import Image
from plotly.colors import sample_colorscale

import dpcl_core.figures
from dpcl_core.figures import curves, html, matching, stream, svg, svg_parts, theme, tradeoff
from dpcl_core.figures.picture import BREAK, Provenance, bold, epsilon_label, epsilon_phrase, epsilon_text
from dpcl_core.runs import frames
from tests.figures.making import accuracy, picture_of
from tests.figures.pictures import PICTURES
from tests.figures.test_builders import ENTRIES, GROUPS
from tests.support.asserting import includes, refuses
from tests.support.signatures import TOLD
from tests.support.tiers import quick

SOURCE = Provenance(
    dataset="Digits <8×8>", n_train=1437, method="DP cosine classifier", labels="data", epsilons=(math.inf, 0.5), delta=1e-5,
    n_seeds=(1,), runs=("abcdef123456",), is_seeded=True,
)  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), [
    ({}, "Digits <8×8> · n = 1,437 · DP cosine classifier · labels from the data (not DP) · ε = 0.5, ∞ · δ = 1e-05 · 1"),
    ({}, " · seeded noise: a recorded seed voids the guarantee · run abcd"),
    ({"n_seeds": (5, 3, 1)}, " · 5, 3 and 1 seeds · "),
    ({"standings": ("claimed",)}, "claimed ε = 0.5, ∞, not verified"),
    ({"standings": ("claimed", "bound")}, " · ε = 0.5, ∞, for some runs a claim, not verified"),
    ({"standings": ("replay",)}, "replay ε = 0.5, ∞, head not private"),
    ({"standings": ("replay", "bound")}, " · ε = 0.5, ∞, for some runs the replay's alone, head not private"),
    ({"standings": ("none",)}, "asked ε = 0.5, ∞, no bound"),
    ({"standings": ("none", "bound")}, " · ε = 0.5, ∞, for some runs only asked for, no bound"),
    ({"standings": ("claimed",), "epsilons": (math.inf,)}, " · ε = ∞ · "),
    ({"n_seeds": ()}, "δ = 1e-05 · seeded noise"),
])  # fmt: skip
def test_provenance_names_everything_and_calls_a_claim_one(changes: dict[str, object], said: str) -> None:
    assert said in replace(SOURCE, **changes).line()


def test_budgets_in_words() -> None:
    assert (epsilon_label(math.inf), epsilon_label(0.25), epsilon_phrase(8.0)) == ("no noise", "ε = 0.25", "at ε = 8")
    assert [epsilon_text(epsilon) for epsilon in (0.5, 1000.0, 12345.0, 1e6)] == ["0.5", "1,000", "12,345", "1,000,000"]
    labels = [epsilon_label(0.5, kind) for kind in ("claimed", "replay", "none")]
    assert labels == ["claimed ε = 0.5", "replay ε = 0.5, total ∞", "asked ε = 0.5, total ∞"]
    assert epsilon_phrase(math.inf, "claimed") == "without noise"


def test_html_page_needs_no_network_and_escapes() -> None:
    page = html.page(curves.accuracy_over_tasks(accuracy(), n_tasks=4), SOURCE)
    includes(page, "Digits &lt;8×8&gt;", "After 4 tasks")
    head = page.split("<script", 1)[0] + "".join(part.split(">", 1)[0] for part in page.split("<script")[1:])
    assert "src=" not in head


DANGEROUS = (
    "<b>x</b>", '<a href="javascript:alert(1)">x</a>', "<img src=x onerror=alert(1)>",
    "a<br>b", "&lt;i&gt;", "R&amp;D", "Q&A",
    "%{label}", "<extra>x</extra>", "5 < 6", "&#60;b&#62;", "<sub>x</sub>",
)  # fmt: skip
MARKUP = re.compile(r"</?b>|<br>")  # what builders themselves put into texts
_FIXED = {"color", "family", "dash", "mode", "symbol", "type", "xref", "yref", "xaxis", "yaxis", "template"}


def texts(part: object, key: str = "") -> Iterator[str]:
    """Every text of a figure that is drawn, but templates of hovers."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, one in part.items():
            if name not in _FIXED and not name.endswith("template"):
                yield from texts(one, name)
    elif isinstance(part, list | tuple) or getattr(getattr(part, "dtype", None), "kind", "") in ("O", "U"):
        for one in part:
            yield from texts(one, key)


def all_texts(figure: go.Figure) -> list[str]:
    return [text for part in (*figure.data, figure.layout) for text in texts(part.to_plotly_json())]


@pytest.mark.parametrize("name", PICTURES)
def test_only_builders_own_markup_is_left_in_any_picture(name: str) -> None:
    """What is left after it, decoded once, has no half of an entity and no marker."""
    for text in all_texts(PICTURES[name](False).figure):
        rest = MARKUP.sub("", text)
        assert "<" not in rest, text
        assert not re.search(r"&(?!amp;|lt;|gt;)", rest), text
        assert not re.search(r"&#?\w+;", unescape(rest)), f"an entity of the builder's own is drawn as letters: {text}"
        assert BREAK[:16] not in text


@pytest.mark.parametrize("name", quick(5, DANGEROUS))
def test_names_are_drawn_as_they_are_written(name: str) -> None:
    """In every builder that draws names of classes, tasks, sources, groups, runs or settings."""
    entries, groups = ENTRIES.assign(name=name), GROUPS.assign(name=name)
    two = np.array([[0.9, 0.2], [0.7, 0.4]])
    runs = [curves.Series(name, accuracy(), "#0072b2"), curves.Series("B", accuracy(epsilons=(1.0,)), "#d55e00")]
    pictures = [
        stream.stream(np.eye(2, dtype=np.int64), homes=[(0,), (1,)], classes=(name, "other"), tasks=(name, "task 2")),
        stream.stream(None, homes=[(0,), (1,)], classes=(name, "other"), tasks=(name, "task 2")),
        curves.class_bars({name: two, "B": two}, (name, "other"), colours=["#0072b2", "#d55e00"]),
        matching.confusion(ENTRIES, (name, "other"), (name, "other")),
        matching.on_map(entries, groups, space="mean"),
        matching.margins(entries),
        curves.compared_over_tasks(runs, n_tasks=4),
        tradeoff.trade_off(runs),
        matching.matcher_bars(frames.agreement([TOLD]).assign(matcher=name).dropna(subset=["agreement"])),
    ]
    for number, picture in enumerate(pictures):
        drawn = all_texts(picture.figure)
        assert any(name in unescape(MARKUP.sub("", text)) for text in drawn), number
        for text in drawn:
            assert "<" not in MARKUP.sub("", text), (number, text)
    for picture in pictures[:6]:  # names that no program's constants are: their hovers hold none
        assert not [trace for trace in picture.figure.data if name in str(trace.hovertemplate)]


def test_builders_markup_stays_and_another_finding_changes_no_text() -> None:
    figure = go.Figure(go.Scatter(x=[1], y=[1], text=[f"{bold('<b>')}{BREAK}&"], hovertemplate="%{x}<extra></extra>"))
    picture = picture_of(figure, "One.")
    assert picture.figure.data[0].text[0] == "<b>&lt;b&gt;</b><br>&amp;"
    assert picture.figure.data[0].hovertemplate == "%{x}<extra></extra>"
    again = picture.saying("Two.")
    assert (again.finding, again.figure.data[0].text[0]) == ("Two.", picture.figure.data[0].text[0])


NS = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "title", "desc", "defs", "clipPath", "pattern", "g", "rect", "path", "circle", "text", "tspan"}
MARGIN = (100, 20, 10, 90)  # wide enough for all labels, so that no margin grows
LEFT, RIGHT, TOP, BOTTOM = 100, 700, 10, 310
# Names of properties that the drawing reads, and of those that draw nothing in our figures.
READ = """type x y z text customdata hovertemplate hoverinfo hovertext showlegend xaxis yaxis textposition fill fillcolor
    mode color width dash shape size symbol opacity fgcolor bgcolor orientation zmin zmax colorscale xgap ygap texttemplate
    height bargap plot_bgcolor yanchor xanchor l r t b range autorange rangemode dtick tickvals ticktext showticklabels
    showgrid zeroline gridcolor visible domain anchor categoryarray scaleanchor constrain constraintoward tickangle x0 x1 y0
    y1 xref yref layer xshift yshift align array arrayminus thickness name nticks"""
QUIET = """uirevision hovermode dragmode automargin connectgaps cliponaxis showarrow ticks hoverongaps showscale symmetric
    itemclick showline matches tick0 barmode"""


def document(*traces: object, **layout: object) -> dict[str, Any]:
    """These traces in the common layout, with fixed margins, as a document of a page."""
    figure = go.Figure(list(traces), theme.layout(False, **{"height": 400, "margin": MARGIN, **layout}))
    return svg.in_page(picture_of(figure, "A finding."), place=720)


def drawn(*traces: object, **layout: object) -> ElementTree.Element:
    return ElementTree.fromstring(document(*traces, **layout)["svg"])


def circles(root: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.iter(f"{NS}circle")]


def paths(root: ElementTree.Element) -> list[str]:
    return [one.attrib["d"] for one in root.iter(f"{NS}path")]


def places(root: ElementTree.Element) -> list[tuple[float, float, float, float, str]]:
    """Left, top, right and bottom of every level text, by estimated widths."""
    found = []
    for one in (one for one in root.iter(f"{NS}text") if "transform" not in one.attrib):
        words, size, x = "".join(one.itertext()), float(one.attrib["font-size"]), float(one.attrib["x"])
        rows = ["".join(row.itertext()) for row in one.findall(f"{NS}tspan[@x]")] or [words]
        wide, top = max(svg_parts.width(row, size) for row in rows), float(one.attrib["y"]) - 0.95 * size
        left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[one.attrib["text-anchor"]]
        found.append((left, top, left + wide, top + size * (1.3 * len(rows) - 0.1), words))
    return found


def test_every_builder_is_among_the_pictures() -> None:
    found = set()
    for module in pkgutil.iter_modules(dpcl_core.figures.__path__, "dpcl_core.figures."):
        for name, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            is_own = function.__module__ == module.name and not name.startswith("_")
            if is_own and inspect.get_annotations(function).get("return") == "Picture":
                found.add(f"{module.name.rpartition('.')[2]}.{name}")
    assert {name.partition(",")[0] for name in PICTURES} == found


def names(part: Mapping[str, Any]) -> Iterator[str]:
    for key, value in part.items():
        is_list = key in ("shapes", "annotations")
        inner = value if is_list else [value] if isinstance(value, Mapping) else []
        yield from (name for one in inner for name in names(one)) if inner or is_list or value is None else [key]


@pytest.mark.parametrize("name", PICTURES)
def test_a_figure_has_no_property_that_the_drawing_does_not_know(name: str) -> None:
    picture = PICTURES[name](False)
    layout = {key: part for key, part in picture.layout.items() if key != "template"}
    assert {each for part in (*picture.traces, layout) for each in names(part)} <= {*READ.split(), *QUIET.split()}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(("dark", "wide"), [(False, 720), (True, 330)])
def test_a_picture_is_one_svg_of_its_size_with_no_text_outside_or_over_another(name: str, dark: bool, wide: int) -> None:
    picture = PICTURES[name](dark)
    root = ElementTree.fromstring(svg.draw_svg(picture, width=wide, dark=dark))
    of = svg.in_page(picture, place=wide, dark=dark)
    assert root.attrib["viewBox"] == f"0 0 {wide} {picture.figure.layout.height:g}"
    assert root.findtext(f"{NS}desc") == root.attrib["aria-label"] == picture.finding
    assert of["svg"] == re.sub("<title>.*?</title><desc>.*?</desc>", "", svg.draw_svg(picture, width=wide, dark=dark))
    code = str(of["svg"]).replace(picture.finding, "")
    assert not re.search('nan|inf[ ,"]', code)
    assert {one.tag.removeprefix(NS) for one in root.iter()} <= TAGS, "nothing that runs or fetches"
    ids = [one.attrib["id"] for one in root.iter() if "id" in one.attrib]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]*)\)", code)) <= set(ids)
    for left, top, right, bottom, words in places(root):
        assert left >= -4, words
        assert right <= wide + 4, words
        assert top >= -2, words
        assert bottom <= picture.figure.layout.height + 2, words
    soft = theme.ink(dark).soft
    root[:] = [one for one in root if one.get("fill") == soft and one.get("font-size") == "13"]  # labels of ticks
    for (left, top, right, bottom, words), other in pairwise(places(root)):
        assert right <= other[0] or other[2] <= left or bottom <= other[1] + 3 or other[3] <= top + 3, (words, other[4])
    for *_, words in cast("list[tuple[float, float, str]]", of["said"]):
        assert words
        assert not re.search("%{|<br", words)


@pytest.mark.parametrize("name", PICTURES)
def test_plain_parts_are_drawn_as_the_figure_that_plotly_reads_from_them(name: str) -> None:
    picture = PICTURES[name](False)
    again = copy(picture)  # whose texts are literal already
    again.traces = [trace.to_plotly_json() for trace in picture.figure.data]
    again.layout = picture.figure.layout.to_plotly_json()
    assert svg.draw_svg(picture) == svg.draw_svg(again)


def test_places_on_linear_and_log_axes_and_what_has_none() -> None:
    dots = go.Scatter(x=[2, 4, 3], y=[-1, 3, 1], mode="markers")
    found = circles(drawn(dots, xaxis={"range": [2, 4]}, yaxis={"range": [-1, 3]}))
    assert found == [(LEFT, BOTTOM), (RIGHT, TOP), (400, 160)]
    decades = go.Scatter(x=[-1, 0, 0.1, 1, 10, 100], y=[0] * 6, mode="markers")
    root = drawn(decades, xaxis={"type": "log", "range": [-1, 2], "dtick": 1}, yaxis={"range": [-1, 1]})
    assert [x for x, _ in circles(root)] == [LEFT, LEFT + 200, LEFT + 400, RIGHT]
    assert {"0.1", "1", "10", "100"} <= {one[4] for one in places(root)}


@pytest.mark.parametrize("is_flat", [False, True])
def test_bars_start_at_zero_share_their_category_and_speak_at_their_ends(is_flat: bool) -> None:
    names = {"y" if is_flat else "x": ["a", "b"], "orientation": "h" if is_flat else "v", "hovertemplate": "%{x} %{y}"}
    two = [go.Bar(**names, **{"x" if is_flat else "y": values}) for values in ([4, -2], [2, 1])]
    of = document(*two, **{"xaxis" if is_flat else "yaxis": {"range": [-2, 4]}}, bargap=0.5)
    bars = ElementTree.fromstring(of["svg"]).findall(f"{NS}g/{NS}rect")
    sizes = [[float(one.attrib[name]) for name in ("x", "y", "width", "height")] for one in bars]
    found = [[x, y, x + wide, y + high] for x, y, wide, high in sizes]  # left, top, right and bottom
    if is_flat:  # the axis begins at 100, and has 100 pixels for a unit and 150 for a category
        assert found == [[300, 235, 700, 272.5], [100, 85, 300, 122.5], [300, 197.5, 500, 235], [300, 47.5, 400, 85]]
        assert [words for *_, words in of["said"]] == ["4 a", "-2 b", "2 a", "1 b"]
    else:
        assert found == [[175, 10, 250, 210], [475, 210, 550, 310], [250, 110, 325, 210], [550, 160, 625, 210]]
        assert [point[:2] for point in of["said"]] == [(212.5, 10), (512.5, 310), (287.5, 110), (587.5, 160)]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.77, 1.0])
def test_cells_have_the_colours_of_plotlys_scale(share: float) -> None:
    scale = ((0.0, "#8cbfe4"), (0.5, "#fbf6f1"), (0.75, "#f6cda6"), (1.0, "#ee9a55"))
    (text,) = sample_colorscale([list(stop) for stop in scale], [share])
    cell = go.Heatmap(z=[[share]], zmin=0, zmax=1, colorscale=scale, showscale=False)
    (path,) = drawn(cell, xaxis={"visible": False}, yaxis={"visible": False}).iter(f"{NS}path")
    assert path.attrib["fill"] == "#{:02x}{:02x}{:02x}".format(*map(int, re.findall(r"\d+", text)))


def test_a_heatmap_leaves_unknown_cells_out_rounds_halves_up_and_speaks_in_the_middle() -> None:
    cells = go.Heatmap(
        z=[[0.5, None], [2.5, 10.0]], x=["a", "b"], y=["c", "d"], text=[["one", ""], ["three", "four"]], showscale=False,
        colorscale=[[0, "#000000"], [1, "#ffffff"]], texttemplate="%{z:.0f}", hovertemplate="%{y}-%{x}: %{z:.1f} %{text}",
        zmin=0, zmax=10,
    )  # fmt: skip
    of = document(cells, xaxis={"visible": False}, yaxis={"visible": False})
    assert of["said"] == [(250, 235, "c-a: 0.5 one"), (250, 85, "d-a: 2.5 three"), (550, 85, "d-b: 10.0 four")]
    root = ElementTree.fromstring(of["svg"])
    assert [one[4] for one in places(root)] == ["1", "3", "10"]
    assert {one.attrib["fill"]: one.attrib["d"] for one in root.iter(f"{NS}path")}["#ffffff"] == "M400,160H700V10H400Z"


def test_gaps_break_a_line_steps_turn_where_their_shape_says_and_error_bars_reach_their_ends() -> None:
    ranges = {"xaxis": {"range": [0, 6], "visible": False}, "yaxis": {"range": [0, 3], "visible": False}}
    for missing in (None, math.nan):
        (line,) = paths(drawn(go.Scatter(x=[0, 1, 2, 3, 4], y=[0, 1, missing, 2, 3], mode="lines"), **ranges))
        assert line == "M100,310L200,210M400,110L500,10"
    for shape, corners in (("hvh", "L200,310L200,10L300,10"), ("hv", "L300,310L300,10L300,10")):
        (line,) = paths(drawn(go.Scatter(x=[0, 2], y=[0, 3], mode="lines", line_shape=shape), **ranges))
        assert line == f"M100,310{corners}"
    error = {"type": "data", "symmetric": False, "array": [1], "arrayminus": [2], "width": 0}
    (bar,) = paths(drawn(go.Scatter(x=[3], y=[2], mode="markers", error_y=error), **ranges))
    assert bar.endswith("M400,310L400,10")


def test_ranges_leave_room_and_ticks_lie_at_round_numbers() -> None:
    def axis(values: list[float], feet: list[float], **props: object) -> svg_parts.Axis:
        made = svg_parts.Axis("x", 0, 600, props)
        made.fit(values, feet)
        return made

    assert (axis([0, 100], []).low, axis([0, 100], []).high) == pytest.approx((-8, 108))
    assert (axis([20, 100], [0]).low, axis([20, 100], [0]).high) == pytest.approx((0, 108))
    assert (axis([-6e-16, 3e-16], []).low, axis([-6e-16], []).high) == pytest.approx((-1, 1)), "what rounding leaves is flat"
    assert (axis([0], [0]).low, axis([0], [0]).high) == (0, 1)
    assert [one[1] for one in axis([], [], range=[-0.3, 3.1]).ticks()] == ["0", "0.5", "1", "1.5", "2", "2.5", "3"]
    assert [one[1] for one in axis([], [], range=[-20_000, 5000]).ticks()][::2] == ["−20,000", "−10,000", "0"]


def test_long_names_of_categories_are_turned_and_units_of_a_map_are_as_long_on_both_axes() -> None:
    turned = drawn(go.Bar(x=[f"a long name {number}" for number in range(12)], y=[1] * 12))
    assert sum(one.get("transform", "").startswith("rotate(90") for one in turned.iter(f"{NS}text")) == 12
    at_the_edge = drawn(go.Scatter(x=["a", "a long name at the right, on one line"], y=[0, 1], mode="markers"))
    assert max(right for _, _, right, *_ in places(at_the_edge)) <= 724
    ends = {"range": [0, 3]}
    square = go.Scatter(x=[0, 3, 0], y=[0, 0, 3], mode="markers")
    (x, y), (right, _), (_, top) = circles(drawn(square, xaxis=ends, yaxis=ends | {"scaleanchor": "x"}))
    assert right - x == y - top == BOTTOM - TOP


def test_points_speak_where_they_are_drawn_in_the_words_of_their_template() -> None:
    one = go.Scatter(
        x=[0, 5, 10], y=[0, 1, None], mode="markers", name="first & last", customdata=[[1, 0.25], [2, 0.5], [3, 0.75]],
        text=["a", "<c>", "d"],
        hovertemplate="%{text}, %{fullData.name}<br>%{customdata[0]:.0f} of %{x}: %{customdata[1]:.1f}<extra>x</extra>",
    )  # fmt: skip
    quiet = go.Scatter(x=[1], y=[1], mode="lines", hoverinfo="skip", hovertemplate="never")
    of = document(one, quiet, xaxis={"range": [0, 10]}, yaxis={"range": [0, 2]})
    assert of["said"] == [(100, 310, "a, first & last\n1 of 0: 0.3"), (400, 160, "<c>, first & last\n2 of 5: 0.5")]
    assert circles(ElementTree.fromstring(of["svg"])) == [point[:2] for point in of["said"]]
    refuses("", document, go.Scatter(x=[1], y=[1], mode="lines", hovertemplate="%{marker.size}"), error=KeyError)
    refuses("not in", document, go.Pie(values=[1]), error=ValueError)


def test_letters_of_a_presenter_are_larger_for_the_same_place() -> None:
    usual, large = (svg.in_page(PICTURES["curves.accuracy_over_tasks"](False), place=780, factor=f) for f in (1.0, 1.3))
    assert [usual["place"], large["place"]] == [780, 780]  # the browser shows both as wide
    assert [usual["width"], large["width"]] == [780, 600]


def test_markup_of_data_is_shown_and_never_taken() -> None:
    evil = '<script>alert(1)</script><b onload="x()">&lt;img src=x&gt;</b> "\' & <b>bold</b>'
    line = go.Scatter(x=[evil, "b"], y=[1, 2], name=evil, mode="lines+text", text=[evil, "t"])
    figure = go.Figure([line, line], theme.layout(False, height=300, legend_room=40, xaxis={"title": evil}))
    figure.add_annotation(x=0, y=1, text=evil, showarrow=False)
    root = ElementTree.fromstring(svg.draw_svg(picture_of(figure, evil), source=evil))
    assert {one.tag.removeprefix(NS) for one in root.iter()} <= TAGS
    assert not [name for one in root.iter() for name in one.attrib if name.startswith("on")]
    assert root.findtext(f"{NS}desc") == evil
    assert sum(one[4] == evil for one in places(root)) >= 4
    assert not [one for one in root.iter(f"{NS}tspan") if one.attrib.get("font-weight") == "bold"]


@pytest.mark.parametrize("dark", [False, True])
def test_a_marker_has_its_colour_where_the_svg_has_it(dark: bool) -> None:
    dot = go.Scatter(x=[1.0, 2.0, 3.0], y=[1.0, 3.0, 2.0], mode="markers", marker={"size": 16, "color": "#d55e00"})
    picture = picture_of(go.Figure([dot], theme.layout(dark, height=300)), "Three dots.")
    drawing = ElementTree.fromstring(svg.draw_svg(picture, dark=dark))
    image = Image.open(io.BytesIO(svg.draw_png(picture, dark=dark))).convert("RGB")
    assert image.size == (2 * int(drawing.attrib["width"]), 2 * int(drawing.attrib["height"]))
    assert len(circles(drawing)) == 3
    for x, y in circles(drawing):
        assert image.getpixel((round(2 * x), round(2 * y))) == (0xD5, 0x5E, 0x00)
    ground = tuple(int(theme.ink(dark).ground[i : i + 2], 16) for i in (1, 3, 5))
    assert {tuple(map(int, pixel)) for pixel in np.asarray(image)[:4, :4].reshape(-1, 3)} == {ground}


def test_letters_are_drawn_whatever_typefaces_the_computer_has() -> None:
    """The same figure with a word more has more ink, also without any typeface of the system."""
    inks = []
    for word in ("", "ε accounted"):
        chart = theme.Chart(False, 200)
        chart.text(word or " ", 0.5, 0.5, size=30, colour=chart.ink.text, xref="paper", yref="paper")
        drawing = svg.draw_svg(chart.picture("A word."))
        own = resvg_py.svg_to_bytes(svg_string=drawing, zoom=1, font_files=svg.fonts(), skip_system_fonts=True)
        inks.append(int((np.asarray(Image.open(io.BytesIO(bytes(own))).convert("L")) < 128).sum()))
    assert inks[1] > inks[0] + 200  # eleven letters, 30 px high, strokes of some 3 px
