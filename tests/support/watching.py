"""A function that does what it did, and of which a test hears."""

from collections.abc import Callable
from typing import Any

import pytest


def watched(patch: pytest.MonkeyPatch, owner: object, name: str, note: Callable[[Any, tuple[Any, ...]], object]) -> None:
    """From now on `note` is called after each call of the owner's function, with what it returned and was given in order."""
    true = getattr(owner, name)

    def watching(*given: Any, **named: Any) -> Any:
        found = true(*given, **named)
        note(found, given)
        return found

    patch.setattr(owner, name, watching)
