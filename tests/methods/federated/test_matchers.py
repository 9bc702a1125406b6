"""Local lists and matchers: EM against scikit-learn, signatures, exact answers, solvers written anew."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog, minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, rankdata
from sklearn.mixture import GaussianMixture

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated import lists, matchers
from dpcl_core.methods.federated.lists import Element, Form, ListLearner, Lists, Signature, normalised, psd, simplex
from tests.support.asserting import refuses

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
    for place, other in zip(np.argsort([element.weight for element in found]), np.argsort(theirs.weights_), strict=True):
        assert found[place].weight == pytest.approx(theirs.weights_[other], abs=2e-3)
        assert found[place].mean == pytest.approx(theirs.means_[other], abs=5e-3)
        assert found[place].covariance == pytest.approx(theirs.covariances_[other], abs=5e-3)


def test_one_element_is_the_rows_own_mean_spread_and_labels() -> None:
    """L = 1 is what DP-Stat-Share sends."""
    z, of = rows()
    (only,) = ListLearner(1, form="full").fit(z, np.eye(3)[of], np.random.default_rng(0))
    assert (only.weight, only.mean) == (pytest.approx(1), pytest.approx(z.mean(axis=0)))
    assert only.covariance == pytest.approx(np.cov(z, rowvar=False, bias=True) + 1e-3 * np.eye(3))
    assert only.target == pytest.approx(np.eye(3)[of].mean(axis=0))


def test_moments_add_up_to_those_of_all_rows() -> None:
    """Whatever EM found, shares of means, second moments and targets sum to the rows' own."""
    z, of = rows(200, seed=3)
    lists = Lists.of([ListLearner(4, ridge=0.0, n_steps=3).fit(z, np.eye(3)[of], np.random.default_rng(2))])
    weights = lists.weights[0]
    assert (weights.sum(), weights @ lists.means[0]) == (pytest.approx(1), pytest.approx(z.mean(axis=0)))
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
    assert (len(found), sum(element.weight for element in found)) == (4, pytest.approx(1 if n else 0))
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
    for one, other in zip(lists.take(np.array([1, 0])).elements(1), each[0], strict=True):
        assert isinstance(one, Element)
        assert one.weight == other.weight
        assert (one.covariance == other.covariance).all()
    assert lists.second_moments[1, 0] - np.outer(each[1][0].mean, each[1][0].mean) == pytest.approx(each[1][0].covariance)


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


N_ANCHORS, N_AXES, LENGTH = 20, 6, 4


def spread(seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((N_AXES, N_AXES))
    return root @ root.T + 0.1 * np.eye(N_AXES)


def elements(full: bool = True) -> list[Element]:
    random = np.random.default_rng(0)
    return [
        Element(1 / LENGTH, random.standard_normal(N_AXES), each if full else np.diag(each), np.eye(LENGTH)[place])
        for place, each in enumerate([spread(seed) for seed in range(LENGTH)])
    ]


POINTS = np.random.default_rng(9).standard_normal((N_ANCHORS, N_AXES))


@pytest.mark.parametrize("full", [True, False])
def test_log_densities_equal_scipy(full: bool) -> None:
    given = elements(full)
    found = lists.log_densities(POINTS, np.array([e.mean for e in given]), np.array([e.covariance for e in given]))
    for row, element in zip(found, given, strict=True):
        covariance = element.covariance if full else np.diag(element.covariance)
        assert row == pytest.approx(multivariate_normal(element.mean, covariance).logpdf(POINTS), abs=1e-8)


@pytest.mark.parametrize("covariance", ["shared-spherical", "shared-full", "own"])
def test_raw_signatures_are_densities_of_the_covariance_asked_for(covariance: str) -> None:
    public = spread(7)
    found = Signature(POINTS, covariance, "raw", public)(elements())  # type: ignore[arg-type]
    for row, element in zip(found, elements(), strict=True):
        spherical = np.trace(public) / N_AXES * np.eye(N_AXES)
        used = {"shared-spherical": spherical, "shared-full": public, "own": element.covariance}[covariance]
        assert row == pytest.approx(multivariate_normal(element.mean, used).logpdf(POINTS), abs=1e-8)


@pytest.mark.parametrize("full", [True, False])
def test_shrunk_covariances_lie_halfway_to_the_public_one_and_no_variance_is_below_its_mean(full: bool) -> None:
    """A huge own covariance is nowhere floored; a tiny one everywhere that the public one's half is below the mean."""
    public = spread(7)
    least = np.trace(public) / N_AXES
    for own in (1e3 * spread(1), 1e-9 * np.eye(N_AXES)):
        half = (own + public) / 2
        (element,) = [Element(1.0, np.ones(N_AXES), own if full else np.diag(own), np.ones(1))]
        if full:
            values, vectors = np.linalg.eigh(half)
            used = sum(max(value, least) * np.outer(v, v) for value, v in zip(values, vectors.T, strict=True))
        else:
            used = np.diag([max(value, least) for value in np.diag(half)])
        found = Signature(POINTS, "own-shrunk", "raw", public)([element])
        assert found[0] == pytest.approx(multivariate_normal(element.mean, used).logpdf(POINTS), rel=1e-9)


def test_centred_signatures_of_one_spherical_covariance_are_means_seen_through_anchors() -> None:
    public = spread(3)
    found = Signature(POINTS, "shared-spherical", "centred", public)(elements())
    gram = (POINTS - POINTS.mean(axis=0)) @ np.array([e.mean for e in elements()]).T / (np.trace(public) / N_AXES)
    for one in range(LENGTH):
        for other in range(LENGTH):
            distance = np.linalg.norm(found[one] - found[other])
            assert distance == pytest.approx(np.linalg.norm(gram[:, one] - gram[:, other]), rel=1e-12, abs=1e-14)


def test_a_constant_of_all_anchors_changes_normalised_rows_nowhere() -> None:
    raw = Signature(POINTS, "own", "raw")(elements())
    shifted = raw + np.arange(LENGTH)[:, None] * 64.0
    for norm in ("centred", "z-scored", "ranked"):
        assert normalised(shifted, norm) == pytest.approx(normalised(raw, norm), abs=1e-10)  # type: ignore[arg-type]
    assert normalised(raw, "z-scored").std(axis=1) == pytest.approx(np.ones(LENGTH))
    assert (normalised(raw, "ranked") == np.array([rankdata(row) for row in raw])).all()
    assert not normalised(np.ones((2, 5)), "z-scored").any()


def test_many_lists_at_once_equal_one_by_one() -> None:
    random = np.random.default_rng(1)
    means, spreads = random.standard_normal((3, LENGTH, N_AXES)), random.uniform(0.1, 1, (3, LENGTH, N_AXES))
    for covariance in ("own", "own-shrunk", "shared-full"):
        signature = Signature(POINTS, covariance, "z-scored", spread(2))  # type: ignore[arg-type]
        found = signature.of(means, spreads)
        assert found.shape == (3, LENGTH, N_ANCHORS)
        for place in range(3):
            assert found[place] == pytest.approx(signature.of(means[place], spreads[place]), abs=1e-12)


def test_what_cannot_be_a_signature_is_said_in_one_sentence() -> None:
    refuses("anchors = 1: must be at least 2", Signature, POINTS[:1], public=spread(0))
    refuses("needs the covariance of public embeddings", Signature, POINTS)
    indefinite = spread(0) - 100 * np.eye(N_AXES)
    refuses("must be positive definite", lists.log_densities, POINTS, np.zeros((1, N_AXES)), indefinite[None])
    with pytest.raises(BadInput, match="must be positive definite"):
        lists.log_densities(POINTS, np.zeros((1, N_AXES)), np.array([[1.0] * (N_AXES - 1) + [0.0]]))


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
    assert (np.diff(np.take_along_axis(found, values.argsort(axis=-1), axis=-1), axis=-1) >= -1e-15).all()


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
    assert symmetric[:, *np.triu_indices(15, 1)].std() == pytest.approx(1 / np.sqrt(2), rel=0.035)
    many = psd(np.random.default_rng(5).standard_normal((1000, 10, 10)), -np.inf)
    assert np.diagonal(many, axis1=1, axis2=2).std() == pytest.approx(1, rel=0.035)


# Matchers: exact answers on hand cases and against solvers written anew; chance for the random one.


PROTOTYPES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])


def cases(n: int = 40) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    return [(random.standard_normal((4, 3)), random.standard_normal((4, 3))) for _ in range(n)]


def test_nearest_is_many_to_one_and_hungarian_is_not() -> None:
    features = np.array([[0.1, 0.0], [0.2, 0.1], [3.0, 0.0]])
    assert matchers.assign("nearest", features, PROTOTYPES).tolist() == [0, 0, 1]
    assert matchers.assign("hungarian", features, PROTOTYPES).tolist() == [0, 2, 1]


def test_hungarian_is_the_cheapest_of_all_orders() -> None:
    for features, prototypes in cases():
        ids = matchers.assign("hungarian", features, prototypes)
        costs = matchers.squared_distances(features, prototypes)
        cheapest = min(sum(costs[row, slot] for row, slot in enumerate(order)) for order in itertools.permutations(range(4)))
        assert sorted(ids) == [0, 1, 2, 3]
        assert costs[np.arange(4), ids].sum() == pytest.approx(cheapest)


def test_a_list_longer_than_there_are_slots_is_dealt_out_evenly() -> None:
    features = np.random.default_rng(1).standard_normal((8, 2))
    for rule in ("hungarian", "random"):
        ids = matchers.assign(rule, features, PROTOTYPES, generator=np.random.default_rng(2))  # type: ignore[arg-type]
        assert np.bincount(ids.astype(np.intp), minlength=3).max() == 3
    ids = matchers.assign("hungarian", features[:2], PROTOTYPES)
    assert len(set(ids.tolist())) == 2


def test_transport_that_is_hardly_smoothed_equals_hungarian() -> None:
    """With equal weights the best coupling is a permutation."""
    costs = np.stack([matchers.squared_distances(*each) for each in cases()])
    plans = matchers.coupling(costs, smoothing=3e-3, n_steps=10_000)
    assert (plans.argmax(axis=2) == matchers.slots("hungarian", costs)).all()


def test_a_coupling_has_its_marginals_and_nearly_the_least_cost() -> None:
    """Against linear programming without smoothing, under unequal weights of the list's elements."""
    random = np.random.default_rng(3)
    for features, prototypes in cases(10):
        rows, columns = random.dirichlet(np.ones(4)), np.full(4, 0.25)
        costs = matchers.squared_distances(features, prototypes)
        plan = matchers.coupling(costs[None], rows[None], smoothing=5e-3, n_steps=20_000)[0]
        assert plan.sum(axis=1) == pytest.approx(rows, abs=1e-6)
        assert plan.sum(axis=0) == pytest.approx(columns, abs=1e-6)
        sums = [np.kron(unit, np.ones(4)) for unit in np.eye(4)] + [np.kron(np.ones(4), unit) for unit in np.eye(4)]
        least = linprog(costs.ravel(), A_eq=np.array(sums), b_eq=np.concatenate([rows, columns])).fun
        assert least - 1e-5 <= (plan * costs).sum() <= least + 5e-3 * costs.max() * math.log(16)


def test_the_coupling_is_sinkhorn_s_fixed_point() -> None:
    """P = diag(u) exp(-c / smoothing) diag(v): every two by two minor of P over the kernel is zero."""
    features, prototypes = cases(1)[0]
    costs = matchers.squared_distances(features, prototypes)
    plan = matchers.coupling(costs[None], smoothing=0.5, n_steps=500)[0]
    ratio = np.log(plan) + costs / costs.max() / 0.5
    assert ratio == pytest.approx(ratio[:, :1] + ratio[:1] - ratio[0, 0], abs=1e-9)
    assert plan.sum(axis=0) == pytest.approx(np.full(4, 0.25), abs=1e-9)


@pytest.mark.parametrize("rule", ["nearest", "hungarian", "ot"])
def test_ties_go_to_the_lower_slot(rule: matchers.Rule) -> None:
    assert matchers.assign(rule, np.zeros((1, 2)), np.array([[1.0, 0], [-1, 0], [0, 1]])).tolist() == [0]
    assert matchers.assign(rule, np.zeros((3, 2)), np.ones((3, 2))).tolist() in ([0, 0, 0], [0, 1, 2])


def test_transport_of_weightless_elements_still_says_where_they_would_go() -> None:
    ids = matchers.assign("ot", PROTOTYPES + 0.1, PROTOTYPES, np.array([1.0, 0, 0]))
    assert (ids.dtype.kind, ids[0]) == ("i", 0)


@pytest.mark.parametrize("rule", ["random", "nearest", "hungarian", "ot"])
def test_a_list_without_elements_has_no_slots(rule: matchers.Rule) -> None:
    assert matchers.assign(rule, np.zeros((0, 2)), PROTOTYPES, generator=np.random.default_rng(0)).shape == (0,)


def test_random_is_right_as_often_as_chance_has_it() -> None:
    """Slot accuracy 1/K, all right 1/K!; 6,000 lists: five standard errors, false alarm below 1e-6 each."""
    n, k = 6000, 4
    ids = matchers.slots("random", np.zeros((n, k, k)), generator=np.random.default_rng(4))
    right = ids == np.arange(k)
    assert (np.sort(ids, axis=1) == np.arange(k)).all()
    # A random order has one fixed place on average, with variance 1.
    assert right.mean() == pytest.approx(1 / k, abs=5 / math.sqrt(n) / k)
    rate = 1 / math.factorial(k)
    assert right.all(axis=1).mean() == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / n))


def test_margins_compare_the_two_nearest_prototypes() -> None:
    features = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    # Distances to the three: 1, 3, sqrt(10) / 2, 2, sqrt(13) / 0, 4, 3.
    assert matchers.margins(features, PROTOTYPES) == pytest.approx([0.5, 0.0, 1.0])
    assert matchers.margins(features, PROTOTYPES[:1]).tolist() == [1.0, 1.0, 1.0]
    assert matchers.margins(features[None, 2:], PROTOTYPES[[0, 0]]).tolist() == [[0.0]]


@pytest.mark.parametrize(("length", "n_slots"), [(1, 2), (2, 2), (3, 5), (9, 12), (40, 40)])
def test_regrets_of_many_lists_are_those_of_one_assignment_each(length: int, n_slots: int) -> None:
    """With free slots too: a barred element may leave its slot to another one that moves up. In some lists half of the
    entries are the same, as entries without rows are."""
    random = np.random.default_rng(length * n_slots)
    lists, prototypes = random.standard_normal((20, length, 3)), random.standard_normal((n_slots, 3))
    lists[::2, length // 2 :] = 0
    for own, features in zip(matchers.regrets(lists, prototypes), lists, strict=True):
        costs = matchers.squared_distances(features, prototypes)
        rows, slots = linear_sum_assignment(costs)
        expected = []
        for row, slot in zip(rows, slots, strict=True):
            barred = costs.copy()
            barred[row, slot] = 1e9
            expected.append(barred[linear_sum_assignment(barred)].sum() - costs[rows, slots].sum())
        assert own == pytest.approx(expected, abs=1e-6)  # of sums near 1e9


def test_feature_maps_read_what_they_say() -> None:
    random = np.random.default_rng(5)
    given = [Element(0.5, random.standard_normal(3), random.uniform(0.1, 1, 3), random.uniform(0, 1, 2)) for _ in range(2)]
    means = np.array([element.mean for element in given])
    assert (matchers.mean_features(given) == means).all()
    assert (matchers.target_features(given) == np.array([element.target for element in given])).all()
    axes = np.linalg.qr(random.standard_normal((3, 2)))[0]
    assert matchers.PcaMean(means[0], axes)(given) == pytest.approx((means - means[0]) @ axes)
    both = matchers.Moments(tau=2.0)(given)
    spreads = np.array([element.covariance for element in given])
    eq22 = ((means[0] - means[1]) ** 2).sum() + 2.0 * ((spreads[0] - spreads[1]) ** 2).sum()
    assert ((both[0] - both[1]) ** 2).sum() == pytest.approx(eq22)
    full = [Element(0.5, element.mean, np.diag(element.covariance), element.target) for element in given]
    assert matchers.Moments(tau=2.0)(full).shape == (2, 12)


def test_a_list_s_coupling_is_its_own() -> None:
    """The steps of one list end by its own change, so another client's list cannot move its coupling by a bit."""
    costs = np.random.default_rng(6).random((40, 4, 3)) ** np.linspace(0.2, 6, 40)[:, None, None]
    assert (matchers.coupling(costs) == np.concatenate([matchers.coupling(one[None]) for one in costs])).all()


def test_the_coupling_is_that_of_steps_in_logarithms() -> None:
    """An independent form of the same steps, which no smoothing can bring out of range; weights of zero among them."""
    random = np.random.default_rng(7)
    costs, weights = random.random((30, 5, 4)), random.dirichlet(np.ones(5), size=30)
    weights[:, 0] = 0
    scaled = costs / costs.max(axis=(1, 2), keepdims=True) / -0.05
    rows = np.log(np.maximum(weights, 1e-12) / np.maximum(weights, 1e-12).sum(axis=1, keepdims=True))
    across = np.zeros((30, 4))
    for _ in range(100):
        down = rows - logsumexp(scaled + across[:, None, :], axis=2)
        across = np.log(1 / 4) - logsumexp(scaled + down[:, :, None], axis=1)
    plans = np.exp(scaled + down[:, :, None] + across[:, None, :])
    # A list's steps end at a relative change of 1e-9; what is left of a geometric series of them stays below 1e-6.
    assert matchers.coupling(costs, weights) == pytest.approx(plans, abs=1e-6)
