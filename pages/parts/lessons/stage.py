"""The context of a lesson's step: its texts, the visitor's settings, and a memory of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar, cast

import streamlit as st

from dpcl_core.lessons.text import Control, Step
from pages.parts.shell import link, terms

T = TypeVar("T")
_MOST_IN_ROW = 5


class Waiting(Exception):
    """The step has no result before the visitor's next press."""


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

    def press(self, label: str, do: Callable[[], T], *of: object, why_not: str = "") -> T:
        """Draws the button of the step; returns the last result of `do` for these settings, or raises Waiting.

        The button is drawn first; `do` imports what it needs. `why_not`: the reason if the button is disabled.
        """
        if st.button(label, key=self.key("go"), type="primary", disabled=bool(why_not), help=why_not or None):
            with st.spinner("One moment ..."):
                return self.remember(do(), "done", *of)
        if ("done", *of) not in self._memory():
            raise Waiting
        return cast(T, self.remembered("done", *of))

    def results(self, label: str, do: Callable[[], T], *of: object, why_not: str = "") -> T:
        """As `press`, followed by the heading of the results."""
        done = self.press(label, do, *of, why_not=why_not)
        self.see()
        return done

    def see(self) -> None:
        """Draws the heading and text above the results."""
        st.subheader("See", anchor=False)
        terms.markdown(self.step.see)

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

    def choose(self, name: str, options: tuple[float, ...]) -> float:
        """Draws a control, as a row of up to five values or as a slider, and returns its value.

        Draws only text if the link hides the control or sets another value.
        """
        control, now, key = self.controls[name], self.values[name], self.epoch(f"{self.lesson}-{name}")
        write = kind(control).write

        def shown(value: float) -> str:
            return write(value).replace("inf", "∞")

        picked: float | None = None
        if name in self.hidden or now not in options:
            st.markdown(f"{control.title}: **{shown(now)}**")
        elif len(options) > _MOST_IN_ROW:
            picked = st.select_slider(control.title, options, value=now, format_func=shown, key=key)
        else:
            picked = st.segmented_control(control.title, options, default=now, format_func=shown, required=True, key=key)
        self.values[name] = now if picked is None else picked
        return self.values[name]

    def latest(self, name: str, make: Callable[[], T], *of: object) -> T:
        """The result of `make` for these settings, recomputed when they change; only the latest is kept."""
        kept = cast("tuple[tuple[object, ...], T] | None", self.remembered(name))
        if kept is not None and kept[0] == of:
            return kept[1]
        return self.remember((of, make()), name)[1]

    def _memory(self) -> dict[tuple[object, ...], object]:
        kept: dict[tuple[object, ...], object] = st.session_state.setdefault(f"lesson:{self.lesson}:{self.step.key}", {})
        return kept


# The function of a step draws its task and its result; it returns the index of the true choice.
Act = Callable[[Stage], int]


def act(lesson: str, step: Step) -> Act:
    """The function of a step, of the same name in the lesson's module, imported on first use."""
    return cast(Act, getattr(import_module(f"pages.parts.lessons.{lesson}"), step.key.replace("-", "_")))
