"""Marks by which own data are known again under another name, or after they were deleted: looks at them still count.

Marks are digests of rows of the public test part, so that no private row changes one. Their key is a secret of this
computer: whoever reads a mark elsewhere cannot try rows against it. On a server that others reach, each visitor has a key of
their own, so that nobody learns from a count what somebody else has brought.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from dpcl_core import paths
from dpcl_core.data.card import HELD_OUT
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from dpcl_core.data.outline import Outline

_NAME = ".marks"  # beside the data
_SECRET = "secret"  # in the home
MOST = 256  # the smallest digests: two samples of the same rows then share nearly all
Marks = frozenset[str]


def of(outlined: Outline, apart: str = "") -> Marks:
    """The marks of a dataset. `apart`: a digest of the token of a visitor whose data are counted apart from all others'.

    Raises StoreTrouble where the key cannot be kept.
    """
    key = blake2b(apart.encode(), key=_secret(), digest_size=32).digest()
    rows = outlined.test.keys()
    return frozenset(sorted({blake2b(row.tobytes(), key=key, digest_size=8).hexdigest() for row in rows})[:MOST])


def knows_by_first_rule(name: str, apart: str, seen: Marks) -> bool:
    """Whether rows of own:NAME, which is on its way in, were the public part of data that were taken in under `coins` = 1.

    `seen`: marks of data that were deleted since.
    """
    from dpcl_core.data import catalog, files, header, outline, schema

    earlier = [folder for folder in _folders() if (found := schema.in_folder(folder)) is not None and found.coins == 1]
    before = seen.union(*map(_read, earlier))
    if not before:
        return False
    with suppress(BadInput):
        card = replace(catalog.card(name), coins=1, columns=(), separator="")
        first = header.with_columns(card, card.held_out or HELD_OUT)
        return not before.isdisjoint(of(outline.outline(first, files.find(first)), apart))
    return False


def write(folder: Path, marks: Marks) -> None:
    """Keeps the marks of the data in a folder. Raises OSError."""
    (folder / _NAME).write_text("\n".join(sorted(marks)), encoding="ascii")


def kept(name: str) -> Marks:
    """The marks of own:NAME; none of data that somebody put in their place by hand."""
    return _read(paths.home() / "data" / name.removeprefix("own:"))


def sharing(name: str) -> list[str]:
    """own:NAME of all data taken in that have a mark of own:NAME, itself first whether it has any or not."""
    return list(dict.fromkeys([name, *named(kept(name))]))


def named(marks: Iterable[str]) -> list[str]:
    """own:NAME of all data taken in that have one of these marks."""
    wanted = frozenset(marks)
    return [f"own:{folder.name}" for folder in (_folders() if wanted else []) if wanted & _read(folder)]


def _folders() -> list[Path]:
    """The folders of data with marks."""
    return sorted(path.parent for path in (paths.home() / "data").glob(f"*/{_NAME}"))


def _read(folder: Path) -> Marks:
    with suppress(OSError, UnicodeDecodeError):
        return frozenset((folder / _NAME).read_text(encoding="ascii").split())
    return frozenset()


def _secret() -> bytes:
    """The key of this computer, made when it is first needed. Raises StoreTrouble."""
    return paths.kept(paths.home() / _SECRET, "the marks of own data")
