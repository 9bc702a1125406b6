"""Epsilon of CSLR's printed noise under every reading of its text, by three accountants; the paper's claim is not a bound.

Shihab et al. (arXiv 2606.00426) print noise multipliers for epsilon 1, 4 and 8 (Table 5), four statistics a mode and round
(weight, mean, second moment, target), and count Renyi divergences at orders 2 to 64 (Eqs. 6 to 9). The text does not say
how clients are drawn, what neighbours are, or how many clipping norms a client can move one statistic by: each of these is a
field of `Reading`. Without `head_multiplier` the head's updates leave in the clear, and no number here covers them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core import published
from dpcl_core.errors import BadInput
from dpcl_core.events import Claim
from dpcl_core.privacy import accounting, budgets, calculator
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.privacy.numerics import root
from dpcl_core.spec import Adjacency

# The claims of CSLR's paper: the noise printed for an epsilon, and the sizes of its benchmarks. A label, no bound.


PAPER = "Shihab et al., Table 5"
SOURCE = f"{PAPER}; for the replay release alone"  # a claim never goes about without these words
TABLE_5: Mapping[float, float] = published.by_budget("cslr", "5", "noise_multiplier")  # of one statistic over B


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Sizes of a benchmark of the paper. `alpha`: of its Dirichlet partition, None where clients are dealt by domain."""

    n_clients: int
    n_tasks: int
    alpha: float | None


def _printed(metric: str) -> dict[str, float]:
    return {row.dataset: value for row, value in published.rows_with("cslr", "benchmarks", metric)}


_TASKS, _ALPHAS = _printed("n_tasks"), _printed("dirichlet_alpha")
BENCHMARKS: Mapping[str, Benchmark] = {  # by the paper's names
    name: Benchmark(int(n_clients), int(_TASKS[name]), _ALPHAS.get(name))
    for name, n_clients in _printed("n_clients").items()
}


def printed_multiplier(epsilon: float) -> float:
    """Table 5's noise for a claimed epsilon. Raises BadInput for any that it does not print."""
    if epsilon not in TABLE_5:
        raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", "must be 1, 4 or 8: no noise is printed for any other")
    return TABLE_5[epsilon]


Sampling = Literal["poisson", "everyone", "fixed"]
ORDERS = tuple(range(2, 65))
N_STATISTICS = 4
ROUNDS_PER_TASK = 50


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read what is released, every assumption a number.

    `noise_multiplier`: standard deviation of the noise on one statistic over its clipping norm B. `sensitivity`: change of
    one statistic by one client under add/remove, in units of B: 1, or sqrt(K) where each of K modes is clipped separately.
    `sampling`: "poisson", each client with probability `sample_rate`; "fixed", a set of `sample_rate` of the `n_clients`;
    "everyone", all of them, which is also Eqs. 6 to 9 as printed, without amplification. `one_coin`: the statistics of a
    round come from the same clients and are amplified together; False amplifies each separately, which is not valid.
    `with_list`: as many statistics again at the same noise, for the clients' own lists. `head_multiplier`: noise on the sum
    of the head's updates of the same round over their clipping norm; None: the head is not counted.
    """

    noise_multiplier: float
    n_rounds: int = 200
    n_statistics: int = N_STATISTICS
    sampling: Sampling = "poisson"
    sample_rate: float = 0.3
    n_clients: int = 20
    adjacency: Adjacency = "add-remove"
    sensitivity: float = 1.0
    one_coin: bool = True
    with_list: bool = False
    head_multiplier: float | None = None
    delta: float = 1e-5

    @property
    def n_sampled(self) -> int:
        """Clients of a round under "fixed", at least one."""
        return max(1, round(self.sample_rate * self.n_clients))

    @property
    def joint_multiplier(self) -> float:
        """Noise multiplier of a round as one Gaussian on all that a client sends: 1/z^2 adds over statistics, list, head."""
        n_statistics = self.n_statistics * (2 if self.with_list else 1)
        squares = n_statistics * (self.sensitivity / self.noise_multiplier) ** 2
        if self.head_multiplier is not None:
            squares += 1 / self.head_multiplier**2
        return 1 / math.sqrt(squares)

    def events(self) -> list[dp.DpEvent]:
        """All rounds as ledger events, with add/remove multipliers. Raises BadInput for impossible numbers."""
        budgets.check_finite(noise_multiplier=self.noise_multiplier, sensitivity=self.sensitivity)
        if self.head_multiplier is not None:
            budgets.check_finite(head_multiplier=self.head_multiplier)
        budgets.check_counts(n_rounds=self.n_rounds, n_statistics=self.n_statistics, n_clients=self.n_clients)
        budgets.check_rate(self.sample_rate)
        budgets.check_delta(self.delta)
        if self.one_coin:
            return [self._rounds(self.joint_multiplier, self.n_rounds)]
        n_statistics = self.n_statistics * (2 if self.with_list else 1)
        events = [self._rounds(self.noise_multiplier / self.sensitivity, self.n_rounds * n_statistics)]
        return events if self.head_multiplier is None else [*events, self._rounds(self.head_multiplier, self.n_rounds)]

    def _rounds(self, multiplier: float, count: int) -> dp.DpEvent:
        step = accounting.gaussian_step(multiplier, self.sample_rate if self.sampling == "poisson" else 1.0)
        if self.sampling == "fixed":
            step = dp.SampledWithoutReplacementDpEvent(self.n_clients, self.n_sampled, step)
        return dp.SelfComposedDpEvent(step, count)


@dataclass(frozen=True, slots=True)
class Costs:
    """Epsilon of one reading, all upper bounds; None where an accountant does not support these steps.

    `eq_9`: the paper's own formula; `rdp`: the same divergences by the better conversion of dp_accounting; `pld`: privacy
    loss distributions, the one that counts here.
    """

    eq_9: float | None
    rdp: float | None
    pld: float | None

    @property
    def least(self) -> float | None:
        """The smallest of the bounds, which all hold; None where no accountant has one."""
        return min((one for one in (self.eq_9, self.rdp, self.pld) if one is not None), default=None)


@lru_cache(maxsize=4096)
def costs(reading: Reading) -> Costs:
    """Costs of a reading by all three accountants, cached. Raises BadInput for impossible numbers."""
    events = reading.events()
    is_known = not any(map(_is_fixed, events))
    pld = accounting.Pld().epsilon(events, reading.delta, reading.adjacency) if is_known else None
    return Costs(*_renyi(events, reading.delta, reading.adjacency), pld)


def nominal_claim(epsilon: float, reading: Reading) -> Claim:
    """The publication's claim for a replay release, with the computed costs of its noise.

    No number includes the head: while its updates leave in the clear, the whole has no bound.
    """
    total, one_round = costs(reading), costs(replace(reading, n_rounds=1))
    numbers = {
        "noise multiplier of a statistic": reading.noise_multiplier,
        "statistics a round": float(reading.n_statistics),
        "rounds": float(reading.n_rounds),
        "share of clients a round": 1.0 if reading.sampling == "everyone" else reading.sample_rate,
        "δ": reading.delta,
    }
    if reading.with_list:
        numbers["statistics of each client's own list"] = float(reading.n_statistics)
    named = {"by Eq. 9": total.eq_9, "by RDP": total.rdp, "by PLD": total.pld, "of one round alone, by PLD": one_round.pld}
    numbers |= {f"computed ε {how}": value for how, value in named.items() if value is not None}
    return Claim(epsilon, SOURCE, {"replay release": epsilon}, numbers)


def multiplier_for(epsilon: float, reading: Reading, accountant: Literal["pld", "rdp"] = "pld") -> float:
    """Smallest noise multiplier of one statistic for which this reading, otherwise unchanged, stays within (epsilon, delta).

    Rounded up to four digits. Raises BadInput for impossible numbers, Unaccountable where the accountant has no bound.
    """

    def events(multiplier: float) -> list[dp.DpEvent]:
        return replace(reading, noise_multiplier=multiplier).events()

    if accountant == "pld":
        return accounting.calibrated(events, epsilon, reading.delta, reading.adjacency)

    def excess(logarithm: float) -> float:
        bound = _renyi(events(math.exp(logarithm)), reading.delta, reading.adjacency)[1]
        if bound is None:
            raise accounting.Unaccountable(f"no Renyi divergence is known of {reading.sampling} under {reading.adjacency}")
        return bound - epsilon

    return math.ceil(math.exp(root(excess, math.log(1e-3), math.log(1e5), xtol=1e-7)) * 1e4) / 1e4


def per_client(reading: Reading, n_participations: int) -> Costs:
    """Costs of one client's own list against a server that sees each client's list: every participation counts in full.

    The server sees who sent what, so there is no amplification and no averaging; `n_rounds` is replaced.
    """
    return costs(replace(reading, n_rounds=n_participations, sampling="everyone"))


def participations(n_rounds: int, sample_rate: float) -> tuple[int, int]:
    """Number of draws of a client in `n_rounds`: expected (rounded), and not exceeded with probability 0.999."""
    from scipy.stats import binom  # takes long to load, for the few who ask

    return round(n_rounds * sample_rate), int(binom.ppf(0.999, n_rounds, sample_rate))


def _renyi(events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> tuple[float | None, float | None]:
    """Eq. 9 and the tighter conversion at orders 2 to 64; the former where the divergences have a closed form."""
    single: list[dp.DpEvent] = list(events) if adjacency == "add-remove" else [_half(event) for event in events]
    if any(map(_is_fixed, events)):
        return None, _fixed(single, delta) if adjacency == "replace" else None
    if any(isinstance(event, dp.UnsupportedDpEvent) for event in single):
        return None, None
    divergences = sum((event.count * _divergences(event.event) for event in single), np.zeros(len(ORDERS)))
    printed = divergences + math.log(1 / delta) / (np.array(ORDERS) - 1)
    return float(printed.min()), accounting.of_divergences(ORDERS, divergences, delta)


def _fixed(events: Sequence[dp.DpEvent], delta: float) -> float | None:
    """Epsilon by the library, for samples of a fixed size, whose divergences have no closed form; None if unsupported."""
    import dp_accounting as library  # its accountants load SciPy, which few ask for

    accountant = library.rdp.RdpAccountant(ORDERS, library.NeighboringRelation.REPLACE_ONE)
    if not all(accountant.supports(event) for event in events):
        return None
    with calculator.quiet():
        for event in events:
            accountant.compose(event)
        return float(accountant.get_epsilon(delta))


def _divergences(step: dp.DpEvent) -> NDArray[np.float64]:
    """Renyi divergences of one Gaussian on a Poisson sample, at ORDERS (Mironov, Talwar, Zhang 2019, section 3.3)."""
    if isinstance(step, dp.GaussianDpEvent):
        divergences: NDArray[np.float64] = np.array(ORDERS) / (2 * step.noise_multiplier**2)
        return divergences
    q, sigma = step.sampling_probability, step.event.noise_multiplier
    return np.array([accounting.renyi_divergence(order, q, sigma) for order in ORDERS])


def _is_fixed(event: dp.DpEvent) -> bool:
    return isinstance(event.event, dp.SampledWithoutReplacementDpEvent)


def _half(event: dp.DpEvent) -> dp.DpEvent:
    """The event for a change twice as large; unsupported where that is not the cost of replacing a client.

    The library's divergences take "replace" multipliers unchanged, its loss distributions double the change.
    """
    match event.event:
        case dp.GaussianDpEvent(multiplier):
            return dp.SelfComposedDpEvent(dp.GaussianDpEvent(multiplier / SENSITIVITY["replace"]), event.count)
        case dp.SampledWithoutReplacementDpEvent(of, size, dp.GaussianDpEvent(multiplier)):
            step = dp.SampledWithoutReplacementDpEvent(of, size, dp.GaussianDpEvent(multiplier / SENSITIVITY["replace"]))
            return dp.SelfComposedDpEvent(step, event.count)
    return dp.UnsupportedDpEvent()  # Poisson: the replacement is drawn by the same coin as the client


# Readings of CSLR's text against which its claims are tested: what is released, how often, from whom, how clipped.


@dataclass(frozen=True, slots=True)
class Row:
    """A named reading; `of` sets its noise multiplier. `is_as_printed`: the protocol that the paper describes."""

    name: str
    reading: Reading
    is_head_alike: bool = False
    is_as_printed: bool = False

    def of(self, noise_multiplier: float) -> Reading:
        """The reading with this noise on each statistic, and on the head where it has any."""
        head = noise_multiplier if self.is_head_alike else None
        return replace(self.reading, noise_multiplier=noise_multiplier, head_multiplier=head)


def rows(n_clients: int = 20, n_tasks: int = 4, delta: float = 1e-5) -> Mapping[str, Row]:
    """All readings by short name, for these numbers of clients and tasks (K groups as printed: one per task)."""
    n_rounds = ROUNDS_PER_TASK * n_tasks
    base = Reading(1.0, n_rounds, n_clients=n_clients, delta=delta)
    fixed = replace(base, sampling="fixed", adjacency="replace")
    by_task = replace(base, n_rounds=n_tasks)
    all_rounds = f"{n_rounds} rounds"
    readings = {
        "round": Row("one round, 4 statistics", replace(base, n_rounds=1)),
        "round-1": Row("one round, 1 statistic", replace(base, n_rounds=1, n_statistics=1)),
        "task-1": Row(f"once a task ({n_tasks}), 1 statistic", replace(by_task, n_statistics=1)),
        "task": Row(f"once a task ({n_tasks}), 4 statistics", by_task),
        "task-all": Row(f"once a task ({n_tasks}), 4 statistics, all clients", replace(by_task, sampling="everyone")),
        "printed": Row(f"{all_rounds}, 4 statistics: the paper's protocol", base, is_as_printed=True),
    }
    for name, benchmark in BENCHMARKS.items():
        if benchmark.n_tasks != n_tasks:
            rounds = ROUNDS_PER_TASK * benchmark.n_tasks
            readings[f"rounds-{rounds}"] = Row(f"the same with {rounds} rounds ({name})", replace(base, n_rounds=rounds))
    return readings | {
        "one": Row(f"{all_rounds}, 1 statistic counted", replace(base, n_statistics=1)),
        "list": Row(f"{all_rounds}, the clients' own lists released too", replace(base, with_list=True)),
        "modes": Row(
            f"{all_rounds}, each of K = {n_tasks} groups clipped on its own", replace(base, sensitivity=math.sqrt(n_tasks))
        ),
        "whole": Row(
            f"{all_rounds}, lists released too, every entry clipped on its own: the printed algorithm, whole",
            replace(base, with_list=True, sensitivity=math.sqrt(n_tasks)),
        ),
        "plain": Row(f"{all_rounds}, nothing amplified (Eqs. 6 to 9)", replace(base, sampling="everyone")),
        "fixed": Row(f"{all_rounds}, {fixed.n_sampled} of {n_clients} clients, one replaced by another", fixed),
        "head": Row(f"{all_rounds}, and a head with the same noise", base, is_head_alike=True),
    }
