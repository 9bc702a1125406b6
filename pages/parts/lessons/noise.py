"""Lesson 2, "Noise that piles up": one public list beside a list per task, in released sums and in accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.figures.picture import LABELS, Provenance, epsilon_label, epsilon_text
from dpcl_core.spec import LabelSetting
from pages.parts import link, strip
from pages.parts.lessons.stage import Acts, Control, Stage
from pages.parts.privacy_bar import privacy_bar, side_by_side

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from dpcl_core.events import Guarantee
    from dpcl_core.scenarios.stream import TaskStream

    Sums = Mapping[LabelSetting, NDArray[np.float64]]
    Learned = Mapping[LabelSetting, tuple[pd.DataFrame, Mapping[float, Guarantee]]]

EPSILON = Control("epsilon", "e", "ε", link.Number(0.1, 16.0), 1.0)
CONTROLS = (EPSILON,)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_DRAWS = 300  # classifiers released to measure the noise: a standard error of 0.5 %


def two_lists(stage: Stage) -> int | None:
    """The first digit's sum after every task, under both lists and without noise."""
    from dpcl_core.figures import sums
    from dpcl_core.lessons import noise as game

    epsilon, tasks = stage.choose(EPSILON, EPSILONS, "Privacy budget ε", epsilon_text), _stream()
    if stage.press("Learn ten tasks"):
        stage.remember({s: game.sums_over_tasks(tasks, s, epsilon, 1)[:, 0] for s in game.PUBLIC}, "sums", epsilon)
    found = cast("Sums | None", stage.remembered("sums", epsilon))
    if found is None:
        return None
    stage.see()
    clean = game.sums_over_tasks(tasks, "prior", math.inf, 1)[:, 0]
    width = {setting: float(((held[-1] - clean[-1]) ** 2).mean() ** 0.5) for setting, held in found.items()}
    ratio = width["prior-const"] / width["prior"]
    digit = tasks.classes[game.first_class(tasks)]
    picture = sums.strips(
        {
            "without noise (public teaching data only)": list(clean),
            LABELS["prior"]: list(found["prior"]),
            LABELS["prior-const"]: list(found["prior-const"]),
        },
        [str(task) for task in range(1, game.N_TASKS + 1)],
        finding=f"After ten tasks the noise on digit {digit} is {ratio:.1f} times as wide with one list, in this one draw.",
        dark=stage.dark,
    )
    source = _source("both lists", (epsilon,), 0)
    strip.figure(picture, source, key="lesson-two-lists", title=f"Digit {digit} after every task")
    return 0 if ratio < 1.5 else 1 if ratio < 6 else 2


def measured(stage: Stage) -> int | None:
    """Many releases: the spread of the noise after every task beside its formula."""
    from dpcl_core.figures import pileup
    from dpcl_core.lessons import noise as game
    from dpcl_core.privacy import composition
    from dpcl_core.privacy.mechanisms import class_sums_std

    epsilon, tasks = stage.choose(EPSILON, EPSILONS, "Privacy budget ε", epsilon_text), _stream()
    if stage.press(f"Release {N_DRAWS} classifiers of each kind"):
        stage.remember({s: game.measured_std(tasks, s, epsilon, N_DRAWS) for s in game.PUBLIC}, "spread", epsilon)
    found = cast("Sums | None", stage.remembered("spread", epsilon))
    if found is None:
        return None
    stage.see()
    formula = composition.noise_over_tasks(class_sums_std(epsilon, game.DELTA, "add-remove"), game.N_TASKS)
    n_numbers = N_DRAWS * tasks.tasks[0].train.inputs.shape[1]
    picture = pileup.measured_noise(found, formula, n_numbers=n_numbers, dark=stage.dark)
    strip.figure(picture, _source("both lists", (epsilon,), 0), key="lesson-measured", title="How the noise grows")
    ratio = float(found["prior-const"][9] / found["prior-const"][4])
    return 0 if ratio < 1.2 else 1 if ratio < 1.7 else 2


def cost(stage: Stage) -> int | None:
    """Accuracy by the number of tasks that the same pictures are cut into."""
    from dpcl_core.figures import pileup
    from dpcl_core.figures.statistics import interval
    from dpcl_core.lessons import noise as game

    epsilon = stage.choose(EPSILON, EPSILONS, "Privacy budget ε", epsilon_text)
    if stage.press("Train them all"):
        with st.spinner("Training 80 classifiers ..."):
            runs = {s: {cut: game.learned(s, cut, (epsilon,)) for cut in game.CUTS} for s in game.PUBLIC}
        stage.remember(runs, "runs", epsilon)
    found = cast("dict[LabelSetting, dict[int, tuple[pd.DataFrame, dict[float, Guarantee]]]] | None",
                 stage.remembered("runs", epsilon))  # fmt: skip
    if found is None:
        return None
    stage.see()
    finals = {s: {cut: game.final_accuracies(run)[epsilon] for cut, (run, _) in runs.items()} for s, runs in found.items()}
    picture = pileup.accuracy_by_cuts(finals, epsilon=epsilon, dark=stage.dark)
    source = _source("both lists", (epsilon,), len(game.SEEDS))
    strip.figure(picture, source, key="lesson-cost", title="The same pictures in more tasks")
    promised = [(f"{LABELS[s]}:", runs[game.N_TASKS][1][epsilon]) for s, runs in found.items()]
    side_by_side(promised)
    first, last = (interval(finals["prior-const"][cut]) for cut in (game.CUTS[0], game.CUTS[-1]))
    if first.low is not None and last.high is not None and last.high < first.low:
        return 1
    return 2 if last.low is not None and first.high is not None and last.low > first.high else 0


def where_not(stage: Stage) -> int | None:
    """Accuracy of both against ε, in ten tasks."""
    from dpcl_core.figures import theme, tradeoff
    from dpcl_core.lessons import noise as game

    if stage.press("Train them all"):
        with st.spinner("Training 120 classifiers ..."):
            stage.remember({s: game.learned(s, game.N_TASKS, (*EPSILONS, math.inf)) for s in game.PUBLIC}, "runs")
    found = cast("Learned | None", stage.remembered("runs"))
    if found is None:
        return None
    stage.see()
    finals = {setting: game.final_accuracies(run) for setting, (run, _) in found.items()}
    lost = {e: 100 * (_mean(finals["prior"][e]) - _mean(finals["prior-const"][e])) for e in (*EPSILONS, math.inf)}
    budgets, points = " | ".join(map(epsilon_label, lost)), " | ".join(f"{each:.1f}" for each in lost.values())
    st.markdown(f"| | {budgets} |\n|---|{'---:|' * len(lost)}\n| points that one list costs | {points} |")
    picture = tradeoff.trade_off(
        {LABELS[setting]: run for setting, (run, _) in found.items()},
        colours=[theme.colour_of_series(index, stage.dark) for index in (1, 0)],
        labels=list(found),
        dark=stage.dark,
    )
    source = _source("both lists", (*EPSILONS, math.inf), len(game.SEEDS))
    strip.figure(picture, source, key="lesson-where-not", title="One list beside a list per task")
    largest = lost[EPSILONS[-1]]
    return 0 if largest > 10 else 1 if largest >= 3 else 2


def which_list(stage: Stage) -> int | None:
    """Three lists: their bound from the ledger, their noise, their accuracy."""
    from dpcl_core.lessons import noise as game
    from dpcl_core.privacy import composition
    from dpcl_core.privacy.statement import shown

    epsilon = stage.choose(EPSILON, EPSILONS, "Privacy budget ε", epsilon_text)
    settings: tuple[LabelSetting, ...] = ("data", "prior", "prior-const")
    if stage.press("Compare the three"):
        stage.remember({s: game.learned(s, game.N_TASKS, (epsilon,)) for s in settings}, "runs", epsilon)
    found = cast("Learned | None", stage.remembered("runs", epsilon))
    if found is None:
        return None
    stage.see()
    noise = composition.noise_over_tasks(1.0, game.N_TASKS)
    rows = ""
    for setting, (run, promised) in found.items():
        bound = promised[epsilon].epsilon
        promise = "**no bound**" if math.isinf(bound) else shown(bound)
        accuracy = 100 * _mean(game.final_accuracies(run)[epsilon])
        rows += f"| {LABELS[setting]} | {promise} | {noise[setting][-1]:.1f} × σ | {accuracy:.1f} % |\n"
    st.markdown(f"| list of labels | ε at most | noise on the first digit | accuracy |\n|---|---:|---:|---:|\n{rows}")
    privacy_bar({epsilon: found["data"][1][epsilon]})
    bounds = [promised[epsilon].epsilon for _, promised in found.values()]
    return bounds.index(math.inf) if math.inf in bounds else None


ACTS: Acts = {
    "two-lists": two_lists,
    "measured": measured,
    "cost": cost,
    "where-not": where_not,
    "which-list": which_list,
}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


@st.cache_resource(show_spinner=False)
def _stream() -> TaskStream:
    from dpcl_core.lessons import noise as game

    return game.stream()


def _source(labels: str, epsilons: tuple[float, ...], n_seeds: int) -> Provenance:
    from dpcl_core.lessons import noise as game

    n_people = game.n_people()
    return Provenance("Handwritten digits", n_people, "DP cosine classifier", labels, epsilons, game.DELTA, n_seeds, ())
