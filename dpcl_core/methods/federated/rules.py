"""How the releases of this family classify without their learners; the arithmetic is the learners' own."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.classifier import PUBLIC, Step
from dpcl_core.methods.federated.client_release import features
from dpcl_core.methods.federated.client_training import Head
from dpcl_core.methods.federated.lists import Floats, Reals
from dpcl_core.privacy.sums import unit_rows


def federated_head(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Reals:
    """Logits [n, competing] of a head on embeddings [n, d], on public axes where the step has some."""
    last = steps[-1]
    z = _along_axes(last, features(inputs)) if f"{PUBLIC}axes" in last.arrays else features(inputs)
    (params,) = (one for name, one in last.arrays.items() if not name.startswith(PUBLIC))
    skipped = int(last.facts.get("n_skipped", 0))
    head = Head(z.shape[1], len(last.classes) + skipped, int(last.facts["n_hidden"]))
    return last.chosen(head.logits(np.asarray(params, np.float32), z)[:, skipped:])


def nearest_mean(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Reals:
    """Minus half the squared distance [n, competing] to a label's mean along public axes, the nearest of all steps'."""
    last = steps[-1]
    z = _along_axes(last, features(inputs))
    nearness = np.full((len(z), len(last.competing)), -np.inf)
    for step in steps:
        means = step.real("shrunk" if "shrunk" in step.arrays else "means")
        for mean, name in zip(_along_axes(last, means), step.classes, strict=True):
            if name in last.competing:
                place = last.competing.index(name)
                nearness[:, place] = np.maximum(nearness[:, place], -((z - mean) ** 2).sum(axis=1) / 2)
    return nearness


def mixed_prototypes(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Reals:
    """Cosines [n, competing] of features to prototypes, after the anchor of the nearest key was mixed in."""
    last, z = steps[-1], features(inputs).astype(np.float64)
    keys, prototypes, anchors = (last.chosen(last.real(name).T).T for name in ("keys", "prototypes", "anchors"))
    nearest = (z @ keys.T).argmax(axis=1)
    return unit_rows(z + float(last.facts["mixing"]) * anchors[nearest]) @ prototypes.T


def _along_axes(step: Step, rows: Reals) -> Floats:
    """Coordinates [n, axes] on the public axes of rows [n, d]."""
    along: Floats = (rows - step.real(f"{PUBLIC}centre")) @ step.real(f"{PUBLIC}axes")
    return along
