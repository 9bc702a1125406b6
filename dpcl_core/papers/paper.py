"""The record of a paper: its experiments, the runs that reproduce them, and remarks on its printed numbers."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, PositiveFloat

from dpcl_core import paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.documents import Document
from dpcl_core.errors import BadInput, entry
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval, widened
from dpcl_core.papers.measured import Measured, scale
from dpcl_core.privacy.numerics import student_quantile
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec, validated

# Orderings that a paper claims, as pairs to compare, and whether our runs show them. No outcome is assumed.
#
# Differences are formed seed by seed and count where their 95 % interval decides; with fewer than three seeds nothing does.
# Two comparisons are never decided, whatever the interval: of two runs that only guess, which says nothing about methods,
# and of records that two editions of the code made, which share no draws that seeds could pair.


State = Literal["found", "not found", "cannot tell", "both guess", "two editions", "not run"]
JUDGED: tuple[State, ...] = ("found", "not found", "cannot tell")  # two runs that can be compared
GUESS_POINTS = 0.5  # a run that ends at most this many points above chance only guesses (our choice)
ALIKE_POINTS = 2.0  # "no change": the whole interval is within this many points of zero (our choice)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a run of the experiment by its label, a budget, a prediction rule (None: the run's own)."""

    run: str
    epsilon: float
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """`first` is claimed to have the higher metric than `second`, or ("alike") the same one.

    `test`: method and variant of the printed p value on this comparison; None where the paper tests nothing. `is_ours`: the
    paper draws no such comparison.
    """

    statement: str
    first: Side
    second: Side
    metric: str = "AA"
    kind: Literal["higher", "alike"] = "higher"
    test: tuple[str, str] | None = None
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of our runs on an ordering; the difference first - second in points, None where no seeds can be paired.

    "not found": the interval shows the opposite. "cannot tell": it shows neither. "both guess": neither run is better than
    guessing. "two editions": the sides were recorded by two editions of the code. "not run": a side has not run.
    """

    ordering: Ordering
    state: State
    difference: Interval | None


def judge(ordering: Ordering, runs: Mapping[str, Measured], chances: Mapping[str, float] | None = None) -> Judged:
    """Whether the runs (by label) show the ordering, its opposite, or neither clearly.

    `chances`: by label, what guessing gives on a run's test data, in [0, 1]; of a run without, it is not asked whether it
    only guesses.
    """
    sides = [_values(side, ordering.metric, runs) for side in (ordering.first, ordering.second)]
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        return Judged(ordering, "not run", None)
    first, second = ordering.first, ordering.second
    if runs[first.run].edition != runs[second.run].edition:
        return Judged(ordering, "two editions", None)
    difference = interval([scale(ordering.metric) * (sides[0][seed] - sides[1][seed]) for seed in shared])
    if all(_only_guesses(side, ordering.metric, runs[side.run], (chances or {}).get(side.run)) for side in (first, second)):
        return Judged(ordering, "both guess", difference)
    return Judged(ordering, _state(ordering.kind, difference), difference)


def unpaired(ordering: Ordering, runs: Mapping[str, Measured]) -> Interval | None:
    """The difference in points with an interval that pairs no seeds (`eq_23`); None with fewer than three seeds."""
    sides = [_values(side, ordering.metric, runs) for side in (ordering.first, ordering.second)]
    shared = sides[0].keys() & sides[1].keys()
    if len(shared) < MIN_SEEDS:
        return None
    first, second = ([100 * side[seed] for seed in sorted(shared)] for side in sides)
    return eq_23((fmean(first), stdev(first)), (fmean(second), stdev(second)), len(shared))


def eq_23(first: tuple[float, float], second: tuple[float, float], n: int) -> Interval:
    """Difference of two means with the interval that Shihab et al. print (Eq. 23), each from n repetitions.

    Its quantile is that of a paired test (n - 1 degrees of freedom; 2.776 for 5), its standard error that of two independent
    samples. Args: mean and standard deviation of each.
    """
    mean = first[0] - second[0]
    half = student_quantile(n - 1, 0.975) * math.sqrt((first[1] ** 2 + second[1] ** 2) / n)
    return Interval(mean, mean - half, mean + half, n)


def unpaired_of_printed(first: Published, second: Published) -> Interval | None:
    """The interval of `eq_23` (points) for two printed numbers; None unless both have deviations over as many seeds."""
    if None in (first.percent, second.percent, first.percent_std, second.percent_std):
        return None
    if first.n_seeds is None or first.n_seeds != second.n_seeds or first.n_seeds < MIN_SEEDS:
        return None
    pairs = [(one.percent or 0.0, one.percent_std or 0.0) for one in (first, second)]
    return eq_23(pairs[0], pairs[1], first.n_seeds)


def _state(kind: Literal["higher", "alike"], difference: Interval) -> State:
    if difference.low is None or difference.high is None:
        return "cannot tell"
    if kind == "alike" and difference.low >= -ALIKE_POINTS and difference.high <= ALIKE_POINTS:
        return "found"  # even where zero is left out: a difference, but one too small to matter
    if abs(difference.mean) <= widened(difference).half_width:
        return "cannot tell"
    return "found" if kind == "higher" and difference.mean > 0 else "not found"


def _only_guesses(side: Side, metric: str, run: Measured, chance: float | None) -> bool:
    """Whether the run ends no better than guessing, on the mean of its seeds; False where chance is not known.

    Metrics other than the final accuracy also see what a run knew before it forgot: there, what it reached on each task
    right after learning it must be a guess too. That is its final accuracy less the backward transfer, which is a mean over
    all tasks but the last.
    """
    ends = run.by_seed(side.epsilon, "AA", side.rule)
    if chance is None or not ends:
        return False
    levels = [fmean(ends.values())]
    transfers = run.by_seed(side.epsilon, "BWT")
    if metric not in ("AA", "pooled") and transfers:
        n_tasks = max(sum(name.startswith("task") for name in model.metrics) for model in run.models)
        share = (n_tasks - 1) / n_tasks if n_tasks else 1.0
        levels.append(levels[0] - share * fmean(transfers.values()))
    return 100 * max(levels) <= 100 * chance + GUESS_POINTS


def _values(side: Side, metric: str, runs: Mapping[str, Measured]) -> dict[int, float]:
    run = runs.get(side.run)
    return {} if run is None else run.by_seed(side.epsilon, metric, side.rule)


# Remarks on printed numbers: slips, contradictions and gaps, each with the numbers it concerns.


_Words = Annotated[str, Field(min_length=1)]
_Names = _Words | tuple[_Words, ...] | None
_FIELDS = ("dataset", "method", "variant", "epsilon", "metric")


class Remark(Document):
    """A remark on printed numbers: a slip, a contradiction or a gap.

    It is about every number of these tables, methods, variants, datasets and metrics; None: any. A remark with no field but
    its table is about the table as a whole, not about single numbers. `is_doubtful`: the number is very likely a misprint;
    it is shown as printed, but neither drawn nor used.
    """

    text: _Words
    table: _Words | tuple[_Words, ...]
    method: _Names = None
    variant: str | tuple[str, ...] | None = None
    dataset: _Names = None
    metric: _Names = None
    epsilon: PositiveFloat | None = None
    is_doubtful: bool = False

    @property
    def is_about_the_table(self) -> bool:
        return all(getattr(self, name) is None for name in _FIELDS)

    def touches(self, row: Published) -> bool:
        """Whether the remark is about this number."""
        if self.is_about_the_table or not _has(self.table, row.table):
            return False
        return all(_has(getattr(self, name), getattr(row, name)) for name in _FIELDS)

    def is_about(self, tables: Sequence[str]) -> bool:
        """Whether the remark is about one of these tables as a whole."""
        return self.is_about_the_table and any(_has(self.table, table) for table in tables)


def _has(named: object, value: object) -> bool:
    return named is None or named == value or (isinstance(named, tuple) and value in named)


PrintedAs = Callable[[RunSpec], tuple[str, str]]
Named = Callable[[Published], tuple[str, str]]
Departs = Callable[[Measured], Sequence[str]]
Size = Literal["small", "bundled", "full"]
SIZES: tuple[Size, ...] = get_args(Size)


class Figure(Document):
    """A figure of the paper that our records can draw, over tasks unless it has `points`.

    `runs`: labels of the runs that it shows (empty: all); `points`: by line, the name and the run of every point;
    `has_tests`: it shows the p values of the paper's tests.
    """

    name: _Words
    metric: _Words = "AA"
    runs: tuple[_Words, ...] = ()
    points: tuple[tuple[_Words, tuple[tuple[_Words, _Words], ...]], ...] = ()
    has_tests: bool = False


class Elsewhere(Document):
    """Other data on which an experiment's claims were tested; `set`: changes of its runs there, in the form of `--set`."""

    on: _Words
    size: Size = "small"
    set: tuple[_Words, ...] = ()

    def name(self, experiment: Experiment) -> str:
        """What its references are recorded under."""
        return f"{experiment.preset(self.size)} on {self.on}"


class _Described(Document):
    """What a file says of an experiment and the record keeps as it is."""

    name: _Words
    title: _Words
    question: _Words
    table: _Words | None = None
    n_classes: int = Field(gt=1)
    is_ours: bool = False
    has_match_rates: bool = False
    earlier: _Words | None = None
    figures: tuple[Figure, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()


class Experiment(_Described):
    """One experiment. Preset NAME is the paper's protocol, NAME-small a version that takes minutes on two cores.

    NAME-bundled, where there is one, uses all available data and a bundled network. `prints` selects its numbers among all
    of the paper, `table` names the table (or figure, or several: "2, 3") they are in; None where the paper prints plots
    alone. `n_classes` of its data: accuracy over fewer classes is another quantity, and no difference is formed from it.
    `metrics`: what its table prints, by our names.
    `departures`: how ours differ from the paper beyond what settings show; `small_departures`: further differences with a
    bundled network. `is_ours`: the paper has no such experiment. `has_match_rates`: its tables also print how often an
    anchor separates two list entries, a property of lists and not of models. `earlier`: the table of an earlier version of
    the paper that prints the same experiment. `dataset`: how the names of the printed data begin; empty: any.
    `elsewhere`: other data on which its claims were tested.
    """

    prints: Callable[[Published], bool]
    metrics: tuple[str, ...]
    orderings: tuple[Ordering, ...]
    departures: tuple[str, ...]
    small_departures: tuple[str, ...]
    dataset: str

    @property
    def claimed_in(self) -> tuple[str, str]:
        """Where the paper makes its claims: experiments that share a table and its dataset repeat the same claims."""
        return self.table or self.name, self.dataset

    @property
    def place(self) -> str:
        """Where its numbers are printed, as displayed."""
        table = self.table or "plots"
        if table.startswith(("figure", "plots")):
            return table
        return f"tables {table}" if len(self.tables) > 1 else f"table {table}"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of its numbers, one by one."""
        return tuple((self.table or "").split(", ")) if self.table else ()

    def preset(self, size: Size) -> str:
        """The preset that holds its runs."""
        return self.name if size == "full" else f"{self.name}-{size}"

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes with a preset, smallest first."""
        names = presets.names()
        return tuple(size for size in SIZES if self.preset(size) in names)


class _Head(Document):
    """What a file says of a paper and the record keeps as it is."""

    title: _Words
    source: _Words
    link: Annotated[str, Field(pattern=r"^https://")]
    nominal: tuple[_Words, ...] = ()
    is_unpaired: bool = False
    toys: tuple[_Words, ...] = ()
    remarks: tuple[Remark, ...] = ()


class Paper(_Head):
    """A paper. `printed_as` gives the names of method and variant under which its tables print a run's results.

    `named` gives the same names for a printed number. `nominal`: methods, as printed, whose epsilon is only claimed.
    `departs` gives the differences of a run from the paper that its settings and data show, one sentence each.
    `is_unpaired`: its intervals of differences pair no seeds (`eq_23`), and are shown beside ours. `toys`: networks that
    are too small for any method to learn the tasks, so that runs with them say nothing of the claims. `link`: its address.
    """

    name: str
    experiments: tuple[Experiment, ...]
    printed_as: PrintedAs
    departs: Departs
    named: Named


# Reads and checks the papers of `assets/papers/NAME.toml`; an error names the file and the key.
#
# Functions (the names of a run's method, the differences of a run) are in `papers.catalog`.


class _Prints(Document):
    """The printed numbers of an experiment: those of these tables (none given: all) and datasets with this prefix.

    `notes`: of a table, only the rows with this note.
    """

    tables: tuple[_Words, ...] = ()
    dataset: str = ""
    notes: Mapping[str, str] = {}

    def has(self, row: Published) -> bool:
        is_of = not self.tables or row.table in self.tables
        return is_of and row.dataset.startswith(self.dataset) and self.notes.get(row.table, row.note) == row.note


class _Claimed(Document):
    """One claimed ordering, at each of several budgets or pairs of budgets (one per side)."""

    says: _Words
    first: _Words
    second: _Words
    at: tuple[PositiveFloat | tuple[PositiveFloat, PositiveFloat], ...] = Field(min_length=1)
    rules: tuple[_Words, _Words] | None = None
    metric: _Words = "AA"
    kind: Literal["higher", "alike"] = "higher"
    test: tuple[_Words, _Words] | None = None
    is_ours: bool = False

    def orderings(self, is_of_ours: bool) -> tuple[Ordering, ...]:
        """`is_of_ours`: of an experiment that the paper does not have, so none of them is the paper's."""
        rules = self.rules or (None, None)
        pairs = (budget if isinstance(budget, tuple) else (budget, budget) for budget in self.at)
        sides = ((Side(self.first, one, rules[0]), Side(self.second, other, rules[1])) for one, other in pairs)
        is_ours = self.is_ours or is_of_ours
        return tuple(Ordering(self.says, *both, self.metric, self.kind, self.test, is_ours) for both in sides)


class _Experiment(_Described):
    prints: _Prints | None = None
    metrics: tuple[_Words, ...] | None = None
    orderings: _Words
    departures: tuple[_Words, ...] = ()
    small_departures: tuple[_Words, ...] = ()


class _File(_Head):
    metrics: tuple[_Words, ...] = ("AA", "AF")
    words: Mapping[str, _Words] = {}
    experiments: tuple[_Experiment, ...] = Field(min_length=1)
    orderings: Mapping[str, tuple[_Claimed, ...]]


def load(name: str, printed_as: PrintedAs, named: Named, departs: Departs, text: str | None = None) -> Paper:
    """A bundled paper by its name, or one of this TOML text; functions as in `Paper`.

    Raises BadInput naming the file and the key that is wrong.
    """
    place = paths.assets_dir() / "papers" / f"{name}.toml"
    file = f"assets/papers/{place.name}"
    try:
        said = tomllib.loads(place.read_text(encoding="utf-8") if text is None else text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(file, "", f"must be TOML: {error}") from error
    record = validated(_File, said, file)
    experiments = tuple(_experiment(one, record, file) for one in record.experiments)
    head = {field: getattr(record, field) for field in _Head.model_fields}
    return Paper(name=name, experiments=experiments, printed_as=printed_as, departs=departs, named=named, **head)


def _experiment(one: _Experiment, of: _File, file: str) -> Experiment:
    key = f"{file}: experiments.{one.name}"
    claimed = entry(f"{key}.orderings", one.orderings, of.orderings)
    made: dict[str, Any] = {
        "prints": (lambda row: False) if one.prints is None else one.prints.has,
        "dataset": "" if one.prints is None else one.prints.dataset,
        "metrics": one.metrics or of.metrics,
        "orderings": tuple(found for each in claimed for found in each.orderings(one.is_ours)),
        "departures": tuple(entry(f"{key}.departures", word, of.words) for word in one.departures),
        "small_departures": tuple(entry(f"{key}.small_departures", word, of.words) for word in one.small_departures),
    }
    return Experiment(**dict(one) | made)


# Sentences on differences between a run and a paper that all papers share.


def of_data(run: Measured) -> list[str]:
    """The data used, where they were not the full set; else empty."""
    name = run.spec.data.dataset
    full = datasets.CARDS[name].title if name in datasets.CARDS else name
    return [] if run.dataset_title == full else [f"Data: {run.dataset_title}, not the full set."]


def backbone_title(name: str) -> str:
    """A network's title, or its name where it has no card."""
    try:
        return backbones.card(name).title
    except BadInput:
        return name
