"""Which parameters of a test `make test` takes: a few of each kind. All others are marked slow, for `make test-slow`."""

from collections.abc import Iterable
from typing import Any

import pytest

# One method of each family.
TAKEN = ("cosine", "dp-agem", "pecl-published", "cslr-central")


def of_methods(values: Iterable[str | tuple[str, ...]], *, also: Iterable[str] = ()) -> list[Any]:
    """All names, or tuples with one, as values of a parameter, slow but for those of `TAKEN` and `also`."""
    taken = {*TAKEN, *also}
    named = [(value, {value} if isinstance(value, str) else set(value)) for value in values]
    return [value if taken & names else _slow(value) for value, names in named]


def quick(n: int, values: Iterable[Any]) -> list[Any]:
    """All values of a parameter, or tuples of values of several, slow but for the first n."""
    return [value if place < n else _slow(value) for place, value in enumerate(values)]


def _slow(value: object) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
