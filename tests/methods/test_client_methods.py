"""Methods of clients: the common rules of all of them, three numbers of every ledger, and what a person may get wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Progress, Signatures, to_json
from dpcl_core.methods import catalog, cslr_published
from dpcl_core.methods.cslr import pooling, published, release, replay, server, training
from dpcl_core.methods.cslr.known import Public
from dpcl_core.methods.cslr.lists import Lists
from dpcl_core.methods.cslr.published import SlotSums
from dpcl_core.methods.cslr.rounds import Participation
from dpcl_core.methods.facts import Facts
from dpcl_core.privacy import card as privacy_card
from dpcl_core.privacy import cslr_accounting, gaussian, mechanisms
from dpcl_core.privacy.accounting import Pld, subsampled_gaussian
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.statement import guarantee, standing, three_numbers
from dpcl_core.privacy.written import written
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import Cell, RunSpec
from tests.support import clients

CLIENT_METHODS = [name for name, card in catalog.CARDS.items() if card.scenarios == ("federated",)]
PROVED = [name for name in CLIENT_METHODS if catalog.card(name).guarantee == "proved"]
FEW = {"params": {"rounds": 3, "local_steps": 2, "hidden": 8}}  # of methods that train in rounds
STEPS = {"params": {"steps": 30, "samples": 60, "hidden": 8}}
OF, PUBLIC = clients.stream(per_class=40)


def small(method: str, **changes: object) -> RunSpec:
    """A run that takes a fraction of a second."""
    fields = catalog.card(method).params.model_fields
    params = FEW if "rounds" in fields else STEPS if "steps" in fields else {"params": {}}
    merged = {**params["params"], **changes.pop("params", {})}  # type: ignore[dict-item]
    if "dimensions" in fields and method != "cslr-published":
        merged = {"dimensions": 4, **merged}
    if "anchors" in fields:
        merged = {"anchors": 20, "restarts": 1, **merged}
    if catalog.card(method).guarantee == "none":
        changes = {"privacy": {"epsilons": [math.inf], "noise": "seeded"}, **changes}
    return clients.spec(method, **{"params": merged, **changes})


def without_times(said: list[Event]) -> list[object]:
    return [to_json(event) for event in said]


@pytest.mark.parametrize("method", CLIENT_METHODS)
def test_every_method_of_clients_keeps_the_common_rules(method: str) -> None:
    """Same spec, same events and scores; every task has entries of its own; three numbers stand."""
    asked = small(method)
    first, again = (clients.run(asked, OF, PUBLIC) for _ in range(2))
    assert first[1] == again[1]
    assert without_times(first[2]) == without_times(again[2])
    (cell,) = asked.cells()
    ledger = first[0][cell]
    assert {entry.task for entry in ledger.entries} == set(range(len(OF.tasks)))
    given = guarantee(ledger, asked, cell, unit="user", n_people=clients.N_CLIENTS, n_tasks=len(OF.tasks))
    assert three_numbers(given).startswith("Replay ε = ")
    finished = CellFinished(cell, {}, given, 1.0, written(ledger))
    (found,) = privacy_card.verify(json.dumps(privacy_card.document("0" * 12, method, "", [finished])).encode())
    assert found.verdict == "matches", privacy_card.sentence(found)
    for event in first[2]:
        assert isinstance(event, Progress | Signatures)
        if isinstance(event, Progress):
            assert 0 <= event.done <= event.total


@pytest.mark.parametrize("method", CLIENT_METHODS)
def test_what_left_a_learner_is_a_copy_of_finite_numbers(method: str) -> None:
    """An auditor's view: arrays of public sizes, which the next task does not change under his hands."""
    asked = small(method)
    (cell,) = asked.cells()
    learner = catalog.maker(method)(asked, [cell], clients.known(OF, PUBLIC))
    ledgers = {cell: Ledger(asked.privacy.delta, asked.privacy.adjacency, OF.recurrence)}
    seen = []
    for task in OF.tasks[:2]:
        list(learner.learn({cell.seed: task}, ledgers))
        found = learner.released(cell)
        assert found
        assert all(np.isfinite(array).all() for array in found.values())
        seen.append((found, {name: array.copy() for name, array in found.items()}))
    for found, copied in seen:
        for name in found:
            assert (found[name] == copied[name]).all(), name


@pytest.mark.parametrize("method", PROVED)
def test_a_proved_budget_is_kept_and_nearly_spent(method: str) -> None:
    asked = small(method)
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert 3.9 < ledger.epsilon() <= 4.0 + 1e-3
    parts = ledger.by_channel()
    assert max(parts.values()) <= ledger.epsilon() + 1e-9
    if len(parts) == 2:
        assert ledger.epsilon() < sum(parts.values())


@pytest.mark.parametrize("method", PROVED)
def test_under_replace_the_budget_is_kept_with_more_noise(method: str) -> None:
    privacy = {"epsilons": [4.0], "noise": "seeded", "adjacency": "replace"}
    asked = small(method, privacy=privacy)
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert 3.8 < ledger.epsilon() <= 4.0 + 1e-3


@pytest.mark.parametrize("method", CLIENT_METHODS)
def test_without_noise_nothing_is_called_private(method: str) -> None:
    asked = small(method, privacy={"epsilons": [math.inf], "noise": "seeded"})
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert ledger.epsilon() == math.inf


@pytest.mark.parametrize("method", ["cslr-central", "cslr-published"])
def test_the_total_is_infinite_while_the_head_is_clean(method: str) -> None:
    params = {"head": "clean"} if method == "cslr-central" else {"modes_per_task": 1}
    asked = small(method, params=params)
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert math.isfinite(ledger.by_channel()[REPLAY])
    assert ledger.by_channel()[HEAD] == ledger.epsilon() == math.inf
    expected = "replay" if method == "cslr-central" else "claimed"
    assert catalog.standing(asked) == expected, "every surface sets it apart from budgets that are bounds"
    assert catalog.standing(small("cslr-central")) == "bound"
    (cell,) = asked.cells()
    given = guarantee(ledger, asked, cell, unit="user", n_people=clients.N_CLIENTS, n_tasks=len(OF.tasks))
    assert standing(given) == expected


def test_replay_and_head_of_one_round_are_one_event_of_the_joint_noise() -> None:
    """The same clients send both: one amplified Gaussian a round, as the closed form of the joint multiplier has it."""
    asked = small("cslr-central", params={"releases": "round", "participation": 0.5, "rounds": 3})
    (ledger,) = clients.run(asked, OF, PUBLIC)[0].values()
    assert len(ledger.entries) == 4 * 3
    parts = ledger.by_channel()
    assert parts[REPLAY] == pytest.approx(parts[HEAD], rel=1e-6)  # an even share of 1/z² each
    joint = {entry.event for entry in ledger.entries}
    (one,) = joint
    alone = {entry.channels[HEAD] for entry in ledger.entries}
    assert one.event.noise_multiplier * math.sqrt(2) == pytest.approx(alone.pop().event.noise_multiplier)
    expected = Pld().epsilon([subsampled_gaussian(one.event.noise_multiplier, 0.5, 12)], 1e-5, "add-remove")
    assert ledger.epsilon() == pytest.approx(expected, rel=1e-6)
    assert ledger.epsilon() == pytest.approx(4.0, rel=1e-3)


def test_published_never_claims_without_what_its_noise_costs() -> None:
    asked = small("cslr-published", params={"participation": 0.3, "rounds": 50, "local_steps": 1})
    short = TaskStream(OF.tasks[:1], OF.classes, "every", "user")
    (ledger,) = clients.run(asked, short, PUBLIC)[0].values()
    claim = ledger.claimed
    assert claim is not None
    assert claim.epsilon == 4.0
    assert claim.accounted is not None
    assert claim.accounted > 4.0
    assert ledger.by_channel() == {REPLAY: math.inf, HEAD: math.inf}, "clustered lists leave no bound"


def test_accuracy_comes_with_clients_and_goes_with_noise() -> None:
    """Eight clients without noise know all four classes; forgetting is what training in rounds without replay does."""
    kept = clients.run(small("cslr-server-head", privacy={"epsilons": [math.inf], "noise": "seeded"},
                             params={"steps": 200, "samples": 200, "learning_rate": 3e-3}), OF, PUBLIC)[1]  # fmt: skip
    lost = clients.run(small("dp-fedavg", privacy={"epsilons": [math.inf], "noise": "seeded"},
                             params={"rounds": 8, "local_steps": 5, "learning_rate": 1e-2}), OF, PUBLIC)[1]  # fmt: skip
    assert next(iter(kept.values()))[-1] > 0.9
    assert next(iter(lost.values()))[-1] < 0.6


def test_stat_share_is_a_list_of_one_entry() -> None:
    """Lists of one entry leave nothing to match: the same mixture, head and accuracy as CSLR with one group a label."""
    one, other = (clients.run(small(name), OF, PUBLIC) for name in ("dp-stat-share", "cslr-central"))
    (cell,) = small("cslr-central").cells()
    assert one[1] == other[1]
    assert one[0][cell].entries == other[0][cell].entries


def changed(of: TaskStream, random: np.random.Generator) -> TaskStream:
    """The same stream with other private rows and labels."""
    tasks = []
    for task in of.tasks:
        rows = random.standard_normal((len(task.train), clients.WIDTH)).astype(np.float32)
        tasks.append(replace(task, train=Examples(rows, task.train.labels, task.train.users)))
    return replace(of, tasks=tuple(tasks))


def test_the_server_s_head_is_a_function_of_the_releases_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 2: the same noisy sums with other private data give bit-identical scores."""
    recorded: list[list[np.ndarray]] = []
    true = mechanisms.noisy_client_sums

    def recording(*given: object, **named: object) -> list[np.ndarray]:
        recorded.append(true(*given, **named))  # type: ignore[arg-type]
        return recorded[-1]

    monkeypatch.setattr(release, "noisy_client_sums", recording)
    first = clients.run(small("cslr-server-head"), OF, PUBLIC)
    again = iter(recorded[:])
    monkeypatch.setattr(release, "noisy_client_sums", lambda *given, **named: next(again))
    second = clients.run(small("cslr-server-head"), changed(OF, np.random.default_rng(1)), PUBLIC)
    task = OF.tasks[0]
    scores = [run[3][0].scores(0, task)["argmax"] for run in (first, second)]
    assert np.array_equal(scores[0], scores[1])


def test_another_matcher_leaves_everything_else_as_it_is() -> None:
    """Check 16: anchors, first weights and who takes part do not depend on the matcher."""
    runs = [clients.run(small("cslr-central", params={"matcher": matcher, "releases": "round"}), OF, PUBLIC)
            for matcher in ("signature", "mean")]  # fmt: skip
    assert runs[0][1] == runs[1][1], "one group a label: the matcher has nothing to decide"


def test_seeds_differ_and_each_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = clients.run(small("cslr-server-head", seeds=[17]), OF, PUBLIC)[1]
    among = clients.run(small("cslr-server-head", seeds=[13, 17, 19]), OF, PUBLIC)[1]
    assert alone[Cell(4.0, 17)] == among[Cell(4.0, 17)]


def test_nothing_of_a_client_reaches_what_is_told_of_one_s_own_data() -> None:
    """Check 18: the simulator's view is told of public data alone; of a person's own data there is progress, in public
    numbers, and nothing else."""
    own = small("cslr-server-head").model_copy(update={"data": small("cslr-server-head").data.model_copy(
        update={"dataset": "own:mine"})})  # fmt: skip
    said = clients.run(own, OF, PUBLIC)[2]
    assert {type(event) for event in said} == {Progress}
    other = clients.run(own, changed(OF, np.random.default_rng(2)), PUBLIC)[2]
    assert without_times(said) == without_times(other)


def test_an_empty_client_and_one_with_a_single_class_take_part_like_any_other() -> None:
    tasks = []
    for task in OF.tasks:
        users = task.train.users
        assert users is not None
        keep = users != 3  # a client without a row at all
        keep &= (users != 5) | (task.train.labels == 0)  # and one with a class alone
        tasks.append(replace(task, train=task.train.take(np.flatnonzero(keep))))
    for method in CLIENT_METHODS:
        accuracies = clients.run(small(method), replace(OF, tasks=tuple(tasks)), PUBLIC)[1]
        assert all(0 <= value <= 1 for values in accuracies.values() for value in values)


def test_a_task_without_any_rows_releases_noise_like_any_other() -> None:
    first = OF.tasks[0]
    empty = replace(first, train=first.train.take(np.zeros(0, dtype=np.int64)))
    of = replace(OF, tasks=(empty, *OF.tasks[1:]))
    for method in ("cslr-server-head", "cslr-central", "label-means", "dp-fedavg"):
        (ledger,) = clients.run(small(method), of, PUBLIC)[0].values()
        assert ledger.epsilon() == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("method", ["cslr-server-head", "cslr-central", "dp-fedavg", "label-means", "local-list"])
def test_a_task_more_than_planned_is_refused(method: str) -> None:
    asked = small(method)
    (cell,) = asked.cells()
    two = replace(OF, tasks=OF.tasks[:2])
    learner = catalog.maker(method)(asked, [cell], clients.known(two, PUBLIC))
    ledgers = {cell: Ledger(1e-5, "add-remove", "every")}
    for task in two.tasks:
        list(learner.learn({0: task}, ledgers))
    spent = len(ledgers[cell].entries)
    late: Task = OF.tasks[2]
    with pytest.raises(BadInput, match=r"scenario\.tasks = 3: must be at most 2: the budget was shared out"):
        list(learner.learn({0: late}, ledgers))
    assert len(ledgers[cell].entries) == spent


FACTS = Facts(4000, 4, 4, "every", 20)


@pytest.mark.parametrize(
    ("method", "params", "facts", "said"),
    [
        ("cslr-server-head", {}, replace(FACTS, n_users=1), r"scenario\.clients = 1: must be at least 2: with one client"),
        ("label-means", {}, replace(FACTS, n_users=1), r"scenario\.clients = 1"),
        ("label-means", {}, replace(FACTS, n_users=7, recurrence="once"), r"scenario\.clients = 7: must be at least 8"),
        ("dp-fedavg", {}, replace(FACTS, n_users=1), r"scenario\.clients = 1"),
        ("cslr-central", {"list_size": 60}, FACTS, r"params\.list_size = 60: must be at most 50, the texts that a"),
        ("cslr-central", {"modes_per_task": 5}, FACTS, r"params\.modes_per_task = 5: must be at most params\.list_size = 4"),
        ("cslr-server-head", {"anchors": 1}, FACTS, r"params\.anchors = 1: must be at least 2: centred over one anchor"),
        ("cslr-published", {"anchors": 1}, FACTS, r"params\.anchors = 1"),
        ("cslr-published", {"unit_length": True, "dimensions": 6}, FACTS, r"params\.unit_length = true: must be false with"),
        ("dp-fedavg", {"participation": 0.01}, FACTS, r"params\.participation = 0\.01: must be at least 0\.05"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_sentence(
    method: str, params: dict[str, object], facts: Facts, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        catalog.card(method).refuses(clients.spec(method, params=params), facts)


def test_a_task_without_a_public_label_is_refused() -> None:
    asked = small("label-means").model_copy(update={"public_labels": ("b", "c")})
    learner = catalog.maker("label-means")(asked, list(asked.cells()), replace(clients.known(OF, PUBLIC), public=(1, 2)))
    with pytest.raises(BadInput, match=r"public_labels = b, c: must name a label of every task: task 1 would have none"):
        list(learner.learn({0: OF.tasks[0]}, {cell: Ledger(1e-5, "add-remove", "every") for cell in asked.cells()}))


def test_a_client_of_one_task_alone_has_all_its_texts_in_it() -> None:
    catalog.card("cslr-central").refuses(clients.spec("cslr-central"), Facts(100, 5, 2, "once", 20))
    with pytest.raises(BadInput, match=r"params\.list_size = 4: must be at most 1"):
        catalog.card("cslr-central").refuses(clients.spec("cslr-central"), Facts(100, 5, 2, "every", 20))


def test_published_noise_is_refused_for_a_budget_that_the_paper_does_not_print() -> None:
    asked = clients.spec("cslr-published", privacy={"epsilons": [2.0], "noise": "seeded"})
    with pytest.raises(BadInput, match=r"must be 1, 4, 8 or inf"):
        catalog.card("cslr-published").refuses(asked, FACTS)


def test_a_method_without_noise_refuses_a_budget() -> None:
    with pytest.raises(BadInput, match=r"must be inf: FedTA-lite adds no noise"):
        catalog.card("fedta-lite").refuses(clients.spec("fedta-lite"), FACTS)


def test_more_anchors_or_axes_than_public_sentences_are_refused() -> None:
    for params, said in (({"anchors": 299}, r"params\.anchors = 299: must be at most 296"),
                         ({"dimensions": 200}, r"params\.dimensions = 200: must be at most 24")):  # fmt: skip
        with pytest.raises(BadInput, match=said):
            clients.run(small("cslr-server-head", params=params), OF, PUBLIC)


def test_labels_of_a_told_task_alone_compete() -> None:
    """One against the rest: the task is told when tested, and a model trained on all tasks answers with its two labels."""
    tasks = []
    for index, task in enumerate(clients.stream(per_class=20)[0].tasks[:2]):
        labels = 2 * index + (np.arange(len(task.train)) % 2)
        tests = 2 * index + (np.arange(len(task.test)) % 2)
        pair = (2 * index, 2 * index + 1)
        tasks.append(replace(task, train=replace(task.train, labels=labels), test=replace(task.test, labels=tests),
                             prior=pair, task_id=index))  # fmt: skip
    of = TaskStream(tuple(tasks), ("not a", "a", "not b", "b"), "every", "user")
    for labels_setting in ("prior", "prior-const"):
        _, _, _, (learner,) = clients.run(small("label-means", labels=labels_setting), of, PUBLIC)
        for index, task in enumerate(tasks):
            answers = learner.scores(0, task)["nearest"].argmax(axis=2)
            assert set(np.unique(answers)) <= {2 * index, 2 * index + 1}


def test_a_task_still_to_come_is_no_gift_to_a_model_that_knows_nothing() -> None:
    """With one label a task, its own label alone would always be right: all public ones compete until it is learned."""
    asked = small("label-means")
    learner = catalog.maker("label-means")(asked, list(asked.cells()), clients.known(OF, PUBLIC))
    last = OF.tasks[-1]
    assert np.isfinite(learner.scores(0, last)["nearest"]).all()
    ledgers = {cell: Ledger(1e-5, "add-remove", "every") for cell in asked.cells()}
    list(learner.learn({0: OF.tasks[0]}, ledgers))
    assert np.isfinite(learner.scores(0, last)["nearest"]).all()
    own = learner.scores(0, OF.tasks[0])["nearest"]
    assert np.isfinite(own[..., 0]).all()
    assert np.isneginf(own[..., 1:]).all()


@pytest.mark.parametrize(("modes", "clusters"), [(1, False), (2, True)])
def test_one_group_a_label_is_not_clustered_and_its_replay_has_a_bound(
    modes: int, clusters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two labels a task: a client knows its own entries' labels, so that nobody else moves them."""
    calls: list[int] = []
    true = pooling.pooled

    def counting(*given: object, **named: object) -> object:
        calls.append(1)
        return true(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cslr_published, "pooled", counting)
    of, public = clients.stream(per_class=40, classes_per_task=2)
    asked = small("cslr-published", params={"modes_per_task": modes, "list_size": 2, "participation": 1.0})
    (ledger,) = clients.run(asked, of, public)[0].values()
    assert bool(calls) == clusters
    assert math.isinf(ledger.by_channel()[REPLAY]) == clusters
    assert any("not proven" in entry.what for entry in ledger.entries) == clusters
    assert any("clustered together" in note for note in catalog.card("cslr-published").notes(asked.params)) == clusters


def test_published_names_groups_after_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the round before that was not released has a say: names follow the running average of noisy sums."""
    named_after: list[np.ndarray | None] = []
    released: list[SlotSums] = []
    true_pooled, true_published = pooling.pooled, published.published

    def naming(*given: object) -> object:
        named_after.append(given[4])  # type: ignore[arg-type]
        return true_pooled(*given)  # type: ignore[arg-type]

    def releasing(*given: object, **named: object) -> object:
        sums = true_published(*given, **named)  # type: ignore[arg-type]
        released.extend(sums)
        return sums

    monkeypatch.setattr(cslr_published, "pooled", naming)
    monkeypatch.setattr(published, "published", releasing)
    params = {"modes_per_task": 2, "list_size": 2, "participation": 1.0, "rounds": 4, "matcher": "mean", "rule": "nearest"}
    clients.run(small("cslr-published", params=params), TaskStream(OF.tasks[:1], OF.classes, "every", "user"), PUBLIC)
    assert named_after[0] is None
    running = released[0]
    for previous, newest in zip(named_after[1:], released[1:], strict=True):
        share = np.maximum(running.weights, 1 / (4 * 2))[:, None]
        assert previous == pytest.approx(running.means / share)
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
    usual = catalog.card("cslr-published").params.model_fields[changed].default
    layer = catalog.layer(clients.spec("cslr-published", params={**PRINT, changed: usual}))
    assert layer is not None
    assert layer.name == "made to work"
    assert f"params.{changed}" in [one.parameter for one in layer.departures]


def test_a_rounds_own_release_is_replayed_where_nothing_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq 2; names of groups still follow the running average."""
    released: list[SlotSums] = []
    replayed: list[np.ndarray] = []
    true, drawn = published.published, training.invented

    def releasing(*given: object, **named: object) -> object:
        sums = true(*given, **named)  # type: ignore[arg-type]
        released.extend(sums)
        return sums

    def looking(parts: Sequence[object], *given: object, **named: object) -> object:
        replayed.append(parts[-1].means)  # type: ignore[attr-defined]
        return drawn(parts, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(published, "published", releasing)
    monkeypatch.setattr(training, "invented", looking)
    one = TaskStream(OF.tasks[:1], OF.classes, "every", "user")
    params = {"averaging": 0.0, "participation": 1.0, "rounds": 3}
    clients.run(small("cslr-published", params=params), one, PUBLIC)
    assert len(released) == len(replayed) == 3
    for sums, means in zip(released, replayed, strict=True):
        assert means == pytest.approx(sums.replay().means)


def test_a_private_divisor_leaves_the_replay_without_a_bound() -> None:
    params = {"aggregation": "entries", "modes_per_task": 1, "participation": 1.0}
    (ledger,) = clients.run(small("cslr-published", params=params), OF, PUBLIC)[0].values()
    assert ledger.by_channel()[REPLAY] == math.inf
    assert any("how many clients came" in entry.what for entry in ledger.entries)


@pytest.mark.parametrize("method", ["cslr-published", "cslr-central", "cslr-server-head", "local-list"])
def test_rehearsed_embeddings_are_of_unit_length_where_asked_for(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise makes them a different length else."""
    lengths: list[np.ndarray] = []
    true = replay.invented

    def looking(*given: object, **named: object) -> object:
        drawn = true(*given, **named)  # type: ignore[arg-type]
        lengths.append(np.linalg.norm(drawn[0], axis=1))
        return drawn

    for module in (server, training):
        monkeypatch.setattr(module, "invented", looking)
    for unit_length in (False, True):
        lengths.clear()
        clients.run(small(method, params={"unit_length": unit_length}), OF, PUBLIC)
        assert lengths
        assert all((np.abs(each - 1) < 1e-5).all() for each in lengths) == unit_length


def test_published_on_few_axes_releases_their_coordinates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, ...]] = []
    true = published.published

    def recording(lists: Lists, *given: object, **named: object) -> object:
        sent.append(lists.means.shape)
        return true(lists, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(published, "published", recording)
    for dimensions, width in ((6, 6), (None, clients.WIDTH)):
        asked = small("cslr-published", params={"dimensions": dimensions, "rounds": 1, "participation": 1.0})
        _, _, _, (learner,) = clients.run(asked, OF, PUBLIC)
        assert sent.pop() == (clients.N_CLIENTS, 4, width)
        assert np.isfinite(learner.scores(0, OF.tasks[0])["argmax"]).any()
    with pytest.raises(BadInput, match=r"params\.dimensions = 25: must be at most 24"):
        clients.run(small("cslr-published", params={"dimensions": 25}), OF, PUBLIC)


@pytest.mark.parametrize(("second_moments", "n_second"), [("diagonal", clients.WIDTH), ("full", clients.WIDTH**2)])
def test_signal_against_noise_counts_every_value_that_is_released(second_moments: str, n_second: int) -> None:
    """Printed CSLR releases whole means and second moments; noise is over all their values, and the signal is clean."""
    params = {"second_moments": second_moments, "rounds": 1, "participation": 0.5}
    said = clients.run(small("cslr-published", params=params), OF, PUBLIC)[2]
    told = next(event for event in said if isinstance(event, Signatures))
    deviation = 1.45 / (0.5 * clients.N_CLIENTS)
    assert told.noise == pytest.approx({"mean": deviation * clients.WIDTH**0.5, "second moment": deviation * n_second**0.5})
    assert set(told.signal) == set(told.noise)
    own = OF.tasks[0].train.inputs.mean(axis=0)
    centre = Public.of(PUBLIC, 0, 2, None, 20).view.centre
    assert told.signal["mean"] == pytest.approx(float(np.linalg.norm(own - centre)), rel=0.1)
    assert told.signal["mean"] < told.noise["mean"]


def test_clients_of_a_round_are_the_same_whatever_matches_their_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 16, with groups to be matched: coins come from the seed alone."""
    drawn: list[list[int]] = []
    true = Participation.draw

    def recording(self: Participation) -> np.ndarray:
        found = true(self)
        drawn.append(found.tolist())
        return found

    monkeypatch.setattr(Participation, "draw", recording)
    found = []
    for matcher in ("signature", "mean", "random"):
        params = {"matcher": matcher, "releases": "round", "modes_per_task": 2, "participation": 0.5}
        clients.run(small("cslr-central", params=params), OF, PUBLIC)
        found.append(drawn[:])
        drawn.clear()
    assert found[0] == found[1] == found[2]
    assert len({tuple(one) for one in found[0]}) > 1
