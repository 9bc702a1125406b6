"""Audit of L2DP-ML: attacks on noise of a run's own scale. The games are in `l2dp_games`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcl_core.attacks.l2dp_games import ATTACKS, Setting
from dpcl_core.attacks.l2dp_games import audited as played
from dpcl_core.data import catalog as datasets
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.dpsgd import of_spec
from dpcl_core.methods.lifelong import claim
from dpcl_core.methods.lifelong.l2dp_ml import L2dpMlParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec

__all__ = ["ATTACKS", "audit", "audited", "setting"]


def audit(spec: RunSpec, trials: int) -> Sequence[Audited]:
    """The default attack at every budget of the spec: differencing the memory."""
    return audited(spec, trials, "differencing")


def audited(spec: RunSpec, trials: int, attack: str) -> Sequence[Audited]:
    """One of the `ATTACKS` at every budget of the spec. Args: trials: releases on each side, at most the attack's `most`."""
    return [played(setting(spec, epsilon), attack, trials, spec.privacy.delta) for epsilon in spec.privacy.epsilons]


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise of a run at a budget, from public settings alone.

    The budget's split depends on the norm of the initial weights; this uses one draw, and the run's own differs a little.
    Examples whose shape is known only from their files count as 32x32 in colour.
    """
    params, form = spec.params, Form(datasets.card(spec.data.dataset).shape or (32, 32, 3), 0.0, 1.0)
    assert isinstance(params, L2dpMlParams)
    facts = of_spec(spec)
    n_mean = params.batch_size if params.algorithm == "batches" else int(facts.task_size)
    sizes = claim.sizes(form, facts.n_classes)
    norm = first_norm(sizes, form.planes[2], params.theta_norm)
    plan = claim.plan(sizes, params.delta_r, n_mean, epsilon, params.encoder_share, norm)
    return Setting(epsilon, params.encoder_share, plan.input_scale, plan.scale2)


def first_norm(sizes: claim.Sizes, n_channels: int, rule: claim.ThetaNorm) -> float:
    """‖θ1‖ of one draw of an encoder's initial weights: normal, of variance 2 / (inputs of a unit)."""
    width = round((sizes.n_patch / n_channels) ** 0.5)
    shape = (sizes.n_hidden // sizes.n_positions, n_channels, width, width)
    return claim.theta_norm(np.random.default_rng(0).normal(0, (2 / sizes.n_patch) ** 0.5, shape), rule)
