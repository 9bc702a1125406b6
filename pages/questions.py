"""Questions page: a gallery of answers; one of them with its runs; and the paper's side of it."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from dpcl_core import presets, version
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import DataMissing
from dpcl_core.figures.picture import counted
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import answers, catalog, claims, comparison, forecasts, measured, questions, report
from dpcl_core.papers.paper import SIZES
from dpcl_core.results import Result, references
from dpcl_core.runs import process
from dpcl_core.runs.shards import Set
from pages.parts import fields, figure_card, layout, link, run_panel, state, status_line, text, train_form
from pages.parts import questions as parts_questions
from pages.parts.text import WORDS, plain

VIEWS = {"answer": "Answer", "paper": "The paper"}
_KEYS = parts_questions.FILTERS
CODEC = link.Codec(
    link.Field("question", "question", "question", link.Maybe(link.Choice(tuple(presets.names()))), None),
    link.Field("paper", _KEYS["paper"], "paper", link.Choice(("", measured.OWN, *catalog.PAPERS)), ""),
    link.Field("method", _KEYS["method"], "method", link.Choice(("", *methods.CARDS)), ""),
    link.Field("data", _KEYS["data"], "data", link.Choice(("", *datasets.CARDS)), ""),
    link.Field("answered", _KEYS["answered"], "answer", link.Choice(("", *answers.STATES.values())), ""),
    link.Field("view", "w", "view", link.Choice(tuple(VIEWS)), "answer"),
    link.Field("metric", "q", "quantity", link.Choice(tuple(comparison.METRICS)), "AA"),
    # Read, never written: what links of earlier pages have, an experiment of a paper with its form, and a grouping.
    link.Field(
        "experiment", "x", "experiment",
        link.Choice(("", *(one.name for paper in catalog.PAPERS.values() for one in paper.experiments))), "",
    ),
    link.Field("size", "z", "form", link.Choice(("", *SIZES)), ""),
    link.Field("by", "by", "grouping", link.Choice(("paper", "shows")), "paper"),
)  # fmt: skip


@state.guarded
def page() -> None:
    """The page."""
    state.store()
    view = state.View("questions", CODEC)
    name = _asked(view)
    view.values = {field: view[field] for field in _KEYS}
    if name is None:
        place = layout.heading("Questions", "What have runs answered?", notices=view.read.notices)
        run_panel.draw_refusal()
        parts_questions.gallery(view)
    else:
        question = questions.of_preset(name)
        place = layout.heading(question.asked, presets.about(name).question, notices=view.read.notices)
        view.values |= {"question": name, "view": "answer", "metric": view["metric"]}
        _links(view, question, name)
        if view.values["view"] == "paper":
            parts_questions.paper_view(view, question, question.size_of(name))
        else:
            _answer(view, name)
    view.commit()
    layout.actions(place, is_shared=True, help_text=WORDS["questions"]["help"])


def _asked(view: state.View) -> str | None:
    """The preset that the link asks for, also by a paper's experiment and its form; None: the gallery."""
    if view["question"] is not None or not view["experiment"]:
        return None if view["question"] is None else str(view["question"])
    papers = catalog.PAPERS.values()
    experiment = next(one for paper in papers for one in paper.experiments if one.name == view["experiment"])
    return experiment.preset(view["size"] if view["size"] in experiment.sizes else parts_questions.opening_form(experiment))


def _links(view: state.View, question: questions.Question, name: str) -> None:
    """Draws the way back to all questions, the choice of form and the choice of view."""
    kept = {key: str(view[field]) for field, key in _KEYS.items() if view[field]}
    durations = questions.durations([form.name for form in question.forms.values()], state.store())
    with st.container(key="question-row", horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link("pages/questions.py", label="← All questions", query_params=view.linked({"v": "1", **kept}))
        for size, form in question.forms.items() if len(question.forms) > 1 else ():
            label = f"{text.capital(parts_questions.FORMS[size])}: {parts_questions.in_short(durations[form.name])}"
            target = {"v": "1", "question": form.name, **kept, **({"w": "paper"} if view["view"] == "paper" else {})}
            st.page_link("pages/questions.py", label=label, query_params=view.linked(target), disabled=form.name == name)
        if question.paper is not None:
            fields.segmented(view, "view", "View", VIEWS, label_visibility="collapsed")


def _answer(view: state.View, name: str) -> None:
    """Draws the verdict with its picture, and the runs behind it: those of this computer, else recorded ones."""
    run_panel.draw_refusal()
    newest, found = parts_questions.sets().newest(name), questions.results(name, state.store())
    alone, is_going = parts_questions.alone(name), newest is not None and not newest.is_over
    if newest is not None and is_going:
        _watch(newest.id)
    elif alone is not None:
        st.markdown(f"Started on Train: **{plain(alone.name)}**.")
        run_panel.watch(alone.id, with_figures=True)
    if found:
        _verdict(questions.of_preset(name), name, can_start=alone is None and not is_going)
    if found or is_going:
        _picture(name, found)
    elif alone is None:
        runs = questions.specs(name)
        what = f"{len(runs)} runs, the cheapest first: " if len(runs) > 1 else "one run: "
        titles, in_order = questions.titles(name), questions.cheapest_first(runs, state.store(), process.default())
        listed = "; ".join(titles[label] for label in in_order)  # names have commas of their own
        data = ", ".join(dict.fromkeys(datasets.card(spec.data.dataset).title for spec in runs.values()))
        models = f"{counted(sum(spec.n_cells for spec in runs.values()), 'model')} on {data}."
        with layout.card("answer", "**The answer**: nothing has been measured yet."):
            st.markdown(f"**To measure it**: {plain(what + listed)}. In all {plain(models)}")
            st.caption("The picture grows as they finish. You may close this page.")
    if not is_going:
        missing = parts_questions.lacking(name)
        if alone is None or len(questions.specs(name)) > 1:
            _start_card(name, newest, can_start=missing is None)
        if missing is not None:
            _instead(view, name, missing)
        from dpcl_core.site import live  # few questions need it

        if (fragment := live.link_here(questions.specs(name).values())) is not None:
            layout.way_here(fragment)
        if newest is not None and (moved := _moved(newest)) is not None:
            label, result = moved
            if len(titles := questions.titles(name)) > 1:
                st.caption(plain(f"How it went: {titles.get(label, label)}."))
            run_panel.figures(result, result.spec.privacy.usual_epsilon, live=False, has_more=False)
    _details(name, found, newest)


def _verdict(question: questions.Question, name: str, *, can_start: bool) -> None:
    """Draws the answer in the quantity asked, what each form says, what is not decided, and how to cite it.

    `name`: the form's preset, to which seeds can be added where it does not decide.
    """
    one = parts_questions.answers_of([question])[question.name]
    unit = measured.unit(one.asked.metric).replace("%", "points")
    with layout.card("verdict"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(parts_questions.STATES[one.state], color={"found": "green", "not found": "red"}.get(one.state, "gray"))  # type: ignore[arg-type]
            st.header(plain(one.verdict), anchor=False, width="stretch")
            if (cite := layout.popover("Cite", "cite", type="tertiary")) is not None:
                where = link.address(st.context.url or "", link.parameters())
                cite.code(answers.citation(one, where, version.__version__), language=None, wrap_lines=True)
        lines = []
        for test in one.tests:
            if (difference := test.judged.difference) is not None and one.asked.metric != "audited":
                form = f"{text.capital(parts_questions.FORMS[test.size])}: " if len(one.tests) > 1 else ""
                told = report.interval_text(difference).replace("points", unit)
                n_added = difference.n - len(test.specs[one.asked.sides[0][1]].seeds)
                added = f", {n_added} of them added after a look" if n_added > 0 else ""
                lines.append(f"{form}{told}, {counted(difference.n, 'seed')}{added}: {test.judged.state}.")
        if lines:
            st.caption("  \n".join(map(plain, lines)))
        if one.excluded is not None:
            st.markdown(f"Not decided: less than {claims.bound_text(one.excluded)} {unit} either way.")
        # The runs that add seeds to both sides, where the form `name` does not decide.
        test = next(test for test in one.tests if one.question.forms[test.size].name == name)
        is_open = one.asked.metric != "audited" and not test.is_toy and test.judged.state == "cannot tell"
        more = questions.lacking_seeds(name, {run for _, run, _ in one.asked.sides[:2]}, test.runs) if is_open else {}
        if more and parts_questions.lacking(name) is None:
            label = f"Two more seeds: {status_line.about(sum(map(forecasts.rough_seconds, more.values())))}"
            press = run_panel.attempt(lambda: parts_questions.add_seeds(name, more))
            st.button(label, key="more-seeds", on_click=press, disabled=not can_start, help=WORDS["questions"]["more_seeds"])


def _instead(view: state.View, name: str, missing: DataMissing) -> None:
    """States what the runs lack on this computer, and leads to the largest of the smaller forms that lacks nothing."""
    st.warning(plain(f"These runs cannot start here. {train_form.in_words(missing)}."))
    forms = list(questions.of_preset(name).forms.items())
    for size, form in reversed(forms[: [form.name for _, form in forms].index(name)]):
        if parts_questions.lacking(form.name) is None:
            target = view.linked({"v": "1", "question": form.name})
            layout.arrow("questions", f"The same, {parts_questions.FORMS[size]}, can start here", target)
            return


def _start_card(name: str, newest: Set | None, *, can_start: bool) -> None:
    runs = questions.specs(name)
    with layout.card("status"), st.container(key="status-line", horizontal=True, vertical_alignment="center", gap="small"):
        duration, said = questions.durations([name], state.store())[name], "Duration unknown."
        if duration.seconds is not None:
            where = " on this computer" if duration.is_here else ", measured on another computer"
            first = " The first time takes longer: features are computed once." if duration.first_time else ""
            said = f"{text.capital(parts_questions.in_short(duration))}{where}.{first}"
        if newest is not None:
            label = {"finished": "Finished", "cancelled": "Stopped"}.get(newest.status, "Ended with an error")
            said = f"{label}: {newest.line(questions.titles(name))}. {said}"
        st.markdown(plain(said), width="stretch")
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


@state.each_second
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
    if (current := whole.current) is None:
        return
    label, run = current
    titles = questions.titles(whole.preset)
    result = state.run_result(run)
    line = run_panel.looked_at(run, result)
    with layout.card("status"):
        with st.container(key="status-line", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(run_panel.pill(line), width="stretch")
            if whole.status == "stopping" or state.store().may_change(run):
                run_panel.stop_or_stopping("stop-set", whole.status, run_panel.attempt(stop))
        place = list(whole.runs).index(label) + 1
        st.caption(plain(f"Run {place} of {len(whole.runs)}: {titles.get(label, label)}. {whole.line(titles)}."))
        if line.fraction is not None:
            st.html(run_panel.segments(line.fraction, 1 if line.is_stage else result.n_tasks))
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
    metric = answers.asked_of(questions.of_preset(name)).metric
    metric = metric if any(run.by_seed(model.epsilon, metric) for run in found.values() for model in run.models) else "AA"
    picture = questions.picture(spec, found, titles, known, metric=metric, dark=text.is_dark())
    total = len(questions.specs(name))
    note = "" if len(found) == total else f"results of {counted(len(found), 'run')}, of {total}"
    title = "The answer so far" if note else "The answer"
    figure_card.show(picture, None, key="answer", title=title, note=note, table=questions.scores(found, titles, metric))


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
    kept = newest.kept if newest is not None else {}
    stored = {label: run.run_id for label, run in found.items() if run.run_id is not None}
    stored |= {label: run.id for label, run in kept.items() if run.is_over and label not in stored}
    with st.container(key="runs-actions", horizontal=True, gap="small"):
        for label, run_id in stored.items():
            st.page_link("pages/train.py", label=f"Run: {titles.get(label, label)}", query_params={"v": "1", "run": run_id})
    for label, run in kept.items():
        if run.error:
            st.error(plain(f"{titles.get(label, label)}: {run.error}"))


if __name__ == "__main__":
    page()
