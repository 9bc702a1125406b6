"""A text with each token shaded by a number: five shades and five kinds of underline, the number itself at hand.

Our own markup, every piece of text escaped: it stays text to select, copy and search, and repaints faster than a plot does.
Its classes are those of `pages/parts/style.css`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby, pairwise

from dpcl_core.data.texts import LOOKALIKE

NO_NUMBER = "no noise"


def markup(tokens: Sequence[str], shades: Sequence[int], numbers: Sequence[str], kinds: Sequence[str], *, label: str) -> str:
    """The HTML of a text.

    Args: tokens as printed, blanks included ("": one that only goes on with a character); of each its shade, 0 to 4, -1 for
    one without a number; what is told of it on focus; the span it lies in, "" outside any. `label`: what it is a text of.
    """
    rows = zip(tokens, shades, numbers, kinds, strict=True)
    parts: list[str] = []
    for kind, group in groupby(rows, key=lambda row: row[3]):
        inside = [_token(*row) for row in group]
        if kind:
            name = "lookalike" if kind.startswith(LOOKALIKE) else "private"
            blank, first = inside[0]
            body = first + "".join(before + token for before, token in inside[1:])
            parts.append(f'{blank}<span class="{name}">{body}</span>')
        else:
            parts += [before + token for before, token in inside]
    return f'<div class="heat" dir="auto" role="group" aria-label="{escape(label)}">{"".join(parts)}</div>'


def legend(ranges: Sequence[str], *, has_spans: bool, has_stops: bool) -> str:
    """What shades and outlines mean. `ranges`: the numbers of each shade, lightest first."""
    items = [f'<li><i class="t{shade}">{escape(text)}</i></li>' for shade, text in enumerate(ranges)]
    if has_stops:
        items.append(f'<li><i class="quiet">stop word: {NO_NUMBER}</i></li>')
    if has_spans:
        items.append('<li><span class="private">marked as personal</span></li>')
        items.append('<li><span class="lookalike">only looks like it</span></li>')
    return f'<ul class="heat-legend" aria-label="Legend">{"".join(items)}</ul>'


def ranges(edges: Sequence[float], *, falling: bool, beyond: str = "") -> list[str]:
    """The five ranges between four edges as they are printed, in order of the shades. `falling`: a small number is dark.

    `beyond`: what the numbers are distances from, for those that are.
    """
    one, *_, last = edges
    texts = [f"below {one:g}", *(f"{low:g} to {high:g}" for low, high in pairwise(edges))]
    texts.append(f"{last:g} and more")
    ordered = texts[::-1] if falling else texts
    return [f"{text}{beyond}" for text in ordered]


def number(value: float, edges: Sequence[float], origin: float | None = None) -> str:
    """A number in three digits, or as many more as it takes to stay on its side of every edge.

    `origin`: where edges are distances from. NaN is said in words.
    """
    if math.isnan(value):
        return NO_NUMBER
    for digits in range(3, 15):
        text = f"{value:.{digits}g}"
        if all((_far(float(text), origin) >= edge) == (_far(value, origin) >= edge) for edge in edges):
            return text
    return repr(value)


def _far(value: float, origin: float | None) -> float:
    return value if origin is None else abs(value - origin)


def _token(text: str, shade: int, told: str, kind: str) -> tuple[str, str]:
    """Blanks before a token, which belong to no shade, and its markup."""
    word = text.lstrip(" ")
    if not word and text:
        word = text
    blank = text[: len(text) - len(word)]
    name = f"t{shade}" if shade >= 0 else "quiet"
    tip = f"{told} · {kind.removeprefix(LOOKALIKE)}" if kind else told
    return blank, f'<i class="{name}{"" if word else " part"}" tabindex="0" data-n="{escape(tip)}">{escape(word)}</i>'
