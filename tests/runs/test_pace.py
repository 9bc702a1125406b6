"""How far and how long: never backwards, never below nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.events import Event, Progress, Started, TaskLearned
from dpcl_core.methods import catalog
from dpcl_core.runs.run import fraction_done, n_trained_together, seconds_left, stage, steady
from dpcl_core.spec import Cell
from tests.support import replay

SPEC = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0, 1))  # four cells
STARTED = Started(2, ("a", "b"), "Digits", 10, 10)


def training(done: int, total: int) -> Progress:
    return Progress("training", done, total, 0, "")


def learned(n: int) -> list[Event]:
    return [TaskLearned(Cell(1.0, 0), 0, (0.5,), 0.5, 1.0)] * n


def test_the_share_done_counts_tasks_learned_by_all_cells_and_what_is_done_of_the_next():
    assert (fraction_done(SPEC, []), fraction_done(SPEC, [Progress("backbone", 1, 1, None, "")])) == (0, 0)
    assert fraction_done(SPEC, [STARTED, training(1, 4)]) == pytest.approx(1 / 8)
    assert fraction_done(SPEC, [STARTED, training(4, 4), *learned(4)]) == pytest.approx(4 / 8)
    assert fraction_done(SPEC, [STARTED, training(4, 4), *learned(4), training(1, 2)]) == pytest.approx(6 / 8)
    assert fraction_done(SPEC, replay.recorded(SPEC)) == 1


def test_a_learner_of_one_seed_counts_for_its_own_cells_alone(monkeypatch):
    together = replace(catalog.CARDS["cosine"], cells_per_learner="epsilons")
    monkeypatch.setattr(catalog, "CARDS", {**catalog.CARDS, "cosine": together})
    assert fraction_done(SPEC, [STARTED, training(1, 2)]) == pytest.approx(1 / 8)
    assert fraction_done(SPEC, [STARTED, training(2, 2), *learned(2), training(1, 2)]) == pytest.approx(3 / 8)


later = [event for event in replay.recorded(SPEC) if not isinstance(event, Started)]
events = st.one_of(st.builds(training, st.integers(0, 9), st.integers(0, 7)), st.sampled_from(later))


@given(st.lists(events, max_size=30))
def test_the_share_done_never_goes_back_and_stays_between_nothing_and_all(said):
    shares = [fraction_done(SPEC, [STARTED, *said[:n]]) for n in range(len(said) + 1)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)


@given(st.floats(0, 1), st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_the_time_left_is_a_range_and_never_negative(fraction, elapsed, estimate):
    left = seconds_left(fraction, elapsed, estimate)
    if left is None:
        assert estimate is None
        assert fraction < 0.05
    else:
        assert 0 <= left[0] <= left[1]


def test_the_time_left_holds_the_plain_guesses_and_narrows_to_nothing():
    low, high = seconds_left(0.25, 10)
    assert low < 30 < high
    low, high = seconds_left(0.25, 10, estimate=100)
    assert low < 30
    assert high > 90
    assert (seconds_left(1, 10), seconds_left(0, 10)) == ((0, 0), None)
    assert seconds_left(0, 10, estimate=4)[0] == 0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 1e6), st.floats(1, 3), st.floats(0, 60))
def test_the_shown_time_never_jumps_by_more_than_half(one, other, low, spread, since):
    before = (low, spread * low)
    now = steady((min(one, other), max(one, other)), before, since)
    assert now[0] <= now[1]
    for shown, was in zip(now, before, strict=True):
        expected = max(was - since, 1)
        assert 0.5 * expected <= shown * (1 + 1e-12)
        assert shown <= 1.5 * max(expected, before[0] - since, 1) * (1 + 1e-12)


def test_it_reaches_the_fresh_guess_where_that_is_near():
    assert steady((8.0, 12.0), (10.0, 14.0), 2.0) == (8.0, 12.0)
    assert steady((100.0, 200.0), (10.0, 14.0), 2.0) == (12.0, 18.0)


def test_the_stage_before_the_first_task_is_the_newest_one():
    early = [Progress("data", 0, 1, None, "loading"), Progress("backbone", 3, 9, None, "computing")]
    assert (stage([]), stage(early), stage([*early, STARTED])) == (None, early[-1], None)


def test_models_trained_at_once_follow_from_the_methods_card(monkeypatch):
    for shares, n in (("all", 4), ("epsilons", 2), ("cell", 1)):
        shared = replace(catalog.CARDS["cosine"], cells_per_learner=shares)
        monkeypatch.setattr(catalog, "CARDS", {**catalog.CARDS, "cosine": shared})
        assert n_trained_together(SPEC) == n
