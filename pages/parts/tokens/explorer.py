"""The text to explore: words shaded by score, the arithmetic of each, own sentences; drawn and scored in the browser.

The element in `assets/tokens/` gets all it needs once; it reports θ, ε and the layer only when a slider is let go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import cast

from dpcl_core.elements.element import TOKENS
from dpcl_core.elements.tokens import model, shown
from dpcl_core.events import ScoredText
from dpcl_core.explorers import token_layers
from dpcl_core.explorers.token_layers import Dials, Layer
from pages.parts.shell.mount import mounted, written


def draw(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], *, reader: str | None,
    key: str,
) -> tuple[Dials, Layer]:  # fmt: skip
    """Draws the element; returns the settings and the layer with which it was left. `text` None: the visitor types one.

    `reader`: the public model that scored the text, None for another; `budgets`: stops of the largest nominal ε.
    """
    data = written(shown(text, dials, layer, label, budgets, reader), model=_model())
    reported = mounted(TOKENS)(key=key, data=data, on_dials_change=lambda: None).get("dials")
    return _left(reported, dials, layer, budgets)


@cache
def _model() -> bytes:
    return written(model())


def _left(reported: object, dials: Dials, layer: Layer, budgets: Sequence[float]) -> tuple[Dials, Layer]:
    """The settings that the browser reports; the given ones for what it cannot have reported."""
    if not isinstance(reported, Mapping):
        return dials, layer
    threshold, upper, seen = (reported.get(name) for name in ("threshold", "upper", "layer"))
    if isinstance(threshold, int | float) and 0 <= threshold <= 1:
        dials = replace(dials, threshold=float(threshold))
    if upper in budgets:
        dials = replace(dials, upper=float(cast(float, upper)), lower=min(dials.lower, float(cast(float, upper))))
    return dials, cast(Layer, seen) if seen in token_layers.SHOWN else layer
