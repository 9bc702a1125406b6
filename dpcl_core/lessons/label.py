"""One person brings the only picture of a digit. What do the releases of two neighbouring datasets give away?

The bundled digits are public, so an attacker who lacks only one fact can be simulated exactly: every release is made by the
mechanisms that runs use, with fresh noise from the operating system and a ledger of its own.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import pixels
from dpcl_core.data import load
from dpcl_core.lessons import noise
from dpcl_core.privacy import accounting, gaussian, statement, text_mechanisms
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.spec import Adjacency, DataSpec

DELTA = 1e-5
Listing = Literal["data", "prior-const"]  # the list of labels is read from the data, or was public beforehand

_ADJACENCY: Adjacency = "add-remove"


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """A dataset with and without one person of label `label`: known [n, K] and labels [n] without, person [1, K]."""

    classes: tuple[str, ...]
    known: NDArray[np.float32]
    labels: NDArray[np.int64]
    person: NDArray[np.float32]
    label: int

    def data(self, has_person: bool) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Features and labels of one of the two datasets."""
        if not has_person:
            return self.known, self.labels
        return np.concatenate([self.known, self.person]), np.append(self.labels, self.label)


def neighbours(label: int = 9, n_others: int = 0) -> Neighbours:
    """The bundled digits with only the first `n_others` people of one class, and the next one of them as the person."""
    dataset = load.load_dataset(DataSpec(dataset="digits"))
    features = pixels.pixel_rows(dataset.train.images)
    of_class = np.flatnonzero(dataset.train.labels == label)
    rows = np.concatenate([np.flatnonzero(dataset.train.labels != label), of_class[:n_others]])
    person = features[of_class[n_others : n_others + 1]]
    return Neighbours(dataset.classes, features[rows], dataset.train.labels[rows], person, label)


def _released(
    pair: Neighbours, has_person: bool, listing: Listing, epsilon: float, noises: Sequence[Noise]
) -> tuple[tuple[int, ...], NDArray[np.float64], list[Ledger]]:
    """Classifiers released from one dataset: their list of labels, sums [n, classes, K], and the ledger of each.

    Rows of classes that are not on the list were not released.
    """
    features, labels = pair.data(has_person)
    ledgers = [Ledger(DELTA, _ADJACENCY, "once") for _ in noises]
    public = range(len(pair.classes))
    space = label_space(listing, public, public, labels, ledgers, task=0)

    of_space = in_label_space(labels, space)
    stds = [class_sums_std(epsilon, DELTA, _ADJACENCY)] * len(noises)
    sums = noisy_class_sums(features[of_space], labels[of_space], space, len(pair.classes), stds, noises, ledgers, task=0)
    return space, sums, ledgers


def doors(pair: Neighbours, listing: Listing, epsilon: float) -> tuple[tuple[str, str, str], ...]:
    """Four things that an outsider can observe and that depend on the list of labels: name, without the person, and with."""
    observations: list[dict[str, str]] = []
    for has_person in (False, True):
        noise = _Counting()
        listed, sums, _ = _released(pair, has_person, listing, epsilon, [noise])
        file = io.BytesIO()
        np.save(file, sums[0, list(listed)])
        observations.append({
            "outputs of the classifier": f"{len(listed)}",
            "length of the saved file": f"{len(file.getvalue()):,} bytes",
            "legend of a chart": " ".join(pair.classes[label] for label in listed),
            "work done: numbers of noise drawn": f"{noise.drawn:,}",
        })  # fmt: skip
    without, with_person = observations
    return tuple((name, without[name], with_person[name]) for name in without)


class _Counting(ReleaseNoise):
    """Release noise that counts the numbers drawn: work that can be timed."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def added(self, clean: NDArray[np.float64], std: float) -> NDArray[np.float64]:
        self.drawn += clean.size
        return super().added(clean, std)


# A guarantee read like a contract: small print in closed form, and what trying several settings costs.


DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
N_PEOPLE = 1000  # invented, of this lesson and of the next
_DRAWS = 400


def noise_of(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Standard deviation of Gaussian noise that a claim needs on a sum of vectors of length at most 1."""
    return gaussian.sigma(epsilon, delta, gaussian.SENSITIVITY[adjacency])


def under(sigma: float, adjacency: Adjacency) -> float:
    """Epsilon of that noise, by the rule that says what a neighbour is."""
    return gaussian.epsilon(sigma, DELTA, gaussian.SENSITIVITY[adjacency])


def expected_prints(delta: float, n_people: int = N_PEOPLE) -> float:
    """Expected number of people whose records are printed where each is with probability delta.

    A program that prints each record with probability delta, independently, and nothing else is (0, delta)-DP: somebody's
    record changes what is printed with probability delta.
    """
    return delta * n_people


def printed_now(delta: float) -> NDArray[np.int64]:
    """The people that one run of this program prints; fresh coins."""
    return np.flatnonzero(ReleaseNoise().words(N_PEOPLE) < np.uint64(min(int(delta * 2.0**64), 2**64 - 1)))



@lru_cache(maxsize=16)
def scores(epsilon: float) -> NDArray[np.float64]:
    """Accuracies [draws] on the public test digits of one classifier by class sums under many teaching draws."""
    sums, std, random = noise.digit_sums(), gaussian.sigma(epsilon, DELTA), np.random.default_rng(7)
    return np.array([noise.share_right(sums + std * random.standard_normal(sums.shape)) for _ in range(_DRAWS)])


def best_of(values: NDArray[np.float64], n: int) -> float:
    """Mean of the largest of n values that are drawn from these [m] without repetition; exact.

    The largest is the k-th smallest with probability C(k - 1, n - 1) / C(m, n).
    """
    ordered = np.sort(values)
    chances = [math.comb(k - 1, n - 1) / math.comb(len(ordered), n) for k in range(1, len(ordered) + 1)]
    return float(np.dot(ordered, chances))


# Deniability: an answer by a coin, the same noise once for a sum, and why numbers are clipped before it. Invented people.
#
# With randomised response a true answer is kept with probability p = e^epsilon / (1 + e^epsilon), and q = 1 - p.


SHARE = 0.3  # of the `N_PEOPLE` would truly say yes
LARGEST = 50_000.0  # the income that the noise of step "one-large" was made for


def keeps(epsilon: float) -> float:
    """Probability p that a true answer is kept."""
    return text_mechanisms.Randomiser(0, 0.0, epsilon).chances(2)[0]


def truths(n: int = N_PEOPLE) -> NDArray[np.int64]:
    """True answers [n] of invented people, 1 for yes."""
    return (np.arange(n) < round(SHARE * n)).astype(np.int64)


def answers(truth: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """What they say [n]: each true answer by randomised response, with fresh noise."""
    return text_mechanisms.noisy_labels(truth, (0, 1), epsilon, ReleaseNoise(), Ledger(DELTA, "replace", "once"), task=0)


def posterior(epsilon: float) -> float:
    """Probability that somebody who said yes would truly say yes, where a public share of all would."""
    p = keeps(epsilon)
    return p * SHARE / (p * SHARE + (1 - p) * (1 - SHARE))


def estimate(said: NDArray[np.int64], epsilon: float) -> float:
    """The share of true yes, from the share that said yes: (share - q) / (p - q). Unbiased."""
    return unturned(float(said.mean()), keeps(epsilon))


def unturned(said: float, p: float) -> float:
    """The share of true yes where a share `said` yes and each answer was kept with probability p."""
    return (said - (1 - p)) / (2 * p - 1)


def estimate_std(n: int, epsilon: float) -> float:
    """Its standard deviation, sqrt(p q / n) / (p - q) = 1 / (2 sinh(epsilon / 2) sqrt(n))."""
    return 1 / (2 * math.sinh(epsilon / 2) * math.sqrt(n))


def clerk_std(n: int, epsilon: float) -> float:
    """The same where true answers are counted first and Laplace noise of scale 1 / epsilon is added once."""
    return math.sqrt(2) / epsilon / n


@lru_cache(maxsize=1)
def incomes() -> NDArray[np.float64]:
    """Invented monthly incomes [N_PEOPLE], most of them small and a few large: lognormal, at most `LARGEST`."""
    drawn = 2500 * np.exp(np.random.default_rng(7).standard_normal(N_PEOPLE))
    return np.asarray(np.minimum(drawn.round(), LARGEST), np.float64)


def attack_rates(income: float, epsilon: float) -> float:
    """How often the best attacker tells a noisy sum with this person from one without; the noise is made for `LARGEST`."""
    return statement.gaussian_odds_bound(gaussian.sigma(epsilon, DELTA, LARGEST), income)


def lost_and_noise(clip: float, epsilon: float) -> tuple[float, float]:
    """Two errors of the noisy sum of clipped incomes: what clipping takes off, and the noise's standard deviation."""
    return cut_off(incomes(), clip), gaussian.sigma(epsilon, DELTA, clip)


def cut_off(of: NDArray[np.float64], clip: float) -> float:
    """What a clip takes off the sum of these incomes [n]."""
    return float(np.maximum(of - clip, 0).sum())


# The unit of a promise: what one person's data amount to when the promise is made for an example, a client or a token.
#
# A Gaussian release that is (epsilon, delta)-DP for one vector of length 1 has noise sigma; of a person with k of them it is
# a Gaussian release of sensitivity k at the same sigma.


N_WORDS, N_MAILS = 40, 10  # of one person
_UNIT_DRAWS = 20


def of_person(epsilon: float, k: int) -> float:
    """Exact epsilon of a person with k examples, where noise is made for one example at `epsilon`; same delta."""
    return gaussian.epsilon(gaussian.sigma(epsilon, DELTA), DELTA, k)


def by_groups(epsilon: float, k: int) -> tuple[float, float]:
    """What holds for such a person from (epsilon, delta) alone: (k epsilon, delta (e^(k eps) - 1) / (e^eps - 1))."""
    return k * epsilon, min(1.0, DELTA * math.expm1(k * epsilon) / math.expm1(epsilon)) if k * epsilon < 700 else 1.0


@lru_cache(maxsize=64)
def of_text(epsilon: float, n_tokens: int) -> float:
    """Epsilon of a text whose tokens each leave a noisy copy of their own, by privacy loss distributions; at most n epsilon.

    The number of tokens is public, as "replace" adjacency has it.
    """
    return min(n_tokens * epsilon, accounting.Pld().epsilon([accounting.LocalDpEvent(epsilon)] * n_tokens, DELTA, "replace"))


def noise_on_mean(epsilon: float, n_units: int) -> float:
    """Standard deviation of the noise on a mean over units that each add one vector of length 1."""
    return gaussian.sigma(epsilon, DELTA) / n_units


def accuracies(epsilon: float, k: int) -> dict[str, float]:
    """Mean accuracy of a classifier by class sums under three rules, where each person has k pictures of one digit.

    "example": noise for one picture at epsilon. "group": the same pictures, noise for k of them. "clipped": each person's
    pictures are averaged first, so that a person adds one vector of length at most 1. Teaching noise, `_DRAWS` draws.
    """
    ((rows, labels, _, _),) = noise.unit_digits(1)
    sums = noise.digit_sums()
    means = np.zeros_like(sums)
    for label in range(len(sums)):
        own = rows[labels == label]
        means[label] = sum((own[start : start + k].mean(axis=0) for start in range(0, len(own), k)), np.zeros(sums.shape[1]))
    sigma, random = gaussian.sigma(epsilon, DELTA), np.random.default_rng(k)
    found = {"example": 0.0, "group": 0.0, "clipped": 0.0}
    for _ in range(_UNIT_DRAWS):
        drawn = random.standard_normal(sums.shape)
        for name, clean, std in (("example", sums, sigma), ("group", sums, k * sigma), ("clipped", means, sigma)):
            found[name] += noise.share_right(clean + std * drawn) / _UNIT_DRAWS
    return found
