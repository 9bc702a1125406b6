"""What a device changes: the precision that a frozen network computes in, and how many examples fit on a card at once.

Trained numbers, their gradients, their optimiser and every loss stay in single precision or better on any device.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.errors import failure_kind

_BFLOAT16_SINCE = (8, 0)  # compute capability; older cards only emulate it
_BFLOAT16_ON_PROCESSORS = ("avx512_bf16", "amx_bf16")
_SHARE = 0.5  # of the free memory that one piece of work may take: estimates are rough, and memory is fragmented


def is_gpu(device: str) -> bool:
    """Whether a torch device name means a graphics card."""
    return device.startswith("cuda")


def half_precision(device: str) -> torch.dtype | None:
    """bfloat16 on a card or a processor that multiplies in it, else None: single precision.

    Never float16: gradients below 6e-8 become zero in it unless losses are scaled, and activations above 65,504 infinite.
    """
    if is_gpu(device):
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= _BFLOAT16_SINCE else None
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # older torch does not say
    return torch.bfloat16 if any(capabilities.get(name) for name in _BFLOAT16_ON_PROCESSORS) else None


def mixed_precision(device: str) -> AbstractContextManager[object]:
    """Inside, a network's products are in half precision on a card that has one (`half_precision`).

    On processors they are not: features are the same on all of them but for last digits.
    """
    dtype = half_precision(device) if is_gpu(device) else None
    return nullcontext() if dtype is None else torch.autocast("cuda", dtype=dtype)


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """Inside, nothing on the tensor's device is in half precision, whatever is around it: for what is trained."""
    return torch.autocast(like.device.type, enabled=False)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """float32 for half precisions, else the same."""
    return torch.promote_types(dtype, torch.float32)


def room(device: str) -> float | None:
    """Bytes that one piece of work may take: half of a card's free memory. None on a CPU, where sizes are fixed."""
    if not is_gpu(device):
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return _SHARE * (free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))  # torch keeps some


class Replayed:
    """A function of tensors. On a card its kernels are recorded once for each shape of its inputs, and replayed together.

    It may read and change other tensors in place, but not move them, and wait for nothing on the card. What a call returns
    is overwritten by the next. A function whose kernels cannot be recorded is called every time, as on a processor.
    """

    def __init__(self, function: Callable[..., Tensor], device: str) -> None:
        self._function, self._is_recorded = function, is_gpu(device) and torch.cuda.is_available()
        self._recordings: dict[tuple[object, ...], tuple[Callable[[], Tensor], Sequence[Tensor]]] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        shapes = tuple((one.shape, one.dtype) for one in inputs)
        if self._is_recorded and shapes not in self._recordings:
            places = [one.clone() for one in inputs]
            try:
                self._recordings[shapes] = recorded(self._function, places), places
            except RuntimeError as error:
                if failure_kind(error) == "out-of-memory":
                    raise
                self._is_recorded = False
        if not self._is_recorded:
            return self._function(*inputs)
        replay, read = self._recordings[shapes]
        for place, given in zip(read, inputs, strict=True):
            place.copy_(given)
        return replay()


def recorded(function: Callable[..., Tensor], places: Sequence[Tensor]) -> Callable[[], Tensor]:
    """Records the kernels of a function of tensors on a card; the result replays them on what these then hold."""
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # kernels are chosen, and libraries opened, before anything is recorded
        for _ in range(2):
            function(*places)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(*places)

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


def at_once(room: float | None, on_processor: int, bytes_each: float, most: int) -> int:
    """Examples to compute at once: `on_processor`, or on a card the largest power of two up to `most` that should fit.

    `bytes_each` is an estimate. Callers find `room` before they read an example, so the number depends on public facts
    alone, and halve it where memory does not suffice.
    """
    return on_processor if room is None else 1 << (int(min(most, max(1.0, room / bytes_each))).bit_length() - 1)


def sent(values: NDArray[np.generic], device: str) -> Tensor:
    """The values on a device; to a card they are on their way, and what is computed there next waits for them."""
    here = torch.from_numpy(np.ascontiguousarray(values))
    return here.pin_memory().to(device, non_blocking=True) if is_gpu(device) else here
