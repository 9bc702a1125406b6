"""Epsilon of one DP-SGD training by three accountants: two tight ones with independent code, and a loose one."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import dp_accounting as dp

from dpcl_core.events import JsonValue, plain_number
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.allowed import check_accounted
from dpcl_core.spec import Adjacency

_PRV_ERROR = 2e-3  # of epsilon, relative above 1: the accountant adds it to what it reports


@dataclass(frozen=True, slots=True)
class Accounts:
    """Epsilon of the same steps by each accountant, all upper bounds; None where an accountant has no bound.

    `pld`: privacy loss distributions (Google's dp_accounting), the one that counts. `prv`: privacy random variables
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
        named = {"pld": self.pld, "prv": self.prv, "rdp": self.rdp, "exact": self.exact}
        numbers: dict[str, JsonValue] = {name: None if x is None else plain_number(x) for name, x in named.items()}
        return {**numbers, "error": self.error, "agree": self.agree}

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
    check_accounted(delta)
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
    accountant = dp.rdp.RdpAccountant()
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
