"""Outlasting a store that is away (locked, restarting, full): tries again after pauses that grow, for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dpcl_core.errors import StoreGone, StoreRefused, StoreTrouble, StoreUnknown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How to try again, in seconds: pauses double from the first to the longest; `give_up` counts from the first failure."""

    first_pause: float = 0.25
    longest_pause: float = 2.0
    give_up: float = 300.0

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, from 1."""
        return min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))

    def outlast(self, act: Callable[[], T]) -> T:
        """The result of `act`, which is called again while the store is away; it must be one that may be called twice.

        Raises StoreTrouble when the store stays away, and at once for an address that can be none and for a file that is
        gone or another user's.
        """
        end, failures = time.monotonic() + self.give_up, 0
        while True:
            try:
                return act()
            except (StoreUnknown, StoreGone, StoreRefused):
                raise
            except StoreTrouble:
                failures += 1
                pause = self.pause(failures)
                if time.monotonic() + pause > end:
                    raise
                time.sleep(pause)
