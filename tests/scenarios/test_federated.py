"""Who holds what: federated streams, their three protocols, and the public coins that hand out every row."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcl_core import errors, spec
from dpcl_core.data import coins, dataset
from dpcl_core.methods.federated.client_release import WeightedSlots, by_label
from dpcl_core.methods.federated.matchers import PublicView
from dpcl_core.scenarios import catalog, central, federated
from dpcl_core.scenarios.catalog import Federated, open_stream
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator
from tests.scenarios.making import examples, records, table
from tests.support.tiers import quick

FOUR = table([0, 1, 2, 3] * 200, [0, 1, 2, 3] * 5, 4)


def domains() -> Table:
    """Three sources of 120 rows with the same two classes each."""
    labels, sources = [0, 1] * 180, np.repeat(np.arange(3), 120)
    held = tuple(dataset.Source(name, (0, 1)) for name in "abc")
    tested = examples([0, 1] * 3, 5000)
    return Table(examples(labels), tested, ("bad", "good"), sources, np.repeat(np.arange(3), 2), held, n_people=360)


def opened(settings: Federated, of: Table = FOUR, seed: int = 0) -> TaskStream:
    return open_stream(settings, of, seed)


def owners(stream: TaskStream) -> dict[int, int]:
    """The client of every training record, by number; a record has one, in whatever tasks it is."""
    found: dict[int, int] = {}
    for task in stream.tasks:
        for number, user in zip(task.train.inputs[:, 0].astype(int).tolist(), task.train.users.tolist(), strict=True):
            assert found.setdefault(number, user) == user
    return found


def test_class_incremental_tasks_come_in_the_dataset_s_order_and_clients_hold_all_of_them() -> None:
    stream = opened(Federated(clients=8))
    assert [task.name for task in stream.tasks] == ["c0", "c1", "c2", "c3"]
    assert [task.prior for task in stream.tasks] == [(0,), (1,), (2,), (3,)]
    assert set().union(*map(records, stream.tasks)) == {(n, n % 4) for n in range(800)}
    assert (stream.unit, stream.recurrence, stream.metric, stream.looks_ahead) == ("user", "every", "accuracy", True)
    assert len(owners(stream)) == 800


def test_tasks_may_be_groups_of_classes_in_an_order_of_one_s_own() -> None:
    two = opened(Federated(clients=4, tasks=2))
    assert [(task.name, task.prior) for task in two.tasks] == [("task 1", (0, 1)), ("task 2", (2, 3))]
    some = opened(Federated(clients=4, order=("c3", "c1")))
    assert [task.name for task in some.tasks] == ["c3", "c1"]
    assert set(owners(some)) == {n for n in range(800) if n % 4 in (1, 3)}


def test_the_partition_depends_on_the_seed_alone() -> None:
    one, same, other = (owners(opened(Federated(clients=8), seed=seed)) for seed in (13, 13, 17))
    assert one == same
    assert one != other


@pytest.mark.parametrize("alpha", quick(1, [0.1, 1.0, 50.0]))
def test_shares_of_a_label_are_a_dirichlet_draw(alpha: float) -> None:
    """One client's share of a label is Beta(alpha, (N - 1) alpha), up to the draw of whole examples: Kolmogorov-Smirnov over
    400 draws, critical value of a false alarm in a million. The floor of ten examples does not bind: N is 2 of 4,000."""
    n_clients, one = 2, table([0] * 4000, [0], 1)
    shares = []
    for seed in range(400):
        (task,) = opened(Federated(clients=n_clients, alpha=alpha), one, seed).tasks
        shares.append(np.mean(task.train.users == 0))
    kept = stats.beta(alpha, (n_clients - 1) * alpha)
    low = federated.MIN_ROWS / 4000  # draws below are repeated: the law is the beta between the two bounds

    def law(x: np.ndarray) -> np.ndarray:
        return np.clip((kept.cdf(x) - kept.cdf(low)) / (kept.cdf(1 - low) - kept.cdf(low)), 0, 1)

    assert stats.kstest(shares, law).pvalue > 1e-6


def test_every_client_can_expect_ten_examples_even_at_small_alpha() -> None:
    """What a client holds is binomial by kinds around a mean of ten or more: none at all has a chance of e^-10 in each."""
    held = [
        np.bincount(list(owners(opened(Federated(clients=10, alpha=0.2), seed=seed)).values()), minlength=10)
        for seed in range(20)
    ]
    assert np.min(held) > 0
    assert np.partition(np.ravel(held), 20)[20] >= federated.MIN_ROWS, "one in ten may lie below by chance"


@pytest.mark.parametrize(("clients", "alpha"), [(80, 0.05), (72, 1.0)])
def test_as_many_clients_as_data_hold_need_few_draws(clients: int, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand draws of a Dirichlet distribution rarely give eighty clients ten of eight hundred examples each."""
    sizes, draws = np.array([200.0] * 4), list[int]()

    class Counting:
        def dirichlet(self, alphas: np.ndarray, size: int) -> np.ndarray:
            draws.append(size)
            return random.dirichlet(alphas, size=size)

    random = np.random.default_rng(1)
    monkeypatch.setattr(federated, "_NUMBERS", 10 * clients * len(sizes))
    shares = federated._by_dirichlet(sizes, Federated(clients=clients, alpha=alpha), Counting(), "examples")  # type: ignore[arg-type]
    assert len(draws) == 10
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares >= 0).all()
    assert (sizes @ shares).min() == pytest.approx(federated.MIN_ROWS)
    first = np.random.default_rng(1).dirichlet(np.full(clients, alpha), size=len(sizes))
    kept = (shares - 1 / clients) / (first - 1 / clients)
    np.testing.assert_allclose(kept, kept[0, 0], atol=1e-9, err_msg="the first draw, mixed with even shares")


@pytest.mark.parametrize(("changes", "most"), [({}, 80), ({"protocol": "domain-incremental", "partition": "domain"}, 36)])
def test_how_many_clients_the_data_hold_is_said(changes: dict[str, str], most: int) -> None:
    of = domains() if changes else FOUR
    opened(Federated(clients=most, **changes), of)  # type: ignore[arg-type]
    with pytest.raises(errors.BadInput, match=f"{most + 1}: must be at most {most}: each client holds 10") as refused:
        opened(Federated(clients=most + 1, **changes), of)  # type: ignore[arg-type]
    assert refused.value.fix == {"scenario.clients": most}


def test_one_vs_rest_asks_for_one_class_against_as_many_others_of_the_same_client() -> None:
    stream = opened(Federated(clients=5, protocol="one-vs-rest"))
    assert stream.classes == ("not c0", "c0", "not c1", "c1", "not c2", "c2", "not c3", "c3")
    for k, task in enumerate(stream.tasks):
        assert (task.name, task.prior, task.task_id) == (f"c{k}", (2 * k, 2 * k + 1), k)
        for split, first in ((task.train, 0), (task.test, 1000)):
            numbers = split.inputs[:, 0].astype(int) - first
            np.testing.assert_array_equal(split.labels, 2 * k + (numbers % 4 == k))
            assert len(set(numbers.tolist())) == len(numbers)
        assert np.mean(task.test.labels == 2 * k) == 0.5
        users, labels = task.train.users.astype(np.intp), task.train.labels
        rest, own = (np.bincount(users[labels == 2 * k + one], minlength=5) for one in (0, 1))
        assert (rest <= own).all()
        assert (rest == own).sum() >= 3, "only a client with few others has fewer"
    owners(stream)  # a record that is a negative elsewhere stays with its client


def test_domains_are_tasks_and_shares_are_drawn_for_each() -> None:
    stream = opened(Federated(clients=6, protocol="domain-incremental", order=("c", "a")), domains())
    assert [task.name for task in stream.tasks] == ["c", "a"]
    assert [sorted(records(task)) for task in stream.tasks] == [
        [(n, n % 2) for n in range(240, 360)], [(n, n % 2) for n in range(120)]
    ]  # fmt: skip
    assert (stream.recurrence, [len(task.test) for task in stream.tasks]) == ("every", [2, 2])


def test_with_a_domain_each_a_client_is_in_one_task() -> None:
    settings = Federated(clients=7, protocol="domain-incremental", partition="domain")
    stream = opened(settings, domains())
    seen = [set(task.train.users.tolist()) for task in stream.tasks]  # type: ignore[union-attr]
    assert (sorted(map(len, seen)), len(set().union(*seen))) == ([2, 2, 3], 7)
    assert stream.recurrence == settings.recurrence == "once"
    sizes = np.bincount(list(owners(stream).values()))
    assert sizes.min() > 0
    assert np.abs(sizes - np.array([40, 60, 60, 40, 60, 60, 40])).max() < 35, "even shares of a source of 120, by coins"
    by_class = opened(Federated(clients=7, partition="domain"), domains())
    assert by_class.recurrence == "every", "tasks are classes: a client has both"


def test_sentences_are_dealt_out_whole() -> None:
    of = domains()
    words = np.repeat(np.arange(120), 3)
    keys = np.repeat(coins.keys(str(n).encode() for n in range(120)), 3)
    train, test = replace(of.train, sentences=words, keys=keys), replace(of.test, sentences=np.arange(6) // 3)
    stream = opened(Federated(clients=6, protocol="domain-incremental"), replace(of, train=train, test=test, n_people=360))
    assert stream.metric == "entity-f1"
    held = owners(stream)
    assert all(held[3 * n] == held[3 * n + 1] == held[3 * n + 2] for n in range(120))
    assert set(held.values()) == set(range(6))
    for task in stream.tasks:
        assert task.train.sentences is not None
        assert (np.diff(task.train.sentences) >= 0).all()


def test_one_client_is_a_stream_as_any_other_and_an_absent_client_has_no_rows_in_a_task() -> None:
    assert set(owners(opened(Federated(clients=1))).values()) == {0}
    uneven = opened(Federated(clients=10, alpha=0.05), table([0, 1, 2, 3] * 500, [0, 1, 2, 3], 4))
    assert any(len(set(task.train.users.tolist())) < 10 for task in uneven.tasks)  # type: ignore[union-attr]


# One row more or less moves no other row, and one client's leaving no other client's: every scenario, every rule.


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


def numbered(rows: np.ndarray) -> Table:
    """A numbered of the rows with these numbers: label and source follow from the number, as does the input."""
    labels, sources = rows % N_CLASSES, rows % N_SOURCES
    train = Examples(rows[:, None].astype(np.float32), labels)
    held = tuple(dataset.Source(f"s{k}", tuple(range(N_CLASSES))) for k in range(N_SOURCES))
    tested = np.arange(3 * N_CLASSES)
    classes = tuple(f"c{label}" for label in range(N_CLASSES))
    tests = examples((tested % N_CLASSES).tolist(), 5000)
    return Table(train, tests, classes, sources, tested % N_SOURCES, held, n_people=N)


def tasks_of(chosen: spec.ScenarioSpec, of: Table, seed: int) -> tuple[Task, ...]:
    return catalog.open_stream(chosen, of, seed).tasks


def places(chosen: spec.ScenarioSpec, rows: np.ndarray, seed: int) -> dict[int, set[tuple[int, int, int]]]:
    """Of every row: in which tasks it is, under what label, with which client."""
    found: dict[int, set[tuple[int, int, int]]] = {}
    for task in tasks_of(chosen, numbered(rows), seed):
        users = np.full(len(task.train), -1) if task.train.users is None else task.train.users
        for number, label, user in zip(task.train.inputs[:, 0], task.train.labels, users, strict=True):
            found.setdefault(int(number), set()).add((task.index, int(label), int(user)))
    return found


def ways() -> list[spec.ScenarioSpec]:
    plain = [spec.validated(card.settings, way) for name, card in catalog.CARDS.items() for way in WAYS.get(name, [])]
    held = [
        spec.validated(federated.settings_of(name, has_clients=True), {**way, "clients": 6})
        for name in catalog.WITHOUT_CLIENTS for way in WAYS.get(name, [])
    ]  # fmt: skip
    return [*plain, *held]


def test_every_scenario_is_held_to_it() -> None:
    assert WAYS.keys() == catalog.CARDS.keys()


@pytest.mark.parametrize("chosen", ways(), ids=str)
@settings(max_examples=15, deadline=None)
@given(gone=st.integers(0, N - 1), place=st.integers(0, N - 1), seed=st.integers(0, 2**32 - 1))
def test_one_row_less_moves_no_other(chosen: spec.ScenarioSpec, gone: int, place: int, seed: int) -> None:
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
def test_one_client_s_leaving_moves_no_other_client_s_rows(chosen: spec.ScenarioSpec, leaving: int, seed: int) -> None:
    rows = np.arange(N)
    whole = numbered(rows)
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
        task = central.against_rest(of, 0, 0, generator(seed, "rest of task 0, train"))
        assert task.users is not None
        return slots.vectors(by_label(np.asarray(task.inputs, np.float32), task.labels, task.users, 20, (0, 1)))

    for seed in range(5):
        for client in range(0, 20, 4):
            left = np.flatnonzero(users != client)
            before, after = vectors(whole, seed), vectors(Examples(z[left], labels[left], users[left]), seed)
            np.testing.assert_array_equal(before[np.arange(20) != client], after[np.arange(20) != client])
            assert np.linalg.norm(before.sum(0) - after.sum(0)) <= slots.sensitivity


def test_rows_of_the_same_bytes_fall_together() -> None:
    for task in tasks_of(catalog.Federated(clients=6), replace(numbered(np.repeat(np.arange(100), 2)), n_people=N), 0):
        assert (task.train.users[0::2] == task.train.users[1::2]).all()
