"""Provenance, names of budgets, and texts that are drawn letter by letter, whatever a user's file calls things."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import numpy as np
import plotly.graph_objects as go
import pytest

from dpcl_core.figures import curves, html, matching, stream, tradeoff
from dpcl_core.figures.picture import BREAK, Provenance, bold, epsilon_label, epsilon_phrase, epsilon_text
from dpcl_core.runs import frames
from tests.figures.making import accuracy, picture_of
from tests.figures.pictures import ENTRIES, GROUPS, PICTURES
from tests.support.asserting import includes
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
