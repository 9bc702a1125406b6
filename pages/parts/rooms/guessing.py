"""Codes of rooms cannot be tried out: after so many that no room has, an address waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from dpcl_core.errors import BadInput

MOST: Final = 30  # within `SECONDS`: a class may mistype
SECONDS: Final = 60.0
_KNOWN: Final = 10_000  # that are remembered at a time
K = TypeVar("K")
V = TypeVar("V")
_misses: dict[str, dict[str, float]] = {}  # when an address tried each code
_hits: dict[tuple[str, str], None] = {}  # addresses with the codes that they know
_lock = threading.Lock()


@contextmanager
def counted(address: str, code: str) -> Iterator[None]:
    """Within this context a code is looked up from an address. Raises BadInput where it has tried too many others.

    A code that the address knew is always looked up: who guesses must not shut out a class that shares the address.
    """
    now = time.monotonic()
    with _lock:
        recent = {one: at for one, at in _misses.get(address, {}).items() if at > now - SECONDS}
        if len(recent) >= MOST and (address, code) not in _hits:
            wait = min(recent.values()) + SECONDS - now
            allowed = f"wait {wait:.0f} seconds: too many codes that no room has came from your address"
            raise BadInput("room", code[:20].strip() or "nothing", allowed)
    try:
        yield
    except BadInput:
        with _lock:
            _put(_misses, address, {code[:20]: now, **recent})  # the pages of a room that was closed ask on: that is one
        raise
    with _lock:
        _put(_hits, (address, code), None)


def _put(known: dict[K, V], key: K, value: V) -> None:
    known.pop(key, None)
    known[key] = value
    while len(known) > _KNOWN:
        del known[next(iter(known))]
