"""Tasks of new classes, of a source, permuted or blurred, through a map that no record moves; draws with empty tasks."""

import math
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, engine, errors
from dpcl_core.data.dataset import Form, Source
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import accounting
from dpcl_core.privacy.statement import LIST_FROM_DATA, NOT_DP, guarantee_words, standing
from dpcl_core.scenarios import catalog, central
from dpcl_core.scenarios.catalog import Blurry, ClassIncremental, IBlurry, Permuted, SiBlurry, SourceIncremental, Split
from dpcl_core.scenarios.central import BLURRY_BY_COIN, PERMUTED_BY_COIN, open_stream
from dpcl_core.scenarios.stream import Examples, Table, TaskStream
from dpcl_core.spec import Cell, validated
from tests.data.making import put
from tests.scenarios.making import examples, five, records, table
from tests.support.asserting import refusal_of
from tests.support.tiers import quick

LABELS = st.lists(st.integers(0, 9), max_size=40)


def settings(tasks: int, classes_per_task: int | None = None) -> ClassIncremental:
    return ClassIncremental(tasks=tasks, classes_per_task=classes_per_task)


def order(seed: int, n_classes: int = 10) -> tuple[int, ...]:
    """The order of classes: with as many tasks as classes, each task has one."""
    return tuple(task.prior[0] for task in open_stream(settings(n_classes), table([], [], n_classes), seed).tasks)


def test_a_case_counted_by_hand() -> None:
    stream = open_stream(settings(2), table([0, 1, 1, 2, 3, 3, 3], [3, 2, 1, 0], 4), seed=0)
    assert sorted(label for task in stream.tasks for label in task.prior) == [0, 1, 2, 3]
    sizes = {0: 1, 1: 2, 2: 1, 3: 3}
    for index, task in enumerate(stream.tasks):
        assert (task.index, task.name, task.task_id, len(task.prior)) == (index, f"task {index + 1}", None, 2)
        assert len(task.train) == sum(sizes[label] for label in task.prior)
        assert sorted(task.test.labels) == list(task.prior)
        rows = {0: [0], 1: [1, 2], 2: [3], 3: [4, 5, 6]}
        assert task.train.inputs[:, 0].tolist() == sorted(row for label in task.prior for row in rows[label])
    assert (stream.recurrence, stream.unit, stream.classes) == ("once", "example", ("c0", "c1", "c2", "c3"))


@given(LABELS, LABELS, st.sampled_from([1, 2, 5, 10]), st.integers(0, 2**32 - 1))
def test_every_record_is_in_one_task_that_lists_its_class(train: list[int], test: list[int], tasks: int, seed: int) -> None:
    stream = open_stream(settings(tasks), table(train, test, 10), seed)
    assert sorted(label for task in stream.tasks for label in task.prior) == list(range(10))
    assert sorted(record for task in stream.tasks for record in records(task)) == list(enumerate(train))
    assert sum(len(task.test) for task in stream.tasks) == len(test)
    for task in stream.tasks:
        assert set(task.train.labels.tolist()) | set(task.test.labels.tolist()) <= set(task.prior)


@given(LABELS, st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_one_record_more_changes_one_task_by_that_record(labels: list[int], new: int, seed: int) -> None:
    before = open_stream(settings(5), table(labels, [], 10), seed)
    after = open_stream(settings(5), table([*labels, new], [], 10), seed)
    changes = [records(b) ^ records(a) for b, a in zip(before.tasks, after.tasks, strict=True)]
    assert [change for change in changes if change] == [{(len(labels), new)}]
    assert [task.prior for task in before.tasks] == [task.prior for task in after.tasks]


def test_the_order_is_the_seeds_own_and_repeats() -> None:
    orders = [order(seed) for seed in range(200)]
    assert orders == [order(seed) for seed in range(200)]
    assert all(sorted(found) == list(range(10)) for found in orders)
    assert len(set(orders)) == 200
    bare = [tuple(np.random.default_rng(seed).permutation(10).tolist()) for seed in range(200)]
    assert not any(a == b for a, b in zip(orders, bare, strict=True))  # whoever seeds with the bare number draws others


def test_every_class_comes_first_equally_often() -> None:
    """A chi-square of 9 degrees of freedom exceeds 27.9 once in a thousand; a fixed order gives 18,000."""
    assert ((np.bincount([order(seed)[0] for seed in range(2000)], minlength=10) - 200) ** 2 / 200).sum() < 27.9


def test_fewer_tasks_are_a_coarser_cut_of_the_same_order() -> None:
    fine, coarse = (open_stream(settings(tasks), table([], [], 10), 7).tasks for tasks in (10, 5))
    for index, task in enumerate(coarse):
        assert set(task.prior) == {*fine[2 * index].prior, *fine[2 * index + 1].prior}


def test_classes_per_task_leaves_the_rest_out() -> None:
    whole = open_stream(settings(5), table(range(10), range(10), 10), 11)
    part = open_stream(settings(3, 2), table(range(10), range(10), 10), 11)
    assert [task.prior for task in part.tasks] == [task.prior for task in whole.tasks[:3]]
    assert (sum(len(task.train) for task in part.tasks), len(part.classes)) == (6, 10)


def test_users_travel_with_their_records() -> None:
    people = replace(examples([0, 1, 0, 1]), users=np.array([7, 8, 7, 9]))
    stream = open_stream(settings(2), replace(table([0, 1, 0, 1], [], 2), train=people), 0)
    assert {task.prior[0]: task.train.users.tolist() for task in stream.tasks} == {0: [7, 7], 1: [8, 9]}  # type: ignore[union-attr]


@given(st.integers(1, 12), st.none() | st.integers(1, 12), st.integers(1, 12))
def test_what_check_allows_opens_with_so_many_tasks(tasks: int, per_task: int | None, n_classes: int) -> None:
    chosen = settings(tasks, per_task)
    try:
        count = catalog.number_of_tasks(chosen, n_classes, ())
    except errors.BadInput:
        fits = tasks * (per_task or 1) <= n_classes and (per_task is not None or n_classes % tasks == 0)
        assert not fits
        return
    stream = open_stream(chosen, table([], [], n_classes), 1)
    assert len(stream.tasks) == count == tasks
    assert len({len(task.prior) for task in stream.tasks}) == 1
    assert all(a != b for task in stream.tasks for a, b in pairwise(task.prior))


# Split: the classes in their own order, the same for every seed, learned in any order of tasks.


def test_the_classes_are_cut_in_their_own_order_whatever_the_seed() -> None:
    for seed in (0, 1, 99):
        stream = open_stream(Split(tasks=5), table([0, 1, 9, 4], [1, 2, 3, 9], 10), seed)
        assert [task.prior for task in stream.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
        assert [task.name for task in stream.tasks] == [f"task {k}" for k in range(1, 6)]
        assert [sorted(records(task)) for task in stream.tasks] == [[(0, 0), (1, 1)], [], [(3, 4)], [], [(2, 9)]]
        assert [task.test.labels.tolist() for task in stream.tasks] == [[1], [2, 3], [], [], [9]]
        assert (stream.recurrence, stream.unit, stream.assumed) == ("once", "example", ())


def test_classes_per_task_leaves_the_last_out() -> None:
    stream = open_stream(Split(tasks=2, classes_per_task=3), table(range(10), [], 10), 0)
    assert [task.prior for task in stream.tasks] == [(0, 1, 2), (3, 4, 5)]


# Source-incremental: each source is a task, in the order given or the seed's own, with the labels it is known to have.


NAMES = ("A", "B", "C", "D", "E")


def names(seed: int, order: tuple[str, ...] | None = None) -> tuple[str, ...]:
    return tuple(task.name for task in open_stream(SourceIncremental(order=order), five(), seed).tasks)


def test_sources_counted_by_hand() -> None:
    stream = open_stream(SourceIncremental(order=("C", "A")), five(), seed=0)
    assert [(task.index, task.name, task.prior) for task in stream.tasks] == [(0, "C", (4, 5)), (1, "A", (0, 1))]
    assert [task.train.inputs[:, 0].tolist() for task in stream.tasks] == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert stream.tasks[0].test.inputs[:, 0].tolist() == [1008, 1009, 1010, 1011]
    assert [task.train.labels.tolist() for task in stream.tasks] == [[4, 4, 5, 5], [0, 0, 1, 1]]
    assert (stream.recurrence, stream.unit, len(stream.classes)) == ("once", "example", 10)


def test_all_120_orders_are_drawn_by_some_seed_and_each_about_as_often() -> None:
    """4,000 seeds over 120 orders: chi-square of 119 degrees of freedom exceeds 175 once in two thousand."""
    drawn = [names(seed) for seed in range(4000)]
    counts = np.array([drawn.count(order) for order in permutations(NAMES)])
    assert counts.min() > 0
    assert ((counts - 4000 / 120) ** 2 / (4000 / 120)).sum() < 175
    assert names(5) == drawn[5]


def test_a_source_without_records_keeps_its_place_and_its_labels() -> None:
    given = five()
    empty = given.train.take(np.array([], dtype=np.int64))
    stream = open_stream(SourceIncremental(order=NAMES), replace(given, train=empty, train_sources=np.array([], int)), 0)
    assert [len(task.train) for task in stream.tasks] == [0] * 5
    assert [task.prior for task in stream.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def test_styles_share_all_classes() -> None:
    given = replace(five(), sources=tuple(Source(name, tuple(range(10))) for name in NAMES))
    assert {task.prior for task in open_stream(SourceIncremental(), given, 0).tasks} == {tuple(range(10))}


# Permuted: every task has the same records, or a part of them, with their values in one order that is a permutation.


COLOUR = Form((3, 4, 3), 0.0, 1.0)


def made(n: int = 12, form: Form | None = COLOUR, n_test: int = 4) -> Table:
    """Records whose values say which record and which place they are: record i has 1000 i + k at place k."""
    size = 0 if form is None else int(np.prod(form.shape))

    def examples(n: int, first: int) -> Examples:
        values = 1000.0 * (first + np.arange(n))[:, None] + np.arange(size)
        return Examples(values.astype(np.float32), np.arange(n, dtype=np.int64) % 3)

    return Table(examples(n, 0), examples(n_test, 100), ("a", "b", "c"), form=form)


def value_orders(settings: Permuted, table: Table, seed: int = 0) -> list[list[int]]:
    """The order of values of every task, read off its first test example, which is record 100."""
    return [(task.test.inputs[0] - 100_000).astype(int).tolist() for task in open_stream(settings, table, seed).tasks]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["pixels", "values"]), st.sampled_from(["same", "disjoint"]))
def test_every_task_reorders_all_its_examples_by_one_permutation(seed: int, of: str, images: str) -> None:
    settings, table = validated(Permuted, {"tasks": 4, "of": of, "images": images}), made()
    for task, order in zip(open_stream(settings, table, seed).tasks, value_orders(settings, table, seed), strict=True):
        assert sorted(order) == list(range(36))
        for split in (task.train, task.test):
            assert (split.inputs % 1000).astype(int).tolist() == [order] * len(split)
            assert split.inputs.flags.c_contiguous
        assert task.prior == (0, 1, 2)
        assert np.shares_memory(task.train.table, table.train.table), "the table is not copied"


def test_pixels_keep_their_channels_together_and_values_do_not() -> None:
    for order in value_orders(Permuted(tasks=5, of="pixels"), made()):
        pixels = np.reshape(order, (12, 3))
        assert (pixels == pixels[:, :1] + np.arange(3)).all()
        assert (pixels % 3 == np.arange(3)).all()
    mixed = [np.reshape(order, (12, 3)) for order in value_orders(Permuted(tasks=5, of="values"), made())]
    assert not any((pixels % 3 == np.arange(3)).all() for pixels in mixed)  # by chance in fewer than one of 10^9 draws


def test_permutations_are_each_seeds_and_each_tasks_own_and_fewer_tasks_are_the_beginning() -> None:
    table = made()
    drawn = [tuple(order) for seed in range(5) for order in value_orders(Permuted(tasks=6), table, seed)]
    assert len(set(drawn)) == 30
    assert drawn[:6] == [tuple(order) for order in value_orders(Permuted(tasks=6), table, 0)]
    assert drawn[:2] == [tuple(order) for order in value_orders(Permuted(tasks=2), table, 0)]


def test_a_value_goes_to_every_place_equally_often() -> None:
    """2400 draws over 12 places: chi-square of 11 degrees of freedom exceeds 51 with probability 4e-7 by chance."""
    grey = made(form=Form((3, 4, 1), 0.0, 1.0))
    found = [order.index(0) for seed in range(24) for order in value_orders(Permuted(tasks=100), grey, seed)]
    assert ((np.bincount(found, minlength=12) - 200) ** 2 / 200).sum() < 51


@pytest.mark.parametrize(("chosen", "of"), [
    (Split(tasks=5), table(list(range(10)) * 2, range(10), 10)), (Permuted(tasks=5, images="disjoint"), made()),
], ids=["split", "permuted"])
@given(order=st.permutations(range(1, 6)))
def test_an_order_changes_when_a_task_comes_and_nothing_else(chosen: Split | Permuted, of: Table, order: list[int]) -> None:
    """Parts and permutations move with their task."""
    plain = {task.name: task for task in open_stream(chosen, of, 3).tasks}
    ordered = open_stream(replace(chosen, order=tuple(order)), of, 3).tasks
    assert [(task.index, task.name) for task in ordered] == [(k, f"task {number}") for k, number in enumerate(order)]
    for task in ordered:
        assert task.prior == plain[task.name].prior
        for split, before in ((task.train, plain[task.name].train), (task.test, plain[task.name].test)):
            assert (split.inputs.tolist(), split.labels.tolist()) == (before.inputs.tolist(), before.labels.tolist())


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
    assert ((np.array([len(task.train) for task in stream.tasks]) - 2000) ** 2 / 2000).sum() < 33


def test_same_images_come_again_in_every_task() -> None:
    stream = open_stream(Permuted(tasks=3), made(), 1)
    assert (stream.recurrence, Permuted().recurrence) == ("every", "every")
    assert PERMUTED_BY_COIN not in stream.assumed
    assert [len(task.train) for task in stream.tasks] == [12, 12, 12]


def test_permutations_of_ones_own_are_used_as_written() -> None:
    grey = made(form=Form((2, 2, 1), 0.0, 1.0))
    wanted = ((0, 1, 2, 3), (3, 2, 1, 0))
    assert value_orders(Permuted(tasks=2, permutations=wanted), grey) == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert value_orders(Permuted(tasks=2, permutations=wanted, order=(2, 1)), grey) == [[3, 2, 1, 0], [0, 1, 2, 3]]


def raw_spec(**changes: object) -> dict[str, object]:
    data = {"dataset": "digits", "backbone": "pixels", "train_per_class": 30}
    permuted, privacy = {"kind": "permuted", "tasks": 3}, {"epsilons": [1.0], "delta": 1e-4}
    return {"data": data, "scenario": permuted, "privacy": privacy, "seeds": [0], **changes}


def test_features_of_a_network_cannot_be_permuted() -> None:
    network, film = {"dataset": "digits", "backbone": "convnext-cifar100"}, {"adapter": "film"}
    for changes, field in (({"data": network}, "data.backbone"), ({"method": "naive", "params": film}, "params.adapter")):
        assert refusal_of(checks.check_run, checks.parse(raw_spec(**changes))).field == field


@pytest.mark.parametrize("labels", quick(1, ["prior", "prior-const", "dp-learned"]))
@pytest.mark.parametrize("method", quick(2, ["cosine", "peft-ensemble", "non-cl", "naive"]))
def test_a_person_in_every_task_is_accounted_for_all_of_them(method: str, labels: str) -> None:
    """Epsilon after task k is that of k uses under the same images, that of one use under disjoint ones."""
    if method == "naive" and labels != "prior-const":
        return
    params = {} if method == "cosine" else {"epochs": 1, "sample_rate": 0.5}
    found = {}
    for images in ("same", "disjoint"):
        scenario = {"kind": "permuted", "tasks": 3, "images": images}
        events = list(engine.run(checks.parse(raw_spec(method=method, params=params, labels=labels, scenario=scenario))))
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


# Blurred tasks: each example in one task, home shares and sizes as counted by hand, and draws with empty tasks.


SEVEN_LABELS = st.lists(st.integers(0, 6), max_size=60)
SETTINGS = st.builds(
    lambda kind, **rest: kind(**rest),
    st.sampled_from([IBlurry, SiBlurry]),
    tasks=st.integers(1, 7),
    disjoint_percent=st.integers(0, 100),
    blurry_percent=st.integers(0, 100),
    task_prior=st.sampled_from(["home", "occurring"]),
)


def balanced(n_classes: int, per_class: int) -> Table:
    return table(np.repeat(np.arange(n_classes), per_class).tolist(), list(range(n_classes)), n_classes)


def counts(stream: TaskStream) -> np.ndarray:
    """Training examples [tasks, classes]."""
    return np.array([np.bincount(task.train.labels.astype(np.intp), minlength=len(stream.classes)) for task in stream.tasks])


def test_a_blurred_case_counted_by_hand() -> None:
    """Four classes of 1,000, two tasks: one disjoint and one blurry class each; of the latter a fifth is elsewhere."""
    stream = central.open_stream(IBlurry(tasks=2, disjoint_percent=50, blurry_percent=40), balanced(4, 1000), seed=3)
    found = counts(stream)
    for task, row, other in zip(stream.tasks, found, found[::-1], strict=True):
        assert len(task.prior) == len(task.test) == 2
        assert sorted(task.test.labels) == list(task.prior)
        disjoint, home = sorted(task.prior, key=lambda label: -row[label])
        assert (row[disjoint], other[disjoint]) == (1000, 0)
        assert abs(other[home] - 200) < 76, "six standard deviations of a binomial of 1,000 at 0.4 / 2"
        assert other[home] == 1000 - row[home]
    assert (stream.recurrence, stream.unit) == ("once", "example")
    assert stream.assumed == (central.BLURRY_BY_COIN,)


def test_an_odd_number_of_classes_keeps_every_class() -> None:
    """Seven classes, three tasks, half disjoint: three are (one a task), four are blurry with homes 2, 1, 1."""
    stream = central.open_stream(IBlurry(tasks=3, blurry_percent=0), balanced(7, 4), seed=0)
    assert [len(task.prior) for task in stream.tasks] == [3, 2, 2]
    assert sorted(label for task in stream.tasks for label in task.prior) == list(range(7))
    assert [len(task.train) for task in stream.tasks] == [12, 8, 8]


@pytest.mark.parametrize(("tasks", "blurry_percent", "share"), [(10, 10, 0.91), (5, 30, 0.76), (5, 50, 0.60)])
def test_sizes_and_home_shares_of_the_published_streams(tasks: int, blurry_percent: int, share: float) -> None:
    """Of 50 classes of 200 the share that stays has a standard error below 0.005; sizes vary as binomials."""
    stream = central.open_stream(IBlurry(tasks=tasks, blurry_percent=blurry_percent), balanced(100, 200), seed=1)
    found = counts(stream)
    strays = 10_000 * blurry_percent / 100
    assert max(abs(len(task.train) - 20_000 // tasks) for task in stream.tasks) < 6 * np.sqrt(2 * strays / tasks)
    blurred = np.flatnonzero((found > 0).sum(axis=0) > 1)
    assert len(blurred) == 50
    assert found.max(axis=0)[blurred].mean() / 200 == pytest.approx(share, abs=0.02)
    assert share == pytest.approx(1 - blurry_percent / 100 + blurry_percent / 100 / tasks)


def test_all_classes_disjoint_is_the_class_incremental_split() -> None:
    given_table = balanced(10, 3)
    plain = central.open_stream(ClassIncremental(tasks=5), given_table, 7)
    for percent in (0, 100):  # of no examples
        found = central.open_stream(IBlurry(tasks=5, disjoint_percent=100, blurry_percent=percent), given_table, 7)
        assert [task.prior for task in found.tasks] == [task.prior for task in plain.tasks]
        assert [records(task) for task in found.tasks] == [records(task) for task in plain.tasks]
    uneven = central.open_stream(IBlurry(tasks=3, disjoint_percent=100, blurry_percent=100), given_table, 7)
    assert [len(task.prior) for task in uneven.tasks] == [4, 3, 3]
    assert ((counts(uneven) > 0).sum(axis=0) == 1).all(), "also a class that is left over stays in one task"


def test_everything_blurred_spreads_every_class_evenly() -> None:
    """Each of 25 counts is binomial around 200; six standard deviations (12.6) are passed once in 10^8."""
    found = counts(central.open_stream(IBlurry(tasks=5, disjoint_percent=0, blurry_percent=100), balanced(5, 1000), seed=2))
    assert np.abs(found - 200).max() < 76
    assert np.abs(found.sum(axis=1) - 1000).max() < 170


def test_strays_are_drawn_at_random_and_not_from_the_front_of_the_file() -> None:
    """750 or so of a class's 1,000 rows end at home; their mean row is 499.5 with standard error 5.3, else it is 583."""
    stream = central.open_stream(IBlurry(tasks=2, disjoint_percent=0, blurry_percent=50), balanced(2, 1000), seed=5)
    for task in stream.tasks:
        rows = task.train.inputs[task.train.labels == task.prior[0], 0] % 1000
        assert 650 < len(rows) < 850
        assert abs(float(rows.mean()) - 499.5) < 32


@given(SEVEN_LABELS, SEVEN_LABELS, SETTINGS, st.integers(0, 2**32 - 1))
def test_every_example_is_in_exactly_one_task(train: list[int], test: list[int], settings: Blurry, seed: int) -> None:
    stream = central.open_stream(settings, table(train, test, 7), seed)
    assert len(stream.tasks) == settings.tasks
    assert sorted(record for task in stream.tasks for record in records(task)) == list(enumerate(train))
    assert sorted(int(row) for task in stream.tasks for row in task.test.inputs[:, 0]) == list(range(1000, 1000 + len(test)))
    for task in stream.tasks:
        assert (np.diff(task.train.inputs[:, 0]) > 0).all(), "in the order of the file"
        if settings.task_prior == "occurring":
            assert task.prior == tuple(sorted(set(task.train.labels.tolist())))
    again = central.open_stream(settings, table(train, test, 7), seed)
    assert [records(task) for task in again.tasks] == [records(task) for task in stream.tasks]


@given(st.sampled_from([IBlurry, SiBlurry]), st.integers(1, 7), st.integers(0, 100), SEVEN_LABELS, st.integers(0, 2**32 - 1))
def test_home_priors_are_a_map_that_no_record_changes(
    kind: type[IBlurry | SiBlurry], tasks: int, percent: int, labels: list[int], seed: int
) -> None:
    settings = kind(tasks=tasks, disjoint_percent=percent)
    streams = [central.open_stream(settings, table(given_labels, [], 7), seed) for given_labels in (labels, [])]
    priors = [[task.prior for task in stream.tasks] for stream in streams]
    assert priors[0] == priors[1]
    assert sorted(label for prior in priors[0] for label in prior) == list(range(7))


def test_random_cuts_give_tasks_of_many_sizes_with_the_right_mean() -> None:
    """400 draws of 5 tasks over 1,000 examples: sizes average 200 always and spread; every place is cut about as often."""
    streams = [central.open_stream(SiBlurry(), balanced(20, 50), seed) for seed in range(400)]
    sizes = np.array([[len(task.train) for task in stream.tasks] for stream in streams])
    assert (sizes.sum(axis=1) == 1000).all()
    # Each task's share is a mixture with standard deviation below 0.17, so its mean over 400 draws has one below 8.5.
    assert np.abs(sizes.mean(axis=0) - 200).max() < 43
    assert sizes.std() > 60


# A blurred stream whose first task is empty goes through the engine whole, whatever the labels come from.


SEED = 24  # of the digits in 8 tasks: training examples 0 508 122 265 6 271 172 3, and the 1st, 5th, 8th are not tested


@pytest.mark.parametrize(
    ("labels", "task_prior"), [("prior-const", "home"), ("prior", "home"), ("prior", "occurring"), ("data", "home")]
)
def test_a_stream_with_empty_tasks_runs_through(labels: str, task_prior: str, home: Path) -> None:
    data, scenario = {"dataset": "digits", "backbone": "pixels"}, {"kind": "si-blurry", "tasks": 8, "task_prior": task_prior}
    privacy = {"epsilons": [1.0, math.inf]}
    spec = checks.parse({"labels": labels, "data": data, "scenario": scenario, "privacy": privacy, "seeds": [SEED]})
    events = list(engine.run(spec))
    points = {(event.cell, event.task): event for event in events if isinstance(event, TaskLearned)}
    first, last = points[Cell(math.inf, SEED), 0], points[Cell(math.inf, SEED), 7]
    assert (first.accuracy, first.pooled) == ((None,), None)
    assert [value is None for value in last.accuracy] == [True, False, False, False, True, False, False, True]
    finished = [event for event in events if isinstance(event, CellFinished)]
    assert [event.cell.epsilon for event in finished] == [1.0, math.inf]
    for event in finished:
        found = event.metrics["AA"]
        assert found is not None
        assert 0 < found <= 1
        assert BLURRY_BY_COIN in guarantee_words(event.guarantee).assumptions
        assert not any("public rule" in text for text in event.guarantee.assumptions)
    bound = finished[0].guarantee.epsilon
    assert math.isinf(bound) if spec.reads_labels else bound == pytest.approx(1.0, rel=2e-5)


ROWS = "".join(f"{place}.5,{place % 5},{'abc'[place % 3]}\n" for place in range(120))
TEST = "".join(f"{place}.25,{place % 3},{'abcd'[place % 4]}\n" for place in range(40))


@pytest.mark.parametrize(
    ("method", "params"), [("cosine", {}), ("dp-coeff-memory", {"steps": 2}), ("non-cl", {"epochs": 1})]
)
def test_a_list_of_the_labels_that_occur_has_no_bound(
    method: str, params: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more person has a label of their own, which a task's list then shows."""
    given = {}
    for name, more in (("without", ""), ("with", "7.5,1,d\n")):
        monkeypatch.setenv("DPCL_HOME", str(tmp_path / name))
        for part, rows in (("train", ROWS + more), ("test", TEST)):
            put(tmp_path / name / "data" / "mine" / f"{part}.csv", "x,y,label\n" + rows)
        for labels in ("prior", "prior-const"):
            spec = checks.parse({
                "method": method, "params": params, "labels": labels, "data": {"dataset": "own:mine", "backbone": "pixels"},
                "scenario": {"kind": "i-blurry", "tasks": 2, "disjoint_percent": 0, "task_prior": "occurring"},
                "privacy": {"epsilons": [1.0]}, "seeds": [0],
            })  # fmt: skip
            (given[name, labels],) = [event.guarantee for event in engine.run(spec) if isinstance(event, CellFinished)]
            assert methods.standing(spec) == standing(given[name, labels])
    for labels in ("prior", "prior-const"):
        assert given["without", labels] == given["with", labels]
    read, public = guarantee_words(given["with", "prior"]), guarantee_words(given["with", "prior-const"])
    assert (read.is_private, public.is_private) == (False, True)
    assert read.banner == NOT_DP.format(reason=LIST_FROM_DATA)
    assert not [text for text in read.assumptions if "list of labels" in text]
    assert given["with", "prior"].composition == given["with", "prior-const"].composition
