"""A run's lists under fewer anchors or more noise than the run had: drawn anew from what it told, and said to be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.results import Result
from dpcl_core.spec import Cell, Params
from pages.parts.anchors import ofrun
from pages.parts.anchors.pictures import Scene
from pages.parts.anchors.play import COUNTS, LEVELS
from pages.parts.shell import link
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.explorers.rematching import Rematch

FIELDS: list[link.Field[Any]] = [
    link.Field("few", "am", "anchors of the run", link.Maybe(link.Whole(2, 1000)), None),
    link.Field("added", "an", "noise on the run's lists", link.Maybe(link.Number(LEVELS[0], LEVELS[-1])), None),
]


@dataclass(frozen=True)
class Asked:
    """By how many of the run's anchors, and under what noise on a coordinate of every entry, its lists are matched."""

    m: int
    noise: float
    of: int

    @property
    def is_of_run(self) -> bool:
        """Whether that is what the run itself did."""
        return self.m == self.of and not self.noise


def choose(result: Result, model: Cell | None, view: View) -> tuple[Asked | None, Mapping[str, object]]:
    """Sliders for anchors and noise, where the run has told enough; None where it has not, with the reason."""
    nothing: Mapping[str, object] = {"few": None, "added": None}
    told = ofrun.told(result)
    of_seed = {event.cell.seed: len(event.public.anchors.steps) for event in told if event.public is not None}
    if model is None:
        return None, nothing
    if model.seed not in of_seed:
        seeds = ", ".join(map(str, of_seed))
        st.caption(
            f"Anchors and noise can be moved for seed {seeds}, whose lists this run has told in full."
            if of_seed
            else "This run has not told its lists in full, so anchors and noise cannot be moved."
        )
        return None, nothing
    most = of_seed[model.seed]
    counts = [*(m for m in COUNTS if m < most), most]
    m = int(_slide(view, "few", "Anchors m", counts, most, f"The first so many of the run's {most}."))
    help_text = "Added to every coordinate of every entry; none in the run's own picture."
    noise = float(_slide(view, "added", "Noise on the lists", LEVELS, 0.0, help_text))
    return Asked(m, noise, most), {"few": m if m != most else None, "added": noise or None}


def scene(result: Result, rounds: tuple[Signatures, ...], at: int, asked: Asked | None, *, is_live: bool) -> Scene:
    """The run's own scene where nothing was moved; else its lists matched anew."""
    own = ofrun.scene(result, rounds, at, is_live=is_live)
    source = _source(result, own.now) if asked is not None else None
    if asked is None or source is None:
        return own
    if asked.is_of_run:  # as the run was; what it measures at its end alone is measured here until then
        return replace(
            own,
            sweep=lambda: own.sweep() if own.sweep().agreement_at else _swept(result, own.now, own.now, asked),
            anchors=lambda: own.anchors() if own.anchors().anchors is not None else _scored(result, own.now, own.now, asked),
            m=asked.m,
        )
    now = _event(*_key(result, own.now), asked, source)
    told = replace(result.provenance, method=f"{result.provenance.method}, {_said(asked)}, matched anew")
    return Scene(
        (now,), 0, own.own, told,
        agreement=lambda: _agreement(*_key(result, own.now), asked, source),
        sweep=lambda: _swept(result, own.now, now, asked),
        anchors=lambda: _scored(result, own.now, now, asked),
        is_live=is_live,
        m=asked.m,
    )  # fmt: skip


def notice(result: Result, now: Signatures, asked: Asked | None) -> None:
    """Says above the pictures that they are not what the run did, and what of them still is."""
    source = _source(result, now) if asked is not None and not asked.is_of_run else None
    if asked is None or source is None:
        return
    n = len(source.lists)
    whose = f"clients of every task, {n} in all" if source.has_homes else f"{n} clients"
    part = f" Of the first {whose}, whose lists were told." if source.is_part else ""
    st.info(
        f"**Drawn anew, not released by this run:** its lists with {_said(asked)}, matched here from what it told, "
        f"rounded.{part} The groups' prototypes, the cost and the accuracy are the run's own."
    )


def _said(asked: Asked) -> str:
    noise = f"noise {asked.noise:g} on every list" if asked.noise else "no noise on the lists"
    return f"m = {asked.m} of its {asked.of} anchors and {noise}"


def _slide(view: View, name: str, title: str, options: Sequence[float], usual: float, help_text: str) -> float:
    asked = cast("float | None", view[name])
    start = usual if asked is None else min(options, key=lambda each: abs(each - asked))
    key = view.key(f"{name}-{len(options)}")
    return st.select_slider(title, options, start, format_func=epsilon_text, key=key, help=help_text)


Key = tuple[str, Cell, int, int]


def _key(result: Result, now: Signatures) -> Key:
    return str(result.run_id), now.cell, now.task, now.round


def _source(result: Result, now: Signatures) -> Rematch | None:
    params = result.spec.params
    return _told(*_key(result, now), ofrun.told(result), now, params)


# A round that was told stays as it was told: what is computed of it is kept by its name.


@st.cache_resource(max_entries=20, show_spinner=False)
def _told(
    run_id: str, cell: Cell, task: int, round: int, _all: Sequence[Signatures], _now: Signatures, _params: Params
) -> Rematch | None:
    from dpcl_core.explorers.rematching import Rematch

    return Rematch.of(_all, _now, _params)


@st.cache_resource(max_entries=200, show_spinner=False)
def _event(run_id: str, cell: Cell, task: int, round: int, asked: Asked, _source: Rematch) -> Signatures:
    return _source.event(asked.m, asked.noise)


@st.cache_resource(max_entries=200, show_spinner=False)
def _agreement(run_id: str, cell: Cell, task: int, round: int, asked: Asked, _source: Rematch) -> Mapping[str, float]:
    return _source.agreement(asked.m, asked.noise)


@st.cache_resource(max_entries=50, show_spinner=False)
def _sweep(run_id: str, cell: Cell, task: int, round: int, m: int, _source: Rematch) -> Mapping[str, tuple[float, ...]]:
    return _source.sweep(m)


@st.cache_resource(max_entries=50, show_spinner=False)
def _scores(run_id: str, cell: Cell, task: int, round: int, noise: float, _source: Rematch) -> AnchorScores | None:
    return _source.scores(noise)


def _swept(result: Result, of_run: Signatures, shown: Signatures, asked: Asked) -> Signatures:
    source = _source(result, of_run)
    assert source is not None
    return replace(shown, noise_levels=LEVELS, agreement_at=_sweep(*_key(result, of_run), asked.m, source))


def _scored(result: Result, of_run: Signatures, shown: Signatures, asked: Asked) -> Signatures:
    source = _source(result, of_run)
    assert source is not None
    return replace(shown, anchors=_scores(*_key(result, of_run), asked.noise, source))
