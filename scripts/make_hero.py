"""Makes assets/hero/digits.json, what the page Start shows before anything else has loaded.

    python -m scripts.make_hero

It holds the public teaching digits: pictures, class sums without noise, and the seed of the noise.
"""

import json
from typing import Any

from dpcl_core import paths
from dpcl_core.backbones import extractor
from dpcl_core.data import load
from scripts import one_person
from scripts.make_playground import DATA, DELTA

SEED, N_DRAWS, YOU = 2026, 5, 2


def digits() -> dict[str, Any]:
    """The document of `one_person.encode`."""
    dataset = load.load_dataset(DATA)
    train, test = ((extractor.features("pixels", part.images), part.labels) for part in (dataset.train, dataset.test))
    return one_person.encode(one_person.prepare(train, test, delta=DELTA, seed=SEED, n_draws=N_DRAWS, you=YOU))


def main() -> None:
    """Writes the file."""
    path = paths.assets_dir() / "hero" / "digits.json"
    path.write_text(json.dumps(digits(), separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
