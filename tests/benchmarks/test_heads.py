"""Heads of an ensemble beside the same cells trained as Opacus' tutorial does, in one run (`make bench`).

And their steps alone beside three rivals: Opacus' hooks, its ghost clipping, and a batched loop in torch.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from threadpoolctl import threadpool_limits

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.features.peft_ensemble import EnsembleParams
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import PrivacySpec, RunSpec
from tests.benchmarks.conftest import NOISE, opacus_step, seconds
from tests.methods.training import trained_heads

N_TASKS, N_EXAMPLES, SIZE, N_STEPS = 10, 20_000, 192, 400
EPSILONS, N_SEEDS = (1.0, 4.0, 8.0), 5
MOST_AT_ONCE = 128  # the tutorial's own


def stream(n_classes: int) -> list[Task]:
    """Features of no meaning: only the work counts here."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((N_EXAMPLES, SIZE), dtype=np.float32)
    labels = generator.integers(0, n_classes, N_EXAMPLES)
    everything, tests = Examples(features, labels), Examples(features[:100], labels[:100])
    parts = np.split(np.arange(N_EXAMPLES), N_TASKS)
    return [Task(k, f"task {k + 1}", everything.take(part), tests, ()) for k, part in enumerate(parts)]


def ours(n_classes: int) -> None:
    spec = RunSpec(
        method="peft-ensemble", params=EnsembleParams(), scenario=ClassIncremental(tasks=N_TASKS),
        privacy=PrivacySpec(epsilons=EPSILONS), seeds=tuple(range(N_SEEDS)),
    )  # fmt: skip
    cells = list(spec.cells())
    known = PublicContext(
        n_inputs=SIZE, n_classes=n_classes, public=tuple(range(n_classes)), n_people=N_EXAMPLES, n_tasks=N_TASKS
    )
    learner = methods.maker(spec.method)(spec, cells, known)
    ledgers = {cell: Ledger(spec.privacy.delta, "add-remove", "once") for cell in cells}
    tasks = [dict.fromkeys(spec.seeds, task) for task in stream(n_classes)]
    for step, task in enumerate(tasks):
        learner.prefetch(tasks[step : step + 2])
        assert [progress.total for progress in learner.learn(task, ledgers)][-1] == 5 * N_STEPS


def tutorial(n_classes: int, epsilon: float) -> tuple[float, float]:
    """Seconds of one cell and task in the way of Opacus' tutorial on image classifiers: its search for the noise, its steps.

    `make_private_with_epsilon`, its loader of Poisson batches, at most 128 examples at once by its memory manager, loss and
    accuracy of each batch noted; 40 epochs.
    """
    torch = pytest.importorskip("torch")
    from opacus import PrivacyEngine
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    torch.set_num_threads(2)
    task = stream(n_classes)[0]
    data = torch.utils.data.TensorDataset(torch.from_numpy(task.train.inputs), torch.from_numpy(task.train.labels))
    loader = torch.utils.data.DataLoader(data, batch_size=len(data) // 10)
    model = torch.nn.Linear(SIZE, n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        budget = {"epochs": 40, "target_epsilon": epsilon, "target_delta": 1e-5, "max_grad_norm": 1.0}
        adam = torch.optim.Adam(model.parameters(), lr=0.003)
        model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=model, optimizer=adam, data_loader=loader, **budget
        )
        steps: list[None] = []
        optimizer.attach_step_hook(lambda _: steps.append(None))
        searched = time.perf_counter()
        for _ in range(40):
            losses, accuracies = [], []
            manager = BatchMemoryManager(data_loader=loader, max_physical_batch_size=MOST_AT_ONCE, optimizer=optimizer)
            with manager as batches:
                for inputs, targets in batches:
                    optimizer.zero_grad()
                    outputs = model(inputs)
                    loss = torch.nn.functional.cross_entropy(outputs, targets)
                    losses.append(loss.item())
                    accuracies.append((outputs.detach().numpy().argmax(axis=1) == targets.numpy()).mean())
                    loss.backward()
                    optimizer.step()
    assert len(steps) == N_STEPS
    return searched - started, time.perf_counter() - searched


@pytest.mark.parametrize("n_classes", [10, 100])
def test_an_ensemble_of_heads(benchmark: BenchmarkFixture, n_classes: int) -> None:
    """150 cells in less than 20 s, and at least fifty times as fast as the tutorial trains them, its searches included."""
    found: dict[str, float] = {}

    def race() -> None:
        before = [tutorial(n_classes, each) for each in EPSILONS]
        started = time.perf_counter()
        ours(n_classes)
        found["ours"] = time.perf_counter() - started
        searches, steps = zip(*before, *(tutorial(n_classes, each) for each in EPSILONS), strict=True)
        each = N_TASKS * N_SEEDS / 2  # cells that one of the six stands for
        found.update(searches=each * sum(searches), steps=each * sum(steps))

    benchmark.pedantic(race, rounds=1)
    whole, steps = (found["searches"] + found["steps"]) / found["ours"], found["steps"] / found["ours"]
    benchmark.extra_info.update(found, whole=whole, steps_alone=steps)
    print(f"\n{n_classes} classes: {found}: {whole:.0f}x, steps alone {steps:.0f}x")
    assert found["ours"] < 20 * NOISE
    assert whole > 50


# Steps alone: one task of 15 cells, in CPU seconds of one thread.


SIGMAS, RATE, CLIP, LEARNING_RATE = (2.0, 0.9, 0.7), 0.1, 1.0, 0.003
STEPS, TURNS = 200, 3
# What the loop in torch takes over what we take, at least, by classes. The aim is 1.3; whether it is reached depends on the
# processor: at 100 classes two fifths of our time can be exact noise from the system, for which the loop has torch's own.
LEAST = {10: 1.0, 100: 0.7}


def our_steps(task: Task, n_classes: int) -> None:
    plan = Schedule(RATE, STEPS, CLIP, LEARNING_RATE, RATE * len(task.train))
    inputs = task.train.inputs
    for _ in range(N_SEEDS):
        start = linear_heads.fresh([range(n_classes)] * len(SIGMAS), SIZE, n_classes)
        noises = [ReleaseNoise() for _ in SIGMAS]
        trained_heads(start, inputs, task.train.labels, plan, SIGMAS, Batches(RATE, None), noises)


def batched_steps(task: Task, n_classes: int) -> None:
    """All cells at once in closed form; a seed's budgets share its batches, as ours do. Sums round, noise is torch's own."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    n, sigmas = len(task.train), torch.tensor(SIGMAS)[None, :, None, None]
    rows = torch.zeros(n + 1, SIZE + 1)  # the last one fills up short batches
    rows[:n] = torch.cat([torch.from_numpy(task.train.inputs), torch.ones(n, 1)], dim=1)
    targets = torch.cat([torch.from_numpy(task.train.labels), torch.zeros(1, dtype=torch.int64)])
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


def opacus_steps(task: Task, n_classes: int, *, is_ghost: bool) -> None:
    """Cell after cell of one seed, each batch at once, by hooks or by ghost clipping."""
    import torch

    inputs, targets = torch.from_numpy(task.train.inputs), torch.from_numpy(task.train.labels)
    for sigma in SIGMAS:
        model = torch.nn.Linear(SIZE, n_classes)
        adam = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        step = opacus_step(model, adam, RATE * len(inputs), is_ghost=is_ghost, sigma=sigma)
        for _ in range(STEPS):
            batch = (torch.rand(len(inputs)) < RATE).nonzero()[:, 0]
            step(inputs[batch], targets[batch])


@pytest.mark.parametrize("n_classes", [10, 100])
def test_steps_beside_three_rivals(benchmark: BenchmarkFixture, n_classes: int) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    task = stream(n_classes)[0]
    ways: dict[str, Callable[[], None]] = {
        "ours": lambda: our_steps(task, n_classes),
        "batched torch": lambda: batched_steps(task, n_classes),
        "Opacus' hooks": lambda: opacus_steps(task, n_classes, is_ghost=False),
        "Opacus' ghost clipping": lambda: opacus_steps(task, n_classes, is_ghost=True),
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
