"""The audit of CSLR as published: attacks at a run's own settings; the games are in `cslr.attacks`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcl_core.data import catalog as datasets
from dpcl_core.methods.cards.cslr_published import CslrPublishedParams
from dpcl_core.methods.cslr.attacks import ATTACKS, Rule, Setting
from dpcl_core.methods.cslr.attacks import audited as played
from dpcl_core.privacy.audit import Audited
from dpcl_core.privacy.cslr_accounting import printed_multiplier
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

__all__ = ["ATTACKS", "audit", "audited", "setting"]


def audit(spec: RunSpec, trials: int) -> Sequence[Audited]:
    """The noise over all rounds, at every budget of the spec: what a run is audited with."""
    return audited(spec, trials, "rounds")


def audited(spec: RunSpec, trials: int, attack: str) -> Sequence[Audited]:
    """One of the `ATTACKS` at every budget of the spec. Args: trials: releases on each side, times the attack's `times`."""
    return [played(setting(spec, epsilon), attack, trials) for epsilon in spec.privacy.epsilons]


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise and the rounds of a run at a claimed budget; no noise at infinity."""
    params = spec.params
    assert isinstance(params, CslrPublishedParams)
    found = datasets.facts(spec.data.dataset, spec.data.train_per_class, spec.data.test_per_class)
    n_tasks = scenarios.check(spec.scenario, found.n_classes, found.sources)
    lives = n_tasks if spec.scenario.recurrence == "every" else 1
    # Transport decides like an assignment here, a hundred times as slowly; a random order is no clustering.
    rule: Rule = "nearest" if params.rule == "nearest" and params.matcher != "random" else "hungarian"
    return Setting(
        claimed=epsilon,
        noise_multiplier=printed_multiplier(epsilon) if math.isfinite(epsilon) else 0.0,
        n_rounds=lives * params.rounds,
        sample_rate=params.participation,
        delta=spec.privacy.delta,
        rule=rule,
        n_groups=params.modes_per_task,
    )
