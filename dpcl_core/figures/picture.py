"""The result of every figure builder, and the provenance line of its numbers.

Plotly reads tags in every text that it draws, and names of classes, sources and columns come from files of the user's. So a
picture draws all texts letter by letter but what a builder has made with `bold` and `BREAK`. Templates of hovers are left as
they are: a builder writes no name into one, but refers to it (%{x}, %{fullData.name}).
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dpcl_core.spec import LABELS, LabelSetting

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpcl_core.privacy.statement import Standing


_KEY = secrets.token_hex(8)  # which no name can hold: it is drawn anew in every process
BREAK = f"{_KEY}br{_KEY}"
_MARKUP = re.compile(f"{_KEY}(br|/?b){_KEY}")
_NUMBERS = frozenset({int, float, bool, type(None)})  # of a list that says nothing: most of a figure
_TEMPLATES = ("hovertemplate", "texttemplate", "template")


def bold(words: str) -> str:
    """The words in bold, in a text of a figure."""
    return f"{_KEY}b{_KEY}{words}{_KEY}/b{_KEY}"


class Picture:
    """A figure and its finding: a sentence or two, which screen readers read in place of the drawing.

    The finding is computed from the drawn numbers and claims nothing beyond them. `traces`, `layout`: plain properties by
    Plotly's names, none shortened. Plotly checks every property, which takes longer than to draw it: so its own object,
    `figure`, is made where somebody asks for it.
    """

    def __init__(self, traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], finding: str) -> None:
        self.traces: list[Mapping[str, Any]] = [_literal(trace) for trace in traces]
        self.layout: Mapping[str, Any] = _literal(layout)
        self.finding = finding

    def __repr__(self) -> str:
        return f"<Picture: {self.finding}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the drawing as SVG where it is no larger than 48 kB, and the finding."""
        draw = import_module("dpcl_core.figures.svg").draw_svg  # which draws pictures, and so cannot be named above
        drawn = "" if self.is_empty else draw(self)
        return f"<div>{drawn if len(drawn) < 48_000 else ''}<p><b>{escape(self.finding)}</b></p></div>"

    @cached_property
    def figure(self) -> go.Figure:
        """The figure as Plotly's object."""
        import plotly.graph_objects as go

        return go.Figure(self.traces, self.layout)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw yet but a sentence."""
        return not self.traces

    def saying(self, finding: str) -> Picture:
        """The same figure, whose texts are literal already, with another finding."""
        said = copy(self)
        said.finding = finding
        return said

    def at_most(self, height: float) -> Picture:
        """The same figure, no higher than so many pixels."""
        lower = copy(self)
        lower.layout = {**self.layout, "height": min(height, self.layout["height"])}
        return lower


def _literal(part: Any) -> Any:
    """A part of a figure in which texts are drawn letter by letter; the part itself where nothing changes."""
    if isinstance(part, str):
        return part if not {"<", "&"} & set(part) and _KEY not in part else _MARKUP.sub(r"<\1>", escape(part, quote=False))
    if isinstance(part, dict):
        changed = {key: part[key] if key in _TEMPLATES else _literal(part[key]) for key in part}
        return changed if any(changed[key] is not part[key] for key in part) else part
    kind = getattr(getattr(part, "dtype", None), "kind", "")
    if isinstance(part, list | tuple) or kind == "O":
        if _NUMBERS.issuperset(map(type, part)):
            return part
        values = [_literal(one) for one in part]
        return values if any(one is not other for one, other in zip(values, part, strict=True)) else part
    return _literal(part.tolist()) if kind in ("U", "T") else part


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers of a figure come from: offered beside it, and printed in every export.

    `standings`: the kinds of budgets among the runs. `n_seeds`: the numbers of seeds among them.
    `spent`: epsilons by channel, for methods with several (`statement.spent`).
    """

    dataset: str
    n_train: int | None
    method: str
    labels: str = ""
    epsilons: tuple[float, ...] = ()
    delta: float | None = None
    n_seeds: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    is_example: bool = False
    is_seeded: bool = False
    standings: tuple[Standing, ...] = ("bound",)
    spent: str = ""

    def line(self) -> str:
        """One line, without unknown parts."""
        *most, last = map(str, self.n_seeds or ("",))
        parts = [
            "example" if self.is_example else "",
            self.dataset,
            f"n = {self.n_train:,}" if self.n_train is not None else "",
            self.method,
            LABELS.get(cast("LabelSetting", self.labels), self.labels),
            self._budgets() if self.epsilons else "",
            self.spent,
            f"δ = {self.delta:g}" if self.delta is not None else "",
            f"{', '.join(most)} and {last} seeds" if most else "".join(counted(n, "seed") for n in self.n_seeds),
            "seeded noise: a recorded seed voids the guarantee" if self.is_seeded else "",
            f"run{'s' if len(self.runs) > 1 else ''} {', '.join(run[:4] for run in self.runs)}" if self.runs else "",
        ]
        return " · ".join(part for part in parts if part)

    def cautions(self) -> str:
        """The parts without which a figure could mislead: they stand under it on every page."""
        is_bounded = set(self.standings) == {"bound"}
        return replace(self, dataset="", n_train=None, method="", labels="", epsilons=() if is_bounded else self.epsilons,
                       delta=None, n_seeds=(), runs=(), is_example=False).line()  # fmt: skip

    def _budgets(self) -> str:
        label, kinds = f"ε = {epsilons_text(self.epsilons)}", set(self.standings)
        if all(map(math.isinf, self.epsilons)):
            return label
        if len(kinds) == 1 and self.standings[0] in _UNBOUNDED:
            words = _UNBOUNDED[self.standings[0]]
            return f"{words.before} {label}, {words.alone}"
        among = (f", for some runs {words.among}" for kind, words in _UNBOUNDED.items() if kind in kinds)
        return label + "".join(among)


class _Words(NamedTuple):
    """Words for budgets that do not bound all releases: around one, after a run's name, of all runs, and of some runs."""

    before: str
    after: str
    run: str
    alone: str
    among: str


_UNBOUNDED = {
    "claimed": _Words("claimed", "", "claimed", "not verified", "a claim, not verified"),
    "none": _Words("asked", ", total ∞", "no bound", "no bound", "only asked for, no bound"),
    "replay": _Words("replay", ", total ∞", "replay alone", "head not private", "the replay's alone, head not private"),
}


def epsilon_text(epsilon: float) -> str:
    """A budget as text: short, a large one written out, and infinity as ∞."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:,.0f}" if 1000 <= epsilon < 1e15 else f"{epsilon:.4g}"


def epsilon_label(epsilon: float, standing: Standing = "bound") -> str:
    """The name of a line: "ε = 1", "claimed ε = 1" where no ledger supports it, "replay ε = 1, total ∞", or "no noise".

    "asked ε = 1, total ∞" where nothing bounds what is released.
    """
    if math.isinf(epsilon):
        return "no noise"
    label, words = f"ε = {epsilon_text(epsilon)}", _UNBOUNDED.get(standing)
    return label if words is None else f"{words.before} {label}{words.after}"


def run_label(name: str, standing: Standing) -> str:
    """The name of a run among others, marked where its budget does not bound all releases."""
    return f"{name} ({_UNBOUNDED[standing].run})" if standing in _UNBOUNDED else name


def epsilon_phrase(epsilon: float, standing: Standing = "bound") -> str:
    """The budget as part of a sentence: "at ε = 1", or "without noise"."""
    return "without noise" if math.isinf(epsilon) else f"at {epsilon_label(epsilon, standing)}"


def epsilons_text(values: Sequence[float]) -> str:
    """Several budgets, smallest first."""
    return ", ".join(epsilon_text(value) for value in sorted(values))


def minus(number: str) -> str:
    """A formatted number with the minus sign that print has, not a hyphen."""
    return number.replace("-", "−")


def counted(n: int, noun: str) -> str:
    """A number of things in words: "1 seed", "5 seeds"."""
    return f"{n} {noun}{'s' if n != 1 else ''}"


def span(seconds: float) -> str:
    """A duration (seconds) in a readable unit."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
