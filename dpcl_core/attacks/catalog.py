"""The audits by method: which module attacks it, and by which named attacks where there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Protocol, cast

from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.spec import RunSpec

# A module holds `audit`; with several attacks, also `ATTACKS`, by name, and `audited`, which takes one of these names; where
# settings decide what is released, also `fitting`, the names of those that attack it.
MODULES: Mapping[str, str] = {
    "cosine": "dpcl_core.attacks.cosine",
    "peft-ensemble": "dpcl_core.attacks.heads",
    "naive": "dpcl_core.attacks.heads",
    "non-cl": "dpcl_core.attacks.heads",
    "dp-agem": "dpcl_core.attacks.networks",
    "l2dp-ml": "dpcl_core.attacks.l2dp_ml",
    "dp-coeff-memory": "dpcl_core.attacks.coefficients",
    "independent-laplace": "dpcl_core.attacks.records",
    "pecl-published": "dpcl_core.attacks.pecl_published",
    "pecl": "dpcl_core.attacks.sculpting",
    **dict.fromkeys(("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl"), "dpcl_core.attacks.texts"),
    "cslr-published": "dpcl_core.attacks.cslr_published",
    "cslr-server-head": "dpcl_core.attacks.clients",
    "cslr-central": "dpcl_core.attacks.clients",
    "dp-stat-share": "dpcl_core.attacks.clients",
    "label-means": "dpcl_core.attacks.clients",
    "local-list": "dpcl_core.attacks.clients",
    "dp-fedavg": "dpcl_core.attacks.rounds",
    "fedcil-dp": "dpcl_core.attacks.rounds",
}
TRIALS = 2000  # releases on each side, where an attack does not say how many it needs


class Audit(Protocol):
    """How a method is attacked: one result or more for each budget of the spec; `trials` releases on each side."""

    def __call__(self, spec: RunSpec, trials: int) -> Sequence[Audited]: ...


def names(method: str) -> tuple[str, ...]:
    """The names of a method's attacks where there are several, the one that runs are audited with first; else empty."""
    return tuple(getattr(import_module(MODULES[method]), "ATTACKS", ())) if method in MODULES else ()


def fitting(spec: RunSpec) -> tuple[str, ...]:
    """Those of a method's attacks that fit what a run with these settings releases."""
    found = getattr(import_module(MODULES[spec.method]), "fitting", None) if spec.method in MODULES else None
    return names(spec.method) if found is None else cast("tuple[str, ...]", found(spec))


def trials(method: str) -> int:
    """How many releases on each side a method's audit takes where nobody says how many: so many that it proves something."""
    return int(getattr(import_module(_module(method)), "TRIALS", TRIALS))


def auditor(method: str, attack: str | None = None) -> Audit:
    """The function that attacks a method, by a named attack where it has several.

    Raises BadInput for a method without an audit, or without an attack of that name.
    """
    module = import_module(_module(method))
    if attack is None:
        return cast(Audit, module.audit)
    if attack not in names(method):
        named = ", ".join(names(method))
        allowed = f"must be one of {named}" if named else f"must be left out: {method} has one only"
        raise BadInput("--attack", attack, allowed)
    return partial(module.audited, attack=attack)


def _module(method: str) -> str:
    methods.card(method)
    if method not in MODULES:
        raise BadInput("method", method, f"has no audit; audited are {', '.join(MODULES)}")
    return MODULES[method]
