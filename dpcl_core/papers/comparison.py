"""Published beside ours: row by row, with what must be known about the printed number, and why the two can differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from dpcl_core import published
from dpcl_core.data import catalog as datasets
from dpcl_core.figures.statistics import Interval
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import effects, remarks
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Ordering
from dpcl_core.papers.paper import Experiment, Paper, Size
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec

METRICS = {
    "AA": "accuracy",
    "AF": "forgetting",
    "BWT": "backward transfer",
    "FWT": "forward transfer",
    "Avg": "accuracy along the way",
    **{f"task{k}": f"task {k}" for k in range(1, 7)},  # accuracy on the k-th task learned
}


def quantity(metric: str, specs: Iterable[RunSpec]) -> str:
    """What a metric of runs on one kind of data is, as it is written: where names are marked, F1 stands for accuracy."""
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
    """One number of a table: what was printed (None: nothing), what came out here (None: not run), both in percent.

    `is_comparable`: ours was measured on the paper's data or a part of them. `is_doubtful`: see Remark. `is_nominal`: the
    paper claims the epsilon, and no ledger bears it out. `ways`: what ours is accounted for, the largest of the seeds:
    epsilon of "replay", "head" and "total" where private data leave in two ways. `layer`: of our run, empty where there is
    none; `is_one_of_several`: runs of ours in other layers stand beside the same printed number.
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
    ways: Mapping[str, float] = field(default_factory=dict)
    layer: str = ""
    is_one_of_several: bool = False

    @property
    def name(self) -> str:
        """Method and what it trains, as one reads it, and its layer where the printed number stands beside several."""
        more = [self.variant] if self.variant else []
        more += [self.layer] if self.is_one_of_several and self.layer else []
        return f"{self.method} ({', '.join(more)})" if more else self.method

    @property
    def usable(self) -> float | None:
        """The printed value in percent where it can be drawn and reckoned with."""
        return None if self.printed is None or self.is_doubtful else self.printed.percent

    @property
    def difference(self) -> float | None:
        """Ours minus published, in points; None where one of the two is missing or they measure different things."""
        if self.ours is None or self.usable is None or not self.is_comparable:
            return None
        return self.ours.mean - self.usable


def rows(paper: Paper, experiment: Experiment, runs: Mapping[str, Measured]) -> tuple[Row, ...]:
    """Every number that the paper's table prints or our runs (by label) have, a method's together, in the table's order.

    Where the paper prints plots alone, only ours, each under its run's label.
    """
    printed = {_key(row): row for row in _printed_rows(paper, experiment)}
    found = {(key, ""): row for key, row in printed.items()}  # by layer of ours; those without any of ours under ""
    comparable = all(_is_its_data(run.spec.data.dataset, experiment) for run in runs.values())
    for label, run in runs.items():
        method, variant = (label, "") if experiment.table is None else paper.printed_as(run.spec)
        for epsilon, metric, ours in _figures(run, paper.metrics):
            row, ways = Row(method, variant, epsilon, metric), run.ways(epsilon)
            layer = methods.layer(run.spec)
            name = "" if layer is None else layer.name
            found.pop((_key(row), ""), None)
            known = printed.get(_key(row), row)
            remarks = (*known.remarks, *run.made_before)
            found[_key(row), name] = replace(
                known, ours=ours, remarks=remarks, is_comparable=comparable, ways=ways, layer=name
            )
    several = Counter(key for key, _ in found)
    found = {place: replace(row, is_one_of_several=several[place[0]] > 1) for place, row in found.items()}
    order = list(dict.fromkeys([row.name for row in printed.values()] + [row.name for row in found.values()]))
    told = [
        replace(row, is_nominal=row.method in paper.nominal and math.isfinite(row.epsilon)) for row in found.values()
    ]
    return tuple(sorted(told, key=lambda row: (order.index(row.name), row.epsilon, row.metric, row.layer)))


@dataclass(frozen=True, slots=True)
class Earlier:
    """A number of an earlier version of the paper, and the row of the later one (None: not printed any more)."""

    row: Row
    later: Row | None


def earlier(paper: Paper, experiment: Experiment, later: Sequence[Row]) -> tuple[Earlier, ...]:
    """What an earlier version prints of the experiment, in its order, beside the `later` rows; empty where there is none.

    An earlier version may not say what a method trains: it then stands beside the first row of the method.
    """
    found = []
    for row in published.read(paper.name):
        metric = row.shared_metric
        if experiment.earlier is None or row.table != experiment.earlier or metric is None or row.epsilon is None:
            continue
        same = (one for one in later if (one.method, one.epsilon, one.metric) == (row.method, row.epsilon, metric))
        found.append(Earlier(Row(row.method, row.variant, row.epsilon, metric, row), next(same, None)))
    return tuple(found)


def printed_difference(
    paper: Paper, experiment: Experiment, ordering: Ordering, specs: Mapping[str, RunSpec]
) -> float | None:
    """What the paper's table says about an ordering: first minus second in points; None where it prints no such numbers."""
    known = {_key(row): row.usable for row in _printed_rows(paper, experiment)}
    sides = (ordering.first, ordering.second)
    if any(side.rule is not None for side in sides):
        return None
    first, second = (
        known.get((*paper.printed_as(specs[side.run]), side.epsilon, ordering.metric)) for side in sides
    )
    return first - second if first is not None and second is not None else None


def printed_interval(
    paper: Paper, experiment: Experiment, ordering: Ordering, specs: Mapping[str, RunSpec]
) -> Interval | None:
    """The same with the interval of printed deviations, where the paper forms such; None else."""
    if not paper.is_unpaired:
        return None
    known = {_key(row): row.printed for row in _printed_rows(paper, experiment)}
    first, second = (
        known.get((*paper.printed_as(specs[side.run]), side.epsilon, ordering.metric))
        for side in (ordering.first, ordering.second)
    )
    return effects.of_printed(first, second) if first is not None and second is not None else None


def table_remarks(paper: Paper, experiment: Experiment) -> tuple[str, ...]:
    """What is to be known about the whole table."""
    return tuple(note.text for note in paper.remarks if note.is_about_the_table and note.table in experiment.tables)


def reasons(paper: Paper, experiment: Experiment, size: Size, runs: Iterable[Measured]) -> tuple[str, ...]:
    """Why ours cannot be the same as what was printed: what the runs' settings and data show, and what is known beside.

    Every setting that differs from print is among them, by the layers of the runs.
    """
    own = list(runs)
    told = [reason for run in own for reason in paper.departs(run)]
    known = experiment.departures if size == "full" else (*experiment.departures, *experiment.small_departures)
    layers = [layer for run in own if (layer := methods.layer(run.spec)) is not None]
    differs = [one.sentence for layer in layers for one in layer.departures]
    return tuple(dict.fromkeys([*told, *known, *differs])) if told or differs else ()


def _printed_rows(paper: Paper, experiment: Experiment) -> Iterator[Row]:
    """What the paper prints of the experiment in metrics that ours have too, in its order; of repeats the first."""
    seen = set()
    for row in published.read(paper.name):
        metric = row.shared_metric or ""
        if metric not in paper.metrics or row.epsilon is None or not experiment.prints(row):
            continue
        notes = remarks.about(row, paper.remarks)
        made = Row(
            *paper.named(row), row.epsilon, metric, row,
            remarks=tuple(note.text for note in notes), is_doubtful=any(note.is_doubtful for note in notes),
        )  # fmt: skip
        if _key(made) not in seen:
            seen.add(_key(made))
            yield made


def _key(row: Row) -> tuple[str, str, float, str]:
    return row.method, row.variant, row.epsilon, row.metric


def _figures(run: Measured, metrics: Sequence[str]) -> Iterator[tuple[float, str, Ours]]:
    """Budget, metric and summary of everything that the run's models have of these metrics."""
    for epsilon in sorted({model.epsilon for model in run.models}):
        for metric in metrics:
            values = [100 * value for value in run.by_seed(epsilon, metric).values()]
            # A method whose only model comes last has no accuracy along the way, though a mean over one task can be formed.
            if values and (metric != "Avg" or run.by_seed(epsilon, "BWT")):
                yield epsilon, metric, _summary(values)


def _summary(values: Sequence[float]) -> Ours:
    return Ours(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _is_its_data(name: str, experiment: Experiment) -> bool:
    """Whether accuracy on the dataset is the quantity that the paper measured: no stand-in, and as many classes."""
    card = datasets.CARDS.get(name)
    return card is not None and card.stands_in_for is None and card.n_classes == experiment.n_classes
