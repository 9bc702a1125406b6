"""The Playground on Explore: drag ε, with exact or recorded results, and pin up to three states for comparison."""

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import pandas as pd
import streamlit as st

from dpcl_core.elements import calculator, element
from dpcl_core.elements.calculator import SETTINGS, Source
from dpcl_core.errors import BadInput
from dpcl_core.figures import curves, theme
from dpcl_core.figures.picture import Picture, Provenance, epsilon_label
from dpcl_core.methods import catalog as methods
from dpcl_core.results import Result
from dpcl_core.spec import LABELS, LabelSetting
from pages.parts import comparison, fields, figure_card, layout, link, pecl_claim, run_panel, start_box, state, text
from pages.parts.text import WORDS, plain

LETTERS = ("A", "B", "C")
MOST_PINS = len(LETTERS)
Drawn = tuple[Picture, pd.DataFrame]  # a figure of states and its table
_SHORT: dict[LabelSetting, str] = {
    "prior-const": "one list", "prior": "task lists", "dp-learned": "learned list", "data": "labels from data",
}  # fmt: skip
CODEC = link.Codec(
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("labels", "l", "label list", link.Choice(tuple(SETTINGS)), "prior-const"),
    link.Field("tasks", "t", "tasks", link.Choice(tuple(str(n) for n in calculator.TASKS)), "5"),
    link.Field("epsilon", "e", "ε", link.BUDGET, 1.0),
    link.Field("pins", "p", "pinned states", link.Many(link.Text(60), MOST_PINS), ()),
    link.Field("plain", "plain", "plain slider", link.Flag(), False),
    comparison.FIELD,
)


@dataclass(frozen=True)
class State:
    """A state of the playground: a stream at one budget."""

    source: Source
    epsilon: float

    @property
    def name(self) -> str:
        """The display name of the state."""
        run = "" if self.source.is_exact else f", run {self.source.key[:4]}"
        return f"{epsilon_label(self.epsilon)}, {self.source.n_tasks} tasks, {_SHORT[self.source.labels]}{run}"

    def text(self) -> str:
        """The state as written in a link: `run~epsilon`, or `labels~tasks~epsilon` for the digits."""
        where = f"{self.source.labels}~{self.source.n_tasks}" if self.source.is_exact else self.source.key
        return f"{where}~{link.BUDGET.write(self.epsilon)}"


def page() -> None:
    """The view."""
    view = state.View("playground", CODEC)
    run_source, run_notices = _linked_source(view)
    place = layout.heading("Explore", "What happens if I change this?", notices=[*view.read.notices, *run_notices])
    controls, answer = layout.controls_and_answer()
    with controls:
        _controls(view, run_source)
    values = view.values
    source = run_source or calculator.digits(cast(LabelSetting, values["labels"]), int(str(values["tasks"])))

    def draw() -> None:
        with st.container(key="card-drag"):
            epsilon = figure_card.drag(
                source, view["epsilon"], key=view.key("drag" if source.is_exact else f"drag-{source.key}"),
                panels=("accuracy", "matrix", *(["classes"] if source.is_exact else [])), is_plain=bool(values["plain"]),
            )  # fmt: skip
        now = State(source, epsilon)
        if source.is_exact:
            # What this ε would promise, were the noise fresh, in one line that opens; in full where there is no bound.
            given = calculator.digits_guarantee(source.labels, source.n_tasks, epsilon)
            box = layout.folded("What this ε would promise", "play-promise") if given.is_private else st.container()
            if box is not None:
                with box:
                    pecl_claim.privacy_bar({epsilon: given}, chosen=epsilon)
        else:
            run_panel.statement(state.run_result(state.store().get(source.key)), epsilon, is_over=True)
        pins = _pins(view, now)
        values.update(epsilon=epsilon, pins=pins, wanted=None)
        _figures(view, now, [_pinned(pin) for pin in pins], by_plotly=bool(values["plain"]))

    with answer:
        layout.draw_apart(draw, view.settle)
        start_box.asking_helper()
    view.commit()
    layout.actions(place, is_shared=True, help_text=WORDS["playground"]["help"], view=view)


def _linked_source(view: state.View) -> tuple[Source | None, list[str]]:
    """The stored run to show (None: the digits), and a notice if the linked run cannot be shown."""
    if (run_id := st.session_state.get(view.key("run"), view["run"])) is None:
        return None, []
    try:
        source = _trained(str(run_id))
    except BadInput as refused:
        return None, [f"{refused}. Showing the digits instead."]
    return source, [] if source is not None else ["That run has no finished model to show. Showing the digits instead."]


def _trained(run_id: str) -> Source | None:
    run = state.store().get(run_id)
    if not methods.card(run.spec.method).is_in_playground or run.status != "finished":
        raise BadInput("run", run_id, "must be a finished run of the cosine classifier")
    return _read(state.run_result(run))


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs={Result: lambda result: result.run_id})
def _read(result: Result) -> Source | None:
    return calculator.finished_cells(result)


def _controls(view: state.View, source: Source | None) -> None:
    shown, names = None if source is None else source.key, _finished(state.where())
    titles: dict[str | None, str] = {None: "Handwritten digits (exact)"}
    titles |= {run: f"{name} (looked up)" for run, name in names.items()}
    if shown is not None:
        titles.setdefault(shown, f"{shown} (looked up)")
    view.values["run"] = fields.choice(
        "Data", titles, shown, key=view.key("run"),
        help="The bundled digits at any ε, or a finished run of the cosine classifier at the ε it was trained with.",
    )  # fmt: skip
    if source is None:
        lists = {name: title for name, (title, _) in SETTINGS.items()}
        meanings = " ".join(f"**{title}**: {meaning}" for title, meaning in SETTINGS.values())
        help_text = f"Where the classifier's list of labels comes from. {meanings}"
        fields.select(view, "labels", "Label list", lists, st.radio, help=help_text)
        options = {str(n): str(n) for n in calculator.TASKS}
        fields.segmented(view, "tasks", "Tasks", options, help="The same ten digits, divided into this many tasks.")
    else:
        st.markdown(
            f"{plain(source.dataset)}, {LABELS[source.labels]}, {source.n_tasks} tasks, {source.n_seeds} "
            f"seed{'s' if source.n_seeds != 1 else ''}. Other settings are the run's; ε has {len(source.stops)} values."
        )
    fields.flag(view, "plain", "Plain slider", help="For browsers in which the picture does not appear.")
    if source is None:
        st.caption(element.TEACHING)


@st.cache_data(ttl=5, show_spinner=False)
def _finished(where: tuple[str, str, str]) -> dict[str, str]:
    """Names of the finished runs of the cosine classifier; cached briefly so that a drag does not read the store."""
    offered = {name for name, card in methods.CARDS.items() if card.is_in_playground}
    runs = state.store().list_runs(200, states=("finished",), only=lambda run: run.method in offered)
    return {run.id: run.name for run in runs if run.readable_spec is not None}


def _pins(view: state.View, now: State) -> tuple[str, ...]:
    """Draws the pinned states and their buttons; returns the pins."""
    key = view.key("pins")
    pins: tuple[str, ...] = st.session_state.setdefault(key, view["pins"])
    current = now.text()

    def put(changed: tuple[str, ...]) -> None:
        st.session_state[key] = changed

    with st.container(key="pins", horizontal=True, vertical_alignment="center", gap="small"):
        is_full = len(pins) >= MOST_PINS
        st.button(
            "Pin this state", key=view.key("pin"), on_click=put, args=((*pins, current),),
            disabled=is_full or current in pins,
            help="Three states are pinned already." if is_full else "Keep these curves for comparison.",
        )  # fmt: skip
        for index, pin in enumerate(pins):
            pinned = _pinned(pin)
            name = f"{LETTERS[index]}: {pinned.name if pinned is not None else 'a state that no longer exists'}"
            rest = tuple(other for other in pins if other != pin)
            st.button(f"✕ {name}", key=view.key(f"unpin-{index}"), on_click=put, args=(rest,), help="Unpin")
    return pins


def _pinned(text: str) -> State | None:
    """The state that a link names; None for a deleted run or an invalid text."""
    *where, budget = text.split("~")
    try:
        epsilon = link.BUDGET.read(budget)
        if len(where) == 2 and where[0] in SETTINGS and where[1] in {str(n) for n in calculator.TASKS}:
            source: Source | None = calculator.digits(where[0], int(where[1]))
        else:
            source = _trained("~".join(where))
    except ValueError:  # BadInput is one
        return None
    return State(source, source.nearest(epsilon)) if source is not None else None


def _figures(view: state.View, now: State, pins: Sequence[State | None], *, by_plotly: bool) -> None:
    """Draws the figures in tabs. `by_plotly`: see `figure_card.show`."""
    # Short names that fit at the end of a line: now, A, B, C.
    states = {"now": now} | {name: pin for name, pin in zip(LETTERS, pins, strict=False) if pin is not None and pin != now}
    show = partial(_show, states, by_plotly=by_plotly)
    draw: dict[str, Callable[[], None]] = {
        "Accuracy": lambda: show("accuracy", *_curves("accuracy", states, now)),
        "Forgetting": lambda: show("forgetting", *_curves("forgetting", states, now)),
        "Classes": lambda: show("classes", *_classes(states)),
        comparison.TITLE: lambda: _needed(view, states),
    }
    layout.views(draw, "playground-views", comparison.TITLE if view["wanted"] is not None else None)


def _needed(view: state.View, states: dict[str, State]) -> None:
    if not (sources := {name: one.source for name, one in states.items() if one.source.labels != "data"}):
        st.info(comparison.NO_BOUND)
        return
    runs = {name: comparison.Budgets(source.finals) for name, source in sources.items()}
    comparison.panel(view, runs, colours=_colours(states, sources), provenance=_provenance(states))


def _colours(states: dict[str, State], shown: Container[str]) -> list[str]:
    """The colours of the states that are shown."""
    return [theme.colour_of_series(index, text.is_dark()) for index, name in enumerate(states) if name in shown]


def _curves(key: Literal["accuracy", "forgetting"], states: dict[str, State], now: State) -> Drawn:
    """One state and, if available, its results without noise; or several states together."""
    known = [one.source.references for one in states.values()]
    more: dict[str, Any] = {}
    if key == "accuracy":
        more["references"] = known[0] if all(one == known[0] for one in known) else None
    series = {name: one.source.frame(one.epsilon) for name, one in states.items()}
    if len(states) == 1:
        frames = list(series.values())
        if math.inf in now.source.stops and math.isfinite(now.epsilon):
            frames.append(now.source.frame(math.inf))
        frame = pd.concat(frames, ignore_index=True)
        alone = curves.accuracy_over_tasks if key == "accuracy" else curves.forgetting_over_tasks
        picture = figure_card.built(alone, frame, n_tasks=now.source.n_tasks, labels=now.source.labels, **more)
    else:
        frame = pd.concat([rows.assign(state=states[name].name) for name, rows in series.items()], ignore_index=True)
        rows = zip(series.items(), _colours(states, states), strict=True)
        runs = [curves.Series(name, of, colour, states[name].source.labels) for (name, of), colour in rows]
        n_tasks = max(one.source.n_tasks for one in states.values())
        picture = figure_card.built(curves.compared_over_tasks, runs, n_tasks=n_tasks, of=key, **more)
    return picture, frame


def _classes(states: dict[str, State]) -> Drawn:
    accuracies = {name: one.source.class_accuracies(one.epsilon) for name, one in states.items()}
    known = {name: values for name, values in accuracies.items() if values is not None}
    classes = next((states[name].source.classes for name in known), ())
    picture = curves.class_bars(known, classes, colours=_colours(states, known), dark=text.is_dark())
    rows = [
        (states[name].name, seed, label, float(value))
        for name, values in known.items()
        for seed, row in enumerate(values)
        for label, value in zip(classes, row, strict=True)
    ]
    return picture, pd.DataFrame(rows, columns=["state", "seed", "class", "accuracy"])


def _show(states: dict[str, State], key: str, picture: Picture, table: pd.DataFrame, *, by_plotly: bool) -> None:
    """Draws a figure of these states."""
    if len(states) > 1:
        legend = "; ".join(f"{name} is {one.name}" for name, one in states.items())
        picture = picture.saying(f"{picture.finding} Here {legend}.")
    figure_card.show(picture, _provenance(states), key=f"play-{key}", table=table, linked=True, by_plotly=by_plotly)


def _provenance(states: dict[str, State]) -> Provenance:
    first = next(iter(states.values())).source
    return Provenance(
        first.dataset, first.n_people, "DP cosine classifier",
        labels=first.labels if len({one.source.labels for one in states.values()}) == 1 else "several label lists",
        epsilons=tuple(sorted({one.epsilon for one in states.values()})), delta=first.delta,
        n_seeds=tuple(dict.fromkeys(one.source.n_seeds for one in states.values())),
        runs=tuple(sorted({one.source.key for one in states.values() if not one.source.is_exact})),
        is_seeded=any(one.source.is_exact for one in states.values()),
    )  # fmt: skip
