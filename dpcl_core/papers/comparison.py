"""Comparison of published numbers with ours, row by row, with remarks on them and the reasons for differences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean, stdev

from dpcl_core import published
from dpcl_core.data import catalog as datasets
from dpcl_core.figures.statistics import Interval, p_values
from dpcl_core.methods import catalog as methods
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Ordering, Paper, Size, unpaired_of_printed
from dpcl_core.papers.questions import run_name
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec

_Key = tuple[str, str, float, str]  # of a number: method, variant, epsilon and metric
METRICS = {
    "AA": "accuracy",
    "AF": "forgetting",
    "BWT": "backward transfer",
    "FWT": "forward transfer",
    "Avg": "accuracy along the way",
    "pooled": "accuracy on all examples",
    "trend": "change of accuracy over the tasks",
    **{f"task{k}": f"task {k}" for k in range(1, 7)},  # accuracy on the k-th task learned
}


def quantity(metric: str, specs: Iterable[RunSpec]) -> str:
    """The displayed name of a metric for runs on one kind of data; for named-entity data, F1 in place of accuracy."""
    scores = {datasets.score(spec.data.dataset) for spec in specs}
    return METRICS[metric].replace("accuracy", scores.pop()) if len(scores) == 1 else METRICS[metric]


@dataclass(frozen=True, slots=True)
class Ours:
    """Mean and standard deviation (None with one seed) over the seeds, in percent."""

    mean: float
    std: float | None
    n_seeds: int


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a table: the printed value (None: none) and ours (None: not run), both in percent.

    `is_comparable`: ours was measured on the paper's data or a part of them. `is_doubtful`: see Remark. `is_nominal`: the
    paper claims the epsilon, and no ledger supports it. `accounted_epsilon`: what our run's ledger adds up to in all, the
    largest of the seeds; None where it has not run. `channel_epsilons`: our accounted budgets, the largest of the seeds:
    epsilon of "replay", "head" and "total" where private data leave in two ways. `layer`: of our run, empty where there is
    none; `is_one_of_several`: runs of ours in other layers share the same printed number.
    """

    method: str
    variant: str
    epsilon: float
    metric: str
    printed: Published | None = None
    ours: Ours | None = None
    remarks: tuple[str, ...] = ()
    is_comparable: bool = True
    is_doubtful: bool = False
    is_nominal: bool = False
    accounted_epsilon: float | None = None
    channel_epsilons: Mapping[str, float] = field(default_factory=dict)
    layer: str = ""
    is_one_of_several: bool = False

    @property
    def name(self) -> str:
        """Method (or a run's label in words) and variant as displayed, with our run's layer where several share a number."""
        method = run_name(self.method)
        more = [self.variant] if self.variant else []
        more += [self.layer] if self.is_one_of_several and self.layer else []
        return f"{method} ({', '.join(more)})" if more else method

    @property
    def usable(self) -> float | None:
        """The printed value in percent; None where it is missing or doubtful."""
        return None if self.printed is None or self.is_doubtful else self.printed.percent

    @property
    def difference(self) -> float | None:
        """Ours minus published, in points; None where one of the two is missing or they measure different things."""
        if self.ours is None or self.usable is None or not self.is_comparable:
            return None
        return self.ours.mean - self.usable


def comparison_rows(paper: Paper, experiment: Experiment, runs: Mapping[str, Measured]) -> tuple[Row, ...]:
    """One row per number that the paper's table or our runs (by label) have, grouped by method, in the table's order.

    Where the paper has only plots: our numbers alone, each under its run's label.
    """
    printed = _printed_rows(paper, experiment)
    by_layer = {(key, ""): row for key, row in printed.items()}  # layer "": no run of ours
    # Accuracy on a dataset is the paper's quantity on no stand-in data, and over as many classes.
    cards = [datasets.CARDS.get(run.spec.data.dataset) for run in runs.values()]
    comparable = all(one and one.stands_in_for is None and one.n_classes == experiment.n_classes for one in cards)
    for label, run in runs.items():
        method, variant = (label, "") if experiment.table is None else paper.printed_as(run.spec)
        for epsilon, metric, ours in _figures(run, experiment.metrics):
            row, layer = Row(method, variant, epsilon, metric), methods.layer(run.spec)
            name = "" if layer is None else layer.name
            by_layer.pop((_key(row), ""), None)
            published_row = printed.get(_key(row), row)
            remarks = (*published_row.remarks, *run.made_before)
            by_layer[_key(row), name] = replace(
                published_row,
                ours=ours,
                remarks=remarks,
                is_comparable=comparable,
                accounted_epsilon=run.accounted(epsilon),
                channel_epsilons=run.channel_epsilons(epsilon),
                layer=name,
            )
    several = Counter(key for key, _ in by_layer)
    by_layer = {place: replace(row, is_one_of_several=several[place[0]] > 1) for place, row in by_layer.items()}
    order = list(dict.fromkeys([row.name for row in printed.values()] + [row.name for row in by_layer.values()]))
    marked = [
        replace(row, is_nominal=row.method in paper.nominal and math.isfinite(row.epsilon)) for row in by_layer.values()
    ]
    return tuple(sorted(marked, key=lambda row: (order.index(row.name), row.epsilon, row.metric, row.layer)))


def earlier(paper: Paper, experiment: Experiment, later: Sequence[Row]) -> tuple[tuple[Row, Row | None], ...]:
    """The numbers of an earlier version of the paper, in its order, each with its `later` row (None: not printed any more).

    Empty without such a version.
    An earlier version may not name what a method trains: its number is then paired with the first row of the method.
    """
    pairs = []
    for row in published.read_numbers(paper.name):
        metric = row.shared_metric
        if experiment.earlier is None or row.table != experiment.earlier or metric is None or row.epsilon is None:
            continue
        key = (row.method, row.epsilon, metric)
        same = (other for other in later if (other.method, other.epsilon, other.metric) == key)
        pairs.append((Row(row.method, row.variant, row.epsilon, metric, row), next(same, None)))
    return tuple(pairs)


def printed_difference(
    paper: Paper, experiment: Experiment, ordering: Ordering, specs: Mapping[str, RunSpec]
) -> float | None:
    """The difference first - second of an ordering in the paper's table, in points; None without both numbers."""
    sides = _printed_sides(paper, experiment, ordering, specs)
    if sides is None or ordering.first.rule is not None or ordering.second.rule is not None:
        return None
    first, second = (row.usable for row in sides)
    return first - second if first is not None and second is not None else None


def printed_value(paper: Paper, experiment: Experiment, spec: RunSpec, epsilon: float, metric: str) -> float | None:
    """The number that the paper's table prints for a run at a budget, in percent; None where it prints none."""
    row = _printed_rows(paper, experiment).get((*paper.printed_as(spec), epsilon, metric))
    return None if row is None else row.usable


def printed_interval(
    paper: Paper, experiment: Experiment, ordering: Ordering, specs: Mapping[str, RunSpec]
) -> Interval | None:
    """The same difference with its interval from printed deviations (`paper.eq_23`); None where the paper forms none."""
    sides = _printed_sides(paper, experiment, ordering, specs) if paper.is_unpaired else None
    if sides is None:
        return None
    first, second = (row.printed for row in sides)
    return unpaired_of_printed(first, second) if first is not None and second is not None else None


def table_remarks(paper: Paper, experiment: Experiment) -> tuple[str, ...]:
    """The remarks on the tables as a whole."""
    return tuple(note.text for note in paper.remarks if note.is_about(experiment.tables))


def reasons(paper: Paper, experiment: Experiment, size: Size, runs: Iterable[Measured]) -> tuple[str, ...]:
    """The reasons why our numbers differ from the printed ones: from the runs' settings and data, and known ones.

    They include every setting that differs from the paper, from the layers of the runs.
    """
    measured = list(runs)
    deviations = [reason for run in measured for reason in paper.departs(run)]
    listed = experiment.departures if size == "full" else (*experiment.departures, *experiment.small_departures)
    layers = [layer for run in measured if (layer := methods.layer(run.spec)) is not None]
    differs = [departure.sentence for layer in layers for departure in layer.departures]
    return tuple(dict.fromkeys([*deviations, *listed, *differs])) if deviations or differs else ()


def _printed_sides(
    paper: Paper, experiment: Experiment, ordering: Ordering, specs: Mapping[str, RunSpec]
) -> tuple[Row, Row] | None:
    """The two numbers of an ordering in the paper's table; None without both."""
    first, second = (
        _printed_rows(paper, experiment).get((*paper.printed_as(specs[side.run]), side.epsilon, ordering.metric))
        for side in (ordering.first, ordering.second)
    )
    return (first, second) if first is not None and second is not None else None


@cache
def _printed_rows(paper: Paper, experiment: Experiment) -> Mapping[_Key, Row]:
    """The paper's numbers of the experiment in metrics that we measure too, in its order; the first of repeats."""
    rows: dict[_Key, Row] = {}
    for row in published.read_numbers(paper.name):
        metric = row.shared_metric or ""
        if metric not in experiment.metrics or row.epsilon is None or not experiment.prints(row):
            continue
        notes = [remark for remark in paper.remarks if remark.touches(row)]
        made = Row(
            *paper.named(row), row.epsilon, metric, row,
            remarks=tuple(note.text for note in notes), is_doubtful=any(note.is_doubtful for note in notes),
        )  # fmt: skip
        rows.setdefault(_key(made), made)
    return rows


def _key(row: Row) -> _Key:
    return row.method, row.variant, row.epsilon, row.metric


def _figures(run: Measured, metrics: Sequence[str]) -> Iterator[tuple[float, str, Ours]]:
    """Budget, metric and summary over seeds of every given metric that the run's models have."""
    for epsilon in sorted({model.epsilon for model in run.models}):
        for metric in metrics:
            values = [100 * value for value in run.by_seed(epsilon, metric).values()]
            # A method whose only model comes last has no accuracy along the way, though a mean over one task can be formed.
            if values and (metric != "Avg" or run.by_seed(epsilon, "BWT")):
                yield epsilon, metric, Ours(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


# p values of claimed orderings: the bound that the paper prints, and that of our runs.
#
# They are descriptive (`figures.statistics.CAVEAT`). Lai et al. test two curves of average accuracy after each task against
# each other, with one point a task.


_METRIC = "p_value_upper_bound"


def printed_p_value(paper: Paper, experiment: Experiment, ordering: Ordering) -> Published | None:
    """The printed bound on the p value of this comparison; None where the paper prints none."""
    rows = (row for row in published.read_numbers(paper.name) if row.metric == _METRIC and experiment.prints(row))
    return next((row for row in rows if (row.method, row.variant) == ordering.test), None)


def ours(ordering: Ordering, runs: Mapping[str, Measured]) -> float | None:
    """The p value of the paired t-test of our two curves over all tasks, each the mean over seeds.

    None where the paper tests nothing, or where a side has not run or its record has no curves.
    """
    curves = None if ordering.test is None else mean_curves(ordering, runs)
    if curves is None:
        return None
    p = float(p_values(*curves)["p"].iloc[-1])
    return None if math.isnan(p) else p


def mean_curves(ordering: Ordering, runs: Mapping[str, Measured]) -> tuple[list[float | None], list[float | None]] | None:
    """The metric of both sides after each task, mean over seeds, in [0, 1]; None unless both are known and as long."""
    sides = (ordering.first, ordering.second)
    first, second = (runs[side.run].mean_curve(side.epsilon, ordering.metric) if side.run in runs else [] for side in sides)
    return (first, second) if len(first) == len(second) > 1 else None

