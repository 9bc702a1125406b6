"""A-GEM's projection (Chaudhry et al. 2019, Eq. 11): removes the part of a step that opposes the memory's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from dpcl_core.methods.lifelong.cards.network_params import Projection, Scope


def project(grad: Tensor, ref: Tensor, when: Projection) -> Tensor:
    """g - (g·g_ref / g_ref·g_ref) g_ref for flat vectors of equal length where the projection applies; otherwise g.

    "if-violated": where g·g_ref < 0, as in A-GEM's own code. "always": at every step, as Lai et al. print it (Eq. 2,
    Algorithms 1 and 2), which also keeps a step from helping the memory. g_ref = 0 gives g. Computed on the device without
    synchronisation.
    """
    if when == "never":
        return grad
    along, length = grad @ ref, ref @ ref
    applies = length > 0 if when == "always" else (along < 0) & (length > 0)
    return torch.where(applies, grad - (along / length) * ref, grad)  # where it does not apply, a 0/0 is discarded


def projected(grads: Sequence[Tensor], refs: Sequence[Tensor], when: Projection, scope: Scope) -> list[Tensor]:
    """The projected gradient tensors of a step: as one vector ("joint"), or the first tensor separately from the rest.

    The first tensor is the only one of the first layer. Each block has its own reference (Lai et al., Eqs. 10 and 14).
    """
    cuts = (0, len(grads)) if scope == "joint" else (0, 1, len(grads))
    result: list[Tensor] = []
    for start, end in pairwise(cuts):
        block = grads[start:end]
        flat = project(_flat(block), _flat(refs[start:end]), when)
        pieces = torch.split(flat, [grad.numel() for grad in block])
        result += [piece.view_as(grad) for piece, grad in zip(pieces, block, strict=True)]
    return result


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])
