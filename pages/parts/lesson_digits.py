"""Lesson "What adds up, and what is free": composition, averaging, parallel composition, random batches, post-processing."""

import math

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.figures.picture import minus
from dpcl_core.lessons import adding as game
from dpcl_core.privacy import statement
from dpcl_core.spec import Recurrence
from pages.parts.layout import draw_table
from pages.parts.lesson_stage import Stage, by_name, reached
from pages.parts.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
RELEASES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
N_ROUNDS = 2000


def ten_releases(stage: Stage) -> int:
    """The total of n releases, exact and as a plain sum."""
    epsilon, n = stage.moved("Add them up", epsilon=EPSILONS, releases=RELEASES)
    lines = {"exact": [game.total(epsilon, int(k)) for k in RELEASES], "plain sum": [k * epsilon for k in RELEASES]}
    stage.curves(lines, RELEASES, chosen=n, n=n, now=game.total(epsilon, int(n)), product=n * epsilon)
    return reached(game.total(1.0, 10), 1.5, 7)


def averaged(stage: Stage) -> int:
    """An attacker averages fresh answers to the same question."""

    def played(epsilon: float) -> list[float]:
        return [game.averaged(epsilon, int(n), N_ROUNDS).share_right for n in RELEASES]

    measured, epsilon = stage.chosen(f"Play 2 × {N_ROUNDS:,} rounds for each", played, "epsilon", EPSILONS)
    lines = {"best possible": [game.best_of_averages(epsilon, int(n)) for n in RELEASES], "measured": measured}
    stage.curves(lines, RELEASES, first=measured[0], most=RELEASES[-1], last=measured[-1])
    return reached(game.best_of_averages(1.0, 100), 0.6, 0.97)


def other_people(stage: Stage) -> int:
    """The ledger of ten tasks, where people are in one of them and where they are in all."""
    ways: dict[str, Recurrence] = {"each person in one task": "once", "each person in all ten": "every"}

    def totals(epsilon: float) -> dict[str, float]:
        return {name: game.ledger(epsilon, 10, way).epsilon() for name, way in ways.items()}

    found, epsilon = stage.chosen("Ask the ledger", totals, "epsilon", EPSILONS)
    apart, together = found.values()
    stage.bars(found, apart=apart, together=together)
    return 0 if apart < 1.01 * epsilon else 1 if apart < 0.9 * together else 2


def sampled(stage: Stage) -> int:
    """A thousand noisy steps on random batches."""
    totals, rate, nearest = stage.moved_in("Account for every rate", game.sampled, "rate", RATES)
    source = f"privacy loss distributions: {game.N_STEPS:,} steps, σ = {game.SIGMA:g}, δ = 1e-5"
    everybody, lines = totals[1.0], {"a thousand steps": list(totals.values())}
    stage.curves(lines, RATES, source=source, chosen=rate, everybody=everybody, rate=nearest, total=totals[nearest])
    ratio = totals[0.01] / everybody
    return 0 if ratio > 0.5 else 1 if ratio > 0.05 else 2


def who_was_drawn(stage: Stage) -> int:
    """The same training where the batches are known."""

    def both(rate: float) -> dict[str, float]:
        known = {f"known: she was in {n} of them": game.if_known(n) for n in sorted({*game.participations(rate)})}
        return {"batches are secret": game.sampled(rate), **known}

    found, _ = stage.chosen("Publish the batches", both, "rate", RATES)
    secret, *_, known = found.values()
    stage.bars(found, source=f"{game.N_STEPS:,} steps, σ = {game.SIGMA:g}, δ = 1e-5", secret=secret, known=known)
    return 1 if game.if_known(game.participations(0.01)[1]) > 2 * game.sampled(0.01) else 0


def afterwards(stage: Stage) -> int:
    """What an attacker gets from a released count, and from what others make of it."""
    shares, epsilon = stage.chosen("Work on it, then attack", game.worked_on, "epsilon", EPSILONS)
    best, largest = game.best_of_averages(epsilon, 1), max(shares.values())
    stage.bars(shares, largest=largest, best=best)
    return 0 if largest < best + 0.02 and largest < statement.odds_bound(epsilon, game.DELTA) + 0.02 else 1


def for_free(stage: Stage) -> int:
    """Error of noisy counts before and after impossible ones are mended."""
    found, epsilon = stage.chosen("Mend the counts", game.errors, "epsilon", EPSILONS)
    before, after = found.values()
    draw_table(("counts", "error, people", "ε"), [(name, f"{value:.2f}", f"{epsilon:g}") for name, value in found.items()])
    change = "smaller" if after < before else "larger"
    st.markdown(f"**With negative counts set to 0 the error is {percent(abs(1 - after / before), 0)} {change}, for no ε.**")
    return 1 if after < 0.98 * before else 2 if after > 1.02 * before else 0


# Lesson "The last digits": an attacker who reads the last digits of a noisy sum, and sums rounded with their noise.


DIGITS_EPSILONS = (0.1, 0.3, 1.0, 4.0)
N_SHOWN = 6
MOST_PRINTS = 500  # at ε = 0.1 about one in ten has a revealing digit; none of 500 has one with probability below 1e-20


def two_prints(stage: Stage) -> int:
    """Shows the smallest numbers of a print with her and of one without her, in steps of her number's grid."""
    (*prints, n_prints), _ = stage.chosen("Print both", _revealing_prints, "epsilon", DIGITS_EPSILONS)
    for name, released in zip(("With her", "Without her"), prints, strict=True):
        steps = released / game.spacing(game.person())
        rows = [(minus(f"{released[n]:+.17f}"), f"{steps[n]:,.4f}") for n in game.smallest(released, N_SHOWN)]
        draw_table(("printed", "in steps of her number's grid"), rows, names=0, title=name)
    st.caption(f"Without her, this is print number {n_prints}: the first with such a number.")
    return 1


def attack(stage: Stage) -> int:
    """Runs the attack on floating-point sums."""
    share, _, _ = _played(stage, "naive")
    return reached(share, 0.6, 0.74)


def more_noise(stage: Stage) -> int:
    """Runs the attack on floating-point sums at a small epsilon."""
    _, epsilon, proven = _played(stage, "naive")
    return 1 if proven > epsilon else 0


def rounded(stage: Stage) -> int:
    """Runs the attack on this project's own mechanism, and shows its prints."""
    _, epsilon, proven = _played(stage, "rounded")
    for name, is_in in (("With her", True), ("Without her", False)):
        (released,) = game.releases(is_in, epsilon, 1, "rounded")
        steps = game.steps_of(released, epsilon)
        rows = [(minus(f"{released[n]:+.12f}"), minus(f"{steps[n]:+,.0f}")) for n in game.smallest(released, N_SHOWN)]
        draw_table(("printed", "in steps of the public grid"), rows, names=0, title=name)
    return 0 if proven > epsilon else 1


def _revealing_prints(epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """A print with her, the first print without her that has a digit impossible with her, and that print's number."""
    without = game.releases(False, epsilon, MOST_PRINTS, "naive")
    first = int(game.cannot_be_hers(without).any(axis=1).argmax())
    return game.releases(True, epsilon, 1, "naive")[0], without[first], first + 1


def _played(stage: Stage, way: game.Way) -> tuple[float, float, float]:
    """Plays the rounds, and draws how often the attacker was right, and the bound.

    Returns the share of rounds in which he was right, the chosen epsilon, and the epsilon that the rounds prove.
    """
    n = N_ROUNDS  # per side and press
    played, epsilon = stage.chosen(
        f"Play 2 × {n:,} rounds", lambda epsilon: game.play(epsilon, n, way), "epsilon", DIGITS_EPSILONS
    )
    share, proven = played.share_right, played.proven(game.DELTA)
    draw_table(
        ("with her (wrong)", "without her (right)", "right in all", "proves ε at least", "ε asked for"),
        [(f"{n - played.hits:,} of {n:,}", f"{n - played.false_alarms:,} of {n:,}", percent(share), f"{proven:.2f}",
          f"{epsilon:g}")],
        names=0, title="He said “not in”",
    )  # fmt: skip
    st.markdown(statement.odds(epsilon, game.DELTA))
    return share, epsilon, proven


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
    plain, own = stage.results("Learn both ways", lambda: (game.accuracies("plain"), game.accuracies("own labels")))
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
    lines = by_name(("accuracy after five tasks", "forgetting"), map(game.of_noise, FORGETTING_EPSILONS))
    (accuracy, lost), (clean, clean_lost) = game.of_noise(epsilon), game.of_noise(math.inf)
    stage.curves(
        lines, FORGETTING_EPSILONS, chosen=epsilon, accuracy=accuracy, lost=lost, clean=clean, clean_lost=clean_lost
    )
    more = game.of_noise(1.0)[1] - clean_lost
    return 0 if more > 0.02 else 2 if more < -0.02 else 1


def _tasks(stage: Stage, found: game.Matrix) -> None:
    """Draws accuracy on each task's digits after every task."""
    lines = {f"task {n + 1}": found[:, n] for n in range(game.N_TASKS)}
    stage.curves(lines, _TASKS, first=found[-1, 0], mean=found[-1].mean(), lost=game.forgotten(found))


def _ways(stage: Stage, found: dict[str, game.Matrix]) -> None:
    """Draws mean accuracy on the tasks so far, for several ways to train."""
    ends = "; ".join(f"{name}: {percent(one[-1].mean())}" for name, one in found.items())
    stage.curves({name: [float(np.nanmean(row)) for row in one] for name, one in found.items()}, _TASKS, ends=ends)


# Lesson "Who pays for privacy": one rare digit among common ones, under the same noise.


RARE_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PEOPLE = (5.0, 10.0, 20.0, 40.0, 80.0, 130.0)
FEW = 10  # people with the rare digit, in the first steps
_LEAST = 0.05  # a loss that counts


def ten_people(stage: Stage) -> int:
    """What noise takes from a rare digit and from common ones."""
    noisy, epsilon = stage.chosen("Learn with noise and without", _recognised, "epsilon", RARE_EPSILONS)
    clean, at_one = _recognised(math.inf), _recognised(1.0)
    who = {f"the {game.RARE}, {FEW} people": "rare", f"others, about {game.most()} people": "others"}
    how = {"no noise": clean, f"ε = {epsilon:g}": noisy}
    shares = {f"{one}, {way}": getattr(of, name) for one, name in who.items() for way, of in how.items()}
    stage.bars(shares, rare=100 * (clean.rare - noisy.rare), others=100 * (clean.others - noisy.others))
    rare, others = clean.rare - at_one.rare, clean.others - at_one.others
    return 0 if abs(rare - others) < _LEAST else 1 if rare > others else 2


def the_average(stage: Stage) -> int:
    """What the overall accuracy says of it."""
    noisy, _ = stage.chosen("Average", _recognised, "epsilon", RARE_EPSILONS)
    clean = _recognised(math.inf)
    overall, rare = clean.overall - noisy.overall, clean.rare - noisy.rare
    stage.bars(
        {"all digits": max(0.0, overall), f"the {game.RARE} alone": max(0.0, rare)}, overall=clean.overall,
        noisy_overall=noisy.overall, rare=clean.rare, noisy_rare=noisy.rare,
    )  # fmt: skip
    return 1 if overall < 0.25 * rare else 0


def people_needed(stage: Stage) -> int:
    """How the rare digit fares with more people."""
    (epsilon,) = stage.moved("Add people", epsilon=RARE_EPSILONS)
    budgets = {f"ε = {epsilon:g}": epsilon, "no noise": math.inf}
    lines = {name: [game.recognised(one, int(n)).rare for n in PEOPLE] for name, one in budgets.items()}
    enough = _enough(epsilon)
    words = f"from {enough:g} people on" if enough is not None else "with none of these numbers of people"
    stage.curves(lines, PEOPLE, points=100 * _LEAST, words=words)
    of_one = _enough(1.0) or math.inf
    return 0 if of_one <= 10 else 1 if of_one <= 40 else 2


def sum_and_noise(stage: Stage) -> int:
    """How alike the noisy sum is to the sum."""
    (epsilon,) = stage.moved("Compare sums", epsilon=RARE_EPSILONS)
    measured, formula = zip(*(game.likeness(epsilon, int(n)) for n in PEOPLE), strict=True)
    lines = {"formula": formula, "measured": measured}
    stage.curves(lines, PEOPLE, few=PEOPLE[0], of_few=measured[0], many=PEOPLE[-1], of_many=measured[-1])
    beside = [math.sqrt(1 - one**2) / one for one in (game.likeness(1.0, n)[1] for n in (10, 20))]
    return reached(beside[0] / beside[1], 1.2, 1.7)


def what_helps(stage: Stage) -> int:
    """Three attempts to help the rare digit at the same ε."""

    def tried(epsilon: float) -> dict[str, game.Recognised]:
        return {
            "nothing": _recognised(epsilon),
            "each rare picture counts ten times": game.recognised(epsilon, FEW, weight=10.0),
            f"one label for {game.RARE} and {game.ALIKE}": game.recognised(epsilon, FEW, is_merged=True),
        }

    found, _ = stage.chosen("Try all three", tried, "epsilon", RARE_EPSILONS)
    shares = {f"{name}: the {game.RARE}": one.rare for name, one in found.items()}
    shares |= {f"{name}: other digits": one.others for name, one in found.items()}
    before, counted, merged = found.values()
    stage.bars(shares, before=before.rare, counted=counted.rare, others=counted.others, merged=merged.rare)
    return 1 if merged.rare > max(before.rare, counted.rare) + _LEAST else 0 if counted.rare > before.rare + _LEAST else 2


def _recognised(epsilon: float) -> game.Recognised:
    return game.recognised(epsilon, FEW)


def _enough(epsilon: float) -> float | None:
    """The fewest people from which on the rare digit loses less than `_LEAST`; None if no number here does."""
    lost = {n: game.recognised(math.inf, int(n)).rare - game.recognised(epsilon, int(n)).rare for n in PEOPLE}
    return next((n for n in PEOPLE if all(lost[more] < _LEAST for more in PEOPLE if more >= n)), None)
