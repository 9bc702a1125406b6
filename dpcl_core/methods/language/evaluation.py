"""Label scores of a trained language model, by the likelihood of each label's name or by greedy decoding.

Test texts have no noise. All labels of a text share its prompt: the prompt is read once, then each name after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.backbones.language.tokenizer import Tokenizer
from dpcl_core.methods.language.gradients import Batch, batch_of
from dpcl_core.methods.language.prompts import answer_ids, prompted

_ROWS = 512  # texts times labels at once


@torch.no_grad()
def ranked(
    net: Adapted,
    tokenizer: Tokenizer,
    inputs: NDArray[np.int32],
    labels: Sequence[int],
    classes: Sequence[str],
    name: str,
    *,
    device: str,
) -> NDArray[np.float32]:
    """Log-likelihood of every label's name after each text's prompt, [n, classes]; -inf outside `labels`.

    Includes the end-of-text token, so that a name which is the beginning of another has no advantage.
    Args: inputs int32 [n, length, planes]; labels: the task's labels, as indices into `classes`; name: the task's.
    """
    scores = np.full((len(inputs), len(classes)), -np.inf, np.float32)
    if not len(labels):
        return scores
    answers = [answer_ids(tokenizer, classes[label]) for label in labels]
    for batch in _prompts(tokenizer, inputs, classes, name, len(labels), device):
        scores[np.ix_(batch.rows, np.asarray(labels))] = _answer_likelihoods(net, batch, answers).float().cpu().numpy()
    return scores


@torch.no_grad()
def generated(
    net: Adapted,
    tokenizer: Tokenizer,
    inputs: NDArray[np.int32],
    labels: Sequence[int],
    classes: Sequence[str],
    name: str,
    *,
    device: str,
) -> NDArray[np.float32]:
    """0 at the label whose name greedy decoding writes after the prompt, -inf elsewhere, [n, classes].

    If it writes no label's name, the whole row is -inf, which counts as wrong.
    """
    scores = np.full((len(inputs), len(classes)), -np.inf, np.float32)
    n_tokens = max((len(answer_ids(tokenizer, classes[label])) for label in labels), default=0)
    for batch in _prompts(tokenizer, inputs, classes, name, 1, device):
        for row, written in zip(batch.rows.tolist(), _greedy(net, batch, tokenizer, n_tokens), strict=True):
            for label in labels:
                if written == classes[label]:
                    scores[row, label] = 0.0
    return scores


def _prompts(
    tokenizer: Tokenizer, inputs: NDArray[np.int32], classes: Sequence[str], name: str, n_answers: int, device: str
) -> Iterator[Batch]:
    """Batches of prompted texts, sorted by length; one batch times its answers has at most `_ROWS` rows."""
    prompts = prompted(tokenizer, inputs, None, classes, name)
    order = np.argsort((prompts.role != 0).sum(axis=1), kind="stable")
    step = max(1, _ROWS // n_answers)
    return (batch_of(prompts, order[start : start + step], device) for start in range(0, len(order), step))


def _answer_likelihoods(net: Adapted, batch: Batch, answers: Sequence[Sequence[int]]) -> Tensor:
    """Log-likelihoods [b, answers] of each answer after each prompt."""
    device, n = batch.ids.device, len(answers)
    first, cache = _read(net, batch)
    starts = torch.tensor([answer[0] for answer in answers], device=device)
    likelihoods = first[:, starts]
    rest = max(map(len, answers)) - 1
    if rest == 0:
        return likelihoods
    cache.batch_repeat_interleave(n)
    tokens = pad_sequence([torch.tensor(answer) for answer in answers], batch_first=True).to(device)
    is_answer = pad_sequence([torch.ones(len(answer) - 1) for answer in answers], batch_first=True).to(device)
    lengths = batch.mask.sum(dim=1).repeat_interleave(n)
    positions = lengths[:, None] + torch.arange(rest, device=device)
    seen = torch.cat([batch.mask.repeat_interleave(n, dim=0), torch.ones_like(positions, dtype=torch.bool)], dim=1)
    output = net.model(
        input_ids=tokens[:, :-1].repeat(len(batch), 1), attention_mask=seen, position_ids=positions, past_key_values=cache
    )
    steps = output.logits.log_softmax(dim=-1).view(len(batch), n, rest, -1)
    later = steps.gather(3, tokens[None, :, 1:, None].expand(len(batch), -1, -1, -1))[..., 0]
    totals: Tensor = likelihoods + (later * is_answer).sum(dim=2)
    return totals


def _greedy(net: Adapted, batch: Batch, tokenizer: Tokenizer, n_tokens: int) -> list[str]:
    """Greedy decoding after each prompt, up to the end-of-text token or `n_tokens` tokens, stripped of blanks."""
    if n_tokens == 0:
        return [""] * len(batch)
    steps, cache = _read(net, batch)
    lengths, seen = batch.mask.sum(dim=1), batch.mask
    tokens: list[Tensor] = []
    for step in range(n_tokens):
        tokens.append(steps.argmax(dim=-1))
        if step + 1 == n_tokens:
            break
        seen = torch.cat([seen, torch.ones_like(seen[:, :1])], dim=1)
        output = net.model(
            input_ids=tokens[-1][:, None], attention_mask=seen, position_ids=(lengths + step)[:, None], past_key_values=cache
        )
        steps, cache = output.logits[:, -1], output.past_key_values
    return [_text(tokenizer, row) for row in torch.stack(tokens, dim=1).tolist()]


def _text(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The string of these tokens up to the end-of-text token; empty if there is none, as an unfinished answer is wrong."""
    if tokenizer.eos not in ids:
        return ""
    return "".join(tokenizer.shown(token) for token in ids[: ids.index(tokenizer.eos)]).strip()


def _read(net: Adapted, batch: Batch) -> tuple[Tensor, Any]:
    """Log-probabilities [b, size] of the token after each prompt, and the key-value cache of the prompts."""
    lengths = batch.mask.sum(dim=1)
    columns, places = torch.unique(lengths - 1, return_inverse=True)
    output = net.model(input_ids=batch.ids, use_cache=True, logits_to_keep=columns)
    logits = output.logits if output.logits.shape[1] == len(columns) else output.logits[:, columns]
    return logits[torch.arange(len(batch)), places].log_softmax(dim=-1), output.past_key_values
