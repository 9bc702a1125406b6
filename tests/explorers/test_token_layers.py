"""Every layer against its printed formula, token by token; shades agree with their edges; what has no number has none."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from dpcl_core.events import ScoredText
from dpcl_core.explorers import tokens
from dpcl_core.explorers.tokens import Dials, Layer
from dpcl_core.privacy import text_mechanisms
from tests.support.texts import SCORED

USUAL = Dials()


def by_hand(layer: Layer, p: float, score2: float, is_stop: bool, dials: Dials) -> float:
    """One token, from the formulas as they are printed."""
    score = 0.0 if is_stop else 1 - math.exp(-(dials.alpha * -math.log(p) + (1 - dials.alpha) * score2))
    nominal = dials.lower + (dials.upper - dials.lower) * (1 - score) ** 2
    ratio = math.sqrt(2 * math.log(1.25 / dials.delta)) / nominal
    weight = dials.strength * max(score - dials.threshold, 0.0)
    plain = 1.0 if dials.loss == "full" else 0.0
    found: dict[Layer, float] = {
        "p": p, "score1": -math.log(p), "score2": score2, "score": score, "nominal": nominal, "sigma": ratio,
        "true": text_mechanisms.true_epsilon(ratio, dials.delta), "printed": plain + weight, "flipped": plain - weight,
        "hinge": -weight if weight > 0 else plain,
    }  # fmt: skip
    return math.nan if is_stop and layer in tokens.NOISE else found[layer]


@pytest.mark.parametrize("layer", tokens.LAYERS)
@pytest.mark.parametrize("dials", [USUAL, Dials(0.2, 0.3, 0.5, 40.0, 1e-5, 10.0, "full")])
def test_a_layer_is_its_formula(layer: Layer, dials: Dials) -> None:
    found = tokens.values(SCORED, layer, dials)
    rows = zip(SCORED.probability, SCORED.commonness, SCORED.is_stop, strict=True)
    assert found == pytest.approx([by_hand(layer, *row, dials) for row in rows], rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("layer", tokens.LAYERS)
def test_a_shade_holds_what_its_edges_say(layer: Layer) -> None:
    """Card's numbers 0.2, 0.6 and so on lie on an edge themselves, and belong to the side above it."""
    edges = tokens.edges(layer, USUAL)
    assert list(edges) == sorted(edges)
    assert len(edges) == tokens.N_SHADES - 1
    middle = [edges[0] - 0.1, *(sum(pair) / 2 for pair in pairwise(edges)), edges[-1] + 0.1]
    origin = tokens.base(USUAL) if layer in tokens.WEIGHTS else 0.0
    middle[0] = max(middle[0], 0.0) if layer in tokens.WEIGHTS else middle[0]
    shades = tokens.shades(layer, np.array(middle) + origin, USUAL).tolist()
    assert shades == ([4, 3, 2, 1, 0] if layer in tokens.FALLING else [0, 1, 2, 3, 4])
    assert tokens.shades(layer, np.array([math.nan]), USUAL).tolist() == [-1]


@pytest.mark.parametrize("layer", ["score", "score1", "sigma", "nominal", "true", "p"])
def test_darker_is_more_sensitive_in_every_layer(layer: Layer) -> None:
    """Without Score2 everything follows from P alone: a less likely token is never lighter."""
    p = np.geomspace(1e-4, 1, 60)
    text = ScoredText(("x",) * 60, tuple(p.tolist()), (0.0,) * 60, (False,) * 60, ("",) * 60, "")
    shades = tokens.shades(layer, tokens.values(text, layer, USUAL), USUAL)
    assert (np.diff(shades) <= 0).all()
    assert (shades.max(), shades.min()) == (4, 0)


def test_a_text_adds_up_the_noise_of_its_noised_tokens_alone() -> None:
    ratios = [value for value in tokens.values(SCORED, "sigma", USUAL).tolist() if not math.isnan(value)]
    assert len(ratios) == len(SCORED.tokens) - sum(SCORED.is_stop)
    assert tokens.text_epsilon(SCORED, USUAL) == text_mechanisms.text_epsilon(ratios, USUAL.delta)


def test_a_score_below_0_is_told_of() -> None:
    common = ScoredText((".",), (1.0,), (-0.154,), (False,), ("",), "")
    said = tokens.warning([common], USUAL)
    assert said is not None
    assert "above the upper end of its range, 10" in said
    assert float(tokens.values(common, "nominal", USUAL)[0]) > 10
    assert tokens.warning([SCORED], USUAL) is None
    assert tokens.warning([], USUAL) is None
