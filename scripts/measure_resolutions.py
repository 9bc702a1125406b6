"""Measures what fewer pixels cost and save: assets/axes/NETWORK-resolutions.json, which the form shows.

python -m scripts.measure_resolutions lite0     (needs DPCL_DATA; some five minutes on one idle core)

Accuracy: of the nearest class mean by cosine, from 60 public pictures a class of CIFAR-10, along CIFAR-100's axes. Speed:
pictures a second and core, decoding included, the best of three passes.
"""

import json
import sys
import time

import numpy as np
import torch

from dpcl_core import paths
from dpcl_core.backbones import bundled, catalog, extractor
from dpcl_core.backbones.timm_models import TimmExtractor
from dpcl_core.data import load
from dpcl_core.machine import machine
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.spec import DataSpec

PER_CLASS, N_TIMED, N_PASSES = 60, 256, 3


def main(backbone: str) -> None:
    torch.set_num_threads(1)
    data = load.load_dataset(DataSpec(dataset="cifar10", train_per_class=PER_CLASS))
    along = bundled.load(backbone, "cifar100").along
    rows = {}
    for side in catalog.card(backbone).resolutions:
        train, test = (
            unit_rows(along(extractor.features(backbone, part.images, resolution=side))) for part in (data.train, data.test)
        )
        means = np.stack([train[data.train.labels == label].sum(axis=0) for label in range(len(data.classes))])
        accuracy = float(np.mean((test @ unit_rows(means).T).argmax(axis=1) == data.test.labels))
        opened, pictures = extractor.load(backbone, resolution=side), data.test.images.take(np.arange(N_TIMED))
        assert isinstance(opened, TimmExtractor)
        seconds = []
        for _ in range(N_PASSES):
            start = time.process_time()
            opened._computed(pictures, range(N_TIMED))  # type: ignore[arg-type]  # as it computes what the cache lacks
            seconds.append(time.process_time() - start)
        rows[str(side)] = {"pictures_per_second": round(N_TIMED / min(seconds), 1), "accuracy": round(accuracy, 4)}
        print(side, rows[str(side)])
    document = {"network": backbone, "date": time.strftime("%Y-%m-%d"), "machine": machine(), "resolutions": rows}
    path = paths.assets_dir() / "axes" / f"{backbone}-resolutions.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
