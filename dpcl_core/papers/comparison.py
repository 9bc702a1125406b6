"""Published numbers beside ours: row by row, with remarks and the reasons for differences, and as the papers' figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from statistics import fmean, stdev

from dpcl_core import published
from dpcl_core.data import catalog as datasets
from dpcl_core.events import References
from dpcl_core.figures import curves, reproduction, statistics, theme
from dpcl_core.figures.picture import Picture, epsilon_label
from dpcl_core.figures.statistics import Interval, interval, p_values
from dpcl_core.later import pd
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import questions
from dpcl_core.papers.claims import Form
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Figure, Ordering, Paper, unpaired_of_printed
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
    printed: published.Published | None = None
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
        method = questions.run_name(self.method)
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
        names, layer = (label, "") if experiment.table is None else paper.printed_as(run.spec), methods.layer(run.spec)
        name = "" if layer is None else layer.name
        for epsilon, metric in product(sorted({model.epsilon for model in run.models}), experiment.metrics):
            values = [100 * value for value in run.by_seed(epsilon, metric).values()]
            # A method whose only model comes last has no accuracy along the way, though a mean over one task can be formed.
            if not values or (metric == "Avg" and not run.by_seed(epsilon, "BWT")):
                continue
            row = printed.get((*names, epsilon, metric), Row(*names, epsilon, metric))
            by_layer.pop((_key(row), ""), None)
            by_layer[_key(row), name] = replace(
                row, ours=Ours(fmean(values), stdev(values) if len(values) > 1 else None, len(values)), layer=name,
                remarks=(*row.remarks, *run.made_before), is_comparable=comparable,
                accounted_epsilon=run.accounted(epsilon), channel_epsilons=run.channel_epsilons(epsilon),
            )  # fmt: skip
    several = Counter(key for key, _ in by_layer)
    by_layer = {place: replace(row, is_one_of_several=several[place[0]] > 1) for place, row in by_layer.items()}
    order = list(dict.fromkeys([row.name for row in printed.values()] + [row.name for row in by_layer.values()]))
    marked = (
        replace(row, is_nominal=row.method in paper.nominal and math.isfinite(row.epsilon)) for row in by_layer.values()
    )
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
        same = (one for one in later if (one.method, one.epsilon, one.metric) == (row.method, row.epsilon, metric))
        pairs.append((Row(row.method, row.variant, row.epsilon, metric, row), next(same, None)))
    return tuple(pairs)


def printed_difference(form: Form, ordering: Ordering) -> float | None:
    """The difference first - second of an ordering in the paper's table, in points; None without both numbers."""
    sides = _printed_sides(form, ordering)
    if sides is None or ordering.first.rule is not None or ordering.second.rule is not None:
        return None
    first, second = (row.usable for row in sides)
    return first - second if first is not None and second is not None else None


def printed_value(form: Form, label: str, epsilon: float, metric: str) -> float | None:
    """The number that the paper's table prints for a run at a budget, in percent; None where it prints none."""
    row = _printed_row(form, label, epsilon, metric)
    return None if row is None else row.usable


def printed_interval(form: Form, ordering: Ordering) -> Interval | None:
    """The same difference with its interval from printed deviations (`paper.eq_23`); None where the paper forms none."""
    sides = _printed_sides(form, ordering) if form.paper.is_unpaired else None
    if sides is None:
        return None
    first, second = (row.printed for row in sides)
    return unpaired_of_printed(first, second) if first is not None and second is not None else None


def references_beside(form: Form, metric: str) -> References | None:
    """The recorded references of a figure of this metric; None where there is no record, or they say nothing of it.

    Guessing has a known accuracy after the last task alone.
    """
    preset, first = form.experiment.preset(form.size), next(iter(form.specs.values()))
    if metric != "AA" or not questions.has_references(preset):
        return None
    return questions.recorded_references(preset, first, form.runs)


def table_remarks(form: Form) -> tuple[str, ...]:
    """The remarks on the tables as a whole."""
    return tuple(note.text for note in form.paper.remarks if note.is_about(form.experiment.tables))


def reasons(form: Form) -> tuple[str, ...]:
    """The reasons why our numbers differ from the printed ones: from the runs' settings and data, and known ones.

    They include every setting that differs from the paper, from the layers of the runs.
    """
    deviations = [reason for run in form.runs.values() for reason in form.paper.departs(run)]
    listed = form.experiment.departures + (() if form.size == "full" else form.experiment.small_departures)
    layers = [layer for run in form.runs.values() if (layer := methods.layer(run.spec)) is not None]
    differs = [departure.sentence for layer in layers for departure in layer.departures]
    return tuple(dict.fromkeys([*deviations, *listed, *differs])) if deviations or differs else ()


def _printed_sides(form: Form, ordering: Ordering) -> tuple[Row, Row] | None:
    """The two numbers of an ordering in the paper's table; None without both."""
    sides = (ordering.first, ordering.second)
    first, second = (_printed_row(form, side.run, side.epsilon, ordering.metric) for side in sides)
    return (first, second) if first is not None and second is not None else None


def _printed_row(form: Form, label: str, epsilon: float, metric: str) -> Row | None:
    return _printed_rows(form.paper, form.experiment).get((*form.paper.printed_as(form.specs[label]), epsilon, metric))


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


# p values of claimed orderings: the bound that the paper prints, and that of our runs.
#
# They are descriptive (`figures.statistics.CAVEAT`). Lai et al. test two curves of average accuracy after each task against
# each other, with one point a task.


def printed_p_value(form: Form, ordering: Ordering) -> published.Published | None:
    """The printed bound on the p value of this comparison; None where the paper prints none."""
    numbers = published.read_numbers(form.paper.name)
    rows = (row for row in numbers if row.metric == "p_value_upper_bound" and form.experiment.prints(row))
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


# Figures of the papers, drawn from our runs: curves over tasks, p values, and final results by setting.


_MOST_LINES = 8  # that one figure shows; with more, one budget at a time


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with its numbers; `note`: which runs it lacks, and why."""

    picture: Picture
    table: pd.DataFrame
    note: str


def shown_runs(form: Form, figure: Figure) -> dict[str, Measured]:
    """The runs of a figure with results, by label."""
    named = [run for _, points in figure.points for _, run in points]
    return {label: form.runs[label] for label in figure.runs or named or tuple(form.specs) if label in form.runs}


def figure_budgets(form: Form, figure: Figure) -> tuple[float, ...]:
    """The budgets of which a figure shows one at a time; empty where it shows all of them together."""
    every = [sorted({model.epsilon for model in run.models}) for run in shown_runs(form, figure).values()]
    is_split = not figure.has_tests and (bool(figure.points) or sum(map(len, every)) > _MOST_LINES)
    return tuple(sorted({epsilon for own in every if len(own) > 1 for epsilon in own})) if is_split else ()


def figure_tests(form: Form, figure: Figure) -> tuple[Ordering, ...]:
    """The comparisons of which a figure of p values shows one at a time: those whose sides have curves."""
    orderings = [judged.ordering for judged in form.judged if judged.ordering.test is not None]
    return tuple(one for one in orderings if mean_curves(one, form.runs) is not None) if figure.has_tests else ()


def draw_figure(
    form: Form, figure: Figure, *, epsilon: float | None = None, test: Ordering | None = None, dark: bool = False
) -> Drawn:
    """One of the paper's figures from the form's runs. `epsilon`: one of `figure_budgets`; `test`: one of `figure_tests`."""
    if figure.has_tests:
        return _p_values(form, test, dark)
    return (_over_settings if figure.points else _over_tasks)(form, figure, epsilon, dark)


def _over_tasks(form: Form, figure: Figure, epsilon: float | None, dark: bool) -> Drawn:
    lines: list[curves.Series] = []
    printed, missing = dict[str, float](), dict[str, None]()
    titles = questions.question_names(form.specs)
    for label, run in shown_runs(form, figure).items():
        own = sorted({model.epsilon for model in run.models})
        for budget in own:
            if epsilon is not None and budget != epsilon and (len(own) > 1 or math.isfinite(budget)):
                continue
            name = titles[label] if len(own) == 1 or epsilon is not None else f"{titles[label]}, {epsilon_label(budget)}"
            points = [rest for of, *rest in run.curve_rows(figure.metric) if of == budget]
            if not points:
                missing[titles[label]] = None
                continue
            rows = pd.DataFrame(points, columns=["seed", "after_task", "value"])
            standing = methods.standing(run.spec) if math.isfinite(run.models[0].epsilon) else "bound"
            line = curves.Series(name, rows, theme.colour_of_series(len(lines), dark), run.spec.labels, standing)
            lines.append(line._replace(name=line.label))
            value = printed_value(form, label, budget, figure.metric)
            if value is not None:
                printed[lines[-1].name] = value
    note = f"Recorded with the last task alone, so without a curve: {'; '.join(missing)}." if missing else ""
    if not lines:
        picture = theme.nothing(note or "None of these runs has been carried out here yet.", dark, 160)
        return Drawn(picture, pd.DataFrame(), "")
    n_tasks = max(int(line.rows["after_task"].max()) + 1 for line in lines)
    references = references_beside(form, figure.metric)
    picture = curves.averages_over_tasks(
        lines, n_tasks=n_tasks, of="accuracy" if figure.metric == "AA" else "forgetting",
        score=quantity("AA", form.specs.values()), printed=printed, references=references, dark=dark,
    )  # fmt: skip
    return Drawn(picture, pd.concat([line.rows.assign(run=line.name) for line in lines]), note)


def _p_values(form: Form, test: Ordering | None, dark: bool) -> Drawn:
    curves = None if test is None else mean_curves(test, form.runs)
    if test is None or curves is None:
        picture = theme.nothing("No run with a curve belongs to the paper's tests.", dark, 160)
        return Drawn(picture, statistics.p_values([0, 0], [0, 0]), "")
    table = statistics.p_values(*curves)
    titles = questions.question_names(form.specs)
    names = titles[test.first.run], titles[test.second.run]
    return Drawn(statistics.p_value_curve(table, names=names, dark=dark), table, statistics.CAVEAT)


def _over_settings(form: Form, figure: Figure, epsilon: float | None, dark: bool) -> Drawn:
    rows = [
        (name, setting, *_result(form, run, epsilon, figure.metric))
        for name, points in figure.points
        for setting, run in points
        if run in form.specs
    ]
    columns = ["name", "setting", "ours", "low", "high", "published"]
    table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[2:], "float64"))
    picture = reproduction.over_settings(table, what=quantity(figure.metric, form.specs.values()), dark=dark)
    names = questions.question_names(form.specs)
    lacking = [names[run] for _, points in figure.points for _, run in points if run in form.specs.keys() - form.runs.keys()]
    return Drawn(picture, table, f"Not recorded: {'; '.join(lacking)}." if lacking else "")


def _result(form: Form, label: str, epsilon: float | None, metric: str) -> tuple[float | None, ...]:
    """Our mean, both ends of its interval, and the printed number, in percent."""
    run, spec = form.runs.get(label), form.specs[label]
    budget = spec.privacy.epsilons[0] if epsilon is None or len(spec.privacy.epsilons) == 1 else epsilon
    values = [] if run is None else [100 * value for value in run.by_seed(budget, metric).values()]
    printed = printed_value(form, label, budget, metric)
    if not values:
        return None, None, None, printed
    known = interval(values)
    ends = (known.mean if known.low is None else known.low, known.mean if known.high is None else known.high)
    return known.mean, *ends, printed
