"""Layers of a text's heat map: every quantity derived from PeCL's score, computed from one scored text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import ScoredText
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.dials import Dials as Dials  # re-exported: pages import nothing from methods
from dpcl_core.methods.language.dials import dials_of as dials_of
from dpcl_core.privacy import token_noise

Layer = Literal["p", "score1", "score2", "score", "nominal", "true", "sigma", "printed", "flipped", "hinge"]
LAYERS: tuple[Layer, ...] = get_args(Layer)  # all are in the CSV
SHOWN: tuple[Layer, ...] = ("score1", "score", "nominal", "true", "hinge")  # from surprise to what it does to the model
NOISE: tuple[Layer, ...] = ("nominal", "true", "sigma")  # no value for stop words, which get no noise
WEIGHTS: tuple[Layer, ...] = ("printed", "flipped", "hinge")
FALLING: tuple[Layer, ...] = ("p", "nominal", "true")  # small for sensitive tokens
N_SHADES = 5
_NOMINAL_EDGES = (1.5, 3.0, 5.0, 8.0)  # the same for every setting, so that shades move when a setting does
_HINGE_GAP = -1.0  # nats: the model finds the token likelier than the public model does, so that the hinge is active


def scores(text: ScoredText, dials: Dials) -> NDArray[np.float64]:
    """Score (Eq. 1) of every token of a text, [m]; 0 for stop words; the printed formula can give negative values."""
    log_p = np.log(np.asarray(text.probability, np.float64))
    score2 = np.asarray(text.commonness, np.float64)
    return sensitivity.scores(log_p, score2, np.asarray(text.is_stop, np.bool_), alpha=dials.alpha)


def values(text: ScoredText, layer: Layer, dials: Dials) -> NDArray[np.float64]:
    """A layer's value for every token, [m]; NaN for stop words in the layers of `NOISE`.

    "hinge": the weight while the model finds the token likelier than the public model does; afterwards it is 0.
    """
    if layer == "p":
        return np.asarray(text.probability, np.float64)
    if layer == "score1":
        return -np.log(np.asarray(text.probability, np.float64))
    if layer == "score2":
        return np.asarray(text.commonness, np.float64)
    score = scores(text, dials)
    if layer == "score":
        return score
    if layer in NOISE:
        nominal = sensitivity.nominal_epsilon(score, dials.lower, dials.upper)
        return np.where(np.asarray(text.is_stop, np.bool_), np.nan, of_nominal(nominal, layer, dials))
    form = cast(sensitivity.Unlearning, layer)
    gap = np.full(score.shape, _HINGE_GAP)
    return sensitivity.loss_weights(score, form, dials.loss, strength=dials.strength, threshold=dials.threshold, gap=gap)


def of_nominal(nominal: NDArray[np.float64], layer: Layer, dials: Dials) -> NDArray[np.float64]:
    """Nominal budgets [m] as a layer of `NOISE`: unchanged, as the exact epsilon of their noise at its true sensitivity, or
    as that noise's sigma / C (Eq. 5)."""
    if layer == "nominal":
        return nominal
    ratios = token_noise.printed_ratios(nominal, dials.delta)
    return ratios if layer == "sigma" else token_noise.true_epsilons(ratios, dials.delta)


@lru_cache(maxsize=256)
def edges(layer: Layer, dials: Dials) -> tuple[float, ...]:
    """Four ascending thresholds between the five shades of a layer, rounded for display; no slider of the score moves them.

    For a loss weight they measure the distance from the weight of a token that is not sensitive.
    """
    fixed: dict[Layer, tuple[float, ...]] = {
        "p": (0.01, 0.05, 0.16, 0.5),
        "score1": (1.0, 2.0, 4.0, 7.0),
        "score2": (0.0, 0.02, 0.05, 0.15),
        "score": (0.2, 0.4, 0.6, 0.8),
    }
    if layer in fixed:
        return fixed[layer]
    if layer in NOISE:
        thresholds = np.sort(of_nominal(np.array(_NOMINAL_EDGES), layer, dials))
    else:
        thresholds = max(dials.strength, 1e-6) * np.array([1e-6, 0.1, 0.2, 0.3])
    return tuple(float(f"{edge:.3g}") for edge in thresholds.tolist())


def shades(layer: Layer, layer_values: NDArray[np.float64], dials: Dials) -> NDArray[np.int64]:
    """The shade of every value [m], from 0 to 4, darker for tokens scored as more sensitive; -1 for NaN."""
    measured = np.abs(layer_values - base(dials)) if layer in WEIGHTS else layer_values
    steps = np.searchsorted(np.array(edges(layer, dials)), measured, side="right")
    return np.where(np.isnan(layer_values), -1, N_SHADES - 1 - steps if layer in FALLING else steps)


def base(dials: Dials) -> float:
    """The loss weight of a token that is not sensitive."""
    return 1.0 if dials.loss == "full" else 0.0


def text_epsilon(text: ScoredText, dials: Dials) -> float:
    """Exact epsilon of the whole text for one release of its noised tokens, without stop words, which are sent in the clear.

    It treats each token's noise as fixed; since the noise depends on the token, the true epsilon is larger still.
    """
    ratios = values(text, "sigma", dials)
    return token_noise.text_epsilon(ratios[~np.isnan(ratios)].tolist(), dials.delta)


def warning(texts: Sequence[ScoredText], dials: Dials) -> str | None:
    """A warning if a score is outside [0, 1], which puts a nominal budget outside its range; None otherwise."""
    if not any(text.tokens for text in texts):
        return None
    text_scores = np.concatenate([scores(text, dials) for text in texts])
    return sensitivity.out_of_range(text_scores, dials.lower, dials.upper)
