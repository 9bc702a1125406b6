"""What clients train: heads and their losses against finite differences, copies side by side, rounds, and their averages."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpcl_core.errors import Diverged
from dpcl_core.methods.federated import client_training
from dpcl_core.methods.federated.client_training import Clients, Head, LocalPlan, cycled, local_updates, train_copies
from dpcl_core.methods.federated.fedcil_dp import AcGan, Generated, kl_gradients
from dpcl_core.privacy.sums import clipped_rows
from tests.support import clients

N_IN, N_OUT = 5, 3


def n_parameters(head: Head) -> int:
    """Number of parameters P."""
    return len(head.initial(np.random.default_rng(0)))


def rows_of_copies(copies: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.standard_normal((copies, n, N_IN)), random.dirichlet(np.ones(N_OUT), (copies, n))


def singles(copies: int, n: int) -> list[np.ndarray]:
    """The same in single precision."""
    return [each.astype(np.float32) for each in rows_of_copies(copies, n)]


def forward(params: np.ndarray, x: np.ndarray, inputs: int, hidden: int, outputs: int) -> np.ndarray:
    sizes = np.cumsum([inputs * hidden, hidden, hidden * outputs])
    first, bias, second, out_bias = np.split(params.astype(np.float64), sizes)
    return np.maximum(x @ first.reshape(inputs, hidden) + bias, 0) @ second.reshape(hidden, outputs) + out_bias


def loss(head: Head, params: np.ndarray, z: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """One copy's, written anew from the layers' formulas: params [P], z [b, d]."""
    if head.n_hidden:
        values = forward(params, z, N_IN, head.n_hidden, N_OUT)
    else:
        values = z @ params[:-N_OUT].reshape(N_IN, N_OUT) + params[-N_OUT:]
    return float(-weights @ (targets * (values - np.log(np.exp(values).sum(axis=1, keepdims=True)))).sum(axis=1))


def slope(of: Callable[[np.ndarray], float], params: np.ndarray, place: int, step: float = 1e-5) -> float:
    """By a difference: what a function rises by along one of its parameters [P]."""
    moved = np.eye(len(params))[place] * step
    return (of(params + moved) - of(params - moved)) / (2 * step)


@pytest.mark.parametrize("n_hidden", [0, 4])
def test_gradients_equal_finite_differences(n_hidden: int) -> None:
    head = Head(N_IN, N_OUT, n_hidden)
    random = np.random.default_rng(1)
    z, targets = rows_of_copies(2, 7)
    weights = random.uniform(0, 1, (2, 7))
    params = random.standard_normal((2, n_parameters(head)))
    found = head.gradients(params, z, targets, weights)
    for copy in range(2):
        own = partial(loss, head, z=z[copy], targets=targets[copy], weights=weights[copy])
        for place in range(n_parameters(head)):
            assert found[copy, place] == pytest.approx(slope(own, params[copy], place, 1e-6), abs=1e-6)


def test_the_published_head_has_as_many_parameters_as_the_paper_s() -> None:
    assert (n_parameters(Head(384, 4)), n_parameters(Head(32, 4, 0))) == (49_796, 132)


def test_first_weights_lie_within_one_over_the_root_of_fan_in() -> None:
    first = Head(400, 10, 25).initial(np.random.default_rng(0))
    assert first.dtype == np.float32
    outer, inner = first[: 401 * 25], first[401 * 25 :]
    assert np.abs(outer).max() == pytest.approx(1 / 20, rel=0.01)
    assert np.abs(inner).max() == pytest.approx(1 / 5, rel=0.05)


def test_rows_that_copies_share_need_not_be_repeated() -> None:
    head = Head(N_IN, N_OUT, 4)
    params = np.random.default_rng(2).standard_normal((3, 2, n_parameters(head))).astype(np.float32)
    z, targets = (each[None] for each in singles(2, 6))
    weights = np.full((1, 2, 6), 1 / 6, dtype=np.float32)
    together = head.gradients(params, z, targets, weights)
    for copy in range(3):
        assert together[copy] == pytest.approx(head.gradients(params[copy], z[0], targets[0], weights[0]), abs=1e-6)
    assert head.logits(params, z[0, 0]).shape == head.logits(params, z[0]).shape == (3, 2, 6, N_OUT)


def test_a_row_without_weight_or_target_moves_nothing() -> None:
    head = Head(N_IN, N_OUT, 4)
    params = np.random.default_rng(3).standard_normal((1, n_parameters(head))).astype(np.float32)
    z, targets = singles(1, 4)
    targets[0, 0] = 0
    assert not head.gradients(params, z, targets, np.array([[1, 0, 0, 0]], dtype=np.float32)).any()


def test_large_logits_stay_numbers() -> None:
    head = Head(N_IN, N_OUT, 0)
    params = np.full((1, n_parameters(head)), 500.0, dtype=np.float32)
    z = np.full((1, 2, N_IN), 30.0, dtype=np.float32)
    targets = np.full((1, 2, N_OUT), 1 / N_OUT, dtype=np.float32)
    assert np.isfinite(head.gradients(params, z, targets, np.ones((1, 2), dtype=np.float32))).all()


def test_copies_side_by_side_learn_what_each_would_alone() -> None:
    head = Head(N_IN, N_OUT, 4)
    z, targets = singles(3, 20)
    start = np.stack([head.initial(np.random.default_rng(seed)) for seed in range(3)])
    together = train_copies(head, start, z, targets, 30, 8, 0.01, np.random.default_rng(4))
    for copy in range(3):
        own = slice(copy, copy + 1)
        alone = train_copies(head, start[own], z[own], targets[own], 30, 8, 0.01, np.random.default_rng(4))
        assert together[own] == pytest.approx(alone, abs=1e-5)


def test_one_step_is_adam_s_first() -> None:
    """Every weight moves by the learning rate against the sign of its gradient, but for the stabiliser."""
    head = Head(N_IN, N_OUT, 0)
    z, targets = singles(1, 10)
    start = head.initial(np.random.default_rng(5))[None]
    gradient = head.gradients(start, z, targets, np.full((1, 10), 0.1, dtype=np.float32))
    found = train_copies(head, start, z, targets, 1, 10, 0.01, np.random.default_rng(6))
    assert found == pytest.approx(start - 0.01 * gradient / (np.abs(gradient) + 1e-8), abs=1e-6)


def test_each_row_comes_once_before_any_comes_again() -> None:
    order = cycled(7, 20, np.random.default_rng(8))
    assert sorted(order[:7]) == sorted(order[7:14]) == list(range(7))
    assert (len(order), len(set(order[14:]))) == (20, 6)


def test_a_training_that_diverges_says_so() -> None:
    head = Head(N_IN, N_OUT, 4)
    z, targets = singles(1, 10)
    start = head.initial(np.random.default_rng(9))[None]
    with pytest.raises(Diverged, match=r"diverged at step 1 of 5 with params\.learning_rate = 10000"):
        train_copies(head, start, z, targets, 5, 4, 1e4, np.random.default_rng(10))
    with pytest.raises(Diverged):
        train_copies(head, start * math.nan, z, targets, 5, 4, 0.01, np.random.default_rng(10))


# Rounds: what a client's training changes, and averages with and without noise.


D, C, N = 4, 3, 5
HEAD = Head(D, C, 3)


def some_clients(seed: int = 0) -> Clients:
    """Five clients; the third has no rows, the fourth a single one, the fifth one class alone."""
    random = np.random.default_rng(seed)
    users = np.concatenate([random.integers(0, 2, 30), np.repeat([3, 4, 4, 4], 1)])
    random.shuffle(users)
    labels = np.where(users == 4, 1, random.integers(0, C, len(users)))
    return Clients.of(random.standard_normal((len(users), D)), np.eye(C)[labels], users, N)


def start() -> np.ndarray:
    return HEAD.initial(np.random.default_rng(0))


def replayed(n: int = 9) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    return random.standard_normal((n, D)).astype(np.float32), random.dirichlet(np.ones(C), n).astype(np.float32)


def changes(
    of: Clients, chosen: Sequence[int], plan: LocalPlan, again: tuple[np.ndarray, np.ndarray] | None = None
) -> np.ndarray:
    """What these clients send after a round that starts from the same weights."""
    draws = client_training.client_draws(chosen, 0, "a round")
    return local_updates(HEAD, start(), of, np.array(chosen, np.int64), plan, draws, again)


def test_clients_know_their_own_rows() -> None:
    of = Clients.of(np.arange(10.0).reshape(5, 2), np.eye(5), np.array([2, 0, 2, 4, 0]), N)
    assert [places.tolist() for places in of.places] == [[1, 4], [], [0, 2], [], [3]]
    assert of.z.dtype == of.targets.dtype == np.float32


@pytest.mark.parametrize("with_replay", [False, True])
def test_one_step_on_all_rows_is_adam_on_the_mean_loss_of_both(with_replay: bool) -> None:
    """Against each client's own gradient, one at a time; the order of rows cannot matter."""
    of, first = some_clients(), start()
    for client in (0, 1, 3, 4):
        size = len(of.places[client])
        again, plan = replayed(n=size), LocalPlan(1, size, 0.01, replay_weight=0.5)
        found = changes(of, [client], plan, again if with_replay else None)
        own = of.places[client]
        parts = [(of.z[own], of.targets[own], 1.0), (*again, 0.5)][: 1 + with_replay]
        shares = np.full(size, 1 / size, dtype=np.float32)
        gradient = sum(weight * HEAD.gradients(first, z, y, shares) for z, y, weight in parts)
        large = np.abs(gradient) > 1e-4  # elsewhere rounding decides on the sign
        assert found[0][large] == pytest.approx((-0.01 * gradient / (np.abs(gradient) + 1e-8))[large], abs=1e-5)


def test_clients_side_by_side_change_as_alone() -> None:
    """One row a client and one replayed row: no order is left to draw, so each may be trained alone."""
    random = np.random.default_rng(2)
    of = Clients.of(random.standard_normal((N, D)), np.eye(C)[random.integers(0, C, N)], np.arange(N), N)
    plan, again = LocalPlan(4, 3, 0.01), replayed(n=1)
    together = changes(of, [0, 3, 4], plan, again)
    assert together.shape == (3, len(start()))
    for place, client in enumerate([0, 3, 4]):
        assert together[place] == pytest.approx(changes(of, [client], plan, again)[0], abs=1e-5)


def test_a_client_without_rows_changes_nothing_or_learns_from_replay_alone() -> None:
    of, plan = some_clients(), LocalPlan(3, 4, 0.01)
    without = changes(of, [1, 2], plan)
    assert without[0].any()
    assert not without[1].any()
    assert changes(of, [1, 2], plan, replayed())[1].any()


@pytest.mark.parametrize("value", [2e19, 3e38, np.inf, np.nan])
def test_one_client_s_strange_numbers_stop_nobody_and_move_nobody(value: float) -> None:
    """What a client alone makes of its rows is private: no message tells of it, and its clipped change is finite."""
    usual = some_clients()
    z = usual.z.copy()
    z[usual.places[1]] = value
    found, before = (changes(one, range(N), LocalPlan(5, 4)) for one in (Clients(z, usual.targets, usual.places), usual))
    np.testing.assert_array_equal(np.delete(found, 1, axis=0), np.delete(before, 1, axis=0))
    assert (np.linalg.norm(clipped_rows(found, 0.5), axis=1) <= 0.5 * (1 + 1e-12)).all()


def test_a_client_that_leaves_changes_nothing_of_the_others() -> None:
    """Its rows go, and its place in the round too: the others draw the same orders of own and of replayed rows."""
    of, plan, everyone = some_clients(), LocalPlan(3, 2), range(N)
    before = changes(of, everyone, plan, replayed())
    gone = Clients(of.z, of.targets, tuple(of.places[one][:0] if one == 1 else of.places[one] for one in everyone))
    after, without = changes(gone, everyone, plan, replayed()), changes(of, [0, 2, 3, 4], plan, replayed())
    np.testing.assert_array_equal(np.delete(after, 1, axis=0), np.delete(before, 1, axis=0))
    assert not np.array_equal(after[1], before[1])
    np.testing.assert_array_equal(without, np.delete(before, 1, axis=0))


def test_an_empty_round_and_its_averages() -> None:
    nobody = changes(some_clients(), [], LocalPlan(2))
    assert nobody.shape == (0, len(start()))
    assert (client_training.averaged(start(), nobody) == start()).all()


def test_averages_are_means_of_those_who_came_and_noisy_sums_over_those_expected() -> None:
    updates = np.random.default_rng(8).standard_normal((3, len(start()))).astype(np.float32)
    assert client_training.averaged(start(), updates) == pytest.approx(start() + updates.sum(axis=0) / 3, abs=1e-6)
    sums = updates.sum(axis=0, dtype=np.float64)
    assert client_training.moved(start(), sums, 6.0) == pytest.approx(start() + sums / 6, abs=1e-6)
    assert client_training.moved(start(), sums, 6.0).dtype == np.float32


# FedCIL's losses: slopes against differences of the losses written out in float64, and what their parts come to alone.


GAN = AcGan(n_inputs=5, n_classes=3, noise_size=2, hidden=6)
DRAWS = np.random.default_rng(0)
CLASSIFIER = GAN.classifier.initial(DRAWS)
GENERATOR, SERVER_GENERATOR = GAN.generator.initial(DRAWS), GAN.generator.initial(DRAWS)
LOCAL = (DRAWS.standard_normal((4, 5)).astype(np.float32), np.array([0, 2, 1, 2]))


def one(generator: np.ndarray, labels: np.ndarray) -> Generated:
    """Rows from one generator for labels [b]."""
    found = GAN.generate(generator, labels[None], [DRAWS])
    return Generated(found.x[0], found.labels[0], [values[0] for values in found.inputs])


REPLAYED = one(SERVER_GENERATOR, np.array([1, 0, 0, 1]))
GENERATED = one(GENERATOR, np.concatenate([LOCAL[1], REPLAYED.labels]))
SERVER = one(SERVER_GENERATOR, GENERATED.labels)
CONSISTENCY = 0.7


def class_log_probabilities(classifier: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chance of being real [b], and log-probabilities of labels [b, C]."""
    out = forward(classifier, x, 5, 6, 4)
    return 1 / (1 + np.exp(-out[:, 0])), out[:, 1:] - np.log(np.exp(out[:, 1:]).sum(axis=1, keepdims=True))


def counted_as(real: bool, classifier: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
    chance, log_p = class_log_probabilities(classifier, x)
    return float(np.mean(-np.log(chance if real else 1 - chance) - log_p[np.arange(len(x)), labels]))


def divergence(classifier: np.ndarray, toward: np.ndarray, found: np.ndarray) -> float:
    """Mean of KL(p(toward) || p(found))."""
    (_, log_p), (_, log_q) = class_log_probabilities(classifier, toward), class_log_probabilities(classifier, found)
    return float(np.mean((np.exp(log_p) * (log_p - log_q)).sum(axis=1)))


def classifier_loss(classifier: np.ndarray, *, replayed: bool, server: bool) -> float:
    share, of = (0.5, GENERATED) if replayed else (1.0, first_rows(GENERATED))
    found = share * counted_as(True, classifier, *LOCAL) + counted_as(False, classifier, of.x, of.labels)
    if replayed:
        found += share * counted_as(True, classifier, REPLAYED.x, REPLAYED.labels)
    if server:
        by_server = SERVER if replayed else first_rows(SERVER)
        _, log_p = class_log_probabilities(classifier, by_server.x)
        own = divergence(classifier, SERVER.x[:4], LOCAL[0])
        generated = divergence(classifier, by_server.x, of.x)
        label = -log_p[np.arange(len(by_server.x)), by_server.labels].mean()
        found += CONSISTENCY * (own + generated + label)
    return found


def first_rows(batch: Generated) -> Generated:
    return replace(batch, x=batch.x[:4], labels=batch.labels[:4], inputs=[values[:4] for values in batch.inputs])


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("server", [True, False])
def test_the_classifier_s_slopes_are_those_of_its_loss(replayed: bool, server: bool) -> None:
    generated, by_server = (GENERATED, SERVER) if replayed else (first_rows(GENERATED), first_rows(SERVER))
    slopes = GAN.classifier_gradient(
        CLASSIFIER, LOCAL, generated, REPLAYED if replayed else None, by_server if server else None, CONSISTENCY
    )
    for place in range(len(CLASSIFIER)):
        rise = slope(lambda moved: classifier_loss(moved, replayed=replayed, server=server), CLASSIFIER, place)
        assert slopes[place] == pytest.approx(rise, abs=1e-5)


def test_the_generator_s_slopes_are_those_of_its_loss() -> None:
    def loss_of(generator: np.ndarray) -> float:
        return counted_as(True, CLASSIFIER, forward(generator, GENERATED.inputs[0], 5, 256, 5), GENERATED.labels)

    slopes = GAN.generator_gradient(GENERATOR, CLASSIFIER, GENERATED)
    for place in range(0, len(GENERATOR), 97):
        assert slopes[place] == pytest.approx(slope(loss_of, GENERATOR, place), abs=1e-5)


def test_consistency_that_counts_nothing_is_none_and_it_counts_in_proportion() -> None:
    def slopes(server: Generated | None, weight: float) -> np.ndarray:
        return GAN.classifier_gradient(CLASSIFIER, LOCAL, GENERATED, REPLAYED, server, weight)

    without = slopes(None, 1.0)
    assert slopes(SERVER, 0.0) == pytest.approx(without, abs=1e-7)
    assert slopes(SERVER, 2.0) - without == pytest.approx(2 * (slopes(SERVER, 1.0) - without), abs=1e-6)
    assert np.abs(slopes(SERVER, 1.0) - without).max() > 1e-3


def test_equal_answers_are_no_distance_apart() -> None:
    """Divergence has slope zero where both sides agree, whatever is added to all logits, and none is ever infinite."""
    logits = DRAWS.standard_normal((3, 4)).astype(np.float32)
    for slopes in kl_gradients(logits, logits + 5):
        assert slopes == pytest.approx(0, abs=1e-6)
    for slopes in kl_gradients(100 * logits, -100 * logits):
        assert np.isfinite(slopes).all()


def test_clients_side_by_side_are_clients_one_by_one() -> None:
    classifier = np.stack([CLASSIFIER, -CLASSIFIER])
    own = (np.stack([LOCAL[0], 2 * LOCAL[0]]), np.stack([LOCAL[1], LOCAL[1][::-1]]))
    asked = np.concatenate([own[1], np.stack([REPLAYED.labels] * 2)], axis=1)
    generated = GAN.generate(np.stack([GENERATOR, SERVER_GENERATOR]), asked, [DRAWS] * 2)
    server = GAN.generate(GENERATOR, asked, [DRAWS] * 2)
    again = GAN.generate(SERVER_GENERATOR, np.stack([REPLAYED.labels] * 2), [DRAWS] * 2)
    together = GAN.classifier_gradient(classifier, own, generated, again, server, 1.0)
    for place in range(2):
        first, second, third = (Generated(batch.x[place], batch.labels[place], [values[place] for values in batch.inputs])
                           for batch in (generated, again, server))  # fmt: skip
        found = GAN.classifier_gradient(classifier[place], (own[0][place], own[1][place]), first, second, third, 1.0)
        assert together[place] == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize(("rounds", "differs"), [(1, False), (2, True)])
def test_consistency_starts_in_a_task_s_second_round(rounds: int, differs: bool) -> None:
    """The published code skips the first: the server's generator has not met the task's labels then."""
    of, public = clients.stream(per_class=10)
    params = {"rounds": rounds, "local_steps": 2, "hidden": 8, "participation": 1.0}
    scores = []
    for weight in (0.0, 50.0):
        _, _, _, (learner,) = clients.run(clients.spec("fedcil-dp", params={**params, "consistency": weight}), of, public)
        scores.append(learner.scores(0, of.tasks[0])["argmax"])
    assert np.array_equal(scores[0], scores[1]) != differs
