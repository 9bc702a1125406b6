"""What publications print: numbers, and settings, from which the layer of a run follows."""

import csv
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal, cast

from dpcl_core import paths
from dpcl_core.spec import RunSpec

# Numbers as printed: `assets/published/PAPER.csv`, one row per number, uncorrected.
#
# All code that needs such a number reads it here: no module holds a copy (`tests/test_house.py`).


_PERCENT = {"_percent": 1.0, "_pct": 1.0, "_frac": 100.0, "_fraction": 100.0}  # by the end of a metric's name
_SHARED = {  # our names of printed metrics; PeCL's Last is the mean over all tasks after the last one
    **{name: name for name in ("AA", "AF", "BWT", "FWT", "Avg", *(f"task{k}" for k in range(1, 7)))},
    **{"avg_accuracy": "AA", "avg_forgetting": "AF", "Last": "AA", "accuracy": "pooled"},
}


@dataclass(frozen=True, slots=True)
class Published:
    """One printed number and what it measures; empty texts and None where the paper says nothing.

    `epsilon` is infinite for results without noise. `value` is None if the printed text is not a number. `metric` includes
    the unit: AA_percent (0 to 100), avg_forgetting_frac (0 to 1). `std` is over the paper's `n_seeds` repetitions.
    """

    table: str
    dataset: str
    method: str
    variant: str
    epsilon: float | None
    delta: float | None
    metric: str
    printed: str
    value: float | None
    std: float | None
    n_seeds: int | None
    note: str

    @property
    def shared_metric(self) -> str | None:
        """Our name of the metric (AA, AF, BWT, FWT, Avg, task1 to task6, pooled), None for any other."""
        return _SHARED.get(self.metric.removesuffix(self._unit))

    @property
    def percent(self) -> float | None:
        """The value in percent; None if it is not a share."""
        return None if self.value is None or not self._unit else self.value * _PERCENT[self._unit]

    @property
    def percent_std(self) -> float | None:
        """The standard deviation in percent; None if none is printed."""
        return None if self.std is None or not self._unit else self.std * _PERCENT[self._unit]

    @property
    def _unit(self) -> str:
        return next((unit for unit in _PERCENT if self.metric.endswith(unit)), "")


@cache
def read_numbers(paper: str) -> tuple[Published, ...]:
    """All recorded numbers of a paper, in the order of its tables."""
    with (paths.assets_dir() / "published" / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_row(line) for line in csv.DictReader(file))


def rows_with(paper: str, table: str, metric: str) -> tuple[tuple[Published, float], ...]:
    """The rows of a table that print a number for this metric, each with the number."""
    rows = (row for row in read_numbers(paper) if (row.table, row.metric) == (table, metric))
    return tuple((row, row.value) for row in rows if row.value is not None)


def by_budget(paper: str, table: str, metric: str) -> Mapping[float, float]:
    """The printed numbers of a metric by epsilon, for tables with one number per budget."""
    return {row.epsilon: value for row, value in rows_with(paper, table, metric) if row.epsilon is not None}


def _row(line: dict[str, str]) -> Published:
    value = None
    with suppress(ValueError):  # such as "768C+C": kept as printed
        value = float(line["value"])
    kinds = {"epsilon": float, "delta": float, "std": float, "n_seeds": int}
    fields: dict[str, Any] = {name: text for name, text in line.items() if name != "value"}
    fields |= {name: kind(line[name]) if line[name] else None for name, kind in kinds.items()}
    return Published(**fields, printed=line["value"], value=value)


# The printed settings of a method's publication, and the layer of a run that follows from comparing them with its own.
#
# Three layers: "as printed" (exact but for scale, see `EXEMPT`), "made to work" (differs from print, every difference named)
# and "repaired" (its bound is proved, the printed one is not). A fourth name, "added", is for methods that no paper prints.
# The layer is computed by comparing all settings, so no difference can be left out.


LayerName = Literal["as printed", "made to work", "repaired", "added"]
Values = tuple[object, ...]
# What a layer does not count, by setting: differences of scale alone. The title of the layer names those that a run has.
EXEMPT: Mapping[str, str] = {
    **dict.fromkeys(("data.backbone", "data.resolution"), "network"),
    "data.dataset": "data",
    **dict.fromkeys(("data.train_per_class", "data.train_per_source", "data.test_per_class"), "data size"),
    "privacy.delta": "δ",
    "scenario.tasks": "number of tasks",
    **dict.fromkeys(("scenario.clients", "scenario.alpha"), "clients"),
    "params.epochs": "epochs",
    "params.rounds": "rounds",
    "tuned": "tuning",
}
EXEMPTED = ", ".join(dict.fromkeys(EXEMPT.values()))
_ABSENT = object()  # a setting that this method or scenario does not have


@dataclass(frozen=True, slots=True)
class Departure:
    """One difference from print. `parameter`: the setting by its dotted name, "" if no setting can undo the difference.

    `is_of_scale`: a difference of scale only (less data, another network, fewer rounds), which does not change the layer.
    """

    parameter: str
    printed: str
    here: str
    why: str
    is_of_scale: bool = False

    @property
    def sentence(self) -> str:
        """The difference in one sentence, with its reason."""
        name = f"{self.parameter} = {self.here}" if self.parameter else self.here
        return f"{name}; printed: {self.printed}. {self.why}"


@dataclass(frozen=True, slots=True)
class Layer:
    """How a run relates to the publication `source`; `left_open`: settings that it does not specify, chosen here."""

    name: LayerName
    source: str
    departures: tuple[Departure, ...] = ()
    left_open: tuple[Departure, ...] = ()

    @property
    def title(self) -> str:
        """The layer in a few words, what it does not count among them: "Differs from the paper in 2 settings and in δ"."""
        count = sum(not one.is_of_scale for one in self.departures)
        exempt = ", ".join(dict.fromkeys(EXEMPT[one.parameter] for one in self.departures if one.is_of_scale))
        if not count:
            return self.name.capitalize() + (f" but for {exempt}" if exempt else "")
        differs = f"differs from the paper in {count} setting{'' if count == 1 else 's'}"
        repaired = "Repaired, " if self.name == "repaired" else ""
        return f"{repaired}{differs if repaired else differs.capitalize()}" + (f" and in {exempt}" if exempt else "")

    @property
    def words(self) -> str:
        """The layer in a sentence, with every difference: "Made to work: params.rounds = 10 (printed: 50)."."""
        if self.name == "added":
            return "Added: no publication prints this method."

        def listed(is_of_scale: bool) -> str:
            return "; ".join(
                f"{one.parameter} = {one.here} (printed: {one.printed})" if one.parameter else f"{one.here} ({one.printed})"
                for one in self.departures if one.is_of_scale is is_of_scale
            )  # fmt: skip

        sentence = f"{self.name.capitalize()} ({self.source})" + (f": {of_kind}." if (of_kind := listed(False)) else ".")
        return sentence + (f" On another scale: {of_scale}." if (of_scale := listed(True)) else "")


@dataclass(frozen=True, slots=True)
class Printed:
    """The printed value of a setting: the allowed `values`, or a function that computes them from the run's other settings.

    The function returns None if nothing is printed for such a run. Empty `values`: the printed value cannot be set, and
    `words` describe it. `why`: why a run may differ, in one sentence. A list setting may hold printed values only.
    """

    values: Values | Callable[[RunSpec], Values | None]
    why: str
    words: str = ""
    is_of_scale: bool = False


PrintedPart = dict[str, Printed | str]  # of a group of settings by dotted name; a string says why one is left open


@dataclass(frozen=True, slots=True)
class Print:
    """The printed settings of one method, by dotted names of settings.

    `left_open`: settings that the publication does not specify, with a sentence each. `always`: departures that no setting
    can undo. `kind`: "repair" for a method with a proved bound where the printed one has none, "added" for an unprinted one.
    """

    source: str
    settings: Mapping[str, Printed] = field(default_factory=dict)
    left_open: Mapping[str, str] = field(default_factory=dict)
    always: tuple[Departure, ...] = ()
    kind: Literal["paper", "repair", "added"] = "paper"

    def layer(self, spec: RunSpec) -> Layer:
        """The layer of a run, computed from its spec alone."""
        if self.kind == "added":
            return Layer("added", "")
        departures = [*self.always, *(one for name in self.settings if (one := self._departure(spec, name)) is not None)]
        is_exact = all(one.is_of_scale for one in departures)
        open_here = tuple(
            Departure(name, "nothing", shown_value(here), why)
            for name, why in self.left_open.items()
            if (here := setting(spec, name)) is not _ABSENT
        )
        name: LayerName = "repaired" if self.kind == "repair" else "as printed" if is_exact else "made to work"
        return Layer(name, self.source, tuple(departures), open_here)

    def of_setting(self, name: str) -> str:
        """What is printed for a setting, in a sentence; empty if that depends on other settings or is unknown."""
        if name in self.left_open:
            return f"Not in the publication: {self.left_open[name]}"
        printed = self.settings.get(name)
        if printed is None or (callable(printed.values) and not printed.words):
            return ""
        return f"Printed: {printed.words or ' or '.join(map(shown_value, cast(Values, printed.values)))}."

    def document(self) -> dict[str, object]:
        """The printed settings as JSON (null: depends on other settings), those left open, and the constant differences."""
        return {
            "kind": self.kind,
            "source": self.source,
            "settings": {
                name: {
                    "printed": None if callable(one.values) else [shown_value(value) for value in one.values],
                    "why": one.why,
                    "is_of_scale": one.is_of_scale,
                }
                for name, one in self.settings.items()
            },
            "left_open": dict(self.left_open),
            "always": [asdict(one) for one in self.always],
        }

    def _departure(self, spec: RunSpec, name: str) -> Departure | None:
        printed, here = self.settings[name], setting(spec, name)
        values = printed.values(spec) if callable(printed.values) else printed.values
        if values is None or here is _ABSENT or here in values:
            return None
        if isinstance(here, tuple) and here and all(one in values for one in here):
            return None
        words = printed.words or " or ".join(map(shown_value, values))
        return Departure(name, words, shown_value(here), printed.why, printed.is_of_scale)


ADDED = Print("", kind="added")


def setting(spec: RunSpec, name: str) -> object:
    """The value of a setting by its dotted name; `_ABSENT` if this run has no such setting."""
    value: object = spec
    for part in name.split("."):
        value = getattr(value, part, _ABSENT)
    return value


def shown_value(value: object) -> str:
    """A setting's value as displayed."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:g}"
    return ", ".join(map(shown_value, value)) if isinstance(value, tuple) else str(value)
