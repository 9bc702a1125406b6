"""Makes the public axes of a network from a public dataset's training pictures: assets/axes/NETWORK-DATASET.safetensors.

python -m scripts.make_axes lite0 cifar100     (needs DPCL_DATA; features are computed once, some ten minutes)

Axis i is the i-th principal direction of the public features, multiplied by its variance to the power -1/4: between plain
coordinates, in which a few directions drown all others, and whitened ones, in which the last directions are mostly noise. On
CIFAR-10's axes this came out best or next to best for every budget from 0.5 to infinity. A common factor gives public rows
a mean square of 1 on each axis, on average.
"""

import sys

import numpy as np
from safetensors.numpy import save_file

from dpcl_core import paths
from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.spec import DataSpec

N_AXES = 640  # more told nothing more at any budget that was tried


def main(backbone: str, dataset: str) -> None:
    pictures = load.load_dataset(DataSpec(dataset=dataset)).train.images
    features = extractor.features(backbone, pictures).astype(np.float64)
    centre = features.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov((features - centre).T))
    first = np.argsort(variances)[::-1][:N_AXES]
    scaled = directions[:, first] * variances[first] ** -0.25
    scaled *= np.sign(scaled[np.abs(scaled).argmax(axis=0), np.arange(N_AXES)])  # a direction's sign is arbitrary
    scaled /= np.sqrt(np.mean(((features - centre) @ scaled) ** 2))
    path = paths.assets_dir() / "axes" / f"{backbone}-{dataset}.safetensors"
    path.parent.mkdir(exist_ok=True)
    metadata = {"network": backbone, "pictures": f"{len(features)} of {dataset}", "made_by": "scripts/make_axes.py"}
    # Half precision is exact enough for constants. The format writes memory as it lies: arrays must be in C order.
    axes = {"centre": centre.astype(np.float32, order="C"), "directions": scaled.astype(np.float16, order="C")}
    save_file(axes, path, metadata)
    path.chmod(0o644)  # safetensors keeps its files from other users
    kept = variances[first].sum() / variances.sum()
    print(f"{path}: {len(features)} pictures, {N_AXES} axes, {kept:.1%} of the variance")


if __name__ == "__main__":
    main(*sys.argv[1:])
