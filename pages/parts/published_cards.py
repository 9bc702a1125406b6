"""Published numbers: an experiment's runs, what they say of the paper's claims, and the cards that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dpcl_core import presets
from dpcl_core.events import AnchorScores, References, Signatures
from dpcl_core.explorers.matching import TABLE_8
from dpcl_core.figures import statistics
from dpcl_core.figures.picture import Provenance, counted, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.features.params import MEMBER
from dpcl_core.papers import catalog, claims, comparison, measured, questions, report
from dpcl_core.papers.claims import Form
from dpcl_core.papers.comparison import Row
from dpcl_core.papers.paper import Experiment, Paper, Size
from dpcl_core.runs.run import Run
from dpcl_core.runs.shards import Sets
from pages.parts import figure_card, layout, state, text, train_form
from pages.parts.text import plain

# Paper, experiment, form, and the visitor's own finished runs: what a content follows from. With it, parts can be kept.
Key = tuple[str, str, Size, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Content:
    """An experiment in one form, with the verdicts on its claims, and all its numbers."""

    paper: Paper
    form: Form
    rows: Sequence[Row]

    @property
    def lead(self) -> str:
        """The count of its claims by verdict."""
        return claims.sentence(claims.claims([self.form], are_ours=self.form.experiment.is_ours))

    def provenance(self) -> Provenance:
        """The source of a figure of these runs."""
        specs = [run.spec for run in self.form.runs.values()]
        return Provenance(
            dataset=" | ".join(dict.fromkeys(run.dataset_title for run in self.form.runs.values())),
            n_train=None,
            method=f"published: {self.paper.source}",
            epsilons=tuple(sorted({epsilon for spec in specs for epsilon in spec.privacy.epsilons})),
            delta=specs[0].privacy.delta if specs else None,
            n_seeds=tuple(dict.fromkeys(len(spec.seeds) for spec in specs)),
            runs=tuple(run.run_id for run in self.form.runs.values() if run.run_id is not None),
            standings=tuple(methods.standing(spec) for spec in specs) or ("bound",),
        )

    def of_metric(self, metric: str) -> list[Row]:
        """The numbers of one metric."""
        return [row for row in self.rows if row.metric == metric]


def opening_form(paper: Paper, experiment: Experiment) -> Size:
    """The largest form with recorded runs, where an effect is seen best; the smallest form where nothing is recorded."""
    return _opening_form(state.where(), paper.name, experiment.name)


@st.cache_resource(max_entries=100, show_spinner=False)
def _opening_form(where: tuple[str, str, str], paper_name: str, name: str) -> Size:
    recorded = measured.recorded(paper_name)
    experiment = catalog.experiment(catalog.paper(paper_name), name)

    def is_recorded(size: Size) -> bool:
        return any(measured.find(spec, recorded) is not None for spec in presets.variants(experiment.preset(size)).values())

    return next(filter(is_recorded, reversed(experiment.sizes)), experiment.sizes[0])


def content(paper: Paper, experiment: Experiment, size: Size) -> tuple[Key, Content]:
    """For each run of the preset: the visitor's newest finished run, else the recorded one, if any; and what follows."""
    specs = presets.variants(experiment.preset(size))
    finished = Sets(state.store()).finished([spec.digest() for spec in specs.values()])
    found = state.store().present(list(finished.values()))
    own = {label: found[run_id] for label, spec in specs.items() if (run_id := finished.get(spec.digest())) in found}
    key: Key = (paper.name, experiment.name, size, tuple((label, run.id) for label, run in own.items()))
    return key, _content(state.where(), key, own)


@st.cache_resource(max_entries=50, show_spinner=False)
def _content(where: tuple[str, str, str], key: Key, _own: Mapping[str, Run]) -> Content:
    paper = catalog.paper(key[0])
    experiment, size = catalog.experiment(paper, key[1]), key[2]
    specs = presets.variants(experiment.preset(size))
    runs: dict[str, measured.Measured] = {}
    for label, spec in specs.items():
        recorded = measured.find(spec, measured.recorded(paper.name))
        if label in _own:
            runs[label] = measured.measured_run(_own[label], state.run_result(_own[label]).events)
        elif recorded is not None:
            runs[label] = recorded
    form = claims.form(paper, experiment, size, runs)
    return Content(paper, form, comparison.comparison_rows(paper, experiment, runs))


@st.cache_resource(max_entries=100, show_spinner=False)
def figure_numbers(key: Key, metric: str, _content: Content) -> tuple[pd.DataFrame, References | None]:
    """The numbers of a metric for its figure, and its lines of reference."""
    known = questions.references_beside(
        _content.form.experiment.preset(_content.form.size), _content.form.specs, _content.form.runs, metric
    )
    return report.drawn_numbers(_content.of_metric(metric)), known


# The cards of the page.


_MEMBERS = (
    "The workshop version states for its Figure A.1, a plot without numbers: single members are better without noise than "
    "with it, and their ensemble is not."
)


@figure_card.still
def findings(key: Key, _content: Content) -> None:
    """Draws the lead, the runs that are still missing, a line for each layer, and a verdict on each of the claims."""
    if lead := _content.lead:
        st.header(lead, anchor=False)
    if not _content.form.runs:
        st.info("None of these runs exists yet: open one below and press Start, or use the terminal.")
    elif len(_content.form.runs) < len(_content.form.specs):
        missing = ", ".join(label for label in _content.form.specs if label not in _content.form.runs)
        st.info(f"Here: {len(_content.form.runs)} of {counted(len(_content.form.specs), 'run')}. Still missing: {missing}.")
    _layers(_content)
    _claims(_content)


def _layers(content: Content) -> None:
    """Draws a line for each layer: its runs, what it means, and the claims between two runs of it."""
    counts = claims.by_layer([content.form])
    if not counts:
        return
    with layout.card("layers"):
        st.markdown("**Layer by layer**")
        st.markdown("\n".join(f"- **{name}**: {what}" for name, what in map(report.layer, counts)))
        st.caption(report.LAYERS_NOTE)


def _claims(content: Content) -> None:
    """Draws the table of verdicts; nothing without claims."""
    if not content.form.judged:
        return
    lines = [
        report.claim(content.paper, content.form.experiment, content.form.specs, content.form.runs, one)
        for one in content.form.judged
    ]
    with st.container(key="card-claims", gap="small"):
        whose = "Our own" if content.form.experiment.is_ours else "The paper's"
        st.markdown(f"**{whose} claims, tested in our runs**")
        st.dataframe(pd.DataFrame(lines), hide_index=True, key="claims-table", alt=content.lead)
        st.caption(report.claims_note(content.paper, lines))


@figure_card.still
def draw_numbers(key: Key, metric: str, _content: Content) -> None:
    """Draws the numbers of one metric and the reasons for their differences."""
    lines, notes = report.number_rows(_content.of_metric(metric))
    with st.container(key="card-reproduction-table", gap="small"):
        st.markdown("**The numbers** :small[percent, mean ± standard deviation over seeds]")
        if lines:
            alt = f"{len(lines)} numbers, published and ours, in percent"
            st.dataframe(pd.DataFrame(lines), hide_index=True, key="reproduction-table", alt=alt, height="content")
        remarks = [f"Note {number}: {remark}" for number, remark in enumerate(notes, start=1)]
        for remark in (*remarks, *comparison.table_remarks(_content.paper, _content.form.experiment)):
            st.caption(plain(remark))
        reasons = comparison.reasons(
            _content.paper, _content.form.experiment, _content.form.size, _content.form.runs.values()
        )
        if reasons:
            st.markdown("**Why our numbers differ**")
            st.markdown("\n".join(f"- {plain(reason)}" for reason in reasons))


@figure_card.still
def runs(key: Key, _content: Content) -> None:
    """Draws a line for each run of the preset, with its link, and the command for all."""
    experiment, size = _content.form.experiment, _content.form.size
    with st.container(key="card-reproduction-runs", gap="small"):
        st.markdown("**The runs**")
        for label, spec in _content.form.specs.items():
            run = _content.form.runs.get(label)
            with st.container(key=f"reproduction-run-{label}", horizontal=True, vertical_alignment="center", gap="small"):
                layer = methods.layer(spec)
                suffix = "" if layer is None else f" · {layer.title}"
                more = " ".join([*([layer.words] if layer else []), *(run.made_before if run else ())])
                st.markdown(plain(f"{report.source(label, run)}{suffix}"), width="stretch", help=plain(more) or None)
                layout.arrow("train", "Open in Train", train_form.parameters_of(spec))
        seconds = presets.about(experiment.preset(size)).seconds_in_all
        st.caption("All runs from a terminal" + (f", about {seconds:g} s on two cores:" if seconds is not None else ":"))
        command = f"python -m dpcl_core reproduce {_content.paper.name} --experiment {experiment.name} --{size}"
        st.code(command, language=None, wrap_lines=True)


def match_rates(runs: Mapping[str, measured.Measured]) -> None:
    """Draws the printed p̂ and margins, ours if a run of the visitor recorded them, and a link to Matching clients."""
    run_ids = (run.run_id for run in runs.values() if run.run_id)
    scores_by_run = {run_id: scores for run_id in run_ids if (scores := _scores(run_id)) is not None}
    run_id, scores = max(scores_by_run.items(), key=lambda item: len(item[1].m), default=(None, None))
    ours = {} if scores is None else {
        m: (f"{mean:.2f}", f"{least:.2f}", f"{gap:.2g}")
        for m, mean, least, gap in zip(scores.m, scores.mean_rate, scores.least_rate, scores.least_gap, strict=True)
    }  # fmt: skip
    with st.container(key="card-match-rates", gap="small"):
        st.markdown("**How often an anchor separates two entries** :small[Table 8; not a metric of models]")
        layout.draw_table(
            ("m", "p̂ printed", "margin printed", "ours: p̂, mean", "p̂, worst pair", "least gap"),
            ((f"{m}", f"{rate:.2f}", f"{margin:.2f}", *ours.get(m, "–––")) for m, (rate, margin) in TABLE_8.items()),
            names=0,
        )
        whose = (
            "No own numbers yet: recorded runs keep models, not lists."
            if scores is None
            else f"Ours: your run {str(run_id)[:4]}, entries of all its clients' lists; separated if signatures differ by "
            f"{scores.gap:g} standard deviations."
        )
        st.caption(f"{whose} The paper prints neither γ nor the margin's unit, so no difference is formed.")
        query = {"v": "1", "sh": "run", "run": str(run_id)} if run_id else {"v": "1"}
        where = "this run" if run_id else "a simulation, or a run of yours"
        label = f"p̂ by number of anchors, for {where}: tab Anchors of Matching clients"
        layout.arrow("anchors", label, query)


def _scores(run_id: str) -> AnchorScores | None:
    """The anchor scores that a run measured at its end; None if it did not."""
    events = state.run_result(state.store().get(run_id)).events
    scores = [event.anchors for event in events if isinstance(event, Signatures) and event.anchors is not None]
    return scores[-1] if scores else None


def earlier(
    paper: Paper, experiment: Experiment, rows: Sequence[Row], runs: Mapping[str, measured.Measured], provenance: Provenance
) -> None:
    """Draws the earlier numbers next to the later ones and ours, and the figure; nothing without an earlier version."""
    printed = comparison.earlier(paper, experiment, rows)
    if not printed:
        return
    with st.container(key="card-earlier", gap="small"):
        st.markdown("**The workshop version** :small[percent, mean ± standard deviation]")
        lines = [
            (
                row.name, epsilon_text(row.epsilon), comparison.METRICS[row.metric], report.printed_text(row),
                *((report.printed_text(later), report.ours_text(later)) if later is not None else "––"),
            )
            for row, later in printed
        ]  # fmt: skip
        heads = ["method", "ε", "quantity", "workshop", "later", "ours"]
        alt = f"{len(lines)} numbers of the workshop version, beside the later ones"
        st.dataframe(pd.DataFrame(lines, columns=heads), hide_index=True, key="earlier-table", alt=alt, height="content")
        st.caption("The workshop version prints forgetting as a share; here it is in percent.")
    frame = _frame(runs)
    figure_card.show(
        statistics.members_and_ensemble(frame, dark=text.is_dark()), provenance, key="members",
        title="Single members and the ensemble", note=_MEMBERS, table=frame, linked=True,
    )  # fmt: skip


def _frame(runs: Mapping[str, measured.Measured]) -> pd.DataFrame:
    """Accuracy in percent of single members and of the ensemble: one row per model of runs that measured both."""
    rows = [
        (model.epsilon, model.seed, 100 * model.by_rule[MEMBER], 100 * (model.value("AA") or 0.0))
        for run in runs.values()
        for model in run.models
        if MEMBER in model.by_rule
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "member", "ensemble"])
