"""Copies what a user brings into the folder of a dataset: a table, pictures by class, or what an archive holds of them."""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import stat
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath

from dpcl_core import paths
from dpcl_core.data import files, images
from dpcl_core.data.card import PICTURES, DatasetCard
from dpcl_core.data.files import TABLES, ending
from dpcl_core.data.tables import MAX_BYTES as MAX_PICTURE
from dpcl_core.errors import BadInput, DataMissing

FIELD = "--data"
# What is read: every list of forms, on the page and in messages, is made of this one.
READ: Mapping[str, tuple[str, ...]] = {
    "CSV": (".csv", ".data"), "TSV": (".tsv", ".tab"), "Excel": (".xlsx",), "Parquet": (".parquet", ".pq"),
    "Feather": (".feather",), "JSON": (".json",), "JSON lines": (".jsonl", ".ndjson"), "CoNLL": (".conll", ".iob2", ".bio"),
    "NPZ": (".npz",), "tables in .gz": (".gz",),
}  # fmt: skip
LISTED = f"{', '.join(READ)}, or a zip of tables, or of pictures in CLASS/ or train/CLASS/"
FORMS = f"must be one of the forms {LISTED.replace('a zip', 'a folder or zip')}"
NOTHING = (
    "holds no table, and no picture in CLASS/ or train/CLASS/ that is read "
    f"({', '.join(one.removeprefix('.') for one in PICTURES)}: save others, such as HEIC, as JPEG)"
)
SUFFIXES = (*(one for endings in READ.values() for one in endings), ".zip")
MAX_BYTES = 4 * 2**30
MAX_FILES = 200_000
_BLOCK = 4096  # bytes that the smallest file takes on a disk
_KEPT = ("public.txt", "synthetic.txt")


def copied(path: Path, folder: Path, most: int) -> int:
    """Copies what can be data, and says when it was last written. Raises BadInput for what cannot."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise BadInput(FIELD, path.name, "is not there: give the path of a file or folder") from None
    except (OSError, RuntimeError) as error:
        raise BadInput(FIELD, path.name, "must be a file or a folder that you can read") from error
    if stat.S_ISDIR(mode):
        return _copy_folder(path, folder, most)
    if not stat.S_ISREG(mode):
        raise BadInput(FIELD, path.name, "must be a file or a folder, not a pipe or a device")
    if path.suffix.lower() == ".zip":
        written = _last_written(path)
        _unzip(path, folder, most)
        return written
    if path.stat().st_size > most:
        raise BadInput(FIELD, path.name, f"must have at most {most:,} bytes")
    return _copy_table(path, folder, folder.name, most)


def _copy_table(path: Path, folder: Path, stem: str, most: int) -> int:
    """Copies a table in a usual form. Raises BadInput for one that is not read."""
    from dpcl_core.data import conversions  # imported late, like pyarrow

    written = _last_written(path)
    if conversions.convert(path, folder, stem, most):
        return written
    if ending(path) not in TABLES:
        raise conversions.refused(path, FIELD, FORMS)
    return _copy(path, folder / f"{stem}{ending(path)}")


def _copy(one: Path, to: Path) -> int:
    """Copies a file; when it was last written, asked before: what is written while it is copied counts as later."""
    written = _last_written(one)
    shutil.copyfile(one, to)
    return written


def _last_written(one: Path) -> int:
    """When a file, or the list of files in a folder, was written, or put in the place of another: nanoseconds since 1970."""
    about = one.stat()
    return max(about.st_mtime_ns, about.st_ctime_ns)


def _copy_folder(path: Path, folder: Path, most: int) -> int:
    """Copies tables, and pictures by class. Links are not followed: they may lead anywhere, or in a circle."""
    from dpcl_core.data import conversions

    written = _last_written(path)
    if conversions.of_hub_folder(path, folder):
        return written
    found = sorted(one for one in path.iterdir() if one.is_file() and not one.is_symlink())
    tables = [one for one in found if ending(one) in TABLES]
    if not tables and next(_pictures(path, path), None) is None:
        tables = [one for one in found if one.suffix.lower() in SUFFIXES[:-1]]
    if tables:
        total = sum(one.stat().st_size for one in tables)
        if total > most:
            raise BadInput(FIELD, path.name, f"must have at most {most:,} bytes in all")
        copied_at = [_copy(one, folder / one.name) for one in found if one.name in _KEPT]
        stems = {one: _part(one.name[: -len(conversions.ending_of(one))]) for one in tables}
        return max(written, *copied_at, *(_copy_table(one, folder, stem, most) for one, stem in stems.items()))
    total = n_files = 0
    for one in _pictures(path, path):
        size = one.stat().st_size
        total, n_files = total + size, n_files + 1
        _refuse_more(path, total, n_files, most)
        outer, *inner = one.relative_to(path).parts
        to = folder.joinpath(_part(outer), *inner)
        to.parent.mkdir(parents=True, exist_ok=True)
        written = max(written, _last_written(one.parent), _copy(one, to))
    if not n_files:
        raise BadInput(FIELD, path.name, NOTHING)
    return written


def _pictures(folder: Path, top: Path) -> Iterator[Path]:
    """The pictures below a folder, at most three folders deep (train/CLASS/NAME)."""
    for one in sorted(folder.iterdir()):
        if one.is_symlink() or one.name.startswith("."):
            continue
        if one.is_dir() and len(one.relative_to(top).parts) < 3:
            yield from _pictures(one, top)
        elif one.name.lower().endswith(PICTURES) and one.is_file() and len(one.relative_to(top).parts) > 1:
            yield one


def _unzip(path: Path, folder: Path, most: int) -> None:
    """Unpacks the pictures of an archive by class, or its tables, never beside the folder and never more than announced."""
    n_read = 0
    try:
        with zipfile.ZipFile(path) as archive:
            members = {place: one for one in archive.infolist() if (place := _place(one, PICTURES)) is not None}
            if not members and (tables := {at: one for one in archive.infolist() if (at := _place(one, SUFFIXES[:-1]))}):
                _refuse_more(path, sum(one.file_size for one in tables.values()), len(tables), most)
                return _tables(archive, tables, folder, most)
            _refuse_more(path, sum(max(_BLOCK, one.file_size) for one in members.values()), len(members), most)
            for place, one in members.items():
                to = folder.joinpath(*_by_class(place))
                if to == folder:
                    continue
                if to.exists():  # of two outer folders; named by itself alone: no private picture renames a public one
                    to = to.with_name(f"{sha256(one.filename.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}-{to.name}")
                to.parent.mkdir(parents=True, exist_ok=True)
                content = _unpacked(archive, one)
                n_read += content is not None
                # A picture that is damaged is none, and leaves the others alone.
                to.write_bytes(images.trimmed(content or b""))
        if members and not n_read:
            raise zipfile.BadZipFile
    except (BadInput, OSError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, lzma and bz2 each raise their own for damaged content
        allowed = "must be a zip file without a password; this one is damaged or of another kind"
        raise BadInput(FIELD, path.name, allowed) from error
    if not any(folder.iterdir()):
        raise BadInput(FIELD, path.name, NOTHING)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | None:
    """A picture; of one that is too large, as much as shows that it is; None for one that cannot be unpacked."""
    try:
        with archive.open(member) as packed:
            return packed.read(min(member.file_size, MAX_PICTURE + 1))
    except MemoryError:
        raise
    except Exception:  # zipfile, zlib, lzma and bz2 each raise their own for damaged content
        return None


def _tables(archive: zipfile.ZipFile, members: Mapping[PurePosixPath, zipfile.ZipInfo], folder: Path, most: int) -> None:
    """Unpacks tables as they would lie in a folder. Raises BadInput for two of one name."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as root:
        for place, one in members.items():
            to = Path(root) / place.name
            if to.exists():
                raise BadInput(FIELD, place.name, "must lie in the zip once: one folder of tables is a dataset")
            with archive.open(one) as packed, to.open("xb") as file:
                shutil.copyfileobj(packed, file)
        _copy_folder(Path(root), folder, most)


def _place(member: zipfile.ZipInfo, endings: tuple[str, ...]) -> PurePosixPath | None:
    """Where a member goes; None for folders, links, hidden files, other endings, and names that lead elsewhere."""
    place = PurePosixPath(member.filename)
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    is_hidden = any(part.startswith(".") or part == "__MACOSX" for part in place.parts)
    is_odd = place.is_absolute() or any(len(part) > 200 or part == ".." or "\\" in part for part in place.parts)
    if member.is_dir() or is_link or is_hidden or is_odd or not member.filename.lower().endswith(endings):
        return None
    return place


def _part(name: str) -> str:
    """The name of a folder or table; of a part of the data, as it is usually written."""
    low = {"training": files.TRAIN, "testing": files.TESTS[0]}.get(name.lower(), name.lower())
    return low if low in (files.TRAIN, *files.TESTS) else name


def _by_class(place: PurePosixPath) -> tuple[str, ...]:
    """The member's CLASS/NAME, below train or test where it lies there; nothing for one that has no such place.

    Outer folders are left out of each member alone: a private picture moves no other one.
    """
    parts, splits = [_part(one) for one in place.parts], (files.TRAIN, *files.TESTS)
    if len(parts) > 2 and parts[-3] in splits:
        return tuple(parts[-3:])
    return tuple(parts[-2:]) if len(parts) > 1 and not {*parts[:-1]} & {*splits} else ()


def _refuse_more(path: Path, total: int, n_files: int, most: int) -> None:
    if total > most or n_files > MAX_FILES:
        raise BadInput(FIELD, path.name, f"must have at most {MAX_FILES:,} pictures and {most:,} bytes in all, unpacked")


def join(folder: Path, name: str) -> None:
    """Moves the rows of a part into the training part. Raises BadInput where there is none, or another form."""
    part = next((one for one in folder.iterdir() if one.stem == name and name in files.TESTS[1:]), None)
    if part is None:
        raise BadInput("--private", name, f"must be a part beside train, called {', '.join(files.TESTS[1:])}")
    if part.is_dir():
        for one in [one for one in part.rglob("*") if one.is_file()]:
            to = folder / files.TRAIN / one.parent.relative_to(part) / f"{name}-{one.name}"
            to.parent.mkdir(parents=True, exist_ok=True)
            one.rename(to)
        shutil.rmtree(part)
        return
    train = folder / f"{files.TRAIN}{part.suffix}"
    first, _, rest = part.read_bytes().partition(b"\n")
    is_named = part.suffix in (".csv", ".tsv")
    with train.open("r+b") as file:
        if part.suffix not in (".csv", ".tsv", ".jsonl") or (is_named and file.readline().strip() != first.strip()):
            allowed = f"must have the columns of {train.name}, in its order, as CSV or JSON lines: else join them yourself"
            raise BadInput("--private", name, allowed)
        file.seek(0, 2)
        file.write(b"\n" + (rest if is_named else first + b"\n" + rest))
    part.unlink()


# Downloads public datasets from the Hugging Face hub into the cache.


_PROBE_SECONDS = 1.0
_PROBE_LASTS_SECONDS = 300


def is_reachable() -> bool:
    """Whether the hub answers within a second; cached for five minutes. False with HF_HUB_OFFLINE=1."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return False
    return _answers(int(time.monotonic() // _PROBE_LASTS_SECONDS))


def fetch(card: DatasetCard) -> None:
    """Downloads the dataset into the cache, under the names that `files.find` expects.

    An interrupted download leaves nothing behind. Raises DataMissing naming the files to add, OSError for a full disk.
    """
    assert card.hub is not None
    if not is_reachable():
        raise DataMissing(files.FIELD, card.name, _wish(card, "the Hugging Face hub cannot be reached"))
    from huggingface_hub import snapshot_download  # takes a second to import, and only downloads need it

    target = paths.inside(files.cache_dir(), card.folder, files.FIELD)
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
        raise DataMissing(files.FIELD, card.name, _wish(card, reason)) from error
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


def _wish(card: DatasetCard, reason: str) -> str:
    return f"{files.wish(card)}; it is not on this computer, and {reason}"


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
