"""The examples tuned on: those of one task, 70:30, nothing twice, and none of the test examples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.backbones.extractor import result_of
from dpcl_core.data import load
from dpcl_core.data.dataset import Dataset, Images, Source, Split
from dpcl_core.methods.common.method import of_spec
from dpcl_core.spec import DataSpec, RunSpec
from dpcl_core.tuning import search, settings
from dpcl_core.tuning.settings import TuneSpec

pytestmark = pytest.mark.usefixtures("home")
DIGITS = load.load_dataset(DataSpec(dataset="digits"))


def a_base(seed: int = 0, tasks: int = 5) -> RunSpec:
    scenario = {"kind": "class-incremental", "tasks": tasks}
    return checks.parse({"method": "naive", "privacy": {"epsilons": [1.0]}, "seeds": [seed], "scenario": scenario})


def test_the_examples_are_those_of_the_seeds_first_task_split_seventy_to_thirty() -> None:
    priors = set()
    for seed in (0, 7):
        train, held_out, prior = search.tuning_split(TuneSpec(base=a_base(seed), on="private"), DIGITS)
        both = np.concatenate([train, held_out])
        assert len(set(both.tolist())) == len(both)
        assert len(train) == settings.n_train_of(len(both))
        assert sorted(both) == sorted(np.flatnonzero(np.isin(DIGITS.train.labels, prior)))  # the whole task, nothing else
        assert len(prior) == 2
        assert held_out.min() < train.max(), "drawn, and not the last of the file"
        assert train.min() < held_out.max()
        assert (search.tuning_split(TuneSpec(base=a_base(seed), on="private"), DIGITS)[0] == train).all()
        priors.add(prior)
    assert len(priors) == 2, "another seed tunes on another task"


def test_a_public_stand_in_gives_no_more_examples_than_a_task_has() -> None:
    """The digits as stand-in for themselves, which `settings.check_search` would refuse: this room does not ask."""
    tune = TuneSpec(base=a_base(tasks=10), on="public", proxy="digits")
    train, held_out, prior = search.tuning_split(tune, DIGITS)
    assert len(train) + len(held_out) == round(of_spec(tune.base).task_size)
    assert len(prior) == 2  # a task of one class would be no task


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
    train, held_out, _ = search.tuning_split(TuneSpec(base=base, on="private"), dataset)
    assert (len(train), len(held_out)) == (100, 43)
    assert len(set(sources[np.concatenate([train, held_out])])) == 1


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
    sizes = result_of(search.prepared(TuneSpec(base=a_base(), on="private"), "cpu")).sizes
    assert read[0] == sizes.n_tune + sizes.n_validation
