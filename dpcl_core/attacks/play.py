"""The auditor: plays a method's own learner on two neighbouring streams, scores its releases, and bounds epsilon.

A method's games are plug-ins: a `Game` says who the neighbours are and how an attacker scores a release. An `Attack` is a
game against a published claim, played through the mechanism alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.federated.params import ReleaseParams
from dpcl_core.privacy import audit_bounds, noise, text_mechanisms
from dpcl_core.privacy.audit_bounds import Area, Audited, Bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, DataSpec, RunSpec

Seen = Mapping[str, NDArray[np.generic]]  # what a learner released after a task, by name
Released = Sequence[Seen]  # one learner's releases, task by task
Floats = NDArray[np.float64]
Attacker = Callable[[RunSpec, int], Sequence[Audited]]  # settings and releases a side, to results for each budget
Streams = Callable[[int, bool], Sequence[Task]]  # the tasks for a seed, with the person (True) or without
START = 0  # seed of the initial weights, which are public: shared by all trainings, so common parts are computed once
CONFIDENCE = 0.95
SURELY = 0.999  # confidence of the second audit, on fresh releases, without which no method is called wrong
_CHOOSING = 0.1  # share of the releases used to choose among an attack's statistics; the rest measures the chosen one


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Neighbouring streams, and the statistics by which an attacker distinguishes them. `score` uses only what he knows.

    `spec`: the settings that are played. `tasks`: maps seed and side to a stream (True: the person takes part; False: not,
    or under "replace" another one in his place). `score`: maps a seed and its learner's releases to statistics for each
    target person [persons, statistics]; high values are evidence of taking part. `takes_part` [persons]: who of several
    persons is in on side True, for a seed; the others are in on side False. `start`: the seed of all learners; None: each
    has its own. `most`: most learners on each side that do not take minutes; None: no limit. `at_once`: how many learners
    run together. `planted`, `n_learners`: in an audit in one training, the planted unit and the number of learners, one
    unless each planted record is released separately. `raced`: of how many tasks the last statistics tell, by `watched`.
    """

    spec: RunSpec
    known: PublicContext
    tasks: Streams
    score: Callable[[int, Released], Floats]
    attack: str
    adversary: str
    is_gaussian: bool = True
    takes_part: Callable[[int], NDArray[np.bool_]] = lambda seed: np.ones(1, dtype=np.bool_)
    start: int | None = None
    most: int | None = None
    at_once: int = 500
    planted: str = "examples"
    n_learners: int = 1
    raced: int = 0

    def n_each(self, trials: int) -> int:
        """Learners on each side for `trials` persons on each side."""
        n_learners = math.ceil(trials / len(self.takes_part(0)))
        return n_learners if self.most is None else min(n_learners, self.most)

    def audited(self, epsilon: float, n_learners: int) -> Audited:
        """The result from `n_learners` on each side. A bound above the ledger's epsilon is checked again, on fresh releases
        at higher confidence.

        So a correct method is called wrong with probability at most 0.05 times 0.001.
        """
        for confidence in (CONFIDENCE, SURELY):
            took_part, stayed_away, accounted = self.scores(epsilon, n_learners)
            race = tuple(Area.of(*sides).value for sides in zip(self.race(took_part), self.race(stayed_away), strict=True))
            found = judged(
                self.judging(took_part), self.judging(stayed_away), epsilon, accounted, self.spec.privacy.delta,
                self.attack, self.adversary,
                is_gaussian=self.is_gaussian, confidence=confidence,
            )  # fmt: skip
            if not found.exceeds:
                break
        return replace(found, over_tasks=tuple(zip(race[: self.raced], race[self.raced :], strict=True)))

    def judging(self, statistics: Floats) -> Floats:
        """The statistics by which the attacker decides, without those of the race."""
        return statistics[:, : statistics.shape[1] - 2 * self.raced]

    def race(self, statistics: Floats) -> Floats:
        """Of each task what all releases up to it tell, then what the last one alone tells [2 raced, n]."""
        return statistics[:, statistics.shape[1] - 2 * self.raced :].T

    def scores(self, epsilon: float, n_learners: int) -> tuple[Floats, Floats, float]:
        """Scores [n, statistics] of persons who took part, scores of those who did not, and the epsilon of a ledger."""
        took_part: list[Floats] = []
        stayed_away: list[Floats] = []
        accounted = math.nan
        for side, first in product((True, False), range(0, n_learners, self.at_once)):
            seeds = range(first, min(n_learners, first + self.at_once))
            streams = lambda seed, side=side: self.tasks(seed, side)  # noqa: E731
            with threadpool_limits(1):  # in many small steps threads would wait for each other
                for seed, seen, ledger in released(self.spec, epsilon, seeds, self.known, streams, self.start):
                    statistics, present = self.score(seed, seen), self.takes_part(seed) == side
                    took_part.append(statistics[present])
                    stayed_away.append(statistics[~present])
                    accounted = ledger.epsilon() if math.isnan(accounted) else accounted
        return np.concatenate(took_part), np.concatenate(stayed_away), accounted


def watched(likelier: Floats, released: Floats, alone: Floats) -> Floats:
    """Scores [n, 3 + 2 tasks] of who watches a stream of sums: each task's release along a person's own effect [tasks, n].

    `likelier`: the same times how much of the person is in each release: their sum is the log-likelihood ratio of all, as
    their noises are independent and Gaussian, and no test of all releases is better (Neyman and Pearson). Then the
    difference of the first two and the sum of all, for noise that was drawn once or people in every task. The rest is the
    race: that sum up to each task, and what is seen `alone` after it [tasks, n], as by who looks at the newest model only.
    """
    so_far = np.cumsum(likelier, axis=0)
    return np.concatenate([[so_far[-1], released[0] - released[1], released.sum(axis=0)], so_far, alone]).T


def through_learner(*games: Callable[[RunSpec, float], Game]) -> Attacker:
    """The attack that plays these games at every budget."""

    def attack(spec: RunSpec, trials: int) -> list[Audited]:
        made = ((epsilon, game(spec, epsilon)) for epsilon in spec.privacy.epsilons for game in games)
        return [game.audited(epsilon, game.n_each(trials)) for epsilon, game in made]

    return attack


def worst_and_natural(game: Callable[..., Game]) -> Attacker:
    """The attack that plays a game on a worst-case person, and on a natural one (`is_natural`), at every budget."""
    return through_learner(partial(game, is_natural=False), partial(game, is_natural=True))


def released(
    spec: RunSpec, epsilon: float, trials: Sequence[int], known: PublicContext, tasks: Callable[[int], Sequence[Task]],
    seed: int | None = None,
) -> Iterator[tuple[int, Released, Ledger]]:  # fmt: skip
    """Yields each trial's number, its learner's releases task by task at this budget, and the learner's ledger.

    Noise always comes from the operating system, whatever `privacy.noise` is. Seeds have the same role as in a run: a
    trial's number is its seed, unless `seed` sets one for all, for methods whose cells share nothing.
    """
    of_release = replace(spec, privacy=replace(spec.privacy, noise="release"))
    if spec.labels != "prior-const" and not methods.card(spec.method).learns_lists:
        of_release = replace(of_release, labels="prior")  # attacked is what follows a list; of a list its own audit tells
    is_joint = seed is None and methods.card(spec.method).cells_per_learner == "all"
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


def stream(first: Examples, others: Examples, known: PublicContext, names: Sequence[str] = ()) -> list[Task]:
    """A stream with the examples `first` in the first task, or in every task if people recur, and `others` elsewhere.

    All examples are in one table, as in a run.
    """
    table = np.concatenate([first.inputs, others.inputs])
    rows = np.split(np.arange(len(table)), [len(first)])
    first, others = (
        Examples(table, part.labels, part.users, places) for part, places in zip((first, others), rows, strict=True)
    )
    train = [first if task == 0 or known.recurrence == "every" else others for task in range(known.n_tasks)]
    shown = names or [f"task {task + 1}" for task in range(known.n_tasks)]
    return [Task(task, shown[task], part, others, known.public) for task, part in enumerate(train)]


def many_persons(
    spec: RunSpec, known: PublicContext, own: Examples, instead: Examples, takes_part: Callable[[int], NDArray[np.bool_]],
    crowd: Examples | None = None, names: Sequence[str] = (),
) -> Streams:  # fmt: skip
    """The streams of a game on many persons, each with one of their `own`, and a known `crowd`; sides swap who takes part.

    Under "replace" a person who does not take part has the example at the same place of `instead`.
    """
    both = Examples(np.concatenate([own.inputs, instead.inputs]), np.append(own.labels, instead.labels))
    others = own.take(np.arange(0)) if crowd is None else crowd

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        is_replaced = spec.privacy.adjacency == "replace"
        chosen = both.take(np.arange(len(own)) + len(own) * ~present if is_replaced else np.flatnonzero(present))
        first = Examples(np.concatenate([chosen.inputs, others.inputs]), np.append(chosen.labels, others.labels))
        return stream(first, others, known, names)

    return tasks


def one_person(spec: RunSpec, known: PublicContext, crowd: Examples, pair: Examples, names: Sequence[str] = ()) -> Streams:
    """The streams of a game on one person in a known `crowd`: the first of the `pair`.

    Under "replace" the second of the pair takes the first one's place on side False.
    """
    by_side = {}
    for side, chosen in {True: [0], False: [1] if spec.privacy.adjacency == "replace" else []}.items():
        labels = np.append(crowd.labels, pair.labels[chosen])
        by_side[side] = stream(Examples(np.concatenate([crowd.inputs, pair.inputs[chosen]]), labels), crowd, known, names)
    return lambda seed, side: by_side[side]


def coins(seed: int, n: int) -> NDArray[np.bool_]:
    """One fair coin for each of n persons: whether he takes part, bool [n]."""
    return generator(seed, "who takes part").integers(0, 2, n).astype(np.bool_)


def label_log_odds(local: text_mechanisms.Randomiser, n_labels: int) -> float:
    """Log-likelihood ratio of a noisy label; 1 if the label is always the true one, where any value would do."""
    kept, other = local.chances(n_labels)
    return math.log(kept / other) if other > 0 else 1.0


def judged(
    took_part: Floats, stayed_away: Floats, claimed: float, accounted: float, delta: float, attack: str, adversary: str,
    *, is_gaussian: bool, confidence: float = CONFIDENCE,
) -> Audited:  # fmt: skip
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
    bounds: dict[Bound, float] = {"counting": audit_bounds.lower_bound(one, other, delta, level)}
    detects = None
    if is_gaussian:
        bounds["gaussian"] = audit_bounds.gaussian_bound(one, other, delta, level)
        factor = audit_bounds.detectable(Area.of(one, other), accounted, delta, level)
        detects = None if factor is None or factor < 0.05 else f"noise × {int(100 * factor) / 100:g}"
    best: Bound = max(reversed(bounds), key=lambda name: bounds[name])  # a tie at 0 goes to the sharper one
    measured = min(len(one), len(other))
    if best == "counting":
        measured -= measured // 2  # the other half chose the threshold
    return Audited(
        claimed, accounted, bounds[best], delta, confidence, measured, attack, adversary,
        through="learner", detects=detects, bound=best, bounds=bounds,
    )  # fmt: skip


def of_mechanism(
    claimed: float, accounted: float, took_part: Floats, stayed_away: Floats, delta: float, attack: str, adversary: str
) -> Audited:
    """The result from the scores [n] of releases that the mechanism alone made."""
    bound, n = audit_bounds.lower_bound(took_part, stayed_away, delta, CONFIDENCE), len(took_part)
    return Audited(claimed, accounted, bound, delta, CONFIDENCE, n - n // 2, attack, adversary)


# Games against published claims, through the mechanism: the attacker guesses by a rule that is fixed beforehand.


Setting = TypeVar("Setting")
Side = TypeVar("Side")


@dataclass(frozen=True, slots=True)
class Guesses:
    """How often an attacker guessed "the first data set" for `n` releases from the first, and for `n` from the second.

    `remark`: what else a result says of the attack. `claimed`: the attacked budget, where it is not the setting's.
    `is_one_way`: the claim is of the first data set against the second alone.
    """

    hits: int
    false_alarms: int
    n: int
    remark: str = ""
    claimed: float | None = None
    is_one_way: bool = False

    @property
    def share_right(self) -> float:
        """Share of correct guesses; 0.5 is chance."""
        return (self.hits + self.n - self.false_alarms) / (2 * self.n)

    def lower_bound(self, delta: float) -> float:
        """Lower bound on epsilon (Clopper and Pearson, half of the error probability for each rate)."""
        bound = audit_bounds.one_way_bound if self.is_one_way else audit_bounds.bound_of_counts
        return bound(self.hits, self.n, self.false_alarms, self.n, delta, CONFIDENCE)


@dataclass(frozen=True, slots=True)
class Attack(Generic[Setting]):
    """One attack on a claim, and what its attacker is assumed to see and to know.

    `play`: plays the game for a number of releases on each side. `times`: releases for each requested one, for attacks whose
    releases are cheap and reveal little; `most`: the largest number that does not take minutes.
    """

    title: str
    attack: str
    adversary: str
    play: Callable[[Setting, noise.Noise, int], Guesses]
    times: int = 1
    most: int | None = None

    def n_releases(self, trials: int) -> int:
        """Releases on each side for `trials` requested ones."""
        return min(trials * self.times, self.most or trials * self.times)

    def audited(self, setting: Setting, claimed: float, trials: int, delta: float) -> Audited:
        """The result on this setting for `trials` requested releases a side; no ledger confirms the claim."""
        guesses = self.play(setting, noise.ReleaseNoise(), self.n_releases(trials))
        budget = claimed if guesses.claimed is None else guesses.claimed
        bound, how = guesses.lower_bound(delta), f"{self.attack}{guesses.remark}"
        return Audited(budget, math.inf, bound, delta, CONFIDENCE, guesses.n, how, self.adversary)


def of_claim(
    attacks: Mapping[str, Attack[Setting]], audited: Callable[[RunSpec, float, str, int], Audited]
) -> dict[str, Attacker]:
    """The attacks on a claim by name, each at every budget; `audited` takes settings, budget, name and releases a side."""

    def named(attack: str) -> Attacker:
        return lambda spec, trials: [audited(spec, epsilon, attack, trials) for epsilon in spec.privacy.epsilons]

    return {name: named(name) for name in attacks}


def guessed_by_score(
    scores: Callable[[Side, int], Floats], sides: Iterable[Side], n: int, delta: float, *, is_one_way: bool = False
) -> Guesses:
    """Guesses "first" above a score threshold that the attacker chooses on n simulated releases of each of two sides.

    `scores`: of so many releases of a side.
    """
    first, second = sides
    inside, without = np.sort(scores(first, n)), np.sort(scores(second, n))
    seen = np.concatenate([inside, without])
    more = np.linspace(seen.min(), seen.max(), 201) if is_one_way else (inside[0] + without[-1]) / 2
    cuts = np.union1d(np.quantile(seen, np.linspace(0, 1, 201)), more)
    above = (n - np.searchsorted(sample, cuts) for sample in (inside, without))
    simulated = (Guesses(int(a), int(b), n, is_one_way=is_one_way) for a, b in zip(*above, strict=True))
    proved = np.array([guesses.lower_bound(delta) for guesses in simulated])
    best = cuts[proved == proved.max()]
    cut = best[len(best) // 2]  # the middle of equally good cuts: far from both samples if they are separated
    hits, alarms = (int((scores(side, n) >= cut).sum()) for side in (first, second))
    return Guesses(hits, alarms, n, is_one_way=is_one_way)


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


@lru_cache(maxsize=1)
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The bundled handwritten digits, public, so that no run's own data are read: pixels [n, 64] in [0, 1], labels [n]."""
    split = load.load_dataset(DataSpec(dataset="digits")).train
    return extractor.features("pixels", split.images), split.labels
