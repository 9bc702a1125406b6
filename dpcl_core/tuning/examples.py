"""The examples for tuning: those of one task, split 70:30. Test examples are never used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core import engine
from dpcl_core.data import catalog as datasets
from dpcl_core.data.dataset import Dataset
from dpcl_core.methods.common.public_sizes import of_spec
from dpcl_core.scenarios.stream import Examples, Table, generator
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import TuneSpec


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Indices int64 [n] into the training split of the searched dataset, and the public label list of their task."""

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    prior: tuple[int, ...]


def chosen(tune: TuneSpec, dataset: Dataset) -> Chosen:
    """The examples of the first task of the tuning's seed, shuffled by that seed, 70 % for training.

    "A set representative of one task" (Tobaben et al., appendix on tuning). For a combined dataset the training part is a
    tenth of a task; for a public dataset, at most as many examples as a task of the private one has.
    """
    spec = settings.searched(tune)
    task = engine.open_stream(spec, _places(dataset), tune.seed).tasks[0]
    order = generator(tune.seed, "tuning examples").permutation(len(task.train))
    wanted, task_size = len(order), of_spec(tune.base).task_size  # nominal and public: tasks count as equal
    if datasets.card(tune.base.data.dataset).members:
        wanted = round(settings.COMBINED_SHARE * task_size)
    elif tune.on == "public":
        wanted = round(task_size)
    places = task.train.take(order[:wanted]).inputs[:, 0].astype(np.int64)
    n_train = settings.n_train_of(len(places))
    return Chosen(places[:n_train], places[n_train:], task.prior)


def _places(dataset: Dataset) -> Table:
    """A table whose inputs are the indices of the training examples, without test examples."""
    train = dataset.train
    no_labels = np.empty(0, dtype=np.int64)
    return Table(
        train=Examples(np.arange(len(train))[:, None], train.labels, keys=train.keys),
        test=Examples(no_labels[:, None], no_labels),
        classes=dataset.classes,
        train_sources=train.sources,
        test_sources=None if train.sources is None else no_labels,
        sources=dataset.sources,
    )
