"""Text for pages: percentages, capitals, labels in refusals, and escaping: no name is ever a link, a formula or an image."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpcl_core.errors import BadInput

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|$~:&-])")


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage with `digits` decimals."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def labelled(refused: BadInput, labels: Mapping[str, str]) -> str:
    """The sentence of a refusal with the label that its field has on the page, by its name in code, where it has one."""
    return labels.get(refused.field, refused.field) + str(refused).removeprefix(refused.field)


def plain(text: str) -> str:
    """The text on one line, with all Markdown markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
