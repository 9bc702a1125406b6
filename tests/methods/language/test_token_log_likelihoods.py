"""Scores of a torch model's tokens depend on their own text alone, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from dpcl_core.backbones import causal
from dpcl_core.data.texts import PADDING
from dpcl_core.methods.language import training
from tests.backbones import language_models

BOS = 0


@pytest.fixture(params=["lm-tiny", "gpt2", "llama"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> nn.Module:
    if request.param == "lm-tiny":
        return causal.load("lm-tiny")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    made: nn.Module = AutoModelForCausalLM.from_pretrained(language_models.put(tmp_path, request.param)).eval()
    return made


def drawn(n: int, length: int) -> NDArray[np.int64]:
    """Texts of random lengths, padded at the end."""
    draw = np.random.default_rng(0)
    tokens = draw.integers(2, language_models.SIZE, (n, length))
    for row, end in zip(tokens, draw.integers(1, length, n), strict=True):
        row[end:] = PADDING
    return tokens


def test_a_texts_scores_have_the_same_bits_whoever_is_beside_it(model: nn.Module) -> None:
    """They enter what a private text adds to a clipped sum: one text more or less must change no other's last digit."""
    tokens = drawn(30, 30)
    together = training.log_probabilities(model, tokens, BOS, "cpu")
    draw = np.random.default_rng(1)
    for n in (1, 7, 9, 29):
        some = draw.permutation(len(tokens))[:n]
        found = training.log_probabilities(model, tokens[some], BOS, "cpu")
        np.testing.assert_array_equal(found, together[some])


def test_every_pass_has_one_shape_however_many_texts_there_are() -> None:
    """Kernels choose the order of their additions by it; on some processors small networks show no difference."""
    model, shapes = causal.load("lm-tiny"), set()
    with model.register_forward_pre_hook(lambda _, __, given: shapes.add(given["input_ids"].shape), with_kwargs=True):
        for n in (1, 8, 30):
            training.log_probabilities(model, drawn(n, 30), BOS, "cpu")
    assert len(shapes) == 1


def test_a_single_public_text_is_read_alone_with_the_same_result(model: nn.Module) -> None:
    """Up to single precision: a pass of another shape adds in another order."""
    tokens = drawn(9, 30)
    filled = training.log_probabilities(model, tokens, BOS, "cpu")
    alone = training.log_probabilities(model, tokens, BOS, "cpu", is_filled=False)
    np.testing.assert_allclose(alone, filled, atol=1e-5, rtol=1e-6)
    assert (filled[tokens != PADDING] < 0).all()
    assert not filled[tokens == PADDING].any()
