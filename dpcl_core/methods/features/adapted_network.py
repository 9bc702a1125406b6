"""A frozen network with FiLM or LoRA adapters and a trainable last layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcl_core.backbones.adaptable import Affine, Network
from dpcl_core.backbones.bundled import Axes
from dpcl_core.backbones.gpu import at_least_single, full_precision
from dpcl_core.errors import BadInput
from dpcl_core.methods.features.cards.adaptation_params import RULES, Rule

Kind = Literal["film", "lora"]
_ATTENTION = frozenset({"qkv", "q", "k", "v", "q_proj", "k_proj", "v_proj", "query", "key", "value"})
_WITH_LAYERNORM = "must be a network with LayerNorm, such as vit-cifar100 or a ViT of timm"


class Adapted(nn.Module):
    """Pictures uint8 [b, side, side, channels] -> logits [b, n_labels]; trains the adapter and the last layer only.

    Shares all frozen weights with `network`: one copy serves any number of adapted networks. `seed` sets lora's random
    initial factor, which is public. `axes`: public axes along which the last layer reads the features.
    """

    centre: Tensor
    directions: Tensor

    def __init__(
        self, network: Network, kind: Kind, rank: int, n_labels: int, seed: int = 0, axes: Axes | None = None
    ) -> None:
        super().__init__()
        refuse(network, kind)
        self._blank = network.features.blank
        self.features = _sharing(network.features)
        if kind == "film":
            _free_norms(self.features)
        else:
            _add_low_rank(self.features, rank, torch.Generator().manual_seed(seed))
        example = next(network.features.parameters())
        dtype = at_least_single(example.dtype)
        self._is_along_axes = axes is not None
        if axes is not None:
            for name, values in (("centre", axes.centre), ("directions", axes.directions)):
                self.register_buffer(name, torch.from_numpy(values).to(example.device, dtype), persistent=False)
        n_features = network.feature_dim if axes is None else axes.directions.shape[1]
        self.head = nn.Linear(n_features, n_labels, device=example.device, dtype=dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.eval()  # dropout stays off: only the accounted noise and sampling are to be random

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.features(pixels)
        with full_precision(features):
            single: Tensor = features.to(self.head.weight.dtype)
            if self._is_along_axes:
                single = (single - self.centre) @ self.directions
            logits: Tensor = self.head(single)
        return logits

    def trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and parameters that are trained."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def state(self) -> dict[str, Tensor]:
        """Copies of the trained parameters on the CPU, by name."""
        return {name: parameter.detach().cpu().clone() for name, parameter in self.trainable()}

    @torch.no_grad()
    def take(self, state: Mapping[str, Tensor]) -> None:
        """Loads the parameters of an earlier `state`; freezes those that it does not contain."""
        for name, parameter in self.trainable():
            if name in state:
                parameter.copy_(state[name])
            else:
                parameter.requires_grad_(False)

    def leave_unused(self) -> None:
        """Freezes parameters that no feature depends on: features may be read before the network's last layers."""
        self.features(self._blank().to(self.head.weight.device)).sum().backward()
        for name, parameter in self.trainable():
            if parameter.grad is None and not name.startswith("head."):
                parameter.requires_grad_(False)
            parameter.grad = None


class LowRank(nn.Module):
    """LoRA (Hu et al. 2022): a frozen Linear plus a product of two narrow ones, x -> W x + b + B A x.

    A convolution that mixes the channels of a place is such a layer at every place.

    B starts at zero, so that the network starts unchanged; A at random, with variance 1 / inputs. There is no scale factor:
    under Adam a constant one only changes the learning rate. A and B compute in single precision, whatever W does.
    """

    def __init__(self, frozen: nn.Linear | nn.Conv2d, rank: int, start: torch.Generator) -> None:
        super().__init__()
        self.frozen = frozen
        n_outputs, n_inputs = frozen.weight.shape[:2]
        self.down, self.up = _narrow(frozen, n_inputs, rank), _narrow(frozen, rank, n_outputs)
        nn.init.normal_(self.down.weight, std=n_inputs**-0.5, generator=start)
        nn.init.zeros_(self.up.weight)
        self.to(frozen.weight.device, at_least_single(frozen.weight.dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.frozen(inputs)
        with full_precision(inputs):
            change: Tensor = self.up(self.down(inputs.to(self.down.weight.dtype)))
        return outputs + change.to(outputs.dtype)


def _narrow(like: nn.Linear | nn.Conv2d, n_inputs: int, n_outputs: int) -> nn.Linear | nn.Conv2d:
    if isinstance(like, nn.Linear):
        return nn.Linear(n_inputs, n_outputs, bias=False)
    return nn.Conv2d(n_inputs, n_outputs, 1, bias=False)


def refuse(network: Network, kind: Kind) -> None:
    """Raises BadInput if the network mixes examples, or has no layers of the kind that the adapter needs."""
    for name, module in network.features.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            # In training mode BatchNorm averages over the batch, so no example has a gradient of its own. Frozen, it would
            # use averages of other pictures; Tobaben et al. use networks without it.
            layer = f"{name.removeprefix('network.')} ({type(module).__name__})"
            allowed = f"mixes examples in its layer {layer}: {_WITH_LAYERNORM}, or one with GroupNorm"
            raise BadInput("data.backbone", network.name, allowed)
    if kind == "film" and not any(_norms(network.features)):
        raise BadInput("data.backbone", network.name, f"has no LayerNorm for film to adapt: {_WITH_LAYERNORM}")
    if kind == "lora" and not targets(network.features):
        raise BadInput("data.backbone", network.name, "has no Linear layers for lora to adapt: take a ViT or a ConvNeXt")


def targets(features: nn.Module) -> list[str]:
    """Names of the Linear layers that lora adapts. Our choice: the paper names lora only as an alternative.

    Query, key and value projections if the network has attention, as in Hu et al.; otherwise every Linear layer, or, in a
    network of convolutions alone, every one that mixes the channels of a place.
    """
    named = dict(features.named_modules())
    linear = [name for name, module in named.items() if isinstance(module, nn.Linear)]
    return (
        [name for name in linear if name.rpartition(".")[2] in _ATTENTION]
        or linear
        or [name for name, module in named.items() if isinstance(module, nn.Conv2d) and _mixes_channels(module)]
    )


def _mixes_channels(module: nn.Conv2d) -> bool:
    return module.kernel_size == (1, 1) and module.groups == 1


def _norms(features: nn.Module) -> Iterator[nn.LayerNorm | Affine]:
    modules = features.modules()
    return (m for m in modules if isinstance(m, Affine) or (isinstance(m, nn.LayerNorm) and m.elementwise_affine))


def _sharing(module: nn.Module) -> nn.Module:
    """A copy of the module that shares its tensors; replacing a layer in the copy leaves the original unchanged."""
    return deepcopy(module, {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())})


def _free_norms(features: nn.Module) -> None:
    for norm in _norms(features):
        norm.weight = nn.Parameter(norm.weight.detach().clone())
        if norm.bias is not None:
            norm.bias = nn.Parameter(norm.bias.detach().clone())


def _add_low_rank(features: nn.Module, rank: int, start: torch.Generator) -> None:
    for name in targets(features):
        parent, _, last = name.rpartition(".")
        frozen = features.get_submodule(name)
        assert isinstance(frozen, nn.Linear | nn.Conv2d)
        features.get_submodule(parent).add_module(last, LowRank(frozen, rank, start))


# Prediction rules of an ensemble: ArgMax, Median and Entropy (Tobaben et al., Eq. 10, A41 and appendix H.2).


Logits = NDArray[np.floating]


class VoteAccumulator:
    """Accumulates the members' votes on one set of examples, under every rule at once.

    Members may be added in any order. `one_space`: all members have the same label space (S_prior_const).

    * ArgMax: the largest logit of any member.
    * Median: the largest logit after subtracting from each member's logits their median over its labels.
    * Entropy: the weighted sum of the members' logits, with weights softmax over members of minus the entropy of each
      member's softmax (natural logarithm, gamma = 1, after SAFE, Zhao et al. 2024). If members have different label spaces,
      that sum is not defined, and multiplying a negative logit by a small weight would raise it; our extension then uses
      probabilities instead of logits.

    A member votes only for labels in its own space (finite logits).
    """

    def __init__(self, *, one_space: bool) -> None:
        self._one_space = one_space
        self._votes: _Votes | None = None
        self.n_members = 0

    def add(self, logits: Logits) -> None:
        """Adds one member's votes: logits [epsilons, n, classes], -inf outside its label space."""
        votes = _votes_of(logits, one_space=self._one_space)
        self._votes = votes if self._votes is None else _combined(self._votes, votes)
        self.n_members += 1

    def scores(self, first: Rule) -> dict[str, Logits]:
        """Scores [epsilons, n, classes] by rule, `first` first; -inf for labels in no member's space. Needs a member."""
        votes = self._votes
        assert votes is not None
        smallest = np.finfo(votes.weights.dtype).tiny
        scores = {
            "argmax": votes.largest,
            "median": votes.centred,
            "entropy": votes.weighted / np.maximum(votes.weights, smallest),
        }
        return {rule: scores[rule] for rule in (first, *(rule for rule in RULES if rule != first))}


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """Sums and maxima over members that the three rules require, each [epsilons, n, classes or 1]."""

    largest: Logits
    centred: Logits
    weighted: Logits
    weights: Logits


def _votes_of(logits: Logits, *, one_space: bool) -> _Votes:
    allowed = np.isfinite(logits)
    probabilities = _softmax(logits)
    # 0 log 0 = 0: a label of probability 0, or outside the member's space, adds nothing to its entropy.
    entropy = -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1))).sum(axis=2, keepdims=True)
    weights = np.exp(-entropy) * allowed.any(axis=2, keepdims=True)
    voted = weights * (np.where(allowed, logits, 0) if one_space else probabilities)
    return _Votes(logits, logits - _median(logits, allowed)[:, :, None], np.where(allowed, voted, -np.inf), weights)


def _combined(left: _Votes, right: _Votes) -> _Votes:
    both = np.isfinite(left.weighted) & np.isfinite(right.weighted)
    return _Votes(
        np.maximum(left.largest, right.largest),
        np.maximum(left.centred, right.centred),
        np.where(both, left.weighted + right.weighted, np.maximum(left.weighted, right.weighted)),
        left.weights + right.weights,
    )


def _median(logits: Logits, allowed: NDArray[np.bool_]) -> Logits:
    """Median [epsilons, n] over the labels in the space; 0 if it is empty.

    A budget's label space is the same for all examples, so the first example's mask applies to all.
    """
    medians = np.zeros(logits.shape[:2], dtype=logits.dtype)
    if logits.shape[1]:
        for budget, mask in enumerate(allowed[:, 0]):
            if mask.any():
                medians[budget] = np.median(logits[budget][:, mask], axis=1)
    return medians


def _softmax(logits: Logits) -> Logits:
    """Softmax over the labels; zeros if the label space is empty."""
    top = logits.max(axis=2, keepdims=True)
    raised: Logits = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = raised.sum(axis=2, keepdims=True)
    shares: Logits = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return shares
