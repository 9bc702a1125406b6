"""The examples tuned on: those of one task, 70:30, nothing twice, and none of the test examples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.data import load
from dpcl_core.data.dataset import Dataset, Images, Source, Split
from dpcl_core.methods.common.method import of_spec
from dpcl_core.spec import DataSpec, RunSpec
from dpcl_core.tuning import search, settings
from dpcl_core.tuning.settings import TuneSpec

DIGITS = load.load_dataset(DataSpec(dataset="digits"))


def a_base(seed: int = 0, tasks: int = 5) -> RunSpec:
    scenario = {"kind": "class-incremental", "tasks": tasks}
    return checks.parse({"method": "naive", "privacy": {"epsilons": [1.0]}, "seeds": [seed], "scenario": scenario})


@pytest.mark.parametrize("seed", [0, 7])
def test_the_examples_are_those_of_the_seeds_first_task_split_seventy_to_thirty(seed: int) -> None:
    found = search.tuning_split(TuneSpec(base=a_base(seed), on="private"), DIGITS)
    both = np.concatenate([found.train, found.held_out])
    labels = DIGITS.train.labels
    assert len(set(both.tolist())) == len(both)
    assert len(found.train) == settings.n_train_of(len(both))
    assert sorted(both) == sorted(np.flatnonzero(np.isin(labels, found.prior)))  # the whole task, and nothing else
    assert len(found.prior) == 2
    again = search.tuning_split(TuneSpec(base=a_base(seed), on="private"), DIGITS)
    assert (again.train == found.train).all()


def test_another_seed_tunes_on_another_task() -> None:
    first, second = (search.tuning_split(TuneSpec(base=a_base(seed), on="private"), DIGITS) for seed in (0, 1))
    assert first.prior != second.prior


def test_the_held_out_examples_are_drawn_and_not_the_last_of_the_file() -> None:
    found = search.tuning_split(TuneSpec(base=a_base(), on="private"), DIGITS)
    assert found.held_out.min() < found.train.max()
    assert found.train.min() < found.held_out.max()


def test_a_public_stand_in_gives_no_more_examples_than_a_task_has() -> None:
    """The digits as stand-in for themselves, which `settings.check_search` would refuse: this room does not ask."""
    tune = TuneSpec(base=a_base(tasks=10), on="public", proxy="digits")
    found = search.tuning_split(tune, DIGITS)
    assert len(found.train) + len(found.held_out) == round(of_spec(tune.base).task_size)
    assert len(found.prior) == 2  # a task of one class would be no task


def test_of_a_combined_dataset_a_tenth_of_a_task_is_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    n_task = 1000
    combined = SimpleNamespace(members=("first", "second"))
    monkeypatch.setattr(search, "datasets", SimpleNamespace(card=lambda name: combined))
    monkeypatch.setattr(search, "of_spec", lambda spec: SimpleNamespace(task_size=float(n_task)))
    base = checks.parse(
        {"method": "naive", "privacy": {"epsilons": [1.0]}, "seeds": [0], "scenario": {"kind": "source-incremental"}}
    )
    labels = np.repeat(np.arange(4), n_task // 2)
    sources = labels // 2
    split = Split(DIGITS.train.images, labels, sources)
    dataset = Dataset("two", "two", tuple("abcd"), split, split, (Source("first", (0, 1)), Source("second", (2, 3))))
    found = search.tuning_split(TuneSpec(base=base, on="private"), dataset)
    assert (len(found.train), len(found.held_out)) == (100, 43)
    assert len(set(sources[np.concatenate([found.train, found.held_out])])) == 1


def test_a_tuning_never_asks_for_a_test_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every image that is computed is one of the training split: the test split's are forbidden to be read."""
    forbidden = DIGITS.test.images
    read: list[int] = []

    def watched(self: Images, rows: np.ndarray) -> Images:
        assert self is not forbidden
        read.append(len(rows))
        return take(self, rows)

    def digested(self: Images) -> str:
        assert self is not forbidden
        return digest(self)

    take, digest = Images.take, Images.digest
    monkeypatch.setattr(Images, "take", watched)
    monkeypatch.setattr(Images, "digest", digested)
    monkeypatch.setattr(load, "load_dataset", lambda data: DIGITS)
    steps = search.prepared(TuneSpec(base=a_base(), on="private"), "cpu")
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            sizes = ended.value.sizes
            break
    assert read[0] == sizes.n_tune + sizes.n_validation
