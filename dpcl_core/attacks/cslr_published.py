"""Audit of CSLR as published: attacks at a run's own settings; the games are in `cslr_games`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcl_core.attacks.cslr_games import ATTACKS, Rule, Setting
from dpcl_core.attacks.cslr_games import audited as played
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.cslr_published import CslrPublishedParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.cslr_accounting import printed_multiplier
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

__all__ = ["ATTACKS", "audit", "audited", "fitting", "setting"]


def audit(spec: RunSpec, trials: int) -> Sequence[Audited]:
    """The default attack at every budget of the spec: on the noise over all rounds, or on lists that clients noise."""
    return audited(spec, trials, "lists" if _params(spec).noisy_lists else "rounds")


def audited(spec: RunSpec, trials: int, attack: str) -> Sequence[Audited]:
    """One of the `ATTACKS` at every budget of the spec. Args: trials: releases on each side, times the attack's `times`.

    Raises BadInput for an attack on a release that these settings do not make.
    """
    if attack not in fitting(spec):
        is_noisy = "true" if _params(spec).noisy_lists else "false"
        allowed = f"must be one of {', '.join(fitting(spec))} with params.noisy_lists = {is_noisy}"
        raise BadInput("--attack", attack, allowed)
    return [played(setting(spec, epsilon), attack, trials) for epsilon in spec.privacy.epsilons]


def fitting(spec: RunSpec) -> tuple[str, ...]:
    """The attacks that fit the run's releases: with noisy lists, clients release only these and the head."""
    return ("lists", "head") if _params(spec).noisy_lists else ("rounds", "pooled", "head")


def _params(spec: RunSpec) -> CslrPublishedParams:
    assert isinstance(spec.params, CslrPublishedParams)
    return spec.params


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise and the rounds of a run at a claimed budget; no noise at infinity."""
    params = _params(spec)
    dataset = datasets.facts_of(spec.data)
    n_tasks = scenarios.check(spec.scenario, dataset.n_classes, dataset.sources)
    n_of_client = n_tasks if spec.scenario.recurrence == "every" else 1
    # Transport decides like an assignment here, but is a hundred times slower; a random order is no clustering.
    rule: Rule = "nearest" if params.rule == "nearest" and params.matcher != "random" else "hungarian"
    return Setting(
        claimed=epsilon,
        noise_multiplier=printed_multiplier(epsilon) if math.isfinite(epsilon) else 0.0,
        n_rounds=n_of_client * params.rounds,
        sample_rate=params.participation,
        delta=spec.privacy.delta,
        rule=rule,
        n_groups=params.modes_per_task,
        list_size=params.list_size if params.noisy_lists else 0,
    )
