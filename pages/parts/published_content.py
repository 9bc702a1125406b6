"""What Published numbers shows of an experiment: its runs with their results, and what they say of the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dpcl_core import presets
from dpcl_core.events import References
from dpcl_core.figures.picture import Provenance
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog, comparison, measured, questions, report
from dpcl_core.papers.comparison import Row
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Judged, Paper, Size
from dpcl_core.runs.run import Run
from dpcl_core.runs.shards import Sets
from dpcl_core.spec import RunSpec
from pages.parts import state

# Paper, experiment, form, and the visitor's own finished runs: what a content follows from. With it, parts can be kept.
Key = tuple[str, str, Size, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Content:
    """An experiment in one form: runs of its preset by label, those with results, its claims judged, all its numbers."""

    paper: Paper
    experiment: Experiment
    size: Size
    specs: Mapping[str, RunSpec]
    runs: Mapping[str, Measured]
    judged: Sequence[Judged]
    rows: Sequence[Row]

    def provenance(self) -> Provenance:
        """The source of a figure of these runs."""
        specs = [run.spec for run in self.runs.values()]
        return Provenance(
            dataset=" | ".join(dict.fromkeys(run.dataset_title for run in self.runs.values())),
            n_train=None,
            method=f"published: {self.paper.source}",
            epsilons=tuple(sorted({epsilon for spec in specs for epsilon in spec.privacy.epsilons})),
            delta=specs[0].privacy.delta if specs else None,
            n_seeds=tuple(dict.fromkeys(len(spec.seeds) for spec in specs)),
            runs=tuple(run.run_id for run in self.runs.values() if run.run_id is not None),
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
    runs: dict[str, Measured] = {}
    for label, spec in specs.items():
        recorded = measured.find(spec, measured.recorded(paper.name))
        if label in _own:
            runs[label] = measured.of_run(_own[label], state.of(_own[label]).events)
        elif recorded is not None:
            runs[label] = recorded
    judged = report.judged(experiment, size, specs, runs)
    return Content(paper, experiment, size, specs, runs, judged, comparison.rows(paper, experiment, runs))


@st.cache_resource(max_entries=100, show_spinner=False)
def drawn(key: Key, metric: str, _content: Content) -> tuple[pd.DataFrame, References | None]:
    """The numbers of a metric for its figure, and its lines of reference."""
    known = questions.references_beside(_content.experiment.preset(_content.size), _content.specs, _content.runs, metric)
    return report.drawn_numbers(_content.of_metric(metric)), known
