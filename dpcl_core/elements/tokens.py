"""The text to explore: what the element in `assets/tokens/` is drawn from. It scores, shades and unfolds words by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache

from dpcl_core.events import ScoredText
from dpcl_core.explorers import browser_model, token_layers
from dpcl_core.explorers.token_layers import Dials, Layer
from dpcl_core.figures import heatmap
from dpcl_core.lessons import surprise

BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # stops of the largest nominal ε
FIRST: Layer = "score"  # the layer shown at first
TITLES: dict[Layer, str] = {
    "score1": "surprise",
    "score": "score",
    "nominal": "nominal ε",
    "true": "true ε",
    "hinge": "weight in the loss",
}
MEANS: dict[Layer, str] = {
    "score": "Score (Eq. 1): 1 − exp(−(α · Score1 + (1 − α) · Score2)); 0 for stop words. It measures surprise.",
    "score1": "Score1 (Eq. 2): −log P in nats, the model's surprise.",
    "nominal": "Nominal ε (Eq. 4), as printed. No guarantee: the method does not achieve it.",
    "true": "Exact ε of one release with the noise of Eq. 5. No guarantee either: it assumes a fixed noise level, and here "
    "the level depends on the token.",
    "hinge": "Weight in the loss, repaired: above θ a token is unlearned until it is as unlikely as under the public model.",
}
WORDS = {
    "own": "Your sentence",
    "start": "My name is Anna and I flew from Basel to Paris.",
    "empty": "Type a sentence: its words are scored as you type.",
    "long": "Only the first {most} of {all} characters are scored.",
    "marked": "With θ = {theta}, {personal} personal words count as sensitive, and so do {other} others.",
    "unmarked": "With θ = {theta}, {all} words count as sensitive (bold).",
    "unmarked_one": "With θ = {theta}, {all} word counts as sensitive (bold).",
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


def document(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None
) -> dict[str, object]:
    """The data of the element: its `model`, and what is `shown`."""
    return {"model": model(), **shown(text, dials, layer, label, budgets, reader)}


def shown(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None
) -> dict[str, object]:
    """The data of the element but its model: text (None: typed), settings, layers with their edges and words, and the game.

    `budgets`: stops of the largest nominal ε; `reader`: the public model that scored the text, None for another.
    """
    of_text = None if text is None else {
        "label": label, "tokens": list(text.tokens), "probability": list(text.probability), "kinds": list(text.kinds),
        "commonness": list(text.commonness), "is_stop": list(text.is_stop), "model_id": reader,
    }  # fmt: skip
    return {
        "text": of_text, "dials": asdict(dials), "layer": layer, "budgets": list(budgets),
        "layers": [_layer(each, dials) for each in token_layers.SHOWN], "words": WORDS,
        "game": {"rounds": [{"sentence": sentence, "words": list(words)} for sentence, words in ROUNDS]},
    }  # fmt: skip


def _layer(layer: Layer, dials: Dials) -> dict[str, object]:
    edges = token_layers.edges(layer, dials)
    origin = token_layers.base(dials) if layer in token_layers.WEIGHTS else 0.0
    beyond = f" from {origin:g}" if origin else ""
    ranges = heatmap.ranges(edges, falling=layer in token_layers.FALLING, beyond=beyond)
    return {"name": layer, "title": TITLES[layer], "means": MEANS[layer], "edges": list(edges), "ranges": ranges}


@lru_cache(maxsize=1)
def model() -> dict[str, object]:
    """The model with which the element scores."""
    return browser_model.document(surprise.texts().score2)
