"""Lessons page: one step at a time (predict, do, see, explain); progress is kept in the link."""

from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

import streamlit as st

from dpcl_core.elements.element import LESSON
from dpcl_core.lessons import text
from dpcl_core.lessons.text import Lesson, Progress
from pages.parts import figure_card, layout, lesson_stage, link
from pages.parts.state import View
from pages.parts.text import WORDS, is_dark

VIEWS: Final = {"steps": "Lessons", "edges": "Sharp edges"}
PREDICTION: Final = "prediction"  # name under which a link hides the predictions
_FOR_TEACHERS: Final = "for-teachers"


@dataclass(frozen=True)
class _Lesson(link.Written):
    """A lesson by its name, or by its number, as somebody types it who sees the number on the page."""

    def read(self, typed: str) -> str:
        found = {str(text.number(name)): name for name in text.NAMES}.get(typed, typed)
        if found not in text.NAMES:
            raise ValueError(typed)
        return found


def _fields() -> list[link.Field[Any]]:
    """The fields of the page's link: lesson, step, hidden controls; and by lesson the ticks, predictions and controls."""
    names = {control.name for name in text.NAMES for control in text.load(name).controls}
    instead = text.NAMES[0], f"lessons are 1 to {len(text.NAMES)}, and this is the first"
    fields: list[link.Field[Any]] = [
        # A link that names no lesson means "label": it was the first one when such links were made.
        link.Field("lesson", "l", "lesson", _Lesson(), "label", "lesson", False, instead),
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
        ]
        for one in lesson.controls:
            kind = link.Number(one.least, one.most)
            fields.append(link.Field(f"{name}:{one.name}", f"{one.key}{number}", one.title, kind, one.default))
    return fields


CODEC = link.Codec(*_fields())


def page() -> None:
    """The page."""
    opened = layout.open_view(VIEWS)
    view = View("lessons", CODEC, start=lambda: {"l": text.NAMES[0]})
    linked = str(view["lesson"])
    notices, n_steps = list(view.read.notices), len(text.load(linked).steps)
    if (view["step"] or 1) > n_steps:
        notices.append(f"The link asks for step {view['step']}; this lesson has {n_steps}. Showing the last one.")
    place = layout.heading("Lessons", text.PUBLIC, notices=notices)
    if opened == "edges":
        view.commit()  # the lessons stay where they were
        # A fold for each pitfall. `view`: the page's, which leads to the lesson that teaches it.
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
            lesson_stage.strip(lesson.steps[state.progress.step])
    view.values = state.values()
    view.commit()
    with side:
        # The list of open steps with their ticks; a press goes to a step.
        with st.container(key="lesson-steps", gap=None):
            st.markdown(f"**Steps**, {len(state.progress.done)} of {state.n_steps} done")
            for place, step in enumerate(lesson.steps[: state.last_open + 1]):
                label = f"{'✓' if place in state.progress.done else '○'} {place + 1}. {step.title}"
                label = f"**{label} (here)**" if place == state.progress.step else label
                st.button(label, key=f"lesson-go-{place}", type="tertiary", on_click=state.go, args=(place,))
            layout.arrow("about", "Glossary")
        if not view["alone"]:
            _teacher(state, lesson)


class _State:
    """A visitor's state in one lesson: the progress, which the session keeps, and what the link asks for."""

    def __init__(self, view: View, name: str, lesson: Lesson) -> None:
        self.view, self.name, self.n_steps = view, name, len(lesson.steps)
        self.hidden = frozenset(view["hide"])
        step, first = (view[key] if name == view["lesson"] else None for key in ("step", "first"))
        self.first = min(first or 1, self.n_steps) - 1
        key = view.key(f"{name}-progress")
        if key not in st.session_state:
            done = {n - 1 for n in view[f"{name}:done"]}
            linked = zip(lesson.steps, view[f"{name}:predictions"], strict=False)
            predictions = {place: n - 1 for place, (of, n) in enumerate(linked) if n is not None and n <= len(of.choices)}
            start = min({*range(self.n_steps)} - done, default=0) if step is None else step - 1
            controls = {one.name: view[f"{name}:{one.name}"] for one in lesson.controls}
            st.session_state[key] = Progress(start, done, predictions, controls)
        self.progress: Progress = st.session_state[key]
        wanted = min(self.progress.step, self.n_steps - 1)
        self.progress.step = min(wanted, self.last_open)
        self.is_held = self.progress.step < wanted

    @property
    def last_open(self) -> int:
        """The last step that may be opened: the first without a prediction, or the last where nobody is asked for any.

        Steps before the first one of a class need none.
        """
        asked = {*range(self.first, self.n_steps)} - self.progress.predictions.keys() - self.progress.done
        return self.n_steps - 1 if PREDICTION in self.hidden else min(asked, default=self.n_steps - 1)

    @property
    def is_done(self) -> bool:
        """Whether the step that is open has its tick."""
        return self.progress.step in self.progress.done

    def go(self, step: int) -> None:
        """Goes to another step; a callback."""
        self.progress.step = step
        self.progress.moves += 1

    def values(self) -> dict[str, object]:
        """All values of the link, with other lessons in their last state."""
        fields = {**self.view.values, "lesson": self.name, "step": self.progress.step + 1}
        fields["first"] = self.first + 1 if self.first else None
        for name in text.NAMES:
            progress: Progress | None = st.session_state.get(self.view.key(f"{name}-progress"))
            if progress is not None:  # opened since the link was followed
                predicted = {place: choice + 1 for place, choice in progress.predictions.items()}
                choices = tuple(map(predicted.get, range(max(predicted, default=-1) + 1)))
                fields |= {f"{name}:done": tuple(sorted(step + 1 for step in progress.done)), f"{name}:predictions": choices}
                fields |= {f"{name}:{control}": value for control, value in progress.values.items()}
        return fields


def _in_browser(state: _State) -> None:
    """Draws a lesson whose steps the browser computes; its reports give ticks, predictions and controls."""
    with st.spinner("Opening the lesson ..."):
        from dpcl_core.lessons import in_browser  # loads the mechanisms, which takes seconds: after the heading

    epoch = state.view.key(f"{state.name}-{state.progress.moves}")
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
    state.progress.take(reported, text.load(state.name))
    if len(state.progress.done) == state.n_steps:
        lesson_stage.onward(state.view, state.name, CODEC, state.values())


def _step(state: _State, lesson: Lesson) -> None:
    """Draws a step; each of its four parts appears when the previous one is done."""
    place, was_done = state.progress.step, state.is_done
    step = lesson.steps[place]
    controls = {one.name: one for one in lesson.controls}
    stage = lesson_stage.Stage(state.name, step, controls, state.progress.values, state.hidden, state.view.key, is_dark())
    if st.session_state.setdefault(stage.key("opened"), was_done) is False:
        stage.memory.clear()  # a link without this tick restarts the step
        st.session_state[stage.key("opened")] = True
    st.caption(f"Lesson {text.number(state.name)}, {lesson.title}: step {place + 1} of {state.n_steps}")
    st.header(step.title, anchor=False)
    if not (was_done and layout.is_on()):  # a projector has room for the result and its explanation, and for no more
        if place == 0:
            layout.markdown(lesson.intro)
        if not _predicted(state, stage):
            return
        st.subheader("Do", anchor=False)
        layout.markdown(step.do)

    def settle() -> None:
        if not was_done or st.session_state.get(_FOR_TEACHERS):  # the list of steps gets a tick, the class another link
            st.rerun()
        state.view.values = state.values()
        state.view.commit()

    layout.draw_apart(lambda: _done(state, stage), settle)
    is_last = place + 1 == state.n_steps
    if state.is_done and is_last:
        lesson_stage.questions(lesson)
    with st.container(key="lesson-onward", horizontal=True, gap="small"):
        if place > 0:
            st.button("← Back", key="lesson-back", on_click=state.go, args=(place - 1,))
        if not is_last:
            st.button(
                f"Next: {lesson.steps[place + 1].title} →", key="lesson-next", on_click=state.go, args=(place + 1,),
                type="primary" if state.is_done else "secondary",
            )  # fmt: skip
        elif len(state.progress.done) == state.n_steps:
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
        state.progress.done.add(state.progress.step)
    if state.is_done:
        with beside, layout.card("lesson-explain"):
            step, choice = stage.step, state.progress.predictions.get(state.progress.step)
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
    step, place, predictions = stage.step, state.progress.step, state.progress.predictions
    with layout.card("lesson-predict"):
        st.subheader("Predict", anchor=False)
        layout.markdown(step.predict)
        choice = st.radio(
            "Your prediction", range(len(step.choices)), predictions.get(place), format_func=step.choices.__getitem__,
            key=stage.key("predict"), disabled=state.is_done and place in predictions,
        )  # fmt: skip
        if choice is None:
            st.caption("Choose an answer; it may be wrong.")
            return False
    predictions[place] = choice
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
        place = state.progress.step
        if not keeps:
            values["first"] = place + 1 if place and PREDICTION not in hidden else None
            values |= {f"{name}:{what}": () for name in text.NAMES for what in ("done", "predictions")}
        st.markdown(f"Starts at step {place + 1}, “{lesson.steps[place].title}”, with the current settings:")
        st.code(link.address(st.context.url or "", CODEC.write(values)), language=None, wrap_lines=True)
        part = lesson_stage.number(text.part_of_lesson(state.name))
        layout.arrow("teach", "Notes, plan, handout, codes", {"view": "plan", "p": str(part)})


# Sharp edges: pitfalls of private learning, how each is prevented here, each demonstrated.


def _edge(view: View, number: int, edge: text.Edge) -> None:
    key = f"edge:{edge.key}"
    with st.expander(f"{number}. {edge.title}"):
        layout.markdown(edge.wrong)
        st.markdown(f"**Here:** {edge.prevented} :small[`{edge.where}`]")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if st.button("Show it", key=f"show-{edge.key}", help=f"Demonstrates the mistake: {edge.title}"):
                from dpcl_core.lessons import edges  # loads the accountants, which take a second

                st.session_state[key] = edges.demonstration(edge)
            if edge.lesson is not None:
                query = view.linked({"view": "steps", "v": link.VERSION, "l": edge.lesson})
                layout.arrow("lessons", f"Lesson {text.number(edge.lesson)}", query)
        if key in st.session_state:
            rows, finding = st.session_state[key]
            layout.draw_table(edge.head, rows)
            st.markdown(f"**{finding}**")


if __name__ == "__main__":
    page()
