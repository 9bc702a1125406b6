"""Training loops for a language model's low-rank adapters, with DP-SGD or without privacy.

Built from parts that other methods combine differently: `gradients.Gradients` sums a batch's clipped gradients,
`noisy_means` makes a sum private, `Descent` takes steps. `private_steps` and `plain_steps` are the two standard loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import causal
from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.kept_states import SIDE_BY_SIDE
from dpcl_core.data.texts import PADDING
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.language.gradients import Batch, Gradients, Reading, TextLoss, batch_of, clean
from dpcl_core.methods.language.params import Loss, UnlearningForm
from dpcl_core.methods.language.public_text import ANSWER, FIRST, TEXT, Answer, Prompted
from dpcl_core.privacy.noise import Batches, Noise

Penalty = Callable[[], Tensor]  # a function of the parameters alone; its gradient is added to a step after the noise
Change = Callable[[list[Tensor]], list[Tensor]]  # maps a step's mean gradients to those it takes


class Descent:
    """AdamW with cosine decay: at step t = 0, 1, ... of T the rate is plan.learning_rate (1 + cos(pi t / T)) / 2."""

    def __init__(self, parameters: Sequence[nn.Parameter], plan: Schedule) -> None:
        self._parameters, self._plan, self._step = list(parameters), plan, 0
        self._adam = torch.optim.AdamW(self._parameters, lr=plan.learning_rate)

    def step(self, means: Sequence[Tensor], penalty: Penalty | None = None) -> None:
        """One step along mean gradients that already have their noise. Adds the penalty's gradient to them.

        Raises Diverged if a weight is not finite or exceeds `LARGEST_WEIGHT`.
        """
        for parameter, mean in zip(self._parameters, means, strict=True):
            parameter.grad = mean
        if penalty is not None:
            value = penalty()
            if value.requires_grad:  # a constant during the first task
                more: Sequence[Tensor | None] = torch.autograd.grad(value, self._parameters, allow_unused=True)
                for parameter, part in zip(self._parameters, more, strict=True):
                    if part is not None:
                        parameter.grad = part if parameter.grad is None else parameter.grad + part
        for group in self._adam.param_groups:
            group["lr"] = self._plan.learning_rate * (1 + math.cos(math.pi * self._step / self._plan.n_steps)) / 2
        self._adam.step()
        if not torch.stack([(parameter.abs() <= LARGEST_WEIGHT).all() for parameter in self._parameters]).all():
            raise diverged(self._step, self._plan)
        self._step += 1


def private_steps(
    net: Adapted, texts: Prompted, plan: Schedule, noise_multiplier: float, batches: Batches, noise: Noise, loss: TextLoss,
    *, device: str, penalty: Penalty | None = None
) -> Iterator[int]:
    """DP-SGD: yields the number of steps taken so far. The caller must have written the training to the ledger.

    Each step sums the clipped gradients of a Poisson batch, adds noise and divides by the expected batch size; the
    penalty and the optimiser come after and read no text. An empty batch takes the same noisy step. A noise multiplier of
    0 trains without noise and without clipping. Raises Diverged.
    """
    gradients = Gradients(net, plan.clip_norm if noise_multiplier > 0 else math.inf)
    descent, std = Descent(gradients.parameters, plan), plan.noise_std(noise_multiplier)
    for step in range(plan.n_steps):
        sums = gradients.of(batch_of(texts, batches.draw(len(texts)), device), loss)
        means = noisy_means(sums, plan.expected_batch, std, noise, dtype=gradients.parameters[0].dtype)
        descent.step(means, penalty)
        yield step + 1


def plain_steps(
    net: Adapted, texts: Prompted, plan: Schedule, batch_size: int, order: np.random.Generator, loss: TextLoss, *,
    device: str, reading: Reading = clean, penalty: Penalty | None = None, change: Change | None = None
) -> Iterator[int]:
    """Training on shuffled passes without clipping or noise: yields the number of steps taken so far.

    The last batch of a pass may be smaller. Without texts there are no steps. Raises Diverged.
    """
    gradients = Gradients(net, math.inf)
    descent = Descent(gradients.parameters, plan)
    step = epoch = 0
    while len(texts) and step < plan.n_steps:
        shuffled = order.permutation(len(texts))
        for start in range(0, len(shuffled), batch_size):
            rows = shuffled[start : start + batch_size]
            sums = gradients.of(batch_of(texts, rows, device), loss, reading, epoch)
            means = [part / len(rows) for part in sums]
            descent.step(means if change is None else change(means), penalty)
            step += 1
            yield step
            if step == plan.n_steps:
                return
        epoch += 1


def gather_batch(table: Tensor, batch: Batch) -> Tensor:
    """The batch's rows [b, S, ...] of per-token values [n, length, ...]; 0 outside the texts."""
    values = table[torch.from_numpy(batch.rows).to(table.device), : batch.ids.shape[1] - FIRST]
    missing, inner = batch.ids.shape[1] - FIRST - values.shape[1], values.dim() - 2
    values, is_text = functional.pad(values, [*[0, 0] * inner, FIRST, missing]), batch.role == TEXT
    return values * is_text.view(*is_text.shape, *[1] * inner)


def replace_text_embeddings(embeddings: Tensor, stored: Tensor, batch: Batch) -> Tensor:
    """Embeddings [b, S, d] in which the texts' tokens take theirs from `stored` [n, length, d]; prompts keep their own."""
    return torch.where((batch.role == TEXT)[..., None], gather_batch(stored, batch).to(embeddings.dtype), embeddings)


def embedding_table(net: causal.Adapted) -> NDArray[np.float32]:
    """The network's input embedding of each token [size, d]: a public table."""
    layer = net.model.get_input_embeddings()  # type: ignore[operator]  # a module's attributes have no types
    size, device = len(layer.weight), layer.weight.device
    with torch.no_grad():
        table: NDArray[np.float32] = net.embed(torch.arange(size, device=device)).float().cpu().numpy()
    return table


# Labels as choices, per-text losses, and PeCL's unlearning term for sensitive tokens: as printed and in bounded forms.


_LEARNING: tuple[UnlearningForm, ...] = ("none", "printed", "flipped")  # forms that keep sensitive tokens in the task loss


@dataclass(frozen=True, slots=True)
class Unlearning:
    """PeCL's unlearning term for tokens with a score above `theta` (Eq. 12), weighted by `strength` (Eq. 13).

    none; printed: Eq. 12, which learns these tokens harder; flipped: the opposite sign, unbounded. The other forms also drop
    sensitive tokens from the task loss. mask: no further term. unlikelihood: -log(1 - p). npo (Zhang et al. 2024, per
    token): (2/beta) log(1 + (p/p_ref)^beta). hinge: unlearns a token until it is `margin` nats less likely than under the
    public model.
    """

    form: UnlearningForm = "none"
    strength: float = 1.0
    theta: float = 0.6
    margin: float = 1.0
    beta: float = 0.5


def n_predicted(batch: Batch) -> Tensor:
    """M of every text [b]: all its tokens, template and answer included, except the first of the sequence."""
    return batch.mask[:, 1:].sum(dim=1)


def task_weights(batch: Batch, loss: Loss, forks: Forks | None = None) -> Tensor:
    """Weight of each token in the task loss [b, S]; a text's weights sum to 1, or to 0 if it has nothing to learn.

    answer: equal weights on the answer's tokens. With `forks` each of them counts once: their sum is the log-likelihood of
    the label. full: 1/M on each token except the first of the sequence (Eq. 13).
    """
    if loss == "answer" and forks is not None:
        return (batch.role == ANSWER).float()
    counted = (batch.role == ANSWER) if loss == "answer" else functional.pad(batch.mask[:, 1:], (1, 0))
    return counted / counted.sum(dim=1, keepdim=True).clamp(min=1)


def task_loss(loss: Loss, forks: Forks | None = None) -> TextLoss:
    """The task loss without an unlearning term. `forks`: the answer is a choice among the task's labels."""
    forks = forks if loss == "answer" else None

    def of(log_probs: Tensor, batch: Batch) -> Tensor:
        return -(task_weights(batch, loss, forks) * log_probs).sum(dim=1)

    return TextLoss(of, loss == "answer", forks)


def pecl_loss(
    log_probs: Tensor, batch: Batch, loss: Loss, unlearning: Unlearning, scores: Tensor, reference: Tensor | None = None,
    forks: Forks | None = None
) -> Tensor:
    """L_task + lambda L_unlearn of each text [b] (Eqs. 12 and 13). Scores are constants: no gradient flows through them.

    With `printed`, a token of the text has weight (1 + lambda (s - theta)+) / M under "full", without the 1 under "answer".

    Args: log_probs [b, S]: of each token given those before it; scores [b, S]; reference [b, S]: log-probabilities under
    the frozen public model, required by npo and hinge.
    """
    weights = task_weights(batch, loss, forks)
    excess = (scores.detach().to(log_probs.dtype) - unlearning.theta).clamp(min=0) * (batch.role == TEXT)
    if unlearning.form not in _LEARNING:
        weights = weights * (excess == 0)
    task_losses = -(weights * log_probs).sum(dim=1)
    term = _term(log_probs, unlearning, reference)
    if term is None:
        return task_losses
    return task_losses + unlearning.strength * (excess * term).sum(dim=1) / n_predicted(batch).clamp(min=1)


def _term(log_probs: Tensor, unlearning: Unlearning, reference: Tensor | None) -> Tensor | None:
    """The unlearning term of each token before weighting [b, S]; None if the form adds none."""
    match unlearning.form:
        case "none" | "mask":
            return None
        case "printed":
            return -log_probs
        case "flipped":
            return log_probs
        case "unlikelihood":
            # -log(1 - p); at p = 1 the gradient would be infinite
            return -torch.log1p(-log_probs.exp().clamp(max=1 - 1e-6))
        case "npo":
            assert reference is not None
            return (2 / unlearning.beta) * functional.softplus(unlearning.beta * (log_probs - reference))
        case "hinge":
            assert reference is not None
            return (log_probs - reference + unlearning.margin).clamp(min=0)  # l_ref + m - l, where l = -log p


# Token log-probabilities under a torch causal LM, without prompt or noise.
#
# The scores of a private text enter what it adds to a clipped sum, so they must not depend on the other texts, not even in
# the last digit (see `gradients`): all passes have the same shape, the last one filled up.


_LOGITS = 60_000_000  # at most in one pass: a quarter of a gigabyte


def log_probabilities(
    model: nn.Module, tokens: NDArray[np.integer], bos: int, device: str, *, is_filled: bool = True
) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under a causal model, in nats; 0 at padding.

    `is_filled`: fills the last pass up. Needless, and slow for a single text, where all texts are public.
    """
    size = len(model.get_input_embeddings().weight)  # type: ignore[operator]  # a module's attributes have no types
    return _log_probabilities(
        lambda ids: model(input_ids=ids, use_cache=False).logits, size, tokens, bos, device, is_filled=is_filled
    )


def of_adapted(net: Adapted, tokens: NDArray[np.integer], bos: int, device: str) -> NDArray[np.float32]:
    """The same under an adapted model, from kept states where there are blocks below its adapters."""
    if not net.split.cut:
        return log_probabilities(net.model, tokens, bos, device)

    def logits(ids: Tensor) -> Tensor:
        states = net.states(ids, torch.ones_like(ids, dtype=torch.bool))
        return net.split.above(states, torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1))

    size = len(net.model.get_input_embeddings().weight)  # type: ignore[operator]
    return _log_probabilities(logits, size, tokens, bos, device)


@torch.no_grad()
def _log_probabilities(
    logits_of: Callable[[Tensor], Tensor], size: int, tokens: NDArray[np.integer], bos: int, device: str,
    *, is_filled: bool = True,
) -> NDArray[np.float32]:  # fmt: skip
    log_probs = np.zeros(tokens.shape, np.float32)
    side_by_side = SIDE_BY_SIDE[torch.device(device).type]
    at_once = min(side_by_side, max(1, _LOGITS // (size * max(1, tokens.shape[1]))))
    for start in range(0, len(tokens), at_once):
        rows = tokens[start : start + at_once].astype(np.int64)
        n_rows = len(rows)
        if is_filled:
            rows = np.concatenate([rows, np.repeat(rows[-1:], at_once - n_rows, axis=0)])
        part = torch.from_numpy(rows).to(device)
        ids = functional.pad(part.clamp(min=0), (1, 0), value=bos)
        logits = logits_of(ids[:, :-1])
        steps = -functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        log_probs[start : start + at_once] = (steps.view(part.shape) * (part != PADDING))[:n_rows].cpu().numpy()
    return log_probs


# A label as a choice: its likelihood among the names of a task's labels, with the prior of each name taken off.


class Forks:
    """The forks of all tasks so far. Fork 0 stands for a token without alternative."""

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
        return {label: _to_last_fork(answer) for label, answer in self._answers[name].items()}

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


def _to_last_fork(answer: Answer) -> Answer:
    tokens, forks = answer
    end = max((1 + place for place, fork in enumerate(forks) if fork), default=0)
    return tokens[:end], forks[:end]
