"""One row more or less moves no other row, and one client's leaving no other client's: every scenario, every rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcl_core.data.dataset import Source
from dpcl_core.methods.federated.client_release import WeightedSlots, by_label
from dpcl_core.methods.federated.matchers import PublicView
from dpcl_core.scenarios import catalog, federated
from dpcl_core.scenarios.central import against_rest
from dpcl_core.scenarios.stream import Examples, Table, Task, generator
from dpcl_core.spec import ScenarioSpec, validated
from tests.scenarios.making import examples

N_CLASSES, N_SOURCES, N = 6, 3, 600
# Every way in which a scenario hands out rows; a kind without one makes the test of all kinds red.
WAYS: dict[str, list[dict[str, object]]] = {
    "class-incremental": [{"tasks": 3}],
    "split": [{"tasks": 3}],
    "permuted": [{"tasks": 3}, {"tasks": 3, "images": "disjoint"}],
    "source-incremental": [{}],
    "i-blurry": [{"tasks": 3, "blurry_percent": 60}, {"tasks": 3, "blurry_percent": 60, "disjoint_percent": 0}],
    "si-blurry": [{"tasks": 3, "blurry_percent": 60}],
    "one-vs-rest": [{}, {"tasks": 4}],
    "federated": [
        {"clients": 6, "protocol": protocol, "partition": partition}
        for protocol in ("class-incremental", "one-vs-rest", "domain-incremental")
        for partition in ("dirichlet", "domain")
    ],
}


def table(rows: np.ndarray) -> Table:
    """A table of the rows with these numbers: label and source follow from the number, as does the input."""
    labels, sources = rows % N_CLASSES, rows % N_SOURCES
    train = Examples(rows[:, None].astype(np.float32), labels)
    held = tuple(Source(f"s{k}", tuple(range(N_CLASSES))) for k in range(N_SOURCES))
    tested = np.arange(3 * N_CLASSES)
    classes = tuple(f"c{label}" for label in range(N_CLASSES))
    tests = examples((tested % N_CLASSES).tolist(), 5000)
    return Table(train, tests, classes, sources, tested % N_SOURCES, held, n_people=N)


def opened(chosen: ScenarioSpec, of: Table, seed: int) -> tuple[Task, ...]:
    return catalog.open_stream(chosen, of, seed).tasks


def places(chosen: ScenarioSpec, rows: np.ndarray, seed: int) -> dict[int, set[tuple[int, int, int]]]:
    """Of every row: in which tasks it is, under what label, with which client."""
    found: dict[int, set[tuple[int, int, int]]] = {}
    for task in opened(chosen, table(rows), seed):
        users = np.full(len(task.train), -1) if task.train.users is None else task.train.users
        for number, label, user in zip(task.train.inputs[:, 0], task.train.labels, users, strict=True):
            found.setdefault(int(number), set()).add((task.index, int(label), int(user)))
    return found


def ways() -> list[ScenarioSpec]:
    plain = [validated(card.settings, way) for name, card in catalog.CARDS.items() for way in WAYS.get(name, [])]
    held = [
        validated(federated.settings_of(name, has_clients=True), {**way, "clients": 6})
        for name in catalog.WITHOUT_CLIENTS for way in WAYS.get(name, [])
    ]  # fmt: skip
    return [*plain, *held]


def test_every_scenario_is_held_to_it() -> None:
    assert WAYS.keys() == catalog.CARDS.keys()


@pytest.mark.parametrize("chosen", ways(), ids=str)
@settings(max_examples=15, deadline=None)
@given(gone=st.integers(0, N - 1), place=st.integers(0, N - 1), seed=st.integers(0, 2**32 - 1))
def test_one_row_less_moves_no_other(chosen: ScenarioSpec, gone: int, place: int, seed: int) -> None:
    """Rows that come back elsewhere in the file are the same rows. Within a client, whose rows are protected as one, others
    of the class may follow; no other client's do."""
    rows = np.arange(N)
    before = places(chosen, rows, seed)
    after = places(chosen, np.delete(rows, gone), seed)
    assert places(chosen, np.roll(rows, place), seed) == before
    if isinstance(chosen, catalog.Federated) and chosen.protocol == "one-vs-rest":
        holder = {number: next(iter(where))[2] for number, where in before.items()}
        mine = {number for number in holder if holder[number] == holder.get(gone)}
        before, after = ({k: v for k, v in one.items() if k not in mine} for one in (before, after))
        if gone not in holder:
            return  # its client is known to nobody: it was in no task
    before.pop(gone, None)
    assert after == before


@pytest.mark.parametrize("chosen", [way for way in ways() if way.n_users is not None], ids=str)
@settings(max_examples=10, deadline=None)
@given(leaving=st.integers(0, 5), seed=st.integers(0, 2**32 - 1))
def test_one_client_s_leaving_moves_no_other_client_s_rows(chosen: ScenarioSpec, leaving: int, seed: int) -> None:
    rows = np.arange(N)
    whole = table(rows)
    if isinstance(chosen, catalog.Federated):
        n_tasks = catalog.number_of_tasks(chosen, N_CLASSES, tuple(source.name for source in whole.sources))
        held = federated.dealt_out(chosen, whole, federated._order(chosen, whole, n_tasks), seed).train.users
    else:
        assert isinstance(chosen, federated.Held)
        held = federated.dealt_to_clients(chosen, whole, seed).train.users
    assert held is not None
    before, after = (places(chosen, kept, seed) for kept in (rows, rows[held != leaving]))
    assert {number: place for number, place in before.items() if held[number] != leaving} == after


def test_no_client_s_vector_hangs_on_who_else_is_there() -> None:
    """The attack on one-against-the-rest: where the rest was drawn over all clients' rows, one client's leaving changed the
    vectors of all 19 others, and the sum by up to 1.65 where 1.118 was accounted."""
    random = np.random.default_rng(0)
    means = random.standard_normal((4, 16))
    labels = np.repeat(np.arange(4), 100)
    rows = means[labels] + random.standard_normal((400, 16))
    z = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    users = random.integers(0, 20, 400)
    public = random.standard_normal((200, 16))
    slots = WeightedSlots(PublicView.of(public / np.linalg.norm(public, axis=1, keepdims=True), 8, 0.5), 2)
    whole = Examples(z, labels, users)

    def vectors(of: Examples, seed: int) -> np.ndarray:
        task = against_rest(of, 0, 0, generator(seed, "rest of task 0, train"))
        assert task.users is not None
        return slots.vectors(by_label(np.asarray(task.inputs, np.float32), task.labels, task.users, 20, (0, 1)))

    for seed in range(5):
        for client in range(0, 20, 4):
            left = np.flatnonzero(users != client)
            before, after = vectors(whole, seed), vectors(Examples(z[left], labels[left], users[left]), seed)
            np.testing.assert_array_equal(before[np.arange(20) != client], after[np.arange(20) != client])
            assert np.linalg.norm(before.sum(0) - after.sum(0)) <= slots.sensitivity


def test_rows_of_the_same_bytes_fall_together() -> None:
    for task in opened(catalog.Federated(clients=6), replace(table(np.repeat(np.arange(100), 2)), n_people=N), 0):
        assert task.train.users is not None
        assert (task.train.users[0::2] == task.train.users[1::2]).all()
