"""Lists to play with: the documents hold what Python computes anew, and the browser's arithmetic is Python's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import paths
from dpcl_core.explorers import matching
from dpcl_core.explorers.matching import adjusted_rand, is_correct
from dpcl_core.lessons import modes
from dpcl_core.lessons.modes import World
from dpcl_core.lessons.noise import LENGTHS, N_BY_HAND, NOISES, positions
from tests.support import javascript

TRIAL = """
const { lists, at, labellings, noise } = fromPython;
console.log(JSON.stringify({
  placed: at.map((place) => placed(lists, place, noise)),
  pictures: lists.pictures.start.map((_, entry) => picture(lists, entry, noise)),
  indices: labellings.map(([groups, modes]) => adjustedRand(groups, modes)),
  right: countRight(lists.groups.random[0][0], lists.modes),
}));
"""


def simulated(length: int, noise: float) -> World:
    world = modes.world("exact", length, modes.N_CLIENTS, matching.DRAW)
    noised = matching.noised(world.lists, noise, np.random.default_rng(matching.DRAW))
    return replace(world, lists=noised)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_written_groups_are_those_of_the_matchers_here(length: int) -> None:
    """At one noise and number of anchors; the agreement is that of `matcher_comparison`, whatever the groups are called."""
    lists, world = matching.read(length), simulated(length, 0.1)
    assert (lists["noises"], lists["counts"]) == (list(NOISES), list(matching.COUNTS))
    assert lists["modes"] == "".join(map(str, world.modes.ravel()))
    place, level = lists["counts"].index(50), lists["noises"].index(0.1)
    wanted = matching.agreement(world.lists, world.modes, world.by_name(50), world.view, matching.DRAW)
    for name, by in lists["groups"].items():
        written = np.array(list(by[place][level]), int)
        assert adjusted_rand(written, world.modes.ravel()) == pytest.approx(wanted.pop(name)), name
        best = is_correct(written, world.modes.ravel(), modes.N_MODES, modes.N_MODES)
        assert (written == world.modes.ravel()).sum() == best.sum(), name  # no other naming of the groups puts more right
    assert not wanted


def test_axes_stay_as_anchors_change() -> None:
    """Every map lies as close to that of all anchors as turning and scaling allow: closer than any other turn or scale."""
    world = modes.world("exact", modes.LONG, modes.N_CLIENTS, matching.DRAW)
    target = positions(world, 200, 0.0)
    assert np.abs(target).max() == pytest.approx(1)
    for m in (10, 50):
        placed = positions(world, m, 0.0)
        nearest = ((placed - target) ** 2).sum()
        for turn in (0.05, -0.05):
            turned = placed @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
            assert ((turned - target) ** 2).sum() > nearest
        assert all(((scale * placed - target) ** 2).sum() > nearest for scale in (0.95, 1.05))


@javascript.NEEDED
@pytest.mark.parametrize("length", LENGTHS)
def test_the_browser_moves_draws_and_counts_as_python_does(length: int) -> None:
    """Places and pixels are written with three decimals: start and step are each off by half of the last."""
    lists, noise, at = matching.read(length), 0.37, (0, 3, 6)
    draws = np.random.default_rng(3)
    labellings = [draws.integers(0, 4, (2, 40)).tolist() for _ in range(5)]
    labellings += [[[0] * 6, [0] * 6], [[0, 1, 2], [0, 1, 2]], [[0, 0, 1, 1], [1, 1, 0, 0]], [[0, 1, 0, 1], [0, 0, 1, 1]]]
    request = {"lists": lists, "at": at, "labellings": labellings, "noise": noise}
    script = (paths.assets_dir() / "anchors" / "play.mjs").read_text(encoding="utf-8")
    found = javascript.run(script, TRIAL, sent=request)
    clean, noised = modes.world("exact", length, modes.N_CLIENTS, matching.DRAW), simulated(length, noise)
    for place, points in zip(at, found["placed"], strict=True):
        wanted = positions(clean, lists["counts"][place], noise)
        np.testing.assert_allclose(points, wanted, atol=0.0005 * (1 + noise) + 1e-9)
    by_hand = noised.lists.means[: N_BY_HAND].reshape(-1, length)
    for grey, mean in zip(found["pictures"], by_hand, strict=True):
        drawn = modes.pixels(mean)
        np.testing.assert_allclose(grey, modes.picture(mean).ravel(), atol=0.002 / drawn.max())
    wanted_indices = [adjusted_rand(np.array(groups), np.array(truth)) for groups, truth in labellings]
    np.testing.assert_allclose(found["indices"], wanted_indices, atol=1e-12)
    assert found["right"] == sum(a == b for a, b in zip(lists["groups"]["random"][0][0], lists["modes"], strict=True))
