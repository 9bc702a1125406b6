"""A-GEM's projection (Chaudhry et al. 2019, Eq. 11): a step that does not point against the memory's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from dpcl_core.methods.lifelong.cards.network_params import Projection, Scope


def project(grad: Tensor, ref: Tensor, when: Projection) -> Tensor:
    """g - (g·g_ref / g_ref·g_ref) g_ref, of flat vectors of one length, where the projection applies; else g itself.

    "if-violated": where g·g_ref < 0, as A-GEM's own code has it. "always": at every step, as Lai et al. print it (Eq. 2,
    Algorithms 1 and 2), which keeps a step from helping the memory as well. g_ref = 0 gives g. Computed on the device,
    with nothing read back in between.
    """
    if when == "never":
        return grad
    along, length = grad @ ref, ref @ ref
    applies = length > 0 if when == "always" else (along < 0) & (length > 0)
    return torch.where(applies, grad - (along / length) * ref, grad)  # 0/0 where it does not apply, and not taken


def projected(grads: Sequence[Tensor], refs: Sequence[Tensor], when: Projection, scope: Scope, n_first: int) -> list[Tensor]:
    """The gradient tensors of a step, projected: all as one vector ("joint"), or the first `n_first` apart from the rest.

    Two blocks are the first layer and the rest, each with its own reference (Lai et al., Eqs. 10 and 14).
    """
    if when == "never":
        return list(grads)
    cuts = (0, len(grads)) if scope == "joint" else (0, n_first, len(grads))
    found: list[Tensor] = []
    for start, end in pairwise(cuts):
        own = grads[start:end]
        if not own:
            continue
        flat = project(_flat(own), _flat(refs[start:end]), when)
        pieces = torch.split(flat, [grad.numel() for grad in own])
        found += [piece.view_as(grad) for piece, grad in zip(pieces, own, strict=True)]
    return found


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])
