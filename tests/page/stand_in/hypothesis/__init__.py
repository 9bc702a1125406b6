"""In place of Hypothesis, whose engine is compiled and has no build for a page: tests that draw examples are skipped."""

from __future__ import annotations

from typing import Any

import pytest


class Anything:
    """Whatever is asked of it, and whatever it is called with."""

    def __getattr__(self, name: str) -> Anything:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Anything:
        return self


HealthCheck = strategies = note = assume = Anything()


class Settings:
    """A decorator that changes nothing."""

    register_profile = load_profile = Anything()

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, test: Any) -> Any:
        return test


def given(*_: Any, **__: Any) -> Any:
    """Skips the test."""
    return pytest.mark.skip(reason="draws examples by Hypothesis")


example, settings = given, Settings
