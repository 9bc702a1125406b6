"""What a learner really draws, and whose data each release reads, at which rate and with which noise.

What `listening` notes is of plays in which nothing that is released tells: the noise of a release is drawn, and what it is
added to is noted and left out. So nothing that a learner computes later depends on private data, and of two neighbours'
plays exactly those releases differ that read the person in whom they differ. Coins are noted, and put everybody into every
batch.
"""

import math
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

from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.federated import client_training, fedcil_dp
from dpcl_core.privacy import accounting, labels, noise, text_mechanisms
from dpcl_core.privacy.ledger import Ledger

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


# What a learner really draws: every noise of a release with its standard deviation, every coin, and who was seeded.


@dataclass(slots=True)
class Drawn:
    """`stds`: of every addition of Gaussian noise; `laplace`: scales; `seeded`: sources that a recorded seed repeats.

    `clean`: what noise was added to, with its standard deviation or scale; of many rows at once the first alone.
    """

    stds: list[float] = field(default_factory=list)
    laplace: list[float] = field(default_factory=list)
    seeded: list[str] = field(default_factory=list)
    clean: list[tuple[NDArray[np.float64], float]] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)  # batches or clients that sums are divided by

    def forget(self) -> None:
        """Begins anew."""
        for told in (self.stds, self.laplace, self.seeded, self.clean, self.expected):
            told.clear()

    def add(self, clean: Any, std: float) -> None:
        self.clean.append((np.array(clean, np.float64).ravel(), std))


@contextmanager
def watching() -> Iterator[Drawn]:
    """Notes what is drawn meanwhile, and draws it."""
    seen = Drawn()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("added", "added32"):
            _note(patch, noise.ReleaseNoise, name, lambda clean, std: (seen.stds.append(std), seen.add(clean, std)))
        _note(patch, noise.ReleaseNoise, "additions32", lambda size, std, count: seen.stds.extend([std] * count))
        _note(patch, noise.ReleaseNoise, "rows32", lambda size, stds, count: seen.stds.extend([*stds] * count))
        _note(patch, noise.ReleaseNoise, "laplace_added", lambda clean, b: (seen.laplace.append(b), seen.add(clean, b)))
        _note_additions(patch, "additions32", lambda clean, size, std, count: seen.add(clean, std))
        _note_additions(patch, "rows32", lambda clean, size, stds, count: seen.add(clean[0], stds[0]))
        _note(patch, Schedule, "__init__", lambda *args, **named: seen.expected.append([*args, *named.values()][-1]))
        _note(patch, noise.SeededNoise, "__init__", lambda cell, purpose: seen.seeded.append(purpose))

        for module in (client_training, fedcil_dp):
            _note(patch, module, "moved", lambda sums, expected: seen.expected.append(expected))

        def coins(rate: float, seed: int | None, purpose: str = "training", n_batches: int | None = None) -> None:
            if seed is not None:
                seen.seeded.append(purpose)

        _note(patch, noise.Batches, "__init__", coins)
        yield seen


def _note(patch: pytest.MonkeyPatch, owner: Any, name: str, note: Any) -> None:
    honest = getattr(owner, name)

    def noting(self: Any, *args: Any, **named: Any) -> Any:
        note(*args, **named)
        return honest(self, *args, **named)

    patch.setattr(owner, name, noting)


def _note_additions(patch: pytest.MonkeyPatch, name: str, note: Any) -> None:
    honest = getattr(noise.ReleaseNoise, name)

    def noting(self: Any, *args: Any) -> Any:
        add = honest(self, *args)

        def added(clean: Any) -> Any:
            note(clean, *args)
            return add(clean)

        return added

    patch.setattr(noise.ReleaseNoise, name, noting)


def multipliers(ledger: Ledger) -> tuple[Counter[float], int]:
    """How often each Gaussian multiplier is written down, whatever sampling is around it; and how many noisy copies are."""
    found: Counter[float] = Counter()
    copies = 0
    for event, times, _ in (leaf for entry in ledger.entries for leaf in leaves(entry.event)):
        match event:
            case dp.GaussianDpEvent() | accounting.SampledGroupDpEvent():
                found[event.noise_multiplier] += times
            case accounting.LocalDpEvent():
                copies += times
    return found, copies


def trouble(seen: Drawn, ledger: Ledger, units: tuple[float, ...], draws: int) -> str:
    """What does not fit together, in words; empty where everything does.

    Every noise drawn must be a multiplier of the ledger times one of the public `units`, and every charge must have been
    drawn for, `draws` times; nothing may come from a recorded seed.
    """
    gaussians, copies = multipliers(ledger)
    for std in seen.stds:
        if not any(math.isclose(std, z * unit, rel_tol=1e-6) for z in gaussians for unit in units):
            return f"noise of {std} is multipliers as {dict(gaussians)}"
    if len(seen.stds) != draws * sum(gaussians.values()):
        return f"{len(seen.stds)} draws of noise, {sum(gaussians.values())} charges of {draws} each"
    if len(seen.laplace) != copies:
        return f"{len(seen.laplace)} noisy copies drawn, {copies} multipliers"
    return f"recorded: {seen.seeded[0]}" if seen.seeded else ""


def apart(with_one: Drawn, without: Drawn, draws: int, order: int = 2) -> float:
    """By how many standard deviations (of noisy copies: scales) the first release of two neighbours that differs does so,
    as many releases as go out together taken as one; 0 where none does. Noise and coins of both must have been the same.
    """
    pairs = list(zip(with_one.clean, without.clean, strict=False))
    for place, ((one, std), (other, _)) in enumerate(pairs):
        if one.shape != other.shape:
            return math.inf
        if not np.array_equal(one, other):
            group = pairs[place : place + draws]
            return float(np.linalg.norm([np.linalg.norm(a - b, order) / std for (a, std), (b, _) in group], order))
    return 0.0
