"""Lessons page: one step at a time (predict, do, see, explain); progress is kept in the link."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Final, cast

import streamlit as st

from dpcl_core.elements.element import LESSON
from dpcl_core.lessons import text
from dpcl_core.lessons.text import Lesson
from pages.parts import figure_card, layout, lesson_stage, link
from pages.parts.state import View
from pages.parts.text import WORDS, is_dark

if TYPE_CHECKING:
    from dpcl_core.lessons.edges import Shown
    from dpcl_core.lessons.in_browser import Progress

VIEWS: Final = {"steps": "Lessons", "edges": "Sharp edges"}
PREDICTION: Final = "prediction"  # name under which a link hides the predictions
_FOR_TEACHERS: Final = "for-teachers"
_UNNAMED = "label"  # what a link means that names no lesson: it was the first one when such links were made


@dataclass(frozen=True)
class _Lesson(link.Written):
    """A lesson by its name, or by its number, as somebody types it who sees the number on the page."""

    def read(self, typed: str) -> str:
        found = {str(text.number(name)): name for name in text.NAMES}.get(typed, typed)
        if found not in text.NAMES:
            raise ValueError(typed)
        return found


def _fields() -> list[object]:
    """The fields of the page's link: lesson, step, hidden controls; and by lesson the ticks, predictions and controls."""
    names = {control.name for name in text.NAMES for control in text.load(name).controls}
    instead = text.NAMES[0], f"lessons are 1 to {len(text.NAMES)}, and this is the first"
    fields: list[object] = [
        link.Field("lesson", "l", "lesson", _Lesson(), _UNNAMED, "lesson", False, instead),
        link.Field("step", "s", "step", link.Maybe(link.Whole(1, text.MAX_STEPS)), None, word="step"),
        link.Field("first", "first", "first step of a class", link.Maybe(link.Whole(1, text.MAX_STEPS)), None),
        link.Field("alone", "alone", "this lesson alone", link.Flag(), False),
        link.Field("hide", "hide", "hidden controls", link.Many(link.Choice((*sorted(names), PREDICTION))), ()),
    ]
    for name in text.NAMES:
        lesson, number = text.load(name), text.link_number(name)
        n_steps, choice = len(lesson.steps), link.Maybe(link.Whole(1, 4))
        fields += [
            link.Field(f"{name}:done", f"d{number}", "steps done", link.Many(link.Whole(1, n_steps), n_steps), ()),
            link.Field(f"{name}:predictions", f"p{number}", "predictions", link.Many(choice, n_steps), ()),
            *(
                link.Field(f"{name}:{one.name}", f"{one.key}{number}", one.title, lesson_stage.kind(one), one.default)
                for one in lesson.controls
            ),
        ]
    return fields


CODEC = link.Codec(_fields())


def page() -> None:
    """The page."""
    opened = layout.open_view(VIEWS)
    view = View("lessons", lambda _: CODEC, start=lambda: {"l": text.NAMES[0]})
    linked = str(view["lesson"])
    notices, n_steps = list(view.read.notices), len(text.load(linked).steps)
    if (cast("int | None", view["step"]) or 1) > n_steps:
        notices.append(f"The link asks for step {view['step']}; this lesson has {n_steps}. Showing the last one.")
    place = layout.heading("Lessons", "What does privacy do? Predict, do, see, explain.", notices=notices)
    if opened == "edges":
        view.commit(view.read.values, CODEC)  # the lessons stay where they were
        # A card for each pitfall. `view`: the page's, which leads to the lesson that teaches it.
        columns, edges = st.columns(2), text.edges()
        for number, edge in enumerate(edges, start=1):
            with columns[number > (len(edges) + 1) // 2]:
                _edge(view, number, edge)
    else:
        _lessons(view, linked)
    layout.actions(place, is_shared=True, help_text=WORDS["lessons"]["help"])


def _lessons(view: View, linked: str) -> None:
    """Draws a lesson, and the choice of lessons and steps beside it."""
    side, answer = layout.controls_and_answer()
    layout.link_to_controls(side, answer, "To all lessons and steps")
    with side:
        name = linked if view["alone"] else lesson_stage.lesson(view, linked)
    lesson = text.load(name)
    state = _State(view, name, lesson)
    with answer:
        if state.is_held:
            st.info(f"Step {view['step']} opens when each step before it has a prediction. This is the first without one.")
        above = st.container()
        if name in text.IN_BROWSER:
            _in_browser(state)
        else:
            _step(state, lesson)
        with above:
            lesson_stage.strip(lesson.steps[state.step])
    view.commit(state.values(), CODEC)
    with side:
        # The list of steps with their ticks; a press goes to a step.
        with st.container(key="lesson-steps", gap=None):
            st.markdown(f"**Steps**, {len(state.done)} of {state.n_steps} done")
            for place, step in enumerate(lesson.steps):
                label = f"{'✓' if place in state.done else '○'} {place + 1}. {step.title}"
                label = f"**{label} (here)**" if place == state.step else label
                st.button(
                    label, key=f"lesson-go-{place}", type="tertiary", on_click=state.go, args=(place,),
                    disabled=place > state.last_open,
                )  # fmt: skip
            layout.arrow("about", "Glossary")
        if not view["alone"]:
            _teacher(state, lesson)


class _State:
    """A visitor's state in one lesson, kept over reruns: step (from 0), ticks, predictions, controls."""

    def __init__(self, view: View, name: str, lesson: Lesson) -> None:
        self.view, self.name = view, name
        self.n_steps = len(lesson.steps)
        self.hidden = frozenset(cast("tuple[str, ...]", view["hide"]))
        stored = st.session_state.setdefault
        ticks = cast("tuple[int, ...]", view[f"{name}:done"])
        self.done: set[int] = stored(view.key(f"{name}-done"), {n - 1 for n in ticks})
        linked = cast("tuple[int | None, ...]", view[f"{name}:predictions"])
        self.predictions: dict[int, int] = stored(
            view.key(f"{name}-predictions"),
            {place: n - 1 for place, n in enumerate(linked) if n is not None and n <= len(lesson.steps[place].choices)},
        )
        self.controls: dict[str, float] = stored(
            view.key(f"{name}-controls"), {one.name: cast(float, view[f"{name}:{one.name}"]) for one in lesson.controls}
        )
        linked_step, first = (cast("int | None", view[key]) if name == view["lesson"] else None for key in ("step", "first"))
        self.first = min(first or 1, self.n_steps) - 1
        undone = [step for step in range(self.n_steps) if step not in self.done]
        start = linked_step - 1 if linked_step is not None else undone[0] if undone else 0
        wanted = min(stored(view.key(f"{name}-step"), start), self.n_steps - 1)
        self.step: int = min(wanted, self.last_open)
        self.is_held = self.step < wanted
        st.session_state[view.key(f"{name}-step")] = self.step

    @property
    def last_open(self) -> int:
        """The last step that may be opened: the first without a prediction, or the last where nobody is asked for any.

        Steps before the first one of a class need none.
        """
        places = range(self.first, self.n_steps)
        unasked = [place for place in places if place not in self.predictions and place not in self.done]
        return unasked[0] if unasked and PREDICTION not in self.hidden else self.n_steps - 1

    def go(self, step: int) -> None:
        """Goes to another step; a callback."""
        st.session_state[self.view.key(f"{self.name}-step")] = step
        st.session_state[self.view.key(f"{self.name}-jumps")] = self.jumps + 1

    @property
    def jumps(self) -> int:
        """How often this page, not the browser's element, went to another step."""
        return int(st.session_state.get(self.view.key(f"{self.name}-jumps"), 0))

    @property
    def progress(self) -> Progress:
        """The same for the browser's element."""
        from dpcl_core.lessons.in_browser import Progress

        return Progress(self.step, tuple(sorted(self.done)), dict(self.predictions), dict(self.controls))

    def take(self, now: Progress) -> None:
        """Takes over what the browser's element reports."""
        self.step = st.session_state[self.view.key(f"{self.name}-step")] = now.step
        self.done.update(now.done)
        self.predictions.update(now.predictions)
        self.controls.update(now.values)

    def values(self) -> dict[str, object]:
        """All values of the link, with other lessons in their last state."""
        fields: dict[str, object] = {"lesson": self.name, "step": self.step + 1}
        fields |= {"first": self.first + 1 if self.first else None, "alone": self.view["alone"], "hide": self.view["hide"]}
        for name in text.NAMES:
            done = st.session_state.get(self.view.key(f"{name}-done"))
            if done is None:  # not opened since the link was followed
                fields |= {key: value for key, value in self.view.read.values.items() if key.startswith(f"{name}:")}
                continue
            predictions: dict[int, int] = st.session_state[self.view.key(f"{name}-predictions")]
            n_places = max(predictions, default=-1) + 1
            choices = tuple(predictions[place] + 1 if place in predictions else None for place in range(n_places))
            controls: dict[str, float] = st.session_state[self.view.key(f"{name}-controls")]
            fields |= {f"{name}:done": tuple(sorted(step + 1 for step in done)), f"{name}:predictions": choices}
            fields |= {f"{name}:{control}": value for control, value in controls.items()}
        return fields


def _in_browser(state: _State) -> None:
    """Draws a lesson whose steps the browser computes; its reports give ticks, predictions and controls."""
    with st.spinner("Opening the lesson ..."):
        from dpcl_core.lessons import in_browser  # loads the mechanisms, which takes seconds: after the heading

    epoch = state.view.key(f"{state.name}-{state.jumps}")
    data = in_browser.document(
        state.name,
        state.progress,
        epoch=epoch,
        hidden=sorted(state.hidden - {PREDICTION}),
        is_quiet=PREDICTION in state.hidden,
        first=state.first,
        is_alone=False,
    )
    reported = figure_card.mounted(LESSON)(key=epoch, data=data, on_progress_change=lambda: None).get("progress")
    state.take(state.progress.changed(reported, state.name))
    if len(state.done) == state.n_steps:
        lesson_stage.onward(state.view, state.name, CODEC, state.values())


def _step(state: _State, lesson: Lesson) -> None:
    """Draws a step; each of its four parts appears when the previous one is done."""
    step = lesson.steps[state.step]
    controls = {one.name: one for one in lesson.controls}
    stage = lesson_stage.Stage(state.name, step, controls, state.controls, state.hidden, state.view.key, is_dark())
    if st.session_state.setdefault(stage.key("opened"), state.step in state.done) is False:
        stage.forget()  # a link without this tick restarts the step
        st.session_state[stage.key("opened")] = True
    st.caption(f"Lesson {text.number(state.name)}, {lesson.title}: step {state.step + 1} of {state.n_steps}")
    st.header(step.title, anchor=False)
    was_done = state.step in state.done
    if not (was_done and layout.is_on()):  # a projector has room for the result and its explanation, and for no more
        if state.step == 0:
            layout.markdown(lesson.intro)
        if not _predicted(state, stage):
            return
        st.subheader("Do", anchor=False)
        layout.markdown(step.do)

    def settle() -> None:
        if not was_done or st.session_state.get(_FOR_TEACHERS):  # the list of steps gets a tick, the class another link
            st.rerun()
        state.view.commit(state.values(), CODEC)

    layout.draw_apart(lambda: _done(state, stage), settle)
    if state.step in state.done and state.step + 1 == state.n_steps:
        lesson_stage.questions(lesson)
    with st.container(key="lesson-onward", horizontal=True, gap="small"):
        if state.step > 0:
            st.button("← Back", key="lesson-back", on_click=state.go, args=(state.step - 1,))
        if state.step + 1 < state.n_steps:
            following = lesson.steps[state.step + 1].title
            st.button(
                f"Next: {following} →", key="lesson-next", on_click=state.go, args=(state.step + 1,),
                type="primary" if (state.step in state.done) else "secondary",
            )  # fmt: skip
        elif len(state.done) == state.n_steps:
            st.markdown("**You have done every step of this lesson.**")
            lesson_stage.onward(state.view, state.name, CODEC, state.values())


def _done(state: _State, stage: lesson_stage.Stage) -> None:
    """Draws what is done in a step, its result and, when there is one, the explanation; beside it in presenter size."""
    truth = None
    with st.container(key="lesson-stage"):
        result, beside = st.container(key="lesson-result"), st.container(key="lesson-beside")
    stage = replace(stage, beside=beside if layout.is_on() else None)
    with result, suppress(lesson_stage.Waiting):
        truth = lesson_stage.act(state.name, stage.step)(stage)
        state.done.add(state.step)
    if state.step in state.done:
        with beside, layout.card("lesson-explain"):
            step, choice = stage.step, state.predictions.get(state.step)
            st.subheader("Explain", anchor=False)
            if truth is not None and choice is not None:
                outcome = "Correct." if truth == choice else f"The result: “{step.choices[truth]}”."
                verdict = escape(f"You predicted “{step.choices[choice]}”. {outcome}", quote=False)
                st.html(f'<p role="status" class="lesson-verdict"><b>{verdict}</b></p>')
            layout.markdown(step.explain)


def _predicted(state: _State, stage: lesson_stage.Stage) -> bool:
    """Draws the question; returns whether it is answered or hidden by the link."""
    if PREDICTION in state.hidden:
        return True
    step, place = stage.step, state.step
    with layout.card("lesson-predict"):
        st.subheader("Predict", anchor=False)
        layout.markdown(step.predict)
        choice = st.radio(
            "Your prediction", range(len(step.choices)), state.predictions.get(place),
            format_func=step.choices.__getitem__, key=stage.key("predict"),
            disabled=place in state.done and place in state.predictions,
        )  # fmt: skip
        if choice is None:
            st.caption("Choose an answer to continue; it may be wrong.")
            return False
    state.predictions[place] = choice
    return True


def _teacher(state: _State, lesson: Lesson) -> None:
    """Draws a link for a class: this lesson from this step, with the current settings and hidden controls."""
    if state.hidden:
        return
    with st.expander("For teachers", key=_FOR_TEACHERS, on_change="rerun"):
        names = [control.name for control in lesson.controls]
        hidden = st.multiselect(
            "Hide from the class", [*names, PREDICTION], key=state.view.key("teacher-hide"),
            help="A hidden control keeps the value it has now.",
        )  # fmt: skip
        alone = st.toggle("This lesson alone", key=state.view.key("teacher-alone"), help="Leaves the other lessons out.")
        keeps = st.toggle("Include my ticks and predictions", key=state.view.key("teacher-ticks"))
        values = {**state.values(), "hide": tuple(hidden), "alone": alone}
        if not keeps:
            values["first"] = state.step + 1 if state.step and PREDICTION not in hidden else None
            values |= {f"{name}:{what}": () for name in text.NAMES for what in ("done", "predictions")}
        st.markdown(f"Starts at step {state.step + 1}, “{lesson.steps[state.step].title}”, with the current settings:")
        st.code(link.address(st.context.url or "", CODEC.write(values)), language=None, wrap_lines=True)
        part = lesson_stage.number(text.part_of_lesson(state.name))
        layout.arrow("teach", "Notes, plan, handout, codes", {"view": "plan", "p": str(part)})


# Sharp edges: pitfalls of private learning, how each is prevented here, each demonstrated.


def _edge(view: View, number: int, edge: text.Edge) -> None:
    key = f"edge:{edge.key}"
    with layout.card(f"edge-{edge.key}"):
        st.header(f"{number}. {edge.title}", anchor=False)
        layout.markdown(edge.wrong)
        st.markdown(f"**Here:** {edge.prevented} :small[`{edge.where}`]")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if st.button("Show it", key=f"show-{edge.key}", help=f"Demonstrates the mistake: {edge.title}"):
                from dpcl_core.lessons import edges  # loads the accountants, which take a second

                st.session_state[key] = edges.demonstration(edge.key)
            if edge.lesson is not None:
                query = view.linked({"view": "steps", "v": link.VERSION, "l": edge.lesson})
                layout.arrow("lessons", f"Lesson {text.number(edge.lesson)}", query)
        if (shown := cast("Shown | None", st.session_state.get(key))) is not None:
            layout.draw_table(shown.head, shown.rows)
            st.markdown(f"**{shown.finding}**")


if __name__ == "__main__":
    page()
