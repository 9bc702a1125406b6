"""What a publication prints of a method, setting by setting, and in which layer a run therefore is.

Three layers: "as printed" (exact), "made to work" (what differs from print, each difference named) and "repaired" (its bound
is proved where the print has none). A fourth word, "added", is for methods that no paper prints. The layer is derived by
comparing a run's settings with the print, so that no difference can be left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, cast

from dpcl_core.spec import RunSpec

LayerName = Literal["as printed", "made to work", "repaired", "added"]
Values = tuple[object, ...]
_ABSENT = object()  # a setting that this method or scenario does not have


@dataclass(frozen=True, slots=True)
class Departure:
    """One difference from print. `parameter`: the setting by its dotted name, "" for what no setting undoes.

    `is_of_scale`: less data, another network or fewer rounds of the same method, which leave its layer as it is.
    """

    parameter: str
    printed: str
    here: str
    why: str
    is_of_scale: bool = False

    @property
    def sentence(self) -> str:
        """The difference in a line."""
        name = f"{self.parameter} = {self.here}" if self.parameter else self.here
        return f"{name}; printed: {self.printed}. {self.why}"


@dataclass(frozen=True, slots=True)
class Layer:
    """How a run stands to the publication `source`; `left_open`: settings about which it says nothing, chosen here."""

    name: LayerName
    source: str
    departures: tuple[Departure, ...] = ()
    left_open: tuple[Departure, ...] = ()

    @property
    def title(self) -> str:
        """The layer in a few words: "Made to work, 3 differences from print"."""
        count = sum(not one.is_of_scale for one in self.departures)
        more = "" if self.name in ("as printed", "added") else f", {count} difference{'' if count == 1 else 's'} from print"
        return f"{self.name.capitalize()}{more}"

    @property
    def words(self) -> str:
        """The layer in a sentence, every difference by its setting: "Made to work: params.rounds = 10 (printed: 50)."."""
        if self.name == "added":
            return "Added: no publication prints this method."
        told = {
            is_of_scale: "; ".join(_short(one) for one in self.departures if one.is_of_scale is is_of_scale)
            for is_of_scale in (False, True)
        }
        said = f"{self.name.capitalize()} ({self.source})" + (f": {told[False]}." if told[False] else ".")
        return said + (f" On another scale: {told[True]}." if told[True] else "")


@dataclass(frozen=True, slots=True)
class Printed:
    """What a publication prints for a setting: the allowed `values`, or how they follow from the run's other settings.

    None: nothing is printed for such a run. No value at all: what is printed cannot be set, and `words` say what it is.
    `why`: why a run may have another value, in one sentence. A setting that is a list has to hold printed values alone.
    """

    values: Values | Callable[[RunSpec], Values | None]
    why: str
    words: str = ""
    is_of_scale: bool = False


@dataclass(frozen=True, slots=True)
class Print:
    """A publication's print of one method, by dotted names of settings.

    `left_open`: settings about which it says nothing, with a sentence each. `always`: departures that no setting undoes.
    `kind`: "repair" for a method whose bound is proved where the print has none, "added" for one that nobody prints.
    """

    source: str
    settings: Mapping[str, Printed] = field(default_factory=dict)
    left_open: Mapping[str, str] = field(default_factory=dict)
    always: tuple[Departure, ...] = ()
    kind: Literal["paper", "repair", "added"] = "paper"

    def layer(self, spec: RunSpec) -> Layer:
        """The layer of a run. Everything follows from the spec; no data are read."""
        if self.kind == "added":
            return Layer("added", "")
        departures = [*self.always, *(one for name in self.settings if (one := self._departure(spec, name)) is not None)]
        is_exact = all(one.is_of_scale for one in departures)
        open_here = tuple(
            Departure(name, "nothing", shown(here), why)
            for name, why in self.left_open.items()
            if (here := setting(spec, name)) is not _ABSENT
        )
        name: LayerName = "repaired" if self.kind == "repair" else "as printed" if is_exact else "made to work"
        return Layer(name, self.source, tuple(departures), open_here)

    def of_setting(self, name: str) -> str:
        """What is printed for a setting, in a sentence; empty where that depends on others, or nothing is known."""
        if name in self.left_open:
            return f"Not in the publication: {self.left_open[name]}"
        printed = self.settings.get(name)
        if printed is None or (callable(printed.values) and not printed.words):
            return ""
        return f"Printed: {printed.words or ' or '.join(map(shown, cast(Values, printed.values)))}."

    def document(self) -> dict[str, object]:
        """The print as JSON: what is printed for a setting (null: it depends on others), what is left open, what differs."""
        return {
            "kind": self.kind,
            "source": self.source,
            "settings": {
                name: {
                    "printed": None if callable(one.values) else [shown(value) for value in one.values],
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
        if values is None or here is _ABSENT or _agrees(here, values):
            return None
        words = printed.words or " or ".join(map(shown, values))
        return Departure(name, words, shown(here), printed.why, printed.is_of_scale)


ADDED = Print("", kind="added")


def setting(spec: RunSpec, name: str) -> object:
    """The value of a setting by its dotted name; a mark of its own where this run has no such setting."""
    found: object = spec
    for part in name.split("."):
        found = getattr(found, part, _ABSENT)
    return found


def shown(value: object) -> str:
    """A setting as a person reads it."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    return str(value)


def _agrees(here: object, values: Values) -> bool:
    return here in values or (isinstance(here, tuple) and bool(here) and all(one in values for one in here))


def _short(one: Departure) -> str:
    return f"{one.parameter} = {one.here} (printed: {one.printed})" if one.parameter else f"{one.here} ({one.printed})"
