"""What a slider of budgets can show: the bundled digits at any budget, exactly, or the trained cells of a stored run.

Between trained cells nothing is invented. The sentences are templates that the browser fills while a budget is dragged and
this module fills for everything that the server draws; a test holds the two against each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from dpcl_core import events, metrics, paths
from dpcl_core.events import CellFinished, Guarantee, TaskLearned
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.privacy import statement
from dpcl_core.spec import LabelSetting

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from dpcl_core.results import Result

Matrices = list[list[list[float | None]]]  # [seed][after task][on task <= after task], in [0, 1]; None: not evaluated

TASKS = (2, 5, 10)
STOPS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, math.inf)
_EXACT_ODDS = statement.GAUSSIAN_ODDS.replace("percent", "exact")
MAX_NUMBERS = 25_000  # of a table of trained cells: what a page may send at once
_EXACT = "Computed for this very budget while you drag, not interpolated."
_MORE_THAN_ASKED = "The ledger of this run adds up to more than the ε of the slider: the bar says what is promised."
_LOOKED_UP = "Trained for real. The slider steps through the budgets that were trained and invents nothing between them."


def words(what: str, badge: str, badge_help: str, *, odds: str) -> dict[str, str]:
    """Every sentence beside the slider. `what`: what is right or wrong, "test digits"; `odds`: see `_odds`."""
    right = f"{{accuracy}} % of {what} are right after {{tasks}} tasks"
    return {
        "bounded": f"At ε = {{epsilon}}, {right}; without noise {{clean}} %.",
        "bounded_alone": f"At ε = {{epsilon}}, {right}.",
        "noiseless": f"Without noise, {right}, and nobody is protected.",
        "lost": "Old tasks lost {lost} points since their best.",
        "gained": "Old tasks gained {lost} points since their best.",
        "odds": odds,
        "no_odds": statement.NO_ODDS,
        "complaint": "ε = {value}: must be a number from {low} to {high}, or ∞.",
        "badge": badge,
        "badge_help": badge_help,
    }


def _odds(labels: LabelSetting) -> str:
    """The template of the odds line where a budget is what the ledger adds up to. One Gaussian is a task's only release,
    and then its odds are exact, unless a list of labels is released beside it."""
    if labels == "data":
        return statement.NO_ODDS
    return statement.ODDS if labels == "dp-learned" else f"{statement.ODDS} {_EXACT_ODDS}"


@dataclass(frozen=True)
class Source:
    """One stream under one label setting, at many budgets.

    `replay`: the document of `cosine_replay.encode`, where any budget can be shown; else `table` holds every stop.
    `interval_factor`: half width of the 95 % interval over seeds, in standard deviations (None: too few seeds for a band).
    """

    key: str
    dataset: str
    labels: LabelSetting
    n_tasks: int
    n_people: int
    n_seeds: int
    stops: tuple[float, ...]
    delta: float
    words: Mapping[str, str]
    interval_factor: float | None
    classes: tuple[str, ...] = ()
    replay: Mapping[str, Any] | None = None
    table: tuple[Matrices, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.replay is not None

    @cached_property
    def _decoded(self) -> Any:
        from dpcl_core.explorers import cosine_replay

        assert self.replay is not None
        return cosine_replay.decode(self.replay)

    def nearest(self, epsilon: float) -> float:
        """The budget itself where it can be shown, else the trained one next to it on the log axis."""
        finite = [stop for stop in self.stops if math.isfinite(stop)]
        if epsilon in self.stops or (self.is_exact and finite[0] <= epsilon <= finite[-1]):
            return epsilon
        if math.isinf(epsilon) or not finite:
            return self.stops[-1]
        return min(finite, key=lambda stop: abs(math.log(stop / epsilon)))

    def matrices(self, epsilon: float) -> Matrices:
        """Accuracies at a budget that `nearest` gave."""
        if not self.is_exact:
            return self.table[self.stops.index(epsilon)]
        from dpcl_core.explorers import cosine_replay

        found = cosine_replay.accuracies(self._decoded, epsilon)
        return [[[float(v) for v in row[: k + 1]] for k, row in enumerate(matrix)] for matrix in found]

    def class_accuracies(self, epsilon: float) -> NDArray[np.float64] | None:
        """Accuracies [seed, class] after the last task; None where they were not recorded."""
        if not self.is_exact:
            return None
        from dpcl_core.explorers import cosine_replay

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
        """What the budget costs here."""
        accuracy, lost = self._final(epsilon)
        has_clean = math.inf in self.stops
        which = "noiseless" if math.isinf(epsilon) else "bounded" if has_clean else "bounded_alone"
        said = self.words[which].format(
            epsilon=epsilon_text(epsilon),
            accuracy=f"{100 * accuracy:.1f}",
            clean=f"{100 * self._final(math.inf)[0]:.1f}" if has_clean else "",
            tasks=self.n_tasks,
        )
        if lost is None:
            return said
        return f"{said} " + self.words["lost" if lost >= 0 else "gained"].format(lost=f"{100 * abs(lost):.1f}")

    def odds(self, epsilon: float) -> str:
        """The odds line below the slider."""
        from dpcl_core.privacy import gaussian

        if math.isinf(epsilon):
            return statement.NO_ODDS
        bound = math.ceil(statement.odds_bound(epsilon, self.delta) * 1e4 - 1e-6) / 100  # a bound is rounded up
        exact = 100 * statement.gaussian_odds_bound(gaussian.sigma(epsilon, self.delta))
        return self.words["odds"].format(percent=f"{bound:g}", exact=f"{exact:.1f}")

    def _final(self, epsilon: float) -> tuple[float, float | None]:
        """Means over seeds of AA and AF after the last task."""
        found = [metrics.summary(matrix) for matrix in self.matrices(epsilon)]
        accuracy = [one["AA"] for one in found if one["AA"] is not None]
        lost = [one["AF"] for one in found if one["AF"] is not None]
        return sum(accuracy) / len(accuracy), sum(lost) / len(lost) if lost else None


@lru_cache(maxsize=9)
def digits(labels: LabelSetting, n_tasks: int) -> Source:
    """The bundled digits, public teaching data, under a label setting. `n_tasks`: one of TASKS.

    A list of labels read from the data holds exactly the labels of the task, as the public list of each task does here: the
    accuracy is the same, but there is no bound.
    """
    name = f"{'prior' if labels == 'data' else labels}-{n_tasks}.json"
    document = json.loads((paths.assets_dir() / "playground" / name).read_text(encoding="utf-8"))
    about, replay = document["about"], document["replay"]
    return Source(
        key=f"digits-{labels}-{n_tasks}",
        dataset=about["dataset"],
        labels=labels,
        n_tasks=n_tasks,
        n_people=about["n_train"],
        n_seeds=len(about["seeds"]),
        stops=STOPS,
        delta=replay["delta"],
        words=words("test digits", "exact", _EXACT, odds=_odds(labels)),
        interval_factor=about["interval_factor"],
        classes=tuple(about["classes"]),
        replay=replay,
    )


def digits_guarantee(labels: LabelSetting, n_tasks: int, epsilon: float) -> Guarantee:
    """What a budget promises on the digits, by the mechanism's own ledger: recorded for stops, accounted now for others."""
    recorded = _promises()[f"{labels}-{n_tasks}"]
    if epsilon in recorded:
        return recorded[epsilon]
    from dpcl_core.explorers.cosine_promise import promised  # loads the accountant, which takes seconds

    source = digits(labels, n_tasks)
    return promised(
        labels,
        epsilon,
        source.delta,
        n_tasks=n_tasks,
        n_classes=len(source.classes),
        n_people=source.n_people,
        n_seeds=source.n_seeds,
    )


@lru_cache(maxsize=1)
def _promises() -> dict[str, dict[float, Guarantee]]:
    recorded = json.loads((paths.assets_dir() / "playground" / "guarantees.json").read_text(encoding="utf-8"))
    cells = {name: [events.from_json(document) for document in documents] for name, documents in recorded.items()}
    return {
        name: {cell.cell.epsilon: cell.guarantee for cell in found if isinstance(cell, CellFinished)}
        for name, found in cells.items()
    }


def trained(result: Result) -> Source | None:
    """A stored run as far as its cells are finished, accuracies to four digits; None where there is nothing, or too much.

    Nothing is also a run whose last models could not be tested.
    """
    from dpcl_core.figures.statistics import interval_factor

    spec, opened = result.spec, result.started
    finished = {event.cell for event in result.events if isinstance(event, CellFinished)}
    rows: dict[tuple[float, int], dict[int, list[float | None]]] = {}
    for event in result.events:
        if isinstance(event, TaskLearned) and event.cell in finished:
            found = rows.setdefault((event.cell.epsilon, event.cell.seed), {})
            found[event.task] = [None if value is None else round(value, 4) for value in event.accuracy]
    stops = tuple(sorted({epsilon for epsilon, _ in rows}))
    seeds = [seed for seed in spec.seeds if all((epsilon, seed) in rows for epsilon in stops)]
    if opened is None or not stops or not seeds:
        return None
    if len(stops) * len(seeds) * opened.n_tasks * (opened.n_tasks + 1) / 2 > MAX_NUMBERS:
        return None
    if any(all(value is None for value in found[opened.n_tasks - 1]) for found in rows.values()):
        return None
    bounds = [(asked, given.epsilon) for asked, given in result.guarantees.items()]
    exceeds = spec.labels != "data" and any(found > asked * (1 + 1e-4) for asked, found in bounds)
    table = tuple([[rows[epsilon, seed][k] for k in range(opened.n_tasks)] for seed in seeds] for epsilon in stops)
    return Source(
        key=str(result.run_id),
        dataset=opened.dataset_title,
        labels=spec.labels,
        n_tasks=opened.n_tasks,
        n_people=opened.n_train,
        n_seeds=len(seeds),
        stops=stops,
        delta=spec.privacy.delta,
        words=words("test examples", "looked up", _LOOKED_UP, odds=_MORE_THAN_ASKED if exceeds else _odds(spec.labels)),
        interval_factor=interval_factor(len(seeds)),
        table=table,
    )
