"""Escaping of text from users and links, so that a name never becomes a link, a formula or an image."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|$~:&-])")


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def plain(text: str) -> str:
    """The text on one line, with all Markdown markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
