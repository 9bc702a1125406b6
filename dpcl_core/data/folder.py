"""One split read from a folder that has a folder of image files for each class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.cards import DatasetCard
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
MAX_BYTES = 64 * 2**20  # more than 4096 x 4096 colours take unpacked


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The image files of a split, in alphabetical order, with labels int64 [n] that index `classes`."""

    paths: Sequence[Path]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]


def listing(split: Path, card: DatasetCard) -> Listing:
    """The image files of a split by class; hidden files are passed over.

    Raises BadInput for a class without images, another kind of file, a link that leads out, and what may not be read.
    """
    found: list[Path] = []
    labels: list[int] = []
    folders = [entry for entry in _entries(split, split, card) if not entry.name.startswith(".")]
    for label, folder in enumerate(folders):
        if not folder.is_dir():
            allowed = "only folders, one for each class, may lie here"
            raise BadInput(_shown(card, split, Path(folder.path)), folder.name, allowed)
        images = [entry for entry in _entries(Path(folder.path), split, card) if not entry.name.startswith(".")]
        if not images:
            raise BadInput(_shown(card, split, Path(folder.path)), "no files", "a class must have at least one image")
        for image in images:
            _usable(image, _shown(card, split, Path(image.path)))
        found += [Path(image.path) for image in images]
        labels += [label] * len(images)
    if not folders:
        raise BadInput(_shown(card, split, split), "no folders", "must have a folder of images for each class")
    return Listing(found, np.asarray(labels, dtype=np.int64), tuple(folder.name for folder in folders))


def read_images(files: Listing, split: Path, card: DatasetCard, rows: NDArray[np.int64]) -> Images:
    """The images of these rows of the listing, still encoded. Raises BadInput for a file that cannot be read."""
    paths = [files.paths[row] for row in rows]
    origins = [_shown(card, split, path) for path in paths]
    return Images([_bytes(path, origin) for path, origin in zip(paths, origins, strict=True)], card.shape, origins)


def stamp(split: Path) -> Iterator[tuple[str, int]]:
    """What changes when files come or go: the name and time of the split's folder and of each class's."""
    for path in (split, *sorted(path for path in split.iterdir() if path.is_dir())):
        yield path.name, path.stat().st_mtime_ns


def _entries(folder: Path, split: Path, card: DatasetCard) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(_shown(card, split, folder), type(error).__name__, "must be a folder that you can read") from error
    root = split.resolve()
    for entry in found:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root):
            raise BadInput(_shown(card, split, Path(entry.path)), "a link that leads out", "must stay inside its folder")
    return found


def _usable(image: os.DirEntry[str], shown: str) -> None:
    if not image.name.lower().endswith(SUFFIXES) or not image.is_file():
        raise BadInput(shown, image.name, f"only image files may lie here ({', '.join(SUFFIXES)})")
    if image.stat().st_size > MAX_BYTES:
        raise BadInput(shown, f"{image.stat().st_size} bytes", f"must have at most {MAX_BYTES} bytes")


def _bytes(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(shown, type(error).__name__, "must be a file that you can read") from error


def _shown(card: DatasetCard, split: Path, path: Path) -> str:
    return "/".join((card.name, split.name, *path.relative_to(split).parts))
