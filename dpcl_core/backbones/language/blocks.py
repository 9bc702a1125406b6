"""A causal model in two parts, cut between two of its blocks: what is below the cut, and what is above it.

Both parts are the model's own modules behind a shorter list of blocks, so they share its weights and whatever is changed in
them later. The model's own code runs them, with its masks, positions and scaling of logits; the states enter in front of the
first block above the cut.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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

    `path`: name of the model's list of blocks.
    """

    def __init__(self, model: nn.Module, path: str, cut: int) -> None:
        self.cut = cut
        self._model = model
        self._head: nn.Module = model.get_output_embeddings()  # type: ignore[operator]  # attributes have no types
        self._mlp: nn.Module | None = None  # of the last block
        if cut:
            blocks = list(cast(nn.ModuleList, model.get_submodule(path)))
            self._highest, self._first = blocks[cut - 1], blocks[cut]
            self._mlp = getattr(blocks[-1], "mlp", None)
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

    def above(self, states: Tensor, columns: Tensor, *, tokens: Tensor | None = None, whole: bool = False) -> Tensor:
        """Logits [b, k, size] of the tokens that follow these columns, int64 [b, k], from the states before block `cut`.

        These are token embeddings where `cut` is 0. Only the columns go through the last layer, which in a small model costs
        as much as all others, and through the last block's layers after its attention (`whole`: all do). `tokens` int64 [v]:
        logits of these alone, [b, k, v].
        """
        with ExitStack() as hooks:
            hooks.enter_context(_only(self._head, columns))
            if tokens is not None:
                hooks.enter_context(_rows(self._head, tokens))
            if not self.cut:
                return cast(Tensor, self._model(inputs_embeds=states, use_cache=False).logits)
            hooks.enter_context(_entering(self._first, states))
            if self._mlp is not None and not whole:
                hooks.enter_context(_only(self._mlp, columns, width=states.shape[1]))
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


@contextmanager
def _rows(head: nn.Module, tokens: Tensor) -> Iterator[None]:
    """Inside the context the last layer has the rows of these tokens alone; the table of embeddings keeps all."""
    whole = dict(head.named_parameters(recurse=False))
    try:
        for name, tensor in whole.items():
            setattr(head, name, nn.Parameter(tensor[tokens], requires_grad=False))
        yield
    finally:
        for name, tensor in whole.items():
            setattr(head, name, tensor)


@contextmanager
def _only(layer: nn.Module, columns: Tensor, width: int | None = None) -> Iterator[None]:
    """Inside the context the layer reads these columns [b, k] alone; with `width` its output has so many, 0 elsewhere."""
    places = columns[:, :, None]

    def chosen(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return args[0].gather(1, places.expand(-1, -1, args[0].shape[2])), *args[1:]

    def restored(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> Tensor:
        whole, ones = out.new_zeros((len(out), width or 0, out.shape[2])), torch.ones_like(columns)
        times = columns.new_zeros((len(out), width or 0)).scatter_add(1, columns, ones).gather(1, columns)
        return whole.scatter_add(1, places.expand(-1, -1, out.shape[2]), out / times[:, :, None])

    hooks = [layer.register_forward_pre_hook(chosen)]
    if width is not None:
        hooks.append(layer.register_forward_hook(restored))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _with_blocks(model: nn.Module, path: str, blocks: list[nn.Module]) -> nn.Module:
    """The same model with this list of blocks at `path`, all modules shared."""
    changed = copy.copy(model)
    first, _, rest = path.partition(".")
    inner = model._modules[first]
    assert inner is not None
    changed._modules = {**model._modules, first: _with_blocks(inner, rest, blocks) if rest else nn.ModuleList(blocks)}
    return changed
