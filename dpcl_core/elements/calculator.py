"""The ε calculators as an element drawn in the browser: the question it asks, its words, and the data it starts from.

Its arithmetic is `assets/calculator/accountant.mjs`: the closed form of privacy/calculator.py, and for random batches a
Rényi accountant, whose ε is an upper bound like that of the app's own accountant, and mostly a larger one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal

from dpcl_core import events, metrics, paths
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Guarantee, References, TaskLearned
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.later import Late, pd
from dpcl_core.privacy import statement
from dpcl_core.privacy.budgets import SMALLEST_SIGMA
from dpcl_core.spec import LARGEST_EPSILON, LabelSetting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpcl_core.explorers import cosine_replay
    from dpcl_core.results import Result
else:
    np, cosine_replay = map(Late, ("numpy", "dpcl_core.explorers.cosine_replay"))  # the accountant takes seconds to load


# The results behind the ε slider: the bundled digits exactly at any budget, or the trained cells of a stored run.
#
# Nothing is interpolated between trained cells. The sentences are templates, filled by the browser during a drag and by this
# module for everything that the server draws; a test compares the two.


Matrices = list[list[list[float | None]]]  # [seed][after task][on task <= after task], in [0, 1]; None: not evaluated

TASKS = (2, 5, 10)
_DRAG = paths.asset_table("drag/words.toml")
SETTINGS: Mapping[LabelSetting, tuple[str, str]] = _DRAG["settings"]  # the name of a list of labels, and what it means
DRAG_WORDS: Mapping[str, str] = _DRAG["words"]
STOPS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, math.inf)
_FINE = 12  # budgets computed from one stop to the next
MAX_NUMBERS = 25_000  # largest table of trained cells that a page sends at once
_EXACT = "Computed for exactly this budget while you drag, not interpolated."
_MORE_THAN_REQUESTED = "The ledger of this run totals more than the ε of the slider: the bar states the guarantee."
_LOOKED_UP = "Results of a real run. The slider has only the trained budgets; nothing is interpolated between them."


def words(what: str, badge: str, badge_help: str, *, odds: str) -> dict[str, str]:
    """All sentence templates of the slider. `what`: the classified items, such as "test digits"; `odds`: see `_odds`."""
    told = {name: text.replace("{what}", what) for name, text in DRAG_WORDS.items()}
    return {**told, "odds": odds, "no_odds": statement.NO_ODDS, "badge": badge, "badge_help": badge_help}


def _odds(labels: LabelSetting) -> str:
    """The template of the odds line for a budget equal to the ledger's total."""
    return statement.NO_ODDS if labels == "data" else statement.ODDS


@dataclass(frozen=True)
class Source:
    """One stream under one label setting, at many budgets.

    `labels`: "data" also where a stream reads its tasks' lists from the examples.
    `replay`: the document that `cosine_replay.decode` reads if any budget can be shown; else `table` holds every stop.
    `interval_factor`: half width of the 95 % interval over seeds, in standard deviations (None: too few seeds for a band).
    `recorded`: the scores between which a trained run's accuracy is read.
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
    recorded: References | None = None

    @cached_property
    def references(self) -> References | None:
        """The scores between which its accuracy is read; of a replay, computed when they are first asked for."""
        return References(_chance(self._decoded)) if self.is_exact else self.recorded

    @property
    def is_exact(self) -> bool:
        return self.replay is not None

    @cached_property
    def _decoded(self) -> Any:
        assert self.replay is not None
        return cosine_replay.decode(self.replay)

    def nearest(self, epsilon: float) -> float:
        """The budget itself if it can be shown, else the nearest trained one on the log axis."""
        finite = [stop for stop in self.stops if math.isfinite(stop)]
        if epsilon in self.stops or (self.is_exact and finite[0] <= epsilon <= finite[-1]):
            return epsilon
        if math.isinf(epsilon) or not finite:
            return self.stops[-1]
        return min(finite, key=lambda stop: abs(math.log(stop / epsilon)))

    def matrices(self, epsilon: float) -> Matrices:
        """Accuracies at a budget returned by `nearest`."""
        if not self.is_exact:
            return self.table[self.stops.index(epsilon)]
        replayed = cosine_replay.accuracies(self._decoded, epsilon)
        return [[row[: k + 1].tolist() for k, row in enumerate(matrix)] for matrix in replayed]

    def class_accuracies(self, epsilon: float) -> NDArray[np.float64] | None:
        """Accuracies [seed, class] after the last task; None if not recorded."""
        if not self.is_exact:
            return None
        return cosine_replay.class_accuracies(self._decoded, epsilon)

    def frame(self, epsilon: float) -> pd.DataFrame:
        """Columns epsilon, seed, after_task, on_task, accuracy, as the figures require."""
        rows = [
            (epsilon, seed, k, i, value)
            for seed, matrix in enumerate(self.matrices(epsilon))
            for k, row in enumerate(matrix)
            for i, value in enumerate(row)
            if value is not None
        ]
        return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])

    def sentence(self, epsilon: float) -> str:
        """A sentence: accuracy and forgetting at this budget."""
        accuracy, lost = self._final(epsilon)
        has_clean = math.inf in self.stops
        which = "noiseless" if math.isinf(epsilon) else "bounded" if has_clean else "bounded_alone"
        text = self.words[which].format(
            epsilon=epsilon_text(epsilon),
            accuracy=f"{100 * accuracy:.1f}",
            clean=f"{100 * self._final(math.inf)[0]:.1f}" if has_clean else "",
            tasks=self.n_tasks,
        )
        if lost is None:
            return text
        return f"{text} " + self.words["lost" if lost >= 0 else "gained"].format(lost=f"{100 * abs(lost):.1f}")

    def odds(self, epsilon: float) -> str:
        """The odds line below the slider."""
        is_bound = math.isinf(epsilon) or self.words["odds"] == statement.ODDS
        return statement.odds(epsilon, self.delta) if is_bound else self.words["odds"]

    @cached_property
    def finals(self) -> dict[float, list[float]]:
        """Final average accuracy of every seed, by ε: of the trained budgets, or exactly for budgets less than 5 % apart."""
        budgets = [stop for stop in self.stops if math.isfinite(stop)]
        if self.is_exact:
            steps = [step / _FINE for step in range(_FINE)]
            budgets = [low * (high / low) ** step for low, high in pairwise(budgets) for step in steps] + budgets[-1:]
        summaries = {epsilon: [metrics.summary(matrix)["AA"] for matrix in self.matrices(epsilon)] for epsilon in budgets}
        return {epsilon: [value for value in values if value is not None] for epsilon, values in summaries.items()}

    def _final(self, epsilon: float) -> tuple[float, float | None]:
        """Means over seeds of AA and AF after the last task."""
        summaries = [metrics.summary(matrix) for matrix in self.matrices(epsilon)]
        accuracy = [one["AA"] for one in summaries if one["AA"] is not None]
        lost = [one["AF"] for one in summaries if one["AF"] is not None]
        return fmean(accuracy), fmean(lost) if lost else None


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


def _chance(data: cosine_replay.ReplayData) -> float:
    """The accuracy of always giving the test part's most frequent digit, each task counting the same, mean over seeds."""
    counts = np.bincount(data.labels, minlength=data.task_of_class.shape[1])
    best = [
        max(counts[label] / counts[task_of == task_of[label]].sum() for label in range(len(counts)))
        for task_of in data.task_of_class
    ]
    return float(np.mean(best)) / data.n_tasks


def digits_guarantee(labels: LabelSetting, n_tasks: int, epsilon: float) -> Guarantee:
    """The guarantee of a budget on the digits, from the mechanism's ledger: recorded for stops, else computed now."""
    recorded = _promises()[f"{labels}-{n_tasks}"]
    if epsilon in recorded:
        return recorded[epsilon]
    source = digits(labels, n_tasks)
    return cosine_replay.promised(
        labels, epsilon, source.delta, n_tasks=n_tasks, n_classes=len(source.classes), n_people=source.n_people,
        n_seeds=source.n_seeds,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _promises() -> dict[str, dict[float, Guarantee]]:
    recorded = json.loads((paths.assets_dir() / "playground" / "guarantees.json").read_text(encoding="utf-8"))
    return {
        name: {cell.cell.epsilon: cell.guarantee for cell in map(events.from_json, cells) if isinstance(cell, CellFinished)}
        for name, cells in recorded.items()
    }


def finished_cells(result: Result) -> Source | None:
    """The finished cells of a stored run, accuracies to four digits.

    None if there are no finished cells, too many numbers, or a last model that could not be tested.
    """
    from dpcl_core.figures.statistics import interval_factor

    spec, opened = result.spec, result.started
    finished = {event.cell for event in result.events if isinstance(event, CellFinished)}
    rows: dict[tuple[float, int], dict[int, list[float | None]]] = {}
    for event in result.events:
        if isinstance(event, TaskLearned) and event.cell in finished:
            by_task = rows.setdefault((event.cell.epsilon, event.cell.seed), {})
            by_task[event.task] = [None if value is None else round(value, 4) for value in event.accuracy]
    stops = tuple(sorted({epsilon for epsilon, _ in rows}))
    seeds = [seed for seed in spec.seeds if all((epsilon, seed) in rows for epsilon in stops)]
    if opened is None or not stops or not seeds:
        return None
    is_large = len(stops) * len(seeds) * opened.n_tasks * (opened.n_tasks + 1) / 2 > MAX_NUMBERS
    if is_large or any(all(value is None for value in by_task[opened.n_tasks - 1]) for by_task in rows.values()):
        return None
    labels: LabelSetting = "data" if spec.reads_labels else spec.labels
    exceeds = labels != "data" and any(
        guarantee.epsilon > requested * (1 + 1e-4) for requested, guarantee in result.guarantees.items()
    )
    table = tuple([[rows[epsilon, seed][k] for k in range(opened.n_tasks)] for seed in seeds] for epsilon in stops)
    return Source(
        key=str(result.run_id),
        dataset=opened.dataset_title,
        labels=labels,
        n_tasks=opened.n_tasks,
        n_people=opened.n_train,
        n_seeds=len(seeds),
        stops=stops,
        delta=spec.privacy.delta,
        words=words("test examples", "looked up", _LOOKED_UP, odds=_MORE_THAN_REQUESTED if exceeds else _odds(labels)),
        interval_factor=interval_factor(len(seeds)),
        table=table,
        recorded=result.references,
    )


Panel = Literal["noise", "tasks"]
TITLE: Final = "ε calculators"
UNKNOWNS: Final = {"epsilon": "ε, from σ and δ", "sigma": "σ, from ε and δ", "delta": "δ, from ε and σ"}
ADJACENCIES: Final = {"add-remove": "one example more or less", "replace": "one example replaced by another"}
MECHANISMS: Final = {"gaussian": "Gaussian noise, once or more", "sampled": "DP-SGD: noise on random batches"}
BUDGETS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA: Final = 1e-5  # of the card on several tasks
MOST_STEPS: Final = 10**7
MOST_TASKS: Final = 50
MOST_CHARACTERS: Final = 20
RARE: Final = 1e-3  # false alarms at which `statement.EXACT_ODDS` counts hits
_NOT_NUMBER: Final = "must be a number with a decimal point, as in 1.5"
# Labels of the inputs in refusals, by the names that refusals have for them.
LABELS: Final = {"epsilon": "ε", "sigma": "σ", "delta": "δ", "sample_rate": "share drawn a step", "steps": "steps"}
# Title, name in LABELS, what is allowed, and the least and most of its slider, whose steps are even in the logarithm.
_INPUTS: Final = (
    ("epsilon", "ε", "epsilon", f"must be above 0 and at most {LARGEST_EPSILON:,}", 0.05, 50),
    ("sigma", "σ (noise multiplier)", "sigma", f"must be a finite number of at least {SMALLEST_SIGMA:g}", 0.2, 200),
    ("delta", "δ", "delta", "must lie between 0 and 1, both excluded", 1e-10, 1e-2),
    ("rate", "share drawn a step", "sample_rate", "must lie in (0, 1]", 1e-4, 1),
    ("steps", "steps", "steps", "must be a whole number from 1 to 10,000,000", 1, 1e5),
)
WORDS: Final = {
    **paths.asset_table("calculator/words.toml"), "not_number": _NOT_NUMBER, "odds": statement.ODDS,
    "no_odds": statement.NO_ODDS, "exact_odds": statement.EXACT_ODDS,
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What the calculators are asked: numbers as they are typed, and a person in `tasks` tasks of `task_epsilon` each."""

    mechanism: str = "gaussian"
    find: str = "sigma"
    adjacency: str = "add-remove"
    epsilon: str = "1"
    sigma: str = "3.7306"
    delta: str = "1e-5"
    rate: str = "0.01"
    steps: str = "1"
    tasks: int = 10
    task_epsilon: float = 1.0

    def changed(self, reported: object) -> Question:
        """This question with what the browser reports; unchanged where it cannot have reported that."""
        if not isinstance(reported, Mapping) or not set(reported) <= {field.name for field in fields(self)}:
            return self
        now = Question(**{**asdict(self), **reported})
        texts = (now.epsilon, now.sigma, now.delta, now.rate, now.steps)
        is_listed = now.mechanism in MECHANISMS and now.find in UNKNOWNS and now.adjacency in ADJACENCIES
        is_text = all(isinstance(text, str) and len(text) <= MOST_CHARACTERS for text in texts)
        is_count = isinstance(now.tasks, int) and 1 <= now.tasks <= MOST_TASKS
        is_budget = isinstance(now.task_epsilon, int | float) and BUDGETS[0] <= now.task_epsilon <= BUDGETS[-1]
        return now if is_listed and is_text and is_count and is_budget else self

    def numbers(self) -> dict[str, float]:
        """The given ones of epsilon, sigma and delta, and rate and steps. Raises BadInput for what is no number."""
        names = [name for name in ("epsilon", "sigma", "delta") if name != self.find]
        given = {name: _number(name, getattr(self, name)) for name in names}
        rate = _number("sample_rate", self.rate) if self.mechanism == "sampled" else 1.0
        if not self.steps.strip().isdecimal() or not 1 <= int(self.steps) <= MOST_STEPS:
            raise BadInput("steps", self.steps, f"must be a whole number from 1 to {MOST_STEPS:,}")
        return {**given, "rate": rate, "steps": int(self.steps)}


def document(start: Question | None = None, panels: tuple[Panel, ...] = ("noise", "tasks")) -> dict[str, object]:
    """The data of the element: its words, the limits of its inputs, and the question it opens with."""
    question = start or Question()
    return {
        "start": asdict(question),
        "panels": list(panels),
        "mechanisms": MECHANISMS,
        "unknowns": UNKNOWNS,
        "adjacencies": ADJACENCIES,
        "inputs": [
            {"name": name, "title": title, "field": LABELS[field], "allowed": allowed, "low": low, "high": high}
            for name, title, field, allowed, low, high in _INPUTS
        ],
        "budgets": sorted({*BUDGETS, question.task_epsilon}),
        "delta": DELTA,
        "most_steps": MOST_STEPS,
        "most_tasks": MOST_TASKS,
        "largest_epsilon": LARGEST_EPSILON,
        "smallest_sigma": SMALLEST_SIGMA,
        "rare_quantile": -3.090232306167813,  # of the standard normal
        "words": WORDS,
    }


def _number(field: str, text: str) -> float:
    try:
        return float(text.strip().replace("∞", "inf"))
    except ValueError:
        raise BadInput(field, text, _NOT_NUMBER) from None
