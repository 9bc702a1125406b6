"""Whose data each release reads, at which rate and with which noise: from plays in which nothing that is released tells.

The noise of a release is drawn, and what it is added to is noted and left out. So nothing that a learner computes later
depends on private data, and of two neighbours' plays exactly those releases differ that read the person in whom they differ.
Coins are noted, and put everybody into every batch.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcl_core.methods.federated import client_training
from dpcl_core.privacy import accounting, labels, noise, text_mechanisms

KEPT = "kept"  # purposes of coins that decide what is kept for later: no charge counts on them


@dataclass(frozen=True, slots=True)
class Coins:
    """One batch: the chance of each of `n` records, and what the coins are for."""

    rate: float
    n: int
    purpose: str


@dataclass(frozen=True, slots=True)
class Release:
    """What noise was added to, how much, and the batches that were drawn for it.

    `kind`: "gaussian" and `size` its standard deviation, "list" and `size` epsilon and delta, "copy" without a size.
    """

    kind: str
    size: tuple[float, ...]
    clean: tuple[NDArray[np.float64], ...]
    batches: tuple[Coins, ...]


@dataclass(slots=True)
class Heard:
    """The releases of a play, in their order; `waiting`: batches that no release followed yet.

    `draws`: how many releases go out together, on the same batches.
    """

    draws: int = 1
    releases: list[Release] = field(default_factory=list)
    waiting: list[Coins] = field(default_factory=list)
    parts: list[NDArray[np.float64]] = field(default_factory=list)  # of the copies or the list that is being made

    def add(self, kind: str, size: tuple[float, ...], *clean: Any) -> None:
        batches = tuple(coins for coins in self.waiting if not coins.purpose.startswith(KEPT))
        if len(self.releases) % self.draws:
            batches = self.releases[-1].batches
        parts = (*self.parts, *(np.array(one, np.float64).ravel() for one in clean))
        self.releases.append(Release(kind, size, parts, batches))
        self.waiting.clear()
        self.parts.clear()


class Mute:
    """Stands for a source of noise: notes what it should hide, and gives back the noise alone, the same in every play."""

    KEPT = ()

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def added(self, clean: Any, std: float) -> Any:
        self._heard.add("gaussian", (std,), clean)
        return std * np.random.default_rng(len(self._heard.releases)).standard_normal(np.shape(clean))

    def added32(self, clean: Any, std: float) -> Any:
        return self.added(clean, std).astype(np.float32)

    def additions32(self, size: int, std: float, count: int) -> Any:
        return lambda clean: self.added32(clean, std)

    def rows(self, stds: Sequence[float], clean: Any) -> Any:
        return np.stack([self.added32(row, std) for row, std in zip(clean, stds, strict=True)])

    def laplace_added(self, clean: Any, scale: float) -> Any:
        self._heard.parts.append(np.array(clean, np.float64).ravel())
        return np.zeros_like(clean)

    def words(self, count: int) -> Any:
        return np.zeros(count, np.uint64)  # the true answer; every label that may be named


@contextmanager
def listening(
    patch: pytest.MonkeyPatch, draws: int, *, is_anybody_drawn: bool = True, times: Any = lambda purpose: 1.0
) -> Iterator[Heard]:
    """Notes the releases of a play. `times`: a fault, coins that fall that many times as often as they should."""
    heard = Heard(draws)
    made, released, chances = noise.Batches.__init__, labels.release_labels, labels.chances
    answers, client_draws = text_mechanisms._answers, client_training.client_draws

    def make(self: Any, rate: float, seed: int | None, purpose: str = "training", n_batches: int | None = None) -> None:
        made(self, rate, seed, purpose, n_batches)
        self._below, self.purpose = int(self._below * times(purpose)), purpose

    def draw(self: Any, n_records: int) -> NDArray[np.int64]:
        heard.waiting.append(Coins(self._below / 2**32, n_records, self.purpose))
        return np.arange(n_records if is_anybody_drawn or self.purpose.startswith(KEPT) else 0)

    def listed(labels: Any, *args: Any, **named: Any) -> Any:
        heard.parts.append(np.sort(labels).astype(np.float64))
        return released(labels, *args, **named)

    def decided(epsilon: float, delta: float, largest: int) -> Any:
        heard.add("list", (epsilon, delta))
        return chances(epsilon, delta, largest)

    def answered(labels: Any, *args: Any) -> Any:
        heard.add("copy", (), labels)
        return answers(labels, *args)

    patch.setattr(noise.Batches, "__init__", make)
    patch.setattr(noise.Batches, "draw", draw)
    patch.setattr(labels, "release_labels", listed)
    patch.setattr(labels, "chances", decided)
    patch.setattr(text_mechanisms, "_answers", answered)
    # Clients choose their rows as from a seed, in every play the same.
    patch.setattr(client_training, "client_draws", lambda chosen, seed, purpose: client_draws(chosen, 0, purpose))
    for name in ("added", "added32", "additions32", "laplace_added", "words"):
        patch.setattr(noise.ReleaseNoise, name, lambda self, *args, name=name: getattr(Mute(heard), name)(*args))
    patch.setattr(noise.ReleaseNoise, "rows32", lambda self, size, stds, count: partial(Mute(heard).rows, stds))
    yield heard


Use = tuple[str, tuple[float, ...], float]  # a release that reads someone: kind, size, and the chance that it does


def reading(with_one: Heard, without: Heard, *, is_client: bool) -> list[int | None]:
    """Of each release: which of its batches decides whether it reads the person in whom the plays differ; -1: it reads
    them for certain; None: it does not read them. Raises ValueError where several coins of theirs were tossed for it.
    `is_client`: coins are those of clients, of whom there are as many whoever has data.
    """
    if len(with_one.releases) != len(without.releases):
        raise ValueError("how many releases there are depends on who is there")
    found: list[int | None] = []
    for one, other in zip(with_one.releases, without.releases, strict=True):
        if _same(one.clean, other.clean):
            found.append(None)
            continue
        pairs = enumerate(zip(one.batches, other.batches, strict=True))
        tossed = [place for place, (a, b) in pairs if is_client or a.n != b.n]
        if len(tossed) > 1:
            raise ValueError(f"several batches for one release: {one.batches}")
        found.append(tossed[0] if tossed else -1)
    return found


def _same(one: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def uses(heard: Heard, read: Sequence[int | None]) -> Counter[Use]:
    """What is done to the person that `read` is about."""
    found: Counter[Use] = Counter()
    for release, place in zip(heard.releases, read, strict=True):
        if place is not None:
            found[release.kind, release.size, 1.0 if place < 0 else release.batches[place].rate] += 1
    return found


def leaves(event: dp.DpEvent, times: int = 1, rate: float = 1.0) -> Iterator[tuple[dp.DpEvent, int, float]]:
    """What an event is made of, one by one: how often each part happens, and the chance that a person is in it."""
    match event:
        case dp.SelfComposedDpEvent(inner, count):
            yield from leaves(inner, times * count, rate)
        case dp.PoissonSampledDpEvent(chance, inner):
            yield from leaves(inner, times, chance)
        case _:
            yield event, times, rate


def charged(events: Sequence[dp.DpEvent]) -> Counter[Use]:
    """What these events charge, one by one: a Gaussian's `size` is its noise multiplier."""
    found: Counter[Use] = Counter()
    for event, times, rate in (leaf for one in events for leaf in leaves(one)):
        match event:
            case dp.GaussianDpEvent(z):
                found["gaussian", (z,), rate] += times
            case accounting.SampledGroupDpEvent(z, (of_one,)):
                found["gaussian", (z,), of_one] += times
            case accounting.LabelListDpEvent(epsilon, delta):
                found["list", (epsilon, delta), 1.0] += times
            case accounting.LocalDpEvent():
                found["copy", (), 1.0] += times
            case _:
                raise ValueError(f"charged as {event}")
    return found
