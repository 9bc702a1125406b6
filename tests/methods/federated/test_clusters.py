"""Lists clustered together: what order must not change, when it is right, and the public view that it starts from."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from dpcl_core.explorers.matching import adjusted_rand
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.methods.federated.matchers import FeatureMap, Moments, PcaMean, Pooled, PublicView, Rule, pooled, public_modes
from tests.methods.federated import toy
from tests.support.asserting import refuses

PUBLIC = toy.toy(n_users=2).public


def test_axes_are_principal_ones() -> None:
    view = PublicView.of(PUBLIC, 5)
    theirs = PCA(5).fit(PUBLIC)
    assert view.centre == pytest.approx(theirs.mean_)
    assert view.axes.T @ view.axes == pytest.approx(np.eye(5), abs=1e-12)
    assert np.abs(np.diag(theirs.components_ @ view.axes)) == pytest.approx(np.ones(5), abs=1e-9)
    assert (view.axes[np.abs(view.axes).argmax(axis=0), np.arange(5)] > 0).all()
    assert np.trace(view.covariance) == pytest.approx(np.trace(np.cov(PUBLIC, rowvar=False)))


def test_residuals_and_back() -> None:
    view = PublicView.of(PUBLIC, 5)
    means = PUBLIC[:6].reshape(2, 3, -1)
    assert view.residuals(view.restored(view.residuals(means))) == pytest.approx(view.residuals(means))
    full = PublicView.of(PUBLIC, toy.D)
    assert full.restored(full.residuals(means)) == pytest.approx(means)


def test_the_radius_holds_most_public_topics_unless_it_is_given() -> None:
    view = PublicView.of(PUBLIC, 8)
    topics = PUBLIC.reshape(toy.N_PUBLIC, -1, toy.D).mean(axis=1)  # as they were made
    lengths = np.linalg.norm(view.residuals(topics), axis=1)
    assert 0.5 < (lengths <= view.radius).mean() <= 1
    assert view.radius < 2 * lengths.max()
    assert PublicView.of(PUBLIC, 8, 0.35).radius == 0.35


def test_fewer_sentences_than_dimensions_still_give_an_invertible_covariance() -> None:
    assert np.linalg.eigvalsh(PublicView.of(PUBLIC[:10], 4).covariance).min() > 0


def test_first_prototypes_are_the_same_every_time_and_in_order() -> None:
    modes = public_modes(PUBLIC, 4)
    assert (modes == public_modes(PUBLIC, 4)).all()
    assert (np.diff(PublicView.of(PUBLIC, 1).residuals(modes)[:, 0]) > 0).all()
    assert public_modes(PUBLIC, 1)[0] == pytest.approx(PUBLIC.mean(axis=0))


def test_axes_of_topics_hold_more_of_what_lies_between_topics_and_go_on_with_sentences() -> None:
    """Every length and direction within a topic is noise to them; beyond the topics, sentences decide."""
    random = np.random.default_rng(7)
    topics = 0.2 * random.standard_normal((6, 3)) @ np.eye(toy.D)[:3]
    rows = np.repeat(topics, 60, axis=0) + random.standard_normal((360, toy.D)) * np.where(np.arange(toy.D) < 3, 0.01, 0.5)
    held = {
        of: np.linalg.norm(PublicView.of(rows, 3, 1.0, of).residuals(topics + rows.mean(axis=0) - topics.mean(axis=0)))
        for of in ("sentences", "topics")
    }
    assert held["topics"] > 2 * held["sentences"]
    every = PublicView.of(rows, toy.D, 1.0, "topics").axes
    assert every.T @ every == pytest.approx(np.eye(toy.D), abs=1e-9)
    assert PublicView.of(rows, 3, None, "topics").radius > 0


@pytest.mark.parametrize("n_axes", [0, toy.D + 1])
def test_axes_that_there_are_not(n_axes: int) -> None:
    refuses(f"axes = {n_axes}: must lie between 1 and 32", PublicView.of, PUBLIC, n_axes)


def test_too_few_public_sentences() -> None:
    refuses("axes = 4: must lie between 1 and 3", PublicView.of, PUBLIC[:4], 4)
    refuses(r"modes = 3: .*, 2", public_modes, PUBLIC[:2], 3)


# Clustering lists together: what the order of clients and elements must not change, when it is right, what it breaks.


GIVEN = toy.toy()
VIEW = PublicView.of(GIVEN.public, 8)
ORACLE, FITTED = GIVEN.oracle(), GIVEN.fitted()
TRUTH = np.tile(np.arange(toy.N_MODES), len(ORACLE))
ANCHORS = GIVEN.public[np.random.default_rng(0).permutation(len(GIVEN.public))[:100]]
MATCHERS: dict[str, tuple[FeatureMap, Rule]] = {
    "nearest mean": (matchers.mean_features, "nearest"),
    "hungarian": (matchers.mean_features, "hungarian"),
    "transport": (Moments(), "ot"),
    "public axes": (PcaMean(VIEW.centre, VIEW.axes), "hungarian"),
    "centred": (Signature(ANCHORS, "own", "centred"), "hungarian"),
    "shared": (Signature(ANCHORS, "shared-spherical", "centred", VIEW.covariance), "nearest"),
}


def grouped(lists: Lists, name: str, previous: np.ndarray | None = None) -> Pooled:
    features, rule = MATCHERS[name]
    seen = np.stack([features(lists.elements(client)) for client in range(len(lists))])
    return pooled(seen, toy.N_MODES, rule, VIEW.residuals(lists.means)[..., 0], previous)


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize("lists", [ORACLE, FITTED, toy.noisy(ORACLE, 0.2)], ids=["oracle", "fitted", "noisy"])
def test_the_order_of_lists_and_clients_changes_nothing(name: str, lists: Lists) -> None:
    """Not even names: they follow public coordinates."""
    before = grouped(lists, name)
    random = np.random.default_rng(1)
    for _ in range(2):
        orders = np.stack([random.permutation(toy.N_MODES) for _ in range(len(lists))])
        clients = random.permutation(len(lists))
        after = grouped(toy.shuffled(lists, orders).take(clients), name)
        assert (after.ids == np.take_along_axis(before.ids, orders, axis=1)[clients]).all()
        assert (after.prototypes == before.prototypes).all()
        assert after.cost == before.cost


def test_fewer_starts_keep_the_order_out_and_find_nothing_cheaper() -> None:
    lists = toy.noisy(FITTED, 0.1)
    coordinates = VIEW.residuals(lists.means)[..., 0]
    by_number = [pooled(lists.means, toy.N_MODES, "nearest", coordinates, n_starts=n) for n in (None, len(lists), 5, 1)]
    costs = [found.cost for found in by_number]
    assert costs[0] == costs[1] <= min(costs[2:])
    assert costs[0] < costs[3], "or the starts would not matter here"
    clients = np.random.default_rng(2).permutation(len(lists))
    again = pooled(lists.means[clients], toy.N_MODES, "nearest", coordinates[clients], n_starts=5)
    assert (again.ids == by_number[2].ids[clients]).all()


@pytest.mark.parametrize("name", ["nearest mean", "hungarian", "transport", "public axes", "centred"])
def test_without_noise_true_modes_are_found(name: str) -> None:
    assert adjusted_rand(grouped(ORACLE, name).ids.ravel(), TRUTH) == 1.0


def test_under_the_noise_of_local_trust_every_matcher_is_at_chance() -> None:
    for name in MATCHERS:
        found = [adjusted_rand(grouped(toy.noisy(ORACLE, 0.76, seed), name).ids.ravel(), TRUTH) for seed in range(4)]
        assert np.mean(found) < 0.1, name


def test_random_groups_agree_with_nothing() -> None:
    random = np.random.default_rng(2)
    first = VIEW.residuals(ORACLE.means)[..., 0]
    draws = [pooled(ORACLE.means, toy.N_MODES, "random", first, generator=random) for _ in range(60)]
    assert np.mean([adjusted_rand(each.ids.ravel(), TRUTH) for each in draws]) == pytest.approx(0, abs=0.05)
    assert all((np.sort(each.ids, axis=1) == np.arange(toy.N_MODES)).all() for each in draws)


def test_prototypes_are_averages_of_their_groups_and_cost_is_the_distance_to_them() -> None:
    found = grouped(FITTED, "nearest mean")
    cost = 0.0
    for group in range(toy.N_MODES):
        own = FITTED.means[found.ids == group]
        assert found.prototypes[group] == pytest.approx(own.mean(axis=0))
        cost += ((own - own.mean(axis=0)) ** 2).sum()
    assert found.cost == pytest.approx(cost)
    assert (np.linalg.norm(FITTED.means[:, :, None] - found.prototypes, axis=3).argmin(axis=2) == found.ids).all()


def test_weights_count_in_averages() -> None:
    features = np.array([[[0.0], [10.0]], [[1.0], [11.0]]])
    found = pooled(features, 2, "nearest", features[..., 0], weights=np.array([[3.0, 0.0], [1.0, 2.0]]))
    assert found.prototypes == pytest.approx(np.array([[0.25], [11.0]]))
    assert found.ids.tolist() == [[0, 1], [0, 1]]


def test_names_follow_the_round_before() -> None:
    first = grouped(ORACLE, "hungarian")
    later = toy.noisy(ORACLE, 0.02)
    swapped = [2, 0, 3, 1]
    assert (np.array(swapped)[grouped(later, "hungarian", first.prototypes[swapped]).ids] == first.ids).all()
    assert (np.diff(VIEW.residuals(first.prototypes)[:, 0]) > 0).all()


@pytest.mark.parametrize("n_groups", [1, 2, 7])
@pytest.mark.parametrize("rule", ["nearest", "hungarian", "ot", "random"])
def test_more_and_fewer_groups_than_elements(n_groups: int, rule: Rule) -> None:
    found = pooled(FITTED.means, n_groups, rule, VIEW.residuals(FITTED.means)[..., 0], generator=np.random.default_rng(3))
    assert found.prototypes.shape == (n_groups, toy.D)
    assert np.isfinite(found.prototypes).all()
    assert set(found.ids.ravel()) <= set(range(n_groups))
    if n_groups == 1:
        assert found.prototypes[0] == pytest.approx(FITTED.means.reshape(-1, toy.D).mean(axis=0))


def test_removing_one_client_moves_the_elements_of_others() -> None:
    """Why no bound follows: with lists as fitted, some client decides where another's elements belong."""
    whole = grouped(FITTED, "nearest mean")
    moved = []
    for client in range(len(FITTED)):
        others = np.delete(np.arange(len(FITTED)), client)
        moved.append(bool((grouped(FITTED.take(others), "nearest mean", whole.prototypes).ids != whole.ids[others]).any()))
    assert any(moved)


def test_lists_and_elements_are_sorted_as_their_numbers_are_read() -> None:
    """Small whole numbers, so that many are equal: then the next one decides, and at last the place."""
    random = np.random.default_rng(0)
    for shape in ((1, 1, 1), (4, 3, 2), (6, 5, 3)):
        for _ in range(40):
            features = random.integers(-1, 2, shape).astype(np.float64)
            elements = np.stack([matchers._sorted(each) for each in features])
            rows = [[tuple(element) for element in each] for each in features.tolist()]
            expected = [sorted(range(len(each)), key=each.__getitem__) for each in rows]
            assert elements.tolist() == expected
            said = [[each[place] for place in order] for each, order in zip(rows, expected, strict=True)]
            lists = matchers._sorted(np.take_along_axis(features, elements[:, :, None], axis=1).reshape(len(features), -1))
            assert lists.tolist() == sorted(range(len(said)), key=said.__getitem__)
