"""The runs of `reproduce`, and its report as JSON and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpcl_core import machine, presets
from dpcl_core.errors import BadInput
from dpcl_core.events import JsonValue, plain_number
from dpcl_core.figures.picture import Provenance, capital, counted, epsilon_label, epsilon_text, minus
from dpcl_core.figures.statistics import Interval
from dpcl_core.later import pd
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.features.params import MEMBER
from dpcl_core.papers import claims, comparison
from dpcl_core.papers.comparison import Row
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import ALIKE_POINTS, GUESS_POINTS, Experiment, Judged, Ordering, Paper, Size, unpaired
from dpcl_core.privacy.statement import shown_number
from dpcl_core.spec import RunSpec


def planned(
    experiments: Sequence[Experiment], size: Size, sets: Sequence[str], *, named: bool
) -> dict[Experiment, dict[str, RunSpec]]:
    """The runs of each experiment by label, with the changes of `sets`; experiments without this form are left out.

    Raises BadInput where no experiment has this form, or where the `named` one has not.
    """
    having = [experiment for experiment in experiments if size in experiment.sizes]
    if not having:
        what = experiments[0].name if named else "all"
        raise BadInput("--experiment", what, f"has no {size} form; there are {', '.join(experiments[0].sizes)}")
    return {experiment: presets.variants(experiment.preset(size), sets) for experiment in having}


def document(forms: Sequence[claims.Form]) -> dict[str, JsonValue]:
    """The report as JSON: for each experiment its runs, its rows, the reasons for differences, and the orderings."""
    return {
        "paper": forms[0].paper.name,
        "size": forms[0].size,
        "experiments": [
            {
                "name": form.experiment.name,
                "preset": form.experiment.preset(form.size),
                "runs": [_run(label, form.runs.get(label)) for label in form.specs],
                "rows": [_row(row) for row in comparison.comparison_rows(form.paper, form.experiment, form.runs)],
                "table_remarks": list(comparison.table_remarks(form)),
                "reasons": list(comparison.reasons(form)),
                "orderings": [_ordering(form, verdict) for verdict in form.judged],
            }
            for form in forms
        ],
    }


def text(forms: Sequence[claims.Form]) -> str:
    """The report as text for a terminal."""
    lines: list[str] = []
    for form in forms:
        paper, experiment = form.paper, form.experiment
        lines += [f"{experiment.title} ({experiment.preset(form.size)}), {paper.title}"]
        if experiment.table is None:
            lines += ["  The paper shows this experiment in plots alone; no published numbers to print."]
        lines += [f"  {line}" for line in _table(comparison.comparison_rows(paper, experiment, form.runs), form.specs)]
        lines += [f"  Table: {remark}" for remark in comparison.table_remarks(form)]
        lines += [f"  Differs: {reason}" for reason in comparison.reasons(form)]
        lines += [
            f"  {one.state}: {one.ordering.statement}, {budgets_of(one.ordering)}: {range_text(one)}" for one in form.judged
        ]
        lines += [""]
    return "\n".join(lines)


def range_text(verdict: Judged) -> str:
    """The difference with its interval, in points; why there is none where there is none."""
    if verdict.difference is not None:
        return interval_text(verdict.difference)
    return "not run" if verdict.state == "not run" else "recorded by two editions of the code, whose seeds make no pairs"


def interval_text(difference: Interval | None) -> str:
    """A difference with its interval, in points; empty for None."""
    if difference is None:
        return ""
    low, high = difference.low, difference.high
    span = f" ({low:+.1f} to {high:+.1f})" if low is not None and high is not None else ""
    return minus(f"{difference.mean:+.1f}{span} points")


def budgets_of(ordering: Ordering) -> str:
    """The budget of an ordering, or both of its budgets."""
    first, second = ordering.first.epsilon, ordering.second.epsilon
    return epsilon_label(first) if first == second else f"{epsilon_label(first)} against {epsilon_label(second)}"


def _table(rows: Sequence[Row], specs: Mapping[str, RunSpec]) -> list[str]:
    if not rows:
        return []
    width = max(len(row.name) for row in rows)
    budgets = [epsilon_label(row.epsilon, "claimed" if row.is_nominal else "bound") for row in rows]
    wide = max(8, *map(len, budgets))
    lines = [f"{'':<{width}}  {'':<{wide}}  {'':<10}  {'published':>13}  {'ours':>13}  difference"]
    for row, budget in zip(rows, budgets, strict=True):
        what = f"{row.name:<{width}}  {budget:<{wide}}  {comparison.quantity(row.metric, specs.values()):<10}"
        gap = minus(f"{row.difference:+.1f}") if row.difference is not None else ""
        budgets_spent = ", ".join(f"{name} ε = {shown_number(epsilon)}" for name, epsilon in row.channel_epsilons.items())
        lines.append(f"{what}  {printed_text(row):>13}  {ours_text(row):>13}  {gap:>10}  {budgets_spent}".rstrip())
        lines += [f"{'':<{width}}  note: {remark}" for remark in row.remarks]
    return lines


def printed_text(row: Row) -> str:
    """The published number as printed, in percent, with its standard deviation; a dash where there is none."""
    if row.printed is None:
        return "–"
    std = row.printed.percent_std
    value = row.printed.printed if row.printed.percent == row.printed.value else f"{row.printed.percent:.4g}"
    return minus(value if std is None else f"{value} ± {std:.2f}")


def ours_text(row: Row) -> str:
    """Our mean and standard deviation, in percent; a dash where no run is finished."""
    if row.ours is None:
        return "–"
    return minus(f"{row.ours.mean:.1f}" if row.ours.std is None else f"{row.ours.mean:.1f} ± {row.ours.std:.1f}")


def _run(label: str, run: Measured | None) -> JsonValue:
    if run is None:
        return {"label": label, "run_id": None}
    layer = methods.layer(run.spec)
    return {
        "label": label,
        "run_id": run.run_id,
        "layer": None if layer is None else layer.words,
        "digest": run.spec.digest(),
        "dataset": run.dataset_title,
        "date": run.date,
        "seconds": round(run.seconds, 1),
        "device": run.device,
        "machine": run.machine,
        "commit": run.commit,
    }


def _row(row: Row) -> JsonValue:
    return {
        "method": row.method,
        "variant": row.variant,
        "epsilon": plain_number(row.epsilon),
        "is_nominal": row.is_nominal,
        "metric": row.metric,
        "layer": row.layer or None,
        "published": row.printed.value if row.printed is not None else None,
        "published_std": row.printed.std if row.printed is not None else None,
        "ours": row.ours.mean if row.ours is not None else None,
        "ours_std": row.ours.std if row.ours is not None else None,
        "n_seeds": row.ours.n_seeds if row.ours is not None else None,
        **{f"eps_{name}": plain_number(epsilon) for name, epsilon in row.channel_epsilons.items()},
        "difference": row.difference,
        "remarks": list(row.remarks),
    }


def _ordering(form: claims.Form, verdict: Judged) -> JsonValue:
    """A verdict with what the paper prints: a difference, intervals that pair no seeds, or a bound on a p value."""
    ordering, difference = verdict.ordering, verdict.difference
    document: dict[str, JsonValue] = {
        "statement": ordering.statement,
        "metric": ordering.metric,
        "first": ordering.first.run,
        "second": ordering.second.run,
        "epsilons": [plain_number(ordering.first.epsilon), plain_number(ordering.second.epsilon)],
        "rules": [ordering.first.rule, ordering.second.rule],
        "state": verdict.state,
        "published_difference": comparison.printed_difference(form, ordering),
        "difference": None if difference is None else difference.mean,
        "low": None if difference is None else difference.low,
        "high": None if difference is None else difference.high,
    }
    if form.paper.is_unpaired:
        published, ours = comparison.printed_interval(form, ordering), unpaired(ordering, form.runs)
        document["published_interval"] = None if published is None else [published.low, published.high]
        document["unpaired_interval"] = None if ours is None else [ours.low, ours.high]
    if (bound := comparison.printed_p_value(form, ordering)) is not None:
        document |= {"published_p_value_bound": bound.value, "p_value": comparison.ours(ordering, form.runs)}
    return document


# Tables of a paper's experiment: its claims with our verdicts, and its numbers beside ours. Texts without markup.


LAYERS_NOTE = "Only comparisons that our repeats settle are counted."
_CHANNEL_EPSILONS = "our ε, accounted: replay · head · total"
_INTERVALS = (
    "Differences are formed seed by seed; brackets: their 95 % interval. “Not found”: the interval shows the opposite. "
    "“Cannot tell”: it shows neither. A claim of no difference is found if the interval stays within "
    f"{ALIKE_POINTS:g} points, and otherwise not found if the interval excludes zero."
)
UNDECIDED = (
    f"Two comparisons decide nothing. “Both guess”: neither run ends more than {GUESS_POINTS:g} points above what guessing "
    "gives, so their difference says nothing about methods. “Two editions”: one side was recorded by older code, so equal "
    "seeds make no pairs."
)
_UNPAIRED = (
    "Published intervals, and ours in the last column, do not pair seeds (the paper's Eq. 23): they are wider than "
    "necessary where runs share seeds."
)
_P_VALUES = (
    "p: a two-tailed t-test of the two curves over all tasks, paired by task, of means over seeds. Descriptive only: the "
    "points of a curve are no independent samples."
)


def claim(form: claims.Form, verdict: Judged) -> dict[str, str]:
    """The line of a claim by column: our verdict and difference, and what the paper prints."""
    ordering = verdict.ordering
    printed = comparison.printed_difference(form, ordering)
    line = {
        "ours": verdict.state,
        "claim": ordering.statement,
        "at": budgets_of(ordering),
        "our difference": range_text(verdict) if verdict.difference is not None else "",
        "published": minus(f"{printed:+.1f} points") if printed is not None else "",
    }
    if (bound := comparison.printed_p_value(form, ordering)) is not None:
        own = comparison.ours(ordering, form.runs)
        line["p, ours"] = "" if own is None else f"{own:.2g}"
        line["p, published"] = f"below {bound.printed}"
    if form.paper.is_unpaired:
        line["published"] = interval_text(comparison.printed_interval(form, ordering)) or line["published"]
        line["ours, unpaired"] = interval_text(unpaired(ordering, form.runs))
    return line


def claims_note(paper: Paper, lines: Sequence[Mapping[str, str]]) -> str:
    """How to read the lines of `claim`."""
    has_tests = any("p, published" in line for line in lines)
    is_undecided = any(line["ours"] in ("both guess", "two editions") for line in lines)
    more = ((_UNPAIRED, paper.is_unpaired), (UNDECIDED, is_undecided), (_P_VALUES, has_tests))
    return " ".join([_INTERVALS, *(text for text, is_said in more if is_said)])


def number_rows(rows: Sequence[Row]) -> tuple[list[dict[str, str]], list[str]]:
    """One line per number, by column, and the notes that its last column counts from 1."""
    notes = list(dict.fromkeys(remark for row in rows for remark in row.remarks))
    has_channels = any(row.channel_epsilons for row in rows)
    lines = [
        {
            "method": row.name,
            "ε": ("∞" if math.isinf(row.epsilon) else f"{row.epsilon:g}") + (", claimed" if row.is_nominal else ""),
            "published": printed_text(row),
            "ours": ours_text(row),
            "difference": minus(f"{row.difference:+.1f}") if row.difference is not None else "",
            "layer of ours": row.layer,
            **({_CHANNEL_EPSILONS: " · ".join(map(shown_number, row.channel_epsilons.values()))} if has_channels else {}),
            "note": ", ".join(str(notes.index(remark) + 1) for remark in row.remarks),
        }
        for row in rows
    ]
    return lines, notes


def drawn_numbers(rows: Sequence[Row]) -> pd.DataFrame:
    """The numbers as `figures.reproduction` draws them."""
    columns = ["name", "epsilon", "published", "published_std", "ours", "ours_std", "is_comparable", "is_nominal"]
    values = [
        (row.name, row.epsilon, row.usable, row.printed and row.printed.percent_std, row.ours and row.ours.mean,
         row.ours and row.ours.std, row.is_comparable, row.is_nominal)
        for row in rows
    ]  # fmt: skip
    types = dict.fromkeys(columns[1:6], "float64") | {"is_comparable": "bool", "is_nominal": "bool"}
    return pd.DataFrame(values, columns=columns).astype(types)


def layer(count: claims.LayerCount) -> tuple[str, str]:
    """One layer in words: its name with its runs, and what it means with the claims that come out."""
    decided = f" {count.n_found} of {count.n_claims} decided claims come out." if count.n_claims else ""
    runs = f" ({count.n_here} of {counted(count.n_runs, 'run')})" if count.n_runs else ""
    return f"{capital(count.layer)}{runs}", f"{claims.MEANING[count.layer]}{decided}"


def source(label: str, run: Measured | None) -> str:
    """Where a run's results come from: a line with date, duration, machine and commit."""
    if run is None:
        return f"{label} · not run yet"
    if run.run_id is not None:
        return f"{label} · your run {run.run_id[:4]} of {run.date}, {run.seconds:.0f} s on {run.device}"
    older = " by older code" if run.made_before else ""
    code = f", commit {machine.commit_words(run.commit)}" if run.commit else ""
    return f"{label} · recorded on {run.date}{older}, {run.seconds:.0f} s on {run.machine or run.device}{code}"


# A question's paper: what a page shows of it.


@dataclass(frozen=True)
class PaperSide:
    """An experiment in one form with all its numbers, and the claims of all its forms."""

    form: claims.Form
    rows: Sequence[Row]
    claimed: Sequence[claims.Claim]

    @property
    def lead(self) -> str:
        """The count of the experiment's claims by verdict, joined over its forms."""
        return claims.sentence(self.claimed)

    def provenance(self) -> Provenance:
        """The source of a figure of these runs."""
        specs = [run.spec for run in self.form.runs.values()]
        return Provenance(
            dataset=" | ".join(dict.fromkeys(run.dataset_title for run in self.form.runs.values())),
            n_train=None,
            method=f"published: {self.form.paper.source}",
            epsilons=tuple(sorted({epsilon for spec in specs for epsilon in spec.privacy.epsilons})),
            delta=specs[0].privacy.delta if specs else None,
            n_seeds=tuple(dict.fromkeys(len(spec.seeds) for spec in specs)),
            runs=tuple(run.run_id for run in self.form.runs.values() if run.run_id is not None),
            standings=tuple(methods.standing(spec) for spec in specs) or ("bound",),
        )

    def of_metric(self, metric: str) -> list[Row]:
        """The numbers of one metric."""
        return [row for row in self.rows if row.metric == metric]


def members(runs: Mapping[str, Measured]) -> pd.DataFrame:
    """Accuracy in percent of single members and of the ensemble: one row per model of runs that measured both."""
    rows = [
        (model.epsilon, model.seed, 100 * model.by_rule[MEMBER], 100 * (model.value("AA") or 0.0))
        for run in runs.values()
        for model in run.models
        if MEMBER in model.by_rule
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "member", "ensemble"])


def earlier_numbers(found: PaperSide) -> pd.DataFrame:
    """The numbers of an earlier version of the paper, beside the later ones and ours; empty without such a version."""
    lines = [
        (
            row.name, epsilon_text(row.epsilon), comparison.METRICS[row.metric], printed_text(row),
            *((printed_text(later), ours_text(later)) if later is not None else "––"),
        )
        for row, later in comparison.earlier(found.form.paper, found.form.experiment, found.rows)
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=["method", "ε", "quantity", "workshop", "later", "ours"])


def claim_lines(found: PaperSide) -> list[dict[str, str]]:
    """A line a claim of the form by column: the verdict of all forms together, this form's, and the differences."""
    joined = {(one.ordering.statement, budgets_of(one.ordering)): claims.verdict_text(one) for one in found.claimed}
    lines = [claim(found.form, one) for one in found.form.judged]
    return [{"verdict": joined.get((line["claim"], line["at"]), "not the paper's"), **line} for line in lines]
