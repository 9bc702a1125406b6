"""The user's own datasets on this computer: whose they are, and the marks by which they are known again.

A look at data counts under every name that they have, and after they were deleted. Marks are digests of rows of the public
test part, so that no private row changes one. Their key is a secret of this computer: whoever reads a mark elsewhere cannot
try rows against it. On a server that others reach, each visitor has a key of their own, so that nobody learns from a count
what somebody else has brought.
"""

import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from os.path import samestat
from pathlib import Path

from dpcl_core import paths
from dpcl_core.data import catalog, files, outline, schema
from dpcl_core.data.card import CARDS
from dpcl_core.errors import BadInput
from dpcl_core.metrics import grouped

# Beside data that were taken in, both of them: a digest of the token of the visitor who took them in, empty from a terminal;
# and a digest of where they came from.
OWNER, ORIGIN = ".owner", schema.ORIGIN
UPLOAD_SECONDS = 86_400.0  # that a file which is not kept stays
_DELETED = ".deleted-"  # before the name of a folder that is being deleted, or was when its process died


def owner(name: str) -> str | None:
    """The digest of the owner's token of own:NAME; empty for data of the whole computer.

    None where there are none, and where it cannot be told whose they are: such data are nobody's.
    """
    return next(map(_owner, folders_of(name)), None)


def folders_of(name: str) -> list[Path]:
    """The folders that may hold own:NAME; the first one counts."""
    places = ((root, root / name.removeprefix("own:")) for root in files.own_roots())
    return [folder for root, folder in places if folder.parent == root and folder.is_dir()]


def _owner(folder: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        before = folder.stat()
        try:
            return (folder / OWNER).read_text(encoding="ascii")
        except FileNotFoundError:
            # Put there by hand, if it is still the same folder: one that is just being replaced has neither file.
            is_by_hand = not (folder / ORIGIN).exists() and samestat(before, folder.stat())
            return "" if is_by_hand else None
    return None


def write_owner(folder: Path, owner: str) -> None:
    """Writes whose the data in a folder are, and waits until the disk has it: an empty file would give them to everybody.

    Raises OSError.
    """
    with (folder / OWNER).open("w", encoding="ascii") as file:
        file.write(owner)
        file.flush()
        os.fsync(file.fileno())
    paths.keep_names(folder)


def delete(folder: Path) -> bool:
    """Deletes the folder of own data, which are gone at once and whole for everybody who asks for them.

    False: some of its files could not be deleted; `sweep` tries again. Raises OSError where the folder cannot be touched.
    """
    gone = folder.with_name(f"{_DELETED}{secrets.token_hex(6)}")
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    return not gone.exists()


def sweep() -> None:
    """Deletes what is left of data whose deletion was broken off."""
    for folder in _folders(paths.home() / "data"):
        if folder.name.startswith(_DELETED):
            shutil.rmtree(folder, ignore_errors=True)
    sweep_uploads()


def sweep_uploads() -> None:
    """Deletes what visitors uploaded more than a day ago and did not keep."""
    for folder in _folders(paths.home() / "uploads"):
        with suppress(OSError):  # it is being deleted
            if folder.stat().st_mtime < time.time() - UPLOAD_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def of_visitors() -> dict[str, list[str]]:
    """own:NAME of the data that each visitor has taken in here, by owner."""
    here = (folder for folder in _folders(paths.home() / "data") if not folder.name.startswith("."))
    return grouped((whose, f"own:{folder.name}") for folder in here if (whose := _owner(folder)))


def uploaders() -> list[str]:
    """Who has files on their way in: the first letters of each owner, which `paths.uploads` takes for the whole."""
    return [folder.name for folder in _folders(paths.home() / "uploads")]


def written_at(name: str) -> dict[str, int]:
    """When each file of own:NAME was last written, in nanoseconds since 1970, by its place in the folder; else nothing.

    That is what somebody has done, and is public. Whether the rows are others is not: it would differ between neighbours.
    Nothing of a copy that was taken in: it is never replaced, and may be moved to another computer.
    """
    folders = folders_of(name) if name.startswith("own:") else []
    if not folders or (folders[0] / ORIGIN).exists():
        return {}
    folder = folders[0]
    places = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    shown = {place: path for place, path in places.items() if not any(part.startswith(".") for part in place.parts)}
    return {place.as_posix(): path.stat().st_mtime_ns for place, path in shown.items()}


def stored_bytes(owners: Collection[str] | None) -> int:
    """How much the data of visitors (None: all) take up here, files on their way in included."""
    is_theirs = bool if owners is None else owners.__contains__
    folders = [folder for folder in _folders(paths.home() / "data") if is_theirs(_owner(folder))]
    folders += [paths.home() / "uploads"] if owners is None else [paths.uploads(owner) for owner in owners]
    total = 0
    for path in (path for root in folders for path in root.rglob("*")):
        with suppress(OSError):  # it is being deleted
            about = path.lstat()
            total += max(about.st_size, 512 * getattr(about, "st_blocks", 0))  # small files take whole blocks
    return total


def names_of_own_data() -> list[str]:
    """own:NAME of every data folder that is not one of the catalog's datasets; reads headers only."""
    known_folders = {card.folder for card in CARDS.values()}
    folders = [folder.name for root in files.own_roots() for folder in _folders(root)]
    names_found = dict.fromkeys(f"own:{name}" for name in folders if name not in known_folders)
    return [name for name in names_found if _is_usable(name)]


def _folders(root: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(entry for entry in root.iterdir() if entry.is_dir())
    return []


def _is_usable(name: str) -> bool:
    with suppress(BadInput):
        return catalog.kind_of_files(catalog.card(name)) is not None
    return False


_MARKS = ".marks"  # beside the data
_SECRET = "secret"  # in the home
MOST_MARKS = 256  # the smallest digests: two samples of the same rows then share nearly all
Marks = frozenset[str]


def marks_of(outlined: outline.Outline, apart: str = "") -> Marks:
    """The marks of a dataset. `apart`: a digest of the token of a visitor whose data are counted apart from all others'.

    Raises StoreTrouble where the key cannot be kept.
    """
    secret = paths.kept_key(paths.home() / _SECRET, "the marks of own data")  # made when it is first needed
    key = blake2b(apart.encode(), key=secret, digest_size=32).digest()
    rows = outlined.test.keys()
    return frozenset(sorted({blake2b(row.tobytes(), key=key, digest_size=8).hexdigest() for row in rows})[:MOST_MARKS])


def knows_by_first_rule(name: str, apart: str, seen: Marks) -> bool:
    """Whether rows of own:NAME, which is on its way in, were the public part of data that were taken in under `coins` = 1.

    `seen`: marks of data that were deleted since.
    """
    earlier = [one for one in _marked_folders() if (found := schema.in_folder(one)) is not None and found.coins == 1]
    before = seen.union(*map(_marks_in, earlier))
    if not before:
        return False
    with suppress(BadInput):
        card = replace(catalog.card(name), coins=1, columns=(), separator="")
        return not before.isdisjoint(marks_of(outline.outline(catalog.with_public_columns(card)), apart))
    return False


def write_marks(folder: Path, marks: Marks) -> None:
    """Keeps the marks of the data in a folder. Raises OSError."""
    (folder / _MARKS).write_text("\n".join(sorted(marks)), encoding="ascii")


def kept_marks(name: str) -> Marks:
    """The marks of own:NAME; none of data that somebody put in their place by hand."""
    return _marks_in(paths.home() / "data" / name.removeprefix("own:"))


def named_by_marks(marks: Iterable[str]) -> list[str]:
    """own:NAME of all data taken in that have one of these marks."""
    wanted = frozenset(marks)
    return [f"own:{folder.name}" for folder in (_marked_folders() if wanted else []) if wanted & _marks_in(folder)]


def _marked_folders() -> list[Path]:
    """The folders of data with marks."""
    return sorted(path.parent for path in (paths.home() / "data").glob(f"*/{_MARKS}"))


def _marks_in(folder: Path) -> Marks:
    with suppress(OSError, UnicodeDecodeError):
        return frozenset((folder / _MARKS).read_text(encoding="ascii").split())
    return frozenset()

