"""What a baseline trains on: texts with their prompts, and what the network reads in place of their tokens' embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.methods.language.adapted_model import replaced
from dpcl_core.methods.language.gradients import Batch, Reading, clean
from dpcl_core.methods.language.prompts import Prompted


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """Texts of one or several tasks.

    `copies` float32 [n, length, d]: noisy embeddings of their tokens, which are read in their place; None: they are read.
    """

    texts: Prompted
    copies: Tensor | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def reading(self) -> Reading:
        """How the network reads a batch of these texts."""
        stored = self.copies
        if stored is None:
            return clean

        def read(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
            return replaced(embeddings, stored, batch)

        return read

    def take(self, places: NDArray[np.int64]) -> TrainingInputs:
        """The texts at these places, in this order."""
        texts = self.texts
        chosen = Prompted(texts.ids[places], texts.role[places], texts.stop[places], texts.kind[places])
        return TrainingInputs(chosen, None if self.copies is None else self.copies[torch.from_numpy(places)])


def joined(parts: Sequence[TrainingInputs]) -> TrainingInputs:
    """The texts of several tasks, one after the other, padded to the longest."""
    width = max(part.texts.ids.shape[1] for part in parts)

    def whole(planes: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([np.pad(plane, ((0, 0), (0, width - plane.shape[1]))) for plane in planes])

    texts = [part.texts for part in parts]
    together = Prompted(
        *(whole([getattr(one, plane) for one in texts]) for plane in ("ids", "role", "stop", "kind"))  # type: ignore[arg-type]
    )
    copies = [part.copies for part in parts if part.copies is not None]
    return TrainingInputs(together, torch.cat(copies) if copies else None)
