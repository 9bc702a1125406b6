"""Per-example gradients of whole networks and of adapters: ours beside public ways and no privacy (`make bench`)."""

from __future__ import annotations

import math
import sys
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

from dpcl_core.backbones import adaptable
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.per_example_gradients import Gradients
from dpcl_core.methods.features import adapters, side_by_side
from dpcl_core.methods.features.adapters import Adapted, Kind
from dpcl_core.methods.lifelong import nets
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from tests.benchmarks.conftest import NOISE, opacus_step, seconds

CLIP, N_CLASSES, ROUNDS = 1.0, 10, 5
FORMS = {"grey": Form((28, 28, 1), 0.0, 1.0), "colour": Form((32, 32, 3), 0.0, 1.0), "window": Form((100, 3), -1.0, 1.0)}
BATCH = {"grey": 64, "colour": 16, "window": 64}
Way = Callable[[], object]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def clipped(grads: list[Tensor]) -> list[Tensor]:
    """The clipped sums of per-example gradients."""
    n = len(grads[0])
    return [part[0] for part in side_by_side.clipped_sums(grads, torch.full((n,), CLIP), torch.ones(1, n))]


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

    def ours(self, clip: float = CLIP) -> Callable[[], list[Tensor]]:
        gradients, columns = Gradients(self._net(), clip), torch.arange(N_CLASSES)
        return lambda: gradients.of(self._x, self._targets, columns)

    def no_privacy(self) -> Callable[[], list[Tensor]]:
        return self.ours(math.inf)

    def hooks(self) -> Callable[[], list[Tensor]]:
        """Opacus' GradSampleModule, as `make_private` sets it up by default."""
        wrapped = GradSampleModule(self._net(), loss_reduction="sum", strict=False)

        def way() -> list[Tensor]:
            wrapped.zero_grad(set_to_none=True)
            functional.cross_entropy(wrapped(self._x), self._targets, reduction="sum").backward()  # type: ignore[no-untyped-call]
            return clipped([parameter.grad_sample for parameter in wrapped.parameters()])

        return way

    def ghost(self) -> Callable[[], list[Tensor]]:
        """Opacus' ghost clipping: norms in a first backward pass, the clipped sum in a second one."""
        wrapped = GradSampleModuleFastGradientClipping(self._net(), max_grad_norm=CLIP, strict=False, loss_reduction="sum")
        options = {"noise_multiplier": 0.0, "max_grad_norm": CLIP, "expected_batch_size": len(self._x)}
        sgd = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        optimizer = DPOptimizerFastGradientClipping(sgd, **options, loss_reduction="sum")
        loss = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")

        def way() -> list[Tensor]:
            optimizer.zero_grad()
            loss(wrapped(self._x), self._targets).backward()
            return [parameter.grad for parameter in wrapped.parameters()]

        return way

    def functorch(self) -> Callable[[], list[Tensor]]:
        net = self._net()
        weights = dict(net.named_parameters())

        def loss(given: Mapping[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
            return functional.cross_entropy(functional_call(net, dict(given), (x[None],)), target[None])

        each = vmap(grad(loss), in_dims=(None, 0, 0))

        def way() -> list[Tensor]:
            found = each(weights, self._x, self._targets)
            return clipped([found[name] for name in weights])

        return way


WAYS = ("ours", "no_privacy", "hooks", "ghost", "functorch")


@pytest.mark.parametrize("kind", FORMS)
def test_ours_is_the_fastest_way_to_the_same_sums(benchmark: BenchmarkFixture, kind: str) -> None:
    race = Race(kind)
    ways = {name: getattr(race, name)() for name in WAYS}
    expected = torch.cat([part.reshape(-1) for part in ways["ours"]()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, way in ways.items():
            if name != "no_privacy":
                found = torch.cat([part.reshape(-1) for part in way()])
                # Rounding turns a unit on or off.
                assert float((found - expected).norm()) < 0.01 * float(expected.norm()), name
    spent = benchmark.pedantic(seconds, args=(ways, ROUNDS), rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info.update({name: round(BATCH[kind] / value) for name, value in spent.items()})
    print(f"\n{kind}, examples a CPU second: {benchmark.extra_info}")
    # Within a tenth of the fastest: in a small batch, as of colour, Opacus' ways cost nearly the same, and which of
    # them wins is a toss of a coin.
    assert spent["ours"] < 1.1 * min(value for name, value in spent.items() if name != "no_privacy")


# FiLM and LoRA on the bundled networks.


N_PICTURES, N_LABELS = 64, 100


def pictures() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, 256, (N_PICTURES, 32, 32, 3), dtype=np.uint8)
    return drawn, generator.integers(0, N_LABELS, N_PICTURES)


def prepared(backbone: str, kind: Kind) -> tuple[Adapted, torch.optim.Optimizer]:
    module = adapters.fresh(adaptable.load(backbone), kind, 4, range(N_LABELS), N_LABELS, 0).module()
    for part in module.modules():
        part.training = any(parameter.requires_grad for parameter in part.parameters(recurse=False))
    return module, torch.optim.Adam((parameter for _, parameter in module.trainable()), lr=1e-3)


def our_step(backbone: str, kind: Kind, clip_norm: float = 1.0) -> Way:
    """A step as `adapters.train_together` takes it; without clipping, and then without noise, it is the one of eps = inf."""
    start = adapters.fresh(adaptable.load(backbone), kind, 4, range(N_LABELS), N_LABELS, 0)
    one = adapters.Training(start, *pictures(), 0.0 if math.isinf(clip_norm) else 1.0, Batches(1.0, None), ReleaseNoise())
    steps = adapters.train_together([one], Schedule(1.0, sys.maxsize, clip_norm, 1e-3, N_PICTURES))
    return lambda: next(steps)


def their_step(backbone: str, kind: Kind, *, is_ghost: bool) -> Way:
    step = opacus_step(*prepared(backbone, kind), N_PICTURES, is_ghost=is_ghost)
    drawn, labels = map(torch.from_numpy, pictures())
    return lambda: step(drawn, labels)


@pytest.mark.parametrize(
    ("backbone", "kind", "has_ghost"),
    [
        ("vit-cifar100", "film", True),
        ("vit-cifar100", "lora", True),
        ("convnext-cifar100", "film", True),
        ("convnext-cifar100", "lora", False),  # Opacus' norms without gradients know no Linear layer on a map of cells
    ],
)
def test_pictures_a_second(benchmark: BenchmarkFixture, backbone: str, kind: Kind, has_ghost: bool) -> None:
    """As fast as Opacus' own loop, faster than ghost clipping; what privacy costs beside training without it is told."""
    ways = {"ours": our_step(backbone, kind), "no privacy": our_step(backbone, kind, math.inf)}
    ways["opacus"] = their_step(backbone, kind, is_ghost=False)
    if has_ghost:
        ways["ghost"] = their_step(backbone, kind, is_ghost=True)
    found = benchmark.pedantic(seconds, args=(ways, 7), rounds=1)
    benchmark.extra_info.update({name: round(N_PICTURES / spent) for name, spent in found.items()})
    print(f"\n{backbone} {kind}, pictures a CPU second: {benchmark.extra_info}")
    assert found["ours"] < found["opacus"] * NOISE
    assert found["ours"] < found.get("ghost", math.inf)
