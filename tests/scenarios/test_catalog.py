"""Scenarios by name: what is refused with field and mend; chance; what is drawn before a run; one class against the rest."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcl_core import checks, engine, errors
from dpcl_core.data.dataset import Form
from dpcl_core.data.load import load_dataset, read_labels
from dpcl_core.events import Classifier, TaskLearned, of_kind
from dpcl_core.scenarios import catalog, central
from dpcl_core.scenarios import catalog as previews
from dpcl_core.scenarios.catalog import ClassIncremental, OneVsRest, Permuted, Preview, SourceIncremental, chance, n_tested
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator
from tests.data.making import write_pair
from tests.scenarios.making import examples, five, table
from tests.support.asserting import includes, refusal_of, refuses

TEN = replace(five(40), n_people=400)  # classes of the sources A to E
BARE = table([label for label in range(10) for _ in range(40)], range(10), 10)
BY_DOMAIN = {"protocol": "domain-incremental", "clients": 8}
LISTS = (0, 1, 2, 3)


UNFIT: list[tuple[str, dict[str, Any], str, dict[str, object]]] = [
    *(
        (kind, {"tasks": 11}, "scenario.tasks", {"scenario.tasks": 10})
        for kind in ("class-incremental", "split", "i-blurry", "si-blurry", "federated", "one-vs-rest")
    ),
    ("class-incremental", {"tasks": 11, "classes_per_task": 1}, "scenario.tasks", {"scenario.tasks": 10}),
    ("class-incremental", {"tasks": 6, "classes_per_task": 2}, "scenario.tasks", {"scenario.tasks": 5}),
    ("class-incremental", {"tasks": 1, "classes_per_task": 11}, "scenario.classes_per_task", {}),
    ("class-incremental", {"tasks": 3}, "scenario.tasks", {"scenario.tasks": 2}),
    *(
        ("split", {"tasks": tasks, "order": order}, "scenario.order", {})
        for tasks, order in ((2, (1, 1)), (1, (0,)), (5, (5, 3)), (2, ()))
    ),
    *(("source-incremental", {"order": order}, "scenario.order", {}) for order in (("A", "F"), ("A", "B", "A"), ())),
    ("permuted", {"tasks": 2, "permutations": (LISTS,)}, "scenario.permutations", {}),
    ("permuted", {"tasks": 2, "permutations": (LISTS, (0, 1, 1, 3))}, "scenario.permutations of task 2", {}),
    ("permuted", {"tasks": 2, "permutations": ((1, 2, 3, 4), LISTS)}, "scenario.permutations of task 1", {}),
    ("permuted", {"tasks": 2, "permutations": ((0, -1, 2, 3), LISTS)}, "scenario.permutations of task 1", {}),
    ("federated", {"tasks": 3}, "scenario.tasks", {}),
    ("federated", {"order": ("c1", "c1")}, "scenario.order", {}),
    ("federated", {"order": ()}, "scenario.order", {}),
    ("federated", {"partition": "domain", "clients": 2}, "scenario.clients", {"scenario.clients": 5}),
    ("federated", {**BY_DOMAIN, "order": ("A", "z")}, "scenario.order", {}),
    ("federated", {**BY_DOMAIN, "tasks": 6}, "scenario.tasks", {"scenario.tasks": 5}),
]
WITHOUT_SOURCES: list[tuple[str, dict[str, Any], str, dict[str, object]]] = [
    ("source-incremental", {}, "scenario.kind", {"scenario": {"kind": "class-incremental"}}),
    ("federated", BY_DOMAIN, "scenario.protocol", {"scenario.protocol": "class-incremental"}),
    ("federated", {"partition": "domain"}, "scenario.partition", {"scenario.partition": "dirichlet"}),
]


@pytest.mark.parametrize(
    ("of", "kind", "given", "field", "mend"), [*((TEN, *row) for row in UNFIT), *((BARE, *row) for row in WITHOUT_SOURCES)]
)
def test_settings_that_do_not_fit(of: Table, kind: str, given: dict[str, Any], field: str, mend: dict[str, object]) -> None:
    chosen, names = catalog.card(kind).settings(**given), tuple(source.name for source in of.sources)
    for refuse in (lambda: catalog.number_of_tasks(chosen, 10, names), lambda: catalog.open_stream(chosen, of, 0)):
        refusal = refusal_of(refuse)
        assert (refusal.field, refusal.fix) == (field, mend)


@pytest.mark.parametrize(("kind", "settings", "of", "field", "said"), [
    ("federated", {"clients": 41}, BARE, "scenario.clients", "at most 40"),
    ("federated", {"clients": 500, "alpha": 0.01}, BARE, "scenario.clients", "at most 40"),
    ("federated", {"order": ("c1", "x")}, BARE, "scenario.order", "c0, c1, c2"),
    ("federated", {"partition": "domain", "clients": 60}, TEN, "scenario.clients", "80"),
    ("federated", {"protocol": "one-vs-rest", "clients": 1}, table([0] * 20, [0], 1), "scenario.protocol", "two"),
    ("one-vs-rest", {}, table([0], [0], 1), "scenario.kind", "two classes or more"),
    ("permuted", {"tasks": 1, "permutations": ((1, 0),)}, replace(BARE, form=Form((3, 4, 1), 0.0, 1.0)),
     "scenario.permutations of task 1", "12 in all"),
])  # fmt: skip
def test_what_only_the_examples_tell(kind: str, settings: dict[str, Any], of: Table, field: str, said: str) -> None:
    with pytest.raises(errors.BadInput, match=said) as caught:
        catalog.open_stream(catalog.card(kind).settings(**settings), of, 0)
    assert caught.value.field == field


def test_an_unknown_scenario_is_refused_naming_the_known() -> None:
    refusal = refusal_of(catalog.card, "fuzzy")
    assert refusal.field == "scenario.kind"
    includes(refusal.allowed, *catalog.CARDS)


# Streams of random numbers of their own, and every scenario's module as its card says.


def test_each_seed_and_purpose_has_numbers_of_its_own() -> None:
    pairs = [(seed, purpose) for seed in (0, 1, 2**32 - 1) for purpose in ("class order", "source order", "batches")]
    drawn = {pair: tuple(generator(*pair).integers(0, 2**62, 4)) for pair in pairs}
    assert len(set(drawn.values())) == len(pairs)
    assert drawn == {pair: tuple(generator(*pair).integers(0, 2**62, 4)) for pair in pairs}
    plain = tuple(np.random.default_rng(0).integers(0, 2**62, 4))
    assert plain not in drawn.values()  # not what a colleague gets who seeds with the bare number


# Chance in closed form, from test parts alone.


def stream(*tests: list[int], n_classes: int = 4, task_ids: bool = False) -> TaskStream:
    """Tasks that are tested on examples of these labels, all from one table."""
    whole = examples([label for test in tests for label in test])
    starts = np.cumsum([0, *map(len, tests)])
    tasks = []
    for k, test in enumerate(tests):
        tested = whole.take(np.arange(starts[k], starts[k + 1]))
        tasks.append(Task(k, f"task {k}", examples([]), tested, tuple(sorted(set(test))), k if task_ids else None))
    return TaskStream(tuple(tasks), tuple(f"c{label}" for label in range(n_classes)), "once")


@pytest.mark.parametrize("n_tasks", [1, 2, 5, 10])
def test_equally_frequent_classes_give_one_over_their_number_however_they_share_tasks(n_tasks: int) -> None:
    data = table([], [label for label in range(10) for _ in range(7)], 10)
    streams = [central.open_stream(ClassIncremental(tasks=n_tasks), data, seed) for seed in range(3)]
    assert chance(streams, range(10)) == pytest.approx(1 / 10)


def test_unequal_classes_give_the_share_of_the_most_frequent_one_with_each_task_counting_the_same() -> None:
    one = stream([0, 0, 0, 1], [2, 3])
    assert chance([one], range(4)) == pytest.approx((3 / 4) / 2)
    assert chance([one], (1, 2, 3)) == pytest.approx((1 / 2) / 2), "a label that cannot be answered does not count"
    assert chance([one], ()) == 0


def test_where_the_task_is_given_its_own_most_frequent_label_is_answered() -> None:
    labels = [0, 0, 0, 1], [2, 3]
    assert chance([stream(*labels)], range(4), is_task_given=True) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert chance([stream(*labels, task_ids=True)], range(4)) == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_no_answer_that_ignores_the_example_expects_more() -> None:
    """Any distribution over labels is a mixture of constant answers; the best of 2,000 random ones stays below."""
    asked, draw = stream([0, 0, 0, 1, 2], [2, 3, 3], [1, 1, 0]), np.random.default_rng(0)
    shares = np.array([np.bincount(task.test.labels.astype(np.intp), minlength=4) / len(task.test) for task in asked.tasks])
    assert chance([asked], range(4)) >= (draw.dirichlet(np.full(4, 0.3), size=2000) @ shares.mean(axis=0)).max()
    assert chance([asked], range(4)) == pytest.approx(shares.mean(axis=0).max())


def test_tasks_without_a_test_do_not_count_and_a_stream_without_any_gives_nothing() -> None:
    assert chance([stream([0, 1], [])], range(4)) == pytest.approx(1 / 2)
    empty = stream([], [])
    assert (chance([empty], range(4)), n_tested([empty])) == (0, None)


def test_training_examples_play_no_part() -> None:
    """Neighbours differ in training examples alone: here in all of them."""
    data = five()
    for train in (examples([]), examples([0] * 50)):
        sources = None if not len(train) else np.zeros(50, dtype=np.int64)
        other = replace(data, train=train, train_sources=np.zeros(0, dtype=np.int64) if sources is None else sources)
        opened = central.open_stream(SourceIncremental(), other, 0)
        assert (chance([opened], range(10)), n_tested([opened])) == (pytest.approx(1 / 10), 20)


def test_entity_f1_is_that_of_the_best_tag_for_all_words() -> None:
    """Ten words, three names: two persons of one word, one place of two. All B-PER: 2 x 2 / (10 + 3)."""
    classes = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    labels = np.array([1, 0, 0, 1, 0, 3, 4, 0, 0, 0], dtype=np.int64)
    sentences = np.array([0, 0, 0, 1, 1, 1, 1, 1, 2, 2], dtype=np.int64)
    test = Examples(np.zeros((10, 1), np.float32), labels, sentences=sentences)
    asked = TaskStream((Task(0, "t", test, test, (0, 1, 2, 3, 4)),), classes, "every", metric="entity-f1")
    assert chance([asked], range(5)) == pytest.approx(4 / 13)
    assert chance([asked], (0, 2, 4)) == 0, "O finds no name, and none begins with I-"
    assert n_tested([asked]) is None


def test_the_number_of_equally_weighted_test_examples() -> None:
    assert n_tested([stream([0, 1, 0, 1], [2, 3, 2, 3])]) == pytest.approx(8)
    assert n_tested([stream([0, 1], [2, 3, 2, 3, 2, 3])]) == pytest.approx(2 * 2), "the smaller task weighs more"
    assert n_tested([stream([0, 1, 0], [2, 3])] * 5) == pytest.approx(2 * 2), "seeds share the test part"


def test_the_same_test_part_in_every_task_is_counted_once() -> None:
    opened = central.open_stream(Permuted(tasks=3), table([], [label for label in range(4) for _ in range(5)], 4), 0)
    assert (n_tested([opened]), chance([opened], range(4))) == (pytest.approx(20), pytest.approx(1 / 4))


def test_other_tasks_for_every_seed_spread_the_weight() -> None:
    """Unequal classes: a row's weight is its mean over seeds."""
    data: Table = table([], [0] * 2 + [1] * 4 + [2] * 6 + [3] * 8, 4)
    streams = [central.open_stream(ClassIncremental(tasks=2), data, seed) for seed in range(6)]
    weights = np.zeros(20)
    for one in streams:
        for task in one.tasks:
            weights[task.test.rows] += 1 / (6 * 2 * len(task.test))
    assert math.isclose(weights.sum(), 1)
    assert n_tested(streams) == pytest.approx(1 / weights.max())


# What is drawn before a run is what the run will deal out; of a person's own data nothing is counted.


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
    assert shown({"dataset": "own:mine"}, {"kind": "class-incremental", "tasks": 3}).homes == found.homes


def test_sources_are_tasks_and_their_labels_are_numbered_as_loading_does(data_dir: Path) -> None:
    for name in ("mnist", "notmnist", "fashion_mnist", "cifar10", "mnist_m"):
        write_pair(data_dir / name, [*range(10), 3], list(range(10)))
    spec = checks.parse({"data": {"dataset": "5-datasets-mnist-m"}, "scenario": {"kind": "source-incremental"}})
    whole, column = load_dataset(spec.data), read_labels(spec.data, keyed=False)
    assert (column.classes, column.sources) == (whole.classes, whole.sources)
    for split, own in ((whole.train, column.train), (whole.test, column.test)):
        assert own.labels.tolist() == split.labels.tolist()
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
    refuses(r"^scenario\.tasks = 11: must be at most 10", shown, {"dataset": "digits"}, {"kind": "i-blurry", "tasks": 11})


def test_an_edited_file_is_counted_again(data_dir: Path) -> None:
    write_pair(data_dir / "mnist", [*range(10)], list(range(10)))
    before = shown({"dataset": "mnist"}, {"kind": "class-incremental"})
    write_pair(data_dir / "mnist", [*range(10), 4, 4], list(range(10)))
    assert counted(shown({"dataset": "mnist"}, {"kind": "class-incremental"})).sum() - counted(before).sum() == 2


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
    assert shown({"dataset": "digits"}, {"kind": "class-incremental"}).held is None


# One class against the rest: whom a task asks, how its halves compare, and that every example is learned once.


N_CLASSES, N = 5, 2000
WHOLE = table([row % N_CLASSES for row in range(N)], [row % N_CLASSES for row in range(60)], N_CLASSES)
OWN = {"dataset": "digits", "backbone": "pixels", "train_per_class": 60, "test_per_class": 20}


def test_a_task_asks_for_its_class_and_is_tested_on_as_many_others() -> None:
    stream = central.open_stream(OneVsRest(tasks=3), WHOLE, 0)
    assert stream.classes == ("not c0", "c0", "not c1", "c1", "not c2", "c2")
    assert stream.recurrence == OneVsRest().recurrence == "once"
    for k, task in enumerate(stream.tasks):
        assert (task.name, task.prior, task.task_id) == (f"c{k}", (2 * k, 2 * k + 1), k)
        for split, first in ((task.train, 0), (task.test, 1000)):
            np.testing.assert_array_equal(split.labels, 2 * k + ((split.inputs[:, 0].astype(int) - first) % N_CLASSES == k))
        assert (len(task.test), np.mean(task.test.labels == 2 * k)) == (24, 0.5)


def test_every_example_is_learned_once_and_both_halves_are_as_large() -> None:
    """Of 400 of a class 200 stay on average, and of the 1,600 others one in eight comes: 200. Six deviations are 85."""
    for seed in range(3):
        tasks = central.open_stream(OneVsRest(), WHOLE, seed).tasks
        assert sorted(np.concatenate([task.train.inputs[:, 0] for task in tasks]).tolist()) == list(range(N))
        halves = np.array([np.bincount((task.train.labels - 2 * task.index).astype(np.intp), minlength=2) for task in tasks])
        assert (np.abs(halves - 200) < 85).all()
        rest = tasks[0].train.inputs[tasks[0].train.labels == 0, 0].astype(int) % N_CLASSES
        rest = np.bincount(rest.astype(np.intp), minlength=N_CLASSES)[1:]
        assert (np.abs(rest - 50) < 42).all()  # six deviations of 50 of 400


def test_an_undeclared_label_is_of_the_rest_whatever_its_number() -> None:
    numbers = np.arange(N)
    found = []
    for shift in (0, 3):  # another undeclared label would shift its number
        labels = np.where(numbers % 2, numbers % N_CLASSES, N_CLASSES + shift)
        train = Examples(numbers[:, None].astype(np.float32), labels)
        tasks = central.open_stream(OneVsRest(), replace(WHOLE, train=train, undeclared=("a", "b", "c", "d")), 1).tasks
        found.append([(task.train.inputs[:, 0].tolist(), task.train.labels.tolist()) for task in tasks])
        strays = [task.train.labels[task.train.inputs[:, 0] % 2 == 0] - 2 * task.index for task in tasks]
        assert all(len(of_task) > 50 and not of_task.any() for of_task in strays)
    assert found[0] == found[1]


@pytest.mark.parametrize("labels", ["prior", "prior-const", "data", "dp-learned"])
def test_only_the_two_answers_of_the_task_compete(labels: str) -> None:
    """Among the answers of all tasks an example of one class is of the rest of another one just as well."""
    asked = checks.parse({
        "method": "cosine", "labels": labels, "data": OWN, "seeds": [0],
        "scenario": {"kind": "one-vs-rest", "tasks": 3}, "privacy": {"epsilons": [math.inf], "delta": 1e-4},
    })  # fmt: skip
    events = list(engine.run(asked))
    *_, last = of_kind(events, TaskLearned)
    assert min(value for value in last.accuracy if value is not None) > 0.7
    *_, kept = of_kind(events, Classifier)
    assert kept.by_task == (("not 0", "0"), ("not 1", "1"), ("not 2", "2"))
