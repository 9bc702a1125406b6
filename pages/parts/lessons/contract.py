"""Lesson "A guarantee like a contract": what a claim must say, its small print, claims that fell, and trying settings."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from dpcl_core import presets
from dpcl_core.figures import teaching
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import contract as game
from dpcl_core.papers import questions
from dpcl_core.privacy.statement import at_least, headline, odds, shown
from dpcl_core.spec import Adjacency
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.layout import table as rows_of
from pages.parts.shell.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
TRIALS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
SIGMAS = (1.0, 2.0, 4.0, 8.0, 16.0)
CLAIM = 3.0  # of the first step
RECORDED = "paper-harw-small"  # runs of a published method, attacked as they ended
_RULES: dict[str, Adjacency] = {"one person more or less": "add-remove", "one person replaced": "replace"}
_GAUSSIAN = "closed form of Gaussian noise"


def missing(stage: Stage) -> int:
    """The noise that one claim needs, by its small print."""
    stage.press("Read the small print", lambda: True)
    delta = stage.choose("delta", game.DELTAS)
    stage.see()
    found = {name: [game.noise_of(CLAIM, each, rule) for each in game.DELTAS] for name, rule in _RULES.items()}
    rows = [(name, x, y) for name, values in found.items() for x, y in zip(game.DELTAS, values, strict=True)]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    every = [value for values in found.values() for value in values]
    finding = (
        f"“ε = {CLAIM:g}” can mean noise of {min(every):.2f} or of {max(every):.2f} on the same sum: "
        f"{max(every) / min(every):.0f} times as much."
    )
    picture = teaching.curves(
        table, Axis("δ", is_log=True), Axis("noise (std)"), finding, chosen=delta, dark=stage.dark
    )
    chart(stage, picture, table, f"Noise behind “ε = {CLAIM:g}”", _GAUSSIAN)
    st.markdown(f"The whole sentence: {headline('one person', CLAIM, delta, {})} {odds(CLAIM, delta)}")
    by_delta, by_rule = found["one person more or less"][-1] / found["one person more or less"][0], every[-1] / every[7]
    return 2 if min(by_delta, by_rule) > 1.2 else 1 if by_delta > 1.2 else 0


def small_print(stage: Stage) -> int:
    """A program that prints whole records and keeps to its delta."""
    delta = stage.choose("delta", game.DELTAS)
    people = stage.results("Run the program", lambda: game.printed_now(delta), delta)
    rows = [("people printed, on average", each, game.printed(each)) for each in game.DELTAS]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    finding = (
        f"With δ = {delta:g} the program printed {len(people)} of {game.N_PEOPLE:,} people in full; on average it prints "
        f"{game.printed(delta):.3g}."
    )
    picture = teaching.curves(
        table, Axis("δ", is_log=True), Axis("people printed in full", is_log=True), finding, chosen=delta, dark=stage.dark
    )
    chart(stage, picture, table, "What δ allows", f"{game.N_PEOPLE:,} invented people, fresh coins")
    expected = game.printed(0.01)
    return 0 if expected < 1 else 1 if expected < 0.5 * game.N_PEOPLE else 2


def two_rules(stage: Stage) -> int:
    """One noise under both rules of who is a neighbour."""
    stage.press("Compare the rules", lambda: True)
    sigma = stage.choose("sigma", SIGMAS)
    stage.see()
    rows = [(name, each, game.under(each, rule)) for name, rule in _RULES.items() for each in SIGMAS]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    one, other = (game.under(sigma, rule) for rule in _RULES.values())
    finding = f"Noise of {sigma:g} is ε = {shown(one)} for one person more or less, and ε = {shown(other)} for one replaced."
    picture = teaching.curves(
        table, Axis("noise (std)", is_log=True, ticks=SIGMAS), Axis("ε", is_log=True), finding, chosen=sigma, dark=stage.dark
    )
    chart(stage, picture, table, "The same noise under two rules", f"{_GAUSSIAN}, δ = {game.DELTA:g}")
    ratio = game.under(4.0, "replace") / game.under(4.0, "add-remove")
    return 0 if ratio < 1.2 else 1 if ratio > 1.6 else 2


def three_columns(stage: Stage) -> int:
    """Recorded runs: what is claimed, what the ledger accounts for, and what an attack proves."""
    stage.results("Open the records", lambda: True)
    specs = presets.variants(RECORDED)
    titles, rows, survived, attacked = questions.named(specs), [], 0, 0
    for label, run in questions.recorded(specs).items():
        for epsilon in sorted({model.epsilon for model in run.models if math.isfinite(model.epsilon)}):
            bound, spent = run.audited(epsilon), max(m.accounted_epsilon for m in run.models if m.epsilon == epsilon)
            proven = "–" if bound is None else at_least(bound)
            rows.append((titles[label], f"{epsilon:g}", "no bound" if math.isinf(spent) else shown(spent), proven))
            if bound is not None:
                attacked, survived = attacked + 1, survived + (bound <= epsilon)
    rows_of(("recorded run", "ε asked for", "ε accounted", "ε proven, at least"), rows)
    st.markdown(f"**{survived} of {attacked} attacked claims are still possible after the attack.**")
    return 2 if survived == 0 else 0 if survived == attacked else 1


def best_of(stage: Stage) -> int:
    """What many trials on the same people cost."""
    stage.press("Add up the trials", lambda: True)
    epsilon, trials = stage.choose("epsilon", EPSILONS), stage.choose("trials", TRIALS)
    stage.see()
    rows = [("all trials together", n, game.of_trials(epsilon, int(n))) for n in TRIALS]
    table = pd.DataFrame([*rows, *(("what is reported", n, epsilon) for n in TRIALS)], columns=["series", "x", "y"])
    now = game.of_trials(epsilon, int(trials))
    finding = f"{trials:g} trials at ε = {epsilon:g} have spent ε = {shown(now)} on these people, whichever is published."
    picture = teaching.curves(
        table, Axis("settings that were tried", is_log=True, ticks=TRIALS), Axis("ε in all"), finding, chosen=trials,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "Trying settings", f"{_GAUSSIAN}, δ = {game.DELTA:g}")
    of_twenty = game.of_trials(1.0, 20)
    return 0 if of_twenty < 1.5 else 1 if of_twenty < 15 else 2


def luck(stage: Stage) -> int:
    """How much better the best of several equal trials looks."""
    stage.press("Train four hundred times", lambda: True)
    epsilon, trials = stage.choose("epsilon", EPSILONS), stage.choose("trials", TRIALS)
    stage.see()
    values = game.scores(epsilon)
    rows = [("the best one", n, game.best_of(values, int(n))) for n in TRIALS]
    mean = float(values.mean())
    table = pd.DataFrame([*rows, *(("mean of all", n, mean) for n in TRIALS)], columns=["series", "x", "y"])
    best = game.best_of(values, int(trials))
    finding = (
        f"At ε = {epsilon:g} the best of {trials:g} has {percent(best)} on average, the mean of all is {percent(mean)}: "
        f"luck adds {100 * (best - mean):.1f} points."
    )
    picture = teaching.curves(
        table, Axis("trials of the same settings", is_log=True, ticks=TRIALS), Axis("accuracy", is_share=True), finding,
        chosen=trials, dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "The luck of the best", "public digits, 400 classifiers, teaching noise")
    flattered = game.best_of(game.scores(1.0), 20) - float(game.scores(1.0).mean())
    return 0 if flattered < 0.01 else 1 if flattered < 0.2 else 2
