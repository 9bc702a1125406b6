"""Label scores of a trained language model: by choices, by the likelihood of each label's name, or by greedy decoding.

Test texts have no noise. All labels of a text share its prompt: the prompt is read once, then each name after it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.plain_language import Tokenizer
from dpcl_core.data.texts import Canary
from dpcl_core.methods.language.gradients import AT_ONCE, Batch, Forks, answer_columns, batch_of, batches_of, logits_at
from dpcl_core.methods.language.public_text import Prompted, Ranked, answer_ids, prompted, ranked

if TYPE_CHECKING:
    from transformers.cache_utils import Cache

# Canary exposure and greedy extraction for a trained language model (Carlini et al. 2019).


MOST_DIGITS = 5  # longest codes that are ranked among all codes; longer ones are ranked among references
N_REFERENCES = 1000
_BRANCHES = 100  # beginnings of codes in one forward pass
_LEAKS_ROWS = 100  # in one forward pass over whole codes
_ROUNDING = 0.5  # largest difference in nats that rounding explains between a code among all and the same code alone


@torch.no_grad()
def ranks(network: nn.Module, tokenizer: Tokenizer, canaries: Sequence[Canary]) -> list[Ranked]:
    """The rank of each planted code and control, under a Hugging Face causal model, adapted or not.

    Codes of up to five digits, one token per digit, are ranked among all codes of that length; others among 1,000 random
    references. A code is read after its prefix alone, as in training, where only the start-of-text token precedes it.
    """
    was_training = network.training
    network.eval()
    try:
        return [_ranked(network, tokenizer, canary) for canary in canaries]
    finally:
        network.train(was_training)


def _ranked(network: nn.Module, tokenizer: Tokenizer, canary: Canary) -> Ranked:
    ids, start = _continued(tokenizer, canary.prefix, canary.code)
    context, code_ids = [tokenizer.bos, *ids[:start]], ids[start:]
    device = next(network.parameters()).device
    logits = network(input_ids=torch.tensor([context + code_ids], device=device)).logits[0, len(context) - 1 : -1]
    chosen = torch.tensor(code_ids, device=device)
    likelihood = float(logits.double().log_softmax(dim=-1).gather(1, chosen[:, None]).sum())
    is_printed = bool((logits.argmax(dim=-1) == chosen).all()) and bool(logits.isfinite().all())  # by greedy decoding
    n_codes, digits = 10 ** len(canary.code), _digits(tokenizer, canary)
    if digits is not None and len(canary.code) <= MOST_DIGITS:
        likelihoods, place = _all_codes(network, context, digits, len(canary.code)), int(canary.code)
        # Fails for networks whose cache does not hold all that a token leaves behind (recurrent layers).
        if not abs(likelihoods[place] - likelihood) > _ROUNDING:
            return ranked(float(likelihoods[place]), np.delete(likelihoods, place), n_codes, canary.repetitions, is_printed)
    rows = [[tokenizer.bos, *_continued(tokenizer, canary.prefix, code)[0]] for code in _references(canary)]
    return ranked(likelihood, _of_rows(network, rows, len(context)), n_codes, canary.repetitions, is_printed)


def _continued(tokenizer: Tokenizer, prefix: str, code: str) -> tuple[list[int], int]:
    """Tokens of a prefix followed by a code, and the index of the first token that reaches into the code."""
    ids, offsets = tokenizer.encode(prefix + code)
    return ids, next(place for place, (_, end) in enumerate(offsets) if end > len(prefix))


def _digits(tokenizer: Tokenizer, canary: Canary) -> list[int] | None:
    """The tokens of 0 to 9 after this prefix; None unless every digit of every code is one token."""
    digits: list[int] = []
    for repeated in (digit * len(canary.code) for digit in "0123456789"):
        ids, start = _continued(tokenizer, canary.prefix, repeated)
        _, offsets = tokenizer.encode(canary.prefix + repeated)
        if len(ids) - start != len(repeated) or len(set(ids[start:])) != 1 or offsets[start][0] < len(canary.prefix):
            return None
        digits.append(ids[start])
    return digits


def _references(canary: Canary) -> list[str]:
    """Random codes of the canary's length other than its own; the public prefix seeds the draw."""
    generator = np.random.default_rng(list(canary.prefix.encode("utf-8", "surrogatepass")))
    n_codes, references = 10 ** len(canary.code), {canary.code: None}
    while len(references) <= min(N_REFERENCES, n_codes - 1):
        references[f"{int(generator.integers(n_codes)):0{len(canary.code)}d}"] = None
    return list(references)[1:]


def _all_codes(network: nn.Module, context: list[int], digits: list[int], length: int) -> NDArray[np.float64]:
    """Log-likelihoods [10^length] of all codes after a context, in counting order; shared prefixes are read once."""
    device = next(network.parameters()).device
    tokens = torch.tensor(digits, device=device)
    output = network(input_ids=torch.tensor([context], device=device), use_cache=True)
    return _branches(network, output.past_key_values, output.logits[:, -1], torch.zeros(1, device=device), tokens, length)


def _branches(
    network: nn.Module, cache: Cache, logits: Tensor, so_far: Tensor, digits: Tensor, n_digits: int
) -> NDArray[np.float64]:
    """Log-likelihoods of all continuations by `n_digits` digits of sequences [n], in counting order [n * 10^n_digits]."""
    steps = logits[..., digits].double() - logits.logsumexp(dim=-1, keepdim=True)
    likelihoods = (so_far.double()[:, None] + steps).flatten()
    if n_digits == 1:
        return likelihoods.cpu().numpy()
    parts = []
    for rows in torch.split(torch.arange(len(likelihoods), device=digits.device), _BRANCHES):
        branch = copy.deepcopy(cache)
        branch.batch_select_indices(rows // 10)
        logits = network(input_ids=digits[rows % 10][:, None], past_key_values=branch, use_cache=True).logits[:, -1]
        parts.append(_branches(network, branch, logits, likelihoods[rows], digits, n_digits - 1))
    return np.concatenate(parts)


def _of_rows(network: nn.Module, rows: list[list[int]], start: int) -> NDArray[np.float64]:
    """Log-likelihoods [n] of each row's tokens from index `start` on, given those before."""
    likelihoods, device = [], next(network.parameters()).device
    for first in range(0, len(rows), _LEAKS_ROWS):
        part = [torch.tensor(row, device=device) for row in rows[first : first + _LEAKS_ROWS]]
        ids = nn.utils.rnn.pad_sequence(part, batch_first=True)  # causal: padding at the end changes no earlier logits
        steps = network(input_ids=ids).logits[:, start - 1 : -1].double().log_softmax(dim=-1)
        chosen = steps.gather(2, ids[:, start:, None])[:, :, 0]
        lengths = torch.tensor([len(row) for row in part], device=device)
        inside = torch.arange(start, ids.shape[1], device=device)[None, :] < lengths[:, None]
        likelihoods.append(chosen.where(inside, 0).sum(dim=1).cpu().numpy())
    return np.concatenate(likelihoods)


_ROWS = 512  # texts times labels at once


@torch.no_grad()
def label_scores(
    net: Adapted, tokenizer: Tokenizer, inputs: NDArray[np.int32], labels: Sequence[int], classes: Sequence[str], name: str,
    rule: Literal["whole", "generate"] = "whole", *, device: str
) -> NDArray[np.float32]:
    """Scores of the labels of texts, [n, classes]; -inf outside `labels`.

    "whole": log-likelihood of every label's name after the prompt, with the end-of-text token, so that a name which is the
    beginning of another has no advantage. "generate": 0 at the label whose name greedy decoding writes after the prompt,
    -inf elsewhere; if it writes no label's name, the whole row is -inf, which counts as wrong.
    Args: inputs int32 [n, length, planes]; labels: the task's labels, as indices into `classes`; name: the task's.
    """
    scores = np.full((len(inputs), len(classes)), -np.inf, np.float32)
    if not len(labels):
        return scores
    answers = [answer_ids(tokenizer, classes[label]) for label in labels]
    prompts = prompted(tokenizer, inputs, None, classes, name)
    by_length = np.argsort((prompts.role != 0).sum(axis=1), kind="stable")
    at_once = max(1, _ROWS // len(labels)) if rule == "whole" else _ROWS
    for start in range(0, len(inputs), at_once):
        batch = batch_of(prompts, by_length[start : start + at_once], device)
        if rule == "whole":
            found = _answer_likelihoods(net, batch, answers).float().cpu().numpy()
        else:
            written = np.array(_greedy(net, batch, tokenizer, max(map(len, answers))))
            found = np.where(written[:, None] == [classes[label] for label in labels], 0, -np.inf)
        scores[np.ix_(batch.rows, np.asarray(labels))] = found
    return scores


@torch.no_grad()
def choice_scores(
    net: Adapted, tokenizer: Tokenizer, inputs: NDArray[np.int32], forks: Forks, classes: Sequence[str], name: str, *,
    device: str
) -> NDArray[np.float32]:
    """Log-likelihood of every label of the task among its labels, prior taken off, [n, classes]; -inf for other labels.

    Args: inputs int32 [n, length, planes]; forks: with the task; classes: names of all labels; name: the task's.
    """
    scores = np.full((len(inputs), len(classes)), -np.inf, np.float32)
    if not len(inputs):
        return scores
    at_forks: dict[int, NDArray[np.float32]] = {}
    for label, answer in forks.covering(name).items():
        texts = prompted(tokenizer, inputs, np.full(len(inputs), label), classes, name, {label: answer})
        by_length = np.argsort((texts.role != 0).sum(axis=1), kind="stable")
        for start in range(0, len(inputs), AT_ONCE):
            batch = batch_of(texts, by_length[start : start + AT_ONCE], device)
            columns = answer_columns(batch)[:, -len(answer[0]) :]  # a prompt has at least two tokens
            passed = batch.fork.gather(1, columns)
            found = forks.log_probs(logits_at(net, batch, columns - 1, forks=forks), passed).float().cpu().numpy()
            for place in np.flatnonzero(answer[1]):
                of_fork = at_forks.setdefault(answer[1][place], np.zeros((len(inputs), found.shape[2]), np.float32))
                of_fork[batch.rows] = found[:, place]
    for label, likelihood in forks.scores(name, at_forks).items():
        scores[:, label] = likelihood
    return scores


def add_forks(
    forks: Forks, net: Adapted, tokenizer: Tokenizer, labels: Iterable[int], classes: Sequence[str], name: str, loss: str,
    inputs: NDArray[np.int32], device: str,
) -> None:  # fmt: skip
    """Makes the labels of a task a choice; its prior comes from these public texts."""
    forks.add(name, {label: answer_ids(tokenizer, classes[label]) for label in labels})
    answers = forks.answers(name) if loss == "answer" else None
    asked = (np.full(len(inputs), label) for label in forks.covering(name))
    set_priors(net, [prompted(tokenizer, inputs, of, classes, name, answers) for of in asked], forks, device)


@torch.no_grad()
def set_priors(net: Adapted, passing: Sequence[Prompted], forks: Forks, device: str) -> None:
    """Sets the prior of all forks passed: the frozen model's mean log-probabilities there, after public texts.

    Args: passing: public texts with the task's prompt and an answer, one entry for each of some answers.
    """
    found: dict[int, list[NDArray[np.float64]]] = {}
    for texts in passing:
        for batch in batches_of(texts, device):
            columns = answer_columns(batch)
            passed = batch.fork.gather(1, columns)
            logits = logits_at(net, batch, columns - 1, forks=forks, public=True)
            log_probs = forks.log_probs(logits, passed).double().cpu().numpy()
            for fork in np.unique(passed[passed > 0].cpu().numpy()).tolist():
                found.setdefault(fork, []).extend(log_probs[(passed == fork).cpu().numpy()])
    for fork, of_texts in found.items():
        mean = np.mean(of_texts, axis=0)
        forks.set_prior(fork, mean[np.isfinite(mean)])


def _answer_likelihoods(net: Adapted, batch: Batch, answers: Sequence[Sequence[int]]) -> Tensor:
    """Log-likelihoods [b, answers] of each answer after each prompt."""
    device, n = batch.ids.device, len(answers)
    first, cache = _read(net, batch)
    likelihoods = first[:, torch.tensor([answer[0] for answer in answers], device=device)]
    rest = max(map(len, answers)) - 1
    if rest == 0:
        return likelihoods
    cache.batch_repeat_interleave(n)
    tokens = pad_sequence([torch.tensor(answer) for answer in answers], batch_first=True).to(device)
    is_answer = pad_sequence([torch.ones(len(answer) - 1) for answer in answers], batch_first=True).to(device)
    positions = batch.mask.sum(dim=1).repeat_interleave(n)[:, None] + torch.arange(rest, device=device)
    seen = torch.cat([batch.mask.repeat_interleave(n, dim=0), torch.ones_like(positions, dtype=torch.bool)], dim=1)
    output = net.model(
        input_ids=tokens[:, :-1].repeat(len(batch), 1), attention_mask=seen, position_ids=positions, past_key_values=cache
    )
    steps = output.logits.log_softmax(dim=-1).view(len(batch), n, rest, -1)
    later = steps.gather(3, tokens[None, :, 1:, None].expand(len(batch), -1, -1, -1))[..., 0]
    return cast(Tensor, likelihoods + (later * is_answer).sum(dim=2))


def _greedy(net: Adapted, batch: Batch, tokenizer: Tokenizer, n_tokens: int) -> list[str]:
    """Greedy decoding after each prompt, up to the end-of-text token or `n_tokens` tokens, stripped of blanks."""
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
    columns, places = torch.unique(batch.mask.sum(dim=1) - 1, return_inverse=True)
    output = net.model(input_ids=batch.ids, use_cache=True, logits_to_keep=columns)
    logits = output.logits if output.logits.shape[1] == len(columns) else output.logits[:, columns]
    return logits[torch.arange(len(batch)), places].log_softmax(dim=-1), output.past_key_values
