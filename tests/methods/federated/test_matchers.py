"""Matchers: exact answers on hand cases and against solvers written anew; chance for the random one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.special import logsumexp

from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Element

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
        assert np.bincount(ids, minlength=3).max() == 3
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
    ids = matchers.assign(rule, np.zeros((1, 2)), np.array([[1.0, 0], [-1, 0], [0, 1]]))
    assert ids.tolist() == [0]
    assert matchers.assign(rule, np.zeros((3, 2)), np.ones((3, 2))).tolist() in ([0, 0, 0], [0, 1, 2])


def test_transport_of_weightless_elements_still_says_where_they_would_go() -> None:
    ids = matchers.assign("ot", PROTOTYPES + 0.1, PROTOTYPES, np.array([1.0, 0, 0]))
    assert ids.dtype == np.int64
    assert ids[0] == 0


@pytest.mark.parametrize("rule", ["random", "nearest", "hungarian", "ot"])
def test_a_list_without_elements_has_no_slots(rule: matchers.Rule) -> None:
    ids = matchers.assign(rule, np.zeros((0, 2)), PROTOTYPES, generator=np.random.default_rng(0))
    assert ids.shape == (0,)


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


def test_regret_is_what_barring_an_element_from_its_slot_costs() -> None:
    for features, prototypes in cases(5):
        costs = matchers.squared_distances(features, prototypes)
        orders = list(itertools.permutations(range(4)))
        totals = np.array([sum(costs[row, slot] for row, slot in enumerate(order)) for order in orders])
        best = orders[int(totals.argmin())]
        expected = [
            min(total for total, order in zip(totals, orders, strict=True) if order[row] != best[row]) - totals.min()
            for row in range(4)
        ]
        assert matchers.regrets(features, prototypes) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("length", "n_slots"), [(1, 2), (2, 2), (3, 5), (9, 12), (40, 40)])
def test_regrets_of_many_lists_are_those_of_one_assignment_each(length: int, n_slots: int) -> None:
    """With free slots too: a barred element may leave its slot to another one that moves up. In some lists half of the
    entries are the same, as entries without rows are."""
    random = np.random.default_rng(length * n_slots)
    lists, prototypes = random.standard_normal((20, length, 3)), random.standard_normal((n_slots, 3))
    lists[::2, length // 2 :] = 0
    found = matchers.regrets(lists, prototypes)
    for own, features in zip(found, lists, strict=True):
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
    together = matchers.coupling(costs)
    alone = np.concatenate([matchers.coupling(one[None]) for one in costs])
    assert (together == alone).all()


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
