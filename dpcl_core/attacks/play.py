"""Audits through the learner: runs a method on two neighbouring streams, as a run would, and scores its releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.params import ReleaseParams
from dpcl_core.privacy.audit_bounds import Area, Audited, Bound, detectable, gaussian_bound, lower_bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.text_mechanisms import Randomiser
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, DataSpec, RunSpec

# An attack of a game against a published claim: its name, its attacker's knowledge and its number of releases.


CONFIDENCE = 0.95
Play = TypeVar("Play")


@dataclass(frozen=True, slots=True)
class Attack(Generic[Play]):
    """One attack, and what its attacker is assumed to see and to know.

    `play`: a function that plays the game for a number of releases on each side. `times`: releases for each requested one,
    for attacks whose releases are cheap and reveal little; `most`: the largest number that does not take minutes.
    """

    title: str
    attack: str
    adversary: str
    play: Play
    times: int = 1
    most: int | None = None

    def n_releases(self, trials: int) -> int:
        """Releases on each side for `trials` requested ones."""
        return min(trials * self.times, self.most or trials * self.times)


Seen = Mapping[str, NDArray[np.generic]]  # what a learner released after a task, by name
Released = Sequence[Seen]  # one learner's releases, task by task
Floats = NDArray[np.float64]
START = 0  # seed of the initial adapters, which are public: shared by all trainings, so common parts are computed once
SURELY = 0.999  # confidence of the second audit, on fresh releases, without which no method is called wrong
_CHOOSING = 0.1  # share of the releases used to choose among an attack's statistics; the rest measures the chosen one


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Values and labels of the known examples, of the person's example and, under "replace", of its replacement."""

    known: Floats
    labels: NDArray[np.int64]
    person: Floats
    label: int
    other: Floats | None
    other_label: int

    def examples(self, side: bool | None) -> Examples:
        """Data with the person (True), with the replacement, if any (False), or with the known examples alone (None)."""
        extra, label = (self.person, self.label) if side else (self.other, self.other_label)
        if side is None or extra is None:
            return Examples(self.known, self.labels)
        return Examples(np.vstack([self.known, extra]), np.append(self.labels, label))


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Neighbouring streams, and the statistics by which an attacker distinguishes them. `score` uses only what he knows.

    `tasks`: maps seed and side to a stream (True: the person takes part; False: not, or under "replace" another one in his
    place). `score`: maps a seed and its learner's releases to statistics for each target person [persons, statistics];
    high values are evidence of taking part. `takes_part` [persons]: who of several persons is in on side True, for a seed;
    the others are in on side False. `start`: the seed of all learners; None: each has its own.
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
    """Yields each trial's number, its learner's releases task by task at this budget, and the learner's ledger.

    Noise always comes from the operating system, whatever `privacy.noise` is. Seeds have the same role as in a run: a
    trial's number is its seed, unless `seed` sets one for all, for methods whose cells share nothing.
    """
    of_release = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"noise": "release"})})
    is_joint = seed is None and methods.card(spec.method).shares == "all"
    for group in [list(trials)] if is_joint else [[trial] for trial in trials]:
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
    """Releases of one learner without noise, task by task, as an attacker who knows the examples can compute them."""
    ((_, seen, _),) = released(spec, math.inf, [seed], known, lambda seed: tasks)
    return seen


def context(spec: RunSpec, *, n_inputs: int, n_classes: int, n_people: int, n_tasks: int) -> PublicContext:
    """The public facts of a game whose classes are all public."""
    recurrence, public = spec.scenario.recurrence, tuple(range(n_classes))
    return PublicContext(
        n_inputs=n_inputs, n_classes=n_classes, public=public, n_people=n_people, n_tasks=n_tasks, recurrence=recurrence
    )


def tasks_of(first: Examples, others: Examples, known: PublicContext, names: Sequence[str] = ()) -> list[Task]:
    """A stream with the examples `first` in the first task, or in every task if people recur, and `others` elsewhere."""
    train = [first if task == 0 or known.recurrence == "every" else others for task in range(known.n_tasks)]
    shown = names or [f"task {task + 1}" for task in range(known.n_tasks)]
    return [Task(task, shown[task], part, others, known.public) for task, part in enumerate(train)]


def stream(targets: Examples, crowd: Examples, known: PublicContext, names: Sequence[str] = ()) -> list[Task]:
    """The stream of `tasks_of`, with all examples in one table, as in a run."""
    table = np.concatenate([part.table for part in (targets, crowd)])
    first = Examples(table, targets.labels, rows=np.arange(len(targets)))
    others = Examples(table, crowd.labels, rows=len(targets) + np.arange(len(crowd)))
    return tasks_of(first, others, known, names)


def targets(
    rows: NDArray[np.generic],
    labels: NDArray[np.int64],
    changed: NDArray[np.int64],
    present: NDArray[np.bool_],
    spec: RunSpec,
) -> Examples:
    """The examples of persons who take part; under "replace" also those of the others, with their `changed` labels."""
    included = np.arange(len(labels)) if spec.privacy.adjacency == "replace" else np.flatnonzero(present)
    return Examples(rows[included], np.where(present, labels, changed)[included])


def coins(seed: int, n: int) -> NDArray[np.bool_]:
    """One fair coin for each of n persons: whether he takes part, bool [n]."""
    draws: NDArray[np.bool_] = generator(seed, "who takes part").integers(0, 2, n).astype(np.bool_)
    return draws


def label_log_odds(local: Randomiser, n_labels: int) -> float:
    """Log-likelihood ratio of a noisy label; 1 if the label is always the true one, where any value would do."""
    kept, other = local.chances(n_labels)
    return math.log(kept / other) if other > 0 else 1.0


def _side(game: Game, side: bool, seed: int) -> Sequence[Task]:
    return game.tasks(seed, side)


def scores(spec: RunSpec, epsilon: float, trials: int, game: Game, at_once: int) -> tuple[Floats, Floats, float]:
    """Scores [n, statistics] of persons who took part, scores of those who did not, and the epsilon of a learner's ledger.

    Runs `trials` learners on each side.
    """
    took_part: list[Floats] = []
    stayed_away: list[Floats] = []
    accounted = math.nan
    for side, start in product((True, False), range(0, trials, at_once)):
        seeds = range(start, min(trials, start + at_once))
        with threadpool_limits(1):  # in many small steps threads would wait for each other
            for seed, seen, ledger in released(spec, epsilon, seeds, game.known, partial(_side, game, side), game.start):
                statistics, present = game.score(seed, seen), game.takes_part(seed) == side
                took_part.append(statistics[present])
                stayed_away.append(statistics[~present])
                accounted = ledger.epsilon() if math.isnan(accounted) else accounted
    return np.concatenate(took_part), np.concatenate(stayed_away), accounted


def audited(spec: RunSpec, epsilon: float, trials: int, game: Game, at_once: int = 500) -> Audited:
    """The audit's result. A bound above the ledger's epsilon is checked again, on fresh releases at higher confidence.

    So a correct method is called wrong with probability at most 0.05 times 0.001.
    Args: trials: learners on each side; at_once: how many of them run together.
    """
    result = _played(spec, epsilon, trials, game, at_once, CONFIDENCE)
    return _played(spec, epsilon, trials, game, at_once, SURELY) if result.exceeds else result


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
    """The audit's result from the scores [n, statistics] of both sides.

    A tenth of the scores chooses the statistic that separates the sides best; the rest measures it by counting and, if the
    trade-off `is_gaussian`, by the area under its ROC curve. Both bounds hold jointly: each has half of the error.
    """
    is_gaussian = is_gaussian and math.isfinite(accounted)  # without noise on every part no trade-off is Gaussian
    cut = chosen = 0
    if took_part.shape[1] > 1:
        cut = max(2, int(_CHOOSING * min(len(took_part), len(stayed_away))))
        chosen = max(range(took_part.shape[1]), key=lambda k: Area.of(took_part[:cut, k], stayed_away[:cut, k]).value)
    one, other = took_part[cut:, chosen], stayed_away[cut:, chosen]
    level = 1 - (1 - confidence) / 2 if is_gaussian else confidence
    bounds: dict[Bound, float] = {"counting": lower_bound(one, other, delta, level)}
    detects = None
    if is_gaussian:
        bounds["gaussian"] = gaussian_bound(one, other, delta, level)
        factor = detectable(Area.of(one, other), accounted, delta, level)
        detects = None if factor is None or factor < 0.05 else f"noise × {int(100 * factor) / 100:g}"
    best: Bound = max(reversed(bounds), key=lambda name: bounds[name])  # a tie at 0 goes to the sharper one
    measured = min(len(one), len(other))
    if best == "counting":
        measured -= measured // 2  # the other half chose the threshold
    return Audited(
        claimed, accounted, bounds[best], delta, confidence, measured, attack, adversary,
        through="learner", detects=detects, bound=best, bounds=bounds,
    )  # fmt: skip


# Runs that cannot be audited in one training, with the reasons. The audits are in `one_run`, which this does not load.


_WITHOUT_NOISE = "adds no noise and claims no epsilon that guesses could disprove"
REFUSED: Mapping[str, str] = {
    "agem": _WITHOUT_NOISE,
    "joint-network": _WITHOUT_NOISE,
    "fedta-lite": _WITHOUT_NOISE,
    "l2dp-ml": "all its records share one draw of noise: whoever knows one record can take it off the others",
    "cslr-published": "the server clusters what all clients send, so no part of the release comes from one client alone",
    "fedcil-dp": "the clients' synthetic data move all weights, so no weight depends on one planted client alone",
    "pecl-published": "its epsilon is claimed for single tokens, and such an audit plants whole texts",
}


def adds_no_noise(spec: RunSpec) -> bool:
    """Whether a run claims nothing: its method has no noise, or is asked for none."""
    return REFUSED.get(spec.method) == _WITHOUT_NOISE or all(map(math.isinf, spec.privacy.epsilons))


def refusal(spec: RunSpec) -> str | None:
    """Why these settings cannot be audited in one training, as the end of a sentence about the method; None if they can."""
    methods.card(spec.method)  # raises BadInput for an unknown method
    params, why = spec.params, REFUSED.get(spec.method)
    if isinstance(params, ReleaseParams) and params.slots == "even" and spec.method != "local-list":
        why = "with params.slots = even all clients share the same places in the sum"
    if why is not None and adds_no_noise(spec):
        why = _WITHOUT_NOISE  # which none of the other reasons would fit
    return None if why is None else f"cannot be audited in one training: {why}"


# Public examples for audits, so that no run's own data are read.


@lru_cache(maxsize=1)
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The bundled handwritten digits: pixels [n, 64] in [0, 1], labels [n]."""
    split = load.load(DataSpec(dataset="digits")).train
    return extractor.features("pixels", split.images), split.labels
