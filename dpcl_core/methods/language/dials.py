"""Settings that determine a token's score and noise, of a run or as published; pages let a visitor change them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.cards.network_params import LanguageParams, Loss
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.methods.language.cards.sculpting_params import SculptingParams
from dpcl_core.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Dials:
    """Settings of the score, of the noise and of the loss; the defaults are the published values.

    `lower`, `upper`: nominal budgets of the most and the least noised token. `strength`: of the unlearning term.
    """

    alpha: float = sensitivity.ALPHA
    threshold: float = sensitivity.THRESHOLD
    lower: float = sensitivity.LOWER
    upper: float = sensitivity.UPPER
    delta: float = 1e-6
    strength: float = 1.0
    loss: Loss = "answer"


def dials_of(spec: RunSpec, epsilon: float | None) -> Dials:
    """The settings of a run that determine scores and noise; the published values for settings that its method lacks.

    `epsilon`: the requested budget, which PeCL as published uses as the nominal budget of the least noised token.
    """
    params, usual = spec.params, Dials()
    dials = replace(usual, delta=spec.privacy.delta)
    if isinstance(params, LanguageParams):
        dials = replace(dials, loss=params.loss)
    if isinstance(params, SculptingParams):
        dials = replace(dials, alpha=params.alpha, threshold=params.theta, strength=params.lambda_unlearn)
    if isinstance(params, PublishedParams):
        upper = epsilon if epsilon is not None and math.isfinite(epsilon) else usual.upper
        dials = replace(dials, lower=params.eps_lower, upper=max(upper, params.eps_lower))
    return dials
