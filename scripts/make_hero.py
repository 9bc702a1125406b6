"""Makes what the page Start shows before anything else has loaded.

    python -m scripts.make_hero

assets/hero/digits.json is the public teaching digits for "take one person out": pictures, class sums without noise, and
seeded noise. assets/doors/doors.json has the curve on the first door, and what the second one shades a sentence by.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from dpcl_core import paths
from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.elements import calculator, element
from dpcl_core.explorers.tokens import Dials, edges
from dpcl_core.lessons import modes
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell
from scripts import one_person
from scripts.make_playground import DATA, DELTA

SHOWN = (2, 0, 3, 4, 8, 6)  # the classes of the people to choose from: the first training picture of each


def digits() -> dict[str, Any]:
    """The document of `one_person.encode`, with the people in `SHOWN`."""
    dataset = load.load_dataset(DATA)
    train, test = ((extractor.features("pixels", part.images), part.labels) for part in (dataset.train, dataset.test))
    people = np.array([np.flatnonzero(train[1] == label)[0] for label in SHOWN])
    noise = SeededNoise(Cell(math.inf, 0), "take one person out")
    return one_person.encode(one_person.prepare(train, test, people, DELTA, noise))


def curve() -> list[list[float]]:
    """[ε, mean accuracy over seeds] of the digits in five tasks, at the finite stops of the Playground's slider."""
    source = calculator.digits("prior-const", 5)
    finite = [stop for stop in source.stops if math.isfinite(stop)]
    return [[epsilon, round(float(np.mean(source.finals[epsilon])), 4)] for epsilon in finite]


def words() -> dict[str, Any]:
    """What shades a typed sentence: how common each token is (Score2, base64 of float64), settings, edges of the shades.

    Kept here because computing it needs libraries that Start must not wait for.
    """
    dials, score2 = Dials(), np.asarray(modes.texts().score2, np.float64)
    return {
        "commonness": base64.b64encode(score2.tobytes()).decode("ascii"), "dials": asdict(dials),
        "layer": element.FIRST, "edges": list(edges(element.FIRST, dials)),
    }  # fmt: skip


def main() -> None:
    """Writes both files."""
    for name, content in {"hero/digits": digits(), "doors/doors": {"digits": curve(), "words": words()}}.items():
        path = paths.assets_dir() / f"{name}.json"
        path.write_text(json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
