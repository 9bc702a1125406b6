"""Per-example gradients of whole networks and of adapters: ours beside public ways and no privacy (`make bench`)."""

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from threadpoolctl import threadpool_limits
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from dpcl_core.backbones import adaptable
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.per_example_gradients import Gradients
from dpcl_core.methods.features import adapters, linear_heads
from dpcl_core.methods.lifelong import nets
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from dpcl_core.scenarios.stream import Examples
from tests.benchmarks.conftest import NOISE, by_ghost, by_hooks, clipped, opacus_step, seconds
from tests.methods.training import trained_heads

CLIP, N_CLASSES, ROUNDS = 1.0, 10, 5
FORMS = {"grey": Form((28, 28, 1), 0.0, 1.0), "colour": Form((32, 32, 3), 0.0, 1.0), "window": Form((100, 3), -1.0, 1.0)}
BATCH = {"grey": 64, "colour": 16, "window": 64}
Way = Callable[[], object]


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

    def ours(self, clip: float = CLIP) -> Callable[[], list[torch.Tensor]]:
        gradients, columns = Gradients(self._net(), clip), torch.arange(N_CLASSES)
        return lambda: gradients.of(self._x, self._targets, columns)

    def no_privacy(self) -> Callable[[], list[torch.Tensor]]:
        return self.ours(math.inf)

    def _losses(self, model: Any) -> torch.Tensor:
        return functional.cross_entropy(model(self._x), self._targets, reduction="none")

    def hooks(self) -> Callable[[], list[torch.Tensor]]:
        net = self._net()
        return by_hooks(net, list(net.parameters()), self._losses, CLIP)

    def ghost(self) -> Callable[[], list[torch.Tensor]]:
        net = self._net()
        return by_ghost(net, list(net.parameters()), self._losses, CLIP)

    def functorch(self) -> Callable[[], list[torch.Tensor]]:
        net = self._net()
        weights = dict(net.named_parameters())

        def loss(given: Mapping[str, torch.Tensor], x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(functional_call(net, dict(given), (x[None],)), target[None])

        each = vmap(grad(loss), in_dims=(None, 0, 0))

        def way() -> list[torch.Tensor]:
            found = each(weights, self._x, self._targets)
            return clipped([found[name] for name in weights], CLIP)

        return way


@pytest.mark.parametrize("kind", FORMS)
def test_ours_is_the_fastest_way_to_the_same_sums(benchmark: BenchmarkFixture, kind: str) -> None:
    race = Race(kind)
    ways = {name: getattr(race, name)() for name in ("ours", "no_privacy", "hooks", "ghost", "functorch")}
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


def prepared(backbone: str, kind: adapters.Kind) -> tuple[adapters.Adapted, torch.optim.Optimizer]:
    module = adapters.fresh(adaptable.load(backbone), kind, 4, range(N_LABELS), N_LABELS, 0).module()
    for part in module.modules():
        part.training = any(parameter.requires_grad for parameter in part.parameters(recurse=False))
    return module, torch.optim.Adam((parameter for _, parameter in module.trainable()), lr=1e-3)


def our_step(backbone: str, kind: adapters.Kind, clip_norm: float = 1.0) -> Way:
    """A step as `adapters.train_together` takes it; without clipping, and then without noise, it is the one of eps = inf."""
    start = adapters.fresh(adaptable.load(backbone), kind, 4, range(N_LABELS), N_LABELS, 0)
    one = adapters.Training(start, *pictures(), 0.0 if math.isinf(clip_norm) else 1.0, Batches(1.0, None), ReleaseNoise())
    steps = adapters.train_together([one], Schedule(1.0, sys.maxsize, clip_norm, 1e-3, N_PICTURES))
    return lambda: next(steps)


def their_step(backbone: str, kind: adapters.Kind, *, is_ghost: bool) -> Way:
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
def test_pictures_a_second(benchmark: BenchmarkFixture, backbone: str, kind: adapters.Kind, has_ghost: bool) -> None:
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


# Steps of last layers beside three rivals: one task of 15 cells, in CPU seconds of one thread.


N_EXAMPLES, SIZE, N_SEEDS = 2000, 192, 5


SIGMAS, RATE, LEARNING_RATE = (2.0, 0.9, 0.7), 0.1, 0.003
STEPS, TURNS = 200, 3
# What the loop in torch takes over what we take, at least, by classes. The aim is 1.3; whether it is reached depends on the
# processor: at 100 classes two fifths of our time can be exact noise from the system, for which the loop has torch's own.
LEAST = {10: 1.0, 100: 0.7}


def our_steps(train: Examples, n_classes: int) -> None:
    plan = Schedule(RATE, STEPS, CLIP, LEARNING_RATE, RATE * len(train))
    inputs = train.inputs
    for _ in range(N_SEEDS):
        start = linear_heads.fresh([range(n_classes)] * len(SIGMAS), SIZE, n_classes)
        noises = [ReleaseNoise() for _ in SIGMAS]
        trained_heads(start, inputs, train.labels, plan, SIGMAS, Batches(RATE, None), noises)


def batched_steps(train: Examples, n_classes: int) -> None:
    """All cells at once in closed form; a seed's budgets share its batches, as ours do. Sums round, noise is torch's own."""
    n, sigmas = len(train), torch.tensor(SIGMAS)[None, :, None, None]
    rows = torch.zeros(n + 1, SIZE + 1)  # the last one fills up short batches
    rows[:n] = torch.cat([torch.from_numpy(train.inputs), torch.ones(n, 1)], dim=1)
    targets = torch.cat([torch.from_numpy(train.labels), torch.zeros(1, dtype=torch.int64)])
    lengths = rows.norm(dim=1)
    weights = torch.zeros(N_SEEDS, len(SIGMAS), n_classes, SIZE + 1)
    adam = torch.optim.Adam([weights], lr=LEARNING_RATE, fused=True)
    for _ in range(STEPS):
        drawn = torch.rand(N_SEEDS, n) < RATE
        places = pad_sequence([row.nonzero()[:, 0] for row in drawn], batch_first=True, padding_value=n)
        batch = rows[places]
        residuals = torch.bmm(weights.flatten(1, 2), batch.mT).unflatten(1, weights.shape[1:3]).softmax(2)
        own = targets[places][:, None, None].expand(-1, len(SIGMAS), 1, -1)
        residuals.scatter_add_(2, own, torch.full(own.shape, -1.0))
        norms = residuals.norm(dim=2) * lengths[places][:, None]
        residuals *= (CLIP / (norms + 1e-6)).clamp(max=1)[:, :, None]
        sums = torch.bmm(residuals.flatten(1, 2), batch).view_as(weights)
        weights.grad = (sums + CLIP * sigmas * torch.randn_like(sums)) / (RATE * n)
        adam.step()


def opacus_steps(train: Examples, n_classes: int, *, is_ghost: bool) -> None:
    """Cell after cell of one seed, each batch at once, by hooks or by ghost clipping."""
    inputs, targets = torch.from_numpy(train.inputs), torch.from_numpy(train.labels)
    for sigma in SIGMAS:
        model = torch.nn.Linear(SIZE, n_classes)
        adam = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        step = opacus_step(model, adam, RATE * len(inputs), is_ghost=is_ghost, sigma=sigma)
        for _ in range(STEPS):
            batch = (torch.rand(len(inputs)) < RATE).nonzero()[:, 0]
            step(inputs[batch], targets[batch])


@pytest.mark.parametrize("n_classes", [10, 100])
def test_steps_beside_three_rivals(benchmark: BenchmarkFixture, n_classes: int) -> None:
    generator = np.random.default_rng(0)  # features of no meaning: only the work counts here
    features = generator.standard_normal((N_EXAMPLES, SIZE), dtype=np.float32)
    train = Examples(features, generator.integers(0, n_classes, N_EXAMPLES))
    ways: dict[str, Callable[[], None]] = {
        "ours": lambda: our_steps(train, n_classes),
        "batched torch": lambda: batched_steps(train, n_classes),
        "Opacus' hooks": lambda: opacus_steps(train, n_classes, is_ghost=False),
        "Opacus' ghost clipping": lambda: opacus_steps(train, n_classes, is_ghost=True),
    }
    with threadpool_limits(1):
        found = benchmark.pedantic(seconds, args=(ways, TURNS), rounds=1)  # type: ignore[no-untyped-call]
    seeds = {name: N_SEEDS if "Opacus" in name else 1 for name in ways}  # of the time of one, all
    ratios = {name: seeds[name] * taken / found["ours"] for name, taken in found.items()}
    benchmark.extra_info.update(ratios)
    print(f"\n{n_classes} classes, {1e6 * found['ours'] / STEPS / N_SEEDS:.0f} us a step of a seed: {ratios}")
    assert ratios["batched torch"] > LEAST[n_classes]
    assert ratios["Opacus' hooks"] > 5
    assert ratios["Opacus' ghost clipping"] > 1
