"""Questions: the gallery of answers, the runs behind one of them, and its paper: claims, numbers and figures beside ours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.elements.element import GALLERY
from dpcl_core.errors import DataMissing
from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.explorers.matching import TABLE_8
from dpcl_core.figures import reproduction, statistics
from dpcl_core.figures.picture import counted, epsilon_label, span
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import answers, catalog, claims, comparison, measured, other_data, questions, report
from dpcl_core.papers.paper import Experiment, Paper, Size
from dpcl_core.runs import process, shards
from dpcl_core.runs.run import Run
from dpcl_core.spec import RunSpec
from pages.parts import fields, figure_card, layout, link, rooms, state, text, train_form
from pages.parts.text import plain

# Starting all runs of a question as one entry of the queue, and how long they take.


def sets() -> shards.Sets:
    """The sets of the store."""
    return shards.Sets(state.store())


def start_question(name: str) -> None:
    """Queues all runs of the preset as one entry. Raises BadInput if one of them cannot be carried out here."""
    runs = questions.specs(name)
    # The only run of a question has the question's title, as when it is started on Train.
    titles = questions.titles(name) if len(runs) > 1 else dict.fromkeys(runs, presets.about(name).title)
    _queue(name, questions.cheapest_first(runs, state.store(), process.default()), titles)


def add_seeds(name: str, more: Mapping[str, RunSpec]) -> None:
    """Queues the runs that add seeds to a question's form, as one entry. Raises BadInput where one cannot start here."""
    _queue(name, more, {label: f"{questions.titles(name)[label]}: two more seeds" for label in more})


def _queue(name: str, runs: Mapping[str, RunSpec], titles: Mapping[str, str]) -> None:
    for spec in runs.values():
        checks.check_run(spec)
    set_id = sets().create(name, runs, device=process.default(), once=True, titles=titles)
    rooms.share(run.id for run in sets().get(set_id).runs.values())
    state.executor().schedule()


def alone(name: str) -> Run | None:
    """The newest run with settings of this preset that this visitor has started alone and that is not over."""
    return next((run for run in _going() if _digest(run) in questions.digests(name)), None)


def _going() -> list[Run]:
    """This visitor's runs that are not over, newest first: without those of sets, tunings and audits, and without parts."""
    store = state.store()
    mine = [run.id for run in store.unfinished() if store.may_change(run)]
    going = [run for run in store.listed(mine).values() if sets().of_run(run.id) is None] if mine else []
    return sorted(going, key=lambda run: run.created, reverse=True)


def _digest(run: Run) -> str | None:
    return run.readable_spec.digest() if run.readable_spec else None


def lacking(name: str) -> DataMissing | None:
    """The first of the packages, data and networks of a preset's runs that is not on this computer; None if all are."""
    alike = {(spec.method, spec.data.dataset, spec.data.backbone): spec for spec in questions.specs(name).values()}
    for spec in alike.values():
        try:
            checks.check_here(spec)
        except DataMissing as missing:
            return missing
    return None


def in_short(duration: questions.Duration) -> str:
    """The expected duration in a few words."""
    return "duration unknown" if duration.seconds is None else f"about {span(duration.seconds)}"


# The gallery: a card for each question, drawn in the browser by the element in `assets/gallery/`.


FORMS: Final = {"small": "small", "bundled": "larger", "full": "as published"}
FILTERS: Final = {"paper": "p", "method": "m", "data": "d", "answered": "a"}  # by what the gallery filters: keys of links
STATES: Final[Mapping[answers.State, str]] = {
    "found": "✓ found", "not found": "✗ not found", "cannot tell": "? cannot tell", "not run": "not measured yet",
}  # fmt: skip


def answers_of(asked: Sequence[questions.Question]) -> dict[str, answers.Answer]:
    """The answer to each question, by name: from this computer's newest finished runs of each form, else as recorded."""
    digests = {question.name: _digests_of(question.name) for question in asked}
    here = sets().finished([digest for of in digests.values() for digest in of])
    ids = {name: tuple(here[digest] for digest in of if digest in here) for name, of in digests.items()}
    recorded = answers.recorded()
    return {name: _answer(state.where(), name, of) if of else recorded[name] for name, of in ids.items()}


def _named(name: str) -> questions.Question:
    return next(one for one in questions.questions() if one.name == name)


@cache
def _digests_of(name: str) -> tuple[str, ...]:
    """The digests of the runs of all forms of a question, with those that add seeds."""
    forms = _named(name).forms.values()
    added = (more for form in forms for more in questions.further(form.name).values())
    return (*(digest for form in forms for digest in questions.digests(form.name)), *map(RunSpec.digest, added))


@st.cache_resource(max_entries=100, show_spinner=False)
def _answer(where: tuple[str, str, str], name: str, ids: tuple[str, ...]) -> answers.Answer:
    forms = _named(name).forms.items()
    return answers.answer(_named(name), {size: questions.results(form.name, state.store()) for size, form in forms})


def gallery(view: state.View) -> None:
    """Draws the filters and a card for every question that they leave."""
    every = answers_of(questions.questions())
    with st.container(key="filters", horizontal=True, gap="small"):
        of = _filters(every).items()
        chosen = {name: fields.select(view, name, title, titles, width=170) for name, (title, titles) in of}
    key = view.key("gallery")

    def opened() -> None:
        reported = st.session_state.get(key, {}).get("open")
        if reported in presets.names():
            view.go({**link.parameters(), "v": "1", "question": str(reported)})

    left = [one for one in every.values() if _is_left(one, chosen)]
    figure_card.mounted(GALLERY)(key=key, data=document(left, chosen), on_open_change=opened)


def _filters(every: Mapping[str, answers.Answer]) -> dict[str, tuple[str, dict[str, str]]]:
    """Title and options of each filter, those with most questions first."""
    of_methods, of_data = (Counter(name for one in every for name in _facets(one)[place]) for place in (0, 1))
    of_states = Counter(one.state for one in every.values())
    papers = {paper.name: paper.title for paper in catalog.PAPERS.values()}
    data = {name: datasets.card(name).title.partition(" (")[0] for name, _ in of_data.most_common()}
    return {
        "paper": ("Paper", {"": "All", measured.OWN: questions.OWN, **papers}),
        "method": ("Method", {"": "All", **{name: methods.card(name).title for name, _ in of_methods.most_common()}}),
        "data": ("Data", {"": "All", **data}),
        "answered": ("Answer", {"": "All", **{name: f"{words} ({of_states[name]})" for name, words in STATES.items()}}),
    }


@cache
def _facets(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The methods and the datasets of a question's runs."""
    specs = [spec for form in _named(name).forms.values() for spec in questions.specs(form.name).values()]
    return frozenset(spec.method for spec in specs), frozenset(spec.data.dataset for spec in specs)


def _is_left(one: answers.Answer, chosen: Mapping[str, str]) -> bool:
    of_methods, of_data = _facets(one.question.name)
    has = {"paper": {one.question.paper or measured.OWN}, "method": of_methods, "data": of_data, "answered": {one.state}}
    return all(not chosen[name] or chosen[name] in values for name, values in has.items())


def document(left: Sequence[answers.Answer], chosen: Mapping[str, str]) -> dict[str, object]:
    """What the element is drawn from: the groups with their cards, in the order of the papers."""
    durations = questions.durations([one.question.smallest.name for one in left], state.store())
    # The presets of which a set, or a run that this visitor has started alone, is not over.
    going = {_digest(run) for run in _going()}
    running = {*sets().under_way(), *(name for name in presets.names() if going and going & {*questions.digests(name)})}
    groups: dict[str, dict[str, Any]] = {}
    for one in left:
        title, note = one.question.group, "" if one.question.paper is None else _claimed(one.question.paper)
        group = groups.setdefault(title, {"title": title, "note": note, "cards": []})
        group["cards"].append(_card(one, durations[one.question.smallest.name], running, chosen))
    return {"groups": [*groups.values()], "none": "" if left else "No question fits. Choose All in one of the lists above."}


@cache
def _claimed(paper: str) -> str:
    """The count of a paper's claims by verdict."""
    return f"{claims.sentence(claims.of_paper(catalog.paper(paper))).partition('. ')[0]}."


def _card(one: answers.Answer, duration: questions.Duration, running: set[str], chosen: Mapping[str, str]) -> dict[str, str]:
    forms = one.question.forms
    form = forms[one.shown.size] if one.shown is not None else one.question.smallest
    is_running = any(each.name in running for each in forms.values())
    kept = {FILTERS[name]: value for name, value in chosen.items() if value}
    return {
        "name": form.name,
        "query": f"?{urlencode({'v': '1', 'question': form.name, **kept})}",
        "asked": one.question.asked,
        "verdict": one.verdict or _unmeasured(one.question),
        "state": one.state.replace(" ", "-"),
        "said": "● under way" if is_running else STATES[one.state],
        "minutes": "" if duration.seconds is None else span(duration.seconds),
        "picture": answers.picture(one),
    }


def _unmeasured(question: questions.Question) -> str:
    """What a question lacks on this computer, in one sentence, if anything; its own page says how to get it."""
    if (missing := lacking(question.smallest.name)) is None:
        return "Open it to measure it."
    if missing.field == "data.dataset":
        return f"Its data are not on this computer: {datasets.card(str(missing.value)).title}."
    if missing.field == "data.backbone":
        return f"Its network is not on this computer: {backbones.card(str(missing.value)).title}."
    return "It needs packages that are not on this computer."


# The paper's side of a question: its claims, numbers and figures beside ours, in one form.

# Below the title of a figure without a table in the paper; by whether the experiment is ours.
_NO_TABLE = {False: "published only as plots: no numbers to draw", True: "our own experiment, not the paper's"}
# Paper, experiment, form, and this computer's finished runs: what a content follows from. With it, parts can be kept.
Key = tuple[str, str, Size, tuple[tuple[str, str], ...]]


def opening_form(experiment: Experiment) -> Size:
    """The largest form with recorded runs, where an effect is seen best; the smallest form where nothing is recorded."""
    having = (size for size in reversed(experiment.sizes) if questions.recorded(presets.variants(experiment.preset(size))))
    return next(having, experiment.sizes[0])


@st.cache_resource(max_entries=50, show_spinner=False)
def _content(where: tuple[str, str, str], key: Key, _own: Mapping[str, Run]) -> report.PaperSide:
    """What follows from this computer's newest finished runs (`_own`) and, of each other run of the form, its record."""
    paper = catalog.paper(key[0])
    experiment, size = catalog.experiment(paper, key[1]), key[2]
    specs = presets.variants(experiment.preset(size))
    runs = questions.recorded(specs)
    runs |= {label: measured.measured_run(run, state.run_result(run).events) for label, run in _own.items()}
    form = claims.form(paper, experiment, size, {label: runs[label] for label in specs if label in runs})
    others = [claims.form(paper, experiment, other) for other in experiment.sizes if other != size]
    joined = claims.claims([form, *others], are_ours=experiment.is_ours)
    return report.PaperSide(form, comparison.comparison_rows(paper, experiment, runs), joined)


def paper_view(view: state.View, question: questions.Question, size: Size) -> None:
    """Draws the paper's side."""
    specs = presets.variants(question.forms[size].name)
    finished = sets().finished([spec.digest() for spec in specs.values()])
    present = state.store().present(list(finished.values()))
    own = {label: present[run_id] for label, spec in specs.items() if (run_id := finished.get(spec.digest())) in present}
    key: Key = (str(question.paper), question.experiment, size, tuple((label, run.id) for label, run in own.items()))
    found = _content(state.where(), key, own)
    findings(key, found)
    titles = {name: comparison.quantity(name, found.form.specs.values()) for name in found.form.experiment.metrics}
    metric = next(iter(titles))
    if len(titles) > 1:
        metric = fields.segmented(view, "metric", "Quantity", titles, key=f"{view.key('metric')}-{question.paper}")
    view.values["metric"] = metric
    # The published numbers and ours, with their lines of reference.
    form, experiment = found.form, found.form.experiment
    frame = report.drawn_numbers(found.of_metric(metric))
    references = comparison.references_beside(form, metric)
    n_doubtful = sum(row.is_doubtful for row in found.of_metric(metric))
    note = f"{form.paper.title}, {experiment.place}" if experiment.table else _NO_TABLE[experiment.is_ours]
    note += f"; not drawn: {counted(n_doubtful, 'doubtful number')}" if n_doubtful else ""
    picture = figure_card.built(reproduction.published_and_ours, frame, what=titles[metric], references=references)
    figure_card.show(
        picture, found.provenance(), key="reproduction", title=f"{experiment.title}: {titles[metric]}", note=note,
        table=frame, linked=True,
    )  # fmt: skip
    _figures(key, found)
    _claims(found)
    _on_other_data(found.form.paper, found.form.experiment)
    draw_numbers(key, metric, found)
    if found.form.experiment.has_match_rates:
        match_rates(found.form.runs)
    earlier(found)
    text.button()
    runs(key, found)


@figure_card.still
def findings(key: Key, _content: report.PaperSide) -> None:
    """Draws the count of claims and which runs are missing."""
    if lead := _content.lead:
        st.header(lead, anchor=False)
    runs, specs = _content.form.runs, _content.form.specs
    if not runs:
        st.info("None of these runs exists yet: open one below and press Start, or use the terminal.")
    elif missing := [label for label in specs if label not in runs]:
        st.info(f"Here: {len(runs)} of {counted(len(specs), 'run')}. Still missing: {', '.join(missing)}.")


def _figures(key: Key, found: report.PaperSide) -> None:
    """Draws one of the paper's figures from our runs, and the choice of it."""
    form, of = found.form, {figure.name: figure for figure in found.form.experiment.figures}
    if not of:
        return
    experiment, epsilon, test = form.experiment.name, None, None
    with st.container(key="figure-choices", horizontal=True, vertical_alignment="bottom", gap="small"):
        name = st.selectbox("Figure of the paper", of, format_func="Figure {}".format, key=f"figure-{experiment}", width=260)
        at = f"{experiment}-{name}"
        if budgets := comparison.figure_budgets(form, of[name]):
            epsilon = fields.buttons("Budget", budgets, budgets[0], epsilon_label, key=f"figure-budget-{at}")
        if tests := comparison.figure_tests(form, of[name]):
            titles = [f"{one.first.run} / {one.second.run}, {report.budgets_of(one)}" for one in tests]
            test = fields.choice("Compared", dict(enumerate(titles)), 0, key=f"figure-test-{at}")
    drawn = _figure(key, name, epsilon, test, text.is_dark(), found)
    figure_card.show(
        drawn.picture, found.provenance(), key="paper-figure", title=f"Figure {name}", table=drawn.table, caption=drawn.note,
        note="ours" if of[name].has_tests else "ours; hollow diamonds: printed",
    )  # fmt: skip


@st.cache_resource(max_entries=100, show_spinner=False)
def _figure(
    key: Key, name: str, epsilon: float | None, test: int | None, dark: bool, _found: report.PaperSide
) -> comparison.Drawn:
    form = _found.form
    figure = next(one for one in form.experiment.figures if one.name == name)
    chosen = None if test is None else comparison.figure_tests(form, figure)[test]
    return comparison.draw_figure(form, figure, epsilon=epsilon, test=chosen, dark=dark)


def _claims(found: report.PaperSide) -> None:
    """Draws the claims: the verdict of all forms together, this form's difference, and what each layer says."""
    if not found.form.judged:
        return
    lines = report.claim_lines(found)
    whose = "Our own" if found.form.experiment.is_ours else "The paper's"
    with layout.card("claims", f"**{whose} claims, tested in our runs**"):
        st.dataframe(pd.DataFrame(lines).fillna(""), hide_index=True, key="claims-table", alt=found.lead)
        st.caption(report.claims_note(found.form.paper, lines))
        if layers := [f"- **{name}**: {what}" for name, what in map(report.layer, claims.by_layer([found.form]))]:
            st.markdown("\n".join(["**Layer by layer**", "", *layers]))
            st.caption(report.LAYERS_NOTE)


@figure_card.still
def draw_numbers(key: Key, metric: str, _content: report.PaperSide) -> None:
    """Draws the numbers of one metric and the reasons for their differences."""
    lines, notes = report.number_rows(_content.of_metric(metric))
    with layout.card("reproduction-table", "**The numbers** :small[percent, mean ± standard deviation over seeds]"):
        if lines:
            alt = f"{len(lines)} numbers, published and ours, in percent"
            st.dataframe(pd.DataFrame(lines), hide_index=True, key="reproduction-table", alt=alt, height="content")
        remarks = [f"Note {number}: {remark}" for number, remark in enumerate(notes, start=1)]
        for remark in (*remarks, *comparison.table_remarks(_content.form)):
            st.caption(plain(remark))
        if reasons := comparison.reasons(_content.form):
            with st.expander("Why our numbers differ"):
                st.markdown("\n".join(f"- {plain(reason)}" for reason in reasons))


@figure_card.still
def runs(key: Key, _content: report.PaperSide) -> None:
    """Draws a line for each run of the preset, with its link, and the command for all."""
    experiment, size = _content.form.experiment, _content.form.size
    with st.expander("The runs"):
        for label, spec in _content.form.specs.items():
            run = _content.form.runs.get(label)
            with st.container(key=f"reproduction-run-{label}", horizontal=True, vertical_alignment="center", gap="small"):
                layer = methods.layer(spec)
                suffix, words = ("", []) if layer is None else (f" · {layer.title}", [layer.words])
                more = " ".join([*words, *(run.made_before if run else ())])
                st.markdown(plain(f"{report.source(label, run)}{suffix}"), width="stretch", help=plain(more) or None)
                layout.arrow("train", "Open in Train", train_form.parameters_of(spec))
        seconds = presets.about(experiment.preset(size)).seconds_in_all
        st.caption("All runs from a terminal" + (f", about {seconds:g} s on two cores:" if seconds is not None else ":"))
        command = f"python -m dpcl_core reproduce {_content.form.paper.name} --experiment {experiment.name} --{size}"
        st.code(command, language=None, wrap_lines=True)


def match_rates(runs: Mapping[str, measured.Measured]) -> None:
    """Draws the printed p̂ and margins, ours if a run of the visitor recorded them, and a link to Explore."""
    run_ids = (run.run_id for run in runs.values() if run.run_id)
    scores_by_run = {run_id: scores for run_id in run_ids if (scores := _scores(run_id)) is not None}
    run_id, scores = max(scores_by_run.items(), key=lambda item: len(item[1].m), default=("", None))
    ours, whose = {}, "No own numbers yet: recorded runs keep models, not lists."
    if scores is not None:
        measures = zip(scores.m, scores.mean_rate, scores.least_rate, scores.least_gap, strict=True)
        ours = {m: (f"{mean:.2f}", f"{least:.2f}", f"{gap:.2g}") for m, mean, least, gap in measures}
        whose = f"Ours: your run {run_id[:4]}, entries of all its clients' lists; separated if signatures differ by "
        whose += f"{scores.gap:g} standard deviations."
    with layout.card("match-rates", "**How often an anchor separates two entries** :small[Table 8; not a metric of models]"):
        layout.draw_table(
            ("m", "p̂ printed", "margin printed", "ours: p̂, mean", "p̂, worst pair", "least gap"),
            ((f"{m}", f"{rate:.2f}", f"{margin:.2f}", *ours.get(m, "–––")) for m, (rate, margin) in TABLE_8.items()),
            names=0,
        )
        st.caption(f"{whose} The paper prints neither γ nor the margin's unit, so no difference is formed.")
        where, query = ("this run", {"sh": "run", "run": run_id}) if run_id else ("a simulation, or a run of yours", {})
        layout.arrow("explore", f"How many anchors does it take? In {where}", {"view": "clients", **query})


def _scores(run_id: str) -> AnchorScores | None:
    """The anchor scores that a run measured at its end; None if it did not."""
    events = state.run_result(state.store().get(run_id)).events
    scores = [event.anchors for event in events if isinstance(event, Signatures) and event.anchors is not None]
    return scores[-1] if scores else None


def earlier(found: report.PaperSide) -> None:
    """Draws the earlier numbers next to the later ones and ours, and the figure; nothing without an earlier version."""
    numbers = report.earlier_numbers(found)
    if numbers.empty:
        return
    with layout.card("earlier", "**The workshop version** :small[percent, mean ± standard deviation]"):
        alt = f"{len(numbers)} numbers of the workshop version, beside the later ones"
        st.dataframe(numbers, hide_index=True, key="earlier-table", alt=alt, height="content")
        st.caption("The workshop version prints forgetting as a share; here it is in percent.")
    frame = report.members(found.form.runs)
    figure_card.show(
        figure_card.built(statistics.members_and_ensemble, frame), found.provenance(), key="members",
        title="Single members and the ensemble", table=frame, linked=True,
        note="The workshop version states for its Figure A.1, a plot without numbers: single members are better without "
        "noise than with it, and their ensemble is not.",
    )  # fmt: skip


def _on_other_data(paper: Paper, experiment: Experiment) -> None:
    """Draws the verdicts on other data, as recorded, and the command that tests the claims on one's own."""
    with layout.card("other-data", "**Other data, same claims**"):
        for place, (_, form) in enumerate(one for one in other_data.recorded(paper) if one[1].experiment is experiment):
            st.markdown(said := plain(f"{other_data.data_title(form)}: {other_data.sentence(form)}"))
            lines = pd.DataFrame(other_data.lines(form), columns=list(other_data.HEAD))
            st.dataframe(lines, hide_index=True, key=f"other-data-{place}", alt=said)
            st.caption(plain(other_data.changes(form)))
        st.caption("On data of your own, or any of the catalogue; what your own cost is counted:")
        st.code(f"dpcl run {experiment.name} --on own:NAME", language=None, wrap_lines=True)
