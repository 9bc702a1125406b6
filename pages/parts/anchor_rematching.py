"""What-if figures of a run: its recorded lists re-matched with fewer anchors or added noise, and labelled as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.elements.element import ANCHORS, MATCHERS, anchors_document
from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.explorers import matching
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.results import Result
from dpcl_core.spec import Cell, Params
from pages.parts import anchor_source, layout, link
from pages.parts.anchor_pictures import Scene
from pages.parts.anchor_source import COUNTS, LEVELS, Setup
from pages.parts.figure_card import mounted, written
from pages.parts.state import View
from pages.parts.text import plain

if TYPE_CHECKING:
    from dpcl_core.explorers.matching_log import Rematch


FIELDS: list[link.Field[Any]] = [
    link.Field("few", "am", "anchors of the run", link.Maybe(link.Whole(2, 1000)), None),
    link.Field("added", "an", "noise on the run's lists", link.Maybe(link.Number(LEVELS[0], LEVELS[-1])), None),
]


@dataclass(frozen=True)
class Settings:
    """Settings of re-matching: the first `m` of the run's `of` anchors, noise of std `noise` on every coordinate."""

    m: int
    noise: float
    of: int

    @property
    def is_of_run(self) -> bool:
        """Whether these are the settings of the run itself."""
        return self.m == self.of and not self.noise


def choose(result: Result, model: Cell | None, view: View) -> tuple[Settings | None, Mapping[str, object]]:
    """Sliders for anchors and noise; None, with a caption that says why, if the run did not record its lists in full."""
    nothing: Mapping[str, object] = {"few": None, "added": None}
    events = anchor_source.matchings(result)
    n_anchors = {event.cell.seed: len(event.public.anchors.steps) for event in events if event.public is not None}
    if model is None:
        return None, nothing
    if model.seed not in n_anchors:
        seeds = ", ".join(map(str, n_anchors))
        st.caption(
            f"Anchors and noise can be changed for seed {seeds} only: this run recorded no other lists in full."
            if n_anchors
            else "This run did not record its lists in full, so anchors and noise cannot be changed."
        )
        return None, nothing
    most = n_anchors[model.seed]
    counts = [*(m for m in COUNTS if m < most), most]
    m = int(_slide(view, "few", "Anchors m", counts, most, f"Matches with the first m of the run's {most} anchors."))
    help_text = "Added to every coordinate of every entry. 0: the run's own picture."
    noise = float(_slide(view, "added", "Noise on the lists", LEVELS, 0.0, help_text))
    return Settings(m, noise, most), {"few": m if m != most else None, "added": noise or None}


def scene(result: Result, rounds: tuple[Signatures, ...], at: int, settings: Settings | None, *, is_live: bool) -> Scene:
    """The run's own scene with unchanged settings; else its lists re-matched."""
    recorded = anchor_source.scene(result, rounds, at, is_live=is_live)
    shown = recorded.now
    source = _source(result, shown) if settings is not None else None
    if settings is None or source is None:
        return recorded
    if settings.is_of_run:  # measured here until the run, at its end, has recorded its own
        return replace(
            recorded,
            sweep=lambda: recorded.sweep() if recorded.sweep().agreement_at else _swept(result, shown, shown, settings),
            anchors=lambda: (
                recorded.anchors() if recorded.anchors().anchors is not None else _scored(result, shown, shown, settings)
            ),
            m=settings.m,
        )
    now = _event(*_key(result, shown), settings, source)
    provenance = replace(result.provenance, method=f"{result.provenance.method}, {_described(settings)}, re-matched")
    return Scene(
        (now,), 0, recorded.key, provenance,
        agreement=lambda: _agreement(*_key(result, shown), settings, source),
        sweep=lambda: _swept(result, shown, now, settings),
        anchors=lambda: _scored(result, shown, now, settings),
        is_live=is_live,
        m=settings.m,
    )  # fmt: skip


def notice(result: Result, now: Signatures, settings: Settings | None) -> None:
    """Says above the figures that they are a what-if, and which of them are still the run's own."""
    source = _source(result, now) if settings is not None and not settings.is_of_run else None
    if settings is None or source is None:
        return
    n = len(source.lists)
    whose = f"clients of every task, {n} in all" if source.has_homes else f"{n} clients"
    part = f" Shown: the first {whose}, whose lists were recorded." if source.is_part else ""
    st.info(
        f"**What-if, not released by this run:** its recorded, rounded lists with {_described(settings)}, re-matched "
        f"here.{part} The groups' prototypes, the cost and the accuracy are the run's own."
    )


def _described(settings: Settings) -> str:
    noise = f"noise {settings.noise:g} on every list" if settings.noise else "no noise on the lists"
    return f"m = {settings.m} of its {settings.of} anchors and {noise}"


def _slide(view: View, name: str, title: str, options: Sequence[float], usual: float, help_text: str) -> float:
    value = cast("float | None", view[name])
    start = usual if value is None else min(options, key=lambda each: abs(each - value))
    key = view.key(f"{name}-{len(options)}")
    return st.select_slider(title, options, start, format_func=epsilon_text, key=key, help=help_text)


Key = tuple[str, Cell, int, int]


def _key(result: Result, now: Signatures) -> Key:
    return str(result.run_id), now.cell, now.task, now.round


def _source(result: Result, now: Signatures) -> Rematch | None:
    return _rematch(*_key(result, now), anchor_source.matchings(result), now, result.spec.params)


# A recorded round never changes, so what is computed from it is cached under its key.


@st.cache_resource(max_entries=20, show_spinner=False)
def _rematch(
    run_id: str, cell: Cell, task: int, round: int, _all: Sequence[Signatures], _now: Signatures, _params: Params
) -> Rematch | None:
    from dpcl_core.explorers.matching_log import Rematch

    return Rematch.of(_all, _now, _params)


@st.cache_resource(max_entries=200, show_spinner=False)
def _event(run_id: str, cell: Cell, task: int, round: int, settings: Settings, _source: Rematch) -> Signatures:
    return _source.event(settings.m, settings.noise)


@st.cache_resource(max_entries=200, show_spinner=False)
def _agreement(run_id: str, cell: Cell, task: int, round: int, settings: Settings, _source: Rematch) -> Mapping[str, float]:
    return _source.agreement(settings.m, settings.noise)


@st.cache_resource(max_entries=50, show_spinner=False)
def _sweep(run_id: str, cell: Cell, task: int, round: int, m: int, _source: Rematch) -> Mapping[str, tuple[float, ...]]:
    return _source.sweep(m)


@st.cache_resource(max_entries=50, show_spinner=False)
def _scores(run_id: str, cell: Cell, task: int, round: int, noise: float, _source: Rematch) -> AnchorScores | None:
    return _source.scores(noise)


def _swept(result: Result, recorded: Signatures, shown: Signatures, settings: Settings) -> Signatures:
    source = _source(result, recorded)
    assert source is not None
    return replace(shown, noise_levels=LEVELS, agreement_at=_sweep(*_key(result, recorded), settings.m, source))


def _scored(result: Result, recorded: Signatures, shown: Signatures, settings: Settings) -> Signatures:
    source = _source(result, recorded)
    assert source is not None
    return replace(shown, anchors=_scores(*_key(result, recorded), settings.noise, source))


# The simulation's lists to play with: noise and anchors move them, six can be matched by hand; drawn in the browser.
#
# The element in `assets/anchors/` gets all it needs once; it reports noise, anchors and matcher only when they are let go.


def draw(setup: Setup, *, key: str) -> Setup:
    """Draws the card; returns the settings with which it was left."""
    with layout.card("anchor-play"):
        data = _data(setup.length, setup.m, setup.noise, setup.matcher)
        reported = mounted(ANCHORS)(key=key, data=data, on_settings_change=lambda: None).get("settings")
        now = left(reported, setup)
        with st.container(key="strip-anchor-play", horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(plain(now.provenance().line()), width="stretch")
            st.download_button(
                "CSV", lambda: csv(now), "anchors.csv", "text/csv", key="csv-anchor-play", type="tertiary",
                on_click="ignore", help="The groups of every matcher at this noise and number of anchors",
            )  # fmt: skip
            link.offer()
    return now


@lru_cache(maxsize=16)
def _data(length: int, m: int, noise: float, matcher: str) -> bytes:
    return written(anchors_document(length, m, noise, matcher))


def csv(setup: Setup) -> str:
    """One row for each entry: client, true digit, and its group by every matcher."""
    import pandas as pd

    lists = matching.read(setup.length)
    at, level = lists["counts"].index(setup.m), lists["noises"].index(setup.noise)
    truth = list(map(int, lists["modes"]))
    table = pd.DataFrame({"client": [entry // lists["n_modes"] for entry in range(len(truth))], "digit": truth})
    for name, by in lists["groups"].items():
        table[name] = list(map(int, by[at][level]))
    written: str = table.to_csv(index=False)
    return written


def left(reported: object, setup: Setup) -> Setup:
    """The settings that the browser reports; the given ones for what it cannot have reported."""
    if not isinstance(reported, Mapping):
        return setup
    keys = {name: key for key, name in MATCHERS.items()}
    matcher, m, noise = keys.get(str(reported.get("matcher"))), reported.get("m"), reported.get("noise")
    lists = matching.read(setup.length)
    if matcher is None or m not in lists["counts"] or noise not in lists["noises"]:
        return setup
    return replace(setup, matcher=matcher, m=int(str(m)), noise=float(str(noise)))
