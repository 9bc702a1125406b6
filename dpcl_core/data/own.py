"""Lists the user's own datasets on this computer."""

from __future__ import annotations

from pathlib import Path

from dpcl_core.data import catalog, files, header
from dpcl_core.data.cards import CARDS
from dpcl_core.errors import BadInput


def names() -> list[str]:
    """own:NAME of every data folder that is not one of the catalog's datasets; reads headers only."""
    listed: list[str] = []
    known_folders = {card.folder for card in CARDS.values()}
    for root in files.roots(catalog.card("own:any")):
        for folder in _folders(root):
            if folder.name not in known_folders and f"own:{folder.name}" not in listed and _is_usable(f"own:{folder.name}"):
                listed.append(f"own:{folder.name}")
    return listed


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(entry for entry in root.iterdir() if entry.is_dir())
    except OSError:
        return []


def _is_usable(name: str) -> bool:
    try:
        return header.kind(catalog.card(name)) is not None
    except BadInput:
        return False
