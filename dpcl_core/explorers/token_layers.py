"""What there is to see of scored tokens: every quantity that PeCL's score leads to, computed from one record of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import ScoredText
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.dials import Dials as Dials  # a part of what this module says, as is dials_of
from dpcl_core.methods.language.dials import dials_of as dials_of
from dpcl_core.privacy import token_noise

Layer = Literal["p", "score1", "score2", "score", "nominal", "true", "sigma", "printed", "flipped", "hinge"]
LAYERS: tuple[Layer, ...] = ("p", "score1", "score2", "score", "nominal", "true", "sigma", "printed", "flipped", "hinge")
NOISE: tuple[Layer, ...] = ("nominal", "true", "sigma")  # which stop words have no number in: they get no noise
WEIGHTS: tuple[Layer, ...] = ("printed", "flipped", "hinge")
FALLING: tuple[Layer, ...] = ("p", "nominal", "true")  # a small number is what a sensitive token has
N_SHADES = 5
_STILL_ON = -1.0  # nats: a token that the model finds likelier than the public model does, so that the hinge is at work


def scores(text: ScoredText, dials: Dials) -> NDArray[np.float64]:
    """Score (Eq. 1) of every token of a text, [m]; 0 for stop words, below 0 where the printed formula leads there."""
    log_p = np.log(np.asarray(text.probability, np.float64))
    score2 = np.asarray(text.commonness, np.float64)
    return sensitivity.scores(log_p, score2, np.asarray(text.is_stop, np.bool_), alpha=dials.alpha)


def values(text: ScoredText, layer: Layer, dials: Dials) -> NDArray[np.float64]:
    """A layer's number for every token, [m]. NaN where a stop word has none: in layers of `NOISE`.

    "hinge": while the model finds the token likelier than the public one does; it is 0 from then on.
    """
    if layer == "p":
        return np.asarray(text.probability, np.float64)
    if layer == "score1":
        return -np.log(np.asarray(text.probability, np.float64))
    if layer == "score2":
        return np.asarray(text.commonness, np.float64)
    found = scores(text, dials)
    if layer == "score":
        return found
    if layer in NOISE:
        return np.where(np.asarray(text.is_stop, np.bool_), np.nan, of_nominal(_nominal(found, dials), layer, dials))
    form = cast(sensitivity.Unlearning, layer)
    gap = np.full(found.shape, _STILL_ON)
    return sensitivity.loss_weights(found, form, dials.loss, strength=dials.strength, threshold=dials.threshold, gap=gap)


def of_nominal(nominal: NDArray[np.float64], layer: Layer, dials: Dials) -> NDArray[np.float64]:
    """Nominal budgets [m] as a layer of `NOISE`: themselves, the exact epsilon of their noise at its true sensitivity, or
    that noise's sigma / C (Eq. 5)."""
    if layer == "nominal":
        return nominal
    ratios = token_noise.printed_ratios(nominal, dials.delta)
    return ratios if layer == "sigma" else token_noise.true_epsilons(ratios, dials.delta)


def edges(layer: Layer, dials: Dials) -> tuple[float, ...]:
    """Four numbers, ascending, between the five shades of a layer; the same for every text, and round enough to print.

    For a loss weight they count its distance from that of a token which is not sensitive.
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
        nominal = dials.lower + (dials.upper - dials.lower) * np.array([0.2, 0.4, 0.6, 0.8])
        found = np.sort(of_nominal(nominal, layer, dials))
    else:
        found = max(dials.strength * (1 - dials.threshold), 1e-6) * np.array([1e-6, 0.25, 0.5, 0.75])
    return tuple(float(f"{edge:.3g}") for edge in found.tolist())


def shades(layer: Layer, found: NDArray[np.float64], dials: Dials) -> NDArray[np.int64]:
    """The shade of every number [m], from 0 to 4: the darker, the more sensitive the token is taken for; -1 without one."""
    measured = np.abs(found - base(dials)) if layer in WEIGHTS else found
    steps = np.searchsorted(np.array(edges(layer, dials)), measured, side="right")
    return np.where(np.isnan(found), -1, N_SHADES - 1 - steps if layer in FALLING else steps)


def base(dials: Dials) -> float:
    """The loss weight of a token that is not sensitive."""
    return 1.0 if dials.loss == "full" else 0.0


def text_epsilon(text: ScoredText, dials: Dials) -> float:
    """Exact epsilon of the whole text for one release of its noised tokens, stop words left out: they are given away.

    It takes each token's noise as fixed; that it depends on the token makes the truth larger still.
    """
    found = values(text, "sigma", dials)
    return token_noise.text_epsilon(found[~np.isnan(found)].tolist(), dials.delta)


def warning(texts: Sequence[ScoredText], dials: Dials) -> str | None:
    """What to say where a score left [0, 1], so that a nominal budget left its range; None where none did."""
    if not any(text.tokens for text in texts):
        return None
    found = np.concatenate([scores(text, dials) for text in texts])
    return sensitivity.out_of_range(found, dials.lower, dials.upper)


def _nominal(found: NDArray[np.float64], dials: Dials) -> NDArray[np.float64]:
    return sensitivity.nominal_epsilon(found, dials.lower, dials.upper)
