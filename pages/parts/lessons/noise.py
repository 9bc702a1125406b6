"""Lesson 2, "Noise that piles up": one public list against a list per task, in released sums and in accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.events import Guarantee
from dpcl_core.figures import class_sums, noise_histogram, theme, tradeoff
from dpcl_core.figures.picture import Provenance, epsilon_label
from dpcl_core.figures.statistics import interval
from dpcl_core.lessons import noise as game
from dpcl_core.privacy import composition
from dpcl_core.privacy.mechanisms import class_sums_std
from dpcl_core.privacy.statement import shown
from dpcl_core.scenarios.stream import TaskStream
from dpcl_core.spec import LABELS, LabelSetting
from pages.parts.claims.privacy_bar import privacy_bar, side_by_side
from pages.parts.lessons.stage import Stage
from pages.parts.shell import figure_card
from pages.parts.shell.layout import table
from pages.parts.shell.text import percent

Sums = Mapping[LabelSetting, NDArray[np.float64]]
Learned = tuple[pd.DataFrame, Mapping[float, Guarantee]]
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_DRAWS = 300  # classifiers released to measure the noise: a standard error of 0.5 %


def two_lists(stage: Stage) -> int:
    """The first digit's sum after every task, under both lists and without noise."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def learn() -> Sums:
        return {setting: game.sums_over_tasks(_stream(), setting, epsilon, 1)[:, 0] for setting in game.PUBLIC}

    sums = stage.results("Learn ten tasks", learn, epsilon)
    clean = game.sums_over_tasks(_stream(), "prior", math.inf, 1)[:, 0]
    width = {setting: float(((held[-1] - clean[-1]) ** 2).mean() ** 0.5) for setting, held in sums.items()}
    ratio = width["prior-const"] / width["prior"]
    digit = _stream().classes[game.first_class(_stream())]
    picture = class_sums.strips(
        {
            "without noise (public teaching data only)": list(clean),
            LABELS["prior"]: list(sums["prior"]),
            LABELS["prior-const"]: list(sums["prior-const"]),
        },
        [str(task) for task in range(1, game.N_TASKS + 1)],
        finding=f"After ten tasks the noise on digit {digit} is {ratio:.1f} times as wide with one list, in this one draw.",
        dark=stage.dark,
    )
    figure_card.show(picture, _source((epsilon,)), key="lesson-two-lists", title=f"Digit {digit} after every task")
    return 0 if ratio < 1.5 else 1 if ratio < 6 else 2


def measured(stage: Stage) -> int:
    """The noise of many releases after every task, measured and by formula."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def release() -> Sums:
        return {setting: game.measured_std(_stream(), setting, epsilon, N_DRAWS) for setting in game.PUBLIC}

    stds = stage.results(f"Release {N_DRAWS} classifiers of each kind", release, epsilon)
    formula = composition.noise_over_tasks(class_sums_std(epsilon, game.DELTA, "add-remove"), game.N_TASKS)
    n_numbers = N_DRAWS * _stream().tasks[0].train.inputs.shape[1]
    picture = noise_histogram.measured_noise(stds, formula, n_numbers=n_numbers, dark=stage.dark)
    figure_card.show(picture, _source((epsilon,)), key="lesson-measured", title="How the noise grows")
    ratio = float(stds["prior-const"][9] / stds["prior-const"][4])
    return 0 if ratio < 1.2 else 1 if ratio < 1.7 else 2


def cost(stage: Stage) -> int:
    """Accuracy by the number of tasks into which the same pictures are divided."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def train() -> dict[LabelSetting, dict[int, Learned]]:
        return {setting: {cut: game.learned(setting, cut, (epsilon,)) for cut in game.CUTS} for setting in game.PUBLIC}

    trained = stage.results("Train them all", train, epsilon)
    finals = {s: {cut: game.final_accuracies(run)[epsilon] for cut, (run, _) in runs.items()} for s, runs in trained.items()}
    picture = noise_histogram.accuracy_by_cuts(finals, epsilon=epsilon, dark=stage.dark)
    source = _source((epsilon,), len(game.SEEDS))
    figure_card.show(picture, source, key="lesson-cost", title="The same pictures in more tasks")
    side_by_side([(f"{LABELS[setting]}:", runs[game.N_TASKS][1][epsilon]) for setting, runs in trained.items()])
    first, last = (interval(finals["prior-const"][cut]) for cut in (game.CUTS[0], game.CUTS[-1]))
    if first.low is not None and last.high is not None and last.high < first.low:
        return 1
    return 2 if last.low is not None and first.high is not None and last.low > first.high else 0


def where_not(stage: Stage) -> int:
    """Accuracy of both lists against ε, in ten tasks."""
    budgets = (*EPSILONS, math.inf)

    def train() -> dict[LabelSetting, Learned]:
        return {setting: game.learned(setting, game.N_TASKS, budgets) for setting in game.PUBLIC}

    learned = stage.results("Train them all", train)
    finals = {setting: game.final_accuracies(run) for setting, (run, _) in learned.items()}
    lost = {e: 100 * (fmean(finals["prior"][e]) - fmean(finals["prior-const"][e])) for e in budgets}
    points = [f"{each:.1f}" for each in lost.values()]
    table(["", *map(epsilon_label, lost)], [["points that one list costs", *points]])
    picture = tradeoff.trade_off(
        {LABELS[setting]: run for setting, (run, _) in learned.items()},
        colours=[theme.colour_of_series(index, stage.dark) for index in (1, 0)],
        labels=list(learned),
        dark=stage.dark,
    )
    source = _source(budgets, len(game.SEEDS))
    figure_card.show(picture, source, key="lesson-where-not", title="One list beside a list per task")
    largest = lost[EPSILONS[-1]]
    return 0 if largest > 10 else 1 if largest >= 3 else 2


def which_list(stage: Stage) -> int:
    """Three lists: bound from the ledger, noise, and accuracy."""
    epsilon = stage.choose("epsilon", EPSILONS)
    settings: tuple[LabelSetting, ...] = ("data", "prior", "prior-const")

    def compare() -> dict[LabelSetting, Learned]:
        return {setting: game.learned(setting, game.N_TASKS, (epsilon,)) for setting in settings}

    learned = stage.results("Compare the three", compare, epsilon)
    noise = composition.noise_over_tasks(1.0, game.N_TASKS)
    bounds = [promised[epsilon].epsilon for _, promised in learned.values()]
    rows = []
    for bound, (setting, (run, _)) in zip(bounds, learned.items(), strict=True):
        promise = "**no bound**" if math.isinf(bound) else shown(bound)
        accuracy = percent(fmean(game.final_accuracies(run)[epsilon]))
        rows.append((LABELS[setting], promise, f"{noise[setting][-1]:.1f} × σ", accuracy))
    table(("list of labels", "ε at most", "noise on the first digit", "accuracy"), rows)
    privacy_bar({epsilon: learned["data"][1][epsilon]})
    return bounds.index(math.inf)


@st.cache_resource(show_spinner=False)
def _stream() -> TaskStream:
    return game.stream()


def _source(epsilons: tuple[float, ...], n_seeds: int = 0) -> Provenance:
    method, lists = "DP cosine classifier", "both public lists"
    return Provenance("Handwritten digits", game.n_people(), method, lists, epsilons, game.DELTA, n_seeds)
