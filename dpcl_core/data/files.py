"""Where a dataset's files are on this computer, without reading them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpcl_core import paths
from dpcl_core.data.cards import DatasetCard
from dpcl_core.errors import BadInput, DataMissing

FIELD = "data.dataset"
_SHARD = re.compile(r"(?:train|test)-(\d{5})-of-(\d{5})\.parquet")


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a dataset: per split one or several parquet files, or one folder with a folder of images for each class.

    `test` is empty for a set without a test part that its card allows to divide.
    """

    train: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def is_folder(self) -> bool:
        return not self.train[0].name.endswith(".parquet")


def cache_dir() -> Path:
    """Where downloaded datasets are kept, one folder each."""
    return paths.home() / "hub"


def roots(card: DatasetCard) -> tuple[Path, ...]:
    """The folders in which the dataset's own folder is looked for, in this order."""
    local = paths.data_dir()
    rest = paths.home() / "data" if card.is_own else cache_dir()
    return (rest,) if local is None else (local, rest)


def find(card: DatasetCard) -> Found:
    """The dataset's files. Raises DataMissing saying what to put where, BadInput for a folder that cannot be used."""
    for root in roots(card):
        folder = paths.inside(root, card.folder, FIELD)
        try:
            if folder.is_dir():
                return _in_folder(card, folder)
        except PermissionError as error:
            raise BadInput(FIELD, card.name, f"its folder {folder} must be readable by you") from error
    raise DataMissing(FIELD, card.name, f"{wish(card)}; it is not on this computer")


def wish(card: DatasetCard) -> str:
    """What to put where, so that `find` finds it."""
    what = "train.parquet and test.parquet (columns image and label), or folders train/CLASS and test/CLASS of images,"
    if card.kind == "sensor":
        made = "python -m scripts.prepare_sensors makes them"
        what = f"train.parquet and test.parquet (columns window, rate_hz and label; {made})"
    return f"put {what} into {roots(card)[0] / card.folder}"


def _in_folder(card: DatasetCard, folder: Path) -> Found:
    train, test = _split(folder, "train", card), _split(folder, "test", card)
    if not train:
        raise DataMissing(FIELD, card.name, f"{wish(card)}; that folder has no training part")
    if not test and card.held_out is None:
        raise DataMissing(FIELD, card.name, f"{wish(card)}; that folder has no test part")
    if card.kind == "sensor" and not train[0].name.endswith(".parquet"):
        raise BadInput(FIELD, card.name, "holds sensor windows, which must be parquet files")
    if test and train[0].name.endswith(".parquet") != test[0].name.endswith(".parquet"):
        raise BadInput(FIELD, card.name, "its training and test part must both be parquet files, or both folders of images")
    return Found(train, test)


def _split(folder: Path, split: str, card: DatasetCard) -> tuple[Path, ...]:
    single = folder / f"{split}.parquet"
    shards = sorted(folder.glob(f"{split}-*.parquet"))
    images = folder / split
    found = [name for name, is_there in ((single, single.exists()), (images, images.is_dir())) if is_there]
    if len(found) + bool(shards) > 1:
        raise BadInput(FIELD, card.name, f"{folder} holds its {split} part in two forms; keep one of them")
    for path in (*found, *shards):
        paths.inside(folder, path.name, FIELD)  # refuses links that lead out
    _complete(shards, card)
    return tuple(found or shards)


def _complete(shards: Sequence[Path], card: DatasetCard) -> None:
    """Raises BadInput where one of the numbered pieces of a split is not there."""
    for shard in shards:
        match = _SHARD.fullmatch(shard.name)
        if match is None:
            raise BadInput(FIELD, card.name, f"{shard.name} must be named like train-00000-of-00003.parquet")
        if len(shards) != int(match[2]):
            allowed = f"put all {int(match[2])} pieces into {shard.parent}; {len(shards)} are there"
            raise DataMissing(FIELD, card.name, allowed)
