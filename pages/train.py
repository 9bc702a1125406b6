"""Train page: a form built from the cards, and its run, live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.errors import BadInput
from dpcl_core.papers import measured, questions
from dpcl_core.results import Result
from dpcl_core.runs.run import Run
from dpcl_core.runs.shards import Sets
from dpcl_core.spec import RunSpec
from pages.parts import layout, link, run_panel, settings_form, start_box, state, train_form, tuning_panel
from pages.parts.text import plain

HELP = """Choose what to learn and under which privacy budget, then press **Start**. Each pair of ε and seed is a separate
model; curves show the mean over seeds and, from three seeds on, a 95 % interval. The run continues when you close this page,
and the link shows it again. The ε in the bar comes from the run's ledger, never from the form."""
_LOOKS = ("f", "ru")  # link keys of the display choices of a run, beside the settings of the form
_USUAL: Mapping[str, object] = {"focus": None, "rule": None}


@state.guarded
def page() -> None:
    """The page."""
    state.store()  # reports a store that cannot be opened before anything is drawn
    _apply_pending()
    view = state.View("train", train_form.codec_for, start=_first_view)
    run, run_notices = _run_to_show(cast("str | None", view["run"]), cast("str | None", view["question"]))
    place = layout.heading("Train", "What happens when I run it for real?", notices=[*view.read.notices, *run_notices])
    controls, answer = layout.controls_and_answer()
    layout.link_to_controls(controls, answer, "To the form and Start")
    with controls:
        values, spec, device = _controls(view)
    study_id = cast("str | None", view["study"])
    with answer:
        if study_id is not None:
            tuning_panel.panel(view, study_id, spec)
        start_box.stream(view, values, is_open=run is None)
        # The example is shown only if there is neither a run nor a tuning.
        display = _answer(view, run, spec) if run is not None or study_id is None else _USUAL
    spec_codec = train_form.codec(str(values["method"]), str(values["scenario"]))
    kept = {"run": None if run is None else run.id, "study": study_id, "question": view["question"]}
    view.commit({**values, **kept, **display}, spec_codec)
    layout.actions(place, is_shared=True, help_text=HELP, view=view)
    state.expect_run(str(values["method"]), device)


def _first_view() -> dict[str, str]:
    """What a first visit without a link shows: the form of the first preset, beside the newest run of any settings."""
    newest = _newest()
    return start_box.link(presets.names()[0]) | ({} if newest is None else {"run": newest.id})


def _newest() -> Run | None:
    """The newest finished run; one that is the ceiling of another is passed over, since nobody asked for it by itself."""
    finished = (run for run in state.store().list_runs(50, states=("finished",)) if run.readable_spec is not None)
    return next((run for run in finished if not measured.is_one(run.spec)), None)


def _apply_pending() -> None:
    """Applies the run or tuning that a button has just started.

    Fills in the settings for a link that names a run or a question; what else such a link says takes their place.
    """
    if "show-study" in st.session_state:
        link.put(st.session_state.pop("show-study"))
    linked = link.parameters()
    started = st.session_state.pop("show-run", None)
    if started is not None:
        linked = {key: text for key, text in linked.items() if key in (*_LOOKS, "question")} | {"run": str(started)}
    elif "d" in linked:
        return  # a view that this page has written: it always names its dataset, and leaves out what is a default
    start = _settings_of(linked)
    if start is not None:
        link.put(train_form.merged_link(start, linked))


def _settings_of(linked: Mapping[str, str]) -> dict[str, str] | None:
    """The link to all settings of the run that a link names, else of the question; None where there is neither."""
    if "run" in linked:
        try:
            run = state.store().get(linked["run"])
            return train_form.parameters_of(run.spec, run.id)
        except BadInput:
            pass  # the page says so where the run would be shown
    named = linked.get("question", linked.get("preset"))
    return start_box.link(named) if named in presets.names() else None


def _run_to_show(named: str | None, question: str | None) -> tuple[Run | None, list[str]]:
    """The linked run, else the newest finished one (None: the bundled example); and a notice if it is missing.

    Beside a question that is a run with the settings its form starts from, never another question's.
    """
    if named is not None:
        try:
            return state.store().get(named), []
        except BadInput as refused:
            return None, [f"{refused}. Showing an example instead."]
    store = state.store()
    if question is not None:
        digest = questions.digests(question)[0]
        run_id = Sets(store).finished([digest]).get(digest)
        return None if run_id is None else store.get(run_id), []
    return _newest(), []


def _controls(view: state.View) -> tuple[train_form.Values, RunSpec | None, str]:
    """Draws the form; returns its values, their spec (None: invalid, and the form says what to change) and the device."""
    start_box.pick(view)
    origin = st.container(key="from-question", horizontal=True, vertical_alignment="center", gap="small")
    values = train_form.form(view)
    device = settings_form.device_choice()
    split = settings_form.split_choice(device)
    spec, refusal = _checked(values)
    with origin:
        start_box.origin(view, values)
    start_box.draw(view, values, spec, refusal, device, split)
    tuning_panel.form(view, values, spec, device)
    return values, spec, device


def _checked(values: train_form.Values) -> tuple[RunSpec | None, str | None]:
    """The spec, or the sentence that says what to change."""
    try:
        spec = checks.parse(train_form.raw_of(values))
        checks.check_run(spec)
    except BadInput as refused:
        return None, train_form.in_words(refused, values)
    return spec, None


def _answer(view: state.View, run: Run | None, form_spec: RunSpec | None) -> Mapping[str, object]:
    """Draws the run with its bar and figures; returns the shown budget and prediction rule (None: the default)."""
    if refused := st.session_state.pop("refused", None):
        st.error(plain(refused))
    if run is None:
        result = state.example()
        with st.container(key="card-status"):
            st.markdown("**Example**: a recorded run of the first preset. Press **Start** for a run of your own.")
        return _shown(view, result)
    try:
        result = state.run_result(run)
    except BadInput as refused:
        st.error(f"{plain(str(refused))}. Its files can still be exported from Runs.")
        return _USUAL
    if run.is_over:
        first_audit = tuning_panel.first(run)
        run_panel.status_card(run, result, beside=first_audit)
        if run.readable_spec not in (None, form_spec):
            _other_settings(run)
        if first_audit is None:
            tuning_panel.audit_panel(run)
        if not result.accuracy.empty:
            return _shown(view, result)
        st.info("This run ended before a model was tested, so there is nothing to draw. Its settings are in the form.")
        return _USUAL
    _watch(run.id)
    return {"focus": view["focus"], "rule": view["rule"]}


def _other_settings(run: Run) -> None:
    """Draws a note that the form's settings differ from the run's, with a button to load the run's."""

    def take() -> None:
        st.session_state["show-run"] = run.id

    with st.container(key="other-settings", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(f"**{plain(run.name)}** has other settings than the form.", width="content")
        st.button("Load its settings", key="take-settings", type="tertiary", on_click=take)


@st.fragment(run_every=1.0)
@state.guarded
def _watch(run_id: str) -> None:
    """Draws an active run, refreshed every second; when it ends, reruns the page without a timer."""
    run = state.store().get(run_id)
    if run.is_over or "show-run" in st.session_state:
        st.rerun()
    result = state.run_result(run)
    run_panel.status_card(run, result)
    bar = st.container()  # where it stays when the run is over
    result = run_panel.under_rule(result, f"watch-rule-{run_id}", None)
    chosen = run_panel.focus(result, f"watch-focus-{run_id}", None)
    with bar:
        run_panel.bar(result, chosen, is_over=False)
    run_panel.figures(result, chosen, live=True)


def _shown(view: state.View, result: Result) -> Mapping[str, object]:
    """Draws bar and figures of a finished run; returns the shown budget and rule (None: the default)."""
    bar = st.container()
    result = run_panel.under_rule(result, view.key("rule"), cast("str | None", view["rule"]))
    chosen = run_panel.focus(result, view.key("focus"), cast("float | None", view["focus"]))
    with bar:
        run_panel.bar(result, chosen, is_over=True)
    run_panel.panel(result, chosen)
    run_panel.figures(result, chosen, live=False)
    return {"focus": None if chosen == result.spec.privacy.usual_epsilon else chosen, "rule": result.rule}


if __name__ == "__main__":
    page()
