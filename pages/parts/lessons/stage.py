"""What a step of a lesson is given to act on: its words, the visitor's settings, and a memory of what was done."""

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
    """How a link writes a control."""
    return link.Number(control.least, control.most)


@dataclass(frozen=True)
class Stage:
    """One step of a lesson as it is played now.

    `values`: the lesson's controls by name; a step puts back what a widget says. `hidden`: the controls that a link took
    away. Widgets live as long as `epoch`, which names their keys: the view they started from.
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
        """The button that does it, and what it last gave for these settings (None: not pressed yet).

        The button comes first and `do` loads what it needs. `why_not`: a reason why it cannot be pressed any more.
        """
        if st.button(label, key=self.key("go"), type="primary", disabled=bool(why_not), help=why_not or None):
            with st.spinner("One moment ..."):
                return self.remember(do(), "done", *of)
        return cast("T | None", self.remembered("done", *of))

    def remembered(self, name: str, *of: object) -> object | None:
        """What this visit has kept under the name for these settings."""
        return self._memory().get((name, *of))

    def remember(self, value: T, name: str, *of: object) -> T:
        """Keeps a value for the visit, beside those for other settings."""
        self._memory()[(name, *of)] = value
        return value

    def forget(self) -> None:
        """The step from its beginning."""
        self._memory().clear()

    def see(self) -> None:
        """What to look at, above what was found."""
        st.subheader("See", anchor=False)
        st.markdown(self.step.see)

    def choose(self, name: str, options: tuple[float, ...]) -> float:
        """A row of values for a control of the lesson; just the value where a link hides it or names another."""
        control, now = self.controls[name], self.values[name]
        if self._is_fixed(control, options):
            return now
        key, shown = self.epoch(f"{self.lesson}-{name}"), kind(control).write
        picked = st.segmented_control(control.title, options, default=now, format_func=shown, required=True, key=key)
        self.values[name] = now if picked is None else picked
        return self.values[name]

    def slide(self, name: str, options: tuple[float, ...]) -> float:
        """The same as a slider, for values that are more than a row can hold."""
        control, now = self.controls[name], self.values[name]
        if self._is_fixed(control, options):
            return now
        key, shown = self.epoch(f"{self.lesson}-{name}"), kind(control).write
        self.values[name] = st.select_slider(control.title, options, value=now, format_func=shown, key=key)
        return self.values[name]

    def latest(self, name: str, make: Callable[[], T], *of: object) -> T:
        """What `make` gave for these settings, made anew where they changed; only the latest is kept."""
        kept = cast("tuple[tuple[object, ...], T] | None", self.remembered(name))
        if kept is not None and kept[0] == of:
            return kept[1]
        return self.remember((of, make()), name)[1]

    def _is_fixed(self, control: Control, options: tuple[float, ...]) -> bool:
        """Whether a control is not offered here; its value is then written."""
        now = self.values[control.name]
        if control.name not in self.hidden and now in options:
            return False
        st.markdown(f"{control.title}: **{kind(control).write(now)}**")
        return True

    def _memory(self) -> dict[tuple[object, ...], object]:
        kept: dict[tuple[object, ...], object] = st.session_state.setdefault(f"lesson:{self.lesson}:{self.step.key}", {})
        return kept


class Act(Protocol):
    """What a lesson's module gives for each step: it draws what to do and, once it was done, what there is to see.

    Returns the number of the choice that turned out true; None while the step has not been done.
    """

    def __call__(self, stage: Stage) -> int | None: ...


def act(lesson: str, step: Step) -> Act:
    """The code of a step: the function of its name in the lesson's module, which is loaded when a step is first done."""
    return cast(Act, getattr(import_module(f"pages.parts.lessons.{lesson}"), step.key.replace("-", "_")))


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage with so many digits after the point."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"
