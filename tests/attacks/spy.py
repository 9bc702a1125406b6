"""What a learner really draws: every noise of a release with its standard deviation, every coin, and who was seeded."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.federated import client_training, fedcil_dp
from dpcl_core.privacy import accounting, noise
from dpcl_core.privacy.ledger import Ledger
from tests.attacks.releases import leaves


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


def charged(ledger: Ledger) -> tuple[Counter[float], int]:
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
    gaussians, copies = charged(ledger)
    for std in seen.stds:
        if not any(math.isclose(std, z * unit, rel_tol=1e-6) for z in gaussians for unit in units):
            return f"noise of {std} is charged as {dict(gaussians)}"
    if len(seen.stds) != draws * sum(gaussians.values()):
        return f"{len(seen.stds)} draws of noise, {sum(gaussians.values())} charges of {draws} each"
    if len(seen.laplace) != copies:
        return f"{len(seen.laplace)} noisy copies drawn, {copies} charged"
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
