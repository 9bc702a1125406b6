"""Streams of random numbers of their own, and every scenario's module as its card says."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dpcl_core.data.load import load_dataset
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.central import open_stream
from dpcl_core.scenarios.stream import Examples, Table, generator
from dpcl_core.spec import DataSpec


def test_each_seed_and_purpose_has_numbers_of_its_own() -> None:
    pairs = [(seed, purpose) for seed in (0, 1, 2**32 - 1) for purpose in ("class order", "source order", "batches")]
    drawn = {pair: tuple(generator(*pair).integers(0, 2**62, 4)) for pair in pairs}
    assert len(set(drawn.values())) == len(pairs)
    assert drawn == {pair: tuple(generator(*pair).integers(0, 2**62, 4)) for pair in pairs}
    plain = tuple(np.random.default_rng(0).integers(0, 2**62, 4))
    assert plain not in drawn.values()  # not what a colleague gets who seeds with the bare number


@pytest.mark.parametrize("card", catalog.CARDS.values(), ids=lambda card: card.name)
def test_every_card_names_a_module_that_keeps_its_promises(card: catalog.ScenarioCard) -> None:
    module = import_module(card.module)
    assert callable(module.open_stream)
    assert callable(module.n_tasks)
    assert card.settings().kind == card.name  # type: ignore[call-arg]


def test_the_digits_in_five_tasks_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    digits = load_dataset(DataSpec(dataset="digits"))
    train, test = (
        Examples(np.asarray(split.images.content).reshape(len(split), 64), split.labels)
        for split in (digits.train, digits.test)
    )
    stream = open_stream(ClassIncremental(), Table(train, test, digits.classes, sources=digits.sources), 4)
    assert [len(task.prior) for task in stream.tasks] == [2] * 5
    assert sum(len(task.train) for task in stream.tasks) == 1347
    assert sum(len(task.test) for task in stream.tasks) == 450
    sizes = np.bincount(digits.train.labels.astype(np.intp))
    assert [len(task.train) for task in stream.tasks] == [int(sizes[list(task.prior)].sum()) for task in stream.tasks]


def test_scenarios_import_no_torch() -> None:
    program = ("import sys; from dpcl_core.scenarios import central; print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
