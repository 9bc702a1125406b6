"""Where noise comes from: the operating system for a release, a recorded seed for teaching."""

from __future__ import annotations

import os
import struct
from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core.spec import Cell


class Noise(Protocol):
    """A source of standard normal numbers; each call draws anew."""

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]: ...


class ReleaseNoise:
    """Standard normal numbers from the operating system's entropy, never recorded and never repeatable.

    Drawn in float64 by Box and Muller's transform; not hardened against floating-point attacks (Mironov 2012).
    """

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        count = int(np.prod(shape, dtype=np.int64))
        half = (count + 1) // 2
        bits = np.frombuffer(os.urandom(16 * half), dtype=np.uint64).reshape(2, half)
        uniform = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # in (0, 1]: the logarithm stays finite
        radius, angle = np.sqrt(-2 * np.log(uniform[0])), 2 * np.pi * uniform[1]
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count].reshape(shape)


class SeededNoise:
    """Repeatable standard normal numbers for teaching. Whoever knows the seed can subtract them: no guarantee is left.

    The stream depends on the cell (budget and seed) and the purpose, so that no two cells share noise and no draw shares
    numbers with class orders or subsets, which use other purposes.
    """

    def __init__(self, cell: Cell, purpose: str) -> None:
        label = f"noise/{purpose}".encode() + struct.pack("<dq", cell.epsilon, cell.seed)
        self._generator = np.random.default_rng(int.from_bytes(sha256(label).digest(), "little"))

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self._generator.standard_normal(shape)
