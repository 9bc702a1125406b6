"""Sources of noise and Poisson batches: the operating system for a release, a recorded seed for teaching."""

from __future__ import annotations

import copy
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256, shake_256
from importlib import import_module
from types import ModuleType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy import gaussian
from dpcl_core.spec import Cell, NoiseSource

Addition32 = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class ReleaseNoise:
    """Noise from the operating system's entropy: never recorded, not repeatable, exact to the last digit.

    Each call draws fresh noise. Releases use `added`, its variants, or `words`: these round the sum of clean numbers and
    noise to a public grid (`privacy.gaussian`), so that no last digit reveals the clean ones. Clean numbers are finite,
    standard deviations above 0. `normal` and `laplace` are for simulations.
    """

    KEPT = ()  # it has no state

    def __init__(self, bits: gaussian.Bits | None = None) -> None:
        """`bits`: another source of random bytes, for tests of the transforms."""
        self._bits = bits or os.urandom
        self._many = bits or _many_bytes

    def added(self, clean: NDArray[np.float64], std: float) -> NDArray[np.float64]:
        """Numbers of any shape, each plus independent Gaussian noise of this standard deviation."""
        return gaussian.added(clean, std, self._bits)

    def added32(self, clean: NDArray[np.floating], std: float) -> NDArray[np.float32]:
        """As `added`, in single precision and on a coarser grid, for training. Clean numbers may be in double precision."""
        return gaussian.added32(clean, std, self._many)

    def additions32(self, size: int, std: float, count: int) -> Addition32:
        """A function for `count` such additions to arrays of `size` numbers: faster for many small ones."""
        return gaussian.Ahead32(size, [std], count, self._many).added

    def rows32(self, size: int, stds: Sequence[float], count: int) -> Addition32:
        """As `additions32`, in place, for arrays of `len(stds)` rows of `size` numbers, each with its standard deviation."""
        rows = gaussian.Ahead32(size * len(stds), stds, count, self._many)
        return lambda clean: rows.added(clean, clean)

    def laplace_added(self, clean: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """As `added`, with Laplace noise of this scale (standard deviation 1.41 times that)."""
        return gaussian.laplace_added(clean, scale, self._many)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform random 64-bit integers, for decisions whose probability must be exact."""
        return np.frombuffer(self._bits(8 * count), dtype=np.uint64)

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Standard normal numbers in floating point."""
        return self.added(np.zeros(shape), 1.0)

    def laplace(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Laplace numbers of scale 1 (standard deviation 1.41)."""
        return self.laplace_added(np.zeros(shape), 1.0)


def _many_bytes(count: int) -> bytes:
    """Random bytes for training, which uses megabytes of them per second.

    From OpenSSL's generator (AES in counter mode, NIST SP 800-90A), which the operating system seeds and reseeds: as
    unpredictable as the system's own, and twelve times as fast.
    """
    library = _openssl()
    drawn: bytes = os.urandom(count) if library is None else library.RAND_bytes(count)
    return drawn


@cache  # to look for it takes as long as a small draw
def _openssl() -> ModuleType | None:
    """None in a page of a browser, whose own generator is behind the system's."""
    with suppress(ImportError):
        return import_module("ssl")
    return None


class SeededNoise:
    """Repeatable noise for teaching. Anyone with the seed can subtract it: there is no guarantee.

    The stream depends on the cell (budget and seed) and the purpose, so that no two cells share noise and no draw shares
    numbers with class orders or subsets, which use other purposes.
    """

    KEPT = ("_generator",)

    def __init__(self, cell: Cell, purpose: str) -> None:
        label = f"noise/{purpose}".encode() + struct.pack("<dq", cell.epsilon, cell.seed)
        self._generator = np.random.default_rng(int.from_bytes(sha256(label).digest(), "little"))

    def added(self, clean: NDArray[np.float64], std: float) -> NDArray[np.float64]:
        integers, low = gaussian.parts(np.asarray(clean, dtype=np.float64), step := gaussian.grid(std))
        return gaussian.combined(integers, np.rint(low + std / step * self.normal(low.shape)), step)

    def added32(self, clean: NDArray[np.floating], std: float) -> NDArray[np.float32]:
        integers, low = gaussian.parts(np.asarray(clean), step := gaussian.grid32(std))
        drawn = np.float32(std / step) * self._generator.standard_normal(low.shape, dtype=np.float32)
        return gaussian.combined(integers, np.rint(low + drawn), step).astype(np.float32, copy=False)

    def additions32(self, size: int, std: float, count: int) -> Addition32:
        return lambda clean: self.added32(clean, std)

    def laplace_added(self, clean: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        integers, low = gaussian.parts(np.asarray(clean, dtype=np.float64), step := gaussian.grid(scale))
        return gaussian.combined(integers, np.rint(low + scale / step * self.laplace(low.shape)), step)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self._generator.standard_normal(shape)

    def laplace(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self._generator.laplace(size=shape)


Noise = ReleaseNoise | SeededNoise


def additions32(noises: Sequence[Noise], stds: Sequence[float], size: int, count: int) -> Addition32:
    """A function for `count` additions to arrays [n, ...] of n times `size` numbers, row i with noise i, maybe in place.

    Rows of a release are drawn and rounded together, which is several times as fast for small ones: all their numbers come
    from the operating system, and no two rows share a number.
    """
    if all(type(noise) is ReleaseNoise for noise in noises):
        return cast("ReleaseNoise", noises[0]).rows32(size, stds, count)
    adders = [noise.additions32(size, std, count) for noise, std in zip(noises, stds, strict=True)]
    return lambda clean: np.stack([add(row) for add, row in zip(adders, clean, strict=True)])


def noise_of(source: NoiseSource, cell: Cell, purpose: str) -> Noise:
    """The noise source of one cell for one purpose, according to the settings."""
    return ReleaseNoise() if source == "release" else SeededNoise(cell, purpose)


class Batches:
    """Poisson batches: every record is in a batch independently with probability `rate`.

    Amplification by sampling holds only against an attacker who does not know who was in a batch, so a release (`seed` None)
    draws batches from the operating system, as it does its noise. A seeded source is for teaching and voids the bound.
    """

    KEPT = ("_generator",)  # a key lives no longer than one training

    def __init__(self, rate: float, seed: int | None, purpose: str = "training", n_batches: int | None = None) -> None:
        """`n_batches`: how many there are at most, where a ledger is charged with all of them (`Steps`)."""
        self.rate, self._n_left = rate, n_batches
        self._below = int(rate * 2**32)  # rounded down: never sampled more often than accounted
        label = b"" if seed is None else f"batches/{purpose}/{seed}".encode()
        self._generator = None if seed is None else np.random.default_rng(int.from_bytes(sha256(label).digest(), "little"))
        self._key, self._n_drawn = b"", 0

    @property
    def is_seeded(self) -> bool:
        return self._generator is not None

    def copies(self, count: int) -> list[Batches]:
        """Sources that all draw the same batches, for models of one seed trained in several processes.

        Those of a release share a key from the operating system, known to these processes only and lost with them.
        """
        first = copy.deepcopy(self)
        if not self.is_seeded:
            first._key, first._n_drawn = os.urandom(32), 0
        return [copy.deepcopy(first) for _ in range(count)]

    def draw(self, n_records: int) -> NDArray[np.int64]:
        """Indices of one batch's records, ascending; often none where there are few records.

        Raises RuntimeError for a batch more than are charged.
        """
        if self._n_left is not None:
            if not self._n_left:
                raise RuntimeError("a batch more than the ledger is charged with")
            self._n_left -= 1
        if self._generator is not None:
            bits = self._generator.integers(0, 2**32, n_records, dtype=np.uint32)
        elif self._key:  # Keccak's stream from key and count: without the key as unpredictable as the system's own numbers
            label = self._key + self._n_drawn.to_bytes(8, "little")
            bits = np.frombuffer(shake_256(label).digest(4 * n_records), dtype=np.uint32)
            self._n_drawn += 1
        else:
            bits = np.frombuffer(_many_bytes(4 * n_records), dtype=np.uint32)
        return (bits < self._below).nonzero()[0]


@dataclass(frozen=True, slots=True)
class Steps:
    """Gaussian releases on Poisson batches: a learner draws its batches from this object, and charges the same to a ledger.

    `noise_multiplier`: standard deviation of the noise over the most that one record moves a sum; 0: there is no noise, and
    no bound. `rates`: chance that a record is in a batch; several where a batch joins records of several tasks, each task's
    with its own rate, in the order of the `people_of` that are charged.
    """

    n_steps: int
    rates: tuple[float, ...]
    noise_multiplier: float

    def batches(self, seed: int | None, purpose: str, part: int = -1) -> Batches:
        """The source of all batches of the records at `rates[part]`; `seed` None: of a release."""
        return Batches(self.rates[part], seed, purpose, self.n_steps)
