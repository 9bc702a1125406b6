"""Plays a method's learner on two neighbouring streams, as a run would, and scores what leaves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.lower_bound import Area, Audited, Bound, detectable, gaussian_bound, lower_bound
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, RunSpec

Seen = Mapping[str, NDArray[np.generic]]  # what left a learner at a task, by name
Released = Sequence[Seen]  # of one learner, task by task
Floats = NDArray[np.float64]
CONFIDENCE = 0.95
START = 0  # seed of adapters' first numbers, which are public: what is the same in all trainings is worked out once
SURELY = 0.999  # a method is not called wrong but by a second audit, on fresh releases, at this confidence
_CHOOSING = 0.1  # share of the releases that choose among an attack's statistics; the rest measures the one chosen


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Neighbouring streams and how an attacker tells them apart. All that `score` uses is known to him.

    `tasks`: of a seed and side (True: the person takes part; False: not, or under "replace" another does in his place).
    `score`: of what left the learner of a seed, for each person that is asked about [persons, statistics], high where it
    speaks for taking part. `takes_part` [persons], of a seed: who of several persons does on side True, the others do on
    side False; None: there is one. `start`: the seed that all learners begin with; None: each with its own.
    """

    known: PublicContext
    tasks: Callable[[int, bool], Sequence[Task]]
    score: Callable[[int, Released], Floats]
    attack: str
    adversary: str
    is_gaussian: bool = True
    takes_part: Callable[[int], NDArray[np.bool_]] = lambda seed: np.ones(1, dtype=np.bool_)
    start: int | None = None


def released(
    spec: RunSpec,
    epsilon: float,
    trials: Sequence[int],
    known: PublicContext,
    tasks: Callable[[int], Sequence[Task]],
    seed: int | None = None,
) -> Iterator[tuple[int, Released, Ledger]]:
    """What leaves one learner of every trial at this budget, task by task, with its ledger, whatever the settings' noise: a
    release's, from the operating system. Seeds decide only what seeds of a run do: a trial's own number is its seed, or
    `seed` is that of all, for methods whose cells share nothing.
    """
    of_release = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"noise": "release"})})
    is_together = seed is None and methods.card(spec.method).shares == "all"
    for group in [list(trials)] if is_together else [[trial] for trial in trials]:
        cells = {trial: Cell(epsilon, trial if seed is None else seed) for trial in group}
        ledgers = {cell: Ledger(spec.privacy.delta, spec.privacy.adjacency, known.recurrence) for cell in cells.values()}
        learner = methods.maker(spec.method)(of_release, list(cells.values()), known)
        streams = {trial: tasks(trial) for trial in group}
        seen: dict[int, list[Seen]] = {trial: [] for trial in group}
        for step in range(known.n_tasks):
            for _ in learner.learn({cells[trial].seed: streams[trial][step] for trial in group}, ledgers):
                pass
            for trial in group:
                seen[trial].append(learner.released(cells[trial]))
        for trial in group:
            yield trial, seen[trial], ledgers[cells[trial]]


def clean(spec: RunSpec, seed: int, known: PublicContext, tasks: Sequence[Task]) -> Released:
    """What leaves one learner without noise, task by task: what an attacker works out who knows the examples."""
    ((_, seen, _),) = released(spec, math.inf, [seed], known, lambda seed: tasks)
    return seen


def stream(own: Examples, alone: Examples, known: PublicContext, names: Sequence[str] = ("task 1", "task 2")) -> list[Task]:
    """Tasks of which the first has the persons in question, or each where everybody may be in each; the others have none."""
    is_in_every = known.recurrence == "every"
    table = np.concatenate([part.table for part in (own, alone)])  # one for all tasks, as in a run
    first = Examples(table, own.labels, rows=np.arange(len(own)))
    others = Examples(table, alone.labels, rows=len(own) + np.arange(len(alone)))
    train = [first if task == 0 or is_in_every else others for task in range(len(names))]
    return [Task(task, name, train[task], train[-1], known.public) for task, name in enumerate(names)]


def coins(seed: int, n: int) -> NDArray[np.bool_]:
    """Who of n persons takes part: fair coins of the audit's own, one each [n]."""
    tossed: NDArray[np.bool_] = generator(seed, "who takes part").integers(0, 2, n).astype(np.bool_)
    return tossed


def _side(game: Game, side: bool, seed: int) -> Sequence[Task]:
    return game.tasks(seed, side)


def scores(spec: RunSpec, epsilon: float, trials: int, game: Game, at_once: int) -> tuple[Floats, Floats, float]:
    """Of those who took part and those who did not [n, statistics], in `trials` learners of either side; and the epsilon
    that the ledger of such a learner adds up to."""
    took_part: list[Floats] = []
    stayed_away: list[Floats] = []
    accounted = math.nan
    for side, start in product((True, False), range(0, trials, at_once)):
        seeds = range(start, min(trials, start + at_once))
        with threadpool_limits(1):  # of many small steps: threads would wait for one another
            for seed, seen, ledger in released(spec, epsilon, seeds, game.known, partial(_side, game, side), game.start):
                found, present = game.score(seed, seen), game.takes_part(seed) == side
                took_part.append(found[present])
                stayed_away.append(found[~present])
                accounted = ledger.epsilon() if math.isnan(accounted) else accounted
    return np.concatenate(took_part), np.concatenate(stayed_away), accounted


def audited(spec: RunSpec, epsilon: float, trials: int, game: Game, at_once: int = 500) -> Audited:
    """What the attack proves. A proof of more than the ledger says is tried once more, on fresh releases, more strictly.

    So a method that keeps its word is called wrong with a chance of at most 0.05 times 0.001.
    Args: trials: learners on each side; at_once: how many of them are played together.
    """
    found = _played(spec, epsilon, trials, game, at_once, CONFIDENCE)
    return _played(spec, epsilon, trials, game, at_once, SURELY) if found.exceeds else found


def _played(spec: RunSpec, epsilon: float, trials: int, game: Game, at_once: int, confidence: float) -> Audited:
    took_part, stayed_away, accounted = scores(spec, epsilon, trials, game, at_once)
    return judged(
        took_part, stayed_away, epsilon, accounted, spec.privacy.delta, game.attack, game.adversary,
        is_gaussian=game.is_gaussian, confidence=confidence,
    )  # fmt: skip


def judged(
    took_part: Floats,
    stayed_away: Floats,
    claimed: float,
    accounted: float,
    delta: float,
    attack: str,
    adversary: str,
    *,
    is_gaussian: bool,
    confidence: float = CONFIDENCE,
) -> Audited:
    """The audit that scores [n, statistics] of a learner's releases come to.

    A tenth of them chooses the statistic that tells the sides apart best, the rest measures it: by counting, and by the area
    under its curve where the trade-off `is_gaussian`. Both hold together, for each has half of the error.
    """
    is_gaussian = is_gaussian and math.isfinite(accounted)  # without noise on all of it no trade-off is
    cut = chosen = 0
    if took_part.shape[1] > 1:
        cut = max(2, int(_CHOOSING * min(len(took_part), len(stayed_away))))
        chosen = max(range(took_part.shape[1]), key=lambda k: Area.of(took_part[:cut, k], stayed_away[:cut, k]).value)
    one, other = took_part[cut:, chosen], stayed_away[cut:, chosen]
    each = 1 - (1 - confidence) / 2 if is_gaussian else confidence
    bounds: dict[Bound, float] = {"counting": lower_bound(one, other, delta, each)}
    detects = None
    if is_gaussian:
        bounds["gaussian"] = gaussian_bound(one, other, delta, each)
        factor = detectable(Area.of(one, other), accounted, delta, each)
        detects = None if factor is None or factor < 0.05 else f"noise × {int(100 * factor) / 100:g}"
    best: Bound = max(reversed(bounds), key=lambda name: bounds[name])  # where neither proves anything, the sharper one
    measured = min(len(one), len(other))
    if best == "counting":
        measured -= measured // 2  # the other half chose the threshold
    return Audited(
        claimed, accounted, bounds[best], delta, confidence, measured, attack, adversary,
        through="learner", detects=detects, bound=best, bounds=bounds,
    )  # fmt: skip
