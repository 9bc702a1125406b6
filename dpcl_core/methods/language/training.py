"""Training loops for a language model's low-rank adapters, with DP-SGD or without privacy.

Built from parts that other methods combine differently: `gradients.Gradients` sums a batch's clipped gradients,
`noisy_means` makes a sum private, `Descent` takes steps. `private_steps` and `plain_steps` are the two standard loops.
"""

import math
from collections.abc import Callable, Iterator, Sequence
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
from dpcl_core.methods.language.gradients import (
    AT_ONCE,
    Batch,
    Forks,
    Gradients,
    Reading,
    TextLoss,
    batch_of,
    clean,
    recorded,
    states_of,
)
from dpcl_core.methods.language.params import Loss, UnlearningForm
from dpcl_core.methods.language.public_text import ANSWER, FIRST, TEXT, Prompted
from dpcl_core.methods.language.sensitivity import penalty_strength
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
        descent.step(noisy_means(sums, plan.expected_batch, std, noise, dtype=gradients.parameters[0].dtype), penalty)
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
    for step, (epoch, rows) in enumerate(shuffled_passes(len(texts), batch_size, plan.n_steps, order), start=1):
        means = [part / len(rows) for part in gradients.of(batch_of(texts, rows, device), loss, reading, epoch)]
        descent.step(means if change is None else change(means), penalty)
        yield step


def shuffled_passes(
    n: int, batch_size: int, n_steps: int, order: np.random.Generator
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each step's pass, from 0, and its indices of n texts; the last batch of a pass may be smaller. Without texts: none."""
    epoch, waiting = -1, np.zeros(0, np.int64)
    for _ in range(n_steps if n else 0):
        if not len(waiting):
            epoch, waiting = epoch + 1, order.permutation(n)
        yield epoch, waiting[:batch_size]
        waiting = waiting[batch_size:]


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
    device = next(net.model.parameters()).device
    with torch.no_grad():
        table: NDArray[np.float32] = net.embed(torch.arange(_size(net.model), device=device)).float().cpu().numpy()
    return table


# Per-text losses, and PeCL's unlearning term for sensitive tokens: as printed and in bounded forms.
#
# All means are taken within a text. A mean over the tokens of a batch would make one text's gradient depend on the lengths
# of the others, and no bound on one text's influence would hold.


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
    n_predicted = batch.mask[:, 1:].sum(dim=1)  # M: all tokens, template and answer included, except the first
    return task_losses + unlearning.strength * (excess * term).sum(dim=1) / n_predicted.clamp(min=1)


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


@torch.no_grad()
def log_probabilities(
    model: nn.Module, tokens: NDArray[np.integer], bos: int, device: str, *, is_filled: bool = True,
    logits_of: Callable[[Tensor], Tensor] | None = None,
) -> NDArray[np.float32]:  # fmt: skip
    """log P(t_i | tokens before it) of tokens [n, length] under a causal model, in nats; 0 at padding.

    `is_filled`: fills the last pass up. Needless, and slow for a single text, where all texts are public. `logits_of`: of
    tokens [n, length], where they come from elsewhere than a pass through the whole model.
    """
    size, log_probs = _size(model), np.zeros(tokens.shape, np.float32)
    at_once = min(SIDE_BY_SIDE[torch.device(device).type], max(1, _LOGITS // (size * max(1, tokens.shape[1]))))
    for start in range(0, len(tokens), at_once):
        rows = tokens[start : start + at_once].astype(np.int64)
        n_rows = len(rows)
        if is_filled:
            rows = np.concatenate([rows, np.repeat(rows[-1:], at_once - n_rows, axis=0)])
        part = torch.from_numpy(rows).to(device)
        ids = functional.pad(part.clamp(min=0), (1, 0), value=bos)
        logits = logits_of(ids[:, :-1]) if logits_of else model(input_ids=ids[:, :-1], use_cache=False).logits
        steps = -functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        log_probs[start : start + at_once] = (steps.view(part.shape) * (part != PADDING))[:n_rows].cpu().numpy()
    return log_probs


def _size(model: nn.Module) -> int:
    """The number of tokens that a model knows."""
    return len(model.get_input_embeddings().weight)  # type: ignore[operator]  # a module's attributes have no types


def of_adapted(net: Adapted, tokens: NDArray[np.integer], bos: int, device: str) -> NDArray[np.float32]:
    """The same under an adapted model, from kept states where there are blocks below its adapters."""
    if not net.split.cut:
        return log_probabilities(net.model, tokens, bos, device)

    def logits(ids: Tensor) -> Tensor:
        states = net.states(ids, torch.ones_like(ids, dtype=torch.bool))
        return net.split.above(states, torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1))

    return log_probabilities(net.model, tokens, bos, device, logits_of=logits)


# PeCL's memory penalty: adapters stay near their values after the last task, by importance (Zhan et al., Eqs. 7 to 11).
#
# Choices where the paper leaves one open: the penalty sums over adapters; ||x|| is the mean norm of a layer's input at one
# token, because a norm over all tokens would grow with the data; Omega-bar is a constant without gradient. As printed,
# Omega-bar includes the current task, whose Omega grows as the adapters change; otherwise it covers past tasks only, so the
# first task has no penalty.


class Memory:
    """Omega-bar of every adapter, and the products B A after the last task. Reads parameters only."""

    KEPT = ("_totals", "_n_tasks", "_strength", "_snapshots", "_current_norms")

    def __init__(self, net: Adapted, lowest: float, highest: float) -> None:
        self._net, self._lowest, self._highest = net, lowest, highest
        self._totals = torch.zeros(len(net.pairs()), dtype=torch.float64)
        self._n_tasks, self._strength = 0, 0.0
        self._snapshots = [product.detach().clone() for product in self._products()]
        self._current_norms: Tensor | None = None

    @property
    def omega_bar(self) -> tuple[float, ...]:
        """Current Omega-bar (Eq. 9) of each adapter; empty before any task counts."""
        if self._current_norms is None:
            return tuple((self._totals / self._n_tasks).tolist()) if self._n_tasks else ()
        omega = self._changes([product.detach() for product in self._products()]) * self._current_norms
        return tuple(((self._totals + omega) / (self._n_tasks + 1)).tolist())

    def open(self, mean_score: float, input_norms: Sequence[float] | None = None) -> None:
        """Call before a task's steps: sets lambda_dyn (Eq. 11) from the task's mean score, clipped to [0, 1].

        Args: input_norms: mean L2 norm of each adapter's input on the task if Omega-bar includes it; else None.
        """
        self._strength = penalty_strength(min(max(mean_score, 0.0), 1.0), self._lowest, self._highest)
        self._current_norms = None if input_norms is None else torch.tensor(list(input_norms), dtype=torch.float64)

    def remember(self, input_norms: Sequence[float]) -> None:
        """Call after a task: adds Omega_k = ||Delta W||_F ||x|| (Eq. 8) to the mean, then takes a snapshot.

        Delta W is the task's change of the product B A (Eq. 7). Args: input_norms: mean L2 norm of each adapter's input.
        """
        now = [product.detach().clone() for product in self._products()]
        self._totals += self._changes(now) * torch.tensor(list(input_norms), dtype=torch.float64)
        self._n_tasks, self._snapshots = self._n_tasks + 1, now

    def penalty(self) -> Tensor:
        """L_reg = lambda_dyn Omega-bar ||W - W_before||_F^2 (Eq. 10), W = B A; 0 before any task counts."""
        omegas = self.omega_bar
        if not omegas:
            return torch.zeros(())
        adapters = zip(self._products(), self._snapshots, omegas, strict=True)
        return self._strength * torch.stack([omega * (now - then).square().sum() for now, then, omega in adapters]).sum()

    def _changes(self, products: Sequence[Tensor]) -> Tensor:
        """||Delta W||_F of every adapter [adapters], float64."""
        norms = [float((now - before).norm()) for now, before in zip(products, self._snapshots, strict=True)]
        return torch.tensor(norms, dtype=torch.float64)

    def _products(self) -> list[Tensor]:
        return [second @ first for first, second in self._net.pairs()]


@torch.no_grad()
def input_norms(net: Adapted, texts: Prompted, device: str, reading: Reading = clean) -> list[float]:
    """Mean L2 norm of each adapted layer's input (||x|| of Eq. 8), over all tokens of these texts."""
    of_weight = {id(layer.weight): layer for layer in net.modules() if isinstance(layer, nn.Linear)}
    layers = [of_weight[id(first)] for first, _ in net.pairs()]
    totals, n_tokens = torch.zeros(len(layers), dtype=torch.float64), 0
    for rows in np.array_split(np.arange(len(texts)), -(-len(texts) // AT_ONCE)) if len(texts) else ():
        batch = batch_of(texts, rows, device)
        with recorded(layers) as passed:
            net.split.above(states_of(net, batch, reading, 0), batch.mask.sum(dim=1, keepdim=True) - 1, whole=True)
        n_tokens += int(batch.mask.sum())
        totals += torch.stack([(passed[layer][0].norm(dim=2) * batch.mask).sum().double().cpu() for layer in layers])
    return (totals / max(1, n_tokens)).tolist()
