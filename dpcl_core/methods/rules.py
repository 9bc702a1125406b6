"""The prediction rules of kept classifiers by name: each a function in its family's `rules` module, loaded when used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import unknown
from dpcl_core.methods.common.classifier import Step

RULES: Mapping[str, str] = {
    "cosine": "features",
    "heads": "features",
    "adapters": "features",
    "readout": "lifelong",
    "network": "lifelong",
    "federated-head": "federated",
    "nearest-mean": "federated",
    "mixed-prototypes": "federated",
    "language": "language",
}


class Scores(Protocol):
    """Scores [n, competing] of inputs [n, ...] by a classifier: the last step, preceded by those that belong to it."""

    def __call__(self, steps: Sequence[Step], inputs: NDArray[np.generic]) -> NDArray[np.floating]: ...


def rule(name: str) -> Scores:
    """The rule of this name. Raises BadInput for another."""
    if name not in RULES:
        raise unknown("rule", name, RULES)
    module = import_module(f"dpcl_core.methods.{RULES[name]}.rules")
    return cast(Scores, getattr(module, name.replace("-", "_")))
