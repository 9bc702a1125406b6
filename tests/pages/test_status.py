"""The words of every state, from a prepared store and a clock of our own."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from dpcl_core.events import CellFinished, Progress, Started, TaskLearned
from dpcl_core.methods import catalog
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from pages.parts import status_line
from tests.support import replay

SPEC = replay.a_spec()
ALL = replay.recorded(SPEC)
HALF = [
    event
    for event in ALL
    if not isinstance(event, CellFinished) and not (isinstance(event, (TaskLearned, Progress)) and (event.task or 0) > 2)
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path / 'store.sqlite'}")


def _run(store: Store, state: str, events: list[object], **changes: object) -> Run:
    run = store.get(replay.fill(store, SPEC, events, status=state))  # type: ignore[arg-type]
    return dataclasses.replace(run, **changes)  # type: ignore[arg-type]


def test_queued_says_place_and_device_and_time(store: Store) -> None:
    said = status_line.of(_run(store, "queued", [], place_in_queue=2, estimate_seconds=4.0), [], now=0)
    assert said.label == "Queued"
    assert said.detail == "place 2 in the queue for cpu · then about 3–6 s"


def test_starting_says_what_is_being_loaded_and_for_how_long(store: Store) -> None:
    run = _run(store, "starting", ALL[:2], started=100.0, seconds=2.5, silent_seconds=0.5)
    said = status_line.of(run, ALL[:2], now=103.0)
    assert said.detail == "computing features with pixels · 3 s so far"


def test_running_says_task_spent_budget_and_time_left_as_a_range(store: Store) -> None:
    run = _run(store, "running", HALF, started=100.0, seconds=12.0, silent_seconds=0.0, estimate_seconds=20.0)
    said = status_line.of(run, HALF, now=112.0)
    assert said.headline == "Task 4 of 5"
    assert said.detail == "learning task 4 · largest ε accounted so far 8 · 7–10 s left"
    assert said.fraction == pytest.approx(3 / 5)


def test_a_time_left_whose_ends_are_far_apart_is_told_as_at_most(store: Store) -> None:
    run = _run(store, "running", HALF, started=100.0, seconds=1.0, silent_seconds=0.0, estimate_seconds=50.0)
    said = status_line.of(run, HALF, now=101.0)
    assert said.left == (pytest.approx(2 / 3 / 1.2), pytest.approx(49 * 1.2))
    assert said.detail.endswith(" · up to 59 s left")


def test_computing_features_has_a_bar_of_its_own_and_a_time_left(store: Store) -> None:
    run = _run(store, "running", [], started=100.0, estimate_seconds=500.0)
    line = status_line.of(run, [Progress("backbone", 250, 1000, None, "computing features with pixels")], now=110.0)
    assert line.headline == "Preparing"
    assert line.fraction == 0.25
    assert line.is_stage
    assert line.detail == "computing features with pixels · 250 of 1,000 · 22–42 s left for this step"  # 30 s, give or take


def test_features_have_a_bar_from_the_start_of_the_process_to_the_first_training(store: Store) -> None:
    """A worker counts features before its run has begun; those of public sentences follow the event that begins it."""
    counted = Progress("backbone", 250, 1000, None, "computing features with MiniLM")
    line = status_line.of(_run(store, "starting", [], started=100.0), [counted], now=110.0)
    assert (line.label, line.fraction, line.is_stage) == ("Starting", 0.25, True)
    assert "250 of 1,000" in line.detail
    assert line.left is not None
    begun = [event for event in HALF if isinstance(event, Started)]
    run = dataclasses.replace(_run(store, "finished", []), status="running", started=100.0)
    line = status_line.of(run, [*begun, counted], now=110.0)
    assert (line.headline, line.fraction, line.is_stage) == ("Preparing", 0.25, True)
    assert not status_line.of(run, [*HALF, counted], now=110.0).is_stage, "later features are a part of the training"


def test_the_time_left_follows_the_last_look_but_not_over_the_end_of_a_stage(store: Store) -> None:
    run = _run(store, "running", HALF, started=100.0, seconds=12.0, silent_seconds=0.0)
    first = status_line.of(run, HALF, now=112.0)
    assert first.left is not None
    before = status_line.Look(replace(first, left=(1000.0, 2000.0)), 111.0)
    later = status_line.of(run, HALF, now=112.0, before=before)
    assert later.left == (pytest.approx(499.5), pytest.approx(999.5))  # half of what was to be expected
    stage = status_line.Look(replace(first, left=(1000.0, 2000.0), is_stage=True), 111.0)
    assert status_line.of(run, HALF, now=112.0, before=stage).left == first.left


def test_trainings_one_after_another_are_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(store, "running", [], started=100.0)
    monkeypatch.setitem(catalog.CARDS, "cosine", replace(catalog.CARDS["cosine"], shares="cell"))
    one_by_one = ALL[:3] + [e for cell in SPEC.cells() for e in ALL if isinstance(e, TaskLearned) and e.cell == cell]
    n_cells = len(list(SPEC.cells()))
    assert status_line.of(run, one_by_one[:3], now=105.0).headline == f"Training 1 of {n_cells} · Task 1 of 5"
    assert status_line.of(run, one_by_one[: 3 + 5 + 2], now=105.0).headline == f"Training 2 of {n_cells} · Task 3 of 5"
    assert status_line.of(run, one_by_one, now=105.0).headline.startswith(f"Training {n_cells} of {n_cells}")


def test_progress_never_falls_while_events_arrive(store: Store) -> None:
    run = _run(store, "running", [], started=100.0)
    shares = [status_line.of(run, ALL[:n], now=105.0).fraction or 0.0 for n in range(len(ALL))]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_models_learned_one_after_another_count_the_newest(store: Store) -> None:
    one_by_one = ALL[:3] + [e for cell in SPEC.cells() for e in ALL if isinstance(e, TaskLearned) and e.cell == cell]
    run = _run(store, "running", [], started=100.0)
    first_done = status_line.of(run, one_by_one[: 3 + 5 + 2], now=105.0)
    assert first_done.headline == "Task 3 of 5"


@pytest.mark.parametrize(
    ("state", "label", "words"),
    [
        ("stopping", "Stopping", "results so far are kept"),
        ("cancelled", "Cancelled", "stopped on request; the curves so far are kept"),
        ("finished", "Finished", "took 10 s"),
    ],
)
def test_plain_states(store: Store, state: str, label: str, words: str) -> None:
    said = status_line.of(_run(store, state, HALF), HALF, now=0)
    assert said.label == label
    assert words in said.detail
    assert said.tone != "bad"


@pytest.mark.parametrize(
    ("kind", "fix"),
    [("out-of-memory", "fewer examples"), ("diverged", "Change the settings"), ("data-missing", "Put the data where"),
     ("store", "disk space"), ("wrong-input", "Change the setting"), ("internal", "details below")],
)  # fmt: skip
def test_failures_are_told_apart_by_what_to_do(store: Store, kind: str, fix: str) -> None:
    run = store.get(replay.fill(store, SPEC, HALF, status="failed", failure=replay.a_failure(kind)))  # type: ignore[arg-type]
    said = status_line.of(run, HALF, now=0)
    assert said.headline == f"This run failed on purpose ({kind})."
    assert fix in said.detail
    assert said.tone == "bad"


@pytest.mark.parametrize(
    ("reported", "headline"),
    [
        ("training diverged at step 2 of 9", "Training diverged at step 2 of 9."),
        ("params.epochs = 0: must be at least 1", "params.epochs = 0: must be at least 1."),
        ("own:mine/train.parquet row 0, window = nan", "own:mine/train.parquet row 0, window = nan."),
        ("The disk is full.", "The disk is full."),
    ],
)
def test_what_a_program_reported_reads_as_a_sentence(store: Store, reported: str, headline: str) -> None:
    assert status_line.of(_run(store, "failed", HALF, error=reported), HALF, now=0).headline == headline


def test_lost_says_when_and_offers_retry(store: Store) -> None:
    told = status_line.of(_run(store, "lost", HALF), HALF, now=0)
    assert told.headline.startswith("This run failed on purpose (worker-died)")
    silent = status_line.of(_run(store, "lost", HALF, error=None, heartbeat=0.0), HALF, now=0)
    assert silent.headline.startswith("The computer stopped this run")
    assert "Retry" in silent.detail


def test_estimates_are_ranges_in_fitting_units() -> None:
    assert status_line.estimate(None, is_here=False).startswith("No such run yet")
    assert status_line.estimate(4.0, is_here=True) == "About 3–6 s on this computer."
    assert status_line.estimate(600.0, is_here=False) == "About 8–15 min, measured on another computer."
    assert status_line.estimate(3 * 3600.0, is_here=True) == "About 2.2–4.5 h on this computer."
