"""Tables of a paper's experiment: its claims with our verdicts, and its numbers beside ours. Texts without markup."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpcl_core import machine
from dpcl_core.figures.picture import capital, counted, minus
from dpcl_core.papers import comparison, orderings, p_values, report, verdicts
from dpcl_core.papers.comparison import Row
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import ALIKE_POINTS, GUESS_POINTS, Judged
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.privacy.statement import shown
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd

LAYERS_NOTE = (
    "Claims of the paper that the seeds decide. Each counts for the layer that both of its runs are in, else between layers."
)
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


def claims(
    paper: Paper,
    experiment: Experiment,
    specs: Mapping[str, RunSpec],
    runs: Mapping[str, Measured],
    judged: Sequence[Judged],
) -> list[dict[str, str]]:
    """One line per claim, by column: our verdict and difference, and what the paper prints."""
    return [_claim(paper, experiment, specs, runs, verdict) for verdict in judged]


def claims_note(paper: Paper, lines: Sequence[Mapping[str, str]]) -> str:
    """How to read the lines of `claims`."""
    has_tests = any("p, published" in line for line in lines)
    is_undecided = any(line["ours"] in ("both guess", "two editions") for line in lines)
    more = ((_UNPAIRED, paper.is_unpaired), (UNDECIDED, is_undecided), (_P_VALUES, has_tests))
    return " ".join([_INTERVALS, *(text for text, is_said in more if is_said)])


def numbers(rows: Sequence[Row]) -> tuple[list[dict[str, str]], list[str]]:
    """One line per number, by column, and the notes that its last column counts from 1."""
    notes = list(dict.fromkeys(remark for row in rows for remark in row.remarks))
    has_channels = any(row.channel_epsilons for row in rows)
    lines = [
        {
            "method": row.name,
            "ε": ("∞" if math.isinf(row.epsilon) else f"{row.epsilon:g}") + (", claimed" if row.is_nominal else ""),
            "published": report.printed_text(row),
            "ours": report.ours_text(row),
            "difference": minus(f"{row.difference:+.1f}") if row.difference is not None else "",
            "layer of ours": row.layer,
            **({_CHANNEL_EPSILONS: " · ".join(map(shown, row.channel_epsilons.values()))} if has_channels else {}),
            "note": ", ".join(str(notes.index(remark) + 1) for remark in row.remarks),
        }
        for row in rows
    ]
    return lines, notes


def drawn_numbers(rows: Sequence[Row]) -> pd.DataFrame:
    """The numbers as `figures.reproduction` draws them."""
    import pandas as pd

    columns = ["name", "epsilon", "published", "published_std", "ours", "ours_std", "is_comparable", "is_nominal"]
    values = [
        (row.name, row.epsilon, row.usable, row.printed and row.printed.percent_std, row.ours and row.ours.mean,
         row.ours and row.ours.std, row.is_comparable, row.is_nominal)
        for row in rows
    ]  # fmt: skip
    types = dict.fromkeys(columns[1:6], "float64") | {"is_comparable": "bool", "is_nominal": "bool"}
    return pd.DataFrame(values, columns=columns).astype(types)


def layer(count: verdicts.LayerCount) -> tuple[str, str]:
    """One layer in words: its name with its runs, and what it means with the claims that come out."""
    decided = f" {count.n_found} of {count.n_claims} decided claims come out." if count.n_claims else ""
    runs = f" ({count.n_here} of {counted(count.n_runs, 'run')})" if count.n_runs else ""
    title = f"{capital(count.layer)}{runs}"
    return title, f"{verdicts.MEANING[count.layer]}{decided}"


def source(label: str, run: Measured | None) -> str:
    """Where a run's results come from: a line with date, duration, machine and commit."""
    if run is None:
        return f"{label} · not run yet"
    if run.run_id is not None:
        return f"{label} · your run {run.run_id[:4]} of {run.date}, {run.seconds:.0f} s on {run.device}"
    older = " by older code" if run.made_before else ""
    code = f", commit {machine.commit_words(run.commit)}" if run.commit else ""
    return f"{label} · recorded on {run.date}{older}, {run.seconds:.0f} s on {run.machine or run.device}{code}"


def _claim(
    paper: Paper, experiment: Experiment, specs: Mapping[str, RunSpec], runs: Mapping[str, Measured], verdict: Judged
) -> dict[str, str]:
    ordering = verdict.ordering
    printed = comparison.printed_difference(paper, experiment, ordering, specs)
    line = {
        "ours": verdict.state,
        "claim": ordering.statement,
        "at": report.budgets_of(verdict),
        "our difference": report.range_text(verdict) if verdict.difference is not None else "",
        "published": minus(f"{printed:+.1f} points") if printed is not None else "",
    }
    bound = p_values.printed(paper, experiment, ordering)
    if bound is not None:
        own = p_values.ours(ordering, runs)
        line["p, ours"] = "" if own is None or own.p is None else f"{own.p:.2g}"
        line["p, published"] = f"below {bound.printed}"
    if paper.is_unpaired:
        interval = comparison.printed_interval(paper, experiment, ordering, specs)
        line["published"] = report.interval_text(interval) if interval is not None else line["published"]
        line["ours, unpaired"] = report.interval_text(orderings.unpaired(ordering, runs))
    return line
