"""The calculator shared by all claims: an expander with controls, tables of terms, a run's own claim, and attacks to run.

A published claim is a `Claim`: its texts, its link fields, the runs it applies to, and its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.privacy.statement import shown, words
from pages.parts.shell import layout, link, pickers
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.lower_bound import Audited

TRIALS = 1000
DELTAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
UNBOUNDED = {"**accounted** by the ledger": "no bound"}


@dataclass(frozen=True)
class Claim:
    """A published claim on the Privacy page.

    `fields`: its link fields, the first one for whether it is open. `source`: how the source of such a run's claim begins.
    `lines`: such a run's table rows (claimed, computed, accounted), and the inputs from which they were computed. `body`:
    draws the inside, given the run on the page if its ε is this claim; returns the link values.
    """

    title: str
    about: str
    fields: Sequence[link.Field[Any]]
    source: str
    lines: Callable[[Guarantee], tuple[Mapping[str, str], str]]
    body: Callable[[View, Guarantee | None], Mapping[str, object]]

    def is_of(self, given: Guarantee) -> bool:
        """Whether a run's ε is this claim."""
        return given.claim is not None and given.claim.source.startswith(self.source)


def part(claim: Claim, view: View, given: Guarantee | None) -> dict[str, object]:
    """Draws the expander, its inside only while open; returns the link values. `given`: of a run with this claim."""
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
    """Draws a run's claimed, computed and accounted ε, and the lower bound proved by the audit at its end."""
    least = "no audit" if given.audit is None else f"at least {math.floor(10 * given.audit.lower_bound) / 10:g}"
    rows, source = claim.lines(given)
    with layout.card("claim"):
        st.markdown("**Claimed, accounted, audited**")
        layout.table(("of this run", "ε"), [*rows.items(), ("**audited**", f"**{least}**")])
        st.caption(plain(words(given).audited or "This run was not audited."))
        st.caption(plain(source))


def bound(epsilon: float) -> str:
    """An accounted ε as text; "no bound" if infinite."""
    return "no bound" if math.isinf(epsilon) else shown(epsilon)


class Controls:
    """The widgets of a section, bounded as in its link; `values` holds their values for the link."""

    def __init__(self, view: View, fields: Sequence[link.Field[Any]]) -> None:
        self._view, self._kinds = view, {field.name: field.kind for field in fields}
        self.values: dict[str, object] = {}

    def select(self, name: str, title: str, options: Mapping[str, str]) -> str:
        """One of several, by name; `options` gives their titles."""
        chosen = pickers.select(self._view, name, title, options)
        self.values[name] = chosen
        return chosen

    def whole(self, name: str, title: str, *, usual: int | None = None, of: str = "", width: int = 150) -> int:
        """A whole number. `usual`: the default if the link has no value; it depends on other choices, named by `of`."""
        low, high = self._bounds(name)
        start = cast("int | None", self._view[name]) or usual or int(low)
        key = "-".join(filter(None, (self._view.key(name), of)))
        value = int(st.number_input(title, int(low), int(high), start, key=key, width=width))
        self.values[name] = None if value == usual else value
        return value

    def number(self, name: str, title: str, *, start: float | None = None, width: int = 180) -> float:
        """A number. `start`: the default if the link has no value."""
        low, high = self._bounds(name)
        at, key = cast("float | None", self._view[name]), self._view.key(name)
        # With a default, a toggle beside it uses the field's key, so the number needs another one.
        place = key if start is None else f"{key}-value"
        value = float(st.number_input(title, low, high, float(at or start or low), key=place, format="%g", width=width))
        self.values[name] = value
        return value

    def share(self, name: str, title: str, low: float, step: float) -> float:
        """A share on a slider, from `low` to the link's upper bound."""
        high, start = self._bounds(name)[1], cast(float, self._view[name])
        self.values[name] = value = float(st.slider(title, low, high, start, step, key=self._view.key(name)))
        return value

    def flag(self, name: str, title: str) -> bool:
        """A toggle."""
        self.values[name] = value = st.toggle(title, bool(self._view[name]), key=self._view.key(name))
        return value

    def delta(self, name: str) -> float:
        """δ: a power of ten, or the value of the link."""
        linked = cast(float, self._view[name])
        options = sorted({*DELTAS, linked})
        value = st.select_slider("δ", options, linked, format_func=lambda one: f"{one:g}", key=self._view.key(name))
        self.values[name] = value
        return float(value)

    def _bounds(self, name: str) -> tuple[float, float]:
        kind = self._kinds[name]
        kind = kind.kind if isinstance(kind, link.Maybe) else kind
        assert isinstance(kind, (link.Whole, link.Number)), name
        return kind.low, kind.high


@dataclass(frozen=True)
class Game:
    """An attack to run: its texts, and its number of releases per side."""

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
    more: Callable[[str, Audited], str] = lambda name, result: "",
) -> None:
    """Draws a button for each attack and, once run, the lower bound it proved for this `setting`.

    `than` names what the bound is compared with: "is claimed". `more`: a sentence after the bound, by the attack's name.
    """
    results = st.session_state.setdefault(f"{key}s-done", {})
    for game in games:
        st.markdown(f"**{game.title}.** The attacker {game.adversary}.")
        if st.button(f"Play {2 * game.n_releases:,} rounds", key=f"{key}-{game.name}"):
            with st.spinner("Playing ..."):
                results[game.name, setting] = play(game.name)
        if (result := cast("Audited | None", results.get((game.name, setting)))) is not None:
            least = math.floor(100 * result.lower_bound) / 100
            verdict = "more" if least > result.claimed else "no more"
            st.markdown(
                f"Audited: **ε is at least {least:.2f}**, {verdict} than {than(result)} "
                f"({100 * result.confidence:g} % confidence, {result.trials:,} releases a side, δ = {result.delta:g})."
                + more(game.name, result)
            )
