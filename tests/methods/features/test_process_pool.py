"""Trainings in this process and in others: the same results, errors that come home, nothing left behind."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcl_core.errors import Diverged
from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.features.process_pool import Job, ProcessPool
from dpcl_core.privacy.noise import Batches, SeededNoise
from dpcl_core.spec import Cell
from tests.methods.training import N_FEATURES, data, plan, told
from tests.support import asserting, watching
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.skipif(sys.platform == "emscripten", reason="needs processes")
ROOT = Path(__file__).resolve().parents[3]
ALWAYS, NEVER = 1e9, 0.0  # seconds for which processes are worth while, and not


def job(seed: int, **changes: float) -> Job:
    features, labels = data(seed=seed)
    noises = [SeededNoise(Cell(epsilon, seed), "a test") for epsilon in (1.0, 8.0)]
    start = linear_heads.fresh([(0, 1, 2, 3)] * 2, N_FEATURES, 4)
    return Job(start, features, labels, plan(**changes), (1.5, 0.4), Batches(0.3, seed), noises)


def trained(seconds: float, jobs: dict[int, Job]) -> tuple[list[int], dict[int, linear_heads.Heads]]:
    return told(ProcessPool(len(jobs), seconds).begin(jobs))


def test_processes_train_what_this_one_would() -> None:
    found = [trained(seconds, {seed: job(seed) for seed in range(3)}) for seconds in (NEVER, ALWAYS)]
    for seed in range(3):
        np.testing.assert_array_equal(found[0][1][seed].weights, found[1][1][seed].weights)
    assert found[1][0][-1] == 3 * 6
    for steps, _ in found:
        assert steps == sorted(steps)


def test_pieces_of_a_job_take_the_same_batches() -> None:
    """Without noise, both budgets of a release must come out the same, for their batches are."""
    whole = replace(job(0), noise_multipliers=(0.0, 0.0), batches=Batches(0.3, None))
    pieces = whole.pieces(4)
    assert [len(piece.noises) for piece in pieces] == [1, 1]
    first, second = (piece.trained().weights for piece in pieces)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, whole.pieces(2)[0].trained().weights)  # another training, other batches
    assert whole.pieces(1) == [whole]
    assert len(job(0).pieces(2)) == 1  # seeded: the same numbers on any machine


def test_an_odd_seed_in_pieces_comes_home_whole() -> None:
    jobs = {seed: replace(job(seed), noise_multipliers=(0.0, 0.8), batches=Batches(1.0, None)) for seed in range(3)}
    found = trained(ALWAYS, jobs)[1]
    for seed, one in jobs.items():
        np.testing.assert_allclose(found[seed].weights, one.trained().weights, rtol=0, atol=1e-5)
        assert found[seed].allowed.shape == (2, 4)


def test_only_the_last_round_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that are begun before others are through leave no process idle; each comes home as it would alone."""
    jobs = {seed: replace(job(seed), noise_multipliers=(0.0, 0.8), batches=Batches(1.0, None)) for seed in range(3)}
    pool = ProcessPool(2, ALWAYS)
    submitted, rounds = list[list[Job]](), []
    watching.watched(monkeypatch, pool._executor, "submit", lambda found, given: submitted[-1].append(given[1]))
    for is_last in (False, True, True):
        submitted.append([])
        rounds.append(pool.begin(jobs, is_last=is_last))
    taken = [[sum(piece.features is one.features for piece in pieces) for one in jobs.values()] for pieces in submitted]
    cores = min(2, os.cpu_count() or 1)
    assert taken == [[1, 1, 1], [1, 1, 1], [1, 1, cores]], "three of six and six of six come out even, three do not"
    for one in rounds[::-1]:
        *_, last = one
        assert last == 3 * 6


def test_a_run_left_between_two_rounds_ends_what_was_begun_ahead() -> None:
    pool = ProcessPool(2, ALWAYS)
    first, ahead = pool.begin({0: job(0)}, is_last=False), pool.begin({1: job(1, n_steps=2_000_000)})
    list(first)
    pids = list(pool._executor._processes or ())
    assert any(_lives(pid) for pid in pids)
    del pool, first, ahead
    _gone(pids)


@pytest.mark.parametrize("seconds", [NEVER, ALWAYS])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_training_that_diverges_ends_all_of_them(seconds: float) -> None:
    jobs = {0: job(0, learning_rate=1e38, n_steps=50), 1: job(1, n_steps=2_000_000_000)}  # the second would take days
    asserting.refuses(r"step \d+ of 50", trained, seconds, jobs, error=Diverged)


def begin_and_die() -> None:
    """Names the processes of a round that has begun, and ends without a word."""
    pool = ProcessPool(2, ALWAYS)
    next(pool.begin({seed: job(seed, n_steps=1_000_000) for seed in range(2)}))
    print(*(pool._executor._processes or ()), flush=True)
    os._exit(1)


def test_processes_end_with_the_one_that_started_them() -> None:
    """Killed without a word, as a run is that does not heed a stop."""
    command = [sys.executable, "-c", "from tests.methods.features.test_process_pool import begin_and_die as act; act()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == min(2, os.cpu_count() or 1), done.stderr
    _gone(pids)


def _gone(pids: list[int]) -> None:
    until(lambda: not any(_lives(pid) for pid in pids))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
