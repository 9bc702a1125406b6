"""Tunings in the store: trials kept as they end, whatever ends the process; turns in the queue beside runs."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import process, worker
from dpcl_core.runs.audits import Studies, Study
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.run import work_of
from dpcl_core.runs.store import Store
from dpcl_core.tuning import search
from dpcl_core.tuning.settings import Trial
from tests.support import replay, tuned
from tests.support.asserting import refuses
from tests.support.postgres import both, both_if_slow
from tests.support.waiting import NEVER_SECONDS, until

pytestmark = both_if_slow

TRIAL = Trial(0, 1e-3, 20, 2.0, 0.5, None, 1.0)


@pytest.fixture(autouse=True)
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "prepared", tuned.preparing())


@pytest.fixture
def studies(store: Store) -> Studies:
    return Studies(store)


@both
def test_a_tuning_is_queued_like_a_run_and_listed_apart_from_runs(store: Store, studies: Studies) -> None:
    run_id = store.create(replay.a_spec())
    study_id = studies.create(tuned.a_tuning())
    assert [run.id for run in store.list_runs()] == [run_id]
    assert [study.id for study in studies.newest()] == [study_id]
    assert [run.id for run in store.unfinished()] == [run_id, study_id]
    assert (studies.get(study_id).turn.place_in_queue, studies.of_run(study_id)) == (2, study_id)
    assert (studies.of_run(run_id), studies.get(study_id).tune) == (None, tuned.a_tuning())


@both
def test_trials_and_sizes_come_back_as_they_were(studies: Studies) -> None:
    study_id = studies.create(tuned.a_tuning())
    failed = Trial(1, 1e-2, 30, 0.3, None, "the loss is not finite", 0.1)
    studies.add_sizes(study_id, tuned.SIZES)
    studies.add_trial(study_id, failed)
    studies.add_trial(study_id, TRIAL)
    studies.add_trial(study_id, TRIAL)  # again, its answer having been lost
    found = Studies(Store()).get(study_id)
    assert (found.trials, found.sizes) == ((TRIAL, failed), tuned.SIZES)
    refuses("each trial ending once", lambda: studies.add_trial(study_id, replace(TRIAL, accuracy=0.1)))


def test_a_tuning_whose_method_is_gone_is_left_out_of_the_list_and_named(studies, monkeypatch):
    study_id = studies.create(tuned.a_tuning())
    monkeypatch.setattr("dpcl_core.methods.catalog.CARDS", {})
    assert studies.newest() == []
    refuses("method = peft-ensemble", studies.get, study_id)


def test_a_worker_of_a_tuning_keeps_every_trial_and_finishes(store: Store, studies: Studies) -> None:
    study_id = studies.create(tuned.a_tuning(4))
    assert replay.carried_out(store, study_id) == "finished"
    found = studies.get(study_id)
    assert [trial.number for trial in found.trials] == list(range(4))
    assert found.turn.status == "finished"
    assert not found.is_resumable
    refuses("has all its 4 trials", studies.resume, study_id)


def test_a_tuning_outlasts_a_store_that_is_away_for_a_moment(store: Store, studies: Studies, monkeypatch) -> None:
    study_id = studies.create(tuned.a_tuning(2))
    assert store.claim(study_id, process.me())
    troubles, true_get = iter([StoreTrouble("away")]), Studies.get

    def get(self: Studies, of: str) -> Study:
        if (trouble := next(troubles, None)) is not None:
            raise trouble
        return true_get(self, of)

    monkeypatch.setattr(Studies, "get", get)
    assert worker.carry_out(store, study_id) == "finished"


def test_a_tuning_in_which_nothing_ends_well_fails_and_keeps_its_trials(store: Store, studies: Studies, monkeypatch) -> None:
    study_id = studies.create(tuned.a_tuning(2))
    monkeypatch.setattr(search, "prepared", tuned.preparing(limit=0.0))
    assert replay.carried_out(store, study_id) == "failed"
    found = studies.get(study_id)
    assert found.turn.error_kind == "diverged"
    assert "none of the 2 trials ended well" in str(found.turn.error)
    assert [trial.accuracy for trial in found.trials] == [None, None]


@pytest.mark.slow
def test_killed_in_the_middle_it_keeps_its_trials_and_goes_on_after_them(store: Store, studies: Studies) -> None:
    runner = LocalExecutor(store, tuned.command(0.4))
    study_id = studies.create(tuned.a_tuning(6))
    runner.submit(study_id)
    until(lambda: len(studies.get(study_id).trials) >= 2)
    carried_out_by = studies.get(study_id).turn.process
    os.kill(carried_out_by.pid, signal.SIGKILL)
    until(lambda: process.is_alive(carried_out_by) is False)
    runner.schedule()
    lost = studies.get(study_id)
    assert lost.turn.status == "lost"
    assert len(lost.trials) >= 2
    assert lost.is_resumable

    resumed = studies.resume(study_id)
    refuses("is under way", studies.resume, study_id)
    assert studies.of_run(resumed) == study_id
    LocalExecutor(store, tuned.command(0)).submit(resumed)
    until(lambda: studies.get(study_id).turn.is_over)
    whole = studies.get(study_id)
    assert (whole.turn.status, whole.trials[: len(lost.trials)]) == ("finished", lost.trials)
    assert [trial.number for trial in whole.trials] == list(range(6))
    assert [study.id for study in studies.newest()] == [study_id]


@pytest.mark.slow
def test_a_stop_takes_effect_in_a_long_trial_and_keeps_the_trials(store: Store, studies: Studies) -> None:
    """A trial that never ends and says nothing meanwhile."""
    runner = LocalExecutor(store, tuned.command(NEVER_SECONDS))
    study_id = studies.create(tuned.a_tuning())
    studies.add_trial(study_id, TRIAL)
    runner.submit(study_id)
    until(lambda: store.status(study_id) == "running")
    runner.stop(study_id)
    until(lambda: store.get(study_id).is_over)
    assert store.status(study_id) == "cancelled"
    assert studies.get(study_id).trials == (TRIAL,)
    assert studies.get(study_id).is_resumable


def test_how_long_a_tuning_took_says_nothing_about_runs(store: Store, studies: Studies) -> None:
    tune = tuned.a_tuning(2)
    study_id = studies.create(tune)
    replay.carried_out(store, study_id)
    assert store.estimates([work_of(tune.base)])[0] is None
    assert studies.get(studies.create(tune)).turn.estimate_seconds is not None


@pytest.mark.parametrize("study_id", ["nonsense", "0123456789ab"])
def test_an_unknown_tuning_is_one_sentence(studies: Studies, study_id: str) -> None:
    for act in (studies.get, studies.resume):
        refuses(study_id, act, study_id)
