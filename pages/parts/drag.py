"""The ε-drag: one browser-side element that redraws while it is dragged and tells the server once it is let go.

What it draws is computed in the browser, exactly, from products that hold no feature (methods/cosine_replay.py), or looked
up among the trained cells of a run; between cells nothing is invented. The same numbers and sentences come from here in
Python, for figures that the server draws and for the plain slider that stands in where the element cannot load.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dpcl_core import events, metrics, paths
from dpcl_core.events import CellFinished, Guarantee
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.privacy import statement
from pages.parts.link import BUDGET
from pages.parts.privacy_bar import privacy_bar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

STOPS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, math.inf)
TASKS = (2, 5, 10)
_EXACT = "Computed for this very budget while you drag, not interpolated."
_FILES = ("replay.mjs", "drag.mjs")


def words(what: str, badge: str, badge_help: str, *, is_bounded: bool = True) -> dict[str, str]:
    """Every sentence of the element, as templates that the browser and `Source` fill alike.

    `what`: what is right or wrong, "test digits". `is_bounded`: no budget has a bound where the labels come from the data.
    """
    right = f"{{accuracy}} % of {what} are right after {{tasks}} tasks"
    odds = f"{statement.ODDS} {statement.GAUSSIAN_ODDS.replace('percent', 'exact')}"
    return {
        "bounded": f"At ε = {{epsilon}}, {right}; without noise {{clean}} %.",
        "bounded_alone": f"At ε = {{epsilon}}, {right}.",
        "noiseless": f"Without noise, {right}, and nobody is protected.",
        "lost": "Old tasks lost {lost} points since their best.",
        "gained": "Old tasks gained {lost} points since their best.",
        "odds": odds if is_bounded else statement.NO_ODDS,
        "no_odds": statement.NO_ODDS,
        "complaint": "ε = {value}: must be a number from {low} to {high}, or ∞.",
        "badge": badge,
        "badge_help": badge_help,
    }


@dataclass(frozen=True)
class Source:
    """What the element can show: either a replay (any budget) or a table of trained budgets.

    `provenance`: one sentence on where the numbers come from. `interval_factor`: half width of the 95 % interval over seeds, in standard deviations (None: too few seeds for a band).
    `replay`: the document of `cosine_replay.encode`. `table`: accuracies [seed][after task][on task] of every stop.
    """

    key: str
    stops: tuple[float, ...]
    delta: float
    words: Mapping[str, str]
    classes: tuple[str, ...]
    interval_factor: float | None
    provenance: str
    n_people: int
    n_seeds: int
    is_bounded: bool = True
    replay: Mapping[str, Any] | None = None
    table: tuple[list[list[list[float | None]]], ...] = ()

    @cached_property
    def _decoded(self) -> Any:
        from dpcl_core.methods import cosine_replay

        assert self.replay is not None
        return cosine_replay.decode(self.replay)

    def nearest(self, epsilon: float) -> float:
        """The budget itself where any can be shown, else the trained one next to it (on the log axis)."""
        if self.replay is not None or epsilon in self.stops:
            return epsilon
        finite = [stop for stop in self.stops if math.isfinite(stop)]
        if math.isinf(epsilon) or not finite:
            return self.stops[-1]
        return min(finite, key=lambda stop: abs(math.log(stop / epsilon)))

    def matrices(self, epsilon: float) -> list[list[list[float | None]]]:
        """Accuracies [seed][after task][on task]; None above the diagonal."""
        if self.replay is None:
            return self.table[self.stops.index(epsilon)]
        from dpcl_core.methods import cosine_replay

        found = cosine_replay.accuracies(self._decoded, epsilon)
        return [[[None if math.isnan(v) else float(v) for v in row] for row in matrix] for matrix in found]

    def classes_at(self, epsilon: float) -> NDArray[np.float64] | None:
        """Accuracies [seed, class] after the last task; None where the run did not record them."""
        if self.replay is None:
            return None
        from dpcl_core.methods import cosine_replay

        return cosine_replay.class_accuracies(self._decoded, epsilon)

    def frame(self, epsilon: float) -> pd.DataFrame:
        """Columns epsilon, seed, after_task, on_task, accuracy: what the figures take."""
        import pandas as pd

        rows = [
            (epsilon, seed, k, i, value)
            for seed, matrix in enumerate(self.matrices(epsilon))
            for k, row in enumerate(matrix)
            for i, value in enumerate(row)
            if value is not None
        ]
        return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])

    def sentence(self, epsilon: float) -> str:
        """What the budget means here, as the element says it."""
        last, lost = self._final(epsilon)
        has_clean = math.inf in self.stops
        fields = {
            "epsilon": epsilon_text(epsilon),
            "accuracy": f"{100 * last:.1f}",
            "clean": f"{100 * self._final(math.inf)[0]:.1f}" if has_clean else "",
            "tasks": len(self.matrices(epsilon)[0]),
        }
        which = "noiseless" if math.isinf(epsilon) else "bounded" if has_clean else "bounded_alone"
        said = self.words[which].format(**fields)
        if lost is None:
            return said
        return f"{said} " + self.words["lost" if lost >= 0 else "gained"].format(lost=f"{100 * abs(lost):.1f}")

    def odds(self, epsilon: float) -> str:
        """The odds line below the slider."""
        from dpcl_core.privacy import gaussian

        if not self.is_bounded or math.isinf(epsilon):
            return statement.NO_ODDS
        exact = statement.gaussian_odds(gaussian.sigma(epsilon, self.delta))
        return f"{statement.odds(epsilon, self.delta)} {exact}"

    def _final(self, epsilon: float) -> tuple[float, float | None]:
        """Mean over seeds of AA and AF after the last task."""
        found = [metrics.summary(matrix) for matrix in self.matrices(epsilon)]
        mean = sum(one["AA"] or 0.0 for one in found) / len(found)
        lost = [one["AF"] for one in found if one["AF"] is not None]
        return mean, sum(lost) / len(lost) if lost else None


@lru_cache(maxsize=8)
def digits(labels: str, n_tasks: int) -> Source:
    """The bundled digits, public teaching data, at any budget, under a label setting. `n_tasks`: one of TASKS.

    A list of labels read from the data holds exactly the labels of the task, as the public list of each task does here: the
    accuracy is the same, but there is no bound.
    """
    is_bounded = labels != "data"
    name = f"{labels if is_bounded else 'prior'}-{n_tasks}.json"
    document = json.loads((paths.assets_dir() / "playground" / name).read_text(encoding="utf-8"))
    about = document["about"]
    return Source(
        key=f"digits-{labels}-{n_tasks}",
        stops=STOPS,
        delta=document["replay"]["delta"],
        words=words("test digits", "exact", _EXACT, is_bounded=is_bounded),
        classes=tuple(about["classes"]),
        interval_factor=about["interval_factor"],
        provenance=f"{about['dataset']}, n = {about['n_train']:,}, δ = {document['replay']['delta']:g}.",
        n_people=about["n_train"],
        n_seeds=len(about["seeds"]),
        is_bounded=is_bounded,
        replay=document["replay"],
    )


def guarantees(labels: str, n_tasks: int) -> dict[float, Guarantee]:
    """What each stop of the slider promises on the digits, as the mechanism's own ledger adds it up."""
    return _promises()[f"{labels}-{n_tasks}"]


@lru_cache(maxsize=1)
def _promises() -> dict[str, dict[float, Guarantee]]:
    recorded = json.loads((paths.assets_dir() / "playground" / "guarantees.json").read_text(encoding="utf-8"))
    cells = {name: [events.from_json(document) for document in documents] for name, documents in recorded.items()}
    return {
        name: {cell.cell.epsilon: cell.guarantee for cell in found if isinstance(cell, CellFinished)}
        for name, found in cells.items()
    }


def promise(labels: str, n_tasks: int, epsilon: float) -> None:
    """The privacy bar of the digits at a budget; one that is no stop of the slider goes through the accountant now."""
    found = guarantees(labels, n_tasks)
    if epsilon not in found:
        from dpcl_core.methods.cosine_promise import promised

        source = digits(labels, n_tasks)
        n_people, n_seeds = source.n_people, source.n_seeds
        found = {
            epsilon: promised(
                labels,
                epsilon,
                source.delta,
                n_tasks=n_tasks,
                n_classes=len(source.classes),
                n_people=n_people,
                n_seeds=n_seeds,
            )
        }
    privacy_bar({epsilon: found[epsilon]}, chosen=epsilon)


def link_text(epsilon: float) -> str:
    """A budget as a link writes it."""
    return BUDGET.write(epsilon)


def drag(source: Source, start: float, *, key: str, panels: Sequence[str], is_plain: bool = False) -> float:
    """The element, and the budget it was let go at. `start`: where it stands at first.

    `panels`: of accuracy, matrix, classes. `is_plain`, or an element that cannot load, gives a select slider instead.
    """
    start = source.nearest(start)
    if not is_plain:
        try:
            found = _element()(
                key=key,
                data=_document(source, start, tuple(panels)),
                on_epsilon_change=lambda: None,
            )
        except (OSError, StreamlitAPIException):
            return _plain(source, start, key)
        return _read(found.get("epsilon"), source, start)
    return _plain(source, start, key)


def _plain(source: Source, start: float, key: str) -> float:
    nearest = start if start in source.stops else min(source.stops, key=lambda stop: abs(math.log(stop / start)))
    value = st.select_slider(
        "Privacy budget ε", source.stops, nearest, format_func=epsilon_text, key=f"{key}-plain",
        help="From stronger privacy (left) to higher accuracy (right).",
    )  # fmt: skip
    st.markdown(f"**{source.sentence(value)}**")
    st.caption(source.odds(value))
    return float(value)


def _read(said: object, source: Source, start: float) -> float:
    """The budget that the browser reports; what is no budget of this source counts as not said."""
    try:
        value = float(str(said)) if said is not None else start
    except ValueError:
        return start
    is_known = source.stops[0] <= value <= STOPS[-2] or math.isinf(value) if source.replay else value in source.stops
    return value if is_known else start


@lru_cache(maxsize=1)
def _element() -> Any:
    folder = paths.assets_dir() / "drag"
    return st.components.v2.component(
        "epsilon_drag",
        html=(folder / "drag.html").read_text(encoding="utf-8"),
        css=(folder / "drag.css").read_text(encoding="utf-8"),
        js="\n".join((folder / name).read_text(encoding="utf-8") for name in _FILES),
    )


def _document(source: Source, start: float, panels: tuple[str, ...]) -> dict[str, object]:
    """What the element is fed. The same for every budget it is let go at, so that it is sent only once."""
    return {
        "key": source.key,
        "stops": [_plain_number(stop) for stop in source.stops],
        "start": _plain_number(start),
        "delta": source.delta,
        "words": dict(source.words),
        "classes": list(source.classes),
        "interval_factor": source.interval_factor,
        "panels": list(panels),
        "replay": source.replay,
        "table": source.table or None,
    }


def _plain_number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
