"""The ε calculators as an element drawn in the browser: the question it asks, its words, and the data it starts from.

Its arithmetic is `assets/calculator/accountant.mjs`: the closed form of privacy/calculator.py, and for random batches a
Rényi accountant, whose ε is an upper bound like that of the app's own accountant, and mostly a larger one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

from dpcl_core.errors import BadInput
from dpcl_core.privacy import statement
from dpcl_core.privacy.allowed import SMALLEST_SIGMA
from dpcl_core.spec import LARGEST_EPSILON

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
_RARE_QUANTILE: Final = -3.090232306167813  # of the standard normal
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
    "heading": "How much noise does an ε need?",
    "answer": "Gaussian noise of σ = {sigma} times the largest change that one example can make, {how}, is "
    "(ε = {epsilon}, δ = {delta})-DP when neighbouring datasets differ by {adjacency}.",
    "once": "1 step",
    "often": "{steps} steps",
    "share": "{count}, each on a random share of {rate}",
    "ends": ["50 %: a coin", "line: the best possible guess", "100 %"],
    "half": "Half the ε needs σ = {sigma}.",
    "axis": "σ by ε: less ε, more noise",
    "exact": "Exact, in closed form (Balle and Wang 2018). σ and ε are rounded up.",
    "bound": "Upper bound by Rényi divergences (Mironov 2017), batches drawn by Poisson sampling. Privacy loss "
    "distributions, with which the app accounts for its runs, mostly give a smaller ε for the same noise.",
    "no_bound": "Rényi divergences have no bound here. For random batches they need “one example more or less”, and an ε "
    "that is not tiny.",
    "not_number": _NOT_NUMBER,
    "odds": statement.ODDS,
    "no_odds": statement.NO_ODDS,
    "exact_odds": statement.EXACT_ODDS,
    "tasks_heading": "One person in several tasks",
    "tasks": "Tasks with the same person",
    "each": "ε of each task",
    "heads": ["person", "total at δ = {delta}", "right guesses at most"],
    "one": "in one task only (parallel)",
    "several": "in {tasks} tasks (sequential, exact)",
    "summed": "in {tasks} tasks, plain sum",
    "tasks_note": "Each task is one Gaussian release, add/remove of one example. Parallel composition holds only if no "
    "person is in two tasks and each record's task depends on that record only.",
}


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
        return {**given, "rate": rate, "steps": _whole("steps", self.steps)}


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
        "rare_quantile": _RARE_QUANTILE,
        "words": WORDS,
    }


def _number(field: str, text: str) -> float:
    try:
        return float(text.strip().replace("∞", "inf"))
    except ValueError:
        raise BadInput(field, text, _NOT_NUMBER) from None


def _whole(field: str, text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST_STEPS:
        raise BadInput(field, text, f"must be a whole number from 1 to {MOST_STEPS:,}")
    return int(text)
