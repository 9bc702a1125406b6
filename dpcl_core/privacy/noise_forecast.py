"""Noise-to-signal forecast: length of a model's noise over the largest possible length of its signal.

Computed before anything private is read. Measured on 2026-11-21 with the cosine classifier (digits by pixels; CIFAR-10,
CIFAR-100 and MNIST by the bundled networks; 20 to 300 examples a class, one list and lists by task) and with last layers
trained by DP-SGD (the same sets, in one task and in five or ten; sampling rate 0.1 and 1). In 20 series of 5 to 10 budgets,
the share of the series' best accuracy above chance that is left, by the ratio below:

    ratio        0.1 to 0.3    0.3 to 0.6    0.9 to 1.3    1.4 to 2.5    3 to 5        above 5
    median       0.94          0.81          0.44          0.22          0.08          0.02
    range        0.76 to 1     0.53 to 1     0.25 to 0.60  0.06 to 0.41  0.01 to 0.14  below 0.10

The coefficient memory and noise for every record follow the same table (digits and MNIST, 8 series of each on the same day):
at a ratio of 0.9 to 1.3 they kept 0.19 to 0.72, at 1.4 to 2.6 up to 0.50, at 3 to 5 up to 0.20, above 5 below 0.10.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

NEAR_CHANCE = 3.0


COSTLY = 1.0


def noise_to_signal(
    noise_multiplier: float, n_features: int, class_size: float, *, uses: int = 1, sample_rate: float = 1.0, n_steps: int = 1
) -> float:
    """Length of the noise on one class's weights over the largest length that the class's examples can give them.

    A sum of unit-length features of n people is at most n long; noise of standard deviation sigma on K coordinates, drawn
    `uses` times, has length sigma sqrt(uses K). In DP-SGD one person's clipped gradients are in q s of s steps, so n people
    move a class's weights by at most q s n clipping norms, against noise of length sigma sqrt(s K): the same with
    sigma / (q sqrt(s)) for sigma.

    Args: noise_multiplier: sigma, in units of one person's largest contribution; n_features: K; class_size: n, nominal.
    """
    effective = noise_multiplier / (sample_rate * math.sqrt(n_steps))
    return effective * math.sqrt(uses * n_features) / class_size


def noise_to_signal_of_copies(
    scale: float, chances: tuple[float, float], length: float, *, n_values: int, class_size: float, n_records: float
) -> float:
    """Noise-to-signal ratio of sums over noisy copies of n records; n_k are of the class, with values of L2 norm `length`.

    Each copy counts for the class with a weight of mean 1 or 0 that undoes randomised response: (1 - q) / (p - q) where the
    class is answered and -q / (p - q) where not. Laplace noise of variance 2 b^2 on K values then has length
    b sqrt(2 K sum of squared weights), against a signal of n_k times the length.

    Args: scale: b; chances: p of answering the true label, q of answering any one other label.
    """
    p, q = chances

    def squared(chance: float) -> float:
        return (chance * (1 - q) ** 2 + (1 - chance) * q**2) / (p - q) ** 2

    weights = class_size * squared(p) + (n_records - class_size) * squared(q)
    return scale * math.sqrt(2 * n_values * weights) / (class_size * length)


@dataclass(frozen=True, slots=True)
class NoiseForecast:
    """Noise-to-signal ratio of the models of one budget. `larger_batches`: the ratio if everyone were in every batch.

    `needed`: people per class with whom noise and signal would be equal; None: the ratio is inversely proportional to their
    number. `signal`: what the noise is compared with. `all_values`: noise is on every value of an example, where a
    projection to a few directions would do.
    """

    epsilon: float
    ratio: float
    class_size: float
    has_one_list: bool
    larger_batches: float | None
    needed: float | None = None
    signal: str = "longest signal there can be"
    all_values: bool = False

    @property
    def sentence(self) -> str:
        """The expected loss of accuracy and what would help."""
        costly = "about half or more of what can be learned is lost"
        expected = "accuracy will be near chance" if self.ratio >= NEAR_CHANCE else costly
        even = self.ratio * self.class_size if self.needed is None else self.needed
        helps = [f"more people (with {even:,.0f} a class instead of {self.class_size:,.0f} noise and signal are even)"]
        if self.all_values:
            helps.append("a projection to a few directions (params.project_to)")
        if self.has_one_list:
            helps.append("a public list per task")
        if self.larger_batches is not None and self.larger_batches < 0.8 * self.ratio:
            helps.append(f"larger batches ({self.larger_batches:.2g} times with everyone in each)")
        helps.append("a larger ε")
        return (
            f"ε = {self.epsilon:g} needs noise {_shown(self.ratio)} times the {self.signal}: {expected}. "
            f"What helps: {', '.join(helps)}."
        )


def note(forecasts: Sequence[NoiseForecast]) -> str | None:
    """The warning before the start: the smallest budget in full, others by their ratios; None without a forecast."""
    if not forecasts:
        return None
    first, *others = sorted(forecasts, key=lambda one: one.epsilon)
    if not others:
        return first.sentence
    less = ", ".join(f"{_shown(one.ratio)} times at ε = {one.epsilon:g}" for one in others)
    return f"{first.sentence} Less so, but still: {less}."


def headline(forecasts: Sequence[NoiseForecast]) -> str:
    """The note in a few words, for a place where the note opens on demand; requires at least one forecast."""
    hopeless = [f"{one.epsilon:g}" for one in forecasts if one.ratio >= NEAR_CHANCE]
    costly = [f"{one.epsilon:g}" for one in forecasts if one.ratio < NEAR_CHANCE]
    return f"ε = {', '.join(hopeless)}: near chance" if hopeless else f"ε = {', '.join(costly)}: noise takes half or more"


def _shown(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"
