"""A text with each token shaded by a number, in five shades with five kinds of underline.

Input of the element in `assets/heatmap/`: the text, which it draws once, and a layer, which it repaints in place.
Its classes are those of `assets/shared/theme.css`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

from dpcl_core.data.texts import LOOKALIKE

NO_NUMBER = "no noise"


def document(
    tokens: Sequence[str],
    shades: Sequence[int],
    numbers: Sequence[str],
    kinds: Sequence[str],
    *,
    legend: Sequence[list[str]],
    label: str,
) -> dict[str, dict[str, object]]:
    """The element's document: `text` (drawn once) and `layer` (repainted).

    Args: tokens as printed, blanks included ("": a token that only continues a character); for each its shade, 0 to 4 (-1:
    no number), its text on focus, and the kind of its span ("": none). `legend`: of this layer. `label`: what the text is
    from.
    """
    pairs = zip(numbers, kinds, strict=True)
    return {
        "text": {"label": label, "tokens": [_split(token) for token in tokens], "spans": _spans(kinds)},
        "layer": {
            "names": [_name(token, shade) for token, shade in zip(tokens, shades, strict=True)],
            "numbers": [f"{number} · {kind.removeprefix(LOOKALIKE)}" if kind else number for number, kind in pairs],
            "ranges": list(legend),
        },
    }


def legend(ranges: Sequence[str], *, has_spans: bool, has_stops: bool) -> list[list[str]]:
    """The legend of shades and outlines: tag, class and words of each. `ranges`: of each shade, lightest first."""
    items = [["i", f"t{shade}", text] for shade, text in enumerate(ranges)]
    if has_stops:
        items.append(["i", "quiet", f"stop word: {NO_NUMBER}"])
    if has_spans:
        items += [["span", "private", "marked as personal"], ["span", "lookalike", "only looks like it"]]
    return items


def ranges(edges: Sequence[float], *, falling: bool, beyond: str = "") -> list[str]:
    """The five printed ranges between four edges, in order of the shades. `falling`: small numbers are dark.

    `beyond`: the origin of numbers that are distances.
    """
    between = (f"{low:g} to {high:g}" for low, high in pairwise(edges))
    texts = [f"{text}{beyond}" for text in (f"below {edges[0]:g}", *between, f"{edges[-1]:g} and more")]
    return texts[::-1] if falling else texts


def number(value: float, edges: Sequence[float], origin: float | None = None) -> str:
    """A number in three digits, or in as many as keep it on its side of every edge.

    `origin`: the number from which edges are distances. NaN is written in words.
    """
    if math.isnan(value):
        return NO_NUMBER
    for digits in range(3, 15):
        text = f"{value:.{digits}g}"
        if all((_distance(float(text), origin) >= edge) == (_distance(value, origin) >= edge) for edge in edges):
            return text
    return repr(value)


def _distance(value: float, origin: float | None) -> float:
    return value if origin is None else abs(value - origin)


def _split(token: str) -> list[str]:
    """The blanks before a token, which are not shaded, and the token."""
    word = token.lstrip(" ") or token
    return [token[: len(token) - len(word)], word]


def _name(token: str, shade: int) -> str:
    """A token's class. A token that only continues a character has no letters to shade."""
    name = f"t{shade}" if shade >= 0 else "quiet"
    return name if token else f"{name} part"


def _spans(kinds: Sequence[str]) -> list[list[int | str]]:
    """First token of each marked span, the one after its last, and its class."""
    spans: list[list[int | str]] = []
    for kind, group in groupby(range(len(kinds)), key=kinds.__getitem__):
        places = list(group)
        if kind:
            spans.append([places[0], places[-1] + 1, "lookalike" if kind.startswith(LOOKALIKE) else "private"])
    return spans
