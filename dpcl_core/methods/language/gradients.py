"""Gradients of a language model's low-rank adapters, text by text, clipped and summed.

LoRA's two factors are plain linear maps. For one text the gradient of such a map is deltaᵀ X: a row of X is the map's input
at one token, a row of delta the loss's gradient with respect to its output there. One forward and one backward pass give
both for all texts of a batch. The rank is small, so forming each text's gradient is cheaper than any other way to its norm.
tests/benchmarks/test_language.py compares it with Opacus' hooks, its ghost clipping and functorch.

What a text adds to a clipped sum must not depend on the other texts: where logits are large, a last digit decides which
token wins, and one more text could change the gradients of others. Kernels choose the order of their additions by the shapes
that they multiply. So texts are computed in pieces whose shape depends on each text alone: padded to a whole number of
`STEP` tokens and `ANSWER_STEP` answer tokens, grouped with texts of the same shape, `SIDE_BY_SIDE` at a time, the last piece
filled up; `backbones.kept_states` does so below the first adapted block. That a kernel gives the same bits at every position
of such a piece is a property of the kernel; tests/methods/common/test_per_example_gradients.py checks it on the kernels at
hand. Contributions are summed in double precision. Where memory does not suffice, texts of this shape alone come in
smaller pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from dpcl_core.backbones.adaptable import halved
from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.gpu import at_least_single, at_once, room
from dpcl_core.backbones.kept_states import SIDE_BY_SIDE, STEP
from dpcl_core.methods.common.per_example_gradients import clip_weights, hooked
from dpcl_core.methods.language.public_text import ANSWER, PAD, Answer, Prompted

if TYPE_CHECKING:
    from transformers import PreTrainedModel


AT_ONCE = 64  # texts per pass where no per-text gradients are needed: a public number
_LOGITS = {"cpu": 1, "cuda": 8}  # texts whose logits are computed at once
ANSWER_STEP = 4  # lengths of answers without forks are rounded up to multiples of this, in tokens


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts of one step, on the device. `rows` int64 [b]: their indices in the task; the other fields as in `Prompted`."""

    rows: NDArray[np.int64]
    ids: Tensor
    role: Tensor
    stop: Tensor
    fork: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def planes(self) -> tuple[Tensor, ...]:
        """All four tensors."""
        return self.ids, self.role, self.stop, self.fork

    @property
    def mask(self) -> Tensor:
        """bool [b, S]: not padding."""
        return self.role != PAD

    def take(self, places: Tensor) -> Batch:
        """The texts at these indices, int64 [k]."""
        return Batch(self.rows[places.cpu().numpy()], *(plane[places] for plane in self.planes))

    def between(self, start: int, end: int) -> Batch:
        """The texts from one place to before another."""
        return Batch(self.rows[start:end], *(plane[start:end] for plane in self.planes))

    def padded(self, width: int) -> Batch:
        """The same texts in `width` columns; no text may be longer."""
        missing = max(0, width - self.ids.shape[1])
        return Batch(self.rows, *(functional.pad(plane[:, :width], (0, missing)) for plane in self.planes))

    def filled(self, size: int) -> Batch:
        """`size` texts: these, then the last one again and again."""
        return self.take(torch.arange(size, device=self.ids.device).clamp(max=len(self) - 1))


class Forks:
    """A label as a choice: its likelihood among the names of a task's labels, with the prior of each name taken off.

    The names of a task's labels form a tree of tokens. Where several tokens can follow, at a fork, the model's probabilities
    are restricted to these tokens, and divided by what they are on public texts that the frozen model reads with the same
    question (normalised again): contextual calibration (Zhao et al. 2021), with public texts in place of an empty one. The
    likelihood of a label is the product over the forks on the way to it; tokens that are the only ones to follow count
    nothing. The prior is a constant made of public texts and a public network: it reads no text of the task, and no test
    text. Holds the forks of all tasks so far; fork 0 stands for a token without alternative.
    """

    KEPT = ("_following", "_prior", "_answers")

    def __init__(self) -> None:
        self._following: list[list[int]] = [[]]
        self._prior: list[NDArray[np.float64]] = [np.zeros(0)]
        self._answers: dict[str, Mapping[int, Answer]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._answers

    def add(self, name: str, names: Mapping[int, Sequence[int]]) -> None:
        """Adds a task. Args: names: tokens of each label's name, none of which is the beginning of another."""
        following: dict[tuple[int, ...], set[int]] = {}
        for tokens in names.values():
            for place, token in enumerate(tokens):
                following.setdefault(tuple(tokens[:place]), set()).add(token)
        numbers: dict[tuple[int, ...], int] = {}
        for path, tokens_after in following.items():
            if len(tokens_after) > 1:
                numbers[path] = len(self._following)
                self._following.append(sorted(tokens_after))
                self._prior.append(np.zeros(len(tokens_after)))
        self._answers[name] = {
            label: (list(tokens), [numbers.get(tuple(tokens[:place]), 0) for place in range(len(tokens))])
            for label, tokens in names.items()
        }

    def set_prior(self, fork: int, log_probs: NDArray[np.float64]) -> None:
        """What is taken off the log-probabilities [tokens] at this fork."""
        self._prior[fork] = log_probs

    def answers(self, name: str) -> Mapping[int, Answer]:
        """Tokens and forks of each label's name in this task, up to the last fork: what follows it is certain."""
        found: dict[int, Answer] = {}
        for label, (tokens, forks) in self._answers[name].items():
            end = max((1 + place for place, fork in enumerate(forks) if fork), default=0)
            found[label] = tokens[:end], forks[:end]
        return found

    def covering(self, name: str) -> Mapping[int, Answer]:
        """A few labels' answers that pass through all forks of the task."""
        covered: set[int] = set()
        chosen: dict[int, Answer] = {}
        for label, answer in sorted(self.answers(name).items(), key=lambda one: -sum(map(bool, one[1][1]))):
            if passed := set(answer[1]) - covered - {0}:
                chosen[label], covered = answer, covered | passed
        return chosen

    def tokens(self, device: torch.device) -> Tensor:
        """All tokens that can follow at some fork, int64 [v], in order; token 0 where there is no fork."""
        return torch.tensor(sorted({token for following in self._following for token in following}) or [0], device=device)

    def tables(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Tokens int64 [forks, m] that can follow at each fork, -1 where there are fewer; their prior [forks, m]."""
        width = max(1, *map(len, self._following))
        tokens, prior = np.full((len(self._following), width), -1, np.int64), np.zeros((len(self._following), width))
        for fork, following in enumerate(self._following):
            tokens[fork, : len(following)], prior[fork, : len(following)] = following, self._prior[fork]
        return torch.from_numpy(tokens).to(device), torch.from_numpy(prior).to(device)

    def log_probs(self, logits: Tensor, forks: Tensor) -> Tensor:
        """Log-probabilities [..., m] of the tokens that can follow at these forks [...]; logits [..., v] of `tokens`.

        -inf where there are fewer than m; meaningless at fork 0.
        """
        tokens, prior = self.tables(logits.device)
        following = tokens[forks]
        places = torch.searchsorted(self.tokens(logits.device), following).clamp(max=logits.shape[-1] - 1)
        chosen = logits.gather(-1, places) - prior[forks].to(logits.dtype)
        is_none = following < 0
        is_none[..., 0] &= forks != 0  # something to normalise at fork 0
        return chosen.masked_fill(is_none, -torch.inf).log_softmax(dim=-1)

    def of_tokens(self, logits: Tensor, forks: Tensor, ids: Tensor) -> Tensor:
        """Log-probabilities [...] of the tokens int64 [...] at these forks; 0 at fork 0. Logits [..., v] of `tokens`."""
        tokens, _ = self.tables(logits.device)
        places = (tokens[forks] == ids[..., None]).long().argmax(dim=-1)
        found: Tensor = self.log_probs(logits, forks).gather(-1, places[..., None])[..., 0]
        return found.where(forks != 0, 0)

    def scores(self, name: str, at_forks: Mapping[int, NDArray[np.floating]]) -> dict[int, NDArray[np.float64]]:
        """Log-likelihood [n] of each label. Args: at_forks: log-probabilities [n, m] at each fork of the task."""
        scores: dict[int, NDArray[np.float64]] = {}
        for label, (tokens, forks) in self.answers(name).items():
            steps = [
                at_forks[fork][:, self._following[fork].index(token)]
                for token, fork in zip(tokens, forks, strict=True)
                if fork
            ]
            scores[label] = np.sum(np.asarray(steps, np.float64), axis=0)
        return scores


@dataclass(frozen=True, slots=True)
class TextLoss:
    """A per-text loss: maps log-probabilities of a batch's tokens [b, S] and the batch to losses [b].

    `answers_only`: it uses the answer tokens only, so the other log-probabilities need not be computed. `forks`: an answer's
    tokens count as choices among those that could follow; None: among all tokens.
    """

    of: Callable[[Tensor, Batch], Tensor]
    answers_only: bool = False
    forks: Forks | None = None


Shape = tuple[int, int]  # tokens of a text and of its answer, rounded up
Reading = Callable[[Tensor, Batch, int], Tensor]  # embeddings [b, S, d], batch, epoch -> embeddings to read


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A reading that is the same in every epoch, as of noisy copies: the states under it are kept in memory, too."""

    of: Reading
    kept: dict[tuple[int, bytes], Tensor] = field(default_factory=dict)

    def __call__(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        return self.of(embeddings, batch, epoch)

    def states(self, net: Adapted, batch: Batch) -> Tensor:
        """Half-precision states [b, S, width] before the first adapted block."""
        lengths = batch.mask.sum(dim=1).tolist()
        ids = batch.ids.cpu().numpy()
        keys = [(int(row), ids[place, : lengths[place]].tobytes()) for place, row in enumerate(batch.rows)]
        missing = [place for place, key in enumerate(keys) if key not in self.kept]
        if missing:
            some = batch.take(torch.tensor(missing, device=batch.ids.device))
            fresh = net.split.below(self.of(net.embed(some.ids), some, 0)).half()
            for place, states in zip(missing, fresh, strict=True):
                self.kept[keys[place]] = states[: lengths[place]].clone()
        width = batch.ids.shape[1]
        return torch.stack([functional.pad(self.kept[key], (0, 0, 0, width - len(self.kept[key]))) for key in keys])


def clean(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
    """The embeddings unchanged, without noise."""
    return embeddings


def batch_of(texts: Prompted, rows: NDArray[np.int64], device: str) -> Batch:
    """The texts of these rows, padded to the longest of them."""
    used = int((texts.role[rows] != PAD).sum(axis=1).max(initial=1))
    return Batch(rows, *(torch.from_numpy(plane[rows, :used]).to(device) for plane in texts.planes))


def batches_of(texts: Prompted, device: str) -> Iterator[Batch]:
    """All texts, in batches of at most `AT_ONCE`."""
    for start in range(0, len(texts), AT_ONCE):
        yield batch_of(texts, np.arange(start, min(start + AT_ONCE, len(texts))), device)


def log_probs(
    net: Adapted, batch: Batch, reading: Reading = clean, epoch: int = 0, *, answers_only: bool = False,
    forks: Forks | None = None
) -> Tensor:
    """log P(token | tokens before it) [b, S]; 0 in the first column and at padding; with `answers_only`, 0 off the answers.

    With `forks` an answer's tokens have their log-probability at their fork, 0 where they are without alternative.
    Differentiable where gradients are enabled. Internal shapes depend on [b, S] and `_n_answered` only.
    """
    if not answers_only:
        values = functional.pad(_of_tokens(net, batch, None, batch.ids[:, 1:], reading, epoch), (1, 0))
        if forks is not None:
            columns = torch.arange(-1, batch.ids.shape[1] - 1, device=values.device).clamp(min=0).expand(len(batch), -1)
            of_forks = forks.of_tokens(logits_at(net, batch, columns, reading, epoch, forks=forks), batch.fork, batch.ids)
            values = torch.where(batch.role == ANSWER, of_forks, values)
        return values.where(batch.mask, 0)
    columns = answer_columns(batch)
    is_there, columns = columns >= 1, columns.clamp(min=1)
    is_answer, tokens = is_there & (batch.role == ANSWER).gather(1, columns), batch.ids.gather(1, columns)
    if forks is not None:
        logits = logits_at(net, batch, columns - 1, reading, epoch, forks=forks)
        values = forks.of_tokens(logits, batch.fork.gather(1, columns), tokens)
    else:
        values = _of_tokens(net, batch, columns - 1, tokens, reading, epoch)
    kept = values.where(is_answer, 0)
    return torch.zeros(batch.ids.shape, dtype=kept.dtype, device=kept.device).scatter_add(1, columns, kept)


def _of_tokens(net: Adapted, batch: Batch, columns: Tensor | None, tokens: Tensor, reading: Reading, epoch: int) -> Tensor:
    """The log-probability [b, k] of these tokens int64 [b, k] after these columns, int64 [b, k]; None: after the first k."""
    states, head = states_of(net, batch, reading, epoch), net.split.plain_head
    below = net.split.above(states, columns, is_below_head=head is not None)[:, : tokens.shape[1]]
    if head is not None:
        return cast(Tensor, _OfTokens.apply(below, head, tokens))  # type: ignore[no-untyped-call]
    return below.log_softmax(dim=2).gather(2, tokens[..., None])[..., 0]


class _OfTokens(torch.autograd.Function):
    """The log-probability [b, k] of each token int64 [b, k] after states [b, k, d], by the last layer's weights [v, d].

    With p the softmax of W x, the gradient of log p_t with respect to x is W_t - Wᵀ p. It is computed with p, text by text
    (a card takes a few at once), so the table of b times k times v numbers, whose reading and writing takes a third of a
    step, is never whole, and these products have the same shape whatever stands beside a text.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, weights: Tensor, tokens: Tensor) -> Tensor:
        values, slopes, n_texts = [], [], _LOGITS[states.device.type]
        for rows, token in zip(torch.split(states.detach(), n_texts), torch.split(tokens, n_texts), strict=True):
            logits = (rows.flatten(0, 1) @ weights.T).to(at_least_single(rows.dtype))
            value, top = logits.gather(1, token.reshape(-1, 1)), logits.amax(dim=1, keepdim=True)
            odds = logits.sub_(top).exp_()
            total = odds.sum(dim=1, keepdim=True)
            values.append((value - top - total.log()).view(token.shape))
            if ctx.needs_input_grad[0]:
                mean = odds.to(weights.dtype) @ weights / total
                slopes.append((weights[token.flatten()] - mean).to(rows.dtype).view_as(rows))
        if slopes:
            ctx.save_for_backward(torch.cat(slopes))
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return slopes * gradient[..., None].to(slopes.dtype), None, None


def answer_columns(batch: Batch) -> Tensor:
    """The last columns [b, k] of each text, among them all of its answer; below 1 where a text has fewer."""
    most = int(_n_answered(batch).max()) if len(batch) else 0
    return batch.mask.sum(dim=1, keepdim=True) + torch.arange(-most, 0, device=batch.ids.device)


def _n_answered(batch: Batch) -> Tensor:
    """Length of each answer in tokens [b]; rounded up to a multiple of `ANSWER_STEP` where it has no forks."""
    answers = (batch.role == ANSWER).sum(dim=1)
    return torch.where(batch.fork.any(dim=1), answers, (answers + ANSWER_STEP - 1) // ANSWER_STEP * ANSWER_STEP)


def logits_at(
    net: Adapted, batch: Batch, columns: Tensor, reading: Reading = clean, epoch: int = 0, *, forks: Forks | None = None,
    public: bool = False
) -> Tensor:
    """Logits [b, k, size] of the tokens that follow these columns, int64 [b, k]; of `forks.tokens` alone, where given.

    `public`: of the frozen model.

    No mask is needed: padding is at the end, and a causal model does not look ahead.
    """
    tokens = None if forks is None else forks.tokens(columns.device)
    return (net.public if public else net.split).above(states_of(net, batch, reading, epoch), columns, tokens=tokens)


def states_of(net: Adapted, batch: Batch, reading: Reading, epoch: int) -> Tensor:
    """What the first adapted block reads [b, S, width]: from kept states, unless the embeddings are not the tokens' own."""
    if reading is clean:
        return net.states(batch.ids, batch.mask)
    if isinstance(reading, Fixed) and net.split.cut and len(batch):
        return reading.states(net, batch).to(net.embed(batch.ids[:, :1]).dtype)
    embeddings = reading(net.embed(batch.ids), batch, epoch)
    return net.split.below(embeddings).half().to(embeddings.dtype) if net.split.cut else embeddings


def _alike(batch: Batch) -> Iterator[tuple[Shape, Tensor]]:
    """The padded shapes in a batch, each with the indices of its texts, int64 [k]."""
    steps, answered = (batch.mask.sum(dim=1) + STEP - 1) // STEP, _n_answered(batch)
    for n_steps, n_answered in sorted(set(zip(steps.tolist(), answered.tolist(), strict=True))):
        yield (STEP * n_steps, n_answered), ((steps == n_steps) & (answered == n_answered)).nonzero()[:, 0]


def pieces_of(texts: Prompted, device: str) -> Iterator[Batch]:
    """All texts, in pieces of texts of one shape and of at most `SIDE_BY_SIDE`, to be `filled` up to that number."""
    everyone = batch_of(texts, np.arange(len(texts)), device)
    for (width, _), places in _alike(everyone):
        for some in torch.split(places, SIDE_BY_SIDE[everyone.ids.device.type]):
            yield everyone.take(some).padded(width)


class Gradients:
    """Sums of per-text gradients, each clipped to `clip_norm` in L2 over all adapter parameters together.

    clip_norm = inf: plain autograd sums without clipping. `parameters`: in the order of the sums. Every trained parameter
    must be the weight of a `Linear` without bias that is used once in a pass; raises TypeError otherwise.
    """

    def __init__(self, net: Adapted, clip_norm: float) -> None:
        self._net, self._clip_norm = net, clip_norm
        self.parameters: list[nn.Parameter] = list(net.trainable().values())
        of_weight = {id(layer.weight): layer for layer in net.modules() if isinstance(layer, nn.Linear)}
        if not all(id(parameter) in of_weight for parameter in self.parameters):
            raise TypeError("there is a rule for the per-text gradients of Linear layers' weights only")
        self._layers = [of_weight[id(parameter)] for parameter in self.parameters]
        self._room = room(str(self.parameters[0].device))
        self._sizes: dict[Shape, int] = {}  # texts in a piece

    def of(self, batch: Batch, loss: TextLoss, reading: Reading = clean, epoch: int = 0) -> list[Tensor]:
        """The sums, one tensor per parameter, in double precision where clipped; zeros for an empty batch.

        Adding a text changes all sums together by at most `clip_norm` in L2, replacing one by at most twice that. A text
        with a non-finite gradient counts zero.
        """
        if not math.isinf(self._clip_norm):
            return self._clipped(batch, loss, reading, epoch)
        sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        for places in torch.split(torch.arange(len(batch), device=batch.ids.device), AT_ONCE) if len(batch) else ():
            total = self._total(batch.take(places), loss, reading, epoch)
            for running, part in zip(sums, torch.autograd.grad(total, self.parameters), strict=True):
                running += part
        return sums

    def squares_of(self, batch: Batch, loss: TextLoss, reading: Reading = clean) -> list[Tensor]:
        """Sums of the entrywise squares of each text's clipped gradient, as in the Fisher information's diagonal.

        Adding a text changes all sums together by at most `clip_norm` squared in L2: for a gradient g with ||g|| <= C, the
        vector of g_i^2 has length (sum of g_i^4)^(1/2) <= max |g_i| ||g|| <= C^2.
        """
        return self._clipped(batch, loss, reading, 0, squared=True)

    def each(self, batch: Batch, loss: TextLoss) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Every text's clipped gradient, which `of` sums: yields indices [k] and gradients float64 [k, weights]."""
        for piece, weights, grads in self._pieces(batch, loss, clean, 0):
            yield piece.rows, (weights[:, None] * grads)[: len(piece)]

    def _clipped(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int, *, squared: bool = False) -> list[Tensor]:
        """Sums of each text's clipped gradient, or of its entrywise squares, in double precision."""
        sizes = [parameter.numel() for parameter in self.parameters]
        sums = torch.zeros(sum(sizes), dtype=torch.float64, device=self.parameters[0].device)
        for _, weights, grads in self._pieces(batch, loss, reading, epoch):
            sums += weights.square() @ grads.square() if squared else weights @ grads
        return [part.view_as(parameter) for part, parameter in zip(torch.split(sums, sizes), self.parameters, strict=True)]

    def _pieces(
        self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int
    ) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        """Pieces of texts of one shape, padded to `size` texts.

        Yields the piece, clipping weights [size] (0 for padding) and gradients [size, entries], all parameters' in a row.
        """
        for shape, places in _alike(batch):
            alike, start = batch.take(places).padded(shape[0]), 0
            while start < len(places):
                size = self._size(shape, loss)
                piece = alike.between(start, start + size)
                try:
                    grads = self._per_text(piece.filled(size), loss, reading, epoch)
                except (RuntimeError, MemoryError) as error:
                    self._sizes[shape] = halved(size, error, "the gradient of one text")
                    continue
                norms = grads.square().sum(1).sqrt()
                if not (finite := norms.isfinite()).all():  # squares of single precision are finite in double precision
                    norms, grads = norms.where(finite, 0), grads.where(finite[:, None], 0)
                is_first = torch.arange(size, device=places.device) < len(piece)  # the last text counts once
                yield piece, clip_weights(norms, self._clip_norm) * is_first, grads
                start += len(piece)

    def _size(self, shape: Shape, loss: TextLoss) -> int:
        """Texts in a piece of this shape: a function of the shape and the device, not of the texts that have it.

        By the estimated memory of a text: in every layer 34 + 5 a s / h numbers of two bytes for a token, with a heads, s
        tokens and width h (Korthikanti et al. 2022, Eq. 2); then the logits, their softmax and their gradient in single
        precision.
        """
        if shape not in self._sizes:
            config, (n_tokens, n_answered) = cast("PreTrainedModel", self._net.model).config, shape
            layer = n_tokens * config.hidden_size * (34 + 5 * config.num_attention_heads * n_tokens / config.hidden_size)
            of_width = next(self._net.model.parameters()).element_size() / 2
            n_predicted = n_answered if loss.answers_only else n_tokens
            bytes_each = float(of_width * config.num_hidden_layers * layer + 16 * n_predicted * config.vocab_size)
            bytes_each += 8 * sum(map(torch.numel, self.parameters))
            self._sizes[shape] = at_once(self._room, SIDE_BY_SIDE["cpu"], bytes_each, SIDE_BY_SIDE["cuda"])
        return self._sizes[shape]

    def _per_text(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int) -> Tensor:
        """Each text's gradient [b, entries], all parameters' in a row, in double precision."""
        with recorded(self._layers) as passed:
            total = self._total(batch, loss, reading, epoch)
        deltas = torch.autograd.grad(total, [passed[layer][1] for layer in self._layers])
        pairs = ((delta.transpose(1, 2), passed[layer][0]) for layer, delta in zip(self._layers, deltas, strict=True))
        return torch.cat([torch.bmm(*pair).flatten(1) for pair in pairs], dim=1).double()

    def _total(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int) -> Tensor:
        log_likelihoods = log_probs(self._net, batch, reading, epoch, answers_only=loss.answers_only, forks=loss.forks)
        return loss.of(log_likelihoods, batch).sum()


@contextmanager
def recorded(layers: Sequence[nn.Module]) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """Inputs and outputs of each layer in the forward pass made inside the context."""
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def note(layer: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        passed[layer] = (args[0].detach(), out)

    with hooked(layers, note):
        yield passed
