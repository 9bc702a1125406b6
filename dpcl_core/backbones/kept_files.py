"""Files that are kept to save time, and that can be deleted at any time: fetched networks, features, states of texts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dpcl_core import paths
from dpcl_core.backbones import catalog, packaged
from dpcl_core.errors import unknown

COMPUTED = ("features", "states")  # from examples, those of people's own data included


@dataclass(frozen=True, slots=True)
class Kept:
    """One kind of kept files. `size`: bytes, coarse where they are computed from examples; `clean`: deletes them all."""

    name: str
    title: str
    size: int
    place: Path
    clean: Callable[[], object]


def listed() -> list[Kept]:
    """All kinds, empty ones too. Networks that were stored inside the environment belong to the installation, and are not
    listed."""
    networks = [
        Kept(name, card.title, packaged.size(name), paths.network_cache() / name, partial(packaged.clean, name))
        for name, card in catalog.CARDS.items()
        if card.package
    ]
    computed = {
        "features": ("Features of examples", paths.features_dir()),
        "states": ("States of texts under language models", paths.states_dir()),
    }
    return networks + [
        Kept(name, title, _size(folder), folder, partial(shutil.rmtree, folder, ignore_errors=True))
        for name, (title, folder) in computed.items()
    ]


def clean(name: str) -> Kept:
    """Deletes the kept files of this name; gives what there was. Raises BadInput for an unknown name."""
    known = {kept.name: kept for kept in listed()}
    if name not in known:
        raise unknown("--clean", name, known)
    known[name].clean()
    return known[name]


def _size(folder: Path) -> int:
    """Bytes, rounded up to 1, 2 or 5 times a power of ten: exact, they would tell how many private rows there are."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    power: int = 10 ** (len(str(size)) - 1)
    return next(step * power for step in (0, 1, 2, 5, 10) if size <= step * power)
