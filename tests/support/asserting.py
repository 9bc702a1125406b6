"""Several texts that something includes, or does not: the first that fails is named."""

from __future__ import annotations

from collections.abc import Container


def includes(said: Container[object], *wanted: object) -> None:
    """Asserts that each of these is in it."""
    for one in wanted:
        assert one in said, f"{one!r} is missing"


def excludes(said: Container[object], *others: object) -> None:
    """Asserts that none of these is in it."""
    for one in others:
        assert one not in said, f"{one!r} is there"
