"""The two products of a last layer's step on a graphics card, without rounding.

`head_gradients` multiplies whole numbers (times powers of two) whose sums of absolute products stay below 2^53 in double
precision: weights of up to 2^24 / n_x with directions, and residuals of up to 2^9 with directions of up to 2^11, of at most
2^33 examples. Double precision holds every such sum, in any order of additions, fused or not, and it has no shorter
substitute as single precision has in TF32. So a card gives the processor's product bit by bit, and the proof there holds as
it stands. The rest of a step, noise included, stays on the processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones.batches import is_out_of_memory
from dpcl_core.methods.features.head_gradients import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """All examples' directions float32 [n, K+1], on the card."""

    rows: Tensor

    @classmethod
    def of(cls, directions: Floats, device: str) -> Directions | None:
        """Copies them to the card; None where its memory does not suffice."""
        assert directions.dtype == np.float32
        try:
            return cls(torch.from_numpy(directions).to(device))
        except RuntimeError as error:
            if is_out_of_memory(error):
                return None
            raise

    def take(self, batch: NDArray[np.int64]) -> Batch:
        """The rows of these examples."""
        return Batch(self.rows[torch.from_numpy(batch).to(self.rows.device)].double())


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch's directions float64 [b, K+1], on the card; the `OnCard` of `head_gradients`."""

    rows: Tensor

    def scores(self, whole: Floats) -> Floats:
        """Whole numbers [m, K+1] times the directions: [m, b] float32, exact because they stay below 2^24 steps."""
        return cast(Floats, (self._here(whole) @ self.rows.T).float().cpu().numpy())

    def sums(self, residuals: Floats) -> Floats:
        """Whole numbers [m, k], k <= b, times the first k directions: [m, K+1] float64."""
        return cast(Floats, (self._here(residuals) @ self.rows[: residuals.shape[1]]).cpu().numpy())

    def _here(self, values: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.rows.device).double()
