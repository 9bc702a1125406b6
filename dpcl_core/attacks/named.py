"""An attack of a game against a published claim: its name, its attacker's knowledge and its number of releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

CONFIDENCE = 0.95
Play = TypeVar("Play")


@dataclass(frozen=True, slots=True)
class Attack(Generic[Play]):
    """One attack, and what its attacker is assumed to see and to know.

    `play`: a function that plays the game for a number of releases on each side. `times`: releases for each requested one,
    for attacks whose releases are cheap and reveal little; `most`: the largest number that does not take minutes.
    """

    title: str
    attack: str
    adversary: str
    play: Play
    times: int = 1
    most: int | None = None

    def n_releases(self, trials: int) -> int:
        """Releases on each side for `trials` requested ones."""
        return min(trials * self.times, self.most or trials * self.times)
