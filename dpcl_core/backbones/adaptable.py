"""Backbones as networks for methods that adapt their layers: networks of pictures, of values and of texts."""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import catalog
from dpcl_core.backbones.extractor import finite, made, pictures
from dpcl_core.backbones.gpu import at_once, mixed_precision, room
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content, Images, Interpolation, Vectors, Windows
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput, failure_kind

# Runs a frozen network over images in batches, on a CPU or a graphics card.


# Side squared times images. On a CPU small batches keep their maps in the processor's cache: EfficientNet-Lite0 took 87
# pictures of 224x224 a second in batches of 4, 68 of 8; 389 of 128x128 in batches of 16, 152 of 64 (one thread, 2026-11-22).
_PIXELS_A_BATCH = 1 << 18
_BYTES_A_PIXEL = 256  # on a card: keeps the largest activations of a ViT-B below 1 GB over 2^22 pixels
_MOST, _MOST_ON_CARD = 256, 2048


@dataclass(frozen=True, slots=True)
class Input:
    """A network's required input: side of the square image, channels, and interpolation for resizing."""

    size: int
    n_channels: Literal[1, 3]
    interpolation: Interpolation


def in_batches(
    forward: Callable[[Tensor], Tensor], form: Input, images: Images, feature_dim: int, device: str
) -> Iterator[NDArray[np.float32]]:
    """Features float32 [b, feature_dim] of one batch after the other.

    `forward` takes uint8 [b, size, size, n_channels] on `device` and normalises them itself. Kernels choose the order of
    their additions by the shapes they multiply: a last batch is filled up, so that an image's features do not depend on how
    many others there are. A batch that does not fit into memory is halved until it does. Raises MemoryError where even one
    image does not fit.
    """
    yield np.zeros((0, feature_dim), np.float32)
    on_processor = max(1, min(_MOST, _PIXELS_A_BATCH // form.size**2))
    limit = at_once(room(device), on_processor, _BYTES_A_PIXEL * form.size**2, _MOST_ON_CARD)
    for batch in images.batches(form.size, form.n_channels, limit, form.interpolation):
        for place, rows in enumerate(of_rows(forward, batch, limit, device)):
            if place == 0 and len(rows) < len(batch):
                limit = len(rows)  # what did not fit once is not tried again
            yield rows


def of_rows(
    forward: Callable[[Tensor], Tensor], inputs: NDArray[np.generic], limit: int, device: str
) -> Iterator[NDArray[np.float32]]:
    """Outputs float32 of at most `limit` inputs [n, ...] at once, batch by batch, as `in_batches` computes them."""
    start = 0
    while start < len(inputs):
        try:
            rows = _computed(forward, inputs[start : start + limit], limit, device)
        except (RuntimeError, MemoryError) as error:
            limit = halved(limit, error, f"one image of {'x'.join(map(str, inputs.shape[1:3]))} pixels")
            continue
        start += len(rows)
        yield finite(rows)


@torch.inference_mode()
def _computed(
    forward: Callable[[Tensor], Tensor], batch: NDArray[np.generic], size: int, device: str
) -> NDArray[np.float32]:
    filled = batch[np.arange(size).clip(max=len(batch) - 1)]
    with mixed_precision(device):
        return forward(torch.from_numpy(filled).to(device))[: len(batch)].float().cpu().numpy()


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that the computer's or graphics card's memory is too small."""
    return failure_kind(error) == "out-of-memory"


def halved(limit: int, error: Exception, what: str) -> int:
    """Half a batch size `limit` that did not fit into memory, as `error` says.

    Raises `error` itself if it is of another kind, and MemoryError for a batch of one.
    """
    if not is_out_of_memory(error):
        raise error
    if limit == 1:
        raise MemoryError(f"{what} does not fit into memory") from error
    return limit // 2


_BATCH = 1000


def filled(table: NDArray[np.generic], batches: Iterator[NDArray[np.generic]]) -> Iterator[int]:
    """Writes batches of rows into a table, one after the other; yields the number of rows done."""
    done = 0
    for batch in batches:
        table[done : done + len(batch)] = batch.reshape(len(batch), *table.shape[1:])
        done += len(batch)
        yield done


class Inside(nn.Module):
    """The frozen network as adapters see it: from inputs as they are stored to features float [b, K].

    `side`: side in pixels of a picture that costs as much to compute as one input.
    """

    side: int

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        """Reads all examples as the inputs [n, ...] of `forward`: yields the number done, returns them.

        Raises BadInput for content of another kind, and naming a picture that cannot be decoded.
        """
        raise NotImplementedError

    def blank(self) -> Tensor:
        """One input of zeros [1, ...], on the CPU."""
        raise NotImplementedError


class Pictures(Inside):
    """uint8 pictures [b, side, side, channels] of any side -> features float [b, K] of the network inside.

    Small pictures are resized to the network's size here, batch by batch, so that memory holds them at their own size.
    `mean` and `std`: of pixel values from 0 to 255, one per channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, input_format: Input, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        self.input_format, self.side = input_format, input_format.size
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        """uint8 [n, side, side, channels], at the smaller of the pictures' own and the network's size.

        32x32 pictures for a network of 224x224 then take 49 times less memory.
        """
        images = pictures(content, "this network")
        form, shape = self.input_format, images.shape
        side = form.size if shape is None else min(form.size, max(shape[:2]))
        squares = np.empty((len(images), side, side, form.n_channels), np.uint8)
        yield from filled(squares, images.batches(side, form.n_channels, _BATCH, form.interpolation))
        return squares

    def blank(self) -> Tensor:
        form = self.input_format
        return torch.zeros(1, form.size, form.size, form.n_channels, dtype=torch.uint8)

    def forward(self, pixels: Tensor) -> Tensor:
        maps = pixels.permute(0, 3, 1, 2).to(self.mean.dtype)
        form = self.input_format
        if pixels.shape[1] != form.size:
            # With `antialias` torch resizes as Pillow does, which the frozen extractor uses.
            maps = functional.interpolate(maps, size=form.size, mode=form.interpolation, antialias=True)
            maps = maps.round().clamp(0, 255)
        return cast(Tensor, self.network((maps - self.mean) / self.std))


class Values(Inside):
    """Values float32 [b, *shape] of a table's rows, embeddings or windows -> features float [b, K] of the network inside."""

    def __init__(self, name: str, network: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self._name, self._shape = network, name, shape
        self.side = 1 + math.isqrt(math.prod(shape))

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        if not isinstance(content, Windows | Vectors):
            raise BadInput(FIELD, self._name, f"reads rows of {math.prod(self._shape)} numbers")
        if (n := math.prod(content.shape)) != (own := math.prod(self._shape)):
            allowed = f"reads examples of {own} numbers, and these have {n}: register it with another shape"
            raise BadInput(FIELD, self._name, allowed)
        yield len(content)
        return content.values.reshape(-1, *self._shape)

    def blank(self) -> Tensor:
        return torch.zeros(1, *self._shape)

    def forward(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.network(values.to(next(self.parameters()).dtype)))


class Affine(nn.Module):
    """Scale and shift of each channel of maps [b, C, h, w]: a batch norm's second half, which FiLM trains."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)

    def forward(self, maps: Tensor) -> Tensor:
        return maps * self.weight[:, None, None] + self.bias[:, None, None]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A frozen network on one device; its tensors never change, so all cells of a process share them."""

    name: str
    features: Inside
    feature_dim: int
    device: str


def load(name: str, device: str = "cpu", resolution: int | None = None) -> Network:
    """The network of a backbone, frozen and in evaluation mode, reading pictures at a resolution (None: its own).

    Raises BadInput for a backbone without a network, and the errors of `extractor.load`.
    """
    card = catalog.card(name)
    make = getattr(import_module(card.module), "make_network", None)
    if make is None:
        raise BadInput(FIELD, name, "must be a network to be adapted under film or lora: there are no layers in it")
    return cast(Network, made(card, make, device, resolution))


# Networks of texts whose layers adapters change: the last blocks of MiniLM or of a causal language model.
#
# The blocks below are frozen. What they make of a text is computed once and kept. Every text has the same public number of
# pieces, filled up or cut: what is computed for it depends on no other text, and costs the same time.


PIECES = 64  # that are read of a text; those after them are left out
BLOCKS = 2  # the last ones, which adapters change
_HEADS = 12  # of BERT
_TEXTS_AT_ONCE = 16  # texts, while the blocks below are computed
_LARGEST = float(np.finfo(np.float16).max)
_NUMBERS_A_PIXEL = 20  # of kept states: two blocks on 64 pieces of MiniLM cost about as much as a picture of 50 x 50
Strings = Sequence[str]  # texts


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer


def _norm(weights: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.LayerNorm(len(weight), 1e-12, device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer


class BertBlock(nn.Module):
    """A block of BERT (Devlin et al. 2019) on states [b, S, K]; `mask` bool [b, 1, 1, S]: False at the padding."""

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            _linear(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        self.mixed, self.normed = (_linear(weights, f"{name}.attention.output.dense"),
                                   _norm(weights, f"{name}.attention.output.LayerNorm"))  # fmt: skip
        self.inner, self.outer = _linear(weights, f"{name}.intermediate.dense"), _linear(weights, f"{name}.output.dense")
        self.last = _norm(weights, f"{name}.output.LayerNorm")

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            layer(hidden).view(*hidden.shape[:2], _HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = self.normed(hidden + self.mixed(attended.transpose(1, 2).flatten(2)))
        return cast(Tensor, self.last(hidden + self.outer(functional.gelu(self.inner(hidden)))))


class Bert(nn.Module):
    """BERT's states [b, S, K] of ids int64 [b, S], from its published tensors by name."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.tables = {part: weights[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")}
        self.norm = _norm(weights, "embeddings.LayerNorm")
        n_blocks = len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})
        self.blocks = nn.ModuleList(BertBlock(weights, f"encoder.layer.{block}") for block in range(n_blocks))
        self.requires_grad_(False)

    def forward(self, ids: Tensor, mask: Tensor | None = None, *, n_blocks: int | None = None) -> Tensor:
        """After the first `n_blocks` blocks; None: after all."""
        hidden = functional.embedding(ids, self.tables["word"])
        hidden = hidden + self.tables["position"][: ids.shape[1]] + self.tables["token_type"][0]
        hidden = self.norm(hidden)
        for block in list(self.blocks)[:n_blocks]:
            hidden = cast(Tensor, block(hidden, mask))
        return hidden


class OfBert(nn.Module):
    """The last blocks of BERT, which read every piece of the text."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        for block in self.blocks:
            states = block(states, counts[:, None, None, :])
        return states


class OfCausal(nn.Module):
    """The last blocks of a causal model. A piece reads those before it alone: padding at the end needs no mask."""

    def __init__(self, model: nn.Module, path: str) -> None:
        super().__init__()
        self.model, self._path = model, path

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        first = cast(nn.ModuleList, self.model.get_submodule(self._path))[0]
        # The model's own code runs its blocks; whatever it embeds, the first of these reads the kept states.
        with first.register_forward_pre_hook(lambda block, args: (states, *args[1:])):
            out: Tensor = self.model(inputs_embeds=states, use_cache=False).last_hidden_state
        return out


class Tail(Inside):
    """The last blocks, on kept states float16 [b, PIECES, width + 1], up to the mean of a text's pieces, of unit length.

    The last number of a piece is 1 where it counts in that mean, and 0 at the padding and at a mark before the text.
    """

    def __init__(
        self, blocks: nn.Module, kept: Callable[[Strings], Iterator[NDArray[np.float32]]], width: int, n_blocks: int
    ) -> None:
        super().__init__()
        self.blocks, self._kept, self._width = blocks, kept, width
        self.side = math.isqrt(PIECES * width * n_blocks // _NUMBERS_A_PIXEL)

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        if not isinstance(content, Texts):
            raise BadInput(FIELD, "this network", "reads texts, one after the other")
        states = np.empty((len(content), PIECES, self._width + 1), np.float16)
        yield from filled(states, self._kept(content.strings))
        return states

    def blank(self) -> Tensor:
        return torch.ones(1, PIECES, self._width + 1, dtype=torch.float16)

    def forward(self, kept: Tensor) -> Tensor:
        dtype = next(self.parameters()).dtype
        counts = kept[:, :, -1] > 0
        sums = (self.blocks(kept[:, :, :-1].to(dtype), counts) * counts[:, :, None]).sum(1)
        return functional.normalize(sums / counts.sum(1, keepdim=True).clamp(min=1), dim=1)


def plain(block: nn.Module) -> nn.Module:
    """The block with `Linear` for GPT-2's own layer, which is one with its weights turned. Shares all other tensors."""
    copy = deepcopy(block, {id(one): one for one in (*block.parameters(), *block.buffers())})
    for name, layer in list(copy.named_modules()):
        if type(layer).__name__ == "Conv1D":
            weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
            copy.set_submodule(name, _linear({".weight": weight.T.contiguous(), ".bias": bias}, ""))
    return copy


def text_network(
    name: str, blocks: nn.Module, pieces: Callable[[Strings], list[list[int]]], below: Callable[[Tensor, Tensor], Tensor],
    width: int, device: str, n_marks: int = 0,
) -> Network:  # fmt: skip
    """The last blocks as a network for adapters.

    `pieces`: ids of each text, at most `PIECES`, the first `n_marks` of which do not count; `below`: states [b, S, width]
    that the blocks read, of ids int64 [b, S] and of which of these are no padding, bool [b, S].
    """

    def flat(ids: Tensor) -> Tensor:
        is_piece = ids[:, :, 0] >= 0
        counts = is_piece.clone()
        counts[:, :n_marks] = False
        states = below(ids[:, :, 0].clamp(min=0), is_piece).float().clamp(-_LARGEST, _LARGEST)
        return torch.cat([states, counts[:, :, None]], dim=2).flatten(1)

    def kept(strings: Strings) -> Iterator[NDArray[np.float32]]:
        ids = np.full((len(strings), PIECES, 1), -1)
        for row, of_text in enumerate(pieces(strings)):
            ids[row, : len(of_text), 0] = of_text
        return of_rows(flat, ids, _TEXTS_AT_ONCE, device)

    return Network(name, Tail(blocks, kept, width, BLOCKS).requires_grad_(False).eval().to(device), width, device)
