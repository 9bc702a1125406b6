"""Published beside ours: row by row, with what must be known about the printed number, and why the two can differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.cards.peft import PeftParams
from dpcl_core.papers import published
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Paper, Protocol, Size
from dpcl_core.papers.published import Published

METRICS = {"AA": "accuracy", "AF": "forgetting"}


@dataclass(frozen=True, slots=True)
class Ours:
    """Mean and standard deviation (None with one seed) over the seeds, in percent."""

    mean: float
    std: float | None
    n_seeds: int


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a table: what was printed (None: nothing), what came out here (None: not run), both in percent.

    `is_comparable`: ours was measured over as many classes as the paper's.
    """

    method: str
    variant: str
    epsilon: float
    metric: str
    printed: Published | None
    ours: Ours | None
    remarks: tuple[str, ...]
    is_comparable: bool = True

    @property
    def name(self) -> str:
        """Method and what it trains, as one reads it."""
        return f"{self.method} ({self.variant})" if self.variant else self.method

    @property
    def difference(self) -> float | None:
        """Ours minus published, in points; None where one of the two is missing or they measure different things."""
        if self.ours is None or self.printed is None or self.printed.value is None or not self.is_comparable:
            return None
        return self.ours.mean - self.printed.value


def rows(paper: Paper, experiment: Experiment, runs: Mapping[str, Measured]) -> tuple[Row, ...]:
    """Every number that the paper's table prints or that our runs (by label) have: the printed ones first, in their order.

    Where the paper prints plots alone, only ours, each under its run's label.
    """
    if experiment.table is None:
        return tuple(_own_row(label, "", run, epsilon, metric) for label, run, epsilon, metric in _figures(runs))
    ours: dict[tuple[str, str, float, str], Row] = {}
    for _, run, epsilon, metric in _figures(runs):
        method, variant = paper.printed_as(run.spec)
        ours.setdefault((method, variant, epsilon, metric), _own_row(method, variant, run, epsilon, metric))
    found: list[Row] = []
    comparable = all(_n_classes(run.spec.data.dataset) == experiment.n_classes for run in runs.values())
    for row in published.read(paper.name):
        metric = row.metric.removesuffix("_percent")
        if row.table != experiment.table or metric not in METRICS or row.epsilon is None:
            continue
        own = ours.pop((row.method, row.variant, row.epsilon, metric), None)
        notes = published.remarks(row, paper.remarks)
        found.append(
            Row(row.method, row.variant, row.epsilon, metric, row, own.ours if own is not None else None, notes, comparable)
        )
    return (*found, *ours.values())


def table_remarks(paper: Paper, experiment: Experiment) -> tuple[str, ...]:
    """What is to be known about the whole table."""
    return tuple(note.text for note in paper.remarks if note.is_about_the_table and note.table == experiment.table)


def reasons(paper: Paper, experiment: Experiment, size: Size, runs: Iterable[Measured]) -> tuple[str, ...]:
    """Why ours cannot be the same as what was printed: what the runs' settings and data show, and what is known beside."""
    told = [reason for run in runs for reason in _of_settings(paper.protocol, run)]
    known = experiment.departures if size == "full" else (*experiment.departures, *experiment.small_departures)
    return tuple(dict.fromkeys([*told, *known])) if told else ()


def _of_settings(protocol: Protocol, run: Measured) -> list[str]:
    spec, told = run.spec, list[str]()
    if spec.data.backbone != protocol.backbone:
        told.append(f"Network: {_backbone_title(spec.data.backbone)}, instead of {protocol.backbone_title}.")
    if run.dataset_title != _full_title(spec.data.dataset):
        told.append(f"Data: {run.dataset_title}, not the full set.")
    if isinstance(spec.params, PeftParams):
        if spec.params.epochs != protocol.epochs:
            title = methods.CARDS[spec.method].title
            told.append(f"Epochs: {spec.params.epochs} for {title}, instead of {protocol.epochs}.")
        if spec.tuned == "no":
            told.append(
                f"Tuning: none. The paper {protocol.tuning}; ours takes one learning rate, clipping norm and sampling rate "
                "for all budgets."
            )
    told.append("Noise: calibrated exactly to ε, and sums divided by a public constant, so that ε holds as stated.")
    return told


def _figures(runs: Mapping[str, Measured]) -> Iterable[tuple[str, Measured, float, str]]:
    for label, run in runs.items():
        for epsilon in sorted({model.epsilon for model in run.models}):
            for metric in METRICS:
                if run.by_seed(epsilon, metric):
                    yield label, run, epsilon, metric


def _own_row(method: str, variant: str, run: Measured, epsilon: float, metric: str) -> Row:
    values = [100 * value for value in run.by_seed(epsilon, metric).values()]
    return Row(method, variant, epsilon, metric, None, _summary(values), ())


def _summary(values: Sequence[float]) -> Ours:
    return Ours(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _backbone_title(name: str) -> str:
    try:
        return backbones.card(name).title
    except BadInput:
        return name


def _full_title(name: str) -> str:
    return datasets.CARDS[name].title if name in datasets.CARDS else name


def _n_classes(name: str) -> int | None:
    return datasets.CARDS[name].n_classes if name in datasets.CARDS else None
