"""Local lists: EM against scikit-learn's, and lists of clients with next to no data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from dpcl_core.methods.federated import lists
from dpcl_core.methods.federated.lists import Element, Form, ListLearner, Lists

MEANS = np.array([[2.0, 0, 0], [-2, 1, 0], [0, -2, 2]])


def rows(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters of different size and spread, and which one a row is of."""
    random = np.random.default_rng(seed)
    of = random.choice(3, n, p=[0.5, 0.3, 0.2])
    return MEANS[of] + np.array([0.3, 0.4, 0.5])[of, None] * random.standard_normal((n, 3)), of


@pytest.mark.parametrize(("form", "kind"), [("diagonal", "diag"), ("full", "full")])
def test_em_finds_what_scikit_learn_finds(form: Form, kind: str) -> None:
    z, of = rows()
    found = ListLearner(3, form=form).fit(z, np.eye(3)[of], np.random.default_rng(1))
    theirs = GaussianMixture(3, covariance_type=kind, reg_covar=1e-3, tol=1e-6, n_init=3, random_state=0).fit(z)
    order = np.argsort([element.weight for element in found])
    expected = np.argsort(theirs.weights_)
    for place, other in zip(order, expected, strict=True):
        assert found[place].weight == pytest.approx(theirs.weights_[other], abs=2e-3)
        assert found[place].mean == pytest.approx(theirs.means_[other], abs=5e-3)
        assert found[place].covariance == pytest.approx(theirs.covariances_[other], abs=5e-3)


def test_one_element_is_the_rows_own_mean_spread_and_labels() -> None:
    """L = 1 is what DP-Stat-Share sends."""
    z, of = rows()
    (only,) = ListLearner(1, form="full").fit(z, np.eye(3)[of], np.random.default_rng(0))
    assert only.weight == pytest.approx(1)
    assert only.mean == pytest.approx(z.mean(axis=0))
    assert only.covariance == pytest.approx(np.cov(z, rowvar=False, bias=True) + 1e-3 * np.eye(3))
    assert only.target == pytest.approx(np.bincount(of) / len(of))


def test_moments_add_up_to_those_of_all_rows() -> None:
    """Whatever EM found, shares of means, second moments and targets sum to the rows' own."""
    z, of = rows(200, seed=3)
    lists = Lists.of([ListLearner(4, ridge=0.0, n_steps=3).fit(z, np.eye(3)[of], np.random.default_rng(2))])
    weights = lists.weights[0]
    assert weights.sum() == pytest.approx(1)
    assert weights @ lists.means[0] == pytest.approx(z.mean(axis=0))
    assert weights @ lists.second_moments[0] == pytest.approx((z**2).mean(axis=0))
    assert weights @ lists.targets[0] == pytest.approx(np.bincount(of) / len(of))


def test_the_likeliest_of_several_starts_is_kept() -> None:
    z, of = rows(300, seed=4)

    def likelihood(restarts: int) -> float:
        found = ListLearner(3, restarts, 4).fit(z, np.eye(3)[of], np.random.default_rng(5))
        mixture = GaussianMixture(3, covariance_type="diag")
        mixture.weights_ = np.array([element.weight for element in found])
        mixture.means_ = np.array([element.mean for element in found])
        mixture.covariances_ = np.array([element.covariance for element in found])
        mixture.precisions_cholesky_ = mixture.covariances_**-0.5
        return float(mixture.score(z))

    assert likelihood(8) >= likelihood(1) - 1e-6


def test_single_precision_finds_the_same() -> None:
    z, of = rows()
    double = ListLearner(3).fit(z, np.eye(3)[of], np.random.default_rng(1))
    single = ListLearner(3).fit(z.astype(np.float32), np.eye(3, dtype=np.float32)[of], np.random.default_rng(1))
    # A mixture has no order of its own: entries are held against the nearest, each of which must be a different one.
    nearest = [min(range(3), key=lambda place: float(np.linalg.norm(single[place].mean - one.mean))) for one in double]
    assert sorted(nearest) == [0, 1, 2]
    for one, other in zip(double, (single[place] for place in nearest), strict=True):
        assert other.mean == pytest.approx(one.mean, abs=1e-3)  # single precision: 1e-7 of values up to 3, over 50 steps
        assert other.weight == pytest.approx(one.weight, abs=1e-3)
        assert other.mean.dtype == other.covariance.dtype == other.target.dtype == np.float64


def test_of_starts_that_end_alike_the_first_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three starts with the same rows in another order, the later ones a hair likelier, as another processor may have it."""
    z, of = rows()
    centre, coming = z.mean(axis=0), [[0, 1, 5], [1, 5, 0], [5, 0, 1]]
    order = z[coming[0]]
    monkeypatch.setattr(lists, "_spread_rows", lambda rows, count, generator: z[coming.pop(0)] - centre)
    plain = lists.diagonal
    hair = np.repeat([0, 1e-9, 2e-9], 3)[:, None]
    monkeypatch.setattr(lists, "diagonal", lambda *given: plain(*given) + hair)
    found = ListLearner(3).fit(z, np.eye(3)[of], np.random.default_rng(0))
    apart = np.linalg.norm(np.array([element.mean for element in found])[:, None] - order, axis=2)
    assert apart.argmin(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_a_list_is_as_long_for_a_client_without_rows(n: int, form: Form) -> None:
    z, of = rows(9)
    found = ListLearner(4, form=form).fit(z[:n], np.eye(3)[of[:n]], np.random.default_rng(0))
    assert len(found) == 4
    assert sum(element.weight for element in found) == pytest.approx(1 if n else 0)
    assert sum(element.weight > 0 for element in found) <= max(n, 0)
    for element in found:
        assert np.isfinite(element.mean).all()
        spread = element.covariance if form == "diagonal" else np.linalg.eigvalsh(element.covariance)
        assert (spread > 0).all()
        if element.weight == 0:
            assert not element.mean.any()
            assert not element.target.any()


def test_equal_rows_and_one_class_are_no_trouble() -> None:
    z = np.ones((7, 3), dtype=np.float32)
    found = ListLearner(4).fit(z, np.eye(2, dtype=np.float32)[np.zeros(7, dtype=int)], np.random.default_rng(0))
    assert sum(element.weight for element in found) == pytest.approx(1)
    for element in found:
        assert element.mean == pytest.approx(np.ones(3) if element.weight > 0 else np.zeros(3), abs=1e-5)
        assert element.target == pytest.approx([1, 0] if element.weight > 0 else [0, 0], abs=1e-6)


def test_lists_side_by_side_come_apart_again() -> None:
    z, of = rows(100)
    learner = ListLearner(2, form="full")
    each = [learner.fit(z[half], np.eye(3)[of[half]], np.random.default_rng(0)) for half in (slice(50), slice(50, 100))]
    lists = Lists.of(each)
    assert len(lists) == 2
    again = lists.take(np.array([1, 0])).elements(1)
    for one, other in zip(again, each[0], strict=True):
        assert isinstance(one, Element)
        assert one.weight == other.weight
        assert (one.covariance == other.covariance).all()
    moments = lists.second_moments[1, 0] - np.outer(each[1][0].mean, each[1][0].mean)
    assert moments == pytest.approx(each[1][0].covariance)


def test_the_one_list_of_each_client() -> None:
    """Two tasks of three clients, with lists of one and of two entries; the third client is in neither."""
    random = np.random.default_rng(0)

    def task(weights: list[list[float]]) -> Lists:
        n, length = len(weights), len(weights[0])
        means, variances = random.standard_normal((2, n, length, 3))
        return Lists(np.array(weights), means, variances**2, np.ones((n, length, 1)))

    first, second = task([[0.0], [1.0], [0.0]]), task([[0.3, 0.7], [0.0, 0.0], [0.0, 0.0]])
    found, clients = Lists.of_homes([first, second])
    assert clients.tolist() == [0, 1]
    assert found.weights.tolist() == [[0.3, 0.7], [1.0, 0.0]]
    assert (found.means[0] == second.means[0]).all()
    assert (found.covariances[1, 0] == first.covariances[1, 0]).all()
    assert len(Lists.of_homes([task([[0.0], [0.0]])])[1]) == 0
