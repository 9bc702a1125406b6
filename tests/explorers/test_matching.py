"""What a run tells of its lists and lists matched anew, matchers compared on public digits, and theorems in numbers."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import adjusted_rand_score

from dpcl_core.events import Signatures, from_json, to_json
from dpcl_core.explorers import matching, matching_log, projection_maps
from dpcl_core.explorers.matching import CENTRED
from dpcl_core.explorers.matching_log import ENTRY, Rematch
from dpcl_core.lessons import modes
from dpcl_core.lessons.modes import World
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.methods.federated.params import ListParams
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.spec import Cell
from tests.support import clients

OF, PUBLIC = clients.stream(per_class=60)
AT_HOME = clients.at_home(clients.stream(per_class=60, classes_per_task=2)[0])
FEW = {"dimensions": 4, "anchors": 20, "restarts": 1, "steps": 5, "samples": 20, "hidden": 4}


def told(of: Any = OF, **changes: object) -> tuple[Sequence[Signatures], ListParams]:
    asked = clients.spec("cslr-server-head", **{"params": FEW, **changes})
    assert isinstance(asked.params, ListParams)
    return [event for event in clients.run(asked, of, PUBLIC)[2] if isinstance(event, Signatures)], asked.params


def rematched(said: Sequence[Signatures], params: ListParams, now: Signatures | None = None) -> Rematch:
    found = Rematch.of(said, now or said[-1], params)
    assert found is not None
    return found


def stored(said: Sequence[Signatures]) -> list[Signatures]:
    """The events as a store gives them back."""
    return [from_json(json.loads(json.dumps(to_json(each)))) for each in said]  # type: ignore[misc]


def matched_as_before(found: Rematch) -> Signatures:
    """The round matched anew as the run did: the same entries, and those that are clear in the groups where they were."""
    again, now = found.event(found.n_anchors, 0.0), found.now
    assert (again.entries.client, again.entries.mode) == (now.entries.client, now.entries.mode)
    clear = np.array(now.entries.margin) > 0.05
    assert clear.sum() > 20
    assert (np.array(again.entries.group) == np.array(now.entries.group))[clear].all()
    return again


@pytest.fixture(scope="module")
def source() -> Rematch:
    said, params = told()
    return rematched(stored(said), params, said[-1])


def test_rows_are_rounded_to_half_a_step_and_zero_rows_stay_zero() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 40))
    rows[3] = 0
    of = matching.quantized(rows)
    assert (np.abs(matching.rows_of(of) - rows) <= np.array(of.steps)[:, None] * 0.5001).all()
    assert not matching.rows_of(of)[3].any()
    assert matching.rows_of(matching.quantized(np.zeros((0, 7)))).shape == (0, 7)


def test_matched_anew_as_the_run_did_it_is_what_the_run_told(source: Rematch) -> None:
    """Rounding moves an entry by a few hundredths of its distance to others; those that are clear stay where they were."""
    now = source.now
    again = matched_as_before(source)
    assert again.matcher == now.matcher
    for space in ("mean", "signature"):
        mine, theirs = np.array(getattr(again.entries, space)), np.array(getattr(now.entries, space))
        assert np.abs(mine - theirs).max() < 0.1 * theirs.std(axis=0).max()
    kept = source.agreement(source.n_anchors, 0.0)
    assert kept["Hungarian"] == now.agreement["Hungarian"]
    assert kept[matching.CENTRED] == pytest.approx(now.agreement[matching.CENTRED], abs=0.1)


def test_anchors_near_a_group_are_the_public_examples_at_the_smallest_distance(source: Rematch) -> None:
    """Looked up among all public examples by their place, and compared one by one."""
    public = unit_rows(PUBLIC)
    drawn = set(matchers.anchor_places(source.now.cell.seed, len(public))[: source.n_anchors].tolist())
    for prototype, places in zip(source.prototypes, source.nearest_anchors(len(public), k=4), strict=True):
        away = {place: float(np.linalg.norm(public[place] - prototype)) for place in drawn}
        nearest = sorted(away.values())[:4]
        assert [away[place] for place in places.tolist()] == pytest.approx(nearest, rel=0.03)  # anchors are told rounded


def test_a_map_of_fewer_anchors_is_turned_towards_the_runs(source: Rematch) -> None:
    spread = np.full(source.public.anchors.shape, 1e-3)
    before = source.run_maps.signatures(source.public.anchors, spread)
    for m in (19, 10):
        after = source._maps(m).signatures(source.public.anchors, spread)
        across = (after - after.mean(axis=0)).T @ (before - before.mean(axis=0))
        assert across == pytest.approx(across.T, rel=1e-6, abs=1e-9 * abs(across).max())  # no turn would bring them nearer
        assert np.linalg.eigvalsh(across).min() > -1e-9 * abs(across).max()


def test_noise_is_of_the_level_asked_for_and_drowns_what_is_told(source: Rematch) -> None:
    """Of 12,000 and more draws, whose standard deviation is within 4 % at a false alarm below 1e-9."""
    added = matching.moved(source.lists, 0.1).means - source.lists.means
    assert added.std() == pytest.approx(0.1, rel=0.04)
    assert (matching.moved(source.lists, 0.2).means - source.lists.means) == pytest.approx(2 * added)
    loud = source.event(20, 0.8)
    assert loud.signal[ENTRY] < loud.noise[ENTRY] == pytest.approx(0.8 * math.sqrt(len(source.public.view.centre)))
    assert ENTRY not in source.event(20, 0.0).signal
    assert source.agreement(20, 0.8)["Hungarian"] < 0.3 < source.now.agreement["Hungarian"]


def test_the_sweep_keeps_what_no_anchor_changes(source: Rematch) -> None:
    swept = source.sweep(5)
    assert (set(swept), swept["Hungarian"]) == (set(matching.SWEPT), source.now.agreement_at["Hungarian"])
    assert swept[matching.CENTRED] != source.now.agreement_at[matching.CENTRED]
    scores = source.scores(0.0)
    assert scores.mean_rate[-1] == pytest.approx(source.now.anchors.mean_rate[-1], abs=0.05)  # type: ignore[union-attr]


def test_lists_are_told_once_for_the_first_seed_and_budget() -> None:
    said, params = told(privacy={"epsilons": [4.0, 8.0], "noise": "seeded"})
    assert [(event.cell.epsilon, event.task) for event in said if event.lists is not None] == [(4.0, t) for t in range(4)]
    assert [event.task for event in said if event.public is not None] == [0]
    assert all(event.prototypes.full is not None for event in said)
    other = next(event for event in said if event.cell.epsilon == 8.0 and event.task == 2)
    assert rematched(said, params, other).event(20, 0.0).cell == other.cell
    assert Rematch.of(said, replace(other, cell=Cell(8.0, 99)), params) is None


@pytest.mark.parametrize(
    "changes", [{"matcher": "target"}, {"signature_covariance": "shared-full"}, {"anchors": 1, "matcher": "mean"}]
)
def test_what_cannot_be_matched_anew_is_not_told(changes: dict[str, object]) -> None:
    said, params = told(params={**FEW, **changes})
    assert said
    assert all(event.lists is None and event.public is None and event.prototypes.full is None for event in said)
    assert Rematch.of(said, said[-1], params) is None


def test_clients_of_one_task_each_are_told_of_under_one_another() -> None:
    said, params = told(AT_HOME)
    assert [event.lists.client for event in said if event.lists is not None] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    found = rematched(stored(said), params, said[-1])
    assert found.has_homes
    assert not found.is_part
    now = said[-1]
    assert matched_as_before(found).entries.weight == pytest.approx(now.entries.weight, rel=1e-3)
    assert found.agreement(found.n_anchors, 0.0)["Hungarian"] == now.agreement["Hungarian"]
    assert found.sweep(5)["Hungarian"] == now.agreement_at["Hungarian"]
    assert rematched(said, params, said[0]).clients.tolist() == [0, 1, 2, 3]


def test_of_many_clients_the_first_of_every_task_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST", 2 * 3 * 8)  # three clients of eight entries in each of two tasks
    said, params = told(AT_HOME)
    found = rematched(said, params)
    assert found.clients.tolist() == [0, 1, 2, 4, 5, 6]
    assert found.is_part
    assert found.agreement(20, 0.0).keys() == said[-1].agreement.keys()
    monkeypatch.setattr(matching, "MOST", 1)  # two are needed to compare anything
    assert [len(event.lists.weight) for event in told(AT_HOME)[0] if event.lists is not None] == [2, 2]


def test_long_lists_are_compared_in_part_by_the_run_and_anew_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same entries of the same clients: what no anchor changes is kept to the digit, the rest is close."""
    monkeypatch.setattr(matching_log, "LONGEST", 7)
    monkeypatch.setattr(matching_log, "SUBSAMPLE_SIZE", 5)
    monkeypatch.setattr(matching, "MOST", 2 * 3 * 8)
    said, params = told(AT_HOME)
    now = said[-1]
    assert now.n_compared == 6 * 5 < len(now.entries.client)
    assert now.anchors is not None
    assert set(now.agreement_at) == set(matching.SWEPT)
    found = rematched(said, params, now)
    again = found.agreement(20, 0.0)
    assert again["Hungarian"] == now.agreement["Hungarian"]
    assert again[matching.CENTRED] == pytest.approx(now.agreement[matching.CENTRED], abs=0.1)
    assert found.sweep(20)["Hungarian"] == now.agreement_at["Hungarian"]
    assert found.event(5, 0.1).n_compared == now.n_compared
    assert found.agreement(20, 0.4)["Hungarian"] != now.agreement["Hungarian"]


def test_tasks_of_lists_of_unlike_length_are_matched_for_those_told_of_in_all(source: Rematch) -> None:
    of = source.now.lists
    assert of.log_variances is not None
    n_numbers = len(of.means.steps) * of.means.width  # at most a byte a number, before base64
    assert len(of.means.values) < 4 / 3 * n_numbers + 64
    assert len(of.log_variances.values) < n_numbers
    fewer = replace(
        of, weight=of.weight[:5], mode=of.mode[:5], log_variances=None,
        means=matching.quantized(source.lists.means[:5, -4:].reshape(20, -1)),
    )  # fmt: skip
    lists, modes, whose = matching.lists_of([of, fewer], 0.1)
    assert whose.tolist() == [0, 1, 2, 3, 4]
    assert lists.weights.shape == modes.shape == (5, 8)


# The part of long lists that is compared: by place alone, every label's first entries before its second ones.


D = 3


def lists_with(modes: np.ndarray) -> Lists:
    """Lists whose entry at place j of client i has mean (i, j, its mode); those of mode -1 have no weight."""
    n, length = modes.shape
    at = np.stack([*np.indices((n, length)), modes], axis=2).astype(float)
    return Lists((modes >= 0) / length, at, np.full((n, length, D), 0.5), (modes[..., None] == np.arange(9)).astype(float))


def test_of_every_mode_the_first_entry_comes_before_any_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching_log, "SUBSAMPLE_SIZE", 5)
    modes = np.array([[0, 0, 0, -1, 1, 1, 2, 2], [3, 3, -1, -1, -1, -1, -1, 4], [-1] * 8])
    kept, found = matching_log.subsample(lists_with(modes), modes)
    assert found.tolist() == [[0, 0, 1, 1, 2], [3, 3, 4, -1, -1], [-1] * 5]
    assert (kept.means[0, :, 1].tolist(), kept.means[1, :3, 1].tolist()) == ([0, 1, 4, 5, 6], [0, 1, 7])
    assert ((kept.weights > 0) == (found >= 0)).all()
    assert (kept.targets.argmax(axis=2)[found >= 0] == found[found >= 0]).all()
    assert (kept.covariances[found < 0] == 1 / D).all()
    assert not kept.means[found < 0].any()


def test_what_an_entry_weighs_does_not_choose_it() -> None:
    modes = np.repeat(np.arange(30), 4)[None]
    light = lists_with(modes)
    heavy = Lists(light.weights * np.linspace(1, 9, modes.size), light.means, light.covariances, light.targets)
    assert (matching_log.subsample(light, modes)[0].means == matching_log.subsample(heavy, modes)[0].means).all()
    assert matching_log.subsample(light, modes)[1].shape == (1, matching_log.SUBSAMPLE_SIZE)
    assert matching_log.is_long(modes)
    assert not matching_log.is_long(modes[:, : matching_log.LONGEST])


# The simulator's view: maps that public points fix, entries without rows left out, noise as wide as it is.


CELL = Cell(4.0, 13)


@pytest.fixture(scope="module")
def world() -> modes.World:
    return modes.world("exact", modes.SHORT, draw=1)


@pytest.fixture(scope="module")
def maps(world: modes.World) -> projection_maps.ProjectionMaps:
    return projection_maps.ProjectionMaps.of(
        world.public, Signature(world.anchors[:50], "shared-spherical", "centred", world.view.covariance)
    )


def test_maps_are_of_public_points_and_hold_what_they_say(world: modes.World, maps: projection_maps.ProjectionMaps) -> None:
    away = world.public[:500] - world.public[:500].mean(axis=0)
    wanted = np.linalg.eigvalsh(away.T @ away)[::-1][:2]
    assert ((maps.means(world.public[:500])) ** 2).sum(axis=0) == pytest.approx(wanted)
    assert maps.mean_axes.T @ maps.mean_axes == pytest.approx(np.eye(2), abs=1e-12)
    means = world.lists.means.reshape(-1, modes.SHORT)
    held = maps.means(means).var(axis=0).sum() / means.var(axis=0).sum()
    assert maps.shown(world.lists)[0] == pytest.approx(held, rel=1e-3)
    assert 0 < maps.shown(world.lists)[1] <= 1


def test_an_event_has_every_entry_with_rows_as_json(world: modes.World, maps: projection_maps.ProjectionMaps) -> None:
    matched = modes.server_side(world, CENTRED, 50, 0.1, 1)
    weights = matched.lists.weights.copy()
    weights[3, 2] = 0.0
    matched = replace(matched, lists=replace(matched.lists, weights=weights))
    said = projection_maps.signatures(CELL, 1, 7, matched, maps)
    assert (len(said.entries.client), said.entries.client.count(3)) == (4 * 20 - 1, 3)
    assert from_json(json.loads(json.dumps(to_json(said), allow_nan=False))) == said
    assert (said.task, said.round, said.matcher, said.mode_names) == (1, 7, CENTRED, world.names)
    margins = matchers.margins(matched.features, matched.prototype_features)
    assert said.entries.margin[0] == pytest.approx(margins[0, 0], rel=1e-3)
    assert said.entries.mean[0] == pytest.approx(maps.means(matched.lists.means[0, 0]), rel=1e-3, abs=1e-4)


def test_regret_is_what_the_next_best_assignment_adds(world: modes.World, maps: projection_maps.ProjectionMaps) -> None:
    matched = modes.server_side(world, CENTRED, 50, 0.1, 1)
    said = projection_maps.signatures(CELL, 0, 0, matched, maps)
    costs = ((matched.features[0][:, None] - matched.prototype_features) ** 2).sum(axis=2)
    totals = {order: sum(costs[row, column] for row, column in enumerate(order)) for order in permutations(range(4))}
    best = min(totals, key=totals.__getitem__)
    assert best == tuple(matched.ids[0])
    for row in range(4):
        barred = min(total for order, total in totals.items() if order[row] != best[row])
        assert said.entries.regret[row] == pytest.approx((barred - totals[best]) / totals[best], rel=1e-3)
    assert set(projection_maps.signatures(CELL, 0, 0, replace(matched, is_one_to_one=False), maps).entries.regret) == {None}


def test_noise_on_a_prototype_is_as_wide_on_the_map(world: modes.World, maps: projection_maps.ProjectionMaps) -> None:
    matched = modes.client_side(world, CENTRED, 50, 4.0, 1, 1)
    said = projection_maps.signatures(CELL, 0, 1, replace(matched, noise_axes=None), maps).prototypes
    std = modes.std_of_released(world, 4.0)
    for xx, xy, yy in said.mean_spread:
        assert (xx, yy) == pytest.approx((std**2, std**2), rel=1e-3)
        assert abs(xy) < 1e-6 * std**2
    clean = projection_maps.signatures(CELL, 0, 0, modes.client_side(world, CENTRED, 50, math.inf, 1, 1), maps).prototypes
    assert {spread for each in (clean.mean_spread, clean.signature_spread) for spread in each} == {(0.0, 0.0, 0.0)}


def test_noise_of_a_linear_map_is_as_wide_as_it_is_drawn(world: modes.World, maps: projection_maps.ProjectionMaps) -> None:
    """The variance of 256 draws is off by 60 % with probability below 1e-9."""
    matched = modes.client_side(world, CENTRED, 50, 4.0, 1, 1)
    rows = np.random.default_rng(1).standard_normal((256, len(matched.prototypes), modes.SHORT))
    moved = matched.prototypes + matched.noise_std * rows[..., : matched.noise_axes.shape[1]] @ matched.noise_axes.T
    spread = np.full(moved.shape, 1e-3)
    said = projection_maps.signatures(CELL, 0, 1, matched, maps).prototypes
    for points, told in ((maps.means(moved), said.mean_spread), (maps.signatures(moved, spread), said.signature_spread)):
        for group, (xx, xy, yy) in enumerate(told):
            drawn = np.cov(points[:, group].T)
            assert (drawn[0, 0], drawn[1, 1]) == pytest.approx((xx, yy), rel=0.6)
            assert abs(drawn[0, 1] - xy) < 0.6 * max(xx, yy)
    ranked = replace(maps, signature=replace(maps.signature, norm="ranked"))
    assert not ranked.signature.is_linear
    assert len(set(projection_maps.signatures(CELL, 0, 1, matched, ranked).prototypes.signature_spread)) > 1


# Matchers compared on public digits.


@pytest.fixture(scope="module")
def long() -> World:
    return modes.world("exact", modes.LONG, draw=1)


def test_without_noise_all_but_random_and_raw_are_right(long: World) -> None:
    found = matching.agreement(long.lists, long.modes, long.by_name(100), long.view, 0)
    chance = {name: found.pop(name) for name in ("random", "anchors, raw")}
    assert set(found.values()) == {1.0}
    # 80 entries in 4 groups by lot: the index has mean 0 and standard deviation 0.02, so 0.15 is above six of them
    assert abs(chance["random"]) < 0.15
    assert chance["anchors, raw"] < 0.9


def test_in_long_vectors_few_public_directions_win_and_under_much_noise_nothing_does(long: World) -> None:
    found = matching.under_noise(long.lists, long.modes, long.by_name(50), long.view, (1, 2))
    assert set(found) == set(matching.SWEPT)
    at = {name: dict(zip(matching.LEVELS, values, strict=True)) for name, values in found.items()}
    for name in (matching.CENTRED, matching.PROJECTION):
        assert at[name][0.1] > at["Hungarian"][0.1] + 0.2 > at["nearest mean"][0.1]
    assert all(of[0.0] == 1.0 for of in at.values())
    assert all(abs(of[0.8]) < 0.15 for of in at.values())


def test_noise_is_on_means_and_second_moments_and_a_level_of_zero_changes_nothing(long: World) -> None:
    same = matching.noised(long.lists, 0.0, np.random.default_rng(0))
    assert np.array_equal(same.means, long.lists.means)
    assert same.covariances == pytest.approx(np.maximum(long.lists.covariances, 1e-3), abs=1e-12)
    moved = matching.noised(long.lists, 0.1, np.random.default_rng(0))
    # 30,720 normal numbers: their standard deviation is off by 2.5 % with probability below 1e-9
    assert (moved.means - long.lists.means).std() == pytest.approx(0.1, rel=0.025)
    assert moved.covariances.min() >= 1e-3


def test_more_anchors_widen_the_least_gap_and_leave_the_rate_alone(long: World) -> None:
    found = matching.anchor_scores(long.lists, long.modes, long.anchors, long.view, long.rule, 0)
    assert found.m == matching.COUNTS
    assert (np.diff(found.least_gap) >= 0).all()  # the sets are nested
    assert abs(found.mean_rate[-1] - found.mean_rate[3]) < 0.1
    n = long.modes.size
    for p, asked in zip(found.least_rate, found.needed, strict=True):
        assert asked == (matching.anchors_needed(n, 0.05, p) if p else math.inf)
    wanted = matching.anchors_needed(4800, 0.05, found.least_rate[-1])
    many = matching.anchor_scores(long.lists, long.modes, long.anchors, long.view, long.rule, 0, n_lists=4800)
    assert many.needed[-1] == wanted > found.needed[-1]
    same = np.zeros_like(long.modes)  # one mode leaves nothing to tell apart
    assert matching.anchor_scores(long.lists, same, long.anchors, long.view, long.rule, 0) is None


# Agreement with the truth: against scikit-learn, by hand, and whatever groups are called.


def test_the_index_is_scikit_learns_and_does_not_depend_on_names() -> None:
    generator = np.random.default_rng(0)
    for n in (1, 2, 7, 80):
        for _ in range(20):
            groups, modes = generator.integers(0, 4, size=(2, n))
            found = matching.adjusted_rand(groups, modes)
            assert found == pytest.approx(adjusted_rand_score(modes, groups), abs=1e-12)
            assert matching.adjusted_rand(3 - groups, modes) == pytest.approx(found, abs=1e-12)


def test_groups_stand_for_the_modes_that_make_most_entries_right() -> None:
    groups, modes = np.array([2, 2, 0, 0, 1, -1, 1]), np.array([0, 0, 1, 0, 2, 2, -1])
    assert matching.confusion(groups, modes, 3, 3).tolist() == [[1, 0, 2], [1, 0, 0], [0, 1, 0]]
    assert matching.group_modes(groups, modes, 3, 3).tolist() == [1, 2, 0]
    # The entry without a group and the one whose mode nobody knows are not right.
    assert matching.is_correct(groups, modes, 3, 3).tolist() == [True, True, True, False, True, False, False]
    groups, modes = np.array([0, 1, 1, 2]), np.array([0, 1, 1, 1])  # a group too many stands for nothing
    assert matching.group_modes(groups, modes, 3, 2).tolist() == [0, 1, -1]
    assert matching.is_correct(groups, modes, 3, 2).tolist() == [True, True, True, False]


# CSLR's theorems in numbers: Theorem 2 against simulation, what grows with anchors and what does not.


def test_theorem_2_at_the_papers_sizes() -> None:
    assert [matching.anchors_needed(4800, 0.05, p) for p in (0.18, 0.43, 0.46)] == [111, 47, 44]


def test_with_as_many_anchors_as_theorem_2_asks_for_failures_are_rarer_than_eta() -> None:
    """60 pairs, each hit by an anchor with chance 0.3 on its own; 2,000 draws. False alarm below 1e-6."""
    generator, p, n_pairs, eta = np.random.default_rng(1), 0.3, 60, 0.5
    n_elements = math.ceil(math.sqrt(n_pairs))  # N^2 counts the pairs: no slack from them
    m = matching.anchors_needed(n_elements, eta, p)
    failures, few = (
        sum(bool((~(generator.random((n_pairs, n)) < p).any(axis=1)).any()) for _ in range(2000)) for n in (m, m // 3)
    )
    assert failures <= binom.ppf(1 - 1e-6, 2000, eta) < few, "a third of the anchors does not do"


def test_separation_is_what_a_loop_over_pairs_finds_and_its_margin_never_falls_on_nested_anchors() -> None:
    generator, modes, gamma = np.random.default_rng(0), np.arange(24) % 4, 0.8
    every = generator.standard_normal((4, 400))[modes] + 0.2 * generator.standard_normal((24, 400))
    margins = [matching.separation(every[:, :m], modes, 1.0)[2] for m in range(1, 60)]
    assert margins == sorted(margins)
    signatures = every[:, :30]
    pairs = [(i, j) for i in range(24) for j in range(i) if modes[i] != modes[j]]
    apart = [np.abs(signatures[i] - signatures[j]) for i, j in pairs]
    rates = [np.mean(one >= gamma) for one in apart]
    expected = (np.mean(rates), min(rates), min(one.max() for one in apart))
    assert matching.separation(signatures, modes, gamma) == pytest.approx(expected)
    assert all(map(math.isnan, matching.separation(signatures, np.zeros(24, np.int64), 1.0))), "no pairs"
