"""Runs trainings of heads: small ones in this process, large ones in parallel worker processes."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.backbones.extractor import result_of
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.features import linear_heads
from dpcl_core.privacy.noise import Batches, Noise

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_POLL_SECONDS = 0.1  # between progress reports
# Time of a training on one core, per step and per multiplication (2026-11-22); starting processes takes about a second.
_STEP_SECONDS, _MULTIPLY_SECONDS = 9e-5, 4.5e-11
_WORTH_SECONDS = 4.0
_WIDE = 1e8  # multiplications above which sharing a product between cores pays


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The arguments of one `linear_heads.train_heads`; `device`: of its products, the processor in worker processes."""

    start: linear_heads.Heads
    features: NDArray[np.generic]
    labels: NDArray[np.int64]
    plan: Schedule
    noise_multipliers: Sequence[float]
    batches: Batches
    noises: Sequence[Noise]
    device: str = "cpu"

    def steps(self) -> Generator[int, None, linear_heads.Heads]:
        """The training: yields the steps taken so far, returns the heads."""
        return linear_heads.train_heads(
            self.start, self.features, self.labels, self.plan, self.noise_multipliers, self.batches, self.noises, self.device
        )

    def trained(self) -> linear_heads.Heads:
        """The trained heads."""
        return result_of(self.steps())

    def pieces(self, count: int) -> list[Job]:
        """At most `count` jobs with a share of the budgets each; they use the same batches as one job would.

        A seeded job is not split: products of another width round differently, and the number of cores must not change the
        result.
        """
        if self.batches.is_seeded or count < 2 or len(self.noises) < 2:
            return [self]
        parts = np.array_split(np.arange(len(self.noises)), min(count, len(self.noises)))
        pieces = []
        for part, batches in zip(parts, self.batches.copies(len(parts)), strict=True):
            start = replace(self.start, weights=self.start.weights[part], allowed=self.start.allowed[part])
            multipliers, noises = [self.noise_multipliers[k] for k in part], [self.noises[k] for k in part]
            pieces.append(replace(self, start=start, noise_multipliers=multipliers, batches=batches, noises=noises))
        return pieces


def is_wide(expected_batch: float, n_weights: int) -> bool:
    """Whether a step's product is large enough to leave the core that the step runs on; from public numbers."""
    return expected_batch * n_weights >= _WIDE


def estimate(n_steps: int, expected_batch: float, n_weights: int) -> float:
    """Estimated seconds of a training on one core, from public numbers; `n_weights`: of all its budgets together."""
    return n_steps * (_STEP_SECONDS + 2 * expected_batch * n_weights * _MULTIPLY_SECONDS)


# One round of trainings, begun already or with the first step: yields the steps done so far, over all seeds, and returns the
# heads by seed. Raises Diverged.
Running = Generator[int, None, dict[int, linear_heads.Heads]]


def _in_this_process(jobs: Mapping[int, Job]) -> Running:
    """Trainings one after another, in the caller's own thread; yields now and then."""
    heads: dict[int, linear_heads.Heads] = {}
    before, shown = 0, time.monotonic()
    has_wide = any(is_wide(job.plan.expected_batch, job.start.weights.size) for job in jobs.values())
    with threadpool_limits(None if has_wide else 1):
        for seed, job in jobs.items():
            steps = job.steps()
            while seed not in heads:
                try:
                    done = before + next(steps)
                except StopIteration as ended:
                    heads[seed] = ended.value
                else:
                    if time.monotonic() - shown > _POLL_SECONDS:
                        yield done
                        shown = time.monotonic()
            before += job.plan.n_steps
        yield before  # its end is reported however short a round was
    return heads


class ProcessPool:
    """Trains the seeds of a run, task after task, in worker processes if that saves time.

    Decides on construction, so that processes start while the caller prepares. They load little more than NumPy, and end
    with this process, however it ends. `n_jobs`: seeds in every round; `seconds`: estimated time of all rounds on one core
    (see `estimate`).
    """

    def __init__(self, n_jobs: int, seconds: float) -> None:
        is_able = sys.platform != "emscripten"  # a page of a browser has no other process
        self.uses_processes = is_able and n_jobs > 1 and seconds > _WORTH_SECONDS
        self._n_waiting = 0
        self._futures: list[Future[linear_heads.Heads]] = []
        if self.uses_processes:
            self._count = min(n_jobs, os.cpu_count() or 1)
            self._executor = _started(self._count)
            weakref.finalize(self, _end, self._executor, self._futures)  # for a run that is stopped between two rounds

    def begin(self, jobs: Mapping[int, Job], *, is_last: bool = True) -> Running:
        """Queues the trainings of one round; idle processes start on them at once.

        `is_last`: no other round is queued before this one has finished. The very last jobs are split if they would leave
        processes idle.
        """
        if not self.uses_processes:
            return _in_this_process(jobs)
        n_all = self._n_waiting + len(jobs)
        self._n_waiting = 0 if is_last else n_all
        last = n_all % self._count if is_last else 0
        futures: dict[int, list[Future[linear_heads.Heads]]] = {}
        for place, (seed, job) in enumerate(jobs.items()):
            pieces = job.pieces(self._count // last) if place >= len(jobs) - last else [job]
            futures[seed] = [self._executor.submit(Job.trained, piece) for piece in pieces]
        self._futures[:] = [future for future in self._futures if not future.done()]
        self._futures += [future for parts in futures.values() for future in parts]
        return self._awaited({seed: job.plan.n_steps for seed, job in jobs.items()}, futures)

    def _awaited(
        self, n_steps: Mapping[int, int], futures: Mapping[int, Sequence[Future[linear_heads.Heads]]]
    ) -> Running:
        """Trainings in worker processes; a job's steps count when it has finished."""
        from concurrent.futures import FIRST_COMPLETED, wait

        waiting = {future for parts in futures.values() for future in parts}
        try:
            while waiting:
                finished, waiting = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
                for future in finished:
                    future.result()
                yield sum(n_steps[seed] for seed, parts in futures.items() if waiting.isdisjoint(parts))
        except BaseException:  # the generator was closed, or a seed diverged
            _end(self._executor, self._futures)
            raise
        return {seed: linear_heads.join_heads([future.result() for future in parts]) for seed, parts in futures.items()}


def _started(count: int) -> ProcessPoolExecutor:
    """So many worker processes, which are starting."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["dpcl_core.methods.features.process_pool"])
    executor = ProcessPoolExecutor(count, mp_context=context, initializer=_start_process)
    for _ in range(count):
        executor.submit(int)  # an empty task makes the pool start a process
    return executor


def _end(executor: ProcessPoolExecutor, futures: Sequence[Future[linear_heads.Heads]]) -> None:
    """Terminates the processes if any training is unfinished; idle ones end by themselves."""
    if not all(future.done() for future in futures):
        for process in list((executor._processes or {}).values()):
            process.terminate()


def _start_process() -> None:
    """Initialises a worker process: limits it to one core and ties its end to that of its parent."""
    import threading

    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
