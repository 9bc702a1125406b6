"""Per-example gradients of the networks of Lifelong DP: ours beside four public ways and no privacy (`make bench`)."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads

from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.per_example_gradients import Gradients
from dpcl_core.methods.features.adapters import clipped_sums
from dpcl_core.methods.lifelong import nets

CLIP, N_CLASSES, ROUNDS = 1.0, 10, 5
FORMS = {"grey": Form((28, 28, 1), 0.0, 1.0), "colour": Form((32, 32, 3), 0.0, 1.0), "window": Form((100, 3), -1.0, 1.0)}
BATCH = {"grey": 64, "colour": 16, "window": 64}
Way = Callable[[], list[Tensor]]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


class Race:
    """One network and one batch; each way gives the same clipped sums."""

    def __init__(self, kind: str) -> None:
        form, n = FORMS[kind], BATCH[kind]
        generator = np.random.default_rng(0)
        self._form = form
        rows = generator.uniform(form.low, form.high, (n, math.prod(form.shape))).astype(np.float32)
        self._x, self._targets = nets.tensor(rows, form), torch.from_numpy(generator.integers(0, N_CLASSES, n))

    def _net(self) -> nets.Net:
        net = nets.build(self._form, N_CLASSES, 0)
        with torch.no_grad():  # a last layer of zeros would let no gradient through
            net.head.weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
        return net

    def ours(self) -> Way:
        gradients, columns = Gradients(self._net(), CLIP), torch.arange(N_CLASSES)
        return lambda: gradients.of(self._x, self._targets, columns)

    def no_privacy(self) -> Way:
        gradients, columns = Gradients(self._net(), math.inf), torch.arange(N_CLASSES)
        return lambda: gradients.of(self._x, self._targets, columns)

    def hooks(self) -> Way:
        """Opacus' GradSampleModule, as `make_private` sets it up by default."""
        wrapped = GradSampleModule(self._net(), loss_reduction="sum", strict=False)

        def way() -> list[Tensor]:
            wrapped.zero_grad(set_to_none=True)
            functional.cross_entropy(wrapped(self._x), self._targets, reduction="sum").backward()  # type: ignore[no-untyped-call]
            return clipped_sums([parameter.grad_sample for parameter in wrapped.parameters()], CLIP)

        return way

    def ghost(self) -> Way:
        """Opacus' ghost clipping: norms in a first backward pass, the clipped sum in a second one."""
        wrapped = GradSampleModuleFastGradientClipping(self._net(), max_grad_norm=CLIP, strict=False, loss_reduction="sum")
        optimizer = DPOptimizerFastGradientClipping(
            torch.optim.SGD(wrapped.parameters(), lr=0.1),
            noise_multiplier=0.0,
            max_grad_norm=CLIP,
            expected_batch_size=len(self._x),
            loss_reduction="sum",
        )
        loss = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")

        def way() -> list[Tensor]:
            optimizer.zero_grad()
            loss(wrapped(self._x), self._targets).backward()
            return [parameter.grad for parameter in wrapped.parameters()]

        return way

    def functorch(self) -> Way:
        net = self._net()
        weights = dict(net.named_parameters())

        def loss(given: Mapping[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
            return functional.cross_entropy(functional_call(net, dict(given), (x[None],)), target[None])

        each = vmap(grad(loss), in_dims=(None, 0, 0))

        def way() -> list[Tensor]:
            found = each(weights, self._x, self._targets)
            return clipped_sums([found[name] for name in weights], CLIP)

        return way

    def expanded_weights(self) -> Way:
        """Of torch itself; knows tensors in the plain order of axes alone."""
        net, x = self._net().to(memory_format=torch.contiguous_format), self._x.contiguous()  # type: ignore[call-overload]

        def way() -> list[Tensor]:
            for parameter in net.parameters():
                parameter.grad = parameter.grad_sample = None
            logits = call_for_per_sample_grads(net, loss_reduction="sum")(x)  # type: ignore[no-untyped-call]
            functional.cross_entropy(logits, self._targets, reduction="sum").backward()  # type: ignore[no-untyped-call]
            return clipped_sums([parameter.grad_sample for parameter in net.parameters()], CLIP)

        return way


WAYS = ("ours", "no_privacy", "hooks", "ghost", "functorch", "expanded_weights")


def seconds(ways: dict[str, Way]) -> dict[str, float]:
    """CPU seconds of each one's fastest round, the ways taking turns."""
    found = dict.fromkeys(ways, math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(ROUNDS):
            for name, way in ways.items():
                started = time.process_time()
                way()
                found[name] = min(found[name], time.process_time() - started)
    return found


@pytest.mark.parametrize("kind", FORMS)
def test_ours_is_the_fastest_way_to_the_same_sums(benchmark: BenchmarkFixture, kind: str) -> None:
    race = Race(kind)
    ways: dict[str, Way] = {name: getattr(race, name)() for name in WAYS}
    expected = torch.cat([part.reshape(-1) for part in ways["ours"]()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, way in ways.items():
            if name != "no_privacy":
                found = torch.cat([part.reshape(-1) for part in way()])
                assert float((found - expected).norm()) < 0.01 * float(expected.norm()), (
                    name
                )  # rounding turns a unit on or off
    spent = benchmark.pedantic(seconds, args=(ways,), rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info.update({name: round(BATCH[kind] / value) for name, value in spent.items()})
    print(f"\n{kind}, examples a CPU second: {benchmark.extra_info}")
    assert spent["ours"] == min(value for name, value in spent.items() if name != "no_privacy")
