"""Carries out trainings of heads: small ones in this process, large ones side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import threading
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.methods.features import linear_heads
from dpcl_core.privacy.noise import Batches, Noise

_LOOK_SECONDS = 0.1  # how often progress is told
# What a training costs on one core, by step and by multiplication (2026-11-22); starting processes costs about a second.
_STEP_SECONDS, _MULTIPLY_SECONDS = 9e-5, 4.5e-11
_WORTH_SECONDS = 4.0
_WIDE = 1e8  # multiplications in a product that several cores share with profit


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The arguments of one `heads.trained`."""

    start: linear_heads.Heads
    features: NDArray[np.generic]
    labels: NDArray[np.int64]
    plan: Schedule
    noise_multipliers: Sequence[float]
    batches: Batches
    noises: Sequence[Noise]

    def done(self, on_step: linear_heads.OnStep = linear_heads.no_progress) -> linear_heads.Heads:
        """The trained heads."""
        return linear_heads.trained(
            self.start,
            self.features,
            self.labels,
            self.plan,
            self.noise_multipliers,
            self.batches,
            self.noises,
            on_step,
        )

    def pieces(self, count: int) -> list[Job]:
        """Jobs for some of the budgets each, at most `count`, that share batches as the budgets of one job do.

        A seeded job stays whole: products of another width round differently, and cores must not change what it gives.
        """
        if self.batches.is_seeded or count < 2 or len(self.noises) < 2:
            return [self]
        parts = np.array_split(np.arange(len(self.noises)), min(count, len(self.noises)))
        return [self._of(part, batches) for part, batches in zip(parts, self.batches.copies(len(parts)), strict=True)]

    def _of(self, budgets: NDArray[np.int64], batches: Batches) -> Job:
        start = replace(self.start, weights=self.start.weights[budgets], allowed=self.start.allowed[budgets])
        return replace(
            self,
            start=start,
            noise_multipliers=[self.noise_multipliers[k] for k in budgets],
            batches=batches,
            noises=[self.noises[k] for k in budgets],
        )

    @property
    def multiplications(self) -> float:
        """In one of the two products of a step."""
        return self.plan.expected_batch * self.start.weights.size


class Running(Protocol):
    """Trainings that were begun, or are at once when somebody asks for them."""

    def heads(self) -> Generator[int, None, dict[int, linear_heads.Heads]]:
        """The heads by seed; yields the steps done so far, over all seeds. Raises Diverged."""
        ...


class ProcessPool:
    """Trains the seeds of a run, task after task.

    Whether processes are worth their start is judged at once, so that they start while their user prepares: `n_jobs`: seeds
    in every round; `seconds`: what all rounds together take about on one core (see `estimate`).
    """

    def __init__(self, n_jobs: int, seconds: float) -> None:
        is_worth_it = n_jobs > 1 and seconds > _WORTH_SECONDS
        self._processes = _Processes(min(n_jobs, os.cpu_count() or 1)) if is_worth_it else None

    @property
    def is_beside(self) -> bool:
        """Whether others train, while this process does something else."""
        return self._processes is not None

    def begin(self, jobs: Mapping[int, Job], *, is_last: bool = True) -> Running:
        """The trainings of one round, which processes begin as soon as those before it leave one idle.

        `is_last`: no other round is begun before this one is through.
        """
        return _Here(jobs) if self._processes is None else self._processes.begin(jobs, is_last=is_last)


def estimate(n_steps: int, expected_batch: float, n_weights: int) -> float:
    """Seconds that a training takes about on one core, from public numbers; `n_weights`: of all its budgets together."""
    return n_steps * (_STEP_SECONDS + 2 * expected_batch * n_weights * _MULTIPLY_SECONDS)


@dataclass(frozen=True, slots=True, eq=False)
class _Here:
    """One after the other in a thread, so that this one can tell how far they are."""

    jobs: Mapping[int, Job]

    def heads(self) -> Generator[int, None, dict[int, linear_heads.Heads]]:
        jobs = self.jobs
        done = dict.fromkeys(jobs, 0)
        stopped: list[bool] = []

        def one(seed: int) -> linear_heads.Heads:
            def count(step: int) -> None:
                if stopped:
                    raise _Stopped
                done[seed] = step + 1

            return jobs[seed].done(count)

        few = 1 if all(job.multiplications < _WIDE for job in jobs.values()) else None
        with threadpool_limits(few), ThreadPoolExecutor(1) as pool:
            try:
                futures = {seed: pool.submit(one, seed) for seed in jobs}
                while wait(list(futures.values()), _LOOK_SECONDS, FIRST_EXCEPTION).not_done:
                    if failed := next((f for f in futures.values() if f.done() and f.exception()), None):
                        failed.result()
                    yield sum(done.values())
                return {seed: future.result() for seed, future in futures.items()}
            finally:
                stopped.append(True)  # the generator was closed, or a seed diverged: the others stop at their next step


class _Processes:
    """Fresh processes that load NumPy and little more; they end with this one, however it ends."""

    def __init__(self, count: int) -> None:
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(["dpcl_core.methods.features.process_pool"])
        self._count, self._n_waiting = count, 0
        self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
        self._own: set[BaseProcess] = set()
        self._futures: list[Future[linear_heads.Heads]] = []
        with self._hiring():
            for _ in range(count):
                self._pool.submit(int)  # nothing to do, but each starts a process
        weakref.finalize(self, _end, self._own, self._futures)  # a run that is stopped between two rounds asks for no more

    def begin(self, jobs: Mapping[int, Job], *, is_last: bool) -> _Elsewhere:
        """Where the last jobs of all would leave processes idle, they are taken in pieces."""
        before = self._n_waiting
        self._n_waiting = 0 if is_last else before + len(jobs)
        last = (before + len(jobs)) % self._count if is_last else 0
        futures: dict[int, list[Future[linear_heads.Heads]]] = {}
        with self._hiring():
            for place, (seed, job) in enumerate(jobs.items()):
                pieces = job.pieces(self._count // last) if place >= len(jobs) - last else [job]
                futures[seed] = [self._pool.submit(Job.done, piece) for piece in pieces]
        self._futures[:] = [future for future in self._futures if not future.done()]
        self._futures += [future for parts in futures.values() for future in parts]
        return _Elsewhere(self, {seed: job.plan.n_steps for seed, job in jobs.items()}, futures)

    def end(self) -> None:
        """Nobody wants what is still being trained."""
        _end(self._own, self._futures)

    @contextmanager
    def _hiring(self) -> Iterator[None]:
        """The pool starts processes when it is given work."""
        others = set(multiprocessing.active_children()) - self._own
        yield
        self._own |= set(multiprocessing.active_children()) - others


@dataclass(frozen=True, slots=True, eq=False)
class _Elsewhere:
    """Trainings in processes; a job's steps are told when it is through."""

    processes: _Processes
    n_steps: Mapping[int, int]
    futures: Mapping[int, Sequence[Future[linear_heads.Heads]]]

    def heads(self) -> Generator[int, None, dict[int, linear_heads.Heads]]:
        waiting = {future for parts in self.futures.values() for future in parts}
        try:
            while waiting:
                over, waiting = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
                for future in over:
                    future.result()
                yield sum(self.n_steps[seed] for seed, parts in self.futures.items() if waiting.isdisjoint(parts))
        except BaseException:  # the generator was closed, or a seed diverged
            self.processes.end()
            raise
        return {seed: linear_heads.joined([future.result() for future in parts]) for seed, parts in self.futures.items()}


def _end(processes: Iterable[BaseProcess], futures: Iterable[Future[linear_heads.Heads]]) -> None:
    """Ends the processes, unless they have nothing to do and end in peace."""
    if not all(future.done() for future in futures):
        for process in processes:
            process.terminate()


def _begin() -> None:
    """A process of the pool: one core each, and no life after the process that wants the result."""
    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _Stopped(Exception):
    """Ends a training whose result nobody waits for."""
