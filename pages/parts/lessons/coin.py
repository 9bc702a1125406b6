"""Lesson "Noise buys deniability": randomised response, its crowd and its odds, noise on a sum, and clipping before it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dpcl_core.figures import teaching
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import coin as game
from dpcl_core.privacy.statement import odds_bound
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
CROWDS = (10, 100, 1000, 10_000, 100_000)
CLIPS = (500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 50_000.0)
INCOMES = (1e3, 3e3, 1e4, 3e4, 5e4, 1e5, 3e5, 1e6)
N_GAMES = 20_000
_SOURCE = "invented people, fresh noise"


def one_answer(stage: Stage) -> int:
    """A thousand answers by a coin, by what they truly are."""
    epsilon, truth = stage.choose("epsilon", EPSILONS), game.truths()
    said = stage.results("Ask everybody", lambda: game.answers(truth, epsilon), epsilon)
    rows = [
        (f"truly {yes}, said {word}", float(((truth == place) & (said == answer)).sum()))
        for place, yes in ((1, "yes"), (0, "no"))
        for answer, word in ((1, "yes"), (0, "no"))
    ]
    table = pd.DataFrame(rows, columns=["name", "value"])
    share = float(truth[said == 1].mean())
    finding = f"Of {int((said == 1).sum())} people who said yes, {percent(share, 0)} would truly say so."
    chart(stage, teaching.bars(table, Axis("people"), finding, dark=stage.dark), table, "What they said", _SOURCE)
    likely = game.posterior(epsilon)
    return 0 if likely > 0.99 else 2 if likely < game.SHARE + 0.01 else 1


def the_crowd(stage: Stage) -> int:
    """The share of true yes, estimated from crowds of several sizes."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def asked() -> list[float]:
        return [game.estimate(game.answers(game.truths(n), epsilon), epsilon) for n in CROWDS]

    estimates = stage.results("Ask crowds of every size", asked, epsilon)
    table = pd.DataFrame({"series": "estimate, with its 95 % range", "x": CROWDS, "y": estimates})
    table["half"] = [1.96 * game.estimate_std(n, epsilon) for n in CROWDS]
    true = pd.DataFrame({"series": "true share", "x": CROWDS, "y": game.SHARE})
    half = game.estimate_std(game.N_PEOPLE, epsilon)
    finding = (
        f"From {game.N_PEOPLE:,} answers at ε = {epsilon:g} the estimate is {percent(estimates[2])}, true are "
        f"{percent(game.SHARE, 0)}; its standard error is {100 * half:.1f} points."
    )
    picture = teaching.curves(
        pd.concat([table, true]), Axis("people asked", is_log=True), Axis("share of true yes", is_share=True), finding,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "What the crowd says", _SOURCE)
    return 0 if half > 0.2 else 1 if half > 0.002 else 2


def the_odds(stage: Stage) -> int:
    """How often a guesser is right who believes what is said, measured and by its formula."""

    def played() -> list[float]:
        truth = np.arange(N_GAMES, dtype=np.int64) % 2
        return [float((game.answers(truth, epsilon) == truth).mean()) for epsilon in EPSILONS]

    measured = stage.press(f"Play {N_GAMES:,} rounds at every ε", played)
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.see()
    grid = np.geomspace(EPSILONS[0], EPSILONS[-1], 25)
    line = pd.DataFrame({"series": "e^ε / (1 + e^ε)", "x": grid, "y": [odds_bound(float(each), 0.0) for each in grid]})
    dots = pd.DataFrame({"series": "measured", "x": EPSILONS, "y": measured})
    nearest = min(range(len(EPSILONS)), key=lambda place: abs(EPSILONS[place] - epsilon))
    finding = (
        f"At ε = {EPSILONS[nearest]:g} the guesser was right in {percent(measured[nearest])} of {N_GAMES:,} rounds; "
        f"nobody can do better than {percent(odds_bound(EPSILONS[nearest], 0.0))}."
    )
    picture = teaching.curves(
        pd.concat([line, dots]), Axis("ε", is_log=True, ticks=EPSILONS), Axis("right guesses", is_share=True), finding,
        chosen=epsilon, dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, dots, "What ε allows a guesser", _SOURCE)
    right = odds_bound(1.0, 0.0)
    return 0 if right < 0.55 else 1 if right < 0.9 else 2


def one_clerk(stage: Stage) -> int:
    """Error of the count with noise on each answer, and with noise on the sum."""
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.results("Compare", lambda: True, epsilon)
    names = ("a coin for each answer", "noise once, on the count")
    table = pd.DataFrame(
        [
            (name, n, std(n, epsilon) * n)
            for name, std in zip(names, (game.estimate_std, game.clerk_std), strict=True)
            for n in CROWDS
        ],
        columns=["series", "x", "y"],
    )
    each, once = (std(game.N_PEOPLE, epsilon) * game.N_PEOPLE for std in (game.estimate_std, game.clerk_std))
    finding = (
        f"Of {game.N_PEOPLE:,} people at ε = {epsilon:g}, the count is off by {each:.1f} people with a coin for each "
        f"answer, and by {once:.1f} with noise once: {each / once:.0f} times less."
    )
    picture = teaching.curves(
        table, Axis("people asked", is_log=True), Axis("error of the count, people", is_log=True), finding, dark=stage.dark
    )
    chart(stage, picture, table, "Where the noise is added", "closed form")
    return 0 if each / once < 2 else 1 if each / once < 10 else 2


def one_large(stage: Stage) -> int:
    """How often people of several incomes are found in one noisy sum."""
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.results("Attack the sum", lambda: True, epsilon)
    table = pd.DataFrame({"series": "right guesses", "x": INCOMES, "y": [game.found(one, epsilon) for one in INCOMES]})
    ordinary, largest, hers = (game.found(one, epsilon) for one in (3e3, game.LARGEST, 1e6))
    finding = (
        f"At ε = {epsilon:g} the best attacker is right about her in {percent(hers)} of rounds; about the largest "
        f"income that the noise was made for in {percent(largest)}, about one of 3,000 in {percent(ordinary)}."
    )
    picture = teaching.curves(
        table, Axis("the person's income", is_log=True), Axis("right guesses", is_share=True), finding, chosen=game.LARGEST,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "Who is found in the sum", "closed form of Gaussian noise")
    return 1 if hers > odds_bound(epsilon, game.DELTA) else 0


def clip_first(stage: Stage) -> int:
    """Error of the sum by the clip: what is cut off, noise, and both."""
    stage.press("Try every clip", lambda: True)
    epsilon, clip = stage.choose("epsilon", EPSILONS), stage.choose("clip", CLIPS)
    stage.see()
    parts = [game.lost_and_noise(each, epsilon) for each in CLIPS]
    errors = [math.hypot(*part) for part in parts]
    columns = {"cut off": [lost for lost, _ in parts], "noise": [noise for _, noise in parts], "both": errors}
    table = pd.DataFrame(
        [(name, x, y) for name, values in columns.items() for x, y in zip(CLIPS, values, strict=True) if y > 0],
        columns=["series", "x", "y"],
    )
    best = min(range(len(CLIPS)), key=errors.__getitem__)
    lost, noise = game.lost_and_noise(clip, epsilon)
    total = float(game.incomes().sum())
    finding = (
        f"With a clip of {clip:,.0f} the sum is off by {percent(math.hypot(lost, noise) / total)}: "
        f"{percent(lost / total)} cut off, {percent(noise / total)} noise. The best of these clips is "
        f"{CLIPS[best]:,.0f}, at {percent(errors[best] / total)}."
    )
    picture = teaching.curves(
        table, Axis("clip", is_log=True), Axis("error of the sum", is_log=True), finding, chosen=clip, dark=stage.dark
    )
    chart(stage, picture, table, "A clip, and what it costs", "invented incomes; closed form of the noise")
    return 0 if best == 0 else 2 if best == len(CLIPS) - 1 else 1
