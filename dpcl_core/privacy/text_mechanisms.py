"""Closed forms for noise on token embeddings: PeCL's printed Eq. 5, its true epsilon, and the noise of a valid bound.

A token's embedding is a vector clipped to length C, with Gaussian noise of standard deviation sigma on each coordinate. Only
the ratio sigma / C matters, so C does not appear. The mechanisms follow below.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.events import Claim
from dpcl_core.privacy import budgets, gaussian
from dpcl_core.privacy.accounting import LocalDpEvent, calibrated
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.numerics import root
from dpcl_core.privacy.sums import finite_rows, row_blocks

Floats = NDArray[np.floating]
PAPER = "Zhan et al., Theorem 1"
SOURCE = f"{PAPER}; nominal, no guarantee"  # shown with every claim
DISTANCE = 2.0  # of two vectors of length C at most, in units of C: opposite ones
_WIDTH, _POINTS = 14.0, 20_001  # range of integration in standard deviations of the squared length, and grid points


def printed_ratio(epsilon: float, delta: float) -> float:
    """sigma / C of Eq. 5, sqrt(2 ln(1.25 / delta)) / epsilon; 0 for epsilon = inf.

    Two clipped vectors can be 2C apart (the paper's own Lemma 1), but Eq. 5 is calibrated to C.
    """
    return float(printed_ratios(np.array([epsilon]), delta)[0])


def printed_ratios(epsilons: Floats, delta: float) -> NDArray[np.float64]:
    """`printed_ratio` of many nominal budgets, of any shape."""
    budgets.check_delta(delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / np.asarray(epsilons, np.float64)


def true_epsilon(ratio: float, delta: float, n_releases: int = 1) -> float:
    """Exact epsilon of one token for this sigma / C, over `n_releases` with fresh noise; inf without noise.

    The Gaussian mechanism at sensitivity 2C (Balle and Wang 2018, Theorem 8); n releases of one token compose to one of
    sensitivity 2C sqrt(n). It holds only where the ratio does not depend on the token; in the paper it does.
    """
    return gaussian.epsilon(ratio, delta, DISTANCE * math.sqrt(n_releases))


def true_epsilons(ratios: Floats, delta: float, n_releases: int = 1) -> NDArray[np.float64]:
    """`true_epsilon` of many tokens at once, of any shape, to twelve digits. A ratio of 0 gives inf."""
    from scipy.special import log_ndtr, ndtr  # takes long to load, and not every run has tokens

    budgets.check_delta(delta)
    ratio_array = np.asarray(ratios, np.float64)
    mu = DISTANCE * math.sqrt(n_releases) / np.where(ratio_array > 0, ratio_array, 1.0)
    low = np.zeros(mu.shape)
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1
    for _ in range(64):  # bisections
        middle = (low + high) / 2
        excess = ndtr(mu / 2 - middle / mu) - np.exp(middle + log_ndtr(-mu / 2 - middle / mu)) > delta
        low, high = np.where(excess, middle, low), np.where(excess, high, middle)
    return np.where(ratio_array > 0, np.where(low > 0, high, 0.0), math.inf)


def true_delta(epsilon: float, ratio: float) -> float:
    """Smallest delta at which one token's noise of this sigma / C is (epsilon, delta)-DP, at sensitivity 2C."""
    return gaussian.delta(epsilon, ratio, DISTANCE)


def text_epsilon(ratios: Sequence[float], delta: float, n_releases: int = 1) -> float:
    """Exact epsilon of a whole text from its tokens' sigma / C: mu^2 is the sum of (2 / ratio)^2.

    All tokens may be replaced at once; the text's length is public. `n_releases`: with fresh noise each time, for instance
    once per epoch. inf where a token has no noise. Ignores that noise levels which depend on the tokens reveal them.
    """
    if not all(ratio > 0 for ratio in ratios):
        return math.inf
    mu = math.sqrt(n_releases * sum((DISTANCE / ratio) ** 2 for ratio in ratios))
    return gaussian.epsilon(1 / mu, delta) if mu > 0 else 0.0


def remark_1(epsilons: Sequence[float], delta: float) -> float:
    """The paper's Remark 1 for a text of L tokens: sum + sqrt(2 L ln(1 / delta')) max. Always above the plain sum.

    The paper calls it advanced composition; it would hold at L delta + delta', not at the printed delta. Args: nominal
    budgets of the L tokens (none: 0), delta' in (0, 1), else BadInput.
    """
    budgets.check_delta(delta)
    return sum(epsilons) + math.sqrt(2 * len(epsilons) * math.log(1 / delta)) * max(epsilons, default=0.0)


def ratio_for(epsilon: float, delta: float, n_tokens: int = 1, n_releases: int = 1) -> float:
    """Smallest sigma / C for which n tokens together are within (epsilon, delta), rounded up; 0 for epsilon = inf.

    The neighbour has other tokens in all n places ("replace"; how many there are is public). Each clipped row is in a ball
    of radius C, so two of them are at most 2C apart, and the n rows stacked sqrt(n (2C)^2) = 2C sqrt(n), reached by opposite
    rows of length C. Each release with fresh noise counts like n more tokens. All tokens have the same noise, so the noise
    level reveals nothing; with one token this is the bound for one occurrence.
    """
    return gaussian.sigma(epsilon, delta, DISTANCE * math.sqrt(n_tokens * n_releases))


def scale_epsilon(first: float, second: float, n_values: int, delta: float) -> float:
    """Epsilon of the noise level alone: two tokens with equal embeddings and noise of different standard deviations.

    One noisy vector of `n_values` coordinates reveals which, because its squared length hardly varies. Args: two standard
    deviations, in any unit. Exact but for the integration.
    """
    budgets.check_delta(delta)
    return max(_one_way(first, second, n_values, delta), _one_way(second, first, n_values, delta))


def scale_advantage(first: float, second: float, n_values: int) -> float:
    """Advantage of the best guess between the two noise levels: total variation distance, in [0, 1]."""
    loss, weights = _losses(first, second, n_values)
    return float(weights @ np.maximum(-np.expm1(-loss), 0.0))


def _one_way(first: float, second: float, n_values: int, delta: float) -> float:
    """Smallest epsilon with E_first[(1 - e^(epsilon - loss))+] <= delta."""
    loss, weights = _losses(first, second, n_values)

    def excess(epsilon: float) -> float:
        return float(weights @ np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)) - delta

    return 0.0 if excess(0.0) <= 0 else root(excess, 0.0, float(loss.max()), xtol=1e-9)


def _losses(first: float, second: float, n_values: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Privacy loss of N(0, first^2 I) against N(0, second^2 I) on a grid of squared lengths, and the grid's chances."""
    for std in (first, second):
        budgets.check_positive(sigma=std)
    # The squared length over first^2 has a chi-squared law; its cube root is nearly normal (Wilson and Hilferty).
    spread = math.sqrt(2 / (9 * n_values))
    roots = np.linspace(max(1e-9, 1 - spread * spread - _WIDTH * spread), 1 - spread * spread + _WIDTH * spread, _POINTS)
    squared = n_values * roots**3
    half = n_values / 2
    density = np.exp((half - 1) * np.log(squared / 2) - squared / 2 - math.lgamma(half)) / 2 * 3 * n_values * roots**2
    weights = density * (roots[1] - roots[0])
    return n_values * math.log(second / first) + squared / 2 * ((first / second) ** 2 - 1), weights


def nominal_claim(lower: float, upper: float, delta: float, n_tokens: int, n_epochs: int) -> Claim:
    """The publication's claim for a token, with the true epsilons of its noise. `upper`: of the least noised token.

    The true numbers treat the noise level as fixed, which it is not: they are too small, not too large.
    """
    terms = {"nominal ε of the most noised token": lower, "nominal ε of the least noised token": upper}
    numbers = {"δ": delta, "tokens of a text": float(n_tokens), "epochs": float(n_epochs)}
    for name, epsilon in (("most", lower), ("least", upper)):
        ratio = printed_ratio(epsilon, delta)
        numbers |= {
            f"σ/C of the {name} noised token": ratio,
            f"true ε of the {name} noised token, one release": true_epsilon(ratio, delta),
            f"true ε of the {name} noised token, all epochs": true_epsilon(ratio, delta, n_epochs),
            f"true ε of a text of the {name} noised tokens, one release": true_epsilon(ratio, delta, n_tokens),
            f"true ε of a text of the {name} noised tokens, all epochs": true_epsilon(ratio, delta, n_tokens * n_epochs),
        }
    return Claim(upper, SOURCE, terms, numbers)


# Noisy token embeddings: one noise level for all tokens (accounted), or PeCL's published levels (no bound).


# Rows are made this much shorter: rounding to single precision (2^-24) never leaves the ball, and the rest exceeds the
# rounding of the multiplier in the ledger.
_CAUTION = 1 - 2.0**-22


def clipped(rows: NDArray[np.floating], clip_norm: float) -> NDArray[np.float32]:
    """Rows e · min(1, C / ||e||), of length at most C; non-finite rows become zero. Args: rows [..., d]."""
    clean = finite_rows(rows)
    with np.errstate(over="ignore"):  # a row of infinite length becomes zero
        norms = np.linalg.norm(clean, axis=-1, keepdims=True)
    cut: NDArray[np.float32] = (clean * np.minimum(1.0, _CAUTION * clip_norm / np.maximum(norms, 1e-300))).astype(np.float32)
    return cut


def noisy_embeddings(
    table: NDArray[np.floating], tokens: NDArray[np.integer], ratio: float, clip_norm: float, noise: Noise,
    ledger: Ledger, *, task: int,
) -> NDArray[np.float32]:  # fmt: skip
    """One noisy vector for every token of every text: clipped to length C, plus Gaussian noise of `ratio` · C on each value.

    One call is one release with one ledger entry. Reading the result again is post-processing; a call in every epoch is a
    release in every epoch, and they add up.

    Texts get noise independently, so replacing one changes only the distribution of its own vectors. Two texts may differ in
    all of their L tokens: each row is in a ball of radius C, two of them are at most 2C apart, and L of them stacked
    2C sqrt(L), reached by opposite rows. The noise is the same for stop words and all others; otherwise it would reveal the
    token. The number of texts and their lengths are not hidden: the ledger must use "replace" adjacency.

    Args: table [V, d], public; tokens int [n, L], -1 for padding, whose vectors are zero; ratio: sigma / C, 0 for no noise.
    Returns: [n, L, d].
    """
    if ledger.adjacency != "replace":
        raise BadInput("privacy.adjacency", ledger.adjacency, "must be replace where every token leaves a noisy vector")
    length = tokens.shape[1]
    # The accountant doubles the sensitivity under "replace": recorded for C sqrt(L), accounted as 2C sqrt(L).
    event = dp.GaussianDpEvent(ratio / math.sqrt(length)) if ratio > 0 else dp.NonPrivateDpEvent()
    ledger.spend(event, task=task, what=f"noisy embeddings of every text, {length} tokens at most")
    rows, std = clipped(table, clip_norm), clip_norm * ratio

    def noisy(part: slice) -> NDArray[np.float32]:
        return noise.added32(rows[tokens[part]], std) if ratio > 0 else rows[tokens[part]]

    return _blockwise(tokens, rows.shape[1], noisy)


def published_embeddings(
    table: NDArray[np.floating], tokens: NDArray[np.integer], ratios: NDArray[np.floating], clip_norm: float,
    noise: Noise, ledger: Ledger, *, task: int,
) -> NDArray[np.float32]:  # fmt: skip
    """Noisy vectors with a noise level for every token, PeCL's Eq. 5: NO bound holds, and the ledger records this.

    The noise level is computed from the text, and one vector reveals its noise level; tokens with a ratio of 0 (stop words)
    are released exactly. Args: ratios [n, L], sigma / C of every token.
    """
    ledger.spend(dp.NonPrivateDpEvent(), task=task, what="embeddings with noise that depends on the text")
    rows = clipped(table, clip_norm)

    def noisy(part: slice) -> NDArray[np.float32]:
        clean, stds = rows[tokens[part]], (clip_norm * ratios[part])[..., None].astype(np.float32)
        units = noise.added32(clean / np.where(stds > 0, stds, 1), 1.0)
        return np.where(stds > 0, stds * units, clean)  # without noise bitwise unchanged

    return _blockwise(tokens, rows.shape[1], noisy)


def _blockwise(
    tokens: NDArray[np.integer], width: int, noisy: Callable[[slice], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The results of `noisy` for block after block of texts [n, L, d], zeros for padding."""
    n_texts, length = tokens.shape
    vectors = np.empty((n_texts, length, width), dtype=np.float32)
    for part in row_blocks(n_texts, length * width):
        vectors[part] = noisy(part)
        vectors[part][tokens[part] < 0] = 0.0
    return vectors


# Local differential privacy: every record gets its own noise, and only the noisy copy is stored.


# A true label is kept this much more rarely. That covers the error of 64-bit words in a ratio of probabilities (n 2^-64 of
# it by the remainder of n labels, n below 16 million) and the last bits of exp: no answer reveals more than accounted.
_LOCAL_CAUTION = 1 - 1e-12
_WIDER = 1 + 2.0**-50  # Laplace noise is this much wider: more than the rounding of its scale, and of a sum of two epsilons
_WORD = 2.0**64


@dataclass(frozen=True, slots=True)
class Randomiser:
    """The release of one record. `epsilon_values` and `epsilon_labels`: both inf for no noise at all.

    `n_values`: numbers in a record. `l1_clip`: bound on their L1 norm; None where each is in [-1, 1].
    """

    n_values: int
    epsilon_values: float
    epsilon_labels: float
    l1_clip: float | None = None

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise on each value: the largest L1 distance of two records over epsilon.

        The distance is 2 for each value in [-1, 1], or twice the clip (two records of that norm in opposite directions).
        """
        distance = 2.0 * self.n_values if self.l1_clip is None else 2 * self.l1_clip
        return _WIDER * distance / self.epsilon_values if distance > 0 else 0.0

    def chances(self, n_labels: int) -> tuple[float, float]:
        """Probabilities of the true label and of any one other label: e^epsilon to 1 (randomised response)."""
        if n_labels == 1 or math.isinf(self.epsilon_labels):
            return 1.0, 0.0
        of_true = _LOCAL_CAUTION / (1 + (n_labels - 1) * math.exp(-self.epsilon_labels))
        return of_true, (1 - of_true) / (n_labels - 1)

    @property
    def event(self) -> dp.DpEvent:
        """The event of one release: values and label get independent noise, so their epsilons add up."""
        total = self.epsilon_values + self.epsilon_labels
        return dp.NonPrivateDpEvent() if math.isinf(total) else LocalDpEvent(total)


def epsilon_of_each(epsilon: float, delta: float, n_copies: int) -> float:
    """The largest epsilon of each of `n_copies` of one record for which all of them are within (epsilon, delta).

    At least an equal part of epsilon, which needs no delta; more where there are many copies of small epsilon.
    """
    if n_copies == 1 or math.isinf(epsilon):
        return epsilon
    multiplier = calibrated(lambda inverse: [LocalDpEvent(1 / inverse)] * n_copies, epsilon, delta, "replace")
    return max(epsilon / n_copies, 1 / multiplier)


def noisy_records(
    values: NDArray[np.generic], labels: NDArray[np.int64], space: Sequence[int], randomiser: Randomiser, noise: Noise,
    ledger: Ledger, *, task: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:  # fmt: skip
    """Noisy copies of all records, each (epsilon_values + epsilon_labels)-DP towards the record it was made from.

    For any two contents of a record, no copy is more than e^epsilon times as likely under one as under the other: Laplace
    noise contributes at most exp(L1 distance / scale), randomised response e^epsilon_labels. Records get noise
    independently, so replacing one changes only the distribution of its own copy. Their number is not hidden: the ledger
    must use "replace" adjacency, and neighbours have equally many records in each task. A record whose label is not in the
    space is not left out, which would be visible; its copy is zeros plus noise, with a label drawn uniformly.

    Args: values [n, K], brought here into [-1, 1] or to an L1 norm of at most the clip (non-finite rows become zero);
    labels [n]; space: the label list, ascending, at least one.
    Returns: values float32 [n, K]; labels [n], all in the space.
    """
    if ledger.adjacency != "replace":
        raise BadInput("privacy.adjacency", ledger.adjacency, "must be replace where each record leaves a noisy copy")
    ledger.spend(randomiser.event, task=task, what=f"a noisy copy of every record, {len(space)} labels")
    listed = np.isin(labels, np.asarray(space, dtype=np.int64))
    copies = np.empty(values.shape, dtype=np.float32)
    for part in row_blocks(*values.shape):
        rows = _bounded(values[part], randomiser.l1_clip) * listed[part, None]
        if randomiser.scale > 0:
            rows = noise.laplace_added(rows, randomiser.scale)
        copies[part] = rows
    return copies, _answers(labels, listed, np.asarray(space, dtype=np.int64), randomiser, noise)


def noisy_labels(
    labels: NDArray[np.int64], space: Sequence[int], epsilon: float, noise: Noise, ledger: Ledger, *, task: int
) -> NDArray[np.int64]:
    """The label of every record by randomised response: the true one with odds of e^epsilon to 1 against any other, [n].

    Each is epsilon-DP towards its record; the ledger must use "replace". Args: as `noisy_records`; inf: labels unchanged.
    """
    no_values = np.zeros((len(labels), 0))
    return noisy_records(no_values, labels, space, Randomiser(0, 0.0, epsilon), noise, ledger, task=task)[1]


def _bounded(values: NDArray[np.generic], l1_clip: float | None) -> NDArray[np.float64]:
    rows = finite_rows(values)
    if l1_clip is None:
        return np.clip(rows, -1, 1)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    parts = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # sums of large values stay finite
    norms = np.maximum(np.abs(parts).sum(axis=1, keepdims=True), 1.0)  # in units of the largest value
    # Covers one rounding per value, in any order, and a few more: no row comes out longer than the clip.
    shorter = 1 - (values.shape[1] + 8) * 2.0**-52
    cut: NDArray[np.float64] = parts * np.minimum(largest, shorter * l1_clip / norms)
    return cut


def _answers(
    labels: NDArray[np.int64], listed: NDArray[np.bool_], space: NDArray[np.int64], randomiser: Randomiser, noise: Noise
) -> NDArray[np.int64]:
    """Labels by randomised response, drawn with integers, so that probabilities are exact."""
    n_labels = len(space)
    truth = np.where(listed, np.searchsorted(space, labels), 0)
    of_true, _ = randomiser.chances(n_labels)
    others = (noise.words(len(labels)) % np.uint64(max(1, n_labels - 1))).astype(np.int64)
    keeps = np.ones(len(labels), dtype=np.bool_)
    if of_true < 1:
        keeps = noise.words(len(labels)) < np.uint64(int(of_true * _WORD))
    named = np.where(keeps, truth, (truth + 1 + others) % n_labels)
    anything = (noise.words(len(labels)) % np.uint64(n_labels)).astype(np.int64)
    return space[np.where(listed, named, anything)]
