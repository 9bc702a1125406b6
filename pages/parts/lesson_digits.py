"""Lesson "What adds up, and what is free": composition, averaging, parallel composition, random batches, post-processing."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.figures.picture import minus
from dpcl_core.lessons import adding as game
from dpcl_core.lessons import noise
from dpcl_core.privacy import statement
from dpcl_core.spec import Recurrence
from pages.parts.layout import draw_table
from pages.parts.lesson_stage import Stage
from pages.parts.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
RELEASES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
N_ROUNDS, N_DRAWS = 2000, 300


def ten_releases(stage: Stage) -> int:
    """The total of n releases, exact and as a plain sum."""
    epsilon, n = stage.moved("Add them up", epsilon=EPSILONS, releases=RELEASES)
    exact = {k: game.total(epsilon, int(k)) for k in RELEASES}
    rows = [("exact", k, value) for k, value in exact.items()] + [("plain sum", k, k * epsilon) for k in RELEASES]
    stage.curves(rows, chosen=n, n=n, epsilon=epsilon, now=game.total(epsilon, int(n)), product=n * epsilon)
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
    stage.curves(rows, epsilon=epsilon, first=measured[0], most=RELEASES[-1], last=measured[-1])
    of_hundred = game.best_of_averages(1.0, 100)
    return 0 if of_hundred < 0.6 else 1 if of_hundred < 0.97 else 2


def other_people(stage: Stage) -> int:
    """The ledger of ten tasks, where people are in one of them and where they are in all."""
    epsilon = stage.choose("epsilon", EPSILONS)
    ways: dict[str, Recurrence] = {"each person in one task": "once", "each person in all ten": "every"}
    totals = stage.results(
        "Ask the ledger", lambda: {name: game.ledger(epsilon, 10, way).epsilon() for name, way in ways.items()}, epsilon
    )
    apart, together = totals.values()
    stage.bars(totals.items(), epsilon=epsilon, apart=apart, together=together)
    return 0 if apart < 1.01 * epsilon else 1 if apart < 0.9 * together else 2


def sampled(stage: Stage) -> int:
    """A thousand noisy steps on random batches."""
    totals, rate = stage.moved_in("Account for every rate", lambda: [game.sampled(rate) for rate in RATES], "rate", RATES)
    rows = [("a thousand steps", *point) for point in zip(RATES, totals, strict=True)]
    nearest = min(range(len(RATES)), key=lambda place: abs(RATES[place] - rate))
    source = f"privacy loss distributions: {game.N_STEPS:,} steps, σ = {game.SIGMA:g}, δ = 1e-5"
    stage.curves(rows, source=source, chosen=rate, everybody=totals[-1], rate=RATES[nearest], total=totals[nearest])
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
    secret, known = found[0][1], found[-1][1]
    stage.bars(found, source=f"{game.N_STEPS:,} steps, σ = {game.SIGMA:g}, δ = 1e-5", rate=rate, secret=secret, known=known)
    return 1 if game.if_known(game.participations(0.01)[1]) > 2 * game.sampled(0.01) else 0


def afterwards(stage: Stage) -> int:
    """What an attacker gets from a released count, and from what others make of it."""
    epsilon = stage.choose("epsilon", EPSILONS)
    shares = stage.results("Work on it, then attack", lambda: game.worked_on(epsilon, 10 * N_ROUNDS), epsilon)
    best, largest = game.best_of_averages(epsilon, 1), max(shares.values())
    stage.bars(shares.items(), epsilon=epsilon, largest=largest, best=best)
    return 0 if largest < best + 0.02 and largest < statement.odds_bound(epsilon, game.DELTA) + 0.02 else 1


def for_free(stage: Stage) -> int:
    """Error of noisy counts before and after impossible ones are mended."""
    epsilon = stage.choose("epsilon", EPSILONS)
    found = stage.results("Mend the counts", lambda: game.errors(epsilon, N_DRAWS), epsilon)
    before, after = found.values()
    heads = ("counts", "error, people", "ε")
    draw_table(heads, [(name, f"{value:.2f}", f"{epsilon:g}") for name, value in found.items()])
    change = "smaller" if after < before else "larger"
    st.markdown(f"**With negative counts set to 0 the error is {percent(abs(1 - after / before), 0)} {change}, for no ε.**")
    return 1 if after < 0.98 * before else 2 if after > 1.02 * before else 0


# Lesson "The last digits": an attacker who reads the last digits of a noisy sum, and sums rounded with their noise.


DIGITS_EPSILONS = (0.1, 0.3, 1.0, 4.0)
DIGITS_N_ROUNDS = 2000  # per side and press
N_SHOWN = 6
MOST_PRINTS = 500  # at ε = 0.1 about one in ten has a revealing digit; none of 500 has one with probability below 1e-20


def two_prints(stage: Stage) -> int:
    """Shows the smallest numbers of a print with her and of one without her, in steps of her number's grid."""
    epsilon = stage.choose("epsilon", DIGITS_EPSILONS)
    *prints, n_prints = stage.results("Print both", lambda: _revealing_prints(epsilon), epsilon)
    for name, released in zip(("With her", "Without her"), prints, strict=True):
        places = game.smallest(released, N_SHOWN)
        counts = released[places] / game.spacing(game.person())[places]
        rows = [(minus(f"{value:+.17f}"), f"{count:,.4f}") for value, count in zip(released[places], counts, strict=True)]
        draw_table(("printed", "in steps of her number's grid"), rows, names=0, title=name)
    st.caption(f"Without her, this is print number {n_prints}: the first with such a number.")
    return 1


def attack(stage: Stage) -> int:
    """Runs the attack on floating-point sums."""
    played, _, _ = _played(stage, "naive")
    return 0 if played.share_right < 0.6 else 1 if played.share_right < 0.74 else 2


def more_noise(stage: Stage) -> int:
    """Runs the attack on floating-point sums at a small epsilon."""
    _, epsilon, proven = _played(stage, "naive")
    return 1 if proven > epsilon else 0


def rounded(stage: Stage) -> int:
    """Runs the attack on this project's own mechanism, and shows its prints."""
    _, epsilon, proven = _played(stage, "rounded")
    for name, is_in in (("With her", True), ("Without her", False)):
        released = game.releases(is_in, epsilon, 1, "rounded")[0]
        places = game.smallest(released, N_SHOWN)
        pairs = zip(released[places], game.steps_of(released[places], epsilon), strict=True)
        rows = [(minus(f"{value:+.12f}"), minus(f"{count:+,.0f}")) for value, count in pairs]
        draw_table(("printed", "in steps of the public grid"), rows, names=0, title=name)
    return 0 if proven > epsilon else 1


def _revealing_prints(epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """A print with her, the first print without her that has a digit impossible with her, and that print's number."""
    without = game.releases(False, epsilon, MOST_PRINTS, "naive")
    first = int(game.cannot_be_hers(without).any(axis=1).argmax())
    return game.releases(True, epsilon, 1, "naive")[0], without[first], first + 1


def _played(stage: Stage, way: game.Way) -> tuple[noise.Duel, float, float]:
    """Plays the rounds, and draws how often the attacker was right, and the bound.

    Returns the rounds, the chosen epsilon, and the epsilon that the rounds prove.
    """
    epsilon = stage.choose("epsilon", DIGITS_EPSILONS)
    played = stage.results(f"Play 2 × {DIGITS_N_ROUNDS:,} rounds", lambda: game.play(epsilon, DIGITS_N_ROUNDS, way), epsilon)
    (proven,) = noise.proven(played, [len(played.took_part)], game.DELTA)
    rounds = f"{len(played.took_part):,}"
    misses, rejections = len(played.took_part) - played.hits, len(played.stayed_away) - played.false_alarms
    draw_table(
        ("with her (wrong)", "without her (right)", "right in all", "proves ε at least", "ε asked for"),
        [(f"{misses:,} of {rounds}", f"{rejections:,} of {rounds}", percent(played.share_right), f"{proven:.2f}",
          f"{epsilon:g}")],
        names=0, title="He said “not in”",
    )  # fmt: skip
    st.markdown(statement.odds(epsilon, game.DELTA))
    return played, epsilon, proven


# Lesson "Why models forget": gradient steps on one task after another, what helps, and sums that only grow.


KEPT = (1.0, 2.0, 5.0, 10.0, 20.0)
FORGETTING_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 8.0)
_TASKS = tuple(float(task) for task in range(1, game.N_TASKS + 1))


def first_pair(stage: Stage) -> int:
    """Plain training on five tasks."""
    found = stage.results("Learn five tasks", lambda: game.accuracies("plain"))
    _tasks(stage, found)
    left = float(found[-1, 0])
    return 0 if left > 0.9 else 1 if left > 0.3 else 2


def who_competes(stage: Stage) -> int:
    """Training in which only the task's own digits compete."""
    ways: tuple[game.ForgettingWay, ...] = ("plain", "own labels")
    plain, own = stage.results("Learn both ways", lambda: [game.accuracies(way) for way in ways])
    _ways(stage, {"all digits compete": plain, "only the task's own": own})
    saved = game.forgotten(plain) - game.forgotten(own)
    return 0 if saved < 0.05 else 2 if game.forgotten(own) < 0.02 else 1


def keep_some(stage: Stage) -> int:
    """Training with a few kept pictures of earlier digits."""
    (kept,) = stage.moved("Learn with a memory", kept=KEPT)
    plain, replayed = game.accuracies("plain"), game.accuracies("replay", int(kept))
    _ways(stage, {"nothing kept": plain, f"{kept:g} of each digit kept": replayed})
    gain = float((game.accuracies("replay", 5)[-1] - plain[-1]).mean())
    return 0 if gain < 0.1 else 1 if gain > 0.5 else 2


def only_add(stage: Stage) -> int:
    """The classifier of sums."""
    found = stage.results("Add up five tasks", lambda: game.accuracies("sums"))
    _tasks(stage, found)
    loss = game.forgotten(found)
    return 0 if loss > 0.5 else 1 if loss > 0.01 else 2


def with_noise(stage: Stage) -> int:
    """Accuracy and forgetting of the classifier of sums under noise."""
    (epsilon,) = stage.moved("Add noise", epsilon=FORGETTING_EPSILONS)
    found = {each: game.of_noise(each) for each in FORGETTING_EPSILONS}
    names = ("accuracy after five tasks", "forgetting")
    rows = [(name, each, found[each][place]) for place, name in enumerate(names) for each in FORGETTING_EPSILONS]
    (accuracy, lost), (clean, clean_lost) = game.of_noise(epsilon), game.of_noise(float("inf"))
    stage.curves(rows, chosen=epsilon, epsilon=epsilon, accuracy=accuracy, lost=lost, clean=clean, clean_lost=clean_lost)
    more = game.of_noise(1.0)[1] - clean_lost
    return 0 if more > 0.02 else 2 if more < -0.02 else 1


def _tasks(stage: Stage, found: game.Matrix) -> None:
    """Draws accuracy on each task's digits after every task."""
    places = [(task, now) for task in range(game.N_TASKS) for now in range(task, game.N_TASKS)]
    rows = [(f"task {task + 1}", _TASKS[now], found[now, task]) for task, now in places]
    stage.curves(rows, first=found[-1, 0], mean=found[-1].mean(), lost=game.forgotten(found))


def _ways(stage: Stage, found: dict[str, game.Matrix]) -> None:
    """Draws mean accuracy on the tasks so far, for several ways to train."""
    rows = [(name, _TASKS[now], float(np.nanmean(one[now]))) for name, one in found.items() for now in range(game.N_TASKS)]
    ends = "; ".join(f"{name}: {percent(one[-1].mean())}" for name, one in found.items())
    stage.curves(rows, ends=ends)


# Lesson "Who pays for privacy": one rare digit among common ones, under the same noise.


RARE_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PEOPLE = (5.0, 10.0, 20.0, 40.0, 80.0, 130.0)
FEW = 10  # people with the rare digit, in the first steps
_LEAST = 0.05  # a loss that counts


def ten_people(stage: Stage) -> int:
    """What noise takes from a rare digit and from common ones."""
    epsilon = stage.choose("epsilon", RARE_EPSILONS)
    stage.results("Learn with noise and without", lambda: game.recognised(epsilon, FEW), epsilon)
    clean, noisy = game.recognised(math.inf, FEW), game.recognised(epsilon, FEW)
    rows = [
        (f"{who}, {how}", getattr(of, name))
        for who, name in ((f"the {game.RARE}, {FEW} people", "rare"), (f"others, about {game.most()} people", "others"))
        for how, of in (("no noise", clean), (f"ε = {epsilon:g}", noisy))
    ]
    stage.bars(rows, epsilon=epsilon, rare=100 * (clean.rare - noisy.rare), others=100 * (clean.others - noisy.others))
    rare, others = (getattr(clean, name) - getattr(game.recognised(1.0, FEW), name) for name in ("rare", "others"))
    return 0 if abs(rare - others) < _LEAST else 1 if rare > others else 2


def the_average(stage: Stage) -> int:
    """What the overall accuracy says of it."""
    epsilon = stage.choose("epsilon", RARE_EPSILONS)
    stage.results("Average", lambda: game.recognised(epsilon, FEW), epsilon)
    clean, noisy = game.recognised(math.inf, FEW), game.recognised(epsilon, FEW)
    lost = {"all digits": clean.overall - noisy.overall, f"the {game.RARE} alone": clean.rare - noisy.rare}
    overall, rare = lost.values()
    stage.bars(
        [(name, max(0.0, value)) for name, value in lost.items()], epsilon=epsilon, overall=clean.overall,
        noisy_overall=noisy.overall, rare=clean.rare, noisy_rare=noisy.rare,
    )  # fmt: skip
    return 1 if overall < 0.25 * rare else 0


def people_needed(stage: Stage) -> int:
    """How the rare digit fares with more people."""
    (epsilon,) = stage.moved("Add people", epsilon=RARE_EPSILONS)
    budgets = {f"ε = {epsilon:g}": epsilon, "no noise": math.inf}
    rows = [(name, n, game.recognised(one, int(n)).rare) for name, one in budgets.items() for n in PEOPLE]
    enough = _enough(epsilon)
    words = f"from {enough:g} people on" if enough is not None else "with none of these numbers of people"
    stage.curves(rows, epsilon=epsilon, points=100 * _LEAST, words=words)
    of_one = _enough(1.0) or math.inf
    return 0 if of_one <= 10 else 1 if of_one <= 40 else 2


def sum_and_noise(stage: Stage) -> int:
    """How alike the noisy sum is to the sum."""
    (epsilon,) = stage.moved("Compare sums", epsilon=RARE_EPSILONS)
    found = {n: game.likeness(epsilon, int(n)) for n in PEOPLE}
    rows = [(name, n, found[n][place]) for place, name in ((1, "formula"), (0, "measured")) for n in PEOPLE]
    few, many = PEOPLE[0], PEOPLE[-1]
    stage.curves(rows, epsilon=epsilon, few=few, of_few=found[few][0], many=many, of_many=found[many][0])
    beside = [math.sqrt(1 - one**2) / one for one in (game.likeness(1.0, n)[1] for n in (10, 20))]
    ratio = beside[0] / beside[1]
    return 0 if ratio < 1.2 else 1 if ratio < 1.7 else 2


def what_helps(stage: Stage) -> int:
    """Three attempts to help the rare digit at the same ε."""
    epsilon = stage.choose("epsilon", RARE_EPSILONS)
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
    before, counted, merged = found.values()
    stage.bars(rows, epsilon=epsilon, before=before.rare, counted=counted.rare, others=counted.others, merged=merged.rare)
    return 1 if merged.rare > max(before.rare, counted.rare) + _LEAST else 0 if counted.rare > before.rare + _LEAST else 2


def _enough(epsilon: float) -> float | None:
    """The fewest people from which on the rare digit loses less than `_LEAST`; None if no number here does."""
    lost = {n: game.recognised(math.inf, int(n)).rare - game.recognised(epsilon, int(n)).rare for n in PEOPLE}
    return next((n for n in PEOPLE if all(lost[more] < _LEAST for more in PEOPLE if more >= n)), None)
