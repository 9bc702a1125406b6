"""What is drawn before a run is what the run will deal out; of a person's own data nothing is counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.data.load import load_dataset, read_labels
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as previews
from dpcl_core.scenarios import central
from dpcl_core.scenarios.catalog import Preview
from dpcl_core.scenarios.stream import Examples, Table
from tests.data.making import write_pair


def shown(dataset: Mapping[str, object], scenario: Mapping[str, object], seed: int = 0) -> Preview:
    spec = checks.parse({"data": dataset, "scenario": scenario, "seeds": [seed]})
    found = previews.preview(spec.data, spec.scenario, seed)
    assert found is not None
    return found


def counted(found: Preview) -> np.ndarray:
    assert found.counts is not None
    return found.counts


def test_the_digits_are_dealt_out_as_the_engine_will(data_dir: Path) -> None:
    spec = checks.parse({"data": {"dataset": "digits", "train_per_class": 40}, "scenario": {"kind": "i-blurry"}})
    digits = load_dataset(spec.data)
    train, test = (
        Examples(np.zeros((len(split), 1)), split.labels, keys=split.keys) for split in (digits.train, digits.test)
    )
    stream = central.open_stream(spec.scenario, Table(train, test, digits.classes), 7)
    found = previews.preview(spec.data, spec.scenario, 7)
    assert found is not None
    assert counted(found).tolist() == [np.bincount(task.train.labels, minlength=10).tolist() for task in stream.tasks]
    assert counted(found).sum() == len(digits.train)
    assert found.homes == tuple(task.prior for task in stream.tasks)
    assert previews.preview(spec.data, spec.scenario, 7) is found, "kept"


def test_homes_are_the_plan_even_where_the_lists_are_the_oracle_s(data_dir: Path) -> None:
    scenario = {"kind": "i-blurry", "blurry_percent": 100}
    plain, oracle = (shown({"dataset": "digits"}, {**scenario, "task_prior": kind}) for kind in ("home", "occurring"))
    assert plain.homes == oracle.homes
    assert all(len(home) == 2 for home in plain.homes)


def test_of_ones_own_data_there_is_a_plan_and_no_count(data_dir: Path) -> None:
    write_pair(data_dir / "mine", [0, 0, 0, 1, 2, 2], [0, 1, 2])
    found = shown({"dataset": "own:mine"}, {"kind": "class-incremental", "tasks": 3})
    assert found.counts is None
    assert sorted(label for home in found.homes for label in home) == [0, 1, 2]
    write_pair(data_dir / "mine", [0, 1, 1, 1, 1, 2], [0, 1, 2])  # other records, the same plan
    again = shown({"dataset": "own:mine"}, {"kind": "class-incremental", "tasks": 3})
    assert again.homes == found.homes


def test_sources_are_tasks_and_their_labels_are_numbered_as_loading_does(data_dir: Path) -> None:
    for name in ("mnist", "notmnist", "fashion_mnist", "cifar10", "mnist_m"):
        write_pair(data_dir / name, [*range(10), 3], list(range(10)))
    spec = checks.parse({"data": {"dataset": "5-datasets-mnist-m"}, "scenario": {"kind": "source-incremental"}})
    whole, column = load_dataset(spec.data), read_labels(spec.data, keyed=False)
    assert column is not None
    assert (column.classes, column.sources) == (whole.classes, whole.sources)
    for split, own in ((whole.train, column.train), (whole.test, column.test)):
        assert own.labels.tolist() == split.labels.tolist()
        assert own.sources is not None
        assert split.sources is not None
        assert own.sources.tolist() == split.sources.tolist()
    found = previews.preview(spec.data, spec.scenario, 1)
    assert found is not None
    train, test = (Examples(np.zeros((len(one.labels), 1)), one.labels) for one in (column.train, column.test))
    dealt = Table(train, test, whole.classes, column.train.sources, column.test.sources, whole.sources)
    assert found.tasks == tuple(task.name for task in central.open_stream(spec.scenario, dealt, 1).tasks)
    assert counted(found).sum(axis=1).tolist() == [11] * 5
    assert all(row[list(home)].sum() == 11 for row, home in zip(counted(found), found.homes, strict=True))


def test_a_dataset_elsewhere_has_none_and_a_stream_that_does_not_fit_says_why(data_dir: Path) -> None:
    elsewhere = checks.parse({"data": {"dataset": "cifar100"}, "scenario": {"kind": "i-blurry"}})
    assert previews.preview(elsewhere.data, elsewhere.scenario, 0) is None
    with pytest.raises(BadInput, match=r"^scenario\.tasks = 11: must be at most 10"):
        shown({"dataset": "digits"}, {"kind": "i-blurry", "tasks": 11})


def test_an_edited_file_is_counted_again(data_dir: Path) -> None:
    write_pair(data_dir / "mnist", [*range(10)], list(range(10)))
    before = shown({"dataset": "mnist"}, {"kind": "class-incremental"})
    write_pair(data_dir / "mnist", [*range(10), 4, 4], list(range(10)))
    after = shown({"dataset": "mnist"}, {"kind": "class-incremental"})
    assert counted(after).sum() - counted(before).sum() == 2


def test_what_clients_hold_is_counted_once_however_many_tasks_it_is_in(data_dir: Path) -> None:
    for protocol in ("class-incremental", "one-vs-rest"):
        found = shown({"dataset": "digits"}, {"kind": "federated", "clients": 12, "protocol": protocol})
        assert found.held is not None
        assert len(found.held) == 12
        assert found.held.min() > 0
        if protocol == "class-incremental":
            assert found.held.sum() == 1347
        else:
            assert found.classes[:2] == ("not 0", "0")
            assert found.held.sum() <= 1347 < counted(found).sum()
            asked, tasks = 2 * np.arange(10), np.arange(10)
            assert (counted(found)[tasks, asked] <= counted(found)[tasks, asked + 1]).all()
    plain = shown({"dataset": "digits"}, {"kind": "class-incremental"})
    assert plain.held is None
