"""The record of a paper: its experiments, the runs that reproduce them, and remarks on its printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from dpcl_core import presets
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Ordering
from dpcl_core.papers.remarks import Remark
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec

Size = Literal["small", "bundled", "full"]
SIZES: tuple[Size, ...] = get_args(Size)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment. Preset NAME is the paper's protocol, NAME-small a version that takes minutes on two cores.

    NAME-bundled, where there is one, uses all available data and a bundled network. `prints` selects its numbers among all
    of the paper, `table` names the table (or figure, or several: "2, 3") they are in; None where the paper prints plots
    alone. `n_classes` of its data: accuracy over fewer classes is another quantity, and no difference is formed from it.
    `metrics`: what its table prints, by our names.
    `departures`: how ours differ from the paper beyond what settings show; `small_departures`: further differences with a
    bundled network. `is_ours`: the paper has no such experiment. `has_match_rates`: its tables also print how often an
    anchor separates two list entries, a property of lists and not of models. `earlier`: the table of an earlier version of
    the paper that prints the same experiment.
    """

    name: str
    title: str
    question: str
    table: str | None
    prints: Callable[[Published], bool]
    n_classes: int
    metrics: tuple[str, ...]
    orderings: tuple[Ordering, ...]
    departures: tuple[str, ...] = ()
    small_departures: tuple[str, ...] = ()
    is_ours: bool = False
    has_match_rates: bool = False
    earlier: str | None = None

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


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper. `printed_as` gives the names of method and variant under which its tables print a run's results.

    `named` gives the same names for a printed number. `nominal`: methods, as printed, whose epsilon is only claimed.
    `departs` gives the differences of a run from the paper that its settings and data show, one sentence each.
    `is_unpaired`: its intervals of differences pair no seeds
    (`effects.eq_23`), and are shown beside ours.
    """

    name: str
    title: str
    source: str
    experiments: tuple[Experiment, ...]
    remarks: tuple[Remark, ...]
    printed_as: Callable[[RunSpec], tuple[str, str]]
    departs: Callable[[Measured], Sequence[str]]
    named: Callable[[Published], tuple[str, str]]
    nominal: tuple[str, ...] = ()
    is_unpaired: bool = False
