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
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from dpcl_core.spec import LABELS

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


@dataclass(frozen=True, slots=True)
class Parts:
    """The traces and the layout of a figure as plain properties by Plotly's names, none shortened."""

    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]


class Picture:
    """A figure and its finding: a sentence or two, which screen readers read in place of the drawing.

    The finding is computed from the drawn numbers and claims nothing beyond them.
    """

    __slots__ = ("_figure", "_parts", "finding")

    def __init__(self, figure: go.Figure | Parts, finding: str) -> None:
        """`figure`: as `Parts` where a slider moves it. Plotly checks every property, which takes longer than to draw it."""
        self.finding = finding
        self._parts: Parts | None = None
        self._figure: go.Figure | None = None
        if isinstance(figure, Parts):
            self._parts = Parts([_literal(trace) for trace in figure.traces], _literal(figure.layout))
            return
        for part in (*figure.data, figure.layout):
            said = part.to_plotly_json()
            if (literal := _literal(said)) is not said:
                part.update(literal, overwrite=True)
        self._figure = figure

    @property
    def figure(self) -> go.Figure:
        """The figure as Plotly's object."""
        if self._figure is None:
            import plotly.graph_objects as go

            parts = self.parts
            self._figure = go.Figure(list(parts.traces), parts.layout)
        return self._figure

    @property
    def parts(self) -> Parts:
        """The figure as plain properties."""
        if self._parts is not None:
            return self._parts
        assert self._figure is not None
        return Parts([trace.to_plotly_json() for trace in self._figure.data], self._figure.layout.to_plotly_json())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw yet but a sentence."""
        return not (self._parts.traces if self._parts is not None else self.figure.data)

    def saying(self, finding: str) -> Picture:
        """The same figure, whose texts are literal already, with another finding."""
        said = copy(self)
        said.finding = finding
        return said


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
    """Where the numbers of a figure come from; printed under it and in every export.

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
        parts = [
            "example" if self.is_example else "",
            self.dataset,
            f"n = {self.n_train:,}" if self.n_train is not None else "",
            self.method,
            LABELS.get(self.labels, self.labels),
            self._budgets() if self.epsilons else "",
            self.spent,
            f"δ = {self.delta:g}" if self.delta is not None else "",
            self._seeds(),
            "seeded noise: a recorded seed voids the guarantee" if self.is_seeded else "",
            f"run{'s' if len(self.runs) > 1 else ''} {', '.join(run[:4] for run in self.runs)}" if self.runs else "",
        ]
        return " · ".join(part for part in parts if part)

    def _seeds(self) -> str:
        if len(self.n_seeds) < 2:
            return "".join(counted(n, "seed") for n in self.n_seeds)
        return f"{', '.join(map(str, self.n_seeds[:-1]))} and {self.n_seeds[-1]} seeds"

    def _budgets(self) -> str:
        label = f"ε = {epsilons_text(self.epsilons)}"
        if all(math.isinf(epsilon) for epsilon in self.epsilons):
            return label
        kinds = set(self.standings)
        if kinds == {"claimed"}:
            return f"claimed {label}, not verified"
        if kinds == {"replay"}:
            return f"replay {label}, head not private"
        if kinds == {"none"}:
            return f"asked {label}, no bound"
        label += ", for some runs a claim, not verified" if "claimed" in kinds else ""
        label += ", for some runs only asked for, no bound" if "none" in kinds else ""
        return label + (", for some runs the replay's alone, head not private" if "replay" in kinds else "")


def epsilon_text(epsilon: float) -> str:
    """A budget as text: short, a large one written out, and infinity as ∞."""
    if math.isinf(epsilon):
        return "∞"
    return f"{epsilon:,.0f}" if 1000 <= epsilon < 1e15 else f"{epsilon:.4g}"


def epsilon_label(epsilon: float, standing: Standing = "bound") -> str:
    """The name of a line: "ε = 1", "claimed ε = 1" where no ledger supports it, "replay ε = 1, total ∞", or "no noise".

    "asked ε = 1, total ∞" where nothing bounds what is released.
    """
    if math.isinf(epsilon):
        return "no noise"
    label = f"ε = {epsilon_text(epsilon)}"
    names = {"claimed": f"claimed {label}", "replay": f"replay {label}, total ∞", "none": f"asked {label}, total ∞"}
    return names.get(standing, label)


def run_label(name: str, standing: Standing) -> str:
    """The name of a run among others, marked where its budget does not bound all releases."""
    marks = {"bound": "", "claimed": " (claimed)", "replay": " (replay alone)", "none": " (no bound)"}
    return f"{name}{marks[standing]}"


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
