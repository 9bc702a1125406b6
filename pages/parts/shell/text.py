"""Text from people or links as it is, never as markup: a name must not become a link, a formula or a picture."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|$~:&-])")


def capital(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]


def plain(text: str) -> str:
    """The text with everything escaped that markdown would read as markup, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
