"""The simulator's view: maps that public points fix, entries without rows left out, noise as wide as it is."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.events import from_json, to_json
from dpcl_core.explorers import projection_maps
from dpcl_core.explorers.matching import CENTRED
from dpcl_core.lessons import modes
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Signature
from dpcl_core.spec import Cell

CELL = Cell(4.0, 13)


@pytest.fixture(scope="module")
def world() -> modes.World:
    return modes.world("exact", modes.SHORT, draw=1)


@pytest.fixture(scope="module")
def maps(world: modes.World) -> projection_maps.ProjectionMaps:
    return projection_maps.ProjectionMaps.of(
        world.public, Signature(world.anchors[:50], "shared-spherical", "centred", world.view.covariance)
    )


def test_maps_are_fixed_by_public_points_and_hold_what_they_say(
    world: modes.World, maps: projection_maps.ProjectionMaps
) -> None:
    away = world.public[:500] - world.public[:500].mean(axis=0)
    wanted = np.linalg.eigvalsh(away.T @ away)[::-1][:2]
    assert ((maps.means(world.public[:500])) ** 2).sum(axis=0) == pytest.approx(wanted)
    assert maps.mean_axes.T @ maps.mean_axes == pytest.approx(np.eye(2), abs=1e-12)
    means = world.lists.means.reshape(-1, modes.SHORT)
    held = maps.means(means).var(axis=0).sum() / means.var(axis=0).sum()
    assert maps.shown(world.lists)[0] == pytest.approx(held, rel=1e-3)
    assert 0 < maps.shown(world.lists)[1] <= 1


def test_an_event_has_every_entry_with_rows_and_survives_json(
    world: modes.World, maps: projection_maps.ProjectionMaps
) -> None:
    matched = modes.server_side(world, CENTRED, 50, 0.1, 1)
    weights = matched.lists.weights.copy()
    weights[3, 2] = 0.0
    matched = replace(matched, lists=replace(matched.lists, weights=weights))
    said = projection_maps.signatures(CELL, 1, 7, matched, maps)
    assert len(said.entries.client) == 4 * 20 - 1
    assert said.entries.client.count(3) == 3
    assert from_json(json.loads(json.dumps(to_json(said), allow_nan=False))) == said
    assert (said.task, said.round, said.matcher, said.mode_names) == (1, 7, CENTRED, world.names)
    margins = matchers.margins(matched.features, matched.prototype_features)
    assert said.entries.margin[0] == pytest.approx(margins[0, 0], rel=1e-3)
    assert said.entries.mean[0] == pytest.approx(maps.means(matched.lists.means[0, 0]), rel=1e-3, abs=1e-4)


def test_regret_is_the_share_that_the_next_best_assignment_costs_more(
    world: modes.World, maps: projection_maps.ProjectionMaps
) -> None:
    matched = modes.server_side(world, CENTRED, 50, 0.1, 1)
    said = projection_maps.signatures(CELL, 0, 0, matched, maps)
    costs = ((matched.features[0][:, None] - matched.prototype_features) ** 2).sum(axis=2)
    from itertools import permutations

    totals = {order: sum(costs[row, column] for row, column in enumerate(order)) for order in permutations(range(4))}
    best = min(totals, key=totals.__getitem__)
    assert best == tuple(matched.ids[0])
    for row in range(4):
        barred = min(total for order, total in totals.items() if order[row] != best[row])
        assert said.entries.regret[row] == pytest.approx((barred - totals[best]) / totals[best], rel=1e-3)
    loose = projection_maps.signatures(CELL, 0, 0, replace(matched, is_one_to_one=False), maps)
    assert set(loose.entries.regret) == {None}


def test_noise_on_a_prototype_is_as_wide_on_the_map_as_on_a_coordinate(
    world: modes.World, maps: projection_maps.ProjectionMaps
) -> None:
    matched = modes.client_side(world, CENTRED, 50, 4.0, 1, 1)
    said = projection_maps.signatures(CELL, 0, 1, replace(matched, noise_axes=None), maps).prototypes
    std = modes.std_of_released(world, 4.0)
    for xx, xy, yy in said.mean_spread:
        assert xx == pytest.approx(std**2, rel=1e-3)
        assert yy == pytest.approx(std**2, rel=1e-3)
        assert abs(xy) < 1e-6 * std**2
    clean = projection_maps.signatures(CELL, 0, 0, modes.client_side(world, CENTRED, 50, math.inf, 1, 1), maps).prototypes
    assert {spread for each in (clean.mean_spread, clean.signature_spread) for spread in each} == {(0.0, 0.0, 0.0)}


def test_noise_of_a_linear_map_is_as_wide_as_when_it_is_drawn(
    world: modes.World, maps: projection_maps.ProjectionMaps
) -> None:
    """The variance of 256 draws is off by 60 % with probability below 1e-9."""
    matched = modes.client_side(world, CENTRED, 50, 4.0, 1, 1)
    rows = np.random.default_rng(1).standard_normal((256, len(matched.prototypes), modes.SHORT))
    assert matched.noise_axes is not None
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
