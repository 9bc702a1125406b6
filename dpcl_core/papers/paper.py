"""What is kept of a paper: its experiments, the runs that repeat them, and where its own numbers need a remark."""

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
    """One experiment. Preset NAME is the paper's protocol, NAME-small a form that two cores carry out in minutes.

    NAME-bundled, where there is one, takes all data at hand and a bundled network. `prints` picks its numbers among all that
    the paper prints, `table` names the table (or figure, or several: "2, 3") they are in; None where the paper prints plots
    alone. `n_classes` of its data: accuracy over fewer classes is another quantity, and no difference is formed from it.
    `departures`: how ours differ from the paper beyond what settings show; `small_departures`: what comes on top with a
    bundled network. `has_match_rates`: its tables also print how often an anchor tells two list entries apart, a number of
    lists and not of models. `earlier`: the table of an earlier version of the paper that prints the same experiment.
    """

    name: str
    title: str
    question: str
    table: str | None
    prints: Callable[[Published], bool]
    n_classes: int
    orderings: tuple[Ordering, ...]
    departures: tuple[str, ...] = ()
    small_departures: tuple[str, ...] = ()
    has_match_rates: bool = False
    earlier: str | None = None

    @property
    def place(self) -> str:
        """Where its numbers are printed, as one reads it."""
        table = self.table or "plots"
        if table.startswith(("figure", "plots")):
            return table
        return f"tables {table}" if len(self.tables) > 1 else f"table {table}"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that its numbers are in, one by one."""
        return tuple((self.table or "").split(", ")) if self.table else ()

    def preset(self, size: Size) -> str:
        """The preset that holds its runs."""
        return self.name if size == "full" else f"{self.name}-{size}"

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The forms that there are presets for, smallest first."""
        known = presets.names()
        return tuple(size for size in SIZES if self.preset(size) in known)


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper. `printed_as` gives the names of method and variant under which its tables print a run's results.

    `named` gives the same names for a printed number. `nominal`: methods, as printed, whose epsilon is only claimed.
    `departs` says how a run differs from what the paper did, as far as its settings and data show: whole sentences.
    `metrics`: what its tables print, by our names. `is_unpaired`: its intervals of differences pair no seeds
    (`effects.eq_23`), and stand beside ours.
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
    metrics: tuple[str, ...] = ("AA", "AF")
    is_unpaired: bool = False
