"""The text to explore: words shaded by score, the arithmetic of each, own sentences; drawn and scored in the browser.

The element in `assets/tokens/` gets all it needs once; it reports θ, ε and the layer only when a slider is let go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import cast

import streamlit as st

from dpcl_core.elements.element import TOKENS
from dpcl_core.events import ScoredText
from dpcl_core.explorers import browser_model, token_layers
from dpcl_core.explorers.token_layers import Dials, Layer
from dpcl_core.figures import heatmap
from pages.parts.shell.mount import mounted
from pages.parts.tokens import heat, text_source

WORDS = {
    "own": "Your sentence",
    "start": "My name is Anna and I flew from Basel to Paris.",
    "empty": "Type a sentence: its words are scored as you type.",
    "marked": "With θ = {theta}, {personal} personal words count as sensitive, and so do {other} others.",
    "unmarked": "With θ = {theta}, {all} words count as sensitive (bold).",
    "p": "Probability P, given the words before",
    "surprise": "Surprise, −log P",
    "score": "Score, from 0 (expected) to 1 (surprising)",
    "nominal": "Nominal ε, no guarantee",
    "ratio": "Noise σ / C that it gets",
    "true": "True ε of this noise",
    "read": "An attacker reads",
    "game": "A personal name or a harmless one: which word gets the higher score?",
    "same": "about the same",
    "lesson": "The score measures how surprising a word is. It cannot know what is private.",
}
ROUNDS = (
    ("I wrote a long letter to ___ last week.", ("Anna", "Paris")),
    ("My name is ___ and I live here.", ("Grace", "Basel")),
    ("The meeting with ___ is on Monday.", ("Okafor", "Toyota")),
)


def draw(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], *, reader: str | None,
    key: str,
) -> tuple[Dials, Layer]:  # fmt: skip
    """Draws the element; returns the settings and the layer with which it was left. `text` None: the visitor types one.

    `reader`: the public model that scored the text, None for another; `budgets`: stops of the largest nominal ε.
    """
    reported = mounted(TOKENS)(
        key=key, data=document(text, dials, layer, label, budgets, reader), on_dials_change=lambda: None
    ).get("dials")
    return _left(reported, dials, layer, budgets)


def document(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None
) -> dict[str, object]:
    """The data of the element: model, text (None: typed), settings, layers with their edges and words, and the game."""
    of_text = None if text is None else {
        "label": label, "tokens": list(text.tokens), "probability": list(text.probability), "kinds": list(text.kinds),
        "commonness": list(text.commonness), "is_stop": list(text.is_stop), "model_id": reader,
    }  # fmt: skip
    return {
        "model": _model(), "text": of_text, "dials": asdict(dials), "layer": layer, "budgets": list(budgets),
        "layers": [_layer(each, dials) for each in token_layers.SHOWN], "words": WORDS,
        "game": {"rounds": [{"sentence": sentence, "words": list(words)} for sentence, words in ROUNDS]},
    }  # fmt: skip


def _layer(layer: Layer, dials: Dials) -> dict[str, object]:
    edges = token_layers.edges(layer, dials)
    origin = token_layers.base(dials) if layer in token_layers.WEIGHTS else 0.0
    beyond = f" from {origin:g}" if origin else ""
    ranges = heatmap.ranges(edges, falling=layer in token_layers.FALLING, beyond=beyond)
    return {"name": layer, "title": heat.TITLES[layer], "means": heat.MEANS[layer], "edges": list(edges), "ranges": ranges}


def _left(reported: object, dials: Dials, layer: Layer, budgets: Sequence[float]) -> tuple[Dials, Layer]:
    """The settings that the browser reports; the given ones for what it cannot have reported."""
    if not isinstance(reported, Mapping):
        return dials, layer
    threshold, upper, shown = (reported.get(name) for name in ("threshold", "upper", "layer"))
    if isinstance(threshold, int | float) and 0 <= threshold <= 1:
        dials = replace(dials, threshold=float(threshold))
    if upper in budgets:
        dials = replace(dials, upper=float(cast(float, upper)), lower=min(dials.lower, float(cast(float, upper))))
    return dials, cast(Layer, shown) if shown in token_layers.SHOWN else layer


@st.cache_resource(show_spinner=False)
def _model() -> dict[str, object]:
    return browser_model.document(text_source.corpus().score2)
