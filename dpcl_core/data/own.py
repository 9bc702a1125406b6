"""Lists the user's own datasets on this computer."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dpcl_core import paths
from dpcl_core.data import catalog, files, header
from dpcl_core.data.cards import CARDS
from dpcl_core.errors import BadInput

OWNER = ".owner"  # beside the data: a digest of the token of the visitor who took them in; empty: from a terminal


def owner(name: str) -> str | None:
    """The digest of the owner's token of own:NAME; empty for data of the whole computer, None where there are none."""
    for root in files.roots(catalog.card("own:any")):
        folder = root / name.removeprefix("own:")
        if folder.parent == root and folder.is_dir():
            with suppress(OSError):
                return (folder / OWNER).read_text(encoding="ascii")
            return ""
    return None


def stored_bytes(owner: str) -> int:
    """How much the data of a visitor take up here, a file on its way in included."""
    folders = [folder for folder in _folders(paths.home() / "data") if _is_of(folder, owner)]
    with suppress(OSError):  # one of them is being deleted
        return sum(path.lstat().st_size for root in (*folders, paths.uploads(owner)) for path in root.rglob("*"))
    return 0


def _is_of(folder: Path, owner: str) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        return (folder / OWNER).read_text(encoding="ascii") == owner
    return False


def names() -> list[str]:
    """own:NAME of every data folder that is not one of the catalog's datasets; reads headers only."""
    known_folders = {card.folder for card in CARDS.values()}
    folders = [folder.name for root in files.roots(catalog.card("own:any")) for folder in _folders(root)]
    names_found = dict.fromkeys(f"own:{name}" for name in folders if name not in known_folders)
    return [name for name in names_found if _is_usable(name)]


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
