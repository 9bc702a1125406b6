"""Audits play with noise from the operating system; in most tests here it is the same noise every time."""

import numpy as np
import pytest


@pytest.fixture
def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's random bytes are those of a seeded generator, so that an audit finds the same every time."""
    generator = np.random.default_rng(20)
    monkeypatch.setattr("ssl.RAND_bytes", generator.bytes)
    monkeypatch.setattr("os.urandom", generator.bytes)
