"""Releases of clients' statistics: loops, adversarial clients, constants in the denominator, and replayed mixtures."""

import inspect
import math

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.methods.federated import client_release, matchers
from dpcl_core.methods.federated.client_release import EvenSlots, Layout, Replay, Slotted, WeightedSlots, join_mixtures
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.noise import ReleaseNoise
from tests.methods.federated import toy
from tests.support.asserting import refuses

GIVEN = toy.toy()
N, K = 12, toy.N_MODES
VIEW = matchers.PublicView.of(GIVEN.public, 6, radius=0.35)
WIDE = matchers.PublicView.of(GIVEN.public, toy.D, radius=9.0)  # nothing is projected away and nothing clipped
TARGETS = np.eye(K)
SPACE = range(K)


def slotted() -> Slotted:
    return client_release.by_label(GIVEN.z, GIVEN.modes, GIVEN.users, N, SPACE)


def released(of: Slotted, layout: Layout, multiplier: float = 0.0, n_clients: int = N) -> Replay:
    (found,) = client_release.release_vectors(
        layout.vectors(of), layout, TARGETS[: layout.n_slots], [multiplier], [ReleaseNoise()],
        [Ledger(1e-5, "add-remove", "every")], task=0, n_clients=n_clients
    )
    return found


def test_shares_and_means_by_label_equal_a_loop() -> None:
    random = np.random.default_rng(0)
    z = random.standard_normal((200, 5)).astype(np.float32)
    labels, users = random.integers(0, 6, 200), random.integers(0, 7, 200)
    labels[users == 3] = 0  # a client with one class, and one whose labels are not in the space
    labels[users == 5] = 1
    space = (4, 0, 2)
    found = client_release.by_label(z, labels, users, 8, space)  # the eighth client has no rows
    for user in range(8):
        own = (users == user) & np.isin(labels, space)
        for slot, label in enumerate(space):
            rows = z[own & (labels == label)]
            assert found.weights[user, slot] == pytest.approx(len(rows) / max(1, own.sum()))
            assert found.means[user, slot] == pytest.approx(rows.mean(axis=0) if len(rows) else np.zeros(5), abs=1e-6)
    assert not found.weights[[5, 7]].any()


def test_sums_by_label_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = slotted()
    monkeypatch.setattr(client_release, "row_blocks", lambda n, width: (slice(start, start + 7) for start in range(0, n, 7)))
    assert slotted().means == pytest.approx(whole.means, abs=1e-12)


def test_elements_in_one_slot_are_averaged_by_weight() -> None:
    lists = Lists(
        np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 0.0]]), np.arange(12.0).reshape(2, 3, 2), np.ones((2, 3, 2)),
        np.zeros((2, 3, 1))
    )
    found = client_release.by_matching(lists, np.array([[1, 1, 0], [0, 1, 1]]), 3)
    assert found.weights == pytest.approx(np.array([[0.2, 0.8, 0], [0, 0, 0]]))
    assert found.means[0, 1] == pytest.approx((0.5 * np.array([0.0, 1]) + 0.3 * np.array([2.0, 3])) / 0.8)
    assert found.means[0, 0] == pytest.approx([4.0, 5.0])


def test_one_element_in_one_slot_is_the_client_s_own_mean() -> None:
    """L = 1 and one slot: what DP-Stat-Share releases is what is keyed by label."""
    by_label = client_release.by_label(GIVEN.z, np.zeros(len(GIVEN.z), dtype=np.int64), GIVEN.users, N, (0,))
    means = np.stack([GIVEN.z[GIVEN.users == user].mean(axis=0) for user in range(N)])
    lists = Lists(np.ones((N, 1)), means[:, None], np.ones((N, 1, toy.D)), np.ones((N, 1, 1)))
    matched = client_release.by_matching(lists, np.zeros((N, 1), dtype=np.int64), 1)
    assert (matched.weights == by_label.weights).all()
    assert matched.means == pytest.approx(by_label.means)


def test_without_noise_slots_are_averages_of_clients_plain_or_weighted_by_shares() -> None:
    one, of = client_release.by_label(GIVEN.z, GIVEN.modes, GIVEN.users, N, (2,)), slotted()
    alone, even = released(one, EvenSlots(WIDE)), released(of, EvenSlots(WIDE, K))
    weighted = released(of, WeightedSlots(WIDE, K))
    assert alone.covariances is WIDE.covariance
    for found, weights, means in (
        (alone, [1.0], one.means.mean(axis=0)),
        (even, np.full(K, 1 / K), of.means.mean(axis=0)),
        (weighted, of.weights.mean(axis=0), np.einsum("nk,nkd->kd", of.weights, of.means) / of.weights.sum(axis=0)[:, None]),
    ):
        assert (found.weights, found.means) == (pytest.approx(weights), pytest.approx(means))


def adversaries(random: np.random.Generator, radius: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shares [K] and means [K, d] of clients who want to be seen: far away, all in one slot, aligned, empty, not numbers."""
    one, even, first = np.eye(K)[0], np.full(K, 1 / K), np.tile(VIEW.restored(radius * np.eye(6)[0]), (K, 1))
    cases = [(one, first), (even, first), (one, 1e6 * first), (even, 1e6 * first)]
    cases += [(np.zeros(K), first), (one, np.nan * first)]
    cases += [(random.dirichlet(np.full(K, 0.3)), 3 * random.standard_normal((K, toy.D))) for _ in range(40)]
    return cases


@pytest.mark.parametrize("layout", [EvenSlots(VIEW), EvenSlots(VIEW, K), WeightedSlots(VIEW, K)])
def test_nobody_s_vector_is_longer_than_the_sensitivity(layout: Layout) -> None:
    cases = adversaries(np.random.default_rng(1), VIEW.radius)
    shares, means = (np.stack(each)[:, : layout.n_slots] for each in zip(*cases, strict=True))
    lengths = np.linalg.norm(layout.vectors(Slotted(shares, means)), axis=1)
    assert np.isfinite(lengths).all()
    assert lengths.max() <= layout.sensitivity + 1e-12
    assert lengths.max() == pytest.approx(layout.sensitivity)  # reached: not a looser bound holds
    assert lengths[4] == 0
    expected = {"EvenSlots": VIEW.radius * math.sqrt(layout.n_slots), "WeightedSlots": math.sqrt(1.25)}
    assert layout.sensitivity == pytest.approx(expected[type(layout).__name__])


def test_one_client_moves_the_sum_by_the_sensitivity_matching_included() -> None:
    """With prototypes that are public, whoever is removed, the others' slots stay where they are."""
    lists, prototypes = GIVEN.fitted(), matchers.public_modes(GIVEN.public, K)
    layout = WeightedSlots(VIEW, K)

    def total(clients: np.ndarray) -> np.ndarray:
        ids = np.stack([matchers.assign("nearest", lists.means[client], prototypes) for client in clients])
        vectors: np.ndarray = layout.vectors(client_release.by_matching(lists.take(clients), ids, K))
        return vectors.sum(axis=0)

    everyone = np.arange(N)
    moves = [np.linalg.norm(total(everyone) - total(np.delete(everyone, client))) for client in everyone]
    assert 0 < max(moves) <= layout.sensitivity + 1e-12


@pytest.mark.parametrize("layout", [EvenSlots(VIEW, K), WeightedSlots(VIEW, K)], ids=["even", "weighted"])
def test_the_denominator_is_a_constant(layout: Layout) -> None:
    """Clients without data change nothing at equal sums; nobody at all is a release as any other."""
    of = slotted()
    more = Slotted(np.concatenate([of.weights, np.zeros((5, K))]), np.concatenate([of.means, np.zeros((5, K, toy.D))]))
    one, other = released(of, layout, n_clients=12), released(more, layout, n_clients=12)
    assert one.means == pytest.approx(other.means, abs=1e-12)
    assert one.weights == pytest.approx(other.weights, abs=1e-12)
    halved = released(of, layout, n_clients=24)
    if isinstance(layout, EvenSlots):
        assert VIEW.residuals(halved.means) == pytest.approx(VIEW.residuals(one.means) / 2)
    nobody = released(Slotted(np.zeros((0, K)), np.zeros((0, K, toy.D))), layout, 1.0)
    assert np.isfinite(nobody.means).all()
    assert nobody.weights.sum() == pytest.approx(1)


def test_noise_on_one_slot_has_the_promised_size() -> None:
    """mu = m0 + U (sum + noise) / N: 200 releases of nobody, six axes; five standard errors, false alarm below 1e-6."""
    nobody, multiplier = Slotted(np.zeros((0, 1)), np.zeros((0, 1, toy.D))), 2.16
    drawn = np.stack([VIEW.residuals(released(nobody, EvenSlots(VIEW), multiplier).means[0]) for _ in range(200)])
    assert drawn.std() == pytest.approx(multiplier * VIEW.radius / N, rel=5 / math.sqrt(2 * drawn.size))


def test_decoded_numbers_lie_where_clean_ones_do_whatever_the_noise() -> None:
    found = released(slotted(), WeightedSlots(VIEW, K), 50.0)
    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights >= 0).all()
    assert np.linalg.norm(VIEW.residuals(found.means), axis=1).max() <= VIEW.radius + 1e-9


def test_a_share_that_noise_has_swallowed_is_taken_as_a_quarter_of_an_even_one() -> None:
    """Twelve clients, two slots; the second one's sum is noise alone, and its share below zero."""
    layout, residual = WeightedSlots(VIEW, 2), 0.3 * np.eye(6)[0]
    totals = 12 * np.concatenate([[0.5 * 0.8], 0.8 * residual, [0.5 * -0.1], 0.05 * residual])
    (weights,), (means,) = layout.decoded(totals[None], 12.0, np.array([1.0]))
    assert weights == pytest.approx([(0.8 - 0.125 + 1) / 2, (0.125 - 0.8 + 1) / 2])
    assert VIEW.residuals(means)[0] == pytest.approx(VIEW.radius * residual, abs=1e-9)
    assert VIEW.residuals(means)[1] == pytest.approx(VIEW.radius * 0.05 * residual / 0.125, abs=1e-9)


def test_a_rare_label_is_not_drawn_to_the_centre_where_there_is_no_noise() -> None:
    """Without noise sums become plain averages again, for a label of one row in a thousand, too; nobody's is the centre."""
    layout, residual, rare = WeightedSlots(VIEW, 3), 0.3 * np.eye(6)[0], 1e-3
    shares = (1 - rare, rare, 0.0)
    totals = 12 * np.concatenate([np.concatenate([[0.5 * share], share * residual]) for share in shares])
    (weights,), (means,) = layout.decoded(totals[None], 12.0, np.zeros(1))
    assert weights == pytest.approx(shares, abs=1e-8)
    assert VIEW.residuals(means)[:2] == pytest.approx(np.tile(VIEW.radius * residual, (2, 1)), abs=1e-9)
    assert VIEW.residuals(means)[2] == pytest.approx(np.zeros(6), abs=1e-9)
    noisy = layout.decoded(totals[None], 12.0, np.array([0.03]))[1][0]  # a share of 0.01 is two of its standard deviations
    assert VIEW.residuals(noisy)[1] == pytest.approx(VIEW.radius * residual * rare / 0.01, abs=1e-9)


def test_each_budget_is_in_its_ledger_with_the_multiplier_that_scaled_its_noise() -> None:
    books = [Ledger(1e-5, "add-remove", "every") for _ in range(3)]
    layout = WeightedSlots(VIEW, K)
    vectors, noises = layout.vectors(slotted()), [ReleaseNoise() for _ in books]
    found = client_release.release_vectors(vectors, layout, TARGETS, [2.163, 0.5, 0.0], noises, books, task=1, n_clients=N)
    assert len(found) == 3
    assert books[0].entries[0].event == dp.GaussianDpEvent(pytest.approx(2.163))
    assert (books[0].entries[0].task, set(books[0].entries[0].channels)) == (1, {REPLAY})
    assert books[1].entries[0].event == dp.GaussianDpEvent(pytest.approx(0.5))
    assert books[2].entries[0].event == dp.NonPrivateDpEvent()
    four = Ledger(1e-5, "add-remove", "every")
    for task in range(4):
        client_release.release_vectors(vectors, layout, TARGETS, [2.163], [ReleaseNoise()], [four], task=task, n_clients=N)
    assert four.epsilon() == pytest.approx(4.0, rel=0.01)  # the card's multiplier for four releases


def test_what_comes_after_the_mechanism_sees_no_client() -> None:
    """Equal noisy sums give the same mixture to the last bit, and `decoded` takes nothing that a client holds."""
    totals = np.random.default_rng(2).standard_normal((2, K * 7))
    layout = WeightedSlots(VIEW, K)
    for one, other in zip(
        *(client_release.decoded(totals, layout, TARGETS, 12.0, [1.0, 1.0]) for _ in range(2)), strict=True
    ):
        assert (one.means == other.means).all()
        assert (one.weights == other.weights).all()
        drawn, again = (of.sample(20, np.random.default_rng(3)) for of in (one, other))
        assert all((first == second).all() for first, second in zip(drawn, again, strict=True))
    assert not {"lists", "slotted", "clients", "z", "users"} & set(inspect.signature(client_release.decoded).parameters)


def test_one_client_has_nobody_to_be_hidden_among() -> None:
    alone = client_release.by_label(GIVEN.z[:50], GIVEN.modes[:50], np.zeros(50, dtype=np.int64), 1, SPACE)
    refuses(r"scenario\.clients = 1: must be at least 2", released, alone, WeightedSlots(VIEW, K), 1.0, n_clients=1)


# Replayed mixtures: samples follow the released numbers, and parts of a mixture keep their shares.


MEANS = np.array([[1.0, 0, 0], [0, 2, 0]])
OF_LABELS = np.array([[0.9, 0.1], [0.0, 1.0]])
ROOT = np.array([[0.5, 0, 0], [0.3, 0.4, 0], [0, 0.1, 0.2]])
FULL = ROOT @ ROOT.T


def covariances(kind: str) -> np.ndarray:
    one_each = np.stack([FULL, np.diag([0.1, 0.2, 0.3])])
    return {"shared": FULL, "own": one_each, "diagonal": np.diagonal(one_each, axis1=1, axis2=2)[:, None, :]}[kind]


def spread_of(kind: str, place: int) -> np.ndarray:
    return FULL if kind == "shared" else covariances("own")[place] * (np.eye(3) if kind == "diagonal" else 1)


def of(kind: str, weights: tuple[float, float] = (0.3, 0.7)) -> Replay:
    return Replay(np.array(weights), MEANS, covariances(kind), OF_LABELS)


@pytest.mark.parametrize("kind", ["shared", "own", "diagonal"])
def test_samples_have_the_moments_of_their_components(kind: str) -> None:
    """40,000 draws: means within six standard errors, covariances within 5 %."""
    z, y, k = of(kind).sample(40_000, np.random.default_rng(0))
    assert (z.dtype, y.dtype, k.dtype) == (np.float32, np.float32, np.int64)
    assert (k == 0).mean() == pytest.approx(0.3, abs=6 * np.sqrt(0.21 / 40_000))
    assert (y == OF_LABELS.astype(np.float32)[k]).all()
    for place in range(2):
        own, spread = z[k == place], spread_of(kind, place)
        assert own.mean(axis=0) == pytest.approx(MEANS[place], abs=6 * np.sqrt(spread.max() / len(own)))
        assert np.cov(own, rowvar=False) == pytest.approx(spread, abs=0.05 * spread.max())


def test_a_singular_covariance_is_sampled_too() -> None:
    flat = np.outer([1.0, 2, 0], [1, 2, 0])
    z, _, k = Replay(np.array([0.5, 0.5]), MEANS, flat, OF_LABELS).sample(4000, np.random.default_rng(1))
    away = z - MEANS[k]
    assert away[:, 2] == pytest.approx(np.zeros(4000), abs=1e-5)
    assert away[:, 1] == pytest.approx(2 * away[:, 0], abs=1e-4)


def test_no_samples_of_a_weightless_component_and_none_at_all() -> None:
    _, _, k = of("own", (0.0, 1.0)).sample(100, np.random.default_rng(3))
    assert (k == 1).all()
    assert of("own").sample(0, np.random.default_rng(4))[0].shape == (0, 3)


@pytest.mark.parametrize("kind", ["shared", "own", "diagonal"])
def test_joined_parts_weigh_the_same(kind: str) -> None:
    both = join_mixtures([of(kind), of(kind, (0.2, 0.6))])
    assert both.weights == pytest.approx([0.15, 0.35, 0.125, 0.375])
    assert (both.means == np.tile(MEANS, (2, 1))).all()
    z, _, k = both.sample(20_000, np.random.default_rng(5))
    spread = spread_of(kind, 1)
    assert np.cov(z[k == 3], rowvar=False) == pytest.approx(spread, abs=0.08 * spread.max())


def test_a_shared_covariance_stays_shared_where_it_is_one() -> None:
    one = of("shared")
    assert join_mixtures([one, Replay(one.weights, one.means, one.covariances, one.targets)]).covariances is one.covariances
    assert join_mixtures([one, Replay(one.weights, one.means, 2 * FULL, one.targets)]).covariances.shape == (4, 3, 3)


def test_invented_embeddings_keep_their_direction_at_unit_length() -> None:
    parts = [of("own"), of("own", (0.5, 0.5))]
    z, targets = client_release.sampled(parts, 50, np.random.default_rng(3), unit_length=False)
    drawn, expected, _ = join_mixtures(parts).sample(50, np.random.default_rng(3))
    assert (z == drawn).all()
    units, same = client_release.sampled(parts, 50, np.random.default_rng(3), unit_length=True)
    assert (targets == expected).all()
    assert (same == expected).all()
    assert units.dtype == np.float32
    assert units == pytest.approx(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), rel=1e-5)
