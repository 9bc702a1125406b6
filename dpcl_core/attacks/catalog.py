"""Catalog of audits: the attacking module of each method, and its named attacks if it has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Protocol, cast

from dpcl_core.errors import BadInput
from dpcl_core.events import AuditNote
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec

# A module contains `audit`; with several attacks, also `ATTACKS`, by name, and `audited`, which takes one of these names; if
# settings decide what is released, also `fitting`, the names of the attacks that fit these settings.
MODULES: Mapping[str, str] = {
    "cosine": "dpcl_core.attacks.cosine",
    "peft-ensemble": "dpcl_core.attacks.heads",
    "naive": "dpcl_core.attacks.heads",
    "non-cl": "dpcl_core.attacks.heads",
    "dp-agem": "dpcl_core.attacks.networks",
    "l2dp-ml": "dpcl_core.attacks.l2dp_ml",
    "dp-coeff-memory": "dpcl_core.attacks.coefficients",
    "independent-laplace": "dpcl_core.attacks.inversion_audit",
    "pecl-published": "dpcl_core.attacks.pecl_published",
    "pecl": "dpcl_core.attacks.planted_canaries",
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
TRIALS = 2000  # default number of releases on each side


class Audit(Protocol):
    """Attacks a method: one or more results for each budget of the spec, from `trials` releases on each side."""

    def __call__(self, spec: RunSpec, trials: int) -> Sequence[Audited]: ...


def names(method: str) -> tuple[str, ...]:
    """The names of a method's attacks, the default one first; empty if it has at most one."""
    return tuple(getattr(import_module(MODULES[method]), "ATTACKS", ())) if method in MODULES else ()


def fitting(spec: RunSpec) -> tuple[str, ...]:
    """The names of a method's attacks that fit the releases of a run with these settings."""
    select = getattr(import_module(MODULES[spec.method]), "fitting", None) if spec.method in MODULES else None
    return names(spec.method) if select is None else cast("tuple[str, ...]", select(spec))


def trials(method: str) -> int:
    """Default number of releases on each side of a method's audit, large enough for a positive lower bound."""
    return int(getattr(import_module(_module(method)), "TRIALS", TRIALS))


def auditor(method: str, attack: str | None = None) -> Audit:
    """The audit function of a method, for a named attack or the default one.

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


def closing_notes(spec: RunSpec) -> dict[float, AuditNote]:
    """Lower bounds on a method's epsilon by requested epsilon, for the end of a run whose epsilon is nominal.

    A thousand releases on each side can prove an epsilon of up to 5.6, in well under a second.
    """
    results = auditor(spec.method)(spec, 1000)
    notes = [AuditNote(one.lower_bound, one.confidence, one.trials, one.attack, one.adversary) for one in results]
    return dict(zip(spec.privacy.epsilons, notes, strict=True))
