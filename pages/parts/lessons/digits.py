"""Lesson "The last digits": an attacker who reads the last digits of a noisy sum, and sums rounded with their noise."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.figures.picture import minus
from dpcl_core.lessons import digits as game
from dpcl_core.lessons import duel
from dpcl_core.lessons.digits import Way
from dpcl_core.lessons.duel import Duel
from dpcl_core.privacy import statement
from pages.parts.lessons.stage import Stage
from pages.parts.shell.layout import table
from pages.parts.shell.text import percent

EPSILONS = (0.1, 0.3, 1.0, 4.0)
N_ROUNDS = 2000  # per side and press
N_SHOWN = 6
MOST_PRINTS = 500  # at ε = 0.1 about one in ten has a revealing digit; none of 500 has one with probability below 1e-20


def two_prints(stage: Stage) -> int:
    """Shows the smallest numbers of a print with her and of one without her, in steps of her number's grid."""
    epsilon = stage.choose("epsilon", EPSILONS)
    *prints, n_prints = stage.results("Print both", lambda: _revealing_prints(epsilon), epsilon)
    for name, released in zip(("With her", "Without her"), prints, strict=True):
        places = game.smallest(released, N_SHOWN)
        counts = released[places] / game.spacing(game.person())[places]
        rows = [(minus(f"{value:+.17f}"), f"{count:,.4f}") for value, count in zip(released[places], counts, strict=True)]
        table(("printed", "in steps of her number's grid"), rows, names=0, title=name)
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
        steps = game.steps_of(released[places], epsilon)
        pairs = zip(released[places], steps, strict=True)
        rows = [(minus(f"{value:+.12f}"), minus(f"{count:+,.0f}")) for value, count in pairs]
        table(("printed", "in steps of the public grid"), rows, names=0, title=name)
    return 0 if proven > epsilon else 1


def _revealing_prints(epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """A print with her, the first print without her that has a digit impossible with her, and that print's number."""
    without = game.releases(False, epsilon, MOST_PRINTS, "naive")
    first = int(game.cannot_be_hers(without).any(axis=1).argmax())
    return game.releases(True, epsilon, 1, "naive")[0], without[first], first + 1


def _played(stage: Stage, way: Way) -> tuple[Duel, float, float]:
    """Plays the rounds, and draws how often the attacker was right, and the bound.

    Returns the rounds, the chosen epsilon, and the epsilon that the rounds prove.
    """
    epsilon = stage.choose("epsilon", EPSILONS)
    played = stage.results(f"Play 2 × {N_ROUNDS:,} rounds", lambda: game.play(epsilon, N_ROUNDS, way), epsilon)
    (proven,) = duel.proven(played, [len(played.took_part)], game.DELTA)
    rounds = f"{len(played.took_part):,}"
    misses, rejections = len(played.took_part) - played.hits, len(played.stayed_away) - played.false_alarms
    table(
        ("with her (wrong)", "without her (right)", "right in all", "proves ε at least", "ε asked for"),
        [(f"{misses:,} of {rounds}", f"{rejections:,} of {rounds}", percent(played.share_right), f"{proven:.2f}",
          f"{epsilon:g}")],
        names=0, title="He said “not in”",
    )  # fmt: skip
    st.markdown(statement.odds(epsilon, game.DELTA))
    return played, epsilon, proven
