"""What a step of a lesson is given to act on: its words, the visitor's settings, and a memory of what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

import streamlit as st

from dpcl_core.lessons.text import Step
from pages.parts.shell import link

T = TypeVar("T")


@dataclass(frozen=True)
class Control(Generic[T]):
    """A setting that a lesson's steps share and its links carry. `name` is what a link hides it by; `key` is one letter."""

    name: str
    key: str
    title: str
    kind: link.Kind[T]
    default: T


@dataclass(frozen=True)
class Stage:
    """One step of a lesson as it is played now.

    `values`: the lesson's controls by name; a step puts back what a widget says. `hidden`: the controls that a link took
    away. Widgets live as long as `epoch`, which names their keys: the view they started from.
    """

    lesson: str
    step: Step
    values: dict[str, object]
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

    def choose(self, control: Control[T], options: tuple[T, ...]) -> T:
        """A row of values for a control of the lesson; just the value where a link hides it or names another."""
        now, shown = cast(T, self.values[control.name]), control.kind.write
        if self._is_fixed(control, options):
            return now
        key = self.epoch(f"{self.lesson}-{control.name}")
        picked = st.segmented_control(control.title, options, default=now, format_func=shown, required=True, key=key)
        self.values[control.name] = now if picked is None else picked
        return cast(T, self.values[control.name])

    def slide(self, control: Control[T], options: tuple[T, ...]) -> T:
        """The same as a slider, for values that are more than a row can hold."""
        now, shown = cast(T, self.values[control.name]), control.kind.write
        if self._is_fixed(control, options):
            return now
        key = self.epoch(f"{self.lesson}-{control.name}")
        self.values[control.name] = st.select_slider(control.title, options, value=now, format_func=shown, key=key)
        return cast(T, self.values[control.name])

    def latest(self, name: str, make: Callable[[], T], *of: object) -> T:
        """What `make` gave for these settings, made anew where they changed; only the latest is kept."""
        kept = cast("tuple[tuple[object, ...], T] | None", self.remembered(name))
        if kept is not None and kept[0] == of:
            return kept[1]
        return self.remember((of, make()), name)[1]

    def _is_fixed(self, control: Control[T], options: tuple[T, ...]) -> bool:
        """Whether a control is not offered here; its value is then written."""
        now = cast(T, self.values[control.name])
        if control.name not in self.hidden and now in options:
            return False
        st.markdown(f"{control.title}: **{control.kind.write(now)}**")
        return True

    def _memory(self) -> dict[tuple[object, ...], object]:
        kept: dict[tuple[object, ...], object] = st.session_state.setdefault(f"lesson:{self.lesson}:{self.step.key}", {})
        return kept


class Act(Protocol):
    """What a lesson's module gives for each step: it draws what to do and, once it was done, what there is to see.

    Returns the number of the choice that turned out true; None while the step has not been done.
    """

    def __call__(self, stage: Stage) -> int | None: ...


Acts = Mapping[str, Act]
