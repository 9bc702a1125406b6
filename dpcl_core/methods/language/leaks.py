"""What a trained language model tells of planted codes: their rank among all codes, and what it prints of its own accord."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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
_IN_A_TREE = 4  # digits that are read in one pass: more would have attention look at too much that it must not see
_TOKENS = 1200  # in one forward pass of such trees
_ROWS = 100  # in one forward pass of whole codes
_SAME = 0.5  # nats that rounding may make between a code in the tree and the same code read alone


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
    alone, is_printed = _alone(network, context, own)
    n_codes, digits = 10 ** len(canary.code), _digits(tokenizer, canary)
    if digits is not None and len(canary.code) <= MOST_DIGITS:
        likelihoods, place = _of_all(network, context, digits, len(canary.code)), int(canary.code)
        # Not so where tokens tell those after them more than attention does (recurrent layers): siblings would mix.
        if not abs(likelihoods[place] - alone) > _SAME:
            return ranked(float(likelihoods[place]), np.delete(likelihoods, place), n_codes, canary.repetitions, is_printed)
    rows = [[tokenizer.bos, *_continued(tokenizer, canary.prefix, code)[0]] for code in _references(canary)]
    return ranked(alone, _of_rows(network, rows, len(context)), n_codes, canary.repetitions, is_printed)


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
    """Log-likelihoods [10^length] of all codes behind a context, in counting order; what they share is read once."""
    device = next(network.parameters()).device
    tokens = torch.tensor(digits, device=device)
    said = network(input_ids=torch.tensor([context], device=device), use_cache=True)
    return _branches(network, said.past_key_values, said.logits[:, -1], torch.zeros(1, device=device), tokens, length)


def _branches(
    network: nn.Module, cache: Cache, logits: Tensor, so_far: Tensor, digits: Tensor, left: int
) -> NDArray[np.float64]:
    """Log-likelihoods of all continuations by `left` digits of sequences [n], in counting order [n * 10^left]."""
    likelihoods = (so_far.double()[:, None] + _steps(logits, digits)).flatten()
    if left == 1:
        return likelihoods.cpu().numpy()
    goes_on = left > _IN_A_TREE
    tree = _tree(1 if goes_on else left - 1)
    at_once, parts = max(1, _TOKENS // len(tree.depth)), []
    for start in range(0, len(likelihoods), at_once):
        rows = torch.arange(start, min(len(likelihoods), start + at_once), device=digits.device)
        branch = copy.deepcopy(cache)
        branch.batch_select_indices(rows // 10)
        logits = tree.read(network, branch, digits, rows % 10)
        if goes_on:
            parts.append(_branches(network, branch, logits[:, -1], likelihoods[rows], digits, left - 1))
        else:
            parts.append(tree.sums(_steps(logits, digits), likelihoods[rows]).cpu().numpy())
    return np.concatenate(parts)


def _steps(logits: Tensor, digits: Tensor) -> Tensor:
    """Log-probability [..., 10] of each digit as the next token, in double precision."""
    return logits[..., digits].double() - logits.logsumexp(dim=-1, keepdim=True)


@dataclass(frozen=True, slots=True)
class _Tree:
    """All codes of some more digits behind a first one, as one row of tokens: parents before children, level by level.

    `depth`, `digit` int64 [Q] of each token, the first digit left open; `sees` bool [Q, Q]: itself and what it follows.
    """

    depth: Tensor
    digit: Tensor
    sees: Tensor

    def read(self, network: nn.Module, cache: Cache, digits: Tensor, first: Tensor) -> Tensor:
        """Logits [r, Q, size] behind every token of the tree, in rows [r] of the cache that go on with digits `first`.

        The cache grows by the tree.
        """
        device, n_before = digits.device, cache.get_seq_length()
        chosen = self.digit.to(device).repeat(len(first), 1)
        chosen[:, 0] = first
        hidden = torch.nn.functional.pad(~self.sees.to(device), (n_before, 0))
        kind = next(network.parameters()).dtype
        bias = torch.zeros(hidden.shape, dtype=kind, device=device).masked_fill(hidden, torch.finfo(kind).min)
        logits: Tensor = network(
            input_ids=digits[chosen],
            past_key_values=cache,
            attention_mask=bias.expand(len(first), 1, -1, -1),
            position_ids=(n_before + self.depth.to(device)).expand(len(first), -1),
            use_cache=True,
        ).logits
        return logits

    def sums(self, steps: Tensor, likelihoods: Tensor) -> Tensor:
        """Log-likelihoods [r * 10^levels], in counting order, from those up to the first digit [r] and steps [r, Q, 10]."""
        start = 0
        for level in range(int(self.depth[-1]) + 1):
            width = 10**level
            likelihoods = (likelihoods.view(len(steps), width, 1) + steps[:, start : start + width]).flatten()
            start += width
        return likelihoods


@cache
def _tree(levels: int) -> _Tree:
    sizes = [10**level for level in range(levels)]
    depth = torch.arange(levels).repeat_interleave(torch.tensor(sizes))
    place = torch.cat([torch.arange(size) for size in sizes])
    # A token sees another where the digits of the one begin with those of the other.
    shift = depth[:, None] - depth[None, :]
    sees = (shift >= 0) & (place[:, None] // 10 ** shift.clamp(min=0) == place[None, :])
    return _Tree(depth, place % 10, sees)


def _of_rows(network: nn.Module, rows: list[list[int]], start: int) -> NDArray[np.float64]:
    """Log-likelihoods [n] of each row's tokens from place `start` on, given those before."""
    found = []
    device = next(network.parameters()).device
    for first in range(0, len(rows), _ROWS):
        part = [torch.tensor(row, device=device) for row in rows[first : first + _ROWS]]
        ids = nn.utils.rnn.pad_sequence(part, batch_first=True)  # causal: padding at a row's end changes nothing before it
        steps = network(input_ids=ids).logits[:, start - 1 : -1].double().log_softmax(dim=-1)
        chosen = steps.gather(2, ids[:, start:, None])[:, :, 0]
        lengths = torch.tensor([len(row) for row in part], device=device)
        inside = torch.arange(start, ids.shape[1], device=device)[None, :] < lengths[:, None]
        found.append(chosen.where(inside, 0).sum(dim=1).cpu().numpy())
    return np.concatenate(found)


def _alone(network: nn.Module, context: list[int], own: list[int]) -> tuple[float, bool]:
    """A code's log-likelihood, and whether the likeliest next token is its own at each of its tokens."""
    device = next(network.parameters()).device
    logits = network(input_ids=torch.tensor([context + own], device=device)).logits[0, len(context) - 1 : -1]
    chosen = torch.tensor(own, device=device)
    likelihood = float(logits.double().log_softmax(dim=-1).gather(1, chosen[:, None]).sum())
    return likelihood, bool((logits.argmax(dim=-1) == chosen).all()) and bool(logits.isfinite().all())
