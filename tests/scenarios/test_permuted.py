"""Permuted: every task has the same records, or a part of them, with their values in one order that is a permutation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, engine
from dpcl_core.data.dataset import Form
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.privacy import accounting
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.central import PERMUTED_BY_COIN, open_stream
from dpcl_core.scenarios.stream import Examples, Table
from dpcl_core.spec import validated
from tests.support.asserting import refusal_of
from tests.support.tiers import quick

COLOUR = Form((3, 4, 3), 0.0, 1.0)


def made(n: int = 12, form: Form | None = COLOUR, n_test: int = 4) -> Table:
    """Records whose values say which record and which place they are: record i has 1000 i + k at place k."""
    size = 0 if form is None else int(np.prod(form.shape))

    def examples(n: int, first: int) -> Examples:
        values = 1000.0 * (first + np.arange(n))[:, None] + np.arange(size)
        return Examples(values.astype(np.float32), np.arange(n, dtype=np.int64) % 3)

    return Table(examples(n, 0), examples(n_test, 100), ("a", "b", "c"), form=form)


def orders(settings: Permuted, table: Table, seed: int = 0) -> list[list[int]]:
    """The order of values of every task, read off its first test example, which is record 100."""
    return [(task.test.inputs[0] - 100_000).astype(int).tolist() for task in open_stream(settings, table, seed).tasks]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["pixels", "values"]), st.sampled_from(["same", "disjoint"]))
def test_every_task_reorders_all_its_examples_by_one_permutation(seed: int, of: str, images: str) -> None:
    settings, table = validated(Permuted, {"tasks": 4, "of": of, "images": images}), made()
    stream = open_stream(settings, table, seed)
    for task, order in zip(stream.tasks, orders(settings, table, seed), strict=True):
        assert sorted(order) == list(range(36))
        for examples in (task.train, task.test):
            places = (examples.inputs % 1000).astype(int)
            assert places.tolist() == [order] * len(examples)
            assert examples.inputs.flags.c_contiguous
        assert task.prior == (0, 1, 2)
        assert np.shares_memory(task.train.table, table.train.table), "the table is not copied"


def test_pixels_keep_their_channels_together_and_values_do_not() -> None:
    for order in orders(Permuted(tasks=5, of="pixels"), made()):
        pixels = np.reshape(order, (12, 3))
        assert (pixels == pixels[:, :1] + np.arange(3)).all()
        assert (pixels % 3 == np.arange(3)).all()
    mixed = [np.reshape(order, (12, 3)) for order in orders(Permuted(tasks=5, of="values"), made())]
    assert not any((pixels % 3 == np.arange(3)).all() for pixels in mixed)  # by chance in fewer than one of 10^9 draws


def test_permutations_are_each_seeds_and_each_tasks_own_and_fewer_tasks_are_the_beginning() -> None:
    table = made()
    drawn = [tuple(order) for seed in range(5) for order in orders(Permuted(tasks=6), table, seed)]
    assert len(set(drawn)) == 30
    assert drawn[:6] == [tuple(order) for order in orders(Permuted(tasks=6), table, 0)]
    assert drawn[:2] == [tuple(order) for order in orders(Permuted(tasks=2), table, 0)]


def test_a_value_goes_to_every_place_equally_often() -> None:
    """2400 draws over 12 places: chi-square of 11 degrees of freedom exceeds 51 with probability 4e-7 by chance."""
    grey = made(form=Form((3, 4, 1), 0.0, 1.0))
    found = [order.index(0) for seed in range(24) for order in orders(Permuted(tasks=100), grey, seed)]
    counts = np.bincount(found, minlength=12)
    assert ((counts - 200) ** 2 / 200).sum() < 51


@given(st.permutations([1, 2, 3, 4]))
def test_an_order_of_tasks_moves_permutations_and_parts_with_their_task(order: list[int]) -> None:
    settings = Permuted(tasks=4, images="disjoint")
    plain = {task.name: task for task in open_stream(settings, made(), 3).tasks}
    ordered = open_stream(replace(settings, order=tuple(order)), made(), 3).tasks
    assert [task.name for task in ordered] == [f"task {number}" for number in order]
    for task in ordered:
        assert task.train.inputs.tolist() == plain[task.name].train.inputs.tolist()
        assert task.test.inputs.tolist() == plain[task.name].test.inputs.tolist()


def test_disjoint_tasks_share_no_record_and_leave_none_out() -> None:
    stream = open_stream(Permuted(tasks=5, images="disjoint"), made(n=23), 1)
    records = [sorted((task.train.inputs[:, 0] // 1000).astype(int).tolist()) for task in stream.tasks]
    assert sorted(record for part in records for record in part) == list(range(23))
    assert [len(task.test) for task in stream.tasks] == [4] * 5
    assert (stream.recurrence, Permuted(images="disjoint").recurrence) == ("once", "once")
    assert PERMUTED_BY_COIN in stream.assumed


def test_disjoint_tasks_are_about_equally_large() -> None:
    """10,000 records in five parts: chi-square of 4 degrees of freedom exceeds 33 with probability 1e-6."""
    stream = open_stream(Permuted(tasks=5, images="disjoint"), made(n=10_000), 1)
    sizes = np.array([len(task.train) for task in stream.tasks])
    assert ((sizes - 2000) ** 2 / 2000).sum() < 33


def test_same_images_come_again_in_every_task() -> None:
    stream = open_stream(Permuted(tasks=3), made(), 1)
    assert (stream.recurrence, Permuted().recurrence) == ("every", "every")
    assert PERMUTED_BY_COIN not in stream.assumed
    assert [len(task.train) for task in stream.tasks] == [12, 12, 12]


def test_permutations_of_ones_own_are_used_as_written() -> None:
    grey = made(form=Form((2, 2, 1), 0.0, 1.0))
    wanted = ((0, 1, 2, 3), (3, 2, 1, 0))
    assert orders(Permuted(tasks=2, permutations=wanted), grey) == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert orders(Permuted(tasks=2, permutations=wanted, order=(2, 1)), grey) == [[3, 2, 1, 0], [0, 1, 2, 3]]


def spec(**changes: object) -> dict[str, object]:
    return {
        "data": {"dataset": "digits", "backbone": "pixels", "train_per_class": 30},
        "scenario": {"kind": "permuted", "tasks": 3},
        "privacy": {"epsilons": [1.0], "delta": 1e-4},
        "seeds": [0],
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"data": {"dataset": "digits", "backbone": "convnext-cifar100"}}, "data.backbone"),
        ({"method": "naive", "params": {"adapter": "film"}}, "params.adapter"),
    ],
)
def test_features_of_a_network_cannot_be_permuted(changes: dict[str, object], field: str) -> None:
    assert refusal_of(lambda: checks.check_run(checks.parse(spec(**changes)))).field == field


@pytest.mark.parametrize("labels", quick(1, ["prior", "prior-const", "dp-learned"]))
@pytest.mark.parametrize("method", quick(2, ["cosine", "peft-ensemble", "non-cl", "naive"]))
def test_a_person_in_every_task_is_accounted_for_all_of_them(method: str, labels: str) -> None:
    """Epsilon after task k is that of k uses under the same images, that of one use under disjoint ones."""
    if method == "naive" and labels != "prior-const":
        return
    params = {} if method == "cosine" else {"epochs": 1, "sample_rate": 0.5}
    found = {}
    for images in ("same", "disjoint"):
        raw = spec(method=method, params=params, labels=labels, scenario={"kind": "permuted", "tasks": 3, "images": images})
        events = list(engine.run(checks.parse(raw)))
        found[images] = [event.epsilon for event in events if isinstance(event, TaskLearned)]
        (finished,) = [event for event in events if isinstance(event, CellFinished)]
        assert finished.guarantee.epsilon == found[images][-1]
        said = finished.guarantee.composition
        assert said.startswith("sequential") if images == "same" else not said.startswith("sequential")
        assert (PERMUTED_BY_COIN in finished.guarantee.assumptions) == (images == "disjoint")
    same, disjoint = found["same"], found["disjoint"]
    assert same[0] == pytest.approx(disjoint[0])
    assert same[0] < same[1] < same[2]
    if method == "cosine" and labels != "dp-learned":
        assert same == pytest.approx(accounting.in_every_task([1.0] * 3, 1e-4), rel=1e-3)
    if method != "non-cl":
        assert disjoint == pytest.approx([disjoint[0]] * 3)
        assert max(disjoint) <= 1 + 1e-6
