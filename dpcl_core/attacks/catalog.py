"""Catalog of audits: which module attacks each method. Loads the module only when its audit is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from dpcl_core.errors import BadInput
from dpcl_core.events import AuditNote
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.attacks.play import Attacker, Game

TRIALS = 2000  # default number of releases on each side


@dataclass(frozen=True, slots=True)
class Audit:
    """How a method is audited: its attacks by name, the default one first.

    An attack maps settings and a number of releases on each side to one or more results for each budget. `trials`: that
    number by default, large enough for a positive lower bound. `fitting`: names the attacks that fit a run's releases, the
    default one first; None: all attacks fit. `planted`: the game of an audit in one training at a budget; None if there is
    none (`play.refusal` says why).
    """

    attacks: Mapping[str, Attacker]
    trials: int = TRIALS
    fitting: Callable[[RunSpec], tuple[str, ...]] | None = None
    planted: Callable[[RunSpec, float], Game] | None = None


def audited() -> tuple[str, ...]:
    """The methods whose card names a module with their audit."""
    return tuple(name for name, card in methods.CARDS.items() if card.audit)


def audit_of(method: str) -> Audit:
    """The audit of a method, from `AUDITS` of the module that its card names. Raises BadInput where it names none."""
    if not (module := methods.card(method).audit):
        raise BadInput("method", method, f"has no audit; audited are {', '.join(audited())}")
    return cast(Audit, import_module(module).AUDITS[method])


def names(method: str) -> tuple[str, ...]:
    """The names of a method's attacks, the default one first; empty if it has at most one."""
    attacks = tuple(audit_of(method).attacks) if methods.card(method).audit else ()
    return attacks if len(attacks) > 1 else ()


def fitting(spec: RunSpec) -> tuple[str, ...]:
    """The names of a method's attacks that fit the releases of a run with these settings."""
    select = audit_of(spec.method).fitting if methods.card(spec.method).audit else None
    return names(spec.method) if select is None else select(spec)


def auditor(method: str, attack: str | None = None) -> Attacker:
    """The attack of that name on a method, or the default one.

    Raises BadInput for a method without an audit, or without an attack of that name.
    """
    attacks = audit_of(method).attacks
    if attack is None:
        return lambda spec, trials: attacks[next(iter(fitting(spec) or attacks))](spec, trials)
    if attack not in names(method):
        named = ", ".join(names(method))
        allowed = f"must be one of {named}" if named else f"must be left out: {method} has one only"
        raise BadInput("--attack", attack, allowed)
    return attacks[attack]


def closing_notes(spec: RunSpec) -> dict[float, AuditNote]:
    """Lower bounds on a method's epsilon by requested epsilon, for the end of a run whose epsilon is nominal.

    A thousand releases on each side can prove an epsilon of up to 5.6, in well under a second.
    """
    results = auditor(spec.method)(spec, 1000)
    notes = [AuditNote(one.lower_bound, one.confidence, one.trials, one.attack, one.adversary) for one in results]
    return dict(zip(spec.privacy.epsilons, notes, strict=True))
