"""Files of datasets: which ones there are on this computer or the hub, and how one process alone writes them."""

import errno
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from dpcl_core import paths
from dpcl_core.data.card import PICTURES, DatasetCard
from dpcl_core.data.columns import pa, pq
from dpcl_core.errors import BadInput, DataMissing, instead_of

if sys.platform == "win32":
    import msvcrt
elif sys.platform != "emscripten":  # in a page of a browser there is no other process
    import fcntl

FIELD = "data.dataset"
BUNDLED = "digits"  # the one set that needs no file
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

    Both are empty for the bundled digits. `test` is empty for a set without a test part, if its card allows dividing it.
    """

    train: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def is_folder(self) -> bool:
        return bool(self.train) and self.train[0].suffix not in TABLES


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a split (none: the bundled digits), and their names, times and sizes. `is_private`: nothing of their rows
    is reported."""

    card: DatasetCard
    paths: tuple[Path, ...]
    stamp: tuple[tuple[str, int], ...]
    is_private: bool = True


def ending(path: Path) -> str:
    """The usual ending of a file of this form."""
    return ALIKE.get(path.suffix.lower(), path.suffix.lower())


def cache_dir() -> Path:
    """The folder of downloaded datasets, one folder each."""
    return paths.home() / "hub"


def roots(card: DatasetCard) -> tuple[Path, ...]:
    """The parent folders searched for the dataset's folder, in this order."""
    return own_roots() if card.is_own else (*_local(), cache_dir(), paths.assets_dir() / "features")


def own_roots() -> tuple[Path, ...]:
    """The parent folders searched for own data, in this order."""
    only = _ONLY_IN.get()
    return (*_local(), paths.home() / "data") if only is None else (only,)


def _local() -> tuple[Path, ...]:
    return () if (local := paths.data_dir()) is None else (local,)


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
    if card.name == BUNDLED:
        return DataFiles((), ())
    if card.made_per_source:
        return _made(card)
    for root in roots(card):
        folder = paths.inside(root, card.folder, FIELD)
        with instead_of(PermissionError, say=BadInput(FIELD, card.name, f"its folder {folder} must be readable by you")):
            if not folder.is_dir():
                continue
            found = _in_folder(card, folder)
            for path in (*found.train, *found.test):
                if not (path.is_file() or path.is_dir()):  # it would never end
                    raise BadInput(FIELD, card.name, f"{path.name} must be a file or a folder, not a pipe or a device")
            return found
    raise DataMissing(FIELD, card.name, f"{wish(card)}; it is not on this computer")


def wish(card: DatasetCard) -> str:
    """The instruction which files to put into which folder, so that `find` finds them."""
    also = _OWN_FILES.get(card.kind, "") if card.is_own else ""
    return f"put train.parquet and test.parquet ({_COLUMNS[card.kind]}{also} into {roots(card)[0] / card.folder}"


def _in_folder(card: DatasetCard, folder: Path) -> DataFiles:
    train, test = _split(folder, "train", card), _split(folder, "test", card)
    if card.is_own and train:
        test = next((found for name in TESTS if (found := _split(folder, name, card))), ())
    if card.is_own and not train and not test:
        tables = sorted(path for ending in TABLES for path in folder.glob(f"*{ending}"))
        inner = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
        if len(tables) == 1:
            paths.inside(folder, tables[0].name, FIELD)
            train = (tables[0],)
        elif not tables and any(path.name.lower().endswith(PICTURES) for one in inner for path in one.iterdir()):
            train = (folder,)  # whose folders are classes
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


def _split(folder: Path, split: str, card: DatasetCard) -> tuple[Path, ...]:
    shards = sorted(folder.glob(f"{split}-*.parquet"))
    endings = TABLES if card.is_own or card.kind == "embedding" else TABLES[:1]
    candidates = [table for ending in endings if (table := folder / f"{split}{ending}").exists()]
    candidates += [images for images in (folder / split,) if images.is_dir()]
    if len(candidates) + bool(shards) > 1:
        raise BadInput(FIELD, card.name, f"{folder} holds its {split} part in two forms; keep one of them")
    for path in (*candidates, *shards):
        paths.inside(folder, path.name, FIELD)  # refuses links that lead out
    for shard in shards:
        match = _SHARD.fullmatch(shard.name)
        if match is None:
            raise BadInput(FIELD, card.name, f"{shard.name} must be named like train-00000-of-00003.parquet")
        if len(shards) != int(match[2]):
            allowed = f"put all {int(match[2])} pieces into {shard.parent}; {len(shards)} are there"
            raise DataMissing(FIELD, card.name, allowed)
    return tuple(candidates or shards)


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
        why = "it is not on this computer, and the Hugging Face hub cannot be reached"
        raise DataMissing(FIELD, card.name, f"{wish(card)}; {why}")
    from huggingface_hub import snapshot_download  # takes a second to import, and only downloads need it

    target = paths.inside(cache_dir(), card.folder, FIELD)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    patterns = {split: pattern for split, pattern in (("train", card.hub.train), ("test", card.hub.test)) if pattern}
    try:
        paths.make_folder(partial.parent)
        snapshot_download(
            card.hub.repository, repo_type="dataset", allow_patterns=list(patterns.values()), local_dir=partial / "download"
        )
        for split, pattern in patterns.items():  # `split-00000-of-NNNNN.parquet`, in the order of their names on the hub
            found = sorted((partial / "download").rglob("*.parquet"))
            shards = [path for path in found if fnmatch(path.relative_to(partial / "download").as_posix(), pattern)]
            if not shards:
                raise FileNotFoundError(pattern)
            (partial / "ready").mkdir(exist_ok=True)
            for index, path in enumerate(shards):
                path.rename(partial / "ready" / f"{split}-{index:05d}-of-{len(shards):05d}.parquet")
        try:
            (partial / "ready").rename(target)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:  # another process has just put the same files there
                raise
    except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        why = f"the Hugging Face hub did not give it ({type(error).__name__})"
        raise DataMissing(FIELD, card.name, f"{wish(card)}; it is not on this computer, and {why}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@lru_cache(maxsize=1)
def _answers(_period: int) -> bool:
    from threading import Thread  # name resolution alone can hang for many seconds

    answer: list[bool] = []
    thread = Thread(target=_ask, args=(answer,), daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS)
    return bool(answer)


def _ask(answer: list[bool]) -> None:
    from http.client import HTTPException
    from urllib import error, request

    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    with suppress(OSError, ValueError, HTTPException):
        with suppress(error.HTTPError):  # an error status is an answer, too
            request.urlopen(request.Request(address, method="HEAD"), timeout=_PROBE_SECONDS).close()
        answer.append(True)


# Files of the synthetic corpus, which is generated in a second.


_VERSION = 1  # counts changes of the code that makes the corpus
_RECORD = "made.json"
_SPLITS = ("train", "test")


def _made(card: DatasetCard) -> DataFiles:
    """The files of the generated dataset, made if necessary. Raises BadInput where its folder cannot be written."""
    from importlib.metadata import version

    from dpcl_core.data.synthetic import template_file  # loaded only where the corpus is used

    folder = cache_dir() / card.folder
    identity = f"{_VERSION} {version('faker')} {card.made_per_source} {sha256(template_file()).hexdigest()}"
    train, test = (folder / f"{split}.parquet" for split in _SPLITS)
    stamps = tuple(path.stat().st_mtime_ns for path in (folder / _RECORD, train, test) if path.exists())
    said = f"{folder} must be a folder that you can write"
    with instead_of(OSError, say=lambda error: BadInput(FIELD, card.name, f"{said}: {error.strerror or error}")):
        if not _is_whole(folder, identity, stamps):
            _make(folder, card.made_per_source, identity)
    return DataFiles((train,), (test,))


@lru_cache(maxsize=8)
def _is_whole(folder: Path, identity: str, _stamps: tuple[int, ...]) -> bool:
    """Whether the files are byte for byte those written for this version; cached until one of them changes."""
    with suppress(OSError, ValueError):
        digests = {split: sha256((folder / f"{split}.parquet").read_bytes()).hexdigest() for split in _SPLITS}
        return bool(json.loads((folder / _RECORD).read_bytes()) == {"identity": identity, **digests})
    return False


def _make(folder: Path, n_per_source: int, identity: str) -> None:
    """Writes both parts, and last the record that they are complete; concurrent writers write the same bytes."""
    from dpcl_core.data.synthetic import classes, corpus
    from dpcl_core.data.texts import Texts

    names = [(source, label) for source, labels in classes() for label in labels]
    paths.make_folder(folder)
    record = {"identity": identity}
    for split, part in zip(_SPLITS, corpus(n_per_source), strict=True):
        assert isinstance(part.images, Texts)
        columns = {
            "text": list(part.images.strings),
            "label": pa.array(part.labels, pa.int16()),
            "label_name": [names[label][1] for label in part.labels],
            "domain": [names[label][0] for label in part.labels],
            "person": part.images.people,
            "spans": [[asdict(span) for span in spans] for spans in part.images.spans or ()],
        }
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), buffer)
        content = buffer.getvalue().to_pybytes()
        record[split] = sha256(content).hexdigest()
        with replacing(folder / f"{split}.parquet") as file:
            file.write(content)
    with replacing(folder / _RECORD) as file:
        file.write(json.dumps(record).encode())


# A file that one process holds at a time, and one that is written in one step, so that no reader sees half of it.


@contextmanager
def hold_file(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Within this context this process holds the file, which is made where there is none. Raises OSError.

    False: it does not, because another one does and `wait` is not set, or because this file system holds no files.
    """
    writers = path.parent.stat().st_mode & 0o022  # whoever may write the folder takes turns with the file, which is empty
    handle = paths.open_file(path, os.O_RDWR, 0o600 | writers | writers << 1)
    is_held = True
    try:
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            elif sys.platform != "emscripten":
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            is_held = False
        yield is_held
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, readable by its owner only, that takes the place of `path` at the end; nothing is left after an error.

    Of several writers the last one wins.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem[:16]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
