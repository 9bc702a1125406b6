"""Lesson "Who pays for privacy": one rare digit among common ones, under the same noise."""

from __future__ import annotations

import math

import pandas as pd

from dpcl_core.figures import teaching
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import rare as game
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.text import percent

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PEOPLE = (5.0, 10.0, 20.0, 40.0, 80.0, 130.0)
FEW = 10  # people with the rare digit, in the first steps
_LEAST = 0.05  # a loss that counts
_SOURCE = "public digits, one of them made rare, teaching noise, 40 draws"


def ten_people(stage: Stage) -> int:
    """What noise takes from a rare digit and from common ones."""
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.results("Learn with noise and without", lambda: game.recognised(epsilon, FEW), epsilon)
    clean, noisy = game.recognised(math.inf, FEW), game.recognised(epsilon, FEW)
    rows = [
        (f"{who}, {how}", getattr(of, name))
        for who, name in ((f"the {game.RARE}, {FEW} people", "rare"), (f"others, about {game.most()} people", "others"))
        for how, of in (("no noise", clean), (f"ε = {epsilon:g}", noisy))
    ]
    table = pd.DataFrame(rows, columns=["name", "value"])
    finding = (
        f"At ε = {epsilon:g} noise takes {100 * (clean.rare - noisy.rare):.0f} points from the rare digit and "
        f"{100 * (clean.others - noisy.others):.0f} from the others."
    )
    picture = teaching.bars(table, Axis("recognised", is_share=True), finding, dark=stage.dark)
    chart(stage, picture, table, "Who loses", _SOURCE)
    rare, others = (getattr(clean, name) - getattr(game.recognised(1.0, FEW), name) for name in ("rare", "others"))
    return 0 if abs(rare - others) < _LEAST else 1 if rare > others else 2


def the_average(stage: Stage) -> int:
    """What the overall accuracy says of it."""
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.results("Average", lambda: game.recognised(epsilon, FEW), epsilon)
    clean, noisy = game.recognised(math.inf, FEW), game.recognised(epsilon, FEW)
    lost = {"all digits": clean.overall - noisy.overall, f"the {game.RARE} alone": clean.rare - noisy.rare}
    table = pd.DataFrame([(name, max(0.0, value)) for name, value in lost.items()], columns=["name", "value"])
    overall, rare = lost.values()
    finding = (
        f"At ε = {epsilon:g} the overall accuracy falls from {percent(clean.overall)} to {percent(noisy.overall)}, that of "
        f"the rare digit from {percent(clean.rare)} to {percent(noisy.rare)}."
    )
    picture = teaching.bars(table, Axis("lost", is_share=True), finding, dark=stage.dark)
    chart(stage, picture, table, "One average for all", _SOURCE)
    return 1 if overall < 0.25 * rare else 0


def people_needed(stage: Stage) -> int:
    """How the rare digit fares with more people."""
    stage.press("Add people", lambda: True)
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.see()
    budgets = {f"ε = {epsilon:g}": epsilon, "no noise": math.inf}
    rows = [(name, n, game.recognised(one, int(n)).rare) for name, one in budgets.items() for n in PEOPLE]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    enough = _enough(epsilon)
    words = f"from {enough:g} people on" if enough is not None else "with none of these numbers of people"
    finding = f"At ε = {epsilon:g} the rare digit loses less than {100 * _LEAST:.0f} points {words}."
    picture = teaching.curves(
        table, Axis("people with the rare digit", is_log=True, ticks=PEOPLE), Axis("recognised", is_share=True), finding,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "How many people it takes", _SOURCE)
    of_one = _enough(1.0) or math.inf
    return 0 if of_one <= 10 else 1 if of_one <= 40 else 2


def sum_and_noise(stage: Stage) -> int:
    """How alike the noisy sum is to the sum."""
    stage.press("Compare sums", lambda: True)
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.see()
    found = {n: game.likeness(epsilon, int(n)) for n in PEOPLE}
    rows = [(name, n, found[n][place]) for place, name in ((1, "formula"), (0, "measured")) for n in PEOPLE]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    finding = (
        f"At ε = {epsilon:g} the noisy sum of {PEOPLE[0]:g} people has a likeness of {found[PEOPLE[0]][0]:.2f} to the true "
        f"one, that of {PEOPLE[-1]:g} people {found[PEOPLE[-1]][0]:.2f}."
    )
    axis = Axis("likeness (cosine)")
    picture = teaching.curves(
        table, Axis("people in the sum", is_log=True, ticks=PEOPLE), axis, finding, dark=stage.dark
    )
    chart(stage, picture, table, "A sum and its noise", "public digits, teaching noise, 500 draws")
    beside = [math.sqrt(1 - one**2) / one for one in (game.likeness(1.0, n)[1] for n in (10, 20))]
    ratio = beside[0] / beside[1]
    return 0 if ratio < 1.2 else 1 if ratio < 1.7 else 2


def what_helps(stage: Stage) -> int:
    """Three attempts to help the rare digit at the same ε."""
    epsilon = stage.choose("epsilon", EPSILONS)
    ways = {
        "nothing": {},
        "each rare picture counts ten times": {"weight": 10.0},
        f"one label for {game.RARE} and {game.ALIKE}": {"is_merged": True},
    }

    def tried() -> dict[str, game.Recognised]:
        return {name: game.recognised(epsilon, FEW, **how) for name, how in ways.items()}  # type: ignore[arg-type]

    found = stage.results("Try all three", tried, epsilon)
    rows = [(f"{name}: the {game.RARE}", one.rare) for name, one in found.items()]
    rows += [(f"{name}: other digits", one.others) for name, one in found.items()]
    table = pd.DataFrame(rows, columns=["name", "value"])
    before, counted, merged = found.values()
    finding = (
        f"At ε = {epsilon:g} the rare digit is recognised in {percent(before.rare)}; counted ten times in "
        f"{percent(counted.rare)}, while the others fall to {percent(counted.others)}; under a shared label in "
        f"{percent(merged.rare)}."
    )
    picture = teaching.bars(table, Axis("recognised", is_share=True), finding, dark=stage.dark)
    chart(stage, picture, table, "Remedies", _SOURCE)
    return 1 if merged.rare > max(before.rare, counted.rare) + _LEAST else 0 if counted.rare > before.rare + _LEAST else 2


def _enough(epsilon: float) -> float | None:
    """The fewest people from which on the rare digit loses less than `_LEAST`; None if no number here does."""
    lost = {n: game.recognised(math.inf, int(n)).rare - game.recognised(epsilon, int(n)).rare for n in PEOPLE}
    return next((n for n in PEOPLE if all(lost[more] < _LEAST for more in PEOPLE if more >= n)), None)
