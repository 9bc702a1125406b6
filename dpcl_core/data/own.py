"""A person's own datasets that lie ready on this computer."""

from __future__ import annotations

from pathlib import Path

from dpcl_core.data import catalog, files
from dpcl_core.data.cards import CARDS
from dpcl_core.errors import BadInput


def names() -> list[str]:
    """own:NAME of every folder that looks like a dataset of images and is none of the catalog's; reads file headers only."""
    found: list[str] = []
    known = {card.folder for card in CARDS.values()}
    for root in files.roots(catalog.card("own:any")):
        for folder in _folders(root):
            if folder.name not in known and f"own:{folder.name}" not in found and _holds_images(f"own:{folder.name}"):
                found.append(f"own:{folder.name}")
    return found


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(entry for entry in root.iterdir() if entry.is_dir())
    except OSError:
        return []


def _holds_images(name: str) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcl_core.data.parquet import IMAGE_COLUMNS  # with pyarrow late, like it: a list of names needs neither

    try:
        ready = files.find(catalog.card(name))
        return ready.is_folder or any(column in IMAGE_COLUMNS for column in pq.read_schema(ready.train[0]).names)
    except (BadInput, OSError, pa.ArrowException):
        return False
