"""Lesson "What adds up, and what is free": composition, averaging, parallel composition, random batches, post-processing."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dpcl_core.figures import teaching
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import adding as game
from dpcl_core.privacy.statement import odds_bound, shown
from dpcl_core.spec import Recurrence
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.layout import table as rows_of
from pages.parts.shell.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
RELEASES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
N_ROUNDS, N_DRAWS = 2000, 300
_GAUSSIAN = "closed form of Gaussian noise, δ = 1e-5"


def ten_releases(stage: Stage) -> int:
    """The total of n releases, exact and as a plain sum."""
    stage.press("Add them up", lambda: True)
    epsilon, n = stage.choose("epsilon", EPSILONS), stage.choose("releases", RELEASES)
    stage.see()
    exact = {k: game.total(epsilon, int(k)) for k in RELEASES}
    rows = [("exact", k, value) for k, value in exact.items()] + [("plain sum", k, k * epsilon) for k in RELEASES]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    now = game.total(epsilon, int(n))
    finding = f"{n:g} releases of ε = {epsilon:g} add up to ε = {shown(now)} for a person in all, not {n * epsilon:g}."
    picture = teaching.curves(
        table, Axis("releases", is_log=True, ticks=RELEASES), Axis("ε in all", is_log=True), finding, chosen=n,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "What many releases cost together", _GAUSSIAN)
    of_ten = game.total(1.0, 10)
    return 0 if of_ten < 1.5 else 1 if of_ten < 7 else 2


def averaged(stage: Stage) -> int:
    """An attacker averages fresh answers to the same question."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def played() -> list[float]:
        return [game.averaged(epsilon, int(n), N_ROUNDS).share_right for n in RELEASES]

    measured = stage.results(f"Play 2 × {N_ROUNDS:,} rounds for each", played, epsilon)
    best = [game.best_of_averages(epsilon, int(n)) for n in RELEASES]
    rows = [("best possible", n, value) for n, value in zip(RELEASES, best, strict=True)]
    rows += [("measured", n, value) for n, value in zip(RELEASES, measured, strict=True)]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    finding = (
        f"At ε = {epsilon:g} for each answer, the attacker is right in {percent(measured[0])} of rounds with one; "
        f"with the average of {RELEASES[-1]:g} in {percent(measured[-1])}."
    )
    picture = teaching.curves(
        table, Axis("answers that are averaged", is_log=True, ticks=RELEASES), Axis("right guesses", is_share=True), finding,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "Averaging noise away", "fresh noise on an invented count")
    of_hundred = game.best_of_averages(1.0, 100)
    return 0 if of_hundred < 0.6 else 1 if of_hundred < 0.97 else 2


def other_people(stage: Stage) -> int:
    """The ledger of ten tasks, where people are in one of them and where they are in all."""
    epsilon = stage.choose("epsilon", EPSILONS)
    ways: dict[str, Recurrence] = {"each person in one task": "once", "each person in all ten": "every"}
    totals = stage.results(
        "Ask the ledger", lambda: {name: game.ledger(epsilon, 10, way).epsilon() for name, way in ways.items()}, epsilon
    )
    table = pd.DataFrame(list(totals.items()), columns=["name", "value"])
    apart, together = totals.values()
    finding = f"Ten tasks of ε = {epsilon:g}: ε = {shown(apart)} if nobody is in two, {shown(together)} else."
    picture = teaching.bars(table, Axis("ε for any one person"), finding, dark=stage.dark)
    chart(stage, picture, table, "Who is in how many tasks", "the ledger of ten Gaussian releases, δ = 1e-5")
    return 0 if apart < 1.01 * epsilon else 1 if apart < 0.9 * together else 2


def sampled(stage: Stage) -> int:
    """A thousand noisy steps on random batches."""
    totals = stage.press("Account for every rate", lambda: [game.sampled(rate) for rate in RATES])
    rate = stage.choose("rate", RATES)
    stage.see()
    table = pd.DataFrame({"series": "a thousand steps", "x": RATES, "y": totals})
    nearest = min(range(len(RATES)), key=lambda place: abs(RATES[place] - rate))
    finding = (
        f"With everybody in every step ε = {shown(totals[-1])}; with a share of {percent(RATES[nearest])} drawn at random "
        f"for each step ε = {shown(totals[nearest])}. The noise is the same."
    )
    picture = teaching.curves(
        table, Axis("share of people in a step", is_log=True, is_share=True, ticks=RATES), Axis("ε", is_log=True), finding,
        chosen=rate, dark=stage.dark,
    )  # fmt: skip
    source = f"privacy loss distributions: {game.N_STEPS:,} steps, σ = {game.SIGMA:g}, δ = 1e-5"
    chart(stage, picture, table, "Random batches", source)
    ratio = totals[RATES.index(0.01)] / totals[-1]
    return 0 if ratio > 0.5 else 1 if ratio > 0.05 else 2


def who_was_drawn(stage: Stage) -> int:
    """The same training where the batches are known."""
    rate = stage.choose("rate", RATES)

    def both() -> list[tuple[str, float]]:
        low, high = game.participations(rate)
        names = [("batches are secret", game.sampled(rate))]
        return [*names, *((f"known: she was in {n} of them", game.if_known(n)) for n in sorted({low, high}))]

    found = stage.results("Publish the batches", both, rate)
    table = pd.DataFrame(found, columns=["name", "value"])
    secret, known = found[0][1], found[-1][1]
    finding = (
        f"With {percent(rate)} drawn for each step, ε is {shown(secret)} while batches are secret, and up to "
        f"{shown(known)} for people in many of them once they are known."
    )
    picture = teaching.bars(table, Axis("ε"), finding, dark=stage.dark)
    chart(stage, picture, table, "Secret batches and known ones", f"{game.N_STEPS:,} steps, σ = {game.SIGMA:g}, δ = 1e-5")
    return 1 if game.if_known(game.participations(0.01)[1]) > 2 * game.sampled(0.01) else 0


def afterwards(stage: Stage) -> int:
    """What an attacker gets from a released count, and from what others make of it."""
    epsilon = stage.choose("epsilon", EPSILONS)
    shares = stage.results("Work on it, then attack", lambda: game.worked_on(epsilon, 10 * N_ROUNDS), epsilon)
    table = pd.DataFrame(list(shares.items()), columns=["name", "value"])
    best, largest = game.best_of_averages(epsilon, 1), max(shares.values())
    finding = (
        f"At ε = {epsilon:g} the attacker is right in at most {percent(largest)} of rounds whatever was done to the count; "
        f"the best possible on the count itself is {percent(best)}."
    )
    picture = teaching.bars(table, Axis("right guesses", is_share=True), finding, dark=stage.dark)
    chart(stage, picture, table, "Attacks on what was made of a release", "fresh noise on an invented count")
    return 0 if largest < best + 0.02 and largest < odds_bound(epsilon, game.DELTA) + 0.02 else 1


def for_free(stage: Stage) -> int:
    """Error of noisy counts before and after impossible ones are mended."""
    epsilon = stage.choose("epsilon", EPSILONS)
    found = stage.results("Mend the counts", lambda: game.errors(epsilon, N_DRAWS), epsilon)
    before, after = found.values()
    heads = ("counts", "error, people", "ε")
    rows_of(heads, [(name, f"{value:.2f}", f"{epsilon:g}") for name, value in found.items()])
    change = "smaller" if after < before else "larger"
    st.markdown(f"**With negative counts set to 0 the error is {percent(abs(1 - after / before), 0)} {change}, for no ε.**")
    return 1 if after < 0.98 * before else 2 if after > 1.02 * before else 0
