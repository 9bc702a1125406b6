"""Audit of PeCL as published: attacks on its noise at a run's own settings; the games are in `token_noise_games`."""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.attacks.token_noise_games import ATTACKS, Setting
from dpcl_core.attacks.token_noise_games import audited as played
from dpcl_core.methods.language.pecl_published import PublishedParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec

__all__ = ["ATTACKS", "audit", "audited", "setting"]


def audit(spec: RunSpec, trials: int) -> Sequence[Audited]:
    """The default attack at every budget of the spec: on the length of one noisy vector."""
    return audited(spec, trials, "level")


def audited(spec: RunSpec, trials: int, attack: str) -> Sequence[Audited]:
    """One of the `ATTACKS` at every budget of the spec. Args: trials: releases on each side, times the attack's `times`."""
    return [played(setting(spec, epsilon), attack, trials) for epsilon in spec.privacy.epsilons]


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise of a run in which the least noised token has nominal budget `epsilon`."""
    params = spec.params
    assert isinstance(params, PublishedParams)
    is_sentence = params.granularity == "sentence"
    return Setting(params.eps_lower, epsilon, spec.privacy.delta, params.epochs, params.length, is_sentence)
