"""Any one of epsilon, sigma and delta from the other two, and the epsilon of one training by three accountants."""

import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from numbers import Real

from dpcl_core.errors import BadInput, unknown
from dpcl_core.events import JsonValue, plain_number
from dpcl_core.privacy import accounting, budgets, gaussian
from dpcl_core.privacy.dp_events import dp
from dpcl_core.spec import Adjacency

# Below, closed forms lose their digits; above, an answer takes minutes.
_SMALLEST_EPSILON, _SMALLEST_DELTA, _MOST_STEPS = 1e-6, 1e-100, 1_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A consistent triple. `sigma` is the noise multiplier: standard deviation over the add/remove sensitivity."""

    epsilon: float
    sigma: float
    delta: float


def solve(
    *, epsilon: float | None, sigma: float | None, delta: float | None, sample_rate: float = 1.0, n_steps: int = 1,
    adjacency: Adjacency = "add-remove",
) -> Answer:  # fmt: skip
    """The missing one of epsilon, sigma and delta for `n_steps` Gaussian releases, each Poisson-sampled at `sample_rate`.

    Without sampling the answer is the closed form (n releases of noise sigma are one of sigma / sqrt(n)); with sampling it
    is the accountant's upper bound. Raises BadInput naming the setting that is missing or impossible.
    """
    given = {"epsilon": epsilon, "sigma": sigma, "delta": delta, "sample_rate": sample_rate}
    n_given = sum(given[name] is not None for name in ("epsilon", "sigma", "delta"))
    if n_given != 2:
        raise BadInput("account", f"{n_given} of epsilon, sigma, delta", "give exactly two of epsilon, sigma, delta")
    if adjacency not in gaussian.SENSITIVITY:
        raise unknown("adjacency", str(adjacency), gaussian.SENSITIVITY)
    for name, value in given.items():
        if value is not None and not isinstance(value, Real):
            raise BadInput(name, value, "must be a number")
    budgets.check_counts(steps=n_steps)
    budgets.check_rate(sample_rate)
    if sigma is not None:
        budgets.check_finite(sigma=sigma)
    if epsilon is not None:
        budgets.check_budget(epsilon)
    if delta is not None:
        (budgets.check_delta if sample_rate == 1 else budgets.check_accounted)(delta)
    for name, least in {"sigma": budgets.SMALLEST_SIGMA, "epsilon": _SMALLEST_EPSILON, "delta": _SMALLEST_DELTA}.items():
        value = given[name]
        if value is not None and value < least:
            raise BadInput(name, value, f"must be at least {least:g}")
    if n_steps > _MOST_STEPS:
        raise BadInput("steps", n_steps, f"must be at most {_MOST_STEPS:,}")
    epsilon, sigma, delta = (None if x is None else float(x) for x in (epsilon, sigma, delta))  # 1 is an int
    is_exact, sensitivity = sample_rate == 1, gaussian.SENSITIVITY[adjacency] * math.sqrt(n_steps)
    match epsilon, sigma, delta:
        case None, float(), float() if is_exact:
            return Answer(gaussian.epsilon(sigma, delta, sensitivity), sigma, delta)
        case float(), None, float() if is_exact:
            return Answer(epsilon, gaussian.sigma(epsilon, delta, sensitivity), delta)
        case float(), float(), None if is_exact:
            return Answer(epsilon, sigma, gaussian.delta(epsilon, sigma, sensitivity))
        case None, float(), float():
            event = accounting.subsampled_gaussian(sigma, sample_rate, n_steps)
            return Answer(accounting.Pld().epsilon([event], delta, adjacency), sigma, delta)
        case float(), None, float():
            return Answer(epsilon, accounting.noise_multiplier(epsilon, delta, sample_rate, n_steps, adjacency), delta)
        case float(), float(), None:
            event = accounting.subsampled_gaussian(sigma, sample_rate, n_steps)
            return Answer(epsilon, sigma, accounting.delta(event, epsilon, adjacency))
    raise AssertionError("exactly two are given")


# One training by three accountants: two tight ones with independent code, and a loose one.


_PRV_ERROR = 2e-3  # of epsilon, relative above 1: the accountant adds it to what it reports


@dataclass(frozen=True, slots=True)
class Accounts:
    """Epsilon of the same steps by each accountant, all upper bounds; None where an accountant has no bound.

    `pld`: privacy loss distributions (as in Google's dp_accounting), the one that counts. `prv`: privacy random variables
    (Opacus, Gopi et al. 2021), for sampled steps under add/remove. `rdp`: Renyi divergences (Mironov 2017), never tight.
    `exact`: the Gaussian's closed form, where nothing is sampled. `error`: what PLD and the other tight one may differ by.
    """

    pld: float
    prv: float | None
    rdp: float | None
    exact: float | None
    error: float

    @property
    def agree(self) -> bool:
        """Whether the tight accountants agree and the loose one reports no less; no bound contradicts nothing."""
        if math.isinf(self.pld):
            return True
        tight = self.exact if self.exact is not None else self.prv
        is_same = tight is None or abs(self.pld - tight) <= self.error
        return is_same and (self.rdp is None or self.rdp >= self.pld - self.error)

    def document(self) -> dict[str, JsonValue]:
        """The numbers as JSON, None where an accountant has no bound, and whether they agree."""
        numbers: dict[str, JsonValue] = {name: None if x is None else plain_number(x) for name, x in asdict(self).items()}
        return {**numbers, "agree": self.agree}

    def sentence(self) -> str:
        """The numbers in one line."""
        named = {"PLD": self.pld, "PRV": self.prv, "exact": self.exact, "RDP": self.rdp}
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in named.items() if value is not None)
        return f"epsilon by accountant: {numbers} ({self.verdict})"

    @property
    def verdict(self) -> str:
        """Whether the numbers agree, in words."""
        if not self.agree:
            return "they contradict each other: one accountant is wrong"
        if math.isinf(self.pld):
            return "no bound: so little noise hides nobody"
        if self.prv is not None or self.exact is not None:
            return "the tight ones agree"
        return "no other one knows these steps" if self.rdp is None else "only the loose one has a bound, too, and agrees"


def accounts(noise_multiplier: float, delta: float, sample_rate: float, n_steps: int, adjacency: Adjacency) -> Accounts:
    """Epsilon of `n_steps` Gaussian steps on Poisson batches by each accountant. Loads torch where steps are sampled.

    Raises BadInput for impossible settings, Unaccountable where even the first accountant has no bound.
    """
    budgets.check_accounted(delta)
    event = accounting.subsampled_gaussian(noise_multiplier, sample_rate, n_steps)
    pld = accounting.Pld().epsilon([event], delta, adjacency)
    error = _PRV_ERROR * max(1.0, pld)
    prv = exact = None
    if sample_rate == 1:
        exact = gaussian.epsilon(noise_multiplier, delta, gaussian.SENSITIVITY[adjacency] * n_steps**0.5)
    elif adjacency == "add-remove" and math.isfinite(pld):
        prv = _prv(noise_multiplier, delta, sample_rate, n_steps, error)
    if adjacency == "replace":  # the library doubles the change in its loss distributions, but not in its divergences
        halved = noise_multiplier / gaussian.SENSITIVITY[adjacency]
        rdp = _rdp(accounting.subsampled_gaussian(halved, 1.0, n_steps), delta) if sample_rate == 1 else None
    else:
        rdp = _rdp(event, delta)
    return Accounts(pld, prv, rdp, exact, 1.5 * error)


def _prv(noise_multiplier: float, delta: float, sample_rate: float, n_steps: int, error: float) -> float | None:
    """None where the noise is too little for its grid."""
    with warnings.catch_warnings(action="ignore"):  # about the orders that choose its grid
        from opacus.accountants import PRVAccountant

        accountant = PRVAccountant()
        accountant.history = [(noise_multiplier, sample_rate, n_steps)]
        try:
            epsilon = float(accountant.get_epsilon(delta, eps_error=error, delta_error=delta * 1e-4))
        except RuntimeError:  # it "cannot compute epsilon"
            return None
    return epsilon if math.isfinite(epsilon) else None


def _rdp(event: dp.DpEvent, delta: float) -> float:
    from dp_accounting.rdp import RdpAccountant  # loads SciPy, for the few who ask

    accountant = RdpAccountant()
    with quiet():
        accountant.compose(event)
    return float(accountant.get_epsilon(delta))


@contextmanager
def quiet() -> Iterator[None]:
    """Silences dp_accounting's warnings about fractional orders that do not converge; it leaves those orders out."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
