"""CSLR as its paper prints it: which switches make a run one, what is claimed and what is released."""

import math

import numpy as np
import pytest

from dpcl_core import published
from dpcl_core.errors import BadInput
from dpcl_core.events import Signatures
from dpcl_core.methods import catalog
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.federated import client_release, cslr_published, published_release
from dpcl_core.methods.federated.lists import ListLearner
from dpcl_core.methods.federated.matchers import PublicEmbeddings
from dpcl_core.privacy import cslr_accounting, gaussian
from dpcl_core.privacy.ledger import HEAD, REPLAY
from dpcl_core.scenarios.stream import TaskStream
from dpcl_core.spec import fields_of
from tests.support import clients
from tests.support.watching import watched

OF, PUBLIC = clients.stream(per_class=40)

SHORT = TaskStream(OF.tasks[:1], OF.classes, "every", "user")


def test_published_never_claims_without_what_its_noise_costs() -> None:
    asked = clients.small("cslr-published", params={"participation": 0.3, "rounds": 50, "local_steps": 1})
    (ledger,) = clients.run(asked, SHORT, PUBLIC)[0].values()
    claim = ledger.claimed
    assert claim is not None
    assert claim.epsilon == 4.0
    assert claim.accounted is not None
    assert claim.accounted > 4.0
    assert ledger.by_channel() == {REPLAY: math.inf, HEAD: math.inf}, "clustered lists leave no bound"


def test_published_noise_is_refused_for_a_budget_that_the_paper_does_not_print() -> None:
    asked = clients.spec("cslr-published", privacy={"epsilons": [2.0], "noise": "seeded"})
    with pytest.raises(BadInput, match=r"must be 1, 4, 8 or inf"):
        catalog.card("cslr-published").refuses(asked, PublicSizes(4000, 4, 4, "every", 20))


@pytest.mark.parametrize(("modes", "clusters"), [(1, False), (2, True)])
def test_one_group_a_label_is_not_clustered(modes: int, clusters: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two labels a task: a client knows its own entries' labels, so that nobody else moves them."""
    calls: list[object] = []
    watched(monkeypatch, cslr_published, "pooled", lambda found, given: calls.append(found))
    of, public = clients.stream(per_class=40, classes_per_task=2)
    asked = clients.small("cslr-published", params={"modes_per_task": modes, "list_size": 2, "participation": 1.0})
    (ledger,) = clients.run(asked, of, public)[0].values()
    assert bool(calls) == clusters
    assert math.isinf(ledger.by_channel()[REPLAY]) == clusters
    assert any("not proven" in entry.what for entry in ledger.entries) == clusters
    assert any("clustered together" in note for note in catalog.card("cslr-published").notes(asked.params)) == clusters


def test_published_names_groups_after_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the round before that was not released has a say: names follow the running average of noisy sums."""
    named_after: list[np.ndarray | None] = []
    released: list[published_release.SlotSums] = []
    watched(monkeypatch, cslr_published, "pooled", lambda found, given: named_after.append(given[4]))
    watched(monkeypatch, published_release, "noisy_slot_sums", lambda found, given: released.extend(found))
    params = {"modes_per_task": 2, "list_size": 2, "participation": 1.0, "rounds": 4, "matcher": "mean", "rule": "nearest"}
    clients.run(clients.small("cslr-published", params=params), SHORT, PUBLIC)
    assert named_after[0] is None
    running = released[0]
    for previous, newest in zip(named_after[1:], released[1:], strict=True):
        assert previous == pytest.approx(running.means / np.maximum(running.weights, 1 / (4 * 2))[:, None])
        running = running.mixed(newest)


PRINT = {
    "noisy_lists": True, "aggregation": "entries", "averaging": 0.0, "targets": "raw", "signature_covariance": "own",
    "signature_norm": "raw", "second_moments": "full", "modes_per_task": 4, "list_size": 4, "rounds": 3,
    "participation": 0.3, "anchors": 100, "hidden": 128, "restarts": 1, "local_steps": 2, "learning_rate": 3e-4,
}  # fmt: skip


def test_every_equation_as_printed_is_the_layer_as_printed() -> None:
    """Lists' cost and claim stand where the print has them: replay with a bound of its own, head and whole without."""
    data = {"dataset": "ag_news", "backbone": "minilm"}  # only named: the stream is an invented one
    asked = clients.spec("cslr-published", params=PRINT, data=data)
    layer = catalog.layer(asked)
    assert layer is not None
    assert [one.parameter for one in layer.departures] == ["scenario.clients", "params.rounds"]
    assert layer.name == "as printed"
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    multiplier = 1.45 / math.sqrt(1 + 3 * 4)
    bound = gaussian.epsilon(multiplier / math.sqrt(4 * 3), 1e-5)  # four tasks of three rounds, none of them amplified
    assert ledger.by_channel()[REPLAY] == pytest.approx(bound, rel=1e-3)
    assert ledger.by_channel()[HEAD] == ledger.epsilon() == math.inf
    claim = ledger.claimed
    assert claim is not None
    assert claim.accounted is not None
    reading = cslr_accounting.Reading(1.45 / math.sqrt(2 * 4 * 4), n_rounds=12, n_statistics=1, n_clients=8)
    assert claim.accounted == pytest.approx(cslr_accounting.costs(reading).pld, rel=1e-6)


@pytest.mark.parametrize("changed", ["noisy_lists", "aggregation", "averaging", "targets"])
def test_each_switch_away_from_print_is_named(changed: str) -> None:
    usual = fields_of(catalog.card("cslr-published").params)[changed].default
    layer = catalog.layer(clients.spec("cslr-published", params={**PRINT, changed: usual}))
    assert layer is not None
    assert layer.name == "made to work"
    assert f"params.{changed}" in [one.parameter for one in layer.departures]


@pytest.mark.parametrize(("dataset", "scenario", "groups"), [
    ("ag_news", {"clients": 20, "alpha": 0.5, "protocol": "one-vs-rest", "tasks": 4}, 4),
    ("amazon-domains", {"clients": 50, "alpha": 0.3, "protocol": "domain-incremental", "tasks": 5}, 5),
    ("multiwoz-intent", {"clients": 40, "alpha": 0.5, "protocol": "domain-incremental"}, 7),
])  # fmt: skip
def test_lists_of_a_whole_task_are_as_printed(dataset: str, scenario: dict[str, object], groups: int) -> None:
    def layer(lists: str) -> published.Layer:
        asked = clients.spec(
            "cslr-published", params={**PRINT, "rounds": 50, "lists": lists, "modes_per_task": groups},
            data={"dataset": dataset, "backbone": "minilm"}, scenario={"kind": "federated", **scenario}
        )
        found = catalog.layer(asked)
        assert found is not None
        return found

    assert layer("task").words == "As printed (Shihab et al. 2026)."
    assert {"params.lists", "params.list_size"} <= {one.parameter for one in layer("label").departures}


def test_a_list_of_a_whole_task_is_one_mixture_whose_entries_have_shares_of_labels() -> None:
    """Entries as many as asked for, whatever the labels; shares of rows and of labels add up to what the rows say."""
    of, _ = clients.stream(per_class=40, classes_per_task=2)
    train = of.tasks[0].train
    assert train.users is not None
    rows = client_release.TaskRows(train.inputs, train.labels, train.users, (0, 1), 4)
    learner = ListLearner(3, 1)
    found = client_release.user_lists(rows, range(9), learner, lambda user: np.random.default_rng(user), by_label=False)
    assert found.weights.shape == (9, 3)
    for user in range(8):
        own = train.labels[train.users == user]
        assert found.weights[user].sum() == pytest.approx(1)
        assert found.weights[user] @ found.targets[user] == pytest.approx(np.bincount(own, minlength=4) / len(own))
    assert not found.weights[8].any(), "a client without rows has an empty list as long as any other"


def test_with_lists_of_a_whole_task_everything_counts_them_once() -> None:
    """Groups, what noised lists cost and what is claimed follow one list a client, not one of each label."""
    of, public = clients.stream(per_class=40, classes_per_task=2)
    params = {**PRINT, "lists": "task", "modes_per_task": 5, "list_size": 4}  # a client's list leaves a group to others
    ledgers, _, _, (learner,) = clients.run(clients.spec("cslr-published", params=params), of, public)
    (ledger,) = ledgers.values()
    (cell,) = ledgers
    assert learner.released(cell)["means"].shape == (5, clients.WIDTH)
    bound = gaussian.epsilon(1.45 / math.sqrt(1 + 3 * 4) / math.sqrt(2 * 3), 1e-5)  # two tasks of three rounds
    assert ledger.by_channel()[REPLAY] == pytest.approx(bound, rel=1e-3)
    assert ledger.claimed is not None
    assert ledger.claimed.accounted is not None
    reading = cslr_accounting.Reading(1.45 / math.sqrt(2 * 4 * 5), n_rounds=6, n_statistics=1, n_clients=8)
    assert ledger.claimed.accounted == pytest.approx(cslr_accounting.costs(reading).pld, rel=1e-6)


def test_a_rounds_own_release_is_replayed_where_nothing_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq 2; names of groups still follow the running average."""
    released: list[published_release.SlotSums] = []
    replayed: list[np.ndarray] = []
    watched(monkeypatch, published_release, "noisy_slot_sums", lambda found, given: released.extend(found))
    watched(monkeypatch, client_release, "sampled", lambda found, given: replayed.append(given[0][-1].means))
    clients.run(clients.small("cslr-published", params={"averaging": 0.0, "participation": 1.0}), SHORT, PUBLIC)
    assert len(released) == len(replayed) == 3
    for sums, means in zip(released, replayed, strict=True):
        assert means == pytest.approx(sums.replay().means)


def test_a_private_divisor_leaves_the_replay_without_a_bound() -> None:
    params = {"aggregation": "entries", "modes_per_task": 1, "participation": 1.0}
    (ledger,) = clients.run(clients.small("cslr-published", params=params), OF, PUBLIC)[0].values()
    assert ledger.by_channel()[REPLAY] == math.inf
    assert any("how many clients came" in entry.what for entry in ledger.entries)


def test_published_on_few_axes_releases_their_coordinates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, ...]] = []
    watched(monkeypatch, published_release, "noisy_slot_sums", lambda found, given: sent.append(given[0].means.shape))
    for dimensions, width in ((6, 6), (None, clients.WIDTH), (25, clients.WIDTH)):  # 24 numbers have no more axes
        asked = clients.small("cslr-published", params={"dimensions": dimensions, "rounds": 1, "participation": 1.0})
        _, _, _, (learner,) = clients.run(asked, OF, PUBLIC)
        assert sent.pop() == (clients.N_CLIENTS, 4, width)
        assert np.isfinite(learner.scores(0, OF.tasks[0])["argmax"]).any()


@pytest.mark.parametrize(("second_moments", "n_second"), [("diagonal", clients.WIDTH), ("full", clients.WIDTH**2)])
def test_signal_against_noise_counts_every_value_that_is_released(second_moments: str, n_second: int) -> None:
    """Printed CSLR releases whole means and second moments; noise is over all their values, and the signal is clean."""
    params = {"second_moments": second_moments, "rounds": 1, "participation": 0.5}
    said = clients.run(clients.small("cslr-published", params=params), OF, PUBLIC)[2]
    told = next(event for event in said if isinstance(event, Signatures))
    deviation = 1.45 / (0.5 * clients.N_CLIENTS)
    assert told.noise == pytest.approx({"mean": deviation * clients.WIDTH**0.5, "second moment": deviation * n_second**0.5})
    assert set(told.signal) == set(told.noise)
    own = OF.tasks[0].train.inputs.mean(axis=0)
    centre = PublicEmbeddings.of(PUBLIC, 0, 2, None, 20).view.centre
    assert pytest.approx(float(np.linalg.norm(own - centre)), rel=0.1) == told.signal["mean"] < told.noise["mean"]
