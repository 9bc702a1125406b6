"""Precision and number of examples at once on a card, without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from dpcl_core.backbones import gpu
from tests.support import second_device


def test_half_precision_is_bfloat16_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for able in ({}, {"avx512_f": True, "avx512_bf16": False}, {"avx512_bf16": True}, {"amx_bf16": True}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able)
        has_bfloat16 = any("bf16" in name and has for name, has in able.items())
        assert gpu.half_precision("cpu") is (torch.bfloat16 if has_bfloat16 else None)
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # of an older torch
    assert gpu.half_precision("cpu") is None
    for capability, dtype in (((7, 0), None), ((7, 5), None), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)):
        with second_device.attached(capability=capability):
            assert gpu.half_precision(second_device.NAME) is dtype


def test_a_processor_keeps_its_number_and_a_card_fills_half_of_what_is_free() -> None:
    assert gpu.room("cpu") is None
    assert gpu.at_once(None, 12, 1.0, 64) == 12
    with second_device.attached(free=1 << 20):
        assert gpu.room(second_device.NAME) == 1 << 19
    assert gpu.at_once(float(1 << 19), 12, 1 << 13, 1024) == 64
    assert gpu.at_once(float(1 << 19), 12, 5000.0, 1024) == 64  # 104 fit
    assert gpu.at_once(float(1 << 19), 12, 5000.0, 48) == 32
    assert gpu.at_once(float(1 << 19), 12, 1e9, 64) == 1  # one is always tried


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_precisions_below_single_become_single(dtype: torch.dtype) -> None:
    assert gpu.at_least_single(dtype) is torch.float32
    assert gpu.at_least_single(torch.float64) is torch.float64


def test_what_is_recorded_is_replayed_on_new_inputs_and_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording is a stand-in that computes on its fixed places, as a graph of kernels does."""
    recorded: list[tuple[int, ...]] = []

    def eager(function: Callable[..., torch.Tensor], places: Sequence[torch.Tensor]) -> Callable[[], torch.Tensor]:
        recorded.append(tuple(places[0].shape))
        return lambda: function(*places)

    monkeypatch.setattr(gpu, "recorded", eager)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    weight = torch.ones(())
    scaled = gpu.Replayed(lambda left, right: weight * (left - right), "cuda:0")
    for size in (3, 2, 3):
        left, right = torch.rand(2, size)
        weight += 1
        assert torch.equal(scaled(left, right), weight * (left - right))
    assert recorded == [(3,), (2,)]


@pytest.mark.parametrize("error", [RuntimeError("not permitted while recording"), torch.OutOfMemoryError("out of memory")])
def test_what_cannot_be_recorded_is_called_and_memory_that_does_not_suffice_is_said(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(function: object, places: object) -> None:
        raise error

    monkeypatch.setattr(gpu, "recorded", refused)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    negative = gpu.Replayed(torch.neg, "cuda:0")
    if isinstance(error, torch.OutOfMemoryError):
        with pytest.raises(torch.OutOfMemoryError):
            negative(torch.ones(2))
    else:
        assert all(torch.equal(negative(torch.ones(2)), -torch.ones(2)) for _ in range(2))


def test_nothing_is_recorded_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "recorded", None)
    assert torch.equal(gpu.Replayed(torch.neg, "cpu")(torch.ones(2)), -torch.ones(2))
