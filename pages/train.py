"""Train page: a form built from the cards, and its run, live."""

from contextlib import suppress
from functools import partial

import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.errors import BadInput
from dpcl_core.results import Result
from dpcl_core.runs.run import Run
from dpcl_core.runs.shards import Sets
from dpcl_core.spec import RunSpec
from pages.parts import layout, link, pecl_claim, run_panel, settings_form, start_box, state, train_form, tuning_panel
from pages.parts.fields import linked_run
from pages.parts.text import WORDS, plain

_LEFT = "train-left-run"  # session key: the run that the form was changed away from


@state.guarded
def page() -> None:
    """The page."""
    state.store()  # reports a store that cannot be opened before anything is drawn
    _apply_pending()
    view = state.View("train", train_form.CODEC, start=lambda: start_box.question_link(presets.names()[0]))
    linked, run_notices = linked_run(view)
    place = layout.heading("Train", "What happens when I run it for real?", notices=[*view.read.notices, *run_notices])
    with st.container(key="train", gap="small"):
        controls, answer = st.container(key="choices", gap="small"), st.container(key="answer", gap="small")
    layout.link_to_controls(controls, answer, "To the form and Start")
    with controls:
        *row, start = st.columns((1.1, 1.1, 1.1, 0.9, 0.95, 1.15), gap="small", vertical_alignment="bottom")
        with st.container(key="form-line", horizontal=True, vertical_alignment="center", gap="small"):
            settings = st.popover("Settings", type="tertiary", key=view.key("settings"))
            origin = st.container(key="from-question", horizontal=True, vertical_alignment="center", gap="small")
        notes = st.container(key="form-notes", gap="small")
        with settings:
            layout.arrow("questions", "Start from a question")
        values = train_form.form(view, row, settings, partial(start_box.bring, view))
        with settings:
            device = settings_form.device_choice()
            split = settings_form.split_choice(device)
        spec, refusal = _checked(values)
        with origin:
            start_box.origin(view, values, spec)
            if spec is not None:
                start_box.noise_warning(spec)
        start_box.draw(view, values, spec, refusal, (device, split), start, notes)
        with settings:
            tuning_panel.form(view, values, spec, device)
    run = _own_run(linked, spec or train_form.parsed(values))
    study_id = view["study"]
    with answer:
        if study_id is not None:
            tuning_panel.panel(view, study_id, spec)
        _answer(view, run, spec, values)
    view.values |= {**values, "run": None if run is None else run.id}
    view.commit()
    layout.actions(place, is_shared=True, help_text=WORDS["train"]["help"], view=view)
    state.expect_run(str(values["method"]), device)


def _apply_pending() -> None:
    """Applies the run or tuning that a button has just started.

    Fills in the settings for a link that names a run or a question; what else such a link says takes their place.
    """
    if "show-study" in st.session_state:
        link.put(st.session_state.pop("show-study"))
    linked = link.parameters()
    if (started := st.session_state.pop("show-run", None)) is not None:  # "f" and "ru": how a run is shown
        linked = {key: text for key, text in linked.items() if key in ("f", "ru", "question")} | {"run": str(started)}
    elif "d" in linked:
        return  # a view that this page has written: it always names its dataset, and leaves out what is a default
    start, named = None, linked.get("question", linked.get("preset"))
    if "run" in linked:
        with suppress(BadInput):  # the page says so where the run would be shown
            run = state.store().get(linked["run"])
            start = train_form.parameters_of(run.spec, run.id)
    if start is None and named in presets.names():
        start = start_box.question_link(named)
    if start is not None:  # with what `linked` says in its place, without settings of a method or stream that this replaces
        both = {**start, **linked}
        unknown = train_form.CODEC.read(both).unknown
        link.put({key: text for key, text in both.items() if key in linked or key not in unknown})


def _own_run(linked: Run | None, spec: RunSpec | None) -> Run | None:
    """The run of the form's very settings: the linked one, else one under way, else the newest that finished."""
    if linked is not None and linked.readable_spec in (None, spec):
        st.session_state.pop(_LEFT, None)
        return linked
    if linked is not None:
        st.session_state[_LEFT] = linked.id
    if spec is None:
        return None
    store = state.store()
    under_way = next((run for run in store.unfinished() if run.readable_spec == spec), None)
    return under_way or next(map(store.get, Sets(store).finished([spec.digest()]).values()), None)


def _checked(values: train_form.Values) -> tuple[RunSpec | None, str | None]:
    """The spec, or the sentence that says what to change."""
    try:
        checks.check_run(spec := checks.parse(train_form.raw_of(values)))
    except BadInput as refused:
        return None, train_form.in_words(refused, values)
    return spec, None


def _answer(view: state.View, run: Run | None, spec: RunSpec | None, values: train_form.Values) -> None:
    """Draws the form's run, else what is known before it; the link gets budget and prediction rule of one that is over."""
    view.values |= {"focus": None, "rule": None}
    run_panel.draw_refusal()
    if run is None:
        _before(view, spec, values)
        return
    try:
        result = state.run_result(run)
    except BadInput as refused:
        st.error(f"{plain(str(refused))}. Its files can still be exported from Runs.")
        return
    if run.is_over:
        _shown(view, values, result, run)
    else:
        view.values |= {name: view[name] for name in ("focus", "rule")}
        _watch(run.id)


def _before(view: state.View, spec: RunSpec | None, values: train_form.Values) -> None:
    """Draws what stands beside a form without a run: the example, if it is one of it, else stream and nearest record."""
    example = state.example()
    if spec is not None and spec == example.spec:
        _shown(view, values, example, None)
        return
    left, right = st.columns(run_panel.HALVES, gap="small")
    with right:
        for reason in train_form.not_dp_reasons(values):
            pecl_claim.not_dp(reason)
    meant = spec or train_form.parsed(values)
    with left:
        has_ghost = meant is not None and start_box.ghost(meant)
    with right if has_ghost else left:
        start_box.stream(values)
    with right:
        if spec is not None:
            start_box.details(spec, values)
        with suppress(BadInput):
            if _LEFT in st.session_state:
                run = state.store().get(st.session_state[_LEFT])
                back = train_form.parameters_of(run.spec, run.id)
                st.caption(f"**{plain(run.name)}** ({run.status}) has other settings.")
                st.button("Back to that run", key="take-settings", on_click=view.go, args=(back,))


@state.each_second
def _watch(run_id: str) -> None:
    """Draws an active run, refreshed every second; when it ends, reruns the page without a timer."""
    run = state.store().get(run_id)
    if run.is_over or "show-run" in st.session_state:
        st.rerun()
    result = state.run_result(run)
    left, right = st.columns(run_panel.HALVES, gap="small")
    with right:
        line = run_panel.status_card(run, result)
        result = run_panel.under_rule(result, f"watch-rule-{run_id}", None)
        chosen = run_panel.focus(result, f"watch-focus-{run_id}", None)
        run_panel.statement(result, chosen, is_over=False)
    stream = partial(start_box.stream, None, result.spec, line.fraction or 0.0)
    run_panel.figures(result, chosen, live=True, places=(left, right), stream=stream)


def _shown(view: state.View, values: train_form.Values, result: Result, run: Run | None) -> None:
    """Draws a run that is over (None: the example); the link gets the shown budget and rule (None: the default)."""
    chosen = result.spec.privacy.usual_epsilon
    left, right = st.columns(run_panel.HALVES, gap="small")
    with right:
        if run is None:
            layout.card("status", "**Example**, recorded with these settings.")
        else:
            first_audit = tuning_panel.first(run)
            run_panel.status_card(run, result, beside=first_audit)
            if first_audit is None:
                tuning_panel.audit_panel(run)
        if result.accuracy.empty:
            run_panel.statement(result, None, is_over=True)
        else:
            result = run_panel.under_rule(result, view.key("rule"), view["rule"])
            chosen = run_panel.focus(result, view.key("focus"), view["focus"])
            run_panel.statement(result, chosen, is_over=True)
            run_panel.panel(result, chosen)
            view.values |= {"focus": None if chosen == result.spec.privacy.usual_epsilon else chosen, "rule": result.rule}
        start_box.details(result.spec, values)
    run_panel.figures(result, chosen, live=False, places=(left, right), stream=partial(start_box.stream, None, result.spec))


if __name__ == "__main__":
    page()
