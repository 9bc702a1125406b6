"""Finds a dataset's files on this computer, without reading them."""

from __future__ import annotations

import errno
import http.client
import os
import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from dpcl_core import paths
from dpcl_core.data.card import PICTURES, DatasetCard
from dpcl_core.errors import BadInput, DataMissing

FIELD = "data.dataset"
TRAIN = "train"  # the folder of pictures for training
TESTS = ("test", "val", "valid", "validation", "dev")  # what the public part beside it may be called
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".npz", ".conll")
ALIKE = {".ndjson": ".jsonl", ".tab": ".tsv", ".pq": ".parquet", ".data": ".csv", ".iob2": ".conll", ".bio": ".conll"}
_COLUMNS = {
    "image": "columns image and label), or folders train/CLASS and test/CLASS of images,",
    "sensor": "columns window, rate_hz and label; python -m scripts.prepare_sensors makes them)",
    "text": "columns text and label)",
    "tagged": "columns tokens, tags and domain)",
    "table": "a column label, or one that the schema names as target)",
    "embedding": "columns embedding and label)",
}
_OWN_FILES = {
    "text": ", or train.csv and test.csv, or one CSV file, with a first line text,label,",
    "table": ", or train.csv and test.csv, or one such file,",
    "embedding": ", or one NPZ file with arrays embeddings and labels,",
    "tagged": ", or train.conll and test.conll, or one .conll file, in the form of OntoNotes (CoNLL-2012),",
}
_ONLY_IN: ContextVar[Path | None] = ContextVar("folder of own data", default=None)
_SHARD = re.compile(r"(?:train|test)-(\d{5})-of-(\d{5})\.parquet")


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files of a dataset: per split parquet files, a CSV or CoNLL file, or a folder with one folder per class.

    `test` is empty for a set without a test part, if its card allows dividing it.
    """

    train: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def is_folder(self) -> bool:
        return self.train[0].suffix not in TABLES


def ending(path: Path) -> str:
    """The usual ending of a file of this form."""
    return ALIKE.get(path.suffix.lower(), path.suffix.lower())


def cache_dir() -> Path:
    """The folder of downloaded datasets, one folder each."""
    return paths.home() / "hub"


def roots(card: DatasetCard) -> tuple[Path, ...]:
    """The parent folders searched for the dataset's folder, in this order."""
    if card.is_own and (only := _ONLY_IN.get()) is not None:
        return (only,)
    local = paths.data_dir()
    rest = paths.home() / "data" if card.is_own else cache_dir()
    return (rest,) if local is None else (local, rest)


@contextmanager
def only_in(folder: Path) -> Iterator[None]:
    """Within this context the user's own data are looked for in this folder alone; other threads notice nothing."""
    token = _ONLY_IN.set(folder)
    try:
        yield
    finally:
        _ONLY_IN.reset(token)


def find(card: DatasetCard) -> DataFiles:
    """The dataset's files, generated first where the dataset is a generated one.

    Raises DataMissing naming the files to add and their folder, BadInput for a folder that cannot be used.
    """
    if card.made_per_source:
        return _made(card)
    for root in roots(card):
        folder = paths.inside(root, card.folder, FIELD)
        try:
            if folder.is_dir():
                return _regular(card, _in_folder(card, folder))
        except PermissionError as error:
            raise BadInput(FIELD, card.name, f"its folder {folder} must be readable by you") from error
    raise DataMissing(FIELD, card.name, f"{wish(card)}; it is not on this computer")


def wish(card: DatasetCard) -> str:
    """The instruction which files to put into which folder, so that `find` finds them."""
    also = _OWN_FILES.get(card.kind, "") if card.is_own else ""
    return f"put train.parquet and test.parquet ({_COLUMNS[card.kind]}{also} into {roots(card)[0] / card.folder}"


def _regular(card: DatasetCard, found: DataFiles) -> DataFiles:
    """The files. Raises BadInput for a pipe or a device, which would never end."""
    for path in (*found.train, *found.test):
        if not (path.is_file() or path.is_dir()):
            raise BadInput(FIELD, card.name, f"{path.name} must be a file or a folder, not a pipe or a device")
    return found


def _made(card: DatasetCard) -> DataFiles:
    from dpcl_core.data import synthetic  # loaded only where the corpus is used

    try:
        train, test = synthetic.ready(cache_dir() / card.folder, card.made_per_source)
    except OSError as error:
        allowed = f"{cache_dir() / card.folder} must be a folder that you can write: {error.strerror or error}"
        raise BadInput(FIELD, card.name, allowed) from error
    return DataFiles((train,), (test,))


def _in_folder(card: DatasetCard, folder: Path) -> DataFiles:
    train, test = _split(folder, "train", card), _split(folder, "test", card)
    if card.is_own and train:
        test = next((found for name in TESTS if (found := _split(folder, name, card))), ())
    if card.is_own and not train and not test:
        if len(only := _single_tables(folder)) == 1:
            paths.inside(folder, only[0].name, FIELD)
            train = (only[0],)
        elif not only and _has_classes(folder):
            train = (folder,)
    if card.is_own and not test and train == (folder / TRAIN,):
        train = (folder,)  # a picture in train/ is one like those beside it: its place decides nothing about the others
    if not train:
        raise DataMissing(FIELD, card.name, f"{wish(card)}; that folder has no training part")
    if not test and card.held_out is None:
        raise DataMissing(FIELD, card.name, f"{wish(card)}; that folder has no test part")
    if card.kind == "sensor" and train[0].suffix != ".parquet":
        raise BadInput(FIELD, card.name, "holds sensor windows, which must be parquet files")
    if test and len({path.suffix if path.suffix in TABLES else "" for path in (train[0], test[0])}) > 1:
        allowed = "its training and test part must be two files of one kind, such as CSV, or two folders of images"
        raise BadInput(FIELD, card.name, allowed)
    return DataFiles(train, test)


def _single_tables(folder: Path) -> list[Path]:
    """Files that can be a whole dataset of the user's own."""
    return sorted(path for ending in TABLES for path in folder.glob(f"*{ending}"))


def _has_classes(folder: Path) -> bool:
    """Whether it has a folder with a picture, so that its folders are classes."""
    folders = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    return any(path.name.lower().endswith(PICTURES) for inner in folders for path in inner.iterdir())


def _split(folder: Path, split: str, card: DatasetCard) -> tuple[Path, ...]:
    single, images = folder / f"{split}.parquet", folder / split
    shards = sorted(folder.glob(f"{split}-*.parquet"))
    candidates = [name for name, is_there in ((single, single.exists()), (images, images.is_dir())) if is_there]
    if card.is_own:
        candidates += [table for ending in TABLES[1:] if (table := folder / f"{split}{ending}").exists()]
    if len(candidates) + bool(shards) > 1:
        raise BadInput(FIELD, card.name, f"{folder} holds its {split} part in two forms; keep one of them")
    for path in (*candidates, *shards):
        paths.inside(folder, path.name, FIELD)  # refuses links that lead out
    _complete(shards, card)
    return tuple(candidates or shards)


def _complete(shards: Sequence[Path], card: DatasetCard) -> None:
    """Raises DataMissing or BadInput where one of the numbered pieces of a split is missing or misnamed."""
    for shard in shards:
        match = _SHARD.fullmatch(shard.name)
        if match is None:
            raise BadInput(FIELD, card.name, f"{shard.name} must be named like train-00000-of-00003.parquet")
        if len(shards) != int(match[2]):
            allowed = f"put all {int(match[2])} pieces into {shard.parent}; {len(shards)} are there"
            raise DataMissing(FIELD, card.name, allowed)


# Decides whether the texts of a dataset may be shown word by word.


MARKS = ("public.txt", "synthetic.txt")  # an empty file of this name declares the texts beside it public or synthetic


def is_marked(card: DatasetCard) -> bool:
    """Whether the owner has declared these texts public or synthetic. Raises as `find` does."""
    folder = find(card).train[0].parent
    return any((folder / mark).is_file() for mark in MARKS)


def refusal(card: DatasetCard) -> str | None:
    """The reason why texts of this dataset are not shown, in one sentence; None where they may be."""
    if card.may_show:
        return None
    if card.is_own:
        folder = roots(card)[0] / card.folder
        return (
            f"{card.name} may hold private texts, so none is shown: a page with the words of one is a release without any "
            f"protection; if they are public or synthetic, say so with an empty file {MARKS[0]} or {MARKS[1]} in {folder}"
        )
    return f"{card.title} holds accounts of distress that people wrote under no name: none of them is shown"


# Downloads public datasets from the Hugging Face hub into the cache.


_PROBE_SECONDS = 1.0
_PROBE_LASTS_SECONDS = 300


def is_reachable() -> bool:
    """Whether the hub answers within a second; cached for five minutes. False with HF_HUB_OFFLINE=1."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return False
    return _answers(int(time.monotonic() // _PROBE_LASTS_SECONDS))


def fetch(card: DatasetCard) -> None:
    """Downloads the dataset into the cache, under the names that `find` expects.

    An interrupted download leaves nothing behind. Raises DataMissing naming the files to add, OSError for a full disk.
    """
    assert card.hub is not None
    if not is_reachable():
        raise DataMissing(FIELD, card.name, _wish_for_hub(card, "the Hugging Face hub cannot be reached"))
    from huggingface_hub import snapshot_download  # takes a second to import, and only downloads need it

    target = paths.inside(cache_dir(), card.folder, FIELD)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    patterns = {split: pattern for split, pattern in (("train", card.hub.train), ("test", card.hub.test)) if pattern}
    try:
        paths.made(partial.parent)
        snapshot_download(
            card.hub.repository, repo_type="dataset", allow_patterns=list(patterns.values()), local_dir=partial / "download"
        )
        (partial / "ready").mkdir()
        for split, pattern in patterns.items():
            _gather(partial / "download", pattern, partial / "ready", split)
        _put(partial / "ready", target)
    except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        reason = f"the Hugging Face hub did not give it ({type(error).__name__})"
        raise DataMissing(FIELD, card.name, _wish_for_hub(card, reason)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _gather(download: Path, pattern: str, ready: Path, split: str) -> None:
    """Moves a split's files to `split-00000-of-NNNNN.parquet`, in the order of their names on the hub."""
    shards = sorted(path for path in download.rglob("*.parquet") if fnmatch(path.relative_to(download).as_posix(), pattern))
    if not shards:
        raise FileNotFoundError(pattern)
    for index, path in enumerate(shards):
        path.rename(ready / f"{split}-{index:05d}-of-{len(shards):05d}.parquet")


def _put(ready: Path, target: Path) -> None:
    try:
        ready.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:  # another process has just put the same files there
            raise


def _wish_for_hub(card: DatasetCard, reason: str) -> str:
    return f"{wish(card)}; it is not on this computer, and {reason}"


@lru_cache(maxsize=1)
def _answers(_period: int) -> bool:
    answer: list[bool] = []
    thread = threading.Thread(target=_ask, args=(answer,), daemon=True)  # name resolution alone can hang for many seconds
    thread.start()
    thread.join(_PROBE_SECONDS)
    return bool(answer)


def _ask(answer: list[bool]) -> None:
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    with suppress(OSError, ValueError, http.client.HTTPException):
        with suppress(urllib.error.HTTPError):  # an error status is an answer, too
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_PROBE_SECONDS).close()
        answer.append(True)
