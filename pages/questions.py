"""Questions page: presets as questions; one of them with its answer, and Start for all of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from dpcl_core import presets
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import DataMissing
from dpcl_core.figures.picture import counted
from dpcl_core.papers import measured, questions, report
from dpcl_core.results import Result, references
from dpcl_core.runs.shards import Set
from pages.parts import figure_card, layout, link, run_panel, state, text, train_form
from pages.parts import questions as parts_questions
from pages.parts.text import plain

HELP = """A question is answered by all its runs together. **Start** queues them as one entry, the cheapest first; **Stop**
ends the whole. Until they have finished here, the answer shows recorded results, marked with their date and machine."""
CODEC = link.Codec(
    [
        link.Field("question", "question", "question", link.Maybe(link.Choice(tuple(presets.names()))), None),
        link.Field("by", "by", "grouping", link.Choice(tuple(parts_questions.GROUPS)), "paper"),
    ]
)


@state.guarded
def page() -> None:
    """The page."""
    state.store()
    view = state.View("questions", lambda _: CODEC)
    name, by = view["question"], str(view["by"])
    if name is None:
        place = layout.heading("Questions", "What do you want to find out?", notices=view.read.notices)
        by = parts_questions.draw(view, by)
    else:
        about = presets.about(str(name))
        place = layout.heading(about.title, about.question, notices=view.read.notices)
        _links(view, about.name, by)
        _answer(view, about.name, by)
    view.commit({"question": name, "by": by}, CODEC)
    layout.actions(place, is_shared=True, help_text=HELP)


def _links(view: state.View, name: str, by: str) -> None:
    """Draws the way back to all questions, and to the same question in its other sizes."""
    with st.container(horizontal=True, gap="small"):
        st.page_link("pages/questions.py", label="← All questions", query_params=view.linked({"v": "1", "by": by}))
        for size, form in questions.of_preset(name).forms.items():
            if form.name != name:
                label, target = f"The same, {parts_questions.FORMS[size]}", {"v": "1", "question": form.name, "by": by}
                st.page_link("pages/questions.py", label=label, query_params=view.linked(target))


def _answer(view: state.View, name: str, by: str) -> None:
    """Draws the state of the runs, then the answer: from the runs of this computer, else from records."""
    if refused := st.session_state.pop("refused", None):
        st.error(plain(refused))
    newest, found = parts_questions.sets().newest(name), questions.results(name, state.store())
    alone = parts_questions.alone(name)
    if newest is not None and not newest.is_over:
        _watch(newest.id)
    else:
        missing = parts_questions.lacking(name)
        if alone is not None:
            st.markdown(f"Started on Train: **{plain(alone.name)}**.")
            _watch_alone(alone.id)
        if alone is None or len(questions.specs(name)) > 1:
            _start_card(name, newest, can_start=missing is None)
        if missing is not None:
            _instead(view, name, by, missing)
        if newest is not None and (moved := _moved(newest)) is not None:
            asked = presets.about(name).asks_about_forgetting
            spec, titles = next(iter(questions.specs(name).values())), questions.titles(name)
            label, result = moved
            st.markdown(f"**{plain(questions.finding(spec, found, titles, with_forgetting=asked))}**")
            if len(titles) > 1:
                st.caption(plain(f"How it went: {titles.get(label, label)}."))
            run_panel.moving(result, result.spec.privacy.usual_epsilon, live=False)
    if found or (newest is not None and not newest.is_over):
        _picture(name, found)
    elif alone is None:
        _promise(name)
    _details(name, found, newest)


def _instead(view: state.View, name: str, by: str, missing: DataMissing) -> None:
    """States what the runs lack on this computer, and leads to the largest of the smaller forms that lacks nothing."""
    st.warning(plain(f"These runs cannot start here. {train_form.in_words(missing)}."))
    forms = list(questions.of_preset(name).forms.items())
    smaller = forms[: [form.name for _, form in forms].index(name)]
    for size, form in reversed(smaller):
        if parts_questions.lacking(form.name) is None:
            target = view.linked({"v": "1", "question": form.name, "by": by})
            layout.arrow("questions", f"The same, {parts_questions.FORMS[size]}, can start here", target)
            return


def _start_card(name: str, newest: Set | None, *, can_start: bool) -> None:
    runs = questions.specs(name)
    with layout.card("status"), st.container(key="status-line", horizontal=True, vertical_alignment="center", gap="small"):
        text = parts_questions.takes(questions.durations([name], state.store())[name])
        if newest is not None:
            label = {"finished": "Finished", "cancelled": "Stopped"}.get(newest.status, "Ended with an error")
            text = f"{label}: {newest.line(questions.titles(name))}. {text}"
        st.markdown(plain(text), width="stretch")
        verb, again = ("Run", " again") if newest is not None else ("Start", "")
        label = f"{verb} it{again}" if len(runs) == 1 else f"{verb} all {len(runs)} runs{again}"
        st.page_link("pages/train.py", label="Change its settings", query_params={"v": "1", "question": name})
        press = run_panel.attempt(lambda: parts_questions.start_question(name))
        st.button(label, key="start-set", type="primary", disabled=not can_start, on_click=press)


def _moved(whole: Set) -> tuple[str, Result] | None:
    """Label and result of the run whose figures stay when a set is over: the preset's own, else the first that finished."""
    runs = sorted(whole.kept.items(), key=lambda each: each[0] != presets.about(whole.preset).label)
    finished = ((label, state.run_result(run)) for label, run in runs if run.status == "finished")
    return next((one for one in finished if not one[1].accuracy.empty), None)


def _promise(name: str) -> None:
    """Draws what is to be run, for a question that has no result yet."""
    runs = questions.specs(name)
    n_models = sum(spec.n_cells for spec in runs.values())
    what = f"{len(runs)} runs, the cheapest first: " if len(runs) > 1 else "one run: "
    listed = "; ".join(parts_questions.in_order(name))  # names have commas of their own
    data = ", ".join(dict.fromkeys(datasets.card(spec.data.dataset).title for spec in runs.values()))
    models = f"{n_models} model{'s' if n_models > 1 else ''} on {data}."
    with layout.card("answer"):
        st.markdown("**The answer**: nothing has been measured yet.")
        st.markdown(f"**To measure it**: {plain(what + listed)}. In all {plain(models)}")
        st.caption("The picture grows as they finish. You may close this page.")


@st.fragment(run_every=1.0)
@state.guarded
def _watch(set_id: str) -> None:
    """Draws a set under way, with the figures of its current run, refreshed every second; reruns the page as runs end."""

    def stop() -> None:
        parts_questions.sets().request_stop(set_id)
        state.executor().schedule()

    whole = parts_questions.sets().get(set_id)
    n_over = sum(run.is_over for run in whole.runs.values())
    if whole.is_over or st.session_state.get("ended-of-set") not in (None, (set_id, n_over)):
        st.session_state.pop("ended-of-set", None)
        st.rerun()
    st.session_state["ended-of-set"] = (set_id, n_over)
    current = whole.current
    if current is None:
        return
    label, run = current
    titles = questions.titles(whole.preset)
    result = state.run_result(run)
    line = run_panel.looked_at(run, result)
    with layout.card("status"):
        with st.container(key="status-line", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(run_panel.pill(line), width="stretch")
            is_mine = state.store().may_change(run)
            if whole.status == "stopping":
                st.button("Stopping …", key="stop-set", disabled=True)
            elif is_mine:
                st.button("Stop", key="stop-set", type="primary", on_click=run_panel.attempt(stop))
        place = list(whole.runs).index(label) + 1
        st.caption(plain(f"Run {place} of {len(whole.runs)}: {titles.get(label, label)}. {whole.line(titles)}."))
        if line.fraction is not None:
            st.html(run_panel.segments(line.fraction, 1 if line.is_stage else result.n_tasks))
    if not result.accuracy.empty:
        run_panel.figures(result, result.spec.privacy.usual_epsilon, live=True)


@st.fragment(run_every=1.0)
@state.guarded
def _watch_alone(run_id: str) -> None:
    """Draws a run of the question that was started by itself, refreshed every second; reruns the page when it ends."""
    run = state.store().get(run_id)
    if run.is_over:
        st.rerun()
    result = state.run_result(run)
    run_panel.status_card(run, result)
    if not result.accuracy.empty:
        run_panel.figures(result, result.spec.privacy.usual_epsilon, live=True)


def _picture(name: str, found: Mapping[str, measured.Measured]) -> None:
    store, titles = state.store(), questions.titles(name)
    spec = next(iter(questions.specs(name).values()))
    ceiling = measured.known(spec, store=store)
    if questions.has_references(name):  # they follow from test data, which may not be here
        known = replace(questions.recorded_references(name, spec, found), ceiling=ceiling)
    else:
        known = questions.with_untrained(references(spec, (), ceiling), spec, found)
    asked = presets.about(name).asks_about_forgetting
    picture = questions.picture(spec, found, titles, known, with_forgetting=asked, dark=text.is_dark())
    total = len(questions.specs(name))
    note = "" if len(found) == total else f"results of {counted(len(found), 'run')}, of {total}"
    title = "The answer so far" if note else "The answer"
    figure_card.show(picture, None, key="answer", title=title, note=note, table=questions.scores(found, titles))


def _details(name: str, found: Mapping[str, measured.Measured], newest: Set | None) -> None:
    """Draws one row per run and budget, and links to the runs of this computer."""
    titles = questions.titles(name)
    if found:
        asked = presets.about(name).asks_about_forgetting
        rows = [row for label, run in found.items() for row in questions.rows(titles[label], run, with_forgetting=asked)]
        layout.draw_table(questions.heads(with_forgetting=asked), [list(map(plain, row)) for row in rows], names=2)
        st.caption(" ".join(f"**{word}**: {meaning}" for word, meaning in questions.MEANINGS))
        with st.expander("Where the results come from"):
            st.markdown("\n".join(f"- {plain(report.source(titles[label], run))}" for label, run in found.items()))
    stored = {label: run.run_id for label, run in found.items() if run.run_id is not None}
    kept = newest.kept if newest is not None else {}
    stored |= {label: run.id for label, run in kept.items() if run.is_over and label not in stored}
    with st.container(key="runs-actions", horizontal=True, gap="small"):
        for label, run_id in stored.items():
            st.page_link("pages/train.py", label=f"Run: {titles.get(label, label)}", query_params={"v": "1", "run": run_id})
    for label, run in kept.items():
        if run.error:
            st.error(plain(f"{titles.get(label, label)}: {run.error}"))


if __name__ == "__main__":
    page()
