"""Training inputs of a baseline: prompted texts and, under mechanism = fn, their noisy embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpcl_core.methods.language.gradients import Batch, Fixed, Reading, clean
from dpcl_core.methods.language.prompts import FIRST, TEXT, Prompted


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """Prompted texts of one or several tasks.

    `copies` float32 [n, length, d]: noisy embeddings that the network reads in place of the tokens; None: it reads tokens.
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
            return replace_text_embeddings(embeddings, stored, batch)

        return Fixed(read)

    def take(self, places: NDArray[np.int64]) -> TrainingInputs:
        """The texts at these indices, in this order."""
        texts = self.texts
        chosen = Prompted(texts.ids[places], texts.role[places], texts.stop[places], texts.fork[places])
        return TrainingInputs(chosen, None if self.copies is None else self.copies[torch.from_numpy(places)])


def joined(parts: Sequence[TrainingInputs]) -> TrainingInputs:
    """The texts of several tasks, concatenated and padded to the longest."""
    width = max(part.texts.ids.shape[1] for part in parts)

    def widened(planes: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([np.pad(plane, ((0, 0), (0, width - plane.shape[1]))) for plane in planes])

    texts = [part.texts for part in parts]
    prompted = Prompted(
        *(widened([getattr(one, plane) for one in texts]) for plane in ("ids", "role", "stop", "fork"))  # type: ignore[arg-type]
    )
    copies = [part.copies for part in parts if part.copies is not None]
    return TrainingInputs(prompted, torch.cat(copies) if copies else None)


def gather_batch(table: Tensor, batch: Batch) -> Tensor:
    """The batch's rows [b, S, ...] of per-token values [n, length, ...]; 0 outside the texts."""
    values = table[torch.from_numpy(batch.rows).to(table.device), : batch.ids.shape[1] - FIRST]
    missing = batch.ids.shape[1] - FIRST - values.shape[1]
    inner = [0, 0] * (values.dim() - 2)
    values = functional.pad(values, [*inner, FIRST, missing])
    is_text = batch.role == TEXT
    return values * is_text.view(*is_text.shape, *([1] * (values.dim() - 2)))


def replace_text_embeddings(embeddings: Tensor, stored: Tensor, batch: Batch) -> Tensor:
    """Embeddings [b, S, d] in which the texts' tokens take theirs from `stored` [n, length, d]; prompts keep their own."""
    return torch.where((batch.role == TEXT)[..., None], gather_batch(stored, batch).to(embeddings.dtype), embeddings)


def without_tokens(texts: Prompted) -> Prompted:
    """The same prompts with the texts' tokens set to 0, for training that must not read them."""
    is_text = texts.role == TEXT
    return Prompted(np.where(is_text, 0, texts.ids), texts.role, texts.stop & ~is_text, texts.fork)
