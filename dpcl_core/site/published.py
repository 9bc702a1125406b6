"""Published numbers: how many claims come out, layer by layer, pictures of both, then the differences and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from dpcl_core import presets
from dpcl_core.figures import reproduction
from dpcl_core.papers import answers, catalog, comparison, measured, report, tables, verdicts
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Judged
from dpcl_core.papers.paper import Experiment, Paper, Size
from dpcl_core.papers.verdicts import LayerCount, LayerOfClaim
from dpcl_core.site.page import Page, figure, folded, listed, paragraph, table, table_of
from dpcl_core.site.runs import FORMS, missing
from dpcl_core.spec import RunSpec

FILE = "published.html"
_STATES = {
    "found": "come out",
    "not found": "the other way",
    "cannot tell": "cannot be decided yet",
    "both guess": "compare two runs that only guess",
    "two editions": "compare two editions of the code",
}


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of an experiment with recorded runs, by label, and the verdicts on its claims."""

    experiment: Experiment
    size: Size
    specs: Mapping[str, RunSpec]
    runs: Mapping[str, Measured]
    judged: Sequence[Judged]


def pages() -> Iterator[Page]:
    """The overview, then a page for each paper."""
    papers = [(paper, _forms(paper)) for paper in catalog.PAPERS.values()]
    yield Page(FILE, "Published numbers", "Do the papers' results come out here?", _overview(papers), "Published")
    for paper, forms in papers:
        parts = [paragraph(_sentence(_judged(forms)), "finding"), _layers(forms), *(_form(paper, form) for form in forms)]
        yield Page(_file(paper), paper.title, paper.source, "".join(parts), under=FILE)


def _forms(paper: Paper) -> list[_Form]:
    found = []
    for experiment in paper.experiments:
        for size in experiment.sizes:
            specs = presets.variants(experiment.preset(size))
            every = {label: measured.find(spec, measured.recorded(paper.name)) for label, spec in specs.items()}
            runs = {label: run for label, run in every.items() if run is not None}
            if runs:
                found.append(_Form(experiment, size, specs, runs, report.judged(experiment, size, specs, runs)))
    return found


def _file(paper: Paper) -> str:
    return f"published-{paper.name}.html"


def _judged(forms: Sequence[_Form]) -> list[Judged]:
    """The verdicts on the paper's own claims whose runs are recorded."""
    of_papers = (one for form in forms for one in verdicts.of_the_paper(form.judged))
    return [one for one in of_papers if one.state != "not run"]


def _counts(judged: Sequence[Judged]) -> dict[str, int]:
    return {state: sum(one.state == state for one in judged) for state in _STATES}


def _sentence(judged: Sequence[Judged]) -> str:
    counts = _counts(judged)
    others = "; ".join(f"{counts[state]} {_STATES[state]}" for state in list(_STATES)[1:] if counts[state])
    return f"{counts['found']} of {len(judged)} claims come out" + (f" ({others})." if others else ".")


def _overview(papers: Sequence[tuple[Paper, Sequence[_Form]]]) -> str:
    every = [one for _, forms in papers for one in _judged(forms)]
    heads = ("paper", "claims", *_STATES.values())
    rows = []
    for paper, forms in papers:
        counts = _counts(_judged(forms))
        rows.append((paper.title, str(sum(counts.values())), *map(str, counts.values())))
    note = (
        "A claim compares two runs of a paper. It comes out where the 95 % interval of our paired difference decides so. "
        f"{tables.UNDECIDED} Comparisons of our own are not counted."
    )
    return "".join(
        [
            paragraph(_sentence(every), "finding"), paragraph(note, "small"),
            f'<div class="card">{table(heads, rows, "Claims by paper")}</div>',
            _layers([form for _, forms in papers for form in forms]),
            "<h2>Differences, and why</h2>", *(_why(paper, forms) for paper, forms in papers),
        ]
    )  # fmt: skip


def _why(paper: Paper, forms: Sequence[_Form]) -> str:
    """A paper's claims in a sentence, every reason why our numbers differ, and the way to its experiments."""
    reasons = dict.fromkeys(
        reason for form in forms for reason in comparison.reasons(paper, form.experiment, form.size, form.runs.values())
    )
    link = f'<p><a class="touch" href="{_file(paper)}">{escape(paper.title)}, experiment by experiment →</a></p>'
    why = folded("Why our numbers differ", listed(reasons))
    return f'<div class="card"><h3>{escape(paper.title)}</h3>{paragraph(_sentence(_judged(forms)))}{why}{link}</div>'


def _layers(forms: Sequence[_Form]) -> str:
    """The three layers, with their runs and decided claims over all these forms."""
    totals: dict[LayerOfClaim, LayerCount] = {}
    for form in forms:
        for one in verdicts.by_layer(form.specs, form.runs, form.judged):
            so_far = totals.get(one.layer, LayerCount(one.layer, 0, 0, 0, 0))
            totals[one.layer] = LayerCount(
                one.layer, so_far.n_here + one.n_here, so_far.n_runs + one.n_runs, so_far.n_found + one.n_found,
                so_far.n_claims + one.n_claims,
            )  # fmt: skip
    lines = (tables.layer(totals[name]) for name in verdicts.MEANING if name in totals)
    items = "".join(f"<li><b>{escape(name)}</b>: {escape(what)}</li>" for name, what in lines)
    return f'<div class="card"><h2>Layer by layer</h2><ul>{items}</ul>{paragraph(tables.LAYERS_NOTE, "small")}</div>'


def _form(paper: Paper, form: _Form) -> str:
    """One experiment in one form: its verdict, its claims, its numbers beside ours, and why they differ."""
    of = form.experiment
    claims = tables.claims(paper, of, form.specs, form.runs, form.judged)
    rows = comparison.rows(paper, of, form.runs)
    reasons = listed(comparison.reasons(paper, of, form.size, form.runs.values()))
    parts = [
        f"<h2>{escape(of.title)}: {escape(FORMS[form.size].partition(':')[0].lower())}</h2>",
        paragraph(verdicts.lead(form.judged), "finding"),
        paragraph(of.question), paragraph(missing(form.specs, form.runs), "small"),
        _picture(form, rows),
        _claims(paper, claims),
        *(_numbers(form, rows, metric) for metric in of.metrics),
        folded("Why our numbers differ", reasons),
    ]
    return f"<section>{''.join(parts)}</section>"


def _picture(form: _Form, rows: Sequence[comparison.Row]) -> str:
    """Published numbers and ours of the first quantity, as a figure; nothing where there are neither."""
    metric = form.experiment.metrics[0]
    numbers = tables.drawn_numbers([row for row in rows if row.metric == metric])
    if numbers[["published", "ours"]].isna().all(axis=None):
        return ""
    what = comparison.quantity(metric, form.specs.values())
    known = answers.references_beside(form.experiment.preset(form.size), form.specs, form.runs, metric)
    shown = figure(lambda dark: reproduction.published_and_ours(numbers, what=what, references=known, dark=dark))
    return f'<div class="card">{shown}</div>'


def _claims(paper: Paper, lines: Sequence[Mapping[str, str]]) -> str:
    note = paragraph(tables.claims_note(paper, lines), "small")
    return folded("Its claims, tested in our runs", table_of(lines, "Claims") + note) if lines else ""


def _numbers(form: _Form, rows: Sequence[comparison.Row], metric: str) -> str:
    lines, notes = tables.numbers([row for row in rows if row.metric == metric])
    if not lines:
        return ""
    what = comparison.quantity(metric, form.specs.values())
    remarks = "".join(paragraph(f"Note {number}: {remark}", "small") for number, remark in enumerate(notes, start=1))
    return folded(f"{what.capitalize()}, published and ours, %", table_of(lines, what) + remarks)
