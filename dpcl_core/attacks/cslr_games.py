"""Membership games against CSLR as printed: its noise over all rounds, noisy lists, pooled clustering, the unprotected head.

Each attacker knows two sets of clients that differ in one, sees a release from one of them and guesses which. He knows all
other clients, as differential privacy allows; his rule is fixed beforehand on simulated releases. The lists are of synthetic
clients: the choice hardly matters, and no private data are read.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import catalog, play
from dpcl_core.attacks.play import Attack, Floats, Guesses
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.method import settings_of
from dpcl_core.methods.federated.client_training import Clients, Head, LocalPlan, averaged, client_draws, local_updates
from dpcl_core.methods.federated.cslr_published import CslrPublishedParams
from dpcl_core.methods.federated.lists import ListLearner, Lists
from dpcl_core.methods.federated.matchers import pooled
from dpcl_core.methods.federated.published_release import SlotSums, noisy_slot_sums
from dpcl_core.privacy import audit_bounds, cslr_accounting, gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, ReleaseNoise
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

Rule = Literal["nearest", "hungarian"]
_N_CLIENTS, _N_MODES, _WIDTH, _ROWS = 20, 4, 16, 40  # synthetic clients; their lists come from real fits
_SETS = ((0, 0.35), (5, 0.5))  # seed and spread: worst of a dozen under one-to-one matching, and under nearest groups
_BLOCK = 500  # releases simulated at once
_MOST_ROUNDS = 2000  # later rounds are not attacked: a weaker attack, but one that takes seconds


@dataclass(frozen=True, slots=True)
class Setting:
    """The attacked setting: a claim, the noise multiplier of one statistic (0: none), and the number of rounds.

    `rule`: how clustering assigns entries to the `n_groups` groups. `list_size`: entries of the lists that clients noise
    themselves, at the same noise; 0 if they do not.
    """

    claimed: float
    noise_multiplier: float
    n_rounds: int
    sample_rate: float
    delta: float
    rule: Rule = "hungarian"
    n_groups: int = _N_MODES
    n_statistics: int = cslr_accounting.N_STATISTICS
    list_size: int = 0


def audited(setting: Setting, attack: str, trials: int) -> audit_bounds.Audited:
    """The result of one of the `ATTACKS` on this setting, from `trials` releases a side, times the attack's `times`."""
    return ATTACKS[attack].audited(setting, setting.claimed, trials, setting.delta)


def _rounds(setting: Setting, noise: Noise, n: int) -> Guesses:
    """Log-likelihood ratio over all rounds, for a client whose statistics reach the clipping norm.

    Projected on what the client sends, a round's sum is sqrt(statistics) or 0, by the round's one coin, plus noise of the
    printed multiplier. One coordinate simulates one run.
    """
    share, sigma = math.sqrt(setting.n_statistics), setting.noise_multiplier

    def scores(present: float, count: int) -> Floats:
        scores = np.zeros(count)
        coins = Batches(setting.sample_rate, None)
        for _ in range(min(setting.n_rounds, _MOST_ROUNDS)):
            seen = sigma * noise.normal((count,))
            seen[coins.draw(count)] += share * present
            if sigma == 0:
                scores += seen
                continue
            odds, rate = share * (2 * seen - share) / (2 * sigma**2), setting.sample_rate
            scores += np.logaddexp(math.log1p(-rate), math.log(rate) + odds) if rate < 1 else odds
        return scores

    return play.guessed_by_score(scores, (1.0, 0.0), n, setting.delta)


def _lists(setting: Setting, noise: Noise, n: int) -> Guesses:
    """Log-likelihood ratio over all lists of a client that noises them itself; each list reaches the clipping norm.

    The server sees whose lists they are, and so the rounds of each client. Projected on what the client would send, the sum
    of k lists is k sqrt(1 + 3 L) or 0, plus sqrt(k) times the printed noise: one coordinate simulates one run.
    """
    share, sigma = math.sqrt(1 + 3 * setting.list_size), setting.noise_multiplier

    def scores(present: float, count: int) -> Floats:
        coins = Batches(setting.sample_rate, None)
        times = np.zeros(count)
        for _ in range(min(setting.n_rounds, _MOST_ROUNDS)):
            times[coins.draw(count)] += 1
        seen = share * present * times + sigma * np.sqrt(times) * noise.normal((count,))
        return seen if sigma == 0 else share * (2 * seen - share * times) / (2 * sigma**2)

    return play.guessed_by_score(scores, (1.0, 0.0), n, setting.delta)


def _pooled(setting: Setting, noise: Noise, n: int) -> Guesses:
    """One round of all clients, under noise that would meet the claim if the printed sensitivity held: Eq 2, n times."""
    lists, person = _neighbours(setting.rule, setting.n_groups)
    others = lists.take(np.delete(np.arange(len(lists)), person))
    clean = [_clean(one, setting.rule, setting.n_groups) for one in (lists, others)]
    difference = clean[0] - clean[1]
    length = float(np.linalg.norm(difference))
    sigma = 0.0
    if math.isfinite(setting.claimed):
        sigma = math.sqrt(cslr_accounting.N_STATISTICS) * gaussian.sigma(setting.claimed, setting.delta)

    def scores(chosen: Lists, count: int) -> Floats:
        ids = _groups(chosen, setting.rule, setting.n_groups)
        projections = []
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            books = [Ledger(setting.delta, "add-remove", "every") for _ in range(size)]
            sums = noisy_slot_sums(
                chosen, ids, setting.n_groups, [sigma] * size, [noise] * size, books, task=0,
                n_clients=_N_CLIENTS, pooled=True,
            )  # fmt: skip
            projections += [float(_flat(one) @ difference) for one in sums]
        return np.array(projections)

    times = length / math.sqrt(cslr_accounting.N_STATISTICS)
    remark = f"; one client less moves the sums by {times:.1f} times what is granted"
    return replace(play.guessed_by_score(scores, (lists, others), n, setting.delta), remark=remark)


def _head(setting: Setting, noise: Noise, n: int) -> Guesses:
    """Rounds of a small head: compares the average with that of the other clients. Without noise, n rounds suffice."""
    hits = alarms = 0
    head = Head(_WIDTH, 2, 0)
    all_clients = np.arange(_N_CLIENTS)
    for seed in range(n):
        random = np.random.default_rng(seed)
        z = random.standard_normal((_N_CLIENTS, 8, _WIDTH)).astype(np.float32)
        targets = np.eye(2, dtype=np.float32)[random.integers(2, size=(_N_CLIENTS, 8))]
        clients = Clients.of(z.reshape(-1, _WIDTH), targets.reshape(-1, 2), np.repeat(all_clients, 8), _N_CLIENTS)
        start = head.initial(random)
        plan = LocalPlan(1, 8)
        updates = local_updates(head, start, clients, all_clients, plan, client_draws(all_clients, seed, "a round"))
        known = averaged(start, updates[:-1])  # the attacker knows all other clients and their random draws
        hits += not np.array_equal(averaged(start, updates), known)
        alarms += not np.array_equal(averaged(start, updates[:-1]), known)
    return Guesses(hits, alarms, n)


@lru_cache(maxsize=8)
def _neighbours(rule: Rule, n_groups: int) -> tuple[Lists, int]:
    """Lists of synthetic clients, and the client whose removal changes the four sums most."""
    candidates: list[tuple[float, Lists, int]] = []
    for seed, spread in _SETS:
        lists = _synthetic(seed, spread)
        with_all = _clean(lists, rule, n_groups)
        for person in range(_N_CLIENTS):
            without = _clean(lists.take(np.delete(np.arange(_N_CLIENTS), person)), rule, n_groups)
            candidates.append((float(np.linalg.norm(with_all - without)), lists, person))
    _, lists, person = max(candidates, key=lambda one: one[0])
    return lists, person


def _synthetic(seed: int, spread: float) -> Lists:
    """Fitted lists of clients whose rows scatter around a few modes on the unit sphere, in client-specific shares."""
    random = np.random.default_rng(seed)
    modes = random.standard_normal((_N_MODES, _WIDTH))
    modes /= np.linalg.norm(modes, axis=1, keepdims=True)
    learner, lists = ListLearner(_N_MODES, restarts=1, n_steps=20), []
    for client in range(_N_CLIENTS):
        mode = random.choice(_N_MODES, _ROWS, p=random.dirichlet(np.full(_N_MODES, 0.5)))
        z = modes[mode] + spread * random.standard_normal((_ROWS, _WIDTH))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        lists.append(learner.fit(z, np.ones((_ROWS, 1)), np.random.default_rng(client)))
    return Lists.of(lists)


def _groups(lists: Lists, rule: Rule, n_groups: int) -> NDArray[np.int64]:
    return pooled(lists.means, n_groups, rule, lists.means[..., 0], weights=lists.weights).ids


def _clean(lists: Lists, rule: Rule, n_groups: int) -> Floats:
    """All four sums without noise, which only the simulator sees."""
    book = Ledger(0.5, "add-remove", "every")
    (sums,) = noisy_slot_sums(
        lists, _groups(lists, rule, n_groups), n_groups, [0.0], [ReleaseNoise()], [book], task=0,
        n_clients=_N_CLIENTS, pooled=True,
    )  # fmt: skip
    return _N_CLIENTS * _flat(sums)


def _flat(sums: SlotSums) -> Floats:
    return np.concatenate([part.ravel() for part in (sums.weights, sums.means, sums.seconds, sums.targets)])


ATTACKS: Mapping[str, Attack[Setting]] = {
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


def fitting(spec: RunSpec) -> tuple[str, ...]:
    """The attacks that fit the run's releases: with noisy lists, clients release only these and the head."""
    return ("lists", "head") if settings_of(spec, CslrPublishedParams).noisy_lists else ("rounds", "pooled", "head")


def _run_audited(spec: RunSpec, epsilon: float, attack: str, trials: int) -> audit_bounds.Audited:
    """One of the attacks at one budget. Raises BadInput for an attack on a release that these settings do not make."""
    if attack not in fitting(spec):
        is_noisy = "true" if "lists" in fitting(spec) else "false"
        allowed = f"must be one of {', '.join(fitting(spec))} with params.noisy_lists = {is_noisy}"
        raise BadInput("--attack", attack, allowed)
    return audited(setting(spec, epsilon), attack, trials)


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise and the rounds of a run at a claimed budget; no noise at infinity."""
    params = settings_of(spec, CslrPublishedParams)
    dataset = datasets.facts_of(spec.data)
    n_tasks = scenarios.number_of_tasks(spec.scenario, dataset.n_classes, dataset.sources)
    n_of_client = n_tasks if spec.scenario.recurrence == "every" else 1
    # Transport decides like an assignment here, but is a hundred times slower; a random order is no clustering.
    rule: Rule = "nearest" if params.rule == "nearest" and params.matcher != "random" else "hungarian"
    sigma = cslr_accounting.printed_multiplier(epsilon) if math.isfinite(epsilon) else 0.0
    return Setting(
        epsilon, sigma, n_of_client * params.rounds, params.participation, spec.privacy.delta, rule, params.modes_per_task,
        list_size=params.list_size if params.noisy_lists else 0,
    )  # fmt: skip


AUDITS = {"cslr-published": catalog.Audit(play.of_claim(ATTACKS, _run_audited), fitting=fitting)}
