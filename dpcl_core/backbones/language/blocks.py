"""A causal model in two parts, cut between two of its blocks: what is below the cut, and what is above it.

Both parts are the model's own modules behind a shorter list of blocks, so they share its weights and whatever is changed in
them later. The model's own code runs them, with its masks, positions and scaling of logits; the states enter in front of the
first block above the cut.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from typing import cast

import torch
from torch import Tensor, nn

_NUMBERED = re.compile(r"(.+?)\.(\d+)\.")  # the first number in a module's name is that of its block


def block_of(name: str) -> tuple[str, int] | None:
    """The list of blocks that a module of this name is in, and the number of its block; None outside any."""
    found = _NUMBERED.match(name)
    return (found.group(1), int(found.group(2))) if found else None


class Split:
    """A model cut below block `cut`; 0: nothing is below but the embedding of tokens.

    `path`: name of the model's list of blocks. `last`: its last layer, from states to logits.
    """

    def __init__(self, model: nn.Module, path: str, cut: int) -> None:
        self.cut = cut
        self._model = model
        self.last: nn.Module = model.get_output_embeddings()  # type: ignore[operator]  # attributes have no types
        if cut:
            blocks = list(cast(nn.ModuleList, model.get_submodule(path)))
            self._highest, self._first = blocks[cut - 1], blocks[cut]
            self._below, self._above = _with_blocks(model, path, blocks[:cut]), _with_blocks(model, path, blocks[cut:])

    @torch.no_grad()
    def below(self, embeddings: Tensor) -> Tensor:
        """States [b, S, width] before block `cut`, from token embeddings [b, S, width]; no gradient flows through them."""
        if not self.cut:
            return embeddings
        seen: list[Tensor] = []

        def note(block: nn.Module, args: tuple[Tensor, ...], out: Tensor | tuple[Tensor, ...]) -> None:
            seen.append(out if isinstance(out, Tensor) else out[0])

        hook = self._highest.register_forward_hook(note)
        try:
            self._below.base_model(inputs_embeds=embeddings, use_cache=False)  # type: ignore[operator]
        finally:
            hook.remove()
        return seen[0]

    def above(self, states: Tensor) -> Tensor:
        """Logits [b, S, size] of the next token from the states before block `cut` (token embeddings where it is 0)."""
        if not self.cut:
            return cast(Tensor, self._model(inputs_embeds=states, use_cache=False).logits)
        with _entering(self._first, states):
            return cast(Tensor, self._above(inputs_embeds=states, use_cache=False).logits)

    @cached_property
    def identity(self) -> str:
        """Digest of all weights below the cut, with their precision and the kind of device that computes with them."""
        digest = blake2b(digest_size=16)
        for name, tensor in (*self._below.named_parameters(), *self._below.named_buffers()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.device.type}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return f"{digest.hexdigest()}-{self.cut}"


@contextmanager
def _entering(block: nn.Module, states: Tensor) -> Iterator[None]:
    """Inside the context the block reads these states, whatever it is given."""
    hook = block.register_forward_pre_hook(lambda module, args: (states, *args[1:]))
    try:
        yield
    finally:
        hook.remove()


def _with_blocks(model: nn.Module, path: str, blocks: list[nn.Module]) -> nn.Module:
    """The same model with this list of blocks at `path`, all modules shared."""
    changed = copy.copy(model)
    first, _, rest = path.partition(".")
    inner = model._modules[first]
    assert inner is not None
    changed._modules = {**model._modules, first: _with_blocks(inner, rest, blocks) if rest else nn.ModuleList(blocks)}
    return changed
