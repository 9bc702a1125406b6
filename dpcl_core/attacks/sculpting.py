"""Audit of the repaired PeCL: on its learner, like its baselines, or on all steps through the mechanisms alone."""

from __future__ import annotations

from dpcl_core.attacks import pecl, texts
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.spec import RunSpec

ATTACKS = ("learner", "life")
TRIALS = texts.TRIALS


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """The first of the `ATTACKS`. Args: trials: texts on each side."""
    return audited(spec, trials, ATTACKS[0])


def audited(spec: RunSpec, trials: int, attack: str) -> list[Audited]:
    """One of the `ATTACKS`: on the learner itself, or ("life") on all steps and mean scores through its mechanisms."""
    return texts.audit(spec, trials) if attack == "learner" else pecl.audit(spec, trials)
