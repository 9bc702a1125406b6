"""Every step that sums clipped gradients, on neighbours: an example more or less moves the sum by the clipping norm at most.

In single precision as in a run, with inputs that nobody expects, in batches of one and two pieces; and how far single
precision is from double, beside `schedule.ROUNDING`, which is what guarantees take as given.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dpcl_core.methods.common import per_example_gradients as of_nets
from dpcl_core.methods.common.dpsgd import ROUNDING
from dpcl_core.methods.features import adapters, linear_heads, side_by_side
from dpcl_core.methods.language import gradients as of_texts
from dpcl_core.methods.language.training import task_loss
from dpcl_core.methods.lifelong import nets
from tests.methods import small_network
from tests.methods.common.test_per_example_gradients import COLUMNS, FORMS, network, row
from tests.methods.language import tiny
from tests.support.tiers import quick

N, CLIP = 80, 0.3
STRANGE = (2e19, 1e38, -3e38, 1e-38, 1e-45, 0.0, math.nan, math.inf)


@dataclass(frozen=True)
class Step:
    """`sums`: of the examples at these places, as one row in double precision; `bound`: what one may change them by."""

    sums: Callable[[np.ndarray], np.ndarray]
    bound: float = CLIP


def strange(rows: np.ndarray) -> np.ndarray:
    """Every tenth row holds one value of `STRANGE`, or has it in one place; the last two are alike."""
    for place, value in enumerate(STRANGE):
        rows[20 * place % N], rows[(20 * place + 10) % N, 0] = value, value
    rows[-1] = rows[-2]
    return rows


def heads(double: bool, odd: bool) -> Step:
    dtype = np.dtype(np.float64 if double else np.float32)
    rows = np.random.default_rng(0).standard_normal((N, 20))
    targets, allowed = np.arange(N) % 5, np.ones((1, 5), bool)
    data = linear_heads.Prepared.of(strange(rows) if odd else rows, targets, allowed, 60.0, dtype)
    weights = np.random.default_rng(1).standard_normal((1, 5, 21)).astype(dtype)
    clips = np.array([CLIP], dtype)
    return Step(lambda places: CLIP * linear_heads.clipped_sums(data, places, weights, clips)[0].astype(float).ravel())


def adapter(kind: adapters.Kind, double: bool, odd: bool) -> Step:
    pictures, labels = small_network.pictures(N)
    if odd:
        pictures[::10], pictures[5::20], pictures[-1] = 0, 255, pictures[-2]
    found = side_by_side.Gradients(small_network.start(kind, double=double).module(), CLIP, 64, "cpu")
    return Step(lambda places: row(found.of(pictures[places], labels[places])).double().numpy())


def whole_network(kind: str, double: bool, odd: bool) -> Step:
    form, dtype = FORMS[kind], torch.float64 if double else torch.float32
    rows = np.random.default_rng(2).uniform(form.low, form.high, (N, math.prod(form.shape)))
    with np.errstate(over="ignore"):
        x = nets.tensor(strange(rows) if odd else rows, form).to(dtype)
    targets = torch.arange(N) % len(COLUMNS)
    found = of_nets.Gradients(network(kind, torch.float32).to(dtype), CLIP)
    return Step(lambda places: row(found.of(x[places], targets[places], COLUMNS)).double().numpy())


def texts(double: bool, odd: bool, *, squared: bool = False) -> Step:
    net = tiny.adapted(dtype=torch.float64 if double else torch.float32)
    if odd:  # weights at the bound of all trainings: logits so large that many tie
        with torch.no_grad():
            for parameter in net.trainable().values():
                parameter.copy_(1000 * parameter.sign())
    written, found = tiny.texts(), of_texts.Gradients(net, CLIP)

    def sums(places: np.ndarray) -> np.ndarray:
        batch = of_texts.batch_of(written, places % len(written.ids), "cpu")
        own = found.squares_of(batch, task_loss("answer")) if squared else found.of(batch, task_loss("answer"))
        return tiny.row(own).double().numpy()

    return Step(sums, CLIP**2 if squared else CLIP)


STEPS: dict[str, Callable[[bool, bool], Step]] = {
    "heads": heads,
    "film": lambda double, odd: adapter("film", double, odd),
    "lora": lambda double, odd: adapter("lora", double, odd),
    "texts": texts,
    "Fisher information": lambda double, odd: texts(double, odd, squared=True),
    **{
        f"network, {kind}": lambda double, odd, kind=kind: whole_network(kind, double, odd)  # type: ignore[misc]
        for kind in FORMS
    },
}


def pairs(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches, each with and without one of its examples."""
    everyone = np.random.default_rng(3).permutation(N)[:n]
    return [(everyone, np.delete(everyone, place)) for place in sorted({0, n // 2})]


@pytest.mark.parametrize("n", quick(1, [1, 9, 65]))
@pytest.mark.parametrize("name", STEPS)
def test_one_example_changes_a_sum_by_its_bound_at_most_whatever_it_holds(name: str, n: int) -> None:
    step = STEPS[name](False, True)
    for batch, fewer in pairs(n):
        whole, without = step.sums(batch), step.sums(fewer)
        assert np.isfinite(whole).all()
        assert np.linalg.norm(whole - without) <= step.bound * (1 + ROUNDING / 8)
    assert not step.sums(np.zeros(0, np.int64)).any()


@pytest.mark.parametrize("name", quick(2, [name for name in STEPS if name != "heads"]))
def test_single_precision_moves_neighbours_apart_by_far_less_than_is_assumed(name: str) -> None:
    """At most an eighth of it, in batches of two pieces. Heads are exact on a grid of their own instead."""
    single, double = STEPS[name](False, False), STEPS[name](True, False)
    moved: list[float] = []
    for batch, fewer in pairs(80):
        apart = [step.sums(batch) - step.sums(fewer) for step in (single, double)]
        moved.append(float(np.linalg.norm(apart[0] - apart[1])) / single.bound)
    assert max(moved) <= ROUNDING / 8
