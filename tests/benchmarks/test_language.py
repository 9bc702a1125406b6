"""DP-SGD on low-rank adapters of the bundled language model (`make bench`): three ways to per-text gradients, side by side.

And a whole run of the repaired PeCL: first scored texts and end, from the start of its process; bounds for two idle cores.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch.nn import functional

from dpcl_core.backbones import causal
from dpcl_core.methods.language.gradients import Batch, Gradients, TextLoss, log_probs
from dpcl_core.methods.language.public_text import ANSWER, TEMPLATE, TEXT
from dpcl_core.methods.language.training import task_loss
from tests.benchmarks.conftest import NOISE, by_ghost, by_hooks, seconds, timed

N, LENGTH, CLIP = 32, 70, 0.5


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def batch() -> Batch:
    """32 texts of 70 tokens, the last two of them the answer."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2, 1500, (N, LENGTH), generator=generator)
    role = torch.full((N, LENGTH), TEXT, dtype=torch.int8)
    role[:, 0] = TEMPLATE
    role[:, -2:] = ANSWER
    return Batch(
        np.arange(N), ids, role, torch.zeros_like(role, dtype=torch.bool), torch.zeros_like(role, dtype=torch.int16)
    )


def net() -> causal.Adapted:
    found = causal.adapted("lm-tiny", "cpu", 8, 16.0, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, second in found.pairs():
            second.copy_(0.05 * torch.randn(second.shape, generator=generator))
    return found


def losses(model: Any, embeddings: torch.Tensor, given: Batch, loss: TextLoss) -> torch.Tensor:
    """Losses [b] by the whole table of logits, as a library's wrapper computes them."""
    positions = torch.arange(given.ids.shape[1]).expand(given.ids.shape)
    logits = model(inputs_embeds=embeddings, position_ids=positions, use_cache=False).logits
    steps = logits[:, :-1].log_softmax(dim=-1).gather(2, given.ids[:, 1:, None])[..., 0]
    return loss.of(functional.pad(steps, (1, 0)), given)


def by_closed_form(loss: TextLoss) -> Callable[[], list[torch.Tensor]]:
    gradients, given = Gradients(net(), CLIP), batch()
    return lambda: gradients.of(given, loss)


def by_wrapper(way: Callable[..., Callable[[], list[torch.Tensor]]], loss: TextLoss) -> Callable[[], list[torch.Tensor]]:
    adapted, given = net(), batch()
    of = partial(losses, embeddings=adapted.embed(given.ids), given=given, loss=loss)
    return way(adapted.model, list(adapted.trainable().values()), of, CLIP)


def by_loop(loss: TextLoss) -> list[torch.Tensor]:
    """One backward pass for every text."""
    adapted, given = net(), batch()
    parameters = list(adapted.trainable().values())
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for row in range(N):
        alone = given.take(torch.tensor([row]))
        own = torch.autograd.grad(loss.of(log_probs(adapted, alone), alone).sum(), parameters)
        length = torch.cat([part.flatten() for part in own]).norm()
        for whole, part in zip(sums, own, strict=True):
            whole += part * (CLIP / (length + 1e-6)).clamp(max=1)
    return sums


WAYS = {"closed form": by_closed_form, "hooks": partial(by_wrapper, by_hooks), "ghost": partial(by_wrapper, by_ghost)}


@pytest.mark.parametrize("kind", ["answer", "full"])
def test_clipped_sums_of_32_texts(kind: str, benchmark: BenchmarkFixture) -> None:
    """All ways give the same sums; ours is the first. They take turns, so that a busy machine slows all of them alike.

    Ours pads 70 tokens to 72 and computes 32 texts in four pieces, whose shape follows from each text alone. On whole
    texts Opacus' hooks take hardly longer, so that bound leaves a twentieth for chance; docs/performance.md has the figures.
    """
    loss = task_loss(kind)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ways = {name: make(loss) for name, make in WAYS.items()}
        found = [sums() for sums in ways.values()]
        fastest = benchmark.pedantic(seconds, args=(ways, 15), rounds=1)  # what others do on the machine only adds
    ratios = {name: taken / fastest["closed form"] for name, taken in fastest.items()}
    benchmark.extra_info |= ratios
    print(kind, {name: f"{ratio:.2f}" for name, ratio in ratios.items()})
    assert min(ratios.values()) > (1 - 1e-9 if kind == "answer" else 0.95)
    for sums in found:
        for part, expected in zip(sums, by_loop(loss), strict=True):
            torch.testing.assert_close(part.float(), expected, rtol=1e-3, atol=1e-5)


def test_a_run_from_the_start_of_its_process(benchmark: BenchmarkFixture) -> None:
    """First scored texts in less than 3 s, libraries and all; the end in less than 60 s."""
    firsts: list[float] = []
    kinds = "TokensScored", "CellFinished"
    benchmark.pedantic(lambda: firsts.append(timed("pecl-synthetic", *kinds)[0]), rounds=1, warmup_rounds=1)
    benchmark.extra_info["first_scored_texts"] = firsts[-1]
    assert firsts[-1] < 3 * NOISE
