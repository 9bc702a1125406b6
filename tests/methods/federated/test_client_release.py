"""Releases of clients' statistics: loops, adversarial clients, constants in the denominator, mixtures and their limits."""

from __future__ import annotations

import inspect
import math
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import norm

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated import client_release, local_list, published_release
from dpcl_core.methods.federated.client_release import EvenSlots, Layout, Replay, Slotted, WeightedSlots, join_mixtures
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.local_list import noisy_lists
from dpcl_core.methods.federated.matchers import PublicView, assign, pooled, public_modes
from dpcl_core.methods.federated.published_release import Aggregation, SlotSums, Statistics, noisy_slot_sums
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from tests.methods.federated import toy
from tests.support.watching import watched

GIVEN = toy.toy()
N, K = 12, toy.N_MODES
VIEW = PublicView.of(GIVEN.public, 6, radius=0.35)
WIDE = PublicView.of(GIVEN.public, toy.D, radius=9.0)  # nothing is projected away and nothing clipped
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
    labels = np.zeros(len(GIVEN.z), dtype=np.int64)
    by_label = client_release.by_label(GIVEN.z, labels, GIVEN.users, N, (0,))
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
    far = VIEW.restored(radius * np.eye(6)[0])
    one, even, first = np.eye(K)[0], np.full(K, 1 / K), np.tile(far, (K, 1))
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
    lists, prototypes = GIVEN.fitted(), public_modes(GIVEN.public, K)
    layout = WeightedSlots(VIEW, K)

    def total(clients: np.ndarray) -> np.ndarray:
        ids = np.stack([assign("nearest", lists.means[client], prototypes) for client in clients])
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
    with pytest.raises(BadInput, match=r"scenario\.clients = 1: must be at least 2"):
        released(alone, WeightedSlots(VIEW, K), 1.0, n_clients=1)


# Replayed mixtures: samples follow the released numbers, and parts of a mixture keep their shares.


MEANS = np.array([[1.0, 0, 0], [0, 2, 0]])
OF_LABELS = np.array([[0.9, 0.1], [0.0, 1.0]])
ROOT = np.array([[0.5, 0, 0], [0.3, 0.4, 0], [0, 0.1, 0.2]])
FULL = ROOT @ ROOT.T


def covariances(kind: str) -> np.ndarray:
    one_each = np.stack([FULL, np.diag([0.1, 0.2, 0.3])])
    return {"shared": FULL, "own": one_each, "diagonal": np.diagonal(one_each, axis1=1, axis2=2)[:, None, :]}[kind]


def of(kind: str, weights: tuple[float, float] = (0.3, 0.7)) -> Replay:
    return Replay(np.array(weights), MEANS, covariances(kind), OF_LABELS)


@pytest.mark.parametrize("kind", ["shared", "own", "diagonal"])
def test_samples_have_the_moments_of_their_components(kind: str) -> None:
    """40,000 draws: means within six standard errors, covariances within 5 %."""
    z, y, k = of(kind).sample(40_000, np.random.default_rng(0))
    assert (z.dtype, y.dtype, k.dtype) == (np.float32, np.float32, np.int64)
    assert (k == 0).mean() == pytest.approx(0.3, abs=6 * np.sqrt(0.21 / 40_000))
    assert (y == OF_LABELS.astype(np.float32)[k]).all()
    spreads = covariances(kind)
    for place in range(2):
        own = z[k == place]
        spread = FULL if kind == "shared" else spreads[place]
        spread = np.diag(spread[0]) if kind == "diagonal" else spread
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
    parts = [of(kind), of(kind, (0.2, 0.6))]
    both = join_mixtures(parts)
    assert both.weights == pytest.approx([0.15, 0.35, 0.125, 0.375])
    assert (both.means == np.tile(MEANS, (2, 1))).all()
    z, _, k = both.sample(20_000, np.random.default_rng(5))
    spread = {"shared": FULL, "own": covariances("own")[1], "diagonal": np.diag(covariances("diagonal")[1, 0])}[kind]
    assert np.cov(z[k == 3], rowvar=False) == pytest.approx(spread, abs=0.08 * spread.max())


def test_a_shared_covariance_stays_shared_where_it_is_one() -> None:
    one = of("shared")
    other = Replay(one.weights, one.means, one.covariances, one.targets)
    assert join_mixtures([one, other]).covariances is one.covariances
    different = Replay(one.weights, one.means, 2 * FULL, one.targets)
    assert join_mixtures([one, different]).covariances.shape == (4, 3, 3)


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


# The published statistics: plain averages without noise, bounded where ids are a client's own, unbounded where pooled.


RAW_VIEW = PublicView.of(GIVEN.public, 6)
ORACLE, FITTED = GIVEN.oracle(), GIVEN.fitted()
OWN_IDS = np.tile(np.arange(K), (N, 1))
SOME = Batches(0.3, None)  # clients of a round


def a_ledger() -> Ledger:
    return Ledger(1e-5, "add-remove", "every")


def sums(lists: Lists, ids: np.ndarray, sigma: float = 0.0, book: Ledger | None = None, **more: object) -> SlotSums:
    given: dict[str, Any] = {"n_clients": N, "pooled": False, "n_slots": K, **more}
    (found,) = noisy_slot_sums(
        lists, ids, given.pop("n_slots"), [sigma], [ReleaseNoise()], [book or a_ledger()], task=0, **given
    )
    return found


def flat(of: SlotSums) -> np.ndarray:
    return np.concatenate([part.ravel() for part in (of.weights, of.means, of.seconds, of.targets)])


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_without_noise_the_mixture_is_the_clients_average(form: str) -> None:
    """Moments of all rows, clients counted equally; no list here is long enough to be clipped."""
    lists = GIVEN.oracle(form)
    found = sums(lists, OWN_IDS, bound=2.0).replay()
    share = lists.weights / lists.weights.sum(axis=0)
    assert found.weights == pytest.approx(lists.weights.mean(axis=0))
    assert found.means == pytest.approx(np.einsum("nk,nkd->kd", share, lists.means))
    seconds = np.einsum("nk,nk...->k...", share, lists.second_moments)
    if form == "diagonal":
        assert found.covariances[:, 0] == pytest.approx(seconds - found.means**2)
    else:
        assert found.covariances == pytest.approx(seconds - found.means[:, :, None] * found.means[:, None, :], abs=1e-9)
    assert found.targets == pytest.approx(np.eye(K))


def test_one_slot_is_one_gaussian_of_everything() -> None:
    """K = 1: the second moment and mean of all rows, each client counted once."""
    replay = sums(GIVEN.oracle("full"), np.zeros((N, K), dtype=np.int64), n_slots=1, bound=2.0).replay()
    assert replay.weights == pytest.approx([1.0])
    assert replay.means[0] == pytest.approx(GIVEN.z.mean(axis=0))  # all have equally many rows
    within = 1e-3 * np.eye(toy.D)  # the ridge of each element
    assert replay.covariances[0] == pytest.approx(np.cov(GIVEN.z, rowvar=False, bias=True) + within)


def test_the_order_of_elements_and_clients_changes_nothing() -> None:
    random = np.random.default_rng(0)
    orders, clients = np.stack([random.permutation(K) for _ in range(N)]), random.permutation(N)
    for lists in (ORACLE, FITTED):
        ids = pooled(lists.means, K, "nearest", RAW_VIEW.residuals(lists.means)[..., 0]).ids
        other = toy.shuffled(lists, orders).take(clients)
        again = pooled(other.means, K, "nearest", RAW_VIEW.residuals(other.means)[..., 0]).ids
        one, two = sums(lists, ids).replay(), sums(other, again).replay()
        assert two.means == pytest.approx(one.means, abs=1e-12)
        assert two.covariances == pytest.approx(one.covariances, abs=1e-12)
        assert two.weights == pytest.approx(one.weights, abs=1e-12)


def adversarial(random: np.random.Generator) -> Lists:
    """Clients who put everything into one slot, aligned and too long, and ordinary ones; each far beyond its bounds."""
    weights = np.concatenate([np.eye(4)[:2], np.full((2, 4), 0.25), np.zeros((1, 4)), random.dirichlet(np.ones(4), 7)])
    means = np.concatenate([np.ones((4, 4, toy.D)), random.standard_normal((8, 4, toy.D))]) * 5
    targets = np.concatenate([np.ones((4, 4, 3)), random.uniform(0, 9, (8, 4, 3))])
    return Lists(weights, means, np.ones((12, 4, toy.D)), targets)


@pytest.mark.parametrize("everything_in", [None, 0], ids=["spread", "one slot"])
def test_each_statistic_of_a_client_is_at_most_its_bound(everything_in: int | None) -> None:
    """All slots side by side, however many elements share one: then four are one Gaussian of twice the sensitivity."""
    random = np.random.default_rng(1)
    lists = adversarial(random)
    ids = random.integers(0, K, (12, 4)) if everything_in is None else np.zeros((12, 4), dtype=np.int64)
    whole = sums(lists, ids)
    for client in range(12):
        others = np.delete(np.arange(12), client)
        without = sums(lists.take(others), ids[others])
        for name in ("weights", "means", "seconds", "targets"):
            assert np.linalg.norm(getattr(whole, name) - getattr(without, name)) * N <= 1 + 1e-12
        assert np.linalg.norm(flat(whole) - flat(without)) * N <= 2 + 1e-12
    if everything_in == 0:
        assert np.linalg.norm(flat(whole) - flat(sums(lists.take(np.arange(1, 12)), ids[1:]))) * N == pytest.approx(2)


def test_every_element_is_clipped_before_it_is_weighted() -> None:
    """One client of two elements, one of them too long: the other keeps its length."""
    means = np.array([[[4.0, 3.0], [0.0, 0.6]]])
    lists = Lists(np.array([[0.5, 0.5]]), means, np.full((1, 2, 2), 0.1), np.array([[[3.0], [0.5]]]))
    found = sums(lists, np.array([[0, 1]]), n_slots=2, batches=Batches(0.5, None), n_clients=2)
    assert found.means == pytest.approx(np.array([[0.4, 0.3], [0.0, 0.3]]))
    assert found.targets == pytest.approx(np.array([[0.5], [0.25]]))
    assert found.seconds[0] == pytest.approx(0.5 * np.array([16.1, 9.1]) / np.hypot(16.1, 9.1))
    assert found.seconds[1] == pytest.approx(0.5 * np.array([0.1, 0.46]))


def test_pooled_clustering_breaks_the_bound_and_says_so() -> None:
    """Noisy lists, so that labels hang by a thread: one client moves the sum by more than twice its bound.

    With prototypes that are fixed, the very same lists never do.
    """
    lists = toy.noisy(ORACLE, 0.2)
    first, prototypes = RAW_VIEW.residuals(lists.means)[..., 0], public_modes(GIVEN.public, K)
    everyone = np.arange(N)

    def clustered(clients: np.ndarray, previous: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        found = pooled(lists.means[clients], K, "hungarian", first[clients], previous)
        return flat(sums(lists.take(clients), found.ids)), found.prototypes

    def matched(clients: np.ndarray) -> np.ndarray:
        ids = np.stack([assign("hungarian", lists.means[client], prototypes) for client in clients])
        return flat(sums(lists.take(clients), ids))

    (whole, named), fixed = clustered(everyone), matched(everyone)
    moves = [np.linalg.norm(whole - clustered(np.delete(everyone, client), named)[0]) * N for client in everyone]
    assert max(moves) > 2.0
    assert max(np.linalg.norm(fixed - matched(np.delete(everyone, client))) * N for client in everyone) <= 2.0 + 1e-12
    book = a_ledger()
    sums(lists, OWN_IDS, 1.45, book, pooled=True)
    assert "printed sensitivity granted, not proven" in book.entries[0].what


def test_a_round_is_one_sampled_event_of_half_the_multiplier() -> None:
    book = a_ledger()
    sums(ORACLE, OWN_IDS, 1.45, book, batches=SOME, pooled=True)
    assert [entry.event for entry in book.entries] == [dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(1.45 / 2))]


def test_projected_statistics_are_a_mixture_whatever_the_noise() -> None:
    for form in ("diagonal", "full"):
        found = sums(GIVEN.oracle(form), OWN_IDS, 3.0).replay(floor=1e-2)
        assert found.weights.sum() == pytest.approx(1)
        assert (found.targets >= 0).all()
        assert found.targets.sum(axis=1) == pytest.approx(np.ones(K))
        least = found.covariances.min() if form == "diagonal" else np.linalg.eigvalsh(found.covariances).min()
        assert least >= 1e-2 - 1e-10
        z, _, _ = found.sample(10, np.random.default_rng(0))
        assert np.isfinite(z).all()


def test_noise_on_every_statistic_has_the_announced_spread() -> None:
    """Nobody in the round: sums are noise of sigma over the expected number; five standard errors."""
    none = ORACLE.take(np.zeros(0, dtype=np.int64))
    drawn = sums(none, np.zeros((0, K), dtype=np.int64), 1.45)
    for values in (drawn.means, drawn.seconds):
        assert values.std() == pytest.approx(1.45 / N, rel=-norm.ppf(5e-7) / math.sqrt(2 * values.size))


def test_the_running_average_keeps_nine_tenths() -> None:
    one, other = sums(ORACLE, OWN_IDS), sums(FITTED, OWN_IDS)
    assert flat(one.mixed(other)) == pytest.approx(0.9 * flat(one) + 0.1 * flat(other))


def test_a_list_noised_at_home_without_noise_is_the_list_within_its_bounds() -> None:
    wide = PublicView.of(GIVEN.public, toy.D, radius=5.0)
    book = a_ledger()
    (found,) = noisy_lists(ORACLE, wide, [0.0], [ReleaseNoise()], [book], task=0)
    assert (found.means, found.weights) == (pytest.approx(ORACLE.means), pytest.approx(ORACLE.weights))
    assert found.targets == pytest.approx(ORACLE.targets, abs=1e-9)
    assert math.isinf(book.epsilon())


def test_a_list_noised_at_home_costs_one_gaussian_and_stays_a_list() -> None:
    books = [a_ledger(), a_ledger()]
    found = noisy_lists(ORACLE, RAW_VIEW, [2.16, 0.5], [ReleaseNoise(), ReleaseNoise()], books, task=0)
    assert [book.entries[0].event for book in books] == [dp.GaussianDpEvent(2.16), dp.GaussianDpEvent(0.5)]
    for lists in found:
        assert lists.weights.sum(axis=1) == pytest.approx(np.ones(N))
        assert lists.targets.sum(axis=2) == pytest.approx(np.ones((N, K)))
        assert lists.covariances.shape == lists.means.shape
    away = RAW_VIEW.residuals(found[0].means - ORACLE.means + RAW_VIEW.centre)
    scale = 2.16 * math.sqrt(1.5) * RAW_VIEW.radius * math.sqrt(K)  # multiplier, sensitivity, and the means' own scale
    assert away.std() == pytest.approx(scale, rel=0.3)


def test_a_list_of_a_client_who_wants_to_be_seen_is_no_longer_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ClientVectors] = []
    watched(monkeypatch, local_list, "noisy_client_vectors", lambda found, given: seen.append(given[0]))
    noisy_lists(adversarial(np.random.default_rng(2)), RAW_VIEW, [1.0], [ReleaseNoise()], [a_ledger()], task=0)
    lengths = np.linalg.norm(seen[0].vectors, axis=1)
    assert lengths.max() <= seen[0].bound + 1e-12
    assert seen[0].bound == pytest.approx(math.sqrt(1.5))
    assert lengths.max() == pytest.approx(seen[0].bound, rel=0.05)


def test_one_client_is_refused() -> None:
    with pytest.raises(BadInput, match=r"scenario\.clients = 1"):
        sums(ORACLE, OWN_IDS, 1.0, n_clients=1, pooled=True)


STATISTICS = ("weights", "means", "seconds", "targets")
AS_PRINTED = Aggregation(by_shares=False, on_simplex=False)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_eq_2_as_printed_is_the_plain_average_over_the_clients_that_came(form: str) -> None:
    """Computed here entry by entry: each client's clipped entry of a group once, a client without one as zero."""
    lists, came = GIVEN.oracle(form), np.array([0, 3, 4, 7])
    ids = np.random.default_rng(0).permuted(OWN_IDS, axis=1)[came]
    ids[2] = 1  # one client has nothing anywhere else: its four entries of the group are one average
    found = sums(lists.take(came), ids, batches=SOME, pooled=True, rule=AS_PRINTED)
    means, seconds = np.zeros((K, toy.D)), np.zeros((K, *lists.covariances.shape[2:]))
    weights, targets = np.zeros(K), np.zeros((K, K))
    for row, client in enumerate(came):
        for group in range(K):
            own = [entry for entry in range(K) if ids[row, entry] == group]
            for entry in own:
                mean, covariance = lists.means[client, entry], lists.covariances[client, entry]
                outer = np.outer(mean, mean)
                moment = covariance + (outer if form == "full" else np.diag(outer))
                means[group] += mean * min(1, 1 / np.linalg.norm(mean)) / len(own) / len(came)
                seconds[group] += moment * min(1, 1 / np.linalg.norm(moment)) / len(own) / len(came)
                targets[group] += lists.targets[client, entry] / len(own) / len(came)
                weights[group] += lists.weights[client, entry] / len(came)
    assert (found.means, found.seconds) == (pytest.approx(means), pytest.approx(seconds))
    assert (found.targets, found.weights) == (pytest.approx(targets), pytest.approx(weights))
    replay = found.replay(floor=1e-12, rule=AS_PRINTED)
    assert replay.means == pytest.approx(means), "nothing is divided by shares"
    assert replay.targets == pytest.approx(targets), "targets stay as they are released"
    assert replay.weights == pytest.approx(weights), "shares of clients sum to 1 already"


def test_an_entry_that_is_clipped_on_its_own_costs_the_root_of_the_groups() -> None:
    """Means, second moments and targets of K groups side by side: sqrt(K) long, and so the ledger has it."""
    random = np.random.default_rng(4)
    lists = adversarial(random)
    ids = np.tile(np.arange(K), (12, 1))
    longest = {"weights": 1.0, "means": math.sqrt(K), "seconds": math.sqrt(K), "targets": math.sqrt(K)}
    values = dict(zip(longest, Statistics.of(lists).by_slot(ids, K, AS_PRINTED), strict=True))
    for name, bound in longest.items():
        assert np.linalg.norm(values[name], axis=1).max() <= bound + 1e-12
    assert np.linalg.norm(values["means"], axis=1).max() == pytest.approx(math.sqrt(K))
    book = a_ledger()
    sums(ORACLE, OWN_IDS, 1.45, book, rule=AS_PRINTED)
    (entry,) = book.entries
    assert entry.event.noise_multiplier == pytest.approx(1.45 / math.sqrt(1 + 3 * K))


def test_a_list_is_noised_in_its_four_statistics_before_anybody_matches_it() -> None:
    """Line 2 of Algorithm 1. Without noise: clipped as in Table 5; with: sigma on every number, and what it costs."""
    lists = adversarial(np.random.default_rng(5))
    books = [a_ledger(), a_ledger()]
    clean, noisy = published_release.noisy_statistics(lists, [0.0, 1.45], [ReleaseNoise()] * 2, books, task=0)
    for values in (clean.means, clean.seconds, clean.targets):
        assert np.linalg.norm(values, axis=2).max() <= 1 + 1e-12
    assert clean.weights == pytest.approx(lists.weights, abs=1e-9)
    assert clean.means == pytest.approx(Statistics.of(lists).means, abs=1e-9)
    for name in STATISTICS:
        away = getattr(noisy, name) - getattr(clean, name)
        assert away.std() == pytest.approx(1.45, rel=-norm.ppf(5e-7) / math.sqrt(2 * away.size))
    assert isinstance(books[0].entries[0].event, dp.NonPrivateDpEvent)
    event = books[1].entries[0].event
    assert event == dp.GaussianDpEvent(1 / (math.sqrt(1 + 3 * K) / 1.45)), "no sample amplifies what the server sees singly"
    lengths = [np.linalg.norm(getattr(clean, name).reshape(12, -1), axis=1) for name in STATISTICS]
    assert np.linalg.norm(lengths, axis=0).max() <= math.sqrt(1 + 3 * K)
    read = noisy.lists()
    assert read.weights.sum(axis=1) == pytest.approx(np.ones(12))
    assert read.covariances.min() >= 1e-3
    nobody = ORACLE.take(np.zeros(0, dtype=np.int64))
    (nobody,) = published_release.noisy_statistics(nobody, [1.45], [ReleaseNoise()], [a_ledger()], task=0)
    assert nobody.means.shape == (0, K, toy.D)


@pytest.mark.parametrize("rule", [Aggregation(), AS_PRINTED], ids=["by shares", "as printed"])
def test_lists_noised_at_home_are_averaged_as_they_came(rule: Aggregation) -> None:
    """Without noise the same as Eq 2 of the clean lists; whatever is made of them is in no ledger again."""
    (received,) = published_release.noisy_statistics(FITTED, [0.0], [ReleaseNoise()], [a_ledger()], task=0)
    found = published_release.average_received(received, OWN_IDS, K, 0.0, ReleaseNoise(), expected=N, rule=rule)
    assert flat(found) == pytest.approx(flat(sums(FITTED, OWN_IDS, rule=rule)))
