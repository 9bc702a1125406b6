"""Three games against CSLR as printed: its noise over all rounds, lists that are clustered together, a head in the clear.

Each attacker is told two sets of clients that differ in one, sees what was released from one of them, and says which. He
knows all other clients, as differential privacy allows him to; his rule is fixed on releases of his own making. Lists are of
invented clients: which ones hardly matters, and nobody's data are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.head import Head
from dpcl_core.methods.federated.lists import ListLearner, Lists
from dpcl_core.methods.federated.pooling import pooled
from dpcl_core.methods.federated.published_release import SlotSums, noisy_slot_sums
from dpcl_core.methods.federated.rounds import Clients, LocalPlan, averaged, client_draws, local_updates
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.cslr_accounting import N_STATISTICS
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.lower_bound import Audited, bound_of_counts
from dpcl_core.privacy.noise import Batches, Noise, ReleaseNoise

Floats = NDArray[np.float64]
Rule = Literal["nearest", "hungarian"]
CONFIDENCE = 0.95
_N_CLIENTS, _N_MODES, _WIDTH, _ROWS = 20, 4, 16, 40  # of invented clients: their lists come from real fits
_SETS = ((0, 0.35), (5, 0.5))  # seed and spread: the worst of a dozen for one-to-one groups, and for the nearest
_BLOCK = 500  # releases made at once
_MOST_ROUNDS = 2000  # of more the rest is not attacked: a weaker attack, in seconds


@dataclass(frozen=True, slots=True)
class Setting:
    """What is attacked: a claim, the noise of one statistic over its clipping norm (0: none), and how often it is drawn.

    `rule`: by which entries are assigned where lists are clustered, into `n_groups`. `list_size`: entries of the lists that
    clients noise themselves, at the same noise; 0 where they do not.
    """

    claimed: float
    noise_multiplier: float
    n_rounds: int
    sample_rate: float
    delta: float
    rule: Rule = "hungarian"
    n_groups: int = _N_MODES
    n_statistics: int = N_STATISTICS
    list_size: int = 0


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to attack, and what its attacker is taken to see and to know.

    `play` gives what it found, in words, and how often he said "the client is in" of n releases with the client and of as
    many without. `times`: rounds for each that is asked for; `most`: beyond so many it would take minutes.
    """

    title: str
    attack: str
    adversary: str
    play: Callable[[Setting, Noise, int], tuple[str, int, int]]
    times: int = 1
    most: int | None = None

    def n_releases(self, trials: int) -> int:
        """Releases on each side where so many are asked for."""
        return min(trials * self.times, self.most or trials * self.times)


def audited(setting: Setting, attack: str, trials: int) -> Audited:
    """What one of the `ATTACKS` proves of this setting, from so many releases on each side, times the attack's `times`."""
    chosen = ATTACKS[attack]
    n = chosen.n_releases(trials)
    found, hits, alarms = chosen.play(setting, ReleaseNoise(), n)
    bound = bound_of_counts(hits, n, alarms, n, setting.delta, CONFIDENCE)
    said = f"{chosen.attack}{found}"
    return Audited(setting.claimed, math.inf, bound, setting.delta, CONFIDENCE, n, said, chosen.adversary)


def _rounds(setting: Setting, noise: Noise, n: int) -> tuple[str, int, int]:
    """All rounds of a client whose statistics are as long as clipping lets them be: likelihood ratios, added up.

    Along what the client sends, the sums of a round hold sqrt(statistics) or nothing, by the round's one coin, under noise
    of the printed multiplier. One coordinate is one life.
    """
    share, sigma = math.sqrt(setting.n_statistics), setting.noise_multiplier

    def scores(present: float, count: int) -> Floats:
        found = np.zeros(count)
        coins = Batches(setting.sample_rate, None)
        for _ in range(min(setting.n_rounds, _MOST_ROUNDS)):
            seen = sigma * noise.normal((count,))
            seen[coins.draw(count)] += share * present
            if sigma == 0:
                found += seen
                continue
            odds, rate = share * (2 * seen - share) / (2 * sigma**2), setting.sample_rate
            found += np.logaddexp(math.log1p(-rate), math.log(rate) + odds) if rate < 1 else odds
        return found

    return "", *_counts(lambda count: scores(1.0, count), lambda count: scores(0.0, count), n, setting.delta)


def _lists(setting: Setting, noise: Noise, n: int) -> tuple[str, int, int]:
    """All lists of a client that noises them itself, as long as clipping lets them be, of the rounds that it is in.

    The server sees whose lists they are, and so in which rounds. Added up along what the client would send, k lists hold
    k sqrt(1 + 3 L) or nothing, under sqrt(k) times the printed noise: one coordinate is one life.
    """
    share, sigma = math.sqrt(1 + 3 * setting.list_size), setting.noise_multiplier

    def scores(present: float, count: int) -> Floats:
        coins = Batches(setting.sample_rate, None)
        times = np.zeros(count)
        for _ in range(min(setting.n_rounds, _MOST_ROUNDS)):
            times[coins.draw(count)] += 1
        seen = share * present * times + sigma * np.sqrt(times) * noise.normal((count,))
        odds: Floats = seen if sigma == 0 else share * (2 * seen - share * times) / (2 * sigma**2)
        return odds

    return "", *_counts(lambda count: scores(1.0, count), lambda count: scores(0.0, count), n, setting.delta)


def _pooled(setting: Setting, noise: Noise, n: int) -> tuple[str, int, int]:
    """One round of all clients, under noise that keeps the claim if the printed sensitivity held: Eq 2 itself, n times."""
    lists, person = _neighbours(setting.rule, setting.n_groups)
    others = lists.take(np.delete(np.arange(len(lists)), person))
    clean = [_clean(one, setting.rule, setting.n_groups) for one in (lists, others)]
    apart = clean[0] - clean[1]
    length = float(np.linalg.norm(apart))
    sigma = 0.0
    if math.isfinite(setting.claimed):
        sigma = math.sqrt(N_STATISTICS) * gaussian.sigma(setting.claimed, setting.delta)

    def scores(chosen: Lists, count: int) -> Floats:
        ids = _groups(chosen, setting.rule, setting.n_groups)
        found = []
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            books = [Ledger(setting.delta, "add-remove", "every") for _ in range(size)]
            sums = noisy_slot_sums(
                chosen, ids, setting.n_groups, [sigma] * size, [noise] * size, books, task=0, sample_rate=1.0,
                n_clients=_N_CLIENTS, pooled=True,
            )  # fmt: skip
            found += [float(_flat(one) @ apart) for one in sums]
        return np.array(found)

    times = length / math.sqrt(N_STATISTICS)
    said = f"; one client less moves the sums by {times:.1f} times what is granted"
    return said, *_counts(lambda count: scores(lists, count), lambda count: scores(others, count), n, setting.delta)


def _head(setting: Setting, noise: Noise, n: int) -> tuple[str, int, int]:
    """Rounds of a small head: is the average what the others alone would give? Nothing is noised, so n rounds are enough."""
    hits = alarms = 0
    head = Head(_WIDTH, 2, 0)
    everyone = np.arange(_N_CLIENTS)
    for seed in range(n):
        random = np.random.default_rng(seed)
        z = random.standard_normal((_N_CLIENTS, 8, _WIDTH)).astype(np.float32)
        targets = np.eye(2, dtype=np.float32)[random.integers(2, size=(_N_CLIENTS, 8))]
        clients = Clients.of(z.reshape(-1, _WIDTH), targets.reshape(-1, 2), np.repeat(everyone, 8), _N_CLIENTS)
        start = head.initial(random)[None]
        plan = LocalPlan(1, 8)
        updates = local_updates(head, start, clients, everyone, plan, client_draws(everyone, seed, "a round"))
        known = averaged(start, updates[:, :-1])  # by the attacker, who knows all others and what they draw
        hits += not np.array_equal(averaged(start, updates), known)
        alarms += not np.array_equal(averaged(start, updates[:, :-1]), known)
    return "", hits, alarms


def _counts(first: Callable[[int], Floats], second: Callable[[int], Floats], n: int, delta: float) -> tuple[int, int]:
    """Cries where a score is at least a cut, which the attacker chooses by as many releases of his own making."""
    own, without = np.sort(first(n)), np.sort(second(n))
    cuts = np.union1d(np.quantile(np.concatenate([own, without]), np.linspace(0, 1, 201)), (own[0] + without[-1]) / 2)
    hits, alarms = (n - np.searchsorted(found, cuts) for found in (own, without))
    proved = np.array([bound_of_counts(int(a), n, int(b), n, delta) for a, b in zip(hits, alarms, strict=True)])
    best = cuts[proved == proved.max()]
    cut = best[len(best) // 2]  # amid equals: far from both sides where nothing lies between them
    return int((first(n) >= cut).sum()), int((second(n) >= cut).sum())


@lru_cache(maxsize=8)
def _neighbours(rule: Rule, n_groups: int) -> tuple[Lists, int]:
    """Lists of invented clients, and the one of them whose leaving moves the four sums most."""
    found: list[tuple[float, Lists, int]] = []
    for seed, spread in _SETS:
        lists = _invented(seed, spread)
        whole = _clean(lists, rule, n_groups)
        for person in range(_N_CLIENTS):
            without = _clean(lists.take(np.delete(np.arange(_N_CLIENTS), person)), rule, n_groups)
            found.append((float(np.linalg.norm(whole - without)), lists, person))
    _, lists, person = max(found, key=lambda one: one[0])
    return lists, person


def _invented(seed: int, spread: float) -> Lists:
    """Clients with shares of a few modes on the unit sphere and rows around them, each fitted on its own."""
    random = np.random.default_rng(seed)
    modes = random.standard_normal((_N_MODES, _WIDTH))
    modes /= np.linalg.norm(modes, axis=1, keepdims=True)
    learner, lists = ListLearner(_N_MODES, restarts=1, n_steps=20), []
    for client in range(_N_CLIENTS):
        of = random.choice(_N_MODES, _ROWS, p=random.dirichlet(np.full(_N_MODES, 0.5)))
        z = modes[of] + spread * random.standard_normal((_ROWS, _WIDTH))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        lists.append(learner.fit(z, np.ones((_ROWS, 1)), np.random.default_rng(client)))
    return Lists.of(lists)


def _groups(lists: Lists, rule: Rule, n_groups: int) -> NDArray[np.int64]:
    return pooled(lists.means, n_groups, rule, lists.means[..., 0], weights=lists.weights).ids


def _clean(lists: Lists, rule: Rule, n_groups: int) -> Floats:
    """All four sums without noise: what only the simulator sees."""
    book = Ledger(0.5, "add-remove", "every")
    (sums,) = noisy_slot_sums(
        lists, _groups(lists, rule, n_groups), n_groups, [0.0], [ReleaseNoise()], [book], task=0, sample_rate=1.0,
        n_clients=_N_CLIENTS, pooled=True,
    )  # fmt: skip
    return _N_CLIENTS * _flat(sums)


def _flat(sums: SlotSums) -> Floats:
    return np.concatenate([part.ravel() for part in (sums.weights, sums.means, sums.seconds, sums.targets)])


ATTACKS: Mapping[str, Attack] = {
    "rounds": Attack(
        "The noise over all rounds",
        "likelihood ratio of all rounds' noisy sums together, granting the printed sensitivity",
        "sees the noisy sums of every round, and knows all other clients and when they took part; what the client in "
        "question sends is as long as clipping lets it be",
        _rounds,
    ),
    "lists": Attack(
        "Lists noised at home",
        "likelihood ratio of all noisy lists that one client sends",
        "is the server: sees one client's noisy list of every round that it is in, and knows whose it is; the list is as "
        "long as clipping lets it be",
        _lists,
    ),
    "pooled": Attack(
        "Lists clustered together",
        "projection of one round's noisy sums, under noise that would keep the claim if one client moved them as printed",
        "sees the noisy sums of one round of all clients, knows all other clients, and chose them: their entries change "
        "groups when the client in question leaves",
        _pooled,
        times=10,
    ),
    "head": Attack(
        "The head in the clear",
        "does the averaged head differ from what the others alone would give?",
        "sees the averaged head of one round, and knows all other clients",
        _head,
        most=100,
    ),
}
