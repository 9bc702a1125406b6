"""Local lists: EM against scikit-learn's, and lists of clients with next to no data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, rankdata
from sklearn.mixture import GaussianMixture

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated import lists
from dpcl_core.methods.federated.lists import (
    Element,
    Form,
    ListLearner,
    Lists,
    Signature,
    log_densities,
    normalised,
    psd,
    simplex,
)

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
    assert only.target == pytest.approx(np.eye(3)[of].mean(axis=0))


def test_moments_add_up_to_those_of_all_rows() -> None:
    """Whatever EM found, shares of means, second moments and targets sum to the rows' own."""
    z, of = rows(200, seed=3)
    lists = Lists.of([ListLearner(4, ridge=0.0, n_steps=3).fit(z, np.eye(3)[of], np.random.default_rng(2))])
    weights = lists.weights[0]
    assert weights.sum() == pytest.approx(1)
    assert weights @ lists.means[0] == pytest.approx(z.mean(axis=0))
    assert weights @ lists.second_moments[0] == pytest.approx((z**2).mean(axis=0))
    assert weights @ lists.targets[0] == pytest.approx(np.eye(3)[of].mean(axis=0))


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


# Anchor signatures: against scipy's densities, and what the centred one is.


M, D, L = 20, 6, 4


def spread(seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((D, D))
    return root @ root.T + 0.1 * np.eye(D)


def elements(full: bool = True) -> list[Element]:
    random = np.random.default_rng(0)
    covariances = [spread(seed) for seed in range(L)]
    return [
        Element(1 / L, random.standard_normal(D), each if full else np.diag(each), np.eye(L)[place])
        for place, each in enumerate(covariances)
    ]


ANCHORS = np.random.default_rng(9).standard_normal((M, D))


@pytest.mark.parametrize("full", [True, False])
def test_log_densities_equal_scipy(full: bool) -> None:
    given = elements(full)
    found = log_densities(ANCHORS, np.array([e.mean for e in given]), np.array([e.covariance for e in given]))
    for row, element in zip(found, given, strict=True):
        covariance = element.covariance if full else np.diag(element.covariance)
        assert row == pytest.approx(multivariate_normal(element.mean, covariance).logpdf(ANCHORS), abs=1e-8)


@pytest.mark.parametrize("covariance", ["shared-spherical", "shared-full", "own"])
def test_raw_signatures_are_densities_of_the_covariance_asked_for(covariance: str) -> None:
    public = spread(7)
    found = Signature(ANCHORS, covariance, "raw", public)(elements())  # type: ignore[arg-type]
    for row, element in zip(found, elements(), strict=True):
        spherical = np.trace(public) / D * np.eye(D)
        used = {"shared-spherical": spherical, "shared-full": public, "own": element.covariance}[covariance]
        assert row == pytest.approx(multivariate_normal(element.mean, used).logpdf(ANCHORS), abs=1e-8)


@pytest.mark.parametrize("full", [True, False])
def test_shrunk_covariances_lie_halfway_to_the_public_one_and_no_variance_is_below_its_mean(full: bool) -> None:
    """A huge own covariance is nowhere floored; a tiny one everywhere that the public one's half is below the mean."""
    public = spread(7)
    least = np.trace(public) / D
    for own in (1e3 * spread(1), 1e-9 * np.eye(D)):
        half = (own + public) / 2
        (element,) = [Element(1.0, np.ones(D), own if full else np.diag(own), np.ones(1))]
        if full:
            values, vectors = np.linalg.eigh(half)
            used = sum(max(value, least) * np.outer(v, v) for value, v in zip(values, vectors.T, strict=True))
        else:
            used = np.diag([max(value, least) for value in np.diag(half)])
        found = Signature(ANCHORS, "own-shrunk", "raw", public)([element])
        assert found[0] == pytest.approx(multivariate_normal(element.mean, used).logpdf(ANCHORS), rel=1e-9)


def test_centred_signatures_of_one_spherical_covariance_are_means_seen_through_anchors() -> None:
    public = spread(3)
    found = Signature(ANCHORS, "shared-spherical", "centred", public)(elements())
    gram = (ANCHORS - ANCHORS.mean(axis=0)) @ np.array([e.mean for e in elements()]).T / (np.trace(public) / D)
    for one in range(L):
        for other in range(L):
            distance = np.linalg.norm(found[one] - found[other])
            assert distance == pytest.approx(np.linalg.norm(gram[:, one] - gram[:, other]), rel=1e-12, abs=1e-14)


def test_a_constant_of_all_anchors_changes_normalised_rows_nowhere() -> None:
    raw = Signature(ANCHORS, "own", "raw")(elements())
    shifted = raw + np.arange(L)[:, None] * 64.0
    for norm in ("centred", "z-scored", "ranked"):
        assert normalised(shifted, norm) == pytest.approx(normalised(raw, norm), abs=1e-10)  # type: ignore[arg-type]
    assert normalised(raw, "z-scored").std(axis=1) == pytest.approx(np.ones(L))
    assert (normalised(raw, "ranked") == np.array([rankdata(row) for row in raw])).all()
    assert not normalised(np.ones((2, 5)), "z-scored").any()


def test_many_lists_at_once_equal_one_by_one() -> None:
    random = np.random.default_rng(1)
    means, spreads = random.standard_normal((3, L, D)), random.uniform(0.1, 1, (3, L, D))
    for covariance in ("own", "own-shrunk", "shared-full"):
        signature = Signature(ANCHORS, covariance, "z-scored", spread(2))  # type: ignore[arg-type]
        found = signature.of(means, spreads)
        assert found.shape == (3, L, M)
        for place in range(3):
            assert found[place] == pytest.approx(signature.of(means[place], spreads[place]), abs=1e-12)


def test_what_cannot_be_a_signature_is_said_in_one_sentence() -> None:
    with pytest.raises(BadInput, match="anchors = 1: must be at least 2"):
        Signature(ANCHORS[:1], public=spread(0))
    with pytest.raises(BadInput, match="needs the covariance of public embeddings"):
        Signature(ANCHORS)
    indefinite = spread(0) - 100 * np.eye(D)
    with pytest.raises(BadInput, match="must be positive definite"):
        log_densities(ANCHORS, np.zeros((1, D)), indefinite[None])
    with pytest.raises(BadInput, match="must be positive definite"):
        log_densities(ANCHORS, np.zeros((1, D)), np.array([[1.0] * (D - 1) + [0.0]]))


# Projections: hand cases, what they must leave alone, and how large noise becomes as a covariance.


@pytest.mark.parametrize(
    ("given", "nearest"), [((0.5, 0.5, 0.5), (1 / 3, 1 / 3, 1 / 3)), ((1.2, -0.1, 0.3), (0.95, 0, 0.05)), ((7.0,), (1.0,))]
)
def test_simplex_of_hand_cases(given: tuple[float, ...], nearest: tuple[float, ...]) -> None:
    assert simplex(np.array(given)) == pytest.approx(nearest, abs=1e-15)


def test_simplex_is_what_it_should_be() -> None:
    values = np.random.default_rng(0).standard_normal((50, 4, 6)) * 3
    found = simplex(values)
    assert found.sum(axis=-1) == pytest.approx(np.ones((50, 4)), abs=1e-12)
    assert (found >= 0).all()
    assert simplex(found) == pytest.approx(found, abs=1e-12)
    assert simplex(values + 2.5) == pytest.approx(found, abs=1e-12)
    order = values.argsort(axis=-1)
    assert (np.diff(np.take_along_axis(found, order, axis=-1), axis=-1) >= -1e-15).all()


def test_simplex_is_the_nearest_point() -> None:
    """Against a general solver of the same problem."""
    for values in np.random.default_rng(1).standard_normal((5, 4)):
        solved = minimize(
            lambda p, v=values: ((p - v) ** 2).sum(), np.full(4, 0.25), bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-14}
        )
        assert simplex(values) == pytest.approx(solved.x, abs=1e-6)


def test_psd_raises_small_eigenvalues_alone() -> None:
    raw = np.random.default_rng(2).standard_normal((3, 6, 6))
    found = psd(raw, 0.05)
    assert (found == np.swapaxes(found, 1, 2)).all()
    assert np.linalg.eigvalsh(found).min() >= 0.05 - 1e-10
    assert psd(found, 0.05) == pytest.approx(found, abs=1e-12)
    above = raw @ np.swapaxes(raw, 1, 2) + np.eye(6)
    above = (above + np.swapaxes(above, 1, 2)) / 2
    assert (psd(above, 0.05) == above).all()


def test_a_covariance_of_noise_alone_is_as_large_as_the_paper_s_would_be() -> None:
    """Six clients, multiplier 1.45, 384 dimensions: trace 545 where the true one is below 1."""
    noise = 1.45 / 6 * np.random.default_rng(3).standard_normal((384, 384))
    assert np.trace(psd(noise, 1e-3)) == pytest.approx(545, rel=0.02)


def test_noise_on_a_full_matrix_is_smaller_off_the_diagonal_once_symmetric() -> None:
    """10,500 and 10,000 draws: 3.5 % off are five standard errors, chance below 1e-6."""
    symmetric = psd(np.random.default_rng(4).standard_normal((100, 15, 15)), -np.inf)
    upper = symmetric[:, *np.triu_indices(15, 1)]
    assert upper.std() == pytest.approx(1 / np.sqrt(2), rel=0.035)
    many = psd(np.random.default_rng(5).standard_normal((1000, 10, 10)), -np.inf)
    assert np.diagonal(many, axis1=1, axis2=2).std() == pytest.approx(1, rel=0.035)
