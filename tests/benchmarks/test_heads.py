"""Heads of an ensemble beside the same cells trained as Opacus' tutorial does, in one run (`make bench`)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features.peft_ensemble import EnsembleParams
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import PrivacySpec, RunSpec
from tests.benchmarks.conftest import NOISE

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


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@pytest.mark.parametrize("n_classes", [10, 100])
def test_an_ensemble_of_heads(benchmark: BenchmarkFixture, n_classes: int) -> None:
    """150 cells in less than 20 s, and at least fifty times as fast as the tutorial trains them, its searches included."""
    found: dict[str, float] = {}

    def race() -> None:
        before = [tutorial(n_classes, each) for each in EPSILONS]
        found["ours"] = seconds(lambda: ours(n_classes))
        searches, steps = zip(*before, *(tutorial(n_classes, each) for each in EPSILONS), strict=True)
        each = N_TASKS * N_SEEDS / 2  # cells that one of the six stands for
        found.update(searches=each * sum(searches), steps=each * sum(steps))

    benchmark.pedantic(race, rounds=1)
    whole, steps = (found["searches"] + found["steps"]) / found["ours"], found["steps"] / found["ours"]
    benchmark.extra_info.update(found, whole=whole, steps_alone=steps)
    print(f"\n{n_classes} classes: {found}: {whole:.0f}x, steps alone {steps:.0f}x")
    assert found["ours"] < 20 * NOISE
    assert whole > 50
