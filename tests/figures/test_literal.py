"""Names from files of the user's are drawn letter by letter: no tag, entity or template in one is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest

from dpcl_core.figures import curves, matching, reproduction, stream, svg, tradeoff
from dpcl_core.figures.picture import BREAK, bold
from dpcl_core.runs import frames as tables
from tests.figures.making import accuracy, picture_of
from tests.figures.pictures import ENTRIES, GROUPS, PICTURES
from tests.figures.test_parallel import COLOURS, FINALS
from tests.support.signatures import TOLD
from tests.support.tiers import quick

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
        matching.matcher_bars(tables.agreement([TOLD]).assign(matcher=name).dropna(subset=["agreement"])),
    ]
    for number, picture in enumerate(pictures):
        drawn = all_texts(picture.figure)
        assert any(name in unescape(MARKUP.sub("", text)) for text in drawn), number
        for text in drawn:
            assert "<" not in MARKUP.sub("", text), (number, text)
    for picture in pictures[:6]:  # names that no program's constants are: their hovers hold none
        assert not [trace for trace in picture.figure.data if name in str(trace.hovertemplate)]


@pytest.mark.parametrize("name", DANGEROUS)
def test_svg_draws_the_same_letters(name: str) -> None:
    picture = stream.stream(None, homes=[(0,), (1,)], classes=(name, "other"), tasks=("one", "two"))
    root = ElementTree.fromstring(svg.drawn(picture))
    words = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("text")]
    assert any(word and name.startswith(word.removesuffix("…").strip()[:8]) for word in words)
    assert not [one for one in root.iter() if one.attrib.get("font-weight") == "bold" and one.text == "x"]


def test_builders_markup_stays_and_another_finding_changes_no_text() -> None:
    figure = go.Figure(go.Scatter(x=[1], y=[1], text=[f"{bold('<b>')}{BREAK}&"], hovertemplate="%{x}<extra></extra>"))
    picture = picture_of(figure, "One.")
    assert picture.figure.data[0].text[0] == "<b>&lt;b&gt;</b><br>&amp;"
    assert picture.figure.data[0].hovertemplate == "%{x}<extra></extra>"
    again = picture.saying("Two.")
    assert (again.finding, again.figure.data[0].text[0]) == ("Two.", picture.figure.data[0].text[0])


def test_settings_side_by_side_are_literal() -> None:
    rows = [{"setting": "public_labels", "A": "<b>x</b>", "B": "5 < 6", "C": "x"}]
    picture = reproduction.coordinates(rows, FINALS, colours=COLOURS, score="accuracy")
    drawn = all_texts(picture.figure)
    assert any("<b>x</b>" in unescape(text) for text in drawn)
    assert not [text for text in drawn if "<" in text.removeprefix("<b>").removesuffix("</b>")], "but for headings"
