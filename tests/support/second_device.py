"""A pretended graphics card: tensors moved to `cuda:0` are marked, and an operation that mixes them with others fails.

Everything is computed on the processor. The mark is on a tensor's storage, so views, gradients and an optimiser's state have
it too. What CUDA allows is allowed: a number without dimensions beside a tensor on the card, indices from the processor,
copies from one to the other. What it refuses fails as it does there: mixed operands, `numpy()` of a tensor on the card, a
processor's generator for a tensor on the card.

It counts how often the processor would wait for the card: for a number or a size that it reads, and for copies that are not
on their way while it goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NAME = "cuda:0"
_CARD = torch.device(NAME)
_ANSWERS: Mapping[object, object] = {
    torch.Tensor.device.__get__: _CARD,  # type: ignore[attr-defined]
    torch.Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: False,  # type: ignore[attr-defined]
}
_READ = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")
_INDEXED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


@contextmanager
def attached(free: int = 1 << 30, capability: tuple[int, int] = (7, 0)) -> Iterator[Counted]:
    """Inside, `cuda:0` is a second device of this thread, with as many free bytes; from (8, 0) on it has bfloat16.

    Gives what counts the waits so far.
    """
    answers: dict[str, object] = {"get_device_capability": capability, "mem_get_info": (free, free)}
    answers |= {"memory_reserved": 0, "memory_allocated": 0}
    calls = _Calls()
    with ExitStack() as inside:
        for name, answer in answers.items():
            inside.enter_context(mock.patch.object(torch.cuda, name, return_value=answer))
        inside.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", ".*(device_type of 'cuda'|CUDA is not available)")  # autocast knows no card
        inside.enter_context(calls)
        inside.enter_context(_Operations(calls))
        yield calls.counted


def is_on_card(tensor: Tensor) -> bool:
    """Whether a tensor is on the pretended card."""
    return getattr(tensor.untyped_storage(), "on_card", False)


@dataclass
class Counted:
    """`waits`: how often the processor would have waited for the card."""

    waits: int = 0


class _Calls(TorchFunctionMode):
    """Calls of torch's functions: those that make tensors on a device or move them, and questions where a tensor is.

    `has_card`: whether the call under way was given a tensor on the card: what it makes inside belongs there too.
    """

    has_card = False

    def __init__(self) -> None:
        super().__init__()
        self.counted = Counted()

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in _ANSWERS and is_on_card(args[0]):
            return _ANSWERS[func]
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and is_on_card(args[0]):
            raise TypeError(f"can't convert {NAME} device type tensor to numpy. Use Tensor.cpu() first")
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func in (torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.cuda):
            moved = _moved(func, *args, **options)
            is_copied = is_on_card(moved) != is_on_card(args[0])
            self.counted.waits += is_copied and not (is_on_card(moved) and options.get("non_blocking", False))
            return moved
        if func is torch._C._nn._parse_to:
            device, *others = func(*args, **options)
            model = next((one for one in args if isinstance(one, Tensor)), None)
            return (_CARD if model is not None and is_on_card(model) else device, *others)
        if _is_card(options.get("device")):
            made = func(*args, **{**options, "device": "cpu"})
            made = made.clone() if func is torch.as_tensor else made
            _mark(made, on_card=True)
            return made
        self.has_card = any(map(is_on_card, _tensors((args, options))))
        try:
            return func(*args, **options)
        finally:
            self.has_card = False


class _Operations(TorchDispatchMode):
    """Torch's operations below its functions, backward passes included: all operands must be in one place."""

    def __init__(self, calls: _Calls) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options, name = dict(kwargs or {}), func._schema.name
        operands = _tensors((args, options))
        has_card = any(map(is_on_card, operands))
        is_mask = name in _INDEXED and any(one.dtype == torch.bool for one in operands[1:])
        self._calls.counted.waits += has_card and (name in _READ or is_mask)
        if has_card and name != "aten::copy_":
            indexed = name in _INDEXED
            must = operands[:1] if indexed else [one for one in operands if one.dim() or _is_changed(one, func, args)]
            if not all(map(is_on_card, must)):
                raise RuntimeError(f"Expected all tensors to be on the same device: {name} got {NAME} and cpu")
            generators = [one for one in (*args, *options.values()) if isinstance(one, torch.Generator)]
            if generators:
                raise RuntimeError(f"Expected a 'cuda' device type for generator but found 'cpu' in {name}")
        result = func(*args, **options)
        if (has_card and name != "aten::copy_") or (not operands and self._calls.has_card):
            _mark(result, on_card=True)
        return result


def _moved(func: Callable[..., Tensor], tensor: Tensor, *args: Any, **options: Any) -> Tensor:
    """`to`, `cpu` and `cuda`: the tensor itself where it is there already, else a marked or unmarked copy."""
    values = [*args, *options.values()]
    if func is not torch.Tensor.to:
        goals = [func is torch.Tensor.cuda]
    else:
        goals = [is_on_card(one) if isinstance(one, Tensor) else _is_card(one) for one in values if _names_device(one)]
    args = tuple("cpu" if _is_card(one) else one for one in args)
    options = {name: "cpu" if _is_card(value) else value for name, value in options.items()}
    if not goals or goals[0] == is_on_card(tensor):
        return tensor if func is not torch.Tensor.to else tensor.to(*args, **options)
    copy = tensor.to(*(args if func is torch.Tensor.to else ()), **{**options, "copy": True})
    _mark(copy, on_card=goals[0])
    return copy


def _names_device(value: object) -> bool:
    return isinstance(value, str | torch.device | Tensor)


def _is_card(value: object) -> bool:
    return isinstance(value, str | torch.device) and str(value).startswith("cuda")


def _is_changed(tensor: Tensor, func: Any, args: Sequence[Any]) -> bool:
    """Whether the operation writes into this tensor."""
    return func._schema.name.endswith("_") and bool(args) and tensor is args[0]


def _mark(result: object, *, on_card: bool) -> None:
    for tensor in _tensors(result):
        tensor.untyped_storage().on_card = on_card  # type: ignore[attr-defined]


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
