"""Audits in the store: turns in the queue beside runs, results kept with the run as they come, whatever ends the process."""

import json
import math
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpcl_core import checks, export
from dpcl_core.attacks import one_run
from dpcl_core.cli import main
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.events import CellFinished, Event, Guarantee, Leaks
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.runs import administration, audits, process, worker
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.run import work_of
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell, RunSpec
from dpcl_core.tuning import search
from dpcl_core.tuning.settings import Trial
from tests.data.making import put
from tests.support import audited, replay, tuned
from tests.support.asserting import in_turn, refuses
from tests.support.postgres import both, both_if_slow
from tests.support.waiting import NEVER_SECONDS, until

pytestmark = both_if_slow

SPEC = replay.a_spec(epsilons=(1.0, math.inf), seeds=(0,))


@pytest.fixture
def run_id(store: Store) -> str:
    return replay.fill(store, SPEC, replay.recorded(SPEC))


def played(spec: RunSpec, epsilon: float) -> Audited:
    return audited.result(epsilon)


@pytest.fixture(autouse=True)
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_run, "audited", played)


@both
def test_an_audit_is_queued_like_a_run_and_listed_apart_from_runs(store: Store, run_id: str) -> None:
    audit_id = Audits(store).create(run_id)
    assert [run.id for run in store.list_runs()] == [run_id]
    assert [run.id for run in store.unfinished()] == [audit_id]
    assert Audits(store).is_audit(audit_id)
    assert not Audits(store).is_audit(run_id)
    assert [audit.turn.id for audit in Audits(store).of_run(run_id)] == [audit_id]


def test_a_worker_keeps_each_budgets_result_with_the_run(store: Store, run_id: str) -> None:
    assert replay.carried_out(store, Audits(store).create(run_id)) == "finished"
    (found,) = Audits(Store()).of_run(run_id)
    assert found.results == (audited.result(1.0), audited.result(math.inf))
    assert store.estimates([work_of(SPEC)])[0] is not None  # of the run alone, as below
    assert store.get(Audits(store).create(run_id)).estimate_seconds == pytest.approx(found.turn.seconds)
    told = json.loads(export.bundle(store, run_id)["result.json"])
    assert [each["audited_lower_bound"] for each in told["audits"]] == [0.5, 0.5]
    assert (told["audits"][0]["through"], told["audits"][1]["accounted_epsilon"]) == ("run", "inf")


def test_what_goes_wrong_is_one_sentence_and_keeps_what_was_found(store: Store, run_id: str, monkeypatch) -> None:
    def broken(spec: RunSpec, epsilon: float) -> Audited:
        if math.isinf(epsilon):
            raise BadInput("params", "x", "must be something else")
        return played(spec, epsilon)

    monkeypatch.setattr(one_run, "audited", broken)
    audit_id = Audits(store).create(run_id)
    assert replay.carried_out(store, audit_id) == "failed"
    found = Audits(store).get(audit_id)
    assert (found.turn.error, found.results) == ("params = x: must be something else", (audited.result(1.0),))


def test_a_stop_takes_effect_in_a_long_training(store: Store, run_id: str) -> None:
    runner = LocalExecutor(store, audited.COMMAND)
    audit_id = Audits(store).create(run_id)
    runner.submit(audit_id)
    until(lambda: store.status(audit_id) == "running")
    runner.stop(audit_id)
    until(lambda: store.get(audit_id).is_over)
    assert store.status(audit_id) == "cancelled"


def test_a_run_that_cannot_be_audited_so_is_refused_with_the_command_that_does_it(store: Store) -> None:
    shared = store.create(checks.parse({"method": "l2dp-ml", "data": {"dataset": "mnist"}}))
    refuses(r"share one draw of noise.* this audits it: python -m dpcl_core audit --set ", Audits(store).create, shared)
    assert len(store.unfinished()) == 1


@pytest.fixture
def on_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """Settings of a run on a folder that somebody put there, written long ago."""
    monkeypatch.delenv("DPCL_DATA", raising=False)
    os.utime(put(home / "data" / "mine" / "train.csv", "a,label\n1,x\n"), (0, 0))
    return replace(SPEC, data=replace(SPEC.data, dataset="own:mine"))


def test_a_run_whose_data_were_written_since_is_not_audited(store: Store, home: Path, on_own: RunSpec) -> None:
    run_id = replay.fill(store, on_own, replay.recorded(on_own))
    audit_id = Audits(store).create(run_id)
    os.utime(home / "data" / "mine" / "train.csv")
    refuses(f"own:mine: must be as run {run_id} read it, but was written again since", Audits(store).create, run_id)
    assert replay.carried_out(store, audit_id) == "failed"
    assert "written again since" in str(store.get(audit_id).error), "also where they were written while it waited"


def test_a_resumed_run_is_compared_with_when_it_first_began(store: Store, home: Path, on_own: RunSpec) -> None:
    """A Resume that is refused, since the data were written again, still leaves a later start."""
    run_id = replay.fill(store, on_own, replay.recorded(on_own))
    administration.check_own_files(store, store.get(run_id))
    created = store.get(run_id).created
    os.utime(home / "data" / "mine" / "train.csv", (created + 60, created + 60))
    replay.alter(store, run_id, started=created + 3600, finished=created + 3600)
    refuses("written again since", lambda: Audits(store).create(run_id))


def test_an_audit_outlasts_a_store_that_is_away_for_a_moment(store: Store, run_id: str, monkeypatch) -> None:
    audit_id = Audits(store).create(run_id)
    assert store.claim(audit_id, process.me())
    looks = [StoreTrouble("away"), None, StopIteration()]
    monkeypatch.setattr(administration, "check_own_files", in_turn(looks, administration.check_own_files))
    assert worker.carry_out(store, audit_id) == "finished"


def test_a_set_goes_no_further_on_data_that_were_written_since(store: Store, home: Path, on_own: RunSpec) -> None:
    set_id = Sets(store).create("a question", {"a": on_own, "b": replace(on_own, seeds=(1,))})
    first, second = (run.id for run in Sets(store).get(set_id).runs.values())
    administration.check_set(store, first)
    replay.ended(store, first)
    administration.check_set(store, second)
    os.utime(home / "data" / "mine" / "train.csv", (1e10, 1e10))
    administration.check_set(store, first)
    assert replay.carried_out(store, second) == "failed"
    assert f"must be as run {first} read it" in str(store.get(second).error)


@pytest.mark.parametrize("unknown", ["nonsense", "0123456789ab"])
def test_an_unknown_audit_or_tuning_is_one_sentence(store: Store, studies: Studies, unknown: str) -> None:
    for act in (Audits(store).get, Audits(store).create, studies.get, studies.resume):
        refuses(unknown, act, unknown)


def test_an_audit_that_is_deleted_for_good_is_not_listed(store: Store, run_id: str) -> None:
    gone, stays = (Audits(store).create(run_id) for _ in range(2))
    store.request_stop(gone)
    store.delete(gone)
    administration.empty_trash(store)
    assert [audit.turn.id for audit in Audits(store).of_run(run_id)] == [stays]


@both
def test_an_audit_under_way_adds_nothing_to_a_run_that_is_deleted_for_good(store: Store, run_id: str) -> None:
    audits = Audits(store)
    audit_id = audits.create(run_id)
    audits.add(audit_id, audited.result(1.0))
    store.delete(run_id)
    audits.add(audit_id, audited.result(2.0))  # from the trash it may be restored
    assert len(audits.get(audit_id).results) == 2
    administration.empty_trash(store)
    refuses("it or its run was deleted for good", lambda: audits.add(audit_id, audited.result(math.inf)))
    assert audits.get(audit_id).results == ()


# The audit of a whole trained model: what it reads off a run's events, and what it refuses in a sentence.


CELLS = (Cell(2.0, 0), Cell(2.0, 1))


def of_codes(dataset: str = "pii-synthetic") -> RunSpec:
    return checks.parse({
        "method": "lm-seqft", "data": {"dataset": dataset, "backbone": "lm-tiny"},
        "scenario": {"kind": "source-incremental"}, "labels": "prior", "privacy": {"epsilons": [2.0]}, "seeds": [0, 1],
    })  # fmt: skip


def leaks(cell: Cell, task: int, bound: float) -> Leaks:
    return Leaks(
        cell, task, (0, 1, 16), (1.4, 2.0, 9.0), (1.4, 1.0, 0.1), (0, 0, 0.5), (0, 0, 0.5), (60, 30, 29), bound, 0.95
    )


def finished(cell: Cell, epsilon: float) -> CellFinished:
    bound = Guarantee(epsilon, 1e-5, "a text", "add-remove", "", "", cell.epsilon, "release", (), (), (), {})
    return CellFinished(cell, {}, bound, 1.0)


def events() -> Iterator[Event]:
    """Two models; the first one's codes are asked twice."""
    for cell, bound, epsilon in zip(CELLS, (0.4, 0.0), (1.9, math.inf), strict=True):
        yield leaks(cell, -1, 0.0)
        yield leaks(cell, 5, bound)
        yield finished(cell, epsilon)


def test_the_last_word_on_every_model_counts() -> None:
    first, second = audits.results(of_codes(), events())
    assert (first.claimed, first.accounted, first.lower_bound, first.trials) == (2.0, 1.9, 0.4, 59)
    assert (second.accounted, second.lower_bound) == (math.inf, 0)
    assert first.sentence().startswith(
        "claimed epsilon 2, accounted 1.9, audited at least 0.40 (95 % confidence, 59 planted codes)"
    )
    assert "accounted no bound, audited at least 0.00" in second.sentence()
    assert first.document()["unit"] == "planted codes"


def test_texts_without_codes_are_refused() -> None:
    with pytest.raises(BadInput, match=r"no codes are planted: try data\.dataset = pii-synthetic"):
        list(audits.results(of_codes(), iter([finished(CELLS[0], 1.0)])))


def test_a_method_without_a_language_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--preset", "digits-cosine", "--attack", audits.NAME]) != 0
    assert "--attack = planted-codes: must be left out: cosine trains no language model" in capsys.readouterr().err


def test_only_codes_asked_for_by_name_need_a_training() -> None:
    """The attack that runs are audited with stays the one on the mechanism."""
    from dpcl_core.attacks import catalog

    assert audits.is_offered(of_codes())
    assert audits.NAME not in catalog.names("pecl-published")


# Tunings in the store: trials kept as they end, whatever ends the process; turns in the queue beside runs.


TRIAL = Trial(0, 1e-3, 20, 2.0, 0.5, None, 1.0)


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(Studies, "get", in_turn([StoreTrouble("away")], Studies.get))
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
    assert (store.status(study_id), studies.get(study_id).trials) == ("cancelled", (TRIAL,))
    assert studies.get(study_id).is_resumable


def test_how_long_a_tuning_took_says_nothing_about_runs(store: Store, studies: Studies) -> None:
    tune = tuned.a_tuning(2)
    replay.carried_out(store, studies.create(tune))
    assert store.estimates([work_of(tune.base)])[0] is None
    assert studies.get(studies.create(tune)).turn.estimate_seconds is not None
