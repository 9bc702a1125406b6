"""Published numbers page: a paper's numbers beside ours, and which of its claims our runs reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import streamlit as st

from dpcl_core import presets
from dpcl_core.events import References
from dpcl_core.figures.picture import Provenance
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import answers, catalog, comparison, measured, report, tables, verdicts
from dpcl_core.papers.comparison import METRICS, Row
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Judged
from dpcl_core.papers.paper import SIZES, Experiment, Paper, Size
from dpcl_core.spec import RunSpec
from pages.parts.claims import match_rates
from pages.parts.published import claims, earlier, layers
from pages.parts.shell import citation, link, pickers, pictures, state, stored_results, style, terms
from pages.parts.shell.figure_card import show
from pages.parts.shell.header import actions, heading
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import train_form

HELP = """Hollow marks: the paper's numbers. Filled marks: ours, from your own finished run of the same preset if there is
one, else from the last recorded run. Thin lines: what guessing and the untrained network give on our data. The reasons
below the table say why the two differ. A claim counts as found or not found only if the 95 % interval of its paired
difference decides."""
# Below the title of a figure without a table in the paper; by whether the experiment is ours.
_NO_TABLE = {False: "published only as plots: no numbers to draw", True: "our own experiment, not the paper's"}
FORMS = {"small": "small: minutes", "bundled": "larger: hours", "full": "as published"}
_FIRST = next(iter(catalog.PAPERS.values()))
CODEC = link.Codec(
    [
        link.Field("paper", "p", "paper", link.Choice(tuple(catalog.PAPERS)), _FIRST.name),
        link.Field(
            "experiment", "x", "experiment",
            link.Choice(tuple(experiment.name for paper in catalog.PAPERS.values() for experiment in paper.experiments)),
            _FIRST.experiments[0].name,
        ),
        link.Field("size", "z", "form", link.Choice(SIZES), "small"),
        link.Field("metric", "q", "quantity", link.Choice(tuple(METRICS)), "AA"),
    ]
)  # fmt: skip


@state.guarded
def page() -> None:
    """The page."""
    state.store()
    view = View("published", lambda _: CODEC)
    shown = catalog.paper(st.session_state.get(view.key("paper"), view["paper"]))  # the heading is drawn before the choice
    place = heading("Published numbers", f"{plain(shown.title)}: do its results come out here?", notices=view.read.notices)
    paper, experiment, size, metric, specs = _choices(view)
    runs = _measured(paper, specs)
    judged = report.judged(experiment, specs, runs)
    _state(experiment, specs, runs, judged)
    layers.card(specs, runs, judged)
    claims.card(paper, experiment, specs, runs, judged)
    every = comparison.rows(paper, experiment, runs)
    rows = [row for row in every if row.metric == metric]
    known = answers.references_beside(experiment.preset(size), specs, runs, metric)
    _picture(paper, experiment, comparison.quantity(metric, specs.values()), rows, runs, known)
    _table(paper, experiment, size, rows, runs)
    if experiment.has_match_rates:
        match_rates.card(runs)
    earlier.card(paper, experiment, every, runs, _provenance(paper, runs))
    citation.button()
    _runs(paper, experiment, size, specs, runs)
    values = {"paper": paper.name, "experiment": experiment.name, "size": size, "metric": metric}
    actions(place, share=view.commit(values, CODEC), help_text=HELP, view=view)


def _choices(view: View) -> tuple[Paper, Experiment, Size, str, dict[str, RunSpec]]:
    with st.container(key="published-choices", horizontal=True, vertical_alignment="bottom", gap="medium"):
        titles = {name: paper.title for name, paper in catalog.PAPERS.items()}
        paper = catalog.paper(pickers.select(view, "paper", "Paper", titles, width=260))
        titles = {one.name: one.title for one in paper.experiments}
        experiment = catalog.experiment(paper, pickers.select(view, "experiment", "Experiment", titles, width=260))
        forms = list(experiment.sizes)
        wanted = cast(Size, view["size"])
        start = wanted if wanted in forms else forms[0]
        size = st.segmented_control(
            "Form", forms, default=start, format_func=FORMS.__getitem__, key=f"{view.key('size')}-{experiment.name}",
            required=True, help="Small: a part of the data. Larger: more of it, and a network that comes with pip.",
        )  # fmt: skip
        size = start if size is None else size
        specs = presets.variants(experiment.preset(size))
        metrics = experiment.metrics
        looked_at = str(view["metric"]) if view["metric"] in metrics else metrics[0]
        metric = looked_at
        if len(metrics) > 1:
            metric = st.segmented_control(
                "Quantity", metrics, default=looked_at, format_func=lambda name: comparison.quantity(name, specs.values()),
                key=f"{view.key('metric')}-{paper.name}", required=True,
            )  # fmt: skip
    return paper, experiment, size, str(metric or looked_at), specs


def _measured(paper: Paper, specs: Mapping[str, RunSpec]) -> dict[str, Measured]:
    """For each run of the preset: the visitor's newest finished run, else the recorded one, if any."""
    own_runs = {run.readable_spec: run for run in reversed(state.store().list_runs()) if run.status == "finished"}
    runs: dict[str, Measured] = {}
    for label, spec in specs.items():
        run, recorded = own_runs.get(spec), measured.find(spec, measured.recorded(paper.name))
        if run is not None:
            runs[label] = measured.of_run(run, stored_results.of(run).events)
        elif recorded is not None:
            runs[label] = recorded
    return runs


def _state(
    experiment: Experiment, specs: Mapping[str, RunSpec], runs: Mapping[str, Measured], judged: list[Judged]
) -> None:
    """Draws the question and how many claims come out, and lists the runs that are still missing."""
    terms.markdown(experiment.question)
    if lead := verdicts.lead(judged):
        st.header(lead, anchor=False)
    if not runs:
        st.info("None of these runs exists yet: open one below and press Start, or use the terminal.")
    elif len(runs) < len(specs):
        missing = ", ".join(label for label in specs if label not in runs)
        st.info(f"{len(runs)} of {len(specs)} runs are here. Still missing: {missing}.")


def _picture(
    paper: Paper, experiment: Experiment, quantity: str, rows: list[Row], runs: Mapping[str, Measured],
    references: References | None,
) -> None:  # fmt: skip
    from dpcl_core.figures import reproduction

    frame = tables.drawn_numbers(rows)
    doubtful = [row for row in rows if row.is_doubtful]
    note = f"{paper.title}, {experiment.place}" if experiment.table else _NO_TABLE[experiment.is_ours]
    show(
        pictures.kept(reproduction.published_and_ours)(frame, what=quantity, references=references, dark=style.is_dark()),
        _provenance(paper, runs),
        key="reproduction", title=f"{experiment.title}: {quantity}", table=frame, linked=True,
        note=note + (f"; not drawn: {len(doubtful)} doubtful number" if doubtful else ""),
    )  # fmt: skip


def _provenance(paper: Paper, runs: Mapping[str, Measured]) -> Provenance:
    specs = [run.spec for run in runs.values()]
    return Provenance(
        dataset=" | ".join(dict.fromkeys(run.dataset_title for run in runs.values())),
        n_train=None,
        method=f"published: {paper.source}",
        epsilons=tuple(sorted({epsilon for spec in specs for epsilon in spec.privacy.epsilons})),
        delta=specs[0].privacy.delta if specs else None,
        n_seeds=min((len(spec.seeds) for spec in specs), default=0),
        runs=tuple(run.run_id for run in runs.values() if run.run_id is not None),
        standings=tuple(methods.standing(spec) for spec in specs) or ("bound",),
    )


def _table(paper: Paper, experiment: Experiment, size: Size, rows: list[Row], runs: Mapping[str, Measured]) -> None:
    import pandas as pd

    lines, notes = tables.numbers(rows)
    with st.container(key="card-reproduction-table", gap="small"):
        st.markdown("**The numbers** :small[percent, mean ± standard deviation over seeds]")
        if lines:
            alt = f"{len(lines)} numbers, published and ours, in percent"
            st.dataframe(pd.DataFrame(lines), hide_index=True, key="reproduction-table", alt=alt, height="content")
        remarks = [f"Note {number}: {remark}" for number, remark in enumerate(notes, start=1)]
        for remark in (*remarks, *comparison.table_remarks(paper, experiment)):
            st.caption(plain(remark))
        reasons = comparison.reasons(paper, experiment, size, runs.values())
        if reasons:
            st.markdown("**Why our numbers differ**")
            st.markdown("\n".join(f"- {plain(reason)}" for reason in reasons))


def _runs(
    paper: Paper, experiment: Experiment, size: Size, specs: Mapping[str, RunSpec], runs: Mapping[str, Measured]
) -> None:
    with st.container(key="card-reproduction-runs", gap="small"):
        st.markdown("**The runs**")
        for label, spec in specs.items():
            run = runs.get(label)
            with st.container(key=f"reproduction-run-{label}", horizontal=True, vertical_alignment="center", gap="small"):
                layer = methods.layer(spec)
                suffix = "" if layer is None else f" · {layer.title}"
                more = " ".join([*([layer.words] if layer else []), *(run.made_before if run else ())])
                st.markdown(plain(f"{tables.source(label, run)}{suffix}"), width="stretch", help=plain(more) or None)
                st.page_link(
                    "pages/train.py", label=":primary[Open in Train →]", query_params=train_form.parameters_of(spec)
                )
        seconds = presets.about(experiment.preset(size)).seconds_in_all
        st.caption("All runs from a terminal" + (f", about {seconds:g} s on two cores:" if seconds is not None else ":"))
        command = f"python -m dpcl_core reproduce {paper.name} --experiment {experiment.name} --{size}"
        st.code(command, language=None, wrap_lines=True)


if __name__ == "__main__":
    page()
