"""The context of a lesson's step: its texts, the visitor's settings, and a memory of results."""

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from string import Formatter
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from dpcl_core.elements import element
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.figures import stream
from dpcl_core.figures.picture import Picture, Provenance, epsilon_text
from dpcl_core.lessons import text
from dpcl_core.lessons.text import Chart, Control, Lesson, Step
from dpcl_core.privacy import statement
from dpcl_core.runs.rooms import Rooms
from pages.parts import fields, figure_card, layout, link, state, visitor
from pages.parts.text import percent, plain

T = TypeVar("T")
_HIGHEST = 205  # pixels of a figure before it is enlarged, in presenter size: it shares the screen with its explanation


class Waiting(Exception):
    """The step has no result before the visitor's next press."""


@dataclass(frozen=True)
class Stage:
    """One step of a lesson in the current session.

    `values`: the lesson's control values by name, updated from the widgets. `hidden`: controls hidden by the link. `epoch`
    gives the widget keys of the current view: a new view gets new widgets. `beside`: where the text on the
    results goes, if not above them.
    """

    lesson: str
    step: Step
    controls: Mapping[str, Control]
    values: dict[str, float]
    hidden: frozenset[str]
    epoch: Callable[[str], str]
    dark: bool
    beside: DeltaGenerator | None = None

    def key(self, name: str) -> str:
        """The key of a widget or a card of this step."""
        return self.epoch(f"{self.lesson}-{self.step.key}-{name}")

    def press(self, label: str, do: Callable[[], T], *settings: object) -> T:
        """Draws the button of the step; returns the last result of `do` for these settings, or raises Waiting.

        The button is drawn first; `do` imports what it needs.
        """
        place = ("done", *settings)
        if st.button(label, key=self.key("go"), type="primary"):
            with st.spinner("One moment ..."):
                self.memory[place] = do()
        if place not in self.memory:
            raise Waiting
        return cast(T, self.memory[place])

    def results(self, label: str, do: Callable[[], T], *settings: object) -> T:
        """As `press`, followed by the heading of the results."""
        done = self.press(label, do, *settings)
        self.see()
        return done

    def chosen(self, label: str, do: Callable[[float], T], name: str, options: tuple[float, ...]) -> tuple[T, float]:
        """A control and the button of a step whose result is that of `do` for the control's value; returns both."""
        value = self.choose(name, options)
        return self.results(label, lambda: do(value), value), value

    def moved(self, label: str, **controls: tuple[float, ...]) -> tuple[float, ...]:
        """The button of a step whose result follows its controls; draws these and the heading, returns their values."""
        self.press(label, lambda: True)
        with st.container(horizontal=True, gap="medium"):
            values = tuple(self.choose(name, options) for name, options in controls.items())
        self.see()
        return values

    def moved_in(
        self, label: str, do: Callable[[float], T], name: str, options: tuple[float, ...]
    ) -> tuple[dict[float, T], float, float]:
        """The button of a step with one control for what to look at in the results of `do`, by option: these, the control's
        value, and the option nearest to it, since a link may set any value.
        """
        done, value = self.press(label, lambda: {option: do(option) for option in options}), self.choose(name, options)
        self.see()
        return done, value, min(options, key=lambda option: abs(option - value))

    def see(self) -> None:
        """Draws the heading and text above the results."""
        with self.beside or st.container(key="lesson-see"):
            st.subheader("See", anchor=False)
            layout.markdown(self.step.see)

    def choose(self, name: str, options: tuple[float, ...]) -> float:
        """Draws a control, as a row of up to five values or as a slider, and returns its value.

        Draws only text if the link hides the control or sets another value.
        """
        control, now, key = self.controls[name], self.values[name], self.epoch(f"{self.lesson}-{name}")
        kind = link.Number(control.least, control.most)

        def shown(value: float) -> str:
            return kind.write(value).replace("inf", "∞")

        if name in self.hidden or now not in options:
            st.markdown(f"{control.title}: **{shown(now)}**")
        elif len(options) > 5:
            self.values[name] = st.select_slider(control.title, options, value=now, format_func=shown, key=key)
        else:
            self.values[name] = fields.buttons(control.title, options, now, shown, key=key)
        return self.values[name]

    def card(
        self, picture: Picture, provenance: Provenance | None, table: pd.DataFrame, title: str, *, name: str = "",
        note: str = "",
    ) -> None:  # fmt: skip
        """Draws a figure as a card with its numbers to download. `name`: of the card, if not the step's."""
        key = f"lesson-{name or self.step.key}"
        picture = picture.at_most(_HIGHEST) if layout.is_on() else picture
        figure_card.show(picture, provenance, key=key, title=title, note=note, table=table)

    def curves(
        self, lines: Mapping[str, Sequence[float]] | pd.DataFrame, x: Sequence[float] = (), *, chosen: float | None = None,
        table: pd.DataFrame | None = None, title: str = "", source: str = "", **found: object,
    ) -> None:  # fmt: skip
        """Draws the step's chart with a line for each name, of its values at the places `x`; or a table's series, x and y.

        `found`: what the finding says beside the values of controls. `chosen`: a place on the x axis to mark. `table`: the
        numbers to download, if not all. `title`, `source`: of the chart, where they are computed. Left out are values that
        are not known, and on a logarithmic axis zeros.
        """
        y = self.chart.y
        assert y is not None
        if not isinstance(lines, pd.DataFrame):
            points = [(name, *point) for name, values in lines.items() for point in zip(x, values, strict=True)]
            lines = pd.DataFrame(points, columns=["series", "x", "y"]).dropna()
            lines = lines[lines["y"] > 0] if y.is_log else lines
        picture = stream.curves(lines, self.chart.x, y, self._finding(found), chosen=chosen, dark=self.dark)
        self._draw_chart(picture, lines if table is None else table, title, source)

    def bars(self, values: Mapping[str, float], *, title: str = "", source: str = "", **found: object) -> None:
        """Draws the step's chart with a bar for each value, by name; texts as in `curves`."""
        table = pd.DataFrame(list(values.items()), columns=["name", "value"])
        self._draw_chart(stream.bars(table, self.chart.x, self._finding(found), dark=self.dark), table, title, source)

    def strips(
        self, rows: Mapping[str, NDArray[np.float64]], columns: Sequence[str], *, source: str = "", **found: object
    ) -> None:
        """Draws the step's chart as rows of square pictures, pixels [n, side * side] of each row; texts as in `curves`."""
        pixels = {name: list(row) for name, row in rows.items()}
        picture = stream.strips(pixels, columns, finding=self._finding(found), dark=self.dark)
        numbers = [(name, *row) for name, drawn in rows.items() for row in drawn.tolist()]
        self._draw_chart(picture, pd.DataFrame(numbers).rename(columns={0: "row"}), "", source)

    @property
    def chart(self) -> Chart:
        """The words of the step's chart."""
        assert self.step.chart is not None
        return self.step.chart

    def _finding(self, found: Mapping[str, object]) -> str:
        return _Words().vformat(self.chart.finding, (), {**self.values, **found})

    def _draw_chart(self, picture: Picture, table: pd.DataFrame, title: str, source: str) -> None:
        provenance = Provenance(source or self.chart.source, None, "")
        self.card(picture, provenance, table, title or self.chart.title, name=f"{self.lesson}-{self.step.key}")

    def latest(self, name: str, make: Callable[[], T], *settings: object) -> T:
        """The result of `make` for these settings, recomputed when they change; only the latest is kept."""
        if self.memory.get(name, (None,))[0] != settings:
            self.memory[name] = settings, make()
        return cast(T, self.memory[name][1])

    @property
    def memory(self) -> dict[object, Any]:
        """What the session remembers of this step."""
        return cast("dict[object, Any]", st.session_state.setdefault(f"lesson:{self.lesson}:{self.step.key}", {}))


class _Words(Formatter):
    """Fills findings in; formats as `lessons.text.Chart` has them."""

    def format_field(self, value: Any, spec: str) -> str:
        written: Mapping[str, Callable[[Any], str]] = {
            "pc": percent, "pc0": lambda share: percent(share, 0), "eps": statement.shown_number,
            "least": statement.at_least, "budget": epsilon_text,
        }  # fmt: skip
        return written[spec](value) if spec in written else format(value, spec)


def reached(value: float, *bounds: float) -> int:
    """How many of these ascending bounds a value reaches: the number of the choice that it makes true."""
    return bisect(bounds, value)


def by_name(names: Iterable[str], rows: Iterable[Iterable[float]]) -> dict[str, tuple[float, ...]]:
    """The values of each name, of rows with one value for each."""
    return dict(zip(names, zip(*rows, strict=True), strict=True))


# The function of a step draws its task and its result; it returns the index of the true choice.
Act = Callable[[Stage], int]


# The module of `pages/parts` with the functions of a lesson's steps.
MODULES: Mapping[str, str] = {
    "coin": "lesson_claims", "unit": "lesson_claims", "contract": "lesson_claims", "adding": "lesson_digits",
    "digits": "lesson_digits", "forgetting": "lesson_digits", "rare": "lesson_digits", "shared": "lesson_shared",
    "audit": "lesson_shared", "sign": "lesson_sign", "modes": "lesson_sign", "surprise": "lesson_claims",
    "network": "lesson_network", "members": "lesson_network", "gradient": "lesson_network", "choice": "lesson_network",
}  # fmt: skip


def act(lesson: str, step: Step) -> Act:
    """The function of a step, named as its key, in the lesson's module, which is imported on first use."""
    return cast(Act, getattr(import_module(f"pages.parts.{MODULES[lesson]}"), step.key.replace("-", "_")))


# A lesson in a classroom: a member's predictions are votes, and its teacher asks the class a step's question.


def strip(step: Step) -> None:
    """Draws what a visitor who is in a room, or who has opened one, needs beside a step; nothing for others."""
    try:
        rooms, token = Rooms(state.whole_store()), visitor.token()
    except StoreTrouble:  # a lesson can do without
        return
    try:
        if owned := rooms.of_owner(token):
            _teacher(rooms, token, *owned[0], step)
        elif (code := rooms.room_of(token)) is not None:
            figure_card.mounted(element.BALLOT)(data=element.ballot(code), key=f"ballot-{code}")
            layout.arrow("teach", "Classroom", {"view": "classroom", "room": code})
    except (BadInput, StoreTrouble) as trouble:  # the room has ended in this moment, or the disk is full
        st.caption(plain(str(trouble)))


def _teacher(rooms: Rooms, token: str, code: str, title: str, step: Step) -> None:
    """Draws the button that asks the class; then the votes, as they come in."""
    poll = rooms.state(code).poll
    if poll is not None and not poll.is_about(step.predict, step.choices):
        poll = None
    with st.container(horizontal=True, gap="small", key="lesson-classroom"):
        is_open = poll is not None and poll.is_open  # asking once more would forget the answers so far
        if not is_open and st.button("Ask my class this question", key="lesson-ask", help=f"In “{plain(title)}”."):
            rooms.ask(code, token, step.predict, step.choices)
            st.rerun()
        layout.arrow("teach", f"Classroom {plain(title)}", {"view": "classroom", "room": code})
    if poll is not None:
        figure_card.mounted(element.ROOM)(data=element.room_document(code, is_poll_alone=True), key=f"lesson-votes-{code}")


# The course on the page Lessons: the choice of part and lesson, the way to the next one, and questions to think about.


def lesson(view: state.View, linked: str) -> str:
    """Draws the parts of the course and the lessons of one; returns the name of the chosen lesson. `linked`: the link's."""
    parts = list(text.PARTS)
    counts = {name: f"Part {place} of {len(parts)}: {name}" for place, name in enumerate(parts, start=1)}
    part = fields.choice("Part", counts, text.part_of_lesson(linked), key=view.key("part"))
    lessons = {name: text.load(name) for name in text.PARTS[part]}
    titles = {name: f"{text.number(name)}. {one.title}" for name, one in lessons.items()}
    about = "\n\n".join(f"{one.question} About {one.minutes} minutes." for one in lessons.values())
    return fields.choice("Lesson", titles, linked, key=view.key(f"lesson-{parts.index(part)}"), help=about)


def onward(view: state.View, name: str, codec: link.Codec, values: Mapping[str, object]) -> None:
    """Draws the ways on from a lesson that is done: its part's exercises and the next one, unless it stands alone.

    `values`: of the page's link.
    """
    if not view["alone"]:
        part = text.part_of_lesson(name)
        layout.arrow("teach", f"Exercises: {part}", {"view": "exercises", "p": str(number(part))})
        if (place := text.number(name)) < len(text.NAMES):
            following = text.NAMES[place]
            query = codec.write({**values, "lesson": following, "step": None, "first": None})
            layout.arrow("lessons", f"Next lesson: {text.load(following).title}", view.linked(query))
    layout.arrow("explore", "Try it in the Playground", {"view": "playground"})


def questions(of: Lesson) -> None:
    """Draws the questions to think about after a lesson; a press on one opens its answer."""
    with layout.card("lesson-think"):
        st.subheader("Think", anchor=False)
        for one in of.think:
            with st.expander(" ".join(one.question.split())):
                layout.markdown(one.answer)


# The choice of a part of the course, on pages about one part.


CODEC = link.Codec(link.Field("part", "p", "part", link.Whole(1, len(text.PARTS)), 1, word="part"))


def draw_choice(view: state.View, width: int | None = None) -> str:
    """Draws the choice, as wide as its column or so many pixels; returns the part's name."""
    parts = dict(enumerate(text.PARTS, start=1))
    titles = {place: f"{place}. {part}" for place, part in parts.items()}
    return parts[fields.select(view, "part", "Part", titles, width=width or "stretch")]


def number(part: str) -> int:
    """The number of a part, from 1."""
    return list(text.PARTS).index(part) + 1
