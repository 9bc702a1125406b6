"""Lesson "Auditing one run": planted records, what right guesses prove, a fault that is found, and one that is not."""

from __future__ import annotations

from statistics import fmean

import pandas as pd

from dpcl_core.figures import teaching
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import audit as game
from dpcl_core.privacy.one_run import Coins
from dpcl_core.privacy.statement import at_least
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.text import percent

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
RIGHT = tuple(float(n) for n in range(100, 201, 10))
PLANTED = (100, 300, 1000, 3000, 10_000)
NOISES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
N_AUDITS, N_RUNS = 60, 20
_SOURCE = f"fresh coins and noise, {100 * game.CONFIDENCE:g} % confidence, δ = 1e-5"
_KINDS = ("without assumptions", "if noise is Gaussian")


def plant(stage: Stage) -> int:
    """One run with planted records, and how many coins are guessed."""
    epsilon = stage.choose("epsilon", EPSILONS)
    coins = stage.results("Plant, run and guess", lambda: game.played(epsilon, game.N_RECORDS), epsilon)
    rows = [("guessed right", float(coins.right)), ("guessed wrong", float(coins.guessed - coins.right))]
    table = pd.DataFrame(rows, columns=["name", "value"])
    share = coins.right / coins.guessed
    finding = f"Of the {coins.guessed} surest guesses {coins.right} are right, {percent(share)}; luck alone gives half."
    picture = teaching.bars(table, Axis("guesses"), finding, dark=stage.dark)
    chart(stage, picture, table, f"{game.N_RECORDS:,} planted records, one run", _SOURCE)
    of_one = fmean(one.right / one.guessed for one in (game.played(1.0, game.N_RECORDS) for _ in range(N_RUNS)))
    return 0 if of_one < 0.53 else 1 if of_one < 0.9 else 2


def what_it_proves(stage: Stage) -> int:
    """The bound for any number of right guesses."""
    n_guessed = int(game.GUESSED * game.N_RECORDS)

    def bounds() -> list[tuple[float, float]]:
        return [game.proven(Coins(game.N_RECORDS, n_guessed, int(right))) for right in RIGHT]

    found = stage.press("Compute the bounds", bounds)
    right = stage.choose("right", RIGHT)
    stage.see()
    rows = [(kind, n, found[row][place]) for place, kind in enumerate(_KINDS) for row, n in enumerate(RIGHT)]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    plain, normal = game.proven(Coins(game.N_RECORDS, n_guessed, int(right)))
    finding = (
        f"{right:g} right guesses of {n_guessed} prove ε ≥ {at_least(plain)} without assumptions, and ε ≥ "
        f"{at_least(normal)} if the noise is Gaussian."
    )
    picture = teaching.curves(
        table, Axis(f"right guesses, of {n_guessed}"), Axis("ε is proven to be at least"), finding, chosen=right,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "What right guesses prove", _SOURCE)
    least = game.proven(Coins(game.N_RECORDS, n_guessed, 120))[0]
    return 0 if least == 0 else 1 if least < 0.9 else 2


def more_records(stage: Stage) -> int:
    """The bound with more and more planted records."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def audits() -> list[tuple[float, float]]:
        return [game.proven(game.played(epsilon, n)) for n in PLANTED]

    found = stage.results("Audit five times", audits, epsilon)
    rows = [(kind, n, found[row][place]) for place, kind in enumerate(_KINDS) for row, n in enumerate(PLANTED)]
    table = pd.DataFrame([*rows, *(("true ε", n, epsilon) for n in PLANTED)], columns=["series", "x", "y"])
    best = max(found[-1])
    finding = f"With {PLANTED[-1]:,} planted records the audit proves ε ≥ {at_least(best)}; true is ε = {epsilon:g}."
    picture = teaching.curves(
        table, Axis("planted records", is_log=True), Axis("ε is proven to be at least"), finding, dark=stage.dark
    )
    chart(stage, picture, table, "More planted records", _SOURCE)
    return 2 if best > 1.05 * epsilon else 1 if best > 0.2 * epsilon else 0


def a_fault(stage: Stage) -> int:
    """An audit of a program whose noise is too small."""
    noise = stage.choose("noise", NOISES)
    coins = stage.results("Audit the program", lambda: game.played(1.0, game.N_RECORDS, noise), noise)
    bound = game.proven(coins)[0]
    table = pd.DataFrame([("claimed ε", 1.0), ("proven: ε at least", bound)], columns=["name", "value"])
    verdict = "more than was claimed: something is wrong" if bound > 1 else "no more than was claimed"
    finding = f"{coins.right} of {coins.guessed} guesses are right. That proves ε ≥ {at_least(bound)}, {verdict}."
    picture = teaching.bars(table, Axis("ε"), finding, dark=stage.dark)
    chart(stage, picture, table, f"Noise × {noise:g} of what ε = 1 needs", _SOURCE)
    of_a_tenth = game.proven(game.played(1.0, game.N_RECORDS, 0.1))[0]
    return 1 if of_a_tenth > 2 else 0 if of_a_tenth > 1 else 2


def silence(stage: Stage) -> int:
    """How often an audit notices, by how much noise is missing."""

    def audited() -> list[float]:
        return [game.caught(1.0, game.N_RECORDS, noise, N_AUDITS) for noise in NOISES]

    found = stage.results(f"Audit {N_AUDITS} times for each", audited)
    table = pd.DataFrame({"series": "faults that are noticed", "x": NOISES, "y": found})
    half = found[NOISES.index(0.5)]
    finding = (
        f"With a tenth of the noise {percent(found[0], 0)} of {N_AUDITS} audits prove more than ε = 1, with half of it "
        f"{percent(half, 0)}."
    )
    x, y = Axis("noise, as a part of what is needed"), Axis("audits that notice", is_share=True)
    picture = teaching.curves(table, x, y, finding, dark=stage.dark)
    chart(stage, picture, table, "What an audit notices", _SOURCE)
    return 0 if half > 0.9 else 2 if half > 0.2 else 1
