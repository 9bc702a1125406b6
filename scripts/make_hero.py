"""Makes assets/hero: what the page Start shows before anything else has loaded.

    python -m scripts.make_hero

digits.json is the public teaching digits for "take one person out": it holds pictures, class sums without noise, and seeded
noise. doors.json has the small pictures on the three doors: a curve, a scored sentence, and matched lists.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from dpcl_core import paths
from dpcl_core.backbones import cache
from dpcl_core.data import load
from dpcl_core.data.texts import Texts
from dpcl_core.elements import budget_source
from dpcl_core.explorers import one_person, scored_texts, token_layers
from dpcl_core.explorers.token_layers import Dials
from dpcl_core.lessons import modes, surprise
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell, DataSpec

DELTA = 1e-5
DATA = DataSpec(dataset="digits", test_per_class=30)
SHOWN = (2, 0, 3, 4, 8, 6)  # the classes of the people to choose from: the first training picture of each
SENTENCE = "Anna Miller from Reykjavik wrote about her asthma and the weather in Paris."
N_ANCHORS, NOISE = 50, 0.1


def digits() -> dict[str, Any]:
    """The document of `one_person.encode`, with the people in `SHOWN`."""
    dataset = load.load(DATA)
    train, test = ((cache.features("pixels", part.images), part.labels) for part in (dataset.train, dataset.test))
    people = np.array([np.flatnonzero(train[1] == label)[0] for label in SHOWN])
    noise = SeededNoise(Cell(math.inf, 0), "take one person out")
    return one_person.encode(one_person.prepare(train, test, people, DELTA, noise))


def curve() -> list[list[float]]:
    """[ε, mean accuracy over seeds] of the digits in five tasks, at the finite stops of the Playground's slider."""
    source = budget_source.digits("prior-const", 5)
    finite = [stop for stop in source.stops if math.isfinite(stop)]
    return [[epsilon, round(float(np.mean(source.finals[epsilon])), 4)] for epsilon in finite]


def words() -> list[list[str | int | float]]:
    """[word, shade 0 to 4, score] of the sentence, by the bundled model; a word has the score of its highest piece."""
    text = scored_texts.scored(Texts([SENTENCE]), surprise.texts().score2)[0]
    scores = token_layers.scores(text, Dials())
    shades = token_layers.shades("score", scores, Dials())
    found: list[list[str | int | float]] = []
    for token, shade, score in zip(text.tokens, shades.tolist(), scores.tolist(), strict=True):
        if not found or token.startswith(" "):
            found.append([token.strip(), int(shade), round(float(score), 2)])
        else:
            word, darkest, highest = found[-1]
            found[-1] = [f"{word}{token}", max(int(darkest), int(shade)), max(float(highest), round(float(score), 2))]
    return found


def clients() -> list[list[float | int | bool]]:
    """[x, y, group, is right] of every entry of twenty clients' lists, on the two main axes of the entries."""
    world = modes.world()
    matched = modes.server_side(world, "anchors, centred", N_ANCHORS, NOISE)
    means = world.lists.means.reshape(-1, world.lists.means.shape[2])
    centred = means - means.mean(axis=0)
    points = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    points = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    groups, truth = matched.ids.ravel(), world.modes.ravel()
    usual = [np.bincount(truth[groups == group], minlength=modes.N_MODES).argmax() for group in range(modes.N_MODES)]
    return [
        [round(float(x), 3), round(float(y), 3), int(group), bool(usual[group] == mode)]
        for (x, y), group, mode in zip(points, groups, truth, strict=True)
    ]


def main() -> None:
    """Writes both files."""
    doors = {"digits": curve(), "words": words(), "clients": clients()}
    for name, content in {"digits": digits(), "doors": doors}.items():
        path = paths.assets_dir() / "hero" / f"{name}.json"
        path.write_text(json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
