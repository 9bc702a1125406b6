"""Makes assets/anchors/lists-*.json: simulated clients' lists as documents for the browser, which moves and matches them.

    python scripts/make_anchors.py

Public digits and noise from an ordinary generator, one draw for every level: entries move along straight lines as noise
grows, so that the browser computes every place from two points. Groups are found here, on a grid of noise and anchors,
since optimal transport takes a fifth of a second. It takes a quarter of a minute for each length of vector.
"""

import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from dpcl_core.explorers import matching, projection_maps
from dpcl_core.lessons import modes
from dpcl_core.methods.federated.lists import Lists, Signature

NOISES = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.4)  # std on a coordinate; at 0.4 all is chance
LENGTHS = (modes.SHORT, modes.LONG)
N_BY_HAND = 6  # lists to match by hand
_DIGITS = 3  # decimals of a place and of a pixel: a tenth of a pixel on the screen


def document(length: int) -> dict[str, object]:
    """What the browser needs. Entries are listed client by client.

    `modes`: each entry's true mode, one character; `places`: by number of anchors, [x, y] without noise and the step per
    unit of noise; `groups`: by matcher, number of anchors and noise, each entry's group, named after its mode;
    `pictures`: pixels [64] and their step of the entries to match by hand.
    """
    world = modes.world("exact", length, modes.N_CLIENTS, matching.DRAW)
    by_noise = {noise: list(groups(world, noise)) for noise in NOISES}
    clean, noised = (modes.pixels(_lists(world, noise).means[:N_BY_HAND]).reshape(-1, 64) for noise in (0.0, 1.0))
    return {
        "length": length, "n_modes": modes.N_MODES, "noises": list(NOISES), "counts": list(matching.COUNTS),
        "names": list(world.names), "modes": _as_text(world.modes.ravel()),
        "places": [_lines(positions(world, m, 0.0), positions(world, m, 1.0)) for m in matching.COUNTS],
        "groups": {
            name: [[_as_text(by_noise[noise][place][name]) for noise in NOISES] for place in range(len(matching.COUNTS))]
            for name in world.by_name(matching.COUNTS[0])
        },
        "pictures": _lines(clean, noised),
    }  # fmt: skip


def positions(world: modes.World, m: int, noise: float) -> NDArray[np.float64]:
    """Places [n L, 2] of the entries' signatures by the first m anchors, on the map of all anchors.

    Two principal axes of the modes without noise, then turned and scaled to lie closest to the map of all anchors
    (Procrustes), where the farthest entry without noise is at 1: so the axes stay when noise or anchors change.
    """
    clean, moved = (_on_own_axes(world, m, level) for level in (0.0, noise))
    target = _on_own_axes(world, matching.COUNTS[-1], 0.0)
    target = (target - target.mean(axis=0)) / np.abs(target - target.mean(axis=0)).max()
    middle = clean.mean(axis=0)
    turn, overlap = orthogonal_procrustes(clean - middle, target)
    placed: NDArray[np.float64] = (moved - middle) @ turn * (overlap / ((clean - middle) ** 2).sum())
    return placed


def groups(world: modes.World, noise: float) -> Iterator[dict[str, NDArray[np.int64]]]:
    """For every number of anchors, each matcher's groups [n L] of the lists with this noise, named after their modes."""
    lists, truth = _lists(world, noise), world.modes.ravel()
    without_anchors: dict[str, NDArray[np.int64]] = {}
    for m in matching.COUNTS:
        found = dict(without_anchors)
        for name, matcher in world.by_name(m).items():
            if name in found:
                continue
            _, pooled = matching.grouped(lists, matcher, modes.N_MODES, world.view, np.random.default_rng(matching.DRAW))
            ids = pooled.ids.ravel()
            found[name] = matching.group_modes(ids, truth, modes.N_MODES, modes.N_MODES)[ids]
            if not isinstance(matcher.features, Signature):
                without_anchors[name] = found[name]
        yield found


def _lists(world: modes.World, noise: float) -> Lists:
    return matching.noised(world.lists, noise, np.random.default_rng(matching.DRAW)) if noise else world.lists


def _on_own_axes(world: modes.World, m: int, noise: float) -> NDArray[np.float64]:
    maps, lists = projection_maps.ProjectionMaps.of(modes.by_place(world)[1], world.signature(m)), _lists(world, noise)
    return maps.signatures(lists.means, lists.covariances).reshape(-1, 2)


def _lines(start: NDArray[np.float64], end: NDArray[np.float64]) -> dict[str, list[list[float]]]:
    return {"start": start.round(_DIGITS).tolist(), "step": (end - start).round(_DIGITS).tolist()}


def _as_text(ids: NDArray[np.int64]) -> str:
    return "".join(map(str, ids.tolist()))


if __name__ == "__main__":
    for length in LENGTHS:
        written = json.dumps(document(length), separators=(",", ":"))
        matching.path(length).write_text(written + "\n", encoding="utf-8")
