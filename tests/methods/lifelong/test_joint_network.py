"""Centralised training: the networks of table 4, when they learn, on what, and that they tell real activities apart."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from dpcl_core import checks, engine
from dpcl_core.data.dataset import Form
from dpcl_core.events import TaskLearned
from dpcl_core.methods.lifelong import joint_network, nets
from dpcl_core.methods.lifelong.joint_network import TITLES, JointNetwork, NetworkName
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec
from tests.methods.training import public_context, taught

CELL = Cell(math.inf, 0)
FORM = Form((100, 3), -1.0, 1.0)
SENSOR_NETS: tuple[NetworkName, ...] = tuple(name for name in TITLES if name != "lifelong")
N_CLASSES, PER_TASK, N_TASKS = 4, 12, 2
pytestmark = pytest.mark.usefixtures("home")


def spec(params: Mapping[str, object] | None = None, **changes: object) -> RunSpec:
    raw = {
        "method": "joint-network", "params": {"network": "cnn-32", "batch_size": 8, **(params or {})}, "seeds": [0],
        "data": {"dataset": "har-wisdm", "backbone": "pixels"}, "scenario": {"kind": "source-incremental"},
        "labels": "prior-const", "privacy": {"epsilons": [math.inf]},
    }  # fmt: skip
    return checks.parse({**raw, **changes})


def tasks() -> list[Task]:
    """Windows whose class is the frequency of their waves; the second task has other classes than the first."""
    labels = np.repeat(np.arange(N_CLASSES), PER_TASK // 2)
    phases = np.random.default_rng(0).uniform(0, 6, (len(labels), 1, 3))
    waves = np.sin(2 * np.pi * (3 + 8 * labels[:, None, None]) * np.arange(100)[None, :, None] / 100 + phases)
    table = waves.reshape(len(labels), 300).astype(np.float32)
    found = []
    for index in range(N_TASKS):
        rows = np.arange(index * PER_TASK, (index + 1) * PER_TASK)
        examples = Examples(table, labels[rows], rows=rows)
        found.append(Task(index, f"task {index + 1}", examples, examples, (2 * index, 2 * index + 1)))
    return found


def learner(run: RunSpec) -> JointNetwork:
    n_people = N_TASKS * PER_TASK
    context = public_context(300, N_CLASSES, n_people, N_TASKS, form=FORM)
    return JointNetwork(run, [CELL], context)


@pytest.mark.parametrize("network", SENSOR_NETS)
def test_each_network_reads_windows_and_depends_on_the_seed_alone(network: NetworkName) -> None:
    rows = np.random.default_rng(1).uniform(-1, 1, (5, 300)).astype(np.float32)
    state = torch.get_rng_state()
    one, same, other = (nets.build_named(network, FORM, N_CLASSES, seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"
    first = one.logits(rows, FORM)
    assert first.shape == (5, N_CLASSES)
    np.testing.assert_array_equal(first, same.logits(rows, FORM))
    assert np.abs(first - other.logits(rows, FORM)).max() > 1e-3


def convolutions(name: NetworkName) -> list[torch.nn.Conv1d]:
    return [layer for layer in nets.build_named(name, FORM, 5, 0).modules() if isinstance(layer, torch.nn.Conv1d)]


def test_convolutions_have_the_printed_channels() -> None:
    for channels in (32, 64, 128):
        name: NetworkName = f"cnn-{channels}"  # type: ignore[assignment]
        assert {layer.out_channels for layer in convolutions(name)} == {channels}
    (ignatov,) = convolutions("cnn-ig")
    assert (ignatov.out_channels, ignatov.kernel_size) == (196, (12,))


def test_statistics_are_those_that_numpy_counts() -> None:
    signals = np.random.default_rng(2).uniform(-1, 1, (4, 3, 100)).astype(np.float32)
    signals[3, 1] = 0.25  # an axis that does not move
    found = nets.statistics(torch.from_numpy(signals)).numpy()
    assert found.shape == (4, nets.N_STATISTICS)
    np.testing.assert_allclose(found[:, :3], signals.mean(axis=2), atol=1e-6)  # single precision, a hundred terms below one
    np.testing.assert_allclose(found[:, 3:6], signals.std(axis=2, ddof=1), atol=1e-6)
    np.testing.assert_allclose(found[:, 9], np.linalg.norm(signals, axis=1).mean(axis=1), atol=1e-6)
    for row in range(3):
        for axis in range(3):
            counts, _ = np.histogram(signals[row, axis], bins=10)
            shares = found[row, 10 + 10 * axis : 20 + 10 * axis]
            # A value on an edge may fall to either side of it: one of a hundred samples.
            np.testing.assert_allclose(shares, counts / 100, atol=0.0101)
            assert shares.sum() == pytest.approx(1)


def test_it_learns_all_tasks_after_the_last_and_charges_everyone() -> None:
    run, stream = learner(spec({"epochs": 60})), tasks()
    ledger = Ledger(1e-5, "add-remove", "once")
    assert list(run.learn({0: stream[0]}, {CELL: ledger})) == []
    assert run.scores(0, stream[0]) == {}
    assert run.released(CELL) == {}
    steps = list(run.learn({0: stream[1]}, {CELL: ledger}))
    assert [step.done for step in steps] == list(range(1, 60 * 3 + 1)), "24 windows in batches of 8, from public sizes"
    assert math.isinf(ledger.epsilon())
    for task in stream:
        scores = run.scores(0, task)["argmax"][0]
        assert (scores.argmax(axis=1) == task.test.labels).all()
        assert np.isfinite(scores).all(), "with one last layer all released classes compete"


def test_with_a_layer_for_each_task_only_its_classes_compete() -> None:
    asked, stream = spec({"head": "per-task", "epochs": 1}, labels="prior"), tasks()
    taught(run := learner(asked), asked, stream)
    for task in stream:
        finite = np.isfinite(run.scores(0, task)["argmax"][0])
        assert (finite == np.isin(np.arange(N_CLASSES), task.prior)).all()


def test_batches_use_every_example_once_before_any_twice() -> None:
    drawn = joint_network._batches(10, 4, np.random.default_rng(0))
    taken = np.concatenate([next(drawn) for _ in range(10)])
    assert Counter(taken.tolist()) == dict.fromkeys(range(10), 4)
    assert sorted(taken[:10].tolist()) == list(range(10))
    assert len(next(joint_network._batches(0, 4, np.random.default_rng(0)))) == 0


@pytest.mark.skipif(not os.environ.get("DPCL_DATA"), reason="needs DPCL_DATA")
def test_real_activities_are_told_apart() -> None:
    """A guess is right once in five times; four seeds that were tried ended between 55 and 68 %."""
    data = {"dataset": "har-wisdm", "backbone": "pixels", "train_per_class": 60, "test_per_class": 40}
    run = spec({"epochs": 15, "batch_size": 20}, data=data)
    last = [event for event in engine.run(run) if isinstance(event, TaskLearned)][-1]
    assert last.pooled is not None
    assert last.pooled > 0.4
