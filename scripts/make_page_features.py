"""Makes the public features that a page trains on without a network: assets/features/NAME/train.npz and test.npz.

python -m scripts.make_page_features photos news     (needs DPCL_DATA, and the networks lite0 and MiniLM)

Every example's features are a function of that example alone; which examples are taken, public coins of their own bytes say.
Photographs are features of lite0 along its axes from CIFAR-10, which has no picture in common with CIFAR-100; the first axes
tell most. Numbers are kept in half precision, within [-1, 1].
"""

import sys

import numpy as np

from dpcl_core import paths
from dpcl_core.backbones import bundled, extractor
from dpcl_core.data import load
from dpcl_core.data.dataset import Split
from dpcl_core.spec import DataSpec

_EVERY = 5  # one class in five of CIFAR-100: twenty of them
_AXES = 96
_SPAN = 4.0  # times the usual size of a number along an axis: what is larger is cut off
_SETS = {
    "photos": ("photo_features", DataSpec(dataset="cifar100", backbone="lite0", train_per_class=240, test_per_class=50)),
    "news": ("news_features", DataSpec(dataset="ag_news", backbone="minilm", train_per_class=600, test_per_class=150)),
}


def main(*names: str) -> None:
    for name in names or _SETS:
        folder, data = _SETS[name]
        dataset = load.load_dataset(data)
        place = paths.assets_dir() / "features" / folder
        place.mkdir(parents=True, exist_ok=True)
        for part, split in (("train", dataset.train), ("test", dataset.test)):
            rows = np.flatnonzero(split.labels % _EVERY == 0) if name == "photos" else np.arange(len(split))
            embeddings = _features(name, data, split, rows).astype(np.float16)
            labels = np.array([dataset.classes[label] for label in split.labels[rows]])
            np.savez_compressed(place / f"{part}.npz", embeddings=embeddings, labels=labels)
            size = (place / f"{part}.npz").stat().st_size
            print(f"{folder}/{part}.npz: {len(rows)} rows of {embeddings.shape[1]} numbers, {size:,} bytes")


def _features(name: str, data: DataSpec, split: Split, rows: np.ndarray) -> np.ndarray:
    found = extractor.features(data.backbone, split.images.take(rows))
    if name == "photos":
        found = bundled.load("lite0", "cifar10").first(_AXES).along(found) / _SPAN
    return np.clip(found, -1, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
