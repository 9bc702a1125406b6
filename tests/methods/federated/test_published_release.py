"""The published statistics: plain averages without noise, bounded where ids are a client's own, unbounded where pooled."""

import math
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import norm

from dpcl_core.methods.federated import local_list, published_release
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.matchers import PublicView, assign, pooled, public_modes
from dpcl_core.methods.federated.published_release import Aggregation, SlotSums, Statistics, noisy_slot_sums
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import ClientVectors
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from tests.methods.federated import toy
from tests.support import asserting, watching

GIVEN = toy.toy()
N, K = 12, toy.N_MODES

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
    assert max(np.linalg.norm(whole - clustered(np.delete(everyone, client), named)[0]) * N for client in everyone) > 2.0
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
    drawn = sums(ORACLE.take(np.zeros(0, dtype=np.int64)), np.zeros((0, K), dtype=np.int64), 1.45)
    for values in (drawn.means, drawn.seconds):
        assert values.std() == pytest.approx(1.45 / N, rel=-norm.ppf(5e-7) / math.sqrt(2 * values.size))


def test_the_running_average_keeps_nine_tenths() -> None:
    one, other = sums(ORACLE, OWN_IDS), sums(FITTED, OWN_IDS)
    assert flat(one.mixed(other)) == pytest.approx(0.9 * flat(one) + 0.1 * flat(other))


def test_a_list_noised_at_home_without_noise_is_the_list_within_its_bounds() -> None:
    wide = PublicView.of(GIVEN.public, toy.D, radius=5.0)
    book = a_ledger()
    (found,) = local_list.noisy_lists(ORACLE, wide, [0.0], [ReleaseNoise()], [book], task=0)
    assert (found.means, found.weights) == (pytest.approx(ORACLE.means), pytest.approx(ORACLE.weights))
    assert found.targets == pytest.approx(ORACLE.targets, abs=1e-9)
    assert math.isinf(book.epsilon())


def test_a_list_noised_at_home_costs_one_gaussian_and_stays_a_list() -> None:
    books = [a_ledger(), a_ledger()]
    found = local_list.noisy_lists(ORACLE, RAW_VIEW, [2.16, 0.5], [ReleaseNoise(), ReleaseNoise()], books, task=0)
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
    watching.watched(monkeypatch, local_list, "noisy_client_vectors", lambda found, given: seen.append(given[0]))
    local_list.noisy_lists(adversarial(np.random.default_rng(2)), RAW_VIEW, [1.0], [ReleaseNoise()], [a_ledger()], task=0)
    lengths = np.linalg.norm(seen[0].vectors, axis=1)
    assert lengths.max() <= seen[0].bound + 1e-12
    assert seen[0].bound == pytest.approx(math.sqrt(1.5))
    assert lengths.max() == pytest.approx(seen[0].bound, rel=0.05)


def test_one_client_is_refused() -> None:
    asserting.refuses(r"scenario\.clients = 1", sums, ORACLE, OWN_IDS, 1.0, n_clients=1, pooled=True)


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
    lists = adversarial(np.random.default_rng(4))
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
