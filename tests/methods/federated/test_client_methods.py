"""Methods of clients: common rules, three numbers of every ledger, what may be set wrong, and CSLR as it is printed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import errors, published, spec
from dpcl_core.events import CellFinished, Event, Progress, Signatures, to_json
from dpcl_core.methods import catalog
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.federated import client_release, cslr_published, matchers, published_release
from dpcl_core.methods.federated.lists import ListLearner
from dpcl_core.privacy import card as privacy_card
from dpcl_core.privacy import card_document, cslr_accounting, gaussian, noise, statement
from dpcl_core.privacy.accounting import Pld, subsampled_gaussian
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger, ledger_entries
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from tests.methods.training import taught
from tests.support import asserting, clients, planned
from tests.support.tiers import of_methods
from tests.support.watching import watched

CLIENT_METHODS = [name for name, card in catalog.CARDS.items() if card.has_clients]
PROVED = [name for name in CLIENT_METHODS if catalog.card(name).guarantee == "proved"]
OF, PUBLIC = clients.stream(per_class=40)


def without_times(said: list[Event]) -> list[object]:
    return [to_json(event) for event in said]


@pytest.mark.parametrize("method", of_methods(CLIENT_METHODS))
def test_every_method_of_clients_keeps_the_common_rules(method: str) -> None:
    """Same spec, same events and scores; every task has entries of its own; three numbers stand.

    A proved budget is kept, and nearly spent.
    """
    asked = clients.small(method)
    first, again = (clients.run(asked, OF, PUBLIC) for _ in range(2))
    assert first[1] == again[1]
    assert without_times(first[2]) == without_times(again[2])
    (cell,) = asked.cells()
    ledger = first[0][cell]
    assert {entry.task for entry in ledger.entries} == set(range(len(OF.tasks)))
    given = guarantee(ledger, asked, cell, unit="user", n_people=clients.N_CLIENTS, n_tasks=len(OF.tasks))
    assert statement.three_numbers(given.parts).startswith("Replay ε = ")
    finished = CellFinished(cell, {}, given, 1.0, ledger_entries(ledger))
    plan = planned.plan_of({cell: ledger}, n_people=clients.N_CLIENTS, n_tasks=len(OF.tasks))
    (found,) = privacy_card.verify(json.dumps(card_document.document("0" * 12, method, "", [finished], plan)).encode())
    assert found.verdict == "matches", privacy_card.sentence(found)
    for event in first[2]:
        assert isinstance(event, Progress | Signatures)
        if isinstance(event, Progress):
            assert 0 <= event.done <= event.total
    if method in PROVED:
        assert 3.9 < ledger.epsilon() <= 4.0 + 1e-3
        parts = ledger.by_channel()
        assert max(parts.values()) <= ledger.epsilon() + 1e-9
        assert len(parts) != 2 or ledger.epsilon() < sum(parts.values())


@pytest.mark.parametrize("method", CLIENT_METHODS)
def test_what_left_a_learner_is_a_copy_of_finite_numbers(method: str) -> None:
    """An auditor's view: arrays of public sizes, which the next task does not change under his hands."""
    asked = clients.small(method)
    (cell,) = asked.cells()
    learner = catalog.maker(method)(asked, [cell], clients.known(OF, PUBLIC))
    seen = []
    for task in OF.tasks[:2]:
        taught(learner, asked, [task], OF.recurrence)
        found = learner.released(cell)
        assert found
        assert all(np.isfinite(array).all() for array in found.values())
        seen.append((found, {name: array.copy() for name, array in found.items()}))
    for found, copied in seen:
        for name in found:
            assert (found[name] == copied[name]).all(), name


def ledger_of(method: str, **privacy: object) -> Ledger:
    (ledger,) = clients.run(clients.small(method, privacy={"noise": "seeded", **privacy}), OF, PUBLIC)[0].values()
    return ledger


@pytest.mark.parametrize("method", of_methods(CLIENT_METHODS))
def test_under_replace_the_budget_is_kept_with_more_noise_and_without_noise_nothing_is_called_private(method: str) -> None:
    assert ledger_of(method, epsilons=[math.inf]).epsilon() == math.inf
    if method in PROVED:
        assert 3.8 < ledger_of(method, epsilons=[4.0], adjacency="replace").epsilon() <= 4.0 + 1e-3


@pytest.mark.parametrize("method", ["cslr-central", "cslr-published"])
def test_the_total_is_infinite_while_the_head_is_clean(method: str) -> None:
    params = {"head": "clean"} if method == "cslr-central" else {"modes_per_task": 1}
    asked = clients.small(method, params=params)
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert math.isfinite(ledger.by_channel()[REPLAY])
    assert ledger.by_channel()[HEAD] == ledger.epsilon() == math.inf
    expected = "replay" if method == "cslr-central" else "claimed"
    assert catalog.standing(asked) == expected, "every surface sets it apart from budgets that are bounds"
    assert catalog.standing(clients.small("cslr-central")) == "bound"
    (cell,) = asked.cells()
    given = guarantee(ledger, asked, cell, unit="user", n_people=clients.N_CLIENTS, n_tasks=len(OF.tasks))
    assert statement.standing(given) == expected


def test_replay_and_head_of_one_round_are_one_event_of_the_joint_noise() -> None:
    """The same clients send both: one amplified Gaussian a round, as the closed form of the joint multiplier has it."""
    asked = clients.small("cslr-central", params={"releases": "round", "participation": 0.5, "rounds": 3})
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert len(ledger.entries) == 4 * 3
    parts = ledger.by_channel()
    assert parts[REPLAY] == pytest.approx(parts[HEAD], rel=1e-6)  # an even share of 1/z² each
    (one,) = {entry.event for entry in ledger.entries}
    alone = {entry.channels[HEAD] for entry in ledger.entries}
    assert one.event.noise_multiplier * math.sqrt(2) == pytest.approx(alone.pop().event.noise_multiplier)
    expected = Pld().epsilon([subsampled_gaussian(one.event.noise_multiplier, 0.5, 12)], 1e-5, "add-remove")
    assert ledger.epsilon() == pytest.approx(expected, rel=1e-6)
    assert ledger.epsilon() == pytest.approx(4.0, rel=1e-3)


def test_accuracy_comes_with_clients_and_goes_with_noise() -> None:
    """Eight clients without noise know all four classes; forgetting is what training in rounds without replay does."""
    kept = clients.run(clients.small("cslr-server-head", privacy={"epsilons": [math.inf], "noise": "seeded"},
                             params={"steps": 200, "samples": 200, "learning_rate": 3e-3}), OF, PUBLIC)[1]  # fmt: skip
    lost = clients.run(clients.small("dp-fedavg", privacy={"epsilons": [math.inf], "noise": "seeded"},
                             params={"rounds": 8, "local_steps": 5, "learning_rate": 1e-2}), OF, PUBLIC)[1]  # fmt: skip
    assert next(iter(kept.values()))[-1] > 0.9
    assert next(iter(lost.values()))[-1] < 0.6


def test_stat_share_is_a_list_of_one_entry() -> None:
    """Lists of one entry leave nothing to match: the same mixture, head and accuracy as CSLR with one group a label."""
    one, other = (clients.run(clients.small(name), OF, PUBLIC) for name in ("dp-stat-share", "cslr-central"))
    (cell,) = clients.small("cslr-central").cells()
    assert one[1] == other[1]
    assert one[0][cell].entries == other[0][cell].entries


def changed(of: TaskStream, random: np.random.Generator) -> TaskStream:
    """The same stream with other private rows and labels."""

    def drawn(task: Task) -> Examples:
        rows = random.standard_normal((len(task.train), clients.WIDTH)).astype(np.float32)
        return Examples(rows, task.train.labels, task.train.users)

    return clients.with_rows(of, drawn)


def test_the_server_s_head_is_a_function_of_the_releases_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 2: the same noisy sums with other private data give bit-identical scores."""
    recorded: list[list[np.ndarray]] = []
    watched(monkeypatch, client_release, "noisy_client_sums", lambda found, given: recorded.append(found))
    first = clients.run(clients.small("cslr-server-head"), OF, PUBLIC)
    again = iter(recorded[:])
    monkeypatch.setattr(client_release, "noisy_client_sums", lambda *given, **named: next(again))
    second = clients.run(clients.small("cslr-server-head"), changed(OF, np.random.default_rng(1)), PUBLIC)
    task = OF.tasks[0]
    scores = [run[3][0].scores(0, task)["argmax"] for run in (first, second)]
    assert np.array_equal(scores[0], scores[1])


def test_another_matcher_leaves_everything_else_as_it_is() -> None:
    """Check 16: anchors, first weights and who takes part do not depend on the matcher."""
    runs = [clients.run(clients.small("cslr-central", params={"matcher": matcher, "releases": "round"}), OF, PUBLIC)
            for matcher in ("signature", "mean")]  # fmt: skip
    assert runs[0][1] == runs[1][1], "one group a label: the matcher has nothing to decide"


def test_seeds_differ_and_each_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = clients.run(clients.small("cslr-server-head", seeds=[17]), OF, PUBLIC)[1]
    among = clients.run(clients.small("cslr-server-head", seeds=[13, 17, 19]), OF, PUBLIC)[1]
    assert alone[spec.Cell(4.0, 17)] == among[spec.Cell(4.0, 17)]


@pytest.mark.parametrize("dataset", ["own:mine", "dreaddit"])
def test_nothing_of_a_client_reaches_what_is_told_of_data_that_no_page_shows(dataset: str) -> None:
    """Check 18: the simulator's view is told of public data alone; of a person's own data, and of texts that no page ever
    shows, there is progress, in public numbers, and nothing else."""
    usual = clients.small("cslr-server-head")
    own = replace(usual, data=replace(usual.data, dataset=dataset))
    said = clients.run(own, OF, PUBLIC)[2]
    assert {type(event) for event in said} == {Progress}
    assert without_times(said) == without_times(clients.run(own, changed(OF, np.random.default_rng(2)), PUBLIC)[2])


def test_an_empty_client_and_one_with_a_single_class_take_part_like_any_other() -> None:
    """Client 3 has no rows, client 5 those of one class."""
    of = clients.kept(OF, lambda task: (task.train.users != 3) & ((task.train.users != 5) | (task.train.labels == 0)))
    for method in CLIENT_METHODS:
        accuracies = clients.run(clients.small(method), of, PUBLIC)[1]
        assert all(0 <= value <= 1 for values in accuracies.values() for value in values)


def test_a_task_without_any_rows_releases_noise_like_any_other() -> None:
    of = clients.kept(OF, lambda task: np.full(len(task.train), task.index > 0))
    for method in ("cslr-server-head", "cslr-central", "label-means", "dp-fedavg"):
        (ledger,) = clients.run(clients.small(method), of, PUBLIC)[0].values()
        assert ledger.epsilon() == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("method", ["cslr-server-head", "cslr-central", "dp-fedavg", "label-means", "local-list"])
def test_a_task_more_than_planned_is_refused(method: str) -> None:
    ledgers, _, _, (learner,) = clients.run(clients.small(method), replace(OF, tasks=OF.tasks[:2]), PUBLIC)
    (ledger,) = ledgers.values()
    spent = len(ledger.entries)
    asserting.refuses(r"scenario\.tasks = 3: must be at most 2", list, learner.learn({0: OF.tasks[2]}, ledgers))
    assert len(ledger.entries) == spent


FACTS = PublicSizes(4000, 4, 4, "every", 20)
ONE, UNIT_ON_AXES = replace(FACTS, n_users=1), {"unit_length": True, "dimensions": 6}


@pytest.mark.parametrize(("method", "params", "facts", "field", "mend"), [
    ("cslr-server-head", {}, ONE, "scenario.clients", {}), ("label-means", {}, ONE, "scenario.clients", {}),
    ("label-means", {}, replace(FACTS, n_users=7, recurrence="once"), "scenario.clients", {"scenario.clients": 8}),
    ("dp-fedavg", {}, ONE, "scenario.clients", {}),
    ("cslr-central", {"list_size": 60}, FACTS, "params.list_size", {"params.list_size": 50}),
    ("cslr-central", {}, PublicSizes(100, 5, 2, "every", 20), "params.list_size", {"params.list_size": 1}),
    ("cslr-central", {"modes_per_task": 5}, FACTS, "params.modes_per_task", {"params.modes_per_task": 4}),
    ("cslr-server-head", {"anchors": 1}, FACTS, "params.anchors", {}),
    ("cslr-published", {"anchors": 1}, FACTS, "params.anchors", {}),
    ("cslr-published", UNIT_ON_AXES, FACTS, "params.unit_length", {"params.unit_length": False}),
    ("dp-fedavg", {"participation": 0.01}, FACTS, "params.participation", {}),
    ("fedta-lite", {}, FACTS, "privacy.epsilons", {"privacy.epsilons": (math.inf,)}),
])  # fmt: skip
def test_settings_that_cannot_work_are_refused_with_what_mends_them(
    method: str, params: dict[str, object], facts: PublicSizes, field: str, mend: dict[str, object]
) -> None:
    refusal = asserting.refusal_of(catalog.card(method).refuses, clients.spec(method, params=params), facts)
    assert (refusal.field, refusal.fix) == (field, mend)


def test_a_client_of_one_task_alone_has_all_its_texts_in_it() -> None:
    catalog.card("cslr-central").refuses(clients.spec("cslr-central"), PublicSizes(100, 5, 2, "once", 20))


def test_more_anchors_than_public_sentences_are_refused_and_features_have_no_more_axes_than_numbers() -> None:
    with pytest.raises(errors.BadInput, match=r"params\.anchors = 299: must be at most 296"):
        clients.run(clients.small("cslr-server-head", params={"anchors": 299}), OF, PUBLIC)
    _, _, _, (learner,) = clients.run(clients.small("label-means", params={"dimensions": 200}), OF, PUBLIC)
    assert learner._releases.public.view.axes.shape == (24, 24)


def test_labels_of_a_told_task_alone_compete() -> None:
    """One against the rest: the task is told when tested, and a model trained on all tasks answers with its two labels."""
    tasks = []
    for index, task in enumerate(clients.stream(per_class=20)[0].tasks[:2]):
        labels = 2 * index + (np.arange(len(task.train)) % 2)
        tests = 2 * index + (np.arange(len(task.test)) % 2)
        tasks.append(replace(task, train=replace(task.train, labels=labels), test=replace(task.test, labels=tests),
                             prior=(2 * index, 2 * index + 1), task_id=index))  # fmt: skip
    of = TaskStream(tuple(tasks), ("not a", "a", "not b", "b"), "every", "user")
    for labels_setting in ("prior", "prior-const"):
        _, _, _, (learner,) = clients.run(clients.small("label-means", labels=labels_setting), of, PUBLIC)
        for index, task in enumerate(tasks):
            assert set(np.unique(learner.scores(0, task)["nearest"].argmax(axis=2))) <= {2 * index, 2 * index + 1}


def test_a_task_still_to_come_is_no_gift_to_a_model_that_knows_nothing() -> None:
    """With one label a task, its own label alone would always be right: all public ones compete until it is learned."""
    asked = clients.small("label-means")
    learner = catalog.maker("label-means")(asked, list(asked.cells()), clients.known(OF, PUBLIC))
    last = OF.tasks[-1]
    assert np.isfinite(learner.scores(0, last)["nearest"]).all()
    taught(learner, asked, OF.tasks[:1])
    assert np.isfinite(learner.scores(0, last)["nearest"]).all()
    own = learner.scores(0, OF.tasks[0])["nearest"]
    assert np.isfinite(own[..., 0]).all()
    assert np.isneginf(own[..., 1:]).all()


@pytest.mark.parametrize("method", of_methods(["cslr-published", "cslr-central", "cslr-server-head", "local-list"]))
def test_rehearsed_embeddings_are_of_unit_length_where_asked_for(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise makes them a different length else."""
    lengths: list[np.ndarray] = []
    watched(monkeypatch, client_release, "sampled", lambda drawn, given: lengths.append(np.linalg.norm(drawn[0], axis=1)))
    for unit_length in (False, True):
        lengths.clear()
        clients.run(clients.small(method, params={"unit_length": unit_length}), OF, PUBLIC)
        assert lengths
        assert all((np.abs(each - 1) < 1e-5).all() for each in lengths) == unit_length


def test_clients_of_a_round_are_the_same_whatever_matches_their_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 16, with groups to be matched: coins come from the seed alone."""
    drawn: list[list[int]] = []
    watched(monkeypatch, noise.Batches, "draw", lambda found, given: drawn.append(found.tolist()))
    found = []
    for matcher in ("signature", "mean", "random"):
        params = {"matcher": matcher, "releases": "round", "modes_per_task": 2, "participation": 0.5}
        clients.run(clients.small("cslr-central", params=params), OF, PUBLIC)
        found.append(drawn[:])
        drawn.clear()
    assert found[0] == found[1] == found[2]
    assert len({tuple(one) for one in found[0]}) > 1


# CSLR as its paper prints it: which switches make a run one, what is claimed and what is released.


SHORT = TaskStream(OF.tasks[:1], OF.classes, "every", "user")


def test_published_never_claims_without_what_its_noise_costs() -> None:
    asked = clients.small("cslr-published", params={"participation": 0.3, "rounds": 50, "local_steps": 1})
    (ledger,) = clients.run(asked, SHORT, PUBLIC)[0].values()
    claim = ledger.claimed
    assert claim.epsilon == 4.0
    assert claim.accounted > 4.0
    assert ledger.by_channel() == {REPLAY: math.inf, HEAD: math.inf}, "clustered lists leave no bound"


def test_published_noise_is_refused_for_a_budget_that_the_paper_does_not_print() -> None:
    asked = clients.spec("cslr-published", privacy={"epsilons": [2.0], "noise": "seeded"})
    with pytest.raises(errors.BadInput, match=r"must be 1, 4, 8 or inf"):
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
    assert [one.parameter for one in layer.departures] == ["scenario.clients", "params.rounds"]
    assert layer.name == "as printed"
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    multiplier = 1.45 / math.sqrt(1 + 3 * 4)
    bound = gaussian.epsilon(multiplier / math.sqrt(4 * 3), 1e-5)  # four tasks of three rounds, none of them amplified
    assert ledger.by_channel()[REPLAY] == pytest.approx(bound, rel=1e-3)
    assert ledger.by_channel()[HEAD] == ledger.epsilon() == math.inf
    claim = ledger.claimed
    assert claim.accounted is not None
    reading = cslr_accounting.Reading(1.45 / math.sqrt(2 * 4 * 4), n_rounds=12, n_statistics=1, n_clients=8)
    assert claim.accounted == pytest.approx(cslr_accounting.costs(reading).pld, rel=1e-6)


@pytest.mark.parametrize("changed", ["noisy_lists", "aggregation", "averaging", "targets"])
def test_each_switch_away_from_print_is_named(changed: str) -> None:
    usual = spec.fields_of(catalog.card("cslr-published").params)[changed].default
    layer = catalog.layer(clients.spec("cslr-published", params={**PRINT, changed: usual}))
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
    centre = matchers.PublicEmbeddings.of(PUBLIC, 0, 2, None, 20).view.centre
    assert pytest.approx(float(np.linalg.norm(own - centre)), rel=0.1) == told.signal["mean"] < told.noise["mean"]
