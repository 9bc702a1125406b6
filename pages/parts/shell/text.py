"""Text for pages: percentages, capitals, and escaping, so that a name never becomes a link, a formula or an image."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|$~:&-])")


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage with `digits` decimals."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def plain(text: str) -> str:
    """The text on one line, with all Markdown markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
