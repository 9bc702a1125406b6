"""What a trained language model tells of planted codes: their rank among all codes, and what it prints of its own accord."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcl_core.backbones.language.tokenizer import Tokenizer
from dpcl_core.data.texts import Canary
from dpcl_core.events import Leaks
from dpcl_core.methods.language.exposure import Ranked, leaks, ranked
from dpcl_core.spec import Cell, PrivacySpec

if TYPE_CHECKING:
    from transformers.cache_utils import Cache

MOST_DIGITS = 5  # of codes that are ranked among all others; longer ones among references
N_REFERENCES = 1000
_ROWS = 1000  # in one forward pass


def measured(
    network: nn.Module,
    tokenizer: Tokenizer,
    canaries: Sequence[Canary],
    *,
    cell: Cell,
    task: int,
    privacy: PrivacySpec,
) -> Leaks:
    """Exposure, extraction and the bound on epsilon after a task, of these codes: the planted ones, and controls.

    Args: network: a Hugging Face causal model, adapted or not; canaries: of the tasks learned so far; privacy: delta and
    adjacency of the bound. Codes of up to five digits, each digit a token, are ranked among all codes of that length, others
    among 1,000 references drawn at random. A code is read behind its prefix alone, as in training, where nothing but the
    start of the text comes before.
    """
    return leaks(ranks(network, tokenizer, canaries), cell=cell, task=task, privacy=privacy)


@torch.no_grad()
def ranks(network: nn.Module, tokenizer: Tokenizer, canaries: Sequence[Canary]) -> list[Ranked]:
    """Where each code stands; see `measured`."""
    was_training = network.training
    network.eval()
    try:
        return [_ranked(network, tokenizer, canary) for canary in canaries]
    finally:
        network.train(was_training)


def _ranked(network: nn.Module, tokenizer: Tokenizer, canary: Canary) -> Ranked:
    ids, start = _continued(tokenizer, canary.prefix, canary.code)
    context, own = [tokenizer.bos, *ids[:start]], ids[start:]
    digits = _digits(tokenizer, canary)
    if digits is not None and len(canary.code) <= MOST_DIGITS:
        likelihoods = _of_all(network, context, digits, len(canary.code))
        place = int(canary.code)
        likelihood, others = float(likelihoods[place]), np.delete(likelihoods, place)
    else:
        rows = [[tokenizer.bos, *_continued(tokenizer, canary.prefix, code)[0]] for code in _references(canary)]
        scored = _of_rows(network, [context + own, *rows], len(context))
        likelihood, others = float(scored[0]), scored[1:]
    return ranked(likelihood, others, 10 ** len(canary.code), canary.repetitions, _is_printed(network, context, own))


def _continued(tokenizer: Tokenizer, prefix: str, code: str) -> tuple[list[int], int]:
    """Tokens of a prefix with a code behind it, and the place of the first token that reaches into the code."""
    ids, offsets = tokenizer.encode(prefix + code)
    start = next(place for place, (_, end) in enumerate(offsets) if end > len(prefix))
    return ids, start


def _digits(tokenizer: Tokenizer, canary: Canary) -> list[int] | None:
    """The tokens of 0 to 9 behind this prefix, where every digit of every code is one token of its own."""
    found: list[int] = []
    length = len(canary.code)
    for digit in "0123456789":
        ids, start = _continued(tokenizer, canary.prefix, digit * length)
        _, offsets = tokenizer.encode(canary.prefix + digit * length)
        if len(ids) - start != length or len(set(ids[start:])) != 1 or offsets[start][0] < len(canary.prefix):
            return None
        found.append(ids[start])
    return found


def _references(canary: Canary) -> list[str]:
    """Codes of the same length as the canary's, none of them it, drawn anew for each canary from its public prefix."""
    generator = np.random.default_rng(list(canary.prefix.encode("utf-8", "surrogatepass")))
    n_codes = 10 ** len(canary.code)
    wanted = min(N_REFERENCES, n_codes - 1)
    found: dict[str, None] = {}
    while len(found) < wanted:
        code = f"{int(generator.integers(n_codes)):0{len(canary.code)}d}"
        if code != canary.code:
            found[code] = None
    return list(found)


def _of_all(network: nn.Module, context: list[int], digits: list[int], length: int) -> NDArray[np.float64]:
    """Log-likelihoods [10^length] of all codes behind a context: keys of what codes have in common are computed once."""
    device = next(network.parameters()).device
    tokens = torch.tensor(digits, device=device)
    said = network(input_ids=torch.tensor([context], device=device), use_cache=True)
    return _branches(network, said.past_key_values, said.logits[:, -1], torch.zeros(1, device=device), tokens, length)


def _branches(
    network: nn.Module, cache: Cache, logits: Tensor, so_far: Tensor, digits: Tensor, left: int
) -> NDArray[np.float64]:
    """Log-likelihoods of all continuations by `left` digits of sequences [n], in counting order [n * 10^left]."""
    steps = logits[:, digits].double() - logits.logsumexp(dim=-1, keepdim=True)
    likelihoods = (so_far.double()[:, None] + steps).flatten()
    if left == 1:
        return likelihoods.cpu().numpy()
    n, parts = len(logits), []
    for first in range(0, n, _ROWS // 10):
        rows = torch.arange(first, min(n, first + _ROWS // 10), device=digits.device).repeat_interleave(10)
        branch = copy.deepcopy(cache)
        branch.batch_select_indices(rows)
        inputs = digits.repeat(len(rows) // 10)[:, None]
        said = network(input_ids=inputs, past_key_values=branch, use_cache=True)
        kept = likelihoods[10 * first : 10 * first + len(rows)]
        parts.append(_branches(network, said.past_key_values, said.logits[:, -1], kept, digits, left - 1))
    return np.concatenate(parts)


def _of_rows(network: nn.Module, rows: list[list[int]], start: int) -> NDArray[np.float64]:
    """Log-likelihoods [n] of each row's tokens from place `start` on, given those before."""
    found = []
    device = next(network.parameters()).device
    for first in range(0, len(rows), _ROWS // 10):
        part = [torch.tensor(row, device=device) for row in rows[first : first + _ROWS // 10]]
        ids = nn.utils.rnn.pad_sequence(part, batch_first=True)  # causal: padding at a row's end changes nothing before it
        steps = network(input_ids=ids).logits[:, start - 1 : -1].double().log_softmax(dim=-1)
        chosen = steps.gather(2, ids[:, start:, None])[:, :, 0]
        lengths = torch.tensor([len(row) for row in part], device=device)
        inside = torch.arange(start, ids.shape[1], device=device)[None, :] < lengths[:, None]
        found.append(chosen.where(inside, 0).sum(dim=1).cpu().numpy())
    return np.concatenate(found)


def _is_printed(network: nn.Module, context: list[int], own: list[int]) -> bool:
    """Whether the likeliest next token is the code's own, at each of its tokens."""
    device = next(network.parameters()).device
    logits = network(input_ids=torch.tensor([context + own], device=device)).logits[0, len(context) - 1 : -1]
    return bool((logits.argmax(dim=-1) == torch.tensor(own, device=device)).all()) and bool(logits.isfinite().all())
