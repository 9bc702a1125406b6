"""Sums of clipped per-example gradients of a whole convolutional network, for about the time of two plain gradients.

A layer's gradient for one example is the product of the layer's input and the loss's gradient at its output. One forward and
one backward pass give both for all layers and examples; they give the norms, and the norms give the clipped sum as one
product over the batch. It needs no second backward pass, and no per-example gradient where its norm is cheaper to compute
(Bu et al. 2022, "Differentially Private Optimization on Large Model at Small Cost": ghost norms with book-keeping).
tests/benchmarks/test_gradients.py compares it with Opacus' hooks, its ghost clipping and functorch.

Kernels choose the order of their additions by the shapes that they multiply. All pieces have the same size, the last one
filled up, so that an example's gradient does not depend on the number of examples beside it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones.gpu import at_once, room
from dpcl_core.privacy.noise import Noise

# Examples computed at once: a public number, smaller on a card without the room. 64 pictures of 32x32 take about 0.4 GB.
AT_ONCE = {"cpu": 16, "cuda": 64}
BYTES_A_PIXEL = 6100
_CANCELLED = 1e-3  # share of the sum of absolute values; random signs would leave about one over the number of positions
_Sum = Callable[[Tensor], list[Tensor]]  # example weights [b] -> the layer's weighted sums of gradients


class Gradients:
    """Sums of per-example cross-entropy gradients, each clipped to `clip_norm` in L2 over all parameters together.

    clip_norm = inf: plain autograd sums without clipping. Otherwise switches off the parameters' `requires_grad`, and the
    network may contain `Conv2d` (no groups, no dilation), `Linear` on rows and `GroupNorm`, each used once in a pass; raises
    TypeError for other layers with parameters.
    """

    def __init__(self, net: nn.Module, clip_norm: float) -> None:
        self._net, self._clip_norm = net, clip_norm
        self._parameters = list(net.parameters())
        self._layers = [layer for layer in net.modules() if next(layer.parameters(recurse=False), None) is not None]
        for layer in self._layers:
            if not isinstance(layer, nn.Conv2d | nn.Linear | nn.GroupNorm):
                raise TypeError(f"no rule for the per-example gradients of {type(layer).__name__}")
        net.requires_grad_(math.isinf(clip_norm))
        self._room = room(str(self._parameters[0].device))

    def of(self, x: Tensor, targets: Tensor, columns: Tensor) -> list[Tensor]:
        """The sums in double precision, one tensor per parameter in the network's order; zeros for an empty batch.

        Adding an example changes all sums together by at most `clip_norm` in L2, replacing one by at most twice that. An
        example with a non-finite gradient counts zero.

        Args: x [b, channels, height, width]; columns int64 [k]: the classes in the softmax; targets int64 [b]: indices into
        columns.
        """
        sums = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in self._parameters]
        size = at_once(self._room, AT_ONCE["cpu"], BYTES_A_PIXEL * x.shape[2] * x.shape[3], AT_ONCE["cuda"])
        for start in range(0, len(x), size):
            if math.isinf(self._clip_norm):
                piece = slice(start, start + size)
                loss = self._loss(x[piece], targets[piece], columns)
                parts: Sequence[Tensor] = torch.autograd.grad(loss, self._parameters)
            else:
                places = torch.arange(start, start + size, device=x.device)
                filled = places.clamp(max=len(x) - 1)  # repeats the last example, which counts once
                parts = self._clipped(x[filled], targets[filled], columns, places < len(x))
            for running, part in zip(sums, parts, strict=True):
                running += part
        return sums

    def _clipped(self, x: Tensor, targets: Tensor, columns: Tensor, counts: Tensor) -> Sequence[Tensor]:
        """Clipped sums over the examples with `counts`, bool [b]."""
        with _recorded(self._layers) as passed:
            loss = self._loss(x, targets, columns)
        deltas = torch.autograd.grad(loss, [out for _, _, out in passed])
        kept = [(layer, read, delta) for (layer, read, _), delta in zip(passed, deltas, strict=True)]
        squares, sums_of = _rules(kept)
        finite = squares.isfinite()
        if not finite.all():  # zero times infinity is NaN: set inputs and gradients to zero
            kept = [(layer, _without(read, finite), _without(delta, finite)) for layer, read, delta in kept]
            squares, sums_of = _rules(kept)
        weights = clip_weights(squares.sqrt(), self._clip_norm) * counts
        sums: dict[nn.Parameter, Tensor] = {}
        for (layer, _, _), weighted in zip(kept, sums_of, strict=True):
            sums |= dict(zip(layer.parameters(recurse=False), weighted(weights), strict=True))
        return [sums[parameter] for parameter in self._parameters]

    def _loss(self, x: Tensor, targets: Tensor, columns: Tensor) -> Tensor:
        return functional.cross_entropy(self._net(x)[:, columns], targets, reduction="sum")


def clip_weights(norms: Tensor, clip_norm: float | Tensor) -> Tensor:
    """The clipping factor of each example's gradient: min(1, C / (norm + 1e-6)), as in Opacus."""
    return (clip_norm / (norms + 1e-6)).clamp(max=1)


@contextmanager
def hooked(layers: Sequence[nn.Module], note: Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]) -> Iterator[None]:
    """Calls `note(layer, inputs, output)` in every forward pass made inside the context."""
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(note))
        yield


@contextmanager
def _recorded(layers: Sequence[nn.Module]) -> Iterator[list[tuple[nn.Module, Tensor, Tensor]]]:
    """Every layer with its input and output, in the order of the forward pass made inside the context."""
    passed: list[tuple[nn.Module, Tensor, Tensor]] = []

    def note(layer: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        if not out.requires_grad:  # the first layer: neither its parameters nor its input require a gradient
            out.requires_grad_(True)
        passed.append((layer, args[0].detach(), out))

    with hooked(layers, note):
        yield passed


def _rules(kept: Sequence[tuple[nn.Module, Tensor, Tensor]]) -> tuple[Tensor, list[_Sum]]:
    """Squared norms [b] of the examples' gradients over all layers, and each layer's weighted sums."""
    squares, sums_of = zip(*(_rule(*one) for one in kept), strict=True)
    return torch.stack(squares).sum(0), list(sums_of)


def _without(rows: Tensor, kept: Tensor) -> Tensor:
    """The rows, with zeros in those that are not `kept`, bool [b]."""
    return rows.where(kept.view(-1, *[1] * (rows.dim() - 1)), 0)


def _rule(layer: nn.Module, read: Tensor, delta: Tensor) -> tuple[Tensor, _Sum]:
    """Squared norms [b] of the layer's per-example gradients, and their weighted sum as a function of the weights."""
    if isinstance(layer, nn.Conv2d):
        return _of_convolution(layer, read, delta)
    if isinstance(layer, nn.Linear):  # the gradient δ xᵀ has the norm |δ| |x|
        has_bias = layer.bias is not None
        squares = delta.square().sum(1) * (read.square().sum(1) + has_bias)
        return squares, lambda weights: [(weights[:, None] * delta).T @ read, *([weights @ delta] if has_bias else [])]
    assert isinstance(layer, nn.GroupNorm)
    scaled = functional.group_norm(read, layer.num_groups, eps=layer.eps)
    of_scale, of_shift = (scaled * delta).sum((2, 3)), delta.sum((2, 3))
    return of_scale.square().sum(1) + of_shift.square().sum(1), lambda weights: [weights @ of_scale, weights @ of_shift]


def _of_convolution(layer: nn.Conv2d, read: Tensor, delta: Tensor) -> tuple[Tensor, _Sum]:
    """Rule for `Conv2d`: the gradient is δᵀU, with δ [positions, filters] and patches U [positions, inputs of a filter].

    Its squared norm is the sum over pairs of positions of (δ_i·δ_j)(u_i·u_j). That is cheaper for few positions; for many,
    the gradient itself is.
    """
    patches = _patches(layer, read, delta)
    rows = delta.permute(0, 2, 3, 1).reshape(len(delta), -1, delta.shape[1])
    n_places, n_filters, n_inputs = rows.shape[1], rows.shape[2], patches.shape[2]
    of_bias = rows.sum(1) if layer.bias is not None else rows[:, 0, :0]
    grads: Tensor | None = None
    if n_places * (n_filters + n_inputs) < n_filters * n_inputs:
        squares = _squares_from_pairs(rows, patches)
    else:
        grads = torch.bmm(rows.transpose(1, 2), patches).flatten(1)
        squares = grads.square().sum(1)

    def weighted(weights: Tensor) -> list[Tensor]:
        total = (weights[:, None, None] * rows).flatten(0, 1).T @ patches.flatten(0, 1) if grads is None else weights @ grads
        return [total.view(layer.weight.shape), *([weights @ of_bias] if layer.bias is not None else [])]

    return squares + of_bias.square().sum(1), weighted


def _squares_from_pairs(rows: Tensor, patches: Tensor) -> Tensor:
    """Squared norms [b] of rowsᵀ patches, without forming the product.

    The terms have both signs. Where they nearly cancel, single precision could make a long gradient look short, and it would
    not be clipped: such examples are computed again in double precision.
    """
    of_rows, of_patches = torch.bmm(rows, rows.transpose(1, 2)), torch.bmm(patches, patches.transpose(1, 2))
    squares = (of_rows * of_patches).sum((1, 2))
    if rows.dtype == torch.float64:
        return squares.clamp(min=0)
    diagonals = of_rows.diagonal(dim1=1, dim2=2) * of_patches.diagonal(dim1=1, dim2=2)
    largest = diagonals.clamp(min=0).sqrt().sum(1).square()  # bounds the sum of the terms' absolute values
    doubtful = ~(squares >= _CANCELLED * largest)
    if doubtful.any():
        squares[doubtful] = _squares_from_pairs(rows[doubtful].double(), patches[doubtful].double()).to(squares.dtype)
    return squares


def _patches(layer: nn.Conv2d, read: Tensor, delta: Tensor) -> Tensor:
    """The filters' inputs at every position: [b, positions, channels times patch], in the weight's order.

    For a kernel of even size the input may have been padded by one more row or column of zeros (`nets.Conv`); the output's
    size shows whether it was.
    """
    (height, width), (down, right) = layer.kernel_size, layer.stride
    above, left = int(layer.padding[0]), int(layer.padding[1])
    needed = (delta.shape[2] - 1) * down + height, (delta.shape[3] - 1) * right + width
    below, beside = needed[0] - read.shape[2] - above, needed[1] - read.shape[3] - left
    padded = functional.pad(read, (left, beside, above, below)).permute(0, 2, 3, 1)
    return padded.unfold(1, height, down).unfold(2, width, right).reshape(len(read), delta.shape[2] * delta.shape[3], -1)


# Noisy mean gradients of a DP-SGD step.


def noisy_means(
    sums: Sequence[Tensor], expected_batch: float, std: float, noise: Noise, *, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Sums divided by the expected batch size, with noise of standard deviation `std` on every coordinate, in one draw.

    Means and noise are rounded together (`privacy.gaussian`), so that the last digits reveal nothing about the sums. Means
    stay in double precision until they have their noise: in single precision a sum over tens of thousands of examples is
    rounded by more than `ROUNDING` of what one of them adds. `dtype`: of the results, single or double precision.
    """
    flat = torch.cat([part.flatten() for part in sums]).double() / expected_batch
    if std > 0:
        clean = flat.cpu().numpy()
        noisy = noise.added(clean, std) if dtype == torch.float64 else noise.added32(clean, std)
        flat = torch.from_numpy(noisy).to(flat.device)
    pieces = torch.split(flat.to(dtype), [part.numel() for part in sums])
    return [piece.reshape(part.shape) for piece, part in zip(pieces, sums, strict=True)]
