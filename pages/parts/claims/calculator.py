"""One calculator for every claim: a section that opens, controls, tables of terms, a run's own claim, attacks at a press.

What a paper claims is a `Claim`: its words, its link, whose runs it is of, and its own arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.privacy.statement import shown, words
from pages.parts.shell import layout, link
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.lower_bound import Audited

TRIALS = 1000
DELTAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
UNBOUNDED = {"**accounted** by the ledger": "no bound"}


@dataclass(frozen=True)
class Lines:
    """A run's own claim: what is claimed, computed and accounted, by name, as texts; and what it was computed from."""

    rows: Mapping[str, str]
    source: str


@dataclass(frozen=True)
class Claim:
    """What the Privacy page shows of a published claim.

    `fields`: what its link carries, first of all whether it is open. `is_of`: whether a run's budget is this claim.
    `lines`: the rows of such a run. `body`: draws the inside, for the run on the page where its budget is this claim, and
    gives what its controls say.
    """

    title: str
    about: str
    fields: Sequence[link.Field[Any]]
    is_of: Callable[[Guarantee], bool]
    lines: Callable[[Guarantee], Lines]
    body: Callable[[View, Guarantee | None], Mapping[str, object]]


def part(claim: Claim, view: View, given: Guarantee | None) -> dict[str, object]:
    """The section; drawn only while it is open. `given`: of the run on the page, where its ε is this claim."""
    flag = claim.fields[0].name
    is_open = bool(view[flag]) or given is not None
    box = st.expander(claim.title, expanded=is_open, key=view.key(flag), on_change="rerun")
    values: dict[str, object] = {field.name: view[field.name] for field in claim.fields} | {flag: bool(box.open)}
    if box.open:
        with box:
            st.markdown(claim.about)
            values |= claim.body(view, given)
    return values


def of_run(claim: Claim, given: Guarantee) -> None:
    """The claim of a run, what its noise costs, what its ledger holds, and what the audit at its end proved."""
    least = "no audit" if given.audit is None else f"at least {math.floor(10 * given.audit.lower_bound) / 10:g}"
    lines = claim.lines(given)
    with layout.card("claim"):
        st.markdown("**Claimed, accounted, audited**")
        table(("of this run", "ε"), [*lines.rows.items(), ("**audited**", f"**{least}**")])
        st.caption(plain(words(given).audited or "This run was not audited."))
        st.caption(plain(lines.source))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> None:
    """A table whose first `names` columns are words and whose others are numbers, set to the right."""
    rule = "|".join("---" if column < names else "---:" for column in range(len(heads)))
    lines = ["|".join(("", *(f" {cell} " if cell else " " for cell in row), "")) for row in (heads, *rows)]
    st.markdown("\n".join((lines[0], f"|{rule}|", *lines[1:], "")))


def bound(epsilon: float) -> str:
    """An accounted budget, or that there is none."""
    return "no bound" if math.isinf(epsilon) else shown(epsilon)


class Controls:
    """The widgets of a section, whose bounds are those of its link; `values` is what they say, as the link has it."""

    def __init__(self, view: View, fields: Sequence[link.Field[Any]]) -> None:
        self._view, self._kinds = view, {field.name: field.kind for field in fields}
        self.values: dict[str, object] = {}

    def select(self, name: str, title: str, options: Mapping[str, str]) -> str:
        """One of several, by name; `options` gives their titles."""
        names, start = list(options), str(self._view[name])
        chosen = st.selectbox(title, names, names.index(start), format_func=options.__getitem__, key=self._view.key(name))
        self.values[name] = chosen
        return chosen

    def whole(self, name: str, title: str, *, usual: int | None = None, of: str = "", width: int = 150) -> int:
        """A whole number. `usual`: what holds while the link says nothing, where it follows other choices (`of`)."""
        low, high = self._bounds(name)
        start = cast("int | None", self._view[name]) or usual or int(low)
        key = "-".join(filter(None, (self._view.key(name), of)))
        found = int(st.number_input(title, int(low), int(high), start, key=key, width=width))
        self.values[name] = None if found == usual else found
        return found

    def number(self, name: str, title: str, *, start: float | None = None, width: int = 180) -> float:
        """A number. `start`: where the link may say nothing."""
        low, high = self._bounds(name)
        at, key = cast("float | None", self._view[name]), self._view.key(name)
        # Where a switch beside it has the field's own key, the number needs another.
        place = key if start is None else f"{key}-value"
        found = float(st.number_input(title, low, high, float(at or start or low), key=place, format="%g", width=width))
        self.values[name] = found
        return found

    def share(self, name: str, title: str, low: float, step: float) -> float:
        """A part of a whole, on a slider from `low` to the highest that the link takes."""
        high, start = self._bounds(name)[1], cast(float, self._view[name])
        self.values[name] = found = float(st.slider(title, low, high, start, step, key=self._view.key(name)))
        return found

    def flag(self, name: str, title: str) -> bool:
        """Yes or no."""
        self.values[name] = found = st.toggle(title, bool(self._view[name]), key=self._view.key(name))
        return found

    def delta(self, name: str) -> float:
        """δ, a power of ten or what the link asks for."""
        asked = cast(float, self._view[name])
        options = sorted({*DELTAS, asked})
        found = st.select_slider("δ", options, asked, format_func=lambda one: f"{one:g}", key=self._view.key(name))
        self.values[name] = found
        return float(found)

    def _bounds(self, name: str) -> tuple[float, float]:
        kind = self._kinds[name]
        kind = kind.kind if isinstance(kind, link.Maybe) else kind
        assert isinstance(kind, (link.Whole, link.Number)), name
        return kind.low, kind.high


@dataclass(frozen=True)
class Game:
    """An attack to be played: its words, and how many releases it takes on each side."""

    name: str
    title: str
    adversary: str
    n_releases: int


def attacks(
    games: Iterable[Game],
    play: Callable[[str], Audited],
    setting: Hashable,
    *,
    key: str,
    than: Callable[[Audited], str],
    more: Callable[[str, Audited], str] = lambda name, found: "",
) -> None:
    """A button for each attack, and what it proved of this `setting` once it was played; another setting, another game.

    `than` names what the bound is held against: "is claimed". `more`: a sentence after the bound, by the game's name.
    """
    kept = st.session_state.setdefault(f"{key}s-done", {})
    for game in games:
        st.markdown(f"**{game.title}.** The attacker {game.adversary}.")
        if st.button(f"Play {2 * game.n_releases:,} rounds", key=f"{key}-{game.name}"):
            with st.spinner("Playing ..."):
                kept[game.name, setting] = play(game.name)
        if (found := cast("Audited | None", kept.get((game.name, setting)))) is not None:
            least = math.floor(100 * found.lower_bound) / 100
            verdict = "more" if least > found.claimed else "no more"
            st.markdown(
                f"Audited: **ε is at least {least:.2f}**, {verdict} than {than(found)} "
                f"({found.confidence:.0%} confidence, {found.trials:,} releases a side, δ = {found.delta:g})."
                + more(game.name, found)
            )
