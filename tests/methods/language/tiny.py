"""A random language model of GPT-2's kind, a tokenizer of letters, and texts: small enough for tests of every step."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.weights import ensure_torchvision
from dpcl_core.data.texts import PADDING, PLANES, STOP, TOKEN
from dpcl_core.methods.language import gradients, public_text
from dpcl_core.methods.language.gradients import log_probs as log_probs
from dpcl_core.methods.language.public_text import prompted as prompted
from tests.methods.clipped_sums import row as row

CLASSES = ("bad", "good", "worse")
_LETTERS = " abcdefghijklmnopqrstuvwxyz:\n0123456789"


class Letters:
    """A tokenizer whose tokens are letters; 0 and 1 begin and end a text."""

    size = len(_LETTERS) + 2
    bos, eos = 0, 1

    def encode(self, string: str) -> tuple[list[int], list[tuple[int, int]]]:
        return [2 + _LETTERS.index(letter) for letter in string], [(k, k + 1) for k in range(len(string))]

    def shown(self, token: int) -> str:
        return _LETTERS[token - 2]


def frozen(width: int = 32, n_layer: int = 2, size: int = Letters.size, seed: int = 0) -> torch.nn.Module:
    """A frozen model with random weights, larger than usual so that it has opinions."""
    ensure_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=size, n_positions=128, n_embd=width, n_layer=n_layer, n_head=2, initializer_range=0.3)
    return GPT2LMHeadModel(config).eval().requires_grad_(False)


def adapted(
    width: int = 32, rank: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64, started: bool = True
) -> Adapted:
    """Adapters on it; `started`: B is not zero any more, so that gradients flow to A."""
    net = Adapted(frozen(width), rank, 2.0 * rank, seed).to(dtype)
    if started:
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for name, parameter in net.trainable().items():
                if name.endswith(".B"):
                    parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return net


def encoded(strings: Sequence[str], length: int = 16) -> NDArray[np.int32]:
    """Texts as the reader gives them; every token of the word "the" is a stop word's."""
    found = np.zeros((len(strings), length, PLANES), np.int32)
    found[:, :, TOKEN] = PADDING
    for place, string in enumerate(strings):
        ids = Letters().encode(string)[0][:length]
        found[place, : len(ids), TOKEN] = ids
        for start in range(len(string)):
            if string[start : start + 3] == "the" and start + 3 <= length:
                found[place, start : start + 3, STOP] = 1
    return found


STRINGS = ("the cat", "a dog and the cow", "x", "no news is good", "the", "call me at nine", "seven", "ab the ba")
ALL = np.arange(len(STRINGS))


def texts(length: int = 16, strings: Sequence[str] = STRINGS) -> public_text.Prompted:
    labels = np.arange(len(strings)) % len(CLASSES)
    return prompted(Letters(), encoded(strings, length), labels, CLASSES, "pets")  # type: ignore[arg-type]


def batch(rows: NDArray[np.int64] = ALL) -> gradients.Batch:
    return gradients.batch_of(texts(), rows, "cpu")


def logits_behind(net: Adapted, string: str, answer: list[int]) -> Tensor:
    """From the last token of one prompt on, without padding, cache, or anything shared."""
    ids = [Letters.bos, *Letters().encode(string)[0][:16], *Letters().encode(public_text.template("pets"))[0]]
    with torch.no_grad():
        return net.model(input_ids=torch.tensor([ids + answer])).logits[0, len(ids) - 1 :]


def gradient(net: Adapted, place: int, loss: gradients.TextLoss) -> Tensor:
    """Of one text's loss, without padding, by autograd."""
    alone = batch(ALL[place : place + 1])
    return row(torch.autograd.grad(loss.of(log_probs(net, alone), alone).sum(), list(net.trainable().values())))


def weights(net: Adapted) -> Tensor:
    return row([parameter.detach() for parameter in net.trainable().values()])
