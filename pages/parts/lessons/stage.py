"""The context of a lesson's step: its texts, the visitor's settings, and a memory of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TypeVar, cast

import streamlit as st

from dpcl_core.lessons.text import Control, Step
from pages.parts.shell import link

T = TypeVar("T")


def kind(control: Control) -> link.Number:
    """The codec kind of a control in a link."""
    return link.Number(control.least, control.most)


@dataclass(frozen=True)
class Stage:
    """One step of a lesson in the current session.

    `values`: the lesson's control values by name, updated from the widgets. `hidden`: controls hidden by the link. `epoch`
    gives the widget keys of the current view: a new view gets new widgets.
    """

    lesson: str
    step: Step
    controls: Mapping[str, Control]
    values: dict[str, float]
    hidden: frozenset[str]
    epoch: Callable[[str], str]
    dark: bool

    def key(self, name: str) -> str:
        """The key of a widget or a card of this step."""
        return self.epoch(f"{self.lesson}-{self.step.key}-{name}")

    def press(self, label: str, do: Callable[[], T], *of: object, why_not: str = "") -> T | None:
        """Draws the button of the step; returns the last result of `do` for these settings (None: not pressed yet).

        The button is drawn first; `do` imports what it needs. `why_not`: the reason if the button is disabled.
        """
        if st.button(label, key=self.key("go"), type="primary", disabled=bool(why_not), help=why_not or None):
            with st.spinner("One moment ..."):
                return self.remember(do(), "done", *of)
        return cast("T | None", self.remembered("done", *of))

    def remembered(self, name: str, *of: object) -> object | None:
        """The session's value under this name for these settings; None if there is none."""
        return self._memory().get((name, *of))

    def remember(self, value: T, name: str, *of: object) -> T:
        """Keeps a value for the session under this name and these settings; returns it."""
        self._memory()[(name, *of)] = value
        return value

    def forget(self) -> None:
        """Resets the step."""
        self._memory().clear()

    def see(self) -> None:
        """Draws the heading and text above the results."""
        st.subheader("See", anchor=False)
        st.markdown(self.step.see)

    def choose(self, name: str, options: tuple[float, ...]) -> float:
        """Draws a row of values for a control; only text if the link hides it or sets another value. Returns the value."""
        control, now = self.controls[name], self.values[name]
        if self._is_fixed(control, options):
            return now
        key, shown = self.epoch(f"{self.lesson}-{name}"), kind(control).write
        picked = st.segmented_control(control.title, options, default=now, format_func=shown, required=True, key=key)
        self.values[name] = now if picked is None else picked
        return self.values[name]

    def slide(self, name: str, options: tuple[float, ...]) -> float:
        """As `choose`, with a slider, for too many values for a row."""
        control, now = self.controls[name], self.values[name]
        if self._is_fixed(control, options):
            return now
        key, shown = self.epoch(f"{self.lesson}-{name}"), kind(control).write
        self.values[name] = st.select_slider(control.title, options, value=now, format_func=shown, key=key)
        return self.values[name]

    def latest(self, name: str, make: Callable[[], T], *of: object) -> T:
        """The result of `make` for these settings, recomputed when they change; only the latest is kept."""
        kept = cast("tuple[tuple[object, ...], T] | None", self.remembered(name))
        if kept is not None and kept[0] == of:
            return kept[1]
        return self.remember((of, make()), name)[1]

    def _is_fixed(self, control: Control, options: tuple[float, ...]) -> bool:
        """Whether the control is hidden or has another value; if so, draws its value as text."""
        now = self.values[control.name]
        if control.name not in self.hidden and now in options:
            return False
        st.markdown(f"{control.title}: **{kind(control).write(now)}**")
        return True

    def _memory(self) -> dict[tuple[object, ...], object]:
        kept: dict[tuple[object, ...], object] = st.session_state.setdefault(f"lesson:{self.lesson}:{self.step.key}", {})
        return kept


class Act(Protocol):
    """The function of a lesson's step: draws its task and, once done, its result.

    Returns the index of the true choice; None until the step is done.
    """

    def __call__(self, stage: Stage) -> int | None: ...


def act(lesson: str, step: Step) -> Act:
    """The function of a step, of the same name in the lesson's module, imported on first use."""
    return cast(Act, getattr(import_module(f"pages.parts.lessons.{lesson}"), step.key.replace("-", "_")))


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage with `digits` decimals."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"
