"""Lesson 7, "The last digits": an attacker who reads the last digits of a noisy sum, and sums rounded with their noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.lessons import digits as game
from dpcl_core.lessons import duel
from dpcl_core.lessons.digits import Way
from dpcl_core.lessons.duel import Duel
from dpcl_core.privacy import statement
from pages.parts.lessons.stage import Stage

EPSILONS = (0.1, 0.3, 1.0, 4.0)
N_ROUNDS = 2000  # per side and press
N_SHOWN = 6
MOST_PRINTS = 500  # at ε = 0.1 about one in ten has a revealing digit; none of 500 has one with probability below 1e-20


def two_prints(stage: Stage) -> int | None:
    """Shows the smallest numbers of a print with her and of one without her, in steps of her number's grid."""
    epsilon = stage.choose("epsilon", EPSILONS)
    drawn = stage.press("Print both", lambda: _revealing_prints(epsilon), epsilon)
    if drawn is None:
        return None
    stage.see()
    *prints, n_prints = drawn
    for name, released in zip(("With her", "Without her"), prints, strict=True):
        places = game.smallest(released, N_SHOWN)
        counts = released[places] / game.spacing(game.person())[places]
        rows = [(f"{value:+.17f}", f"{count:,.4f}") for value, count in zip(released[places], counts, strict=True)]
        _table(name, ("printed", "in steps of her number's grid"), rows)
    st.caption(f"Without her, this is print number {n_prints}: the first with such a number.")
    return 1


def attack(stage: Stage) -> int | None:
    """Runs the attack on floating-point sums."""
    played, epsilon = _played(stage, "naive")
    if played is None:
        return None
    _results(stage, played, epsilon)
    return 0 if played.share_right < 0.6 else 1 if played.share_right < 0.74 else 2


def more_noise(stage: Stage) -> int | None:
    """Runs the attack on floating-point sums at a small epsilon."""
    played, epsilon = _played(stage, "naive")
    if played is None:
        return None
    return 1 if _results(stage, played, epsilon) > epsilon else 0


def rounded(stage: Stage) -> int | None:
    """Runs the attack on this project's own mechanism, and shows its prints."""
    played, epsilon = _played(stage, "rounded")
    if played is None:
        return None
    proven = _results(stage, played, epsilon)
    for name, released in zip(("With her", "Without her"), _both(epsilon, "rounded"), strict=True):
        places = game.smallest(released, N_SHOWN)
        steps = game.steps_of(released[places], epsilon)
        rows = [(f"{value:+.12f}", f"{count:+,.0f}") for value, count in zip(released[places], steps, strict=True)]
        _table(name, ("printed", "in steps of the public grid"), rows)
    return 0 if proven > epsilon else 1


def _both(epsilon: float, way: Way) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with_her, without = (game.releases(is_in, epsilon, 1, way)[0] for is_in in (True, False))
    return with_her, without


def _revealing_prints(epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """A print with her, the first print without her that has a digit impossible with her, and that print's number."""
    without = game.releases(False, epsilon, MOST_PRINTS, "naive")
    first = int(game.cannot_be_hers(without).any(axis=1).argmax())
    return game.releases(True, epsilon, 1, "naive")[0], without[first], first + 1


def _played(stage: Stage, way: Way) -> tuple[Duel | None, float]:
    epsilon = stage.choose("epsilon", EPSILONS)

    def play() -> Duel:
        return game.play(epsilon, N_ROUNDS, way)

    return stage.press(f"Play 2 × {N_ROUNDS:,} rounds", play, epsilon), epsilon


def _results(stage: Stage, played: Duel, epsilon: float) -> float:
    """Draws how often the attacker was right, and the bound; returns the epsilon that the rounds prove."""
    stage.see()
    (proven,) = duel.proven(played, [len(played.took_part)], game.DELTA)
    rounds = f"{len(played.took_part):,}"
    said_out = (len(played.took_part) - played.hits, len(played.stayed_away) - played.false_alarms)
    _table(
        "He said “not in”",
        ("with her (wrong)", "without her (right)", "right in all", "proves ε at least", "ε asked for"),
        [(f"{said_out[0]:,} of {rounds}", f"{said_out[1]:,} of {rounds}", f"{100 * played.share_right:.1f} %",
          f"{proven:.2f}", f"{epsilon:g}")],
    )  # fmt: skip
    st.markdown(statement.odds(epsilon, game.DELTA))
    return proven


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    st.markdown(f"**{title}**\n\n| {' | '.join(head)} |\n|{'---:|' * len(head)}\n{lines}")
