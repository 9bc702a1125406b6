"""Two apps that look after one store never start a run twice, and never leave one to each other."""

from __future__ import annotations

import pytest

from scripts.record_outages import Starts, race
from tests.support.postgres import both


@both
@pytest.mark.parametrize("races", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_of_two_apps_that_see_a_run_at_once_one_starts_it(home, races):
    assert race(races) == Starts(races, twice=0, never=0)
