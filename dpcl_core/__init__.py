"""Differentially private continual learning: the engine behind the app, the command line and notebooks.

import dpcl_core as dpcl

result = dpcl.run("digits-cosine", epsilons=[1.0])
result.figure("accuracy").figure
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dpcl_core.version import __version__ as __version__

if TYPE_CHECKING:
    from dpcl_core.api import account, audit, budget, check, load, preset, run, sweep, to_onnx
    from dpcl_core.backbones.own_networks import register_network
    from dpcl_core.errors import BadInput, RunFailed
    from dpcl_core.estimators import DPCosineClassifier, DPHeadEnsemble
    from dpcl_core.results import Result
    from dpcl_core.spec import RunSpec

__all__ = [
    "BadInput", "DPCosineClassifier", "DPHeadEnsemble", "Result", "RunFailed", "RunSpec", "account", "audit", "budget",
    "check", "load", "preset", "register_network", "run", "sweep", "to_onnx",
]  # fmt: skip
_PLACES = {
    "BadInput": "errors", "DPCosineClassifier": "estimators", "DPHeadEnsemble": "estimators", "Result": "results",
    "RunFailed": "errors", "RunSpec": "spec",
    "register_network": "backbones.own_networks",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Loads a public name on first use: a worker or the command line needs few of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    """The public names: they are what a notebook completes, though none is loaded yet."""
    return [*__all__, "__version__"]
