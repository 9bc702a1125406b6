"""Copies what a user brings into the folder of a dataset: a table, pictures by class, or what an archive holds of them."""

import gzip
import io
import json
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath

import numpy as np

from dpcl_core import machine
from dpcl_core.data import dataset, files, handed
from dpcl_core.data.card import PICTURES
from dpcl_core.data.columns import pa, pq
from dpcl_core.data.files import TABLES, ending
from dpcl_core.data.sheets import MAX_BYTES
from dpcl_core.data.tables import MAX_BYTES as MAX_PICTURE
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.later import pd

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
MAX_FILES = 200_000
_BLOCK = 4096  # bytes that the smallest file takes on a disk


def copied(path: Path, folder: Path, most: int) -> int:
    """Copies what can be data, and says when it was last written. Raises BadInput for what cannot."""
    unread = BadInput(FIELD, path.name, "must be a file or a folder that you can read")
    gone = BadInput(FIELD, path.name, "is not there: give the path of a file or folder")
    with instead_of(OSError, RuntimeError, say=unread), instead_of(FileNotFoundError, say=gone):
        mode = path.stat().st_mode
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
    """Copies a table in a usual form. Raises BadInput for one that is not read, with the call that converts it."""
    written = _last_written(path)
    if convert(path, folder, stem, most):
        return written
    if ending(path) in TABLES:
        return _copy(path, folder / f"{stem}{ending(path)}")
    call = _CALLS.get(path.suffix.lower())
    how = FORMS if call is None else f"is not read as it is; convert it by {call.replace('FILE', repr(path.name))}"
    raise BadInput(FIELD, path.name, how)


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
    written = _last_written(path)
    if _of_hub_folder(path, folder):
        return written
    found = sorted(one for one in path.iterdir() if one.is_file() and not one.is_symlink())
    tables = [one for one in found if ending(one) in TABLES]
    if not tables and next(_pictures(path, path), None) is None:
        tables = [one for one in found if one.suffix.lower() in SUFFIXES[:-1]]
    if tables:
        total = sum(one.stat().st_size for one in tables)
        if total > most:
            raise BadInput(FIELD, path.name, f"must have at most {most:,} bytes in all")
        copied_at = [_copy(one, folder / one.name) for one in found if one.name in files.MARKS]
        stems = {one: _part(one.name[: -len(ending_of(one))]) for one in tables}
        return max(written, *copied_at, *(_copy_table(one, folder, stem, most) for one, stem in stems.items()))
    total = n_files = 0
    for one in _pictures(path, path):
        total, n_files = total + one.stat().st_size, n_files + 1
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
            endings = (*SUFFIXES[:-1], ".arrow")
            if not members and (tables := {at: one for one in archive.infolist() if (at := _place(one, endings))}):
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
                to.write_bytes(dataset.trimmed(content or b""))
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
    """Unpacks tables as they would lie in one folder, or in those of `save_to_disk`. Raises BadInput for two of one name."""
    is_of_hub = any(place.name in _HUB for place in members)
    with tempfile.TemporaryDirectory(dir=folder.parent) as root:
        for place, one in members.items():
            to = Path(root) / (place if is_of_hub else place.name)
            to.parent.mkdir(parents=True, exist_ok=True)
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
    parts, splits = [_part(one) for one in place.parts], {files.TRAIN, *files.TESTS}
    if len(parts) > 2 and parts[-3] in splits:
        return tuple(parts[-3:])
    return tuple(parts[-2:]) if len(parts) > 1 and splits.isdisjoint(parts[:-1]) else ()


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


_GZ = (".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.gz")
_BY_PANDAS = {".xls": "excel", ".ods": "excel", ".sav": "spss", ".dta": "stata", ".sas7bdat": "sas", ".orc": "orc"}
# By ending: the one call in Python that makes a file which is read here.
_CALLS: Mapping[str, str] = {
    ".arff": "pandas.DataFrame(scipy.io.arff.loadarff(FILE)[0]).to_parquet(...)",
    **{ending: f"pandas.read_{reader}(FILE).to_parquet(...)" for ending, reader in _BY_PANDAS.items()},
    ".h5": "numpy.savez(..., embeddings=h5py.File(FILE)['x'][:], labels=h5py.File(FILE)['y'][:])",
    ".mat": "numpy.savez(..., embeddings=scipy.io.loadmat(FILE)['x'], labels=scipy.io.loadmat(FILE)['y'].ravel())",
    ".pkl": "pandas.read_pickle(FILE).to_parquet(...), of a file that you trust",
    ".npy": "numpy.savez(..., embeddings=numpy.load(FILE), labels=...)",
    ".txt": "pandas.read_csv(FILE, sep=None, engine='python').to_csv(..., index=False)",
}
_HUB = "dataset_dict.json", "dataset_info.json"


def ending_of(path: Path) -> str:
    """The ending that says what a file is: of a compressed one, both."""
    return next((one for one in _GZ if path.name.lower().endswith(one)), path.suffix.lower())


def convert(path: Path, folder: Path, stem: str, most: int) -> bool:
    """Writes what a file holds into a folder in a usual form; False for a file that is none of these.

    `most`: bytes when unpacked. Raises BadInput for a file that cannot be read.
    """
    kind = ending_of(path)
    plain = kind.removesuffix(".gz")
    if kind not in (*_READERS, *_GZ):
        return False
    allowed = f"must be a whole {kind} file; this one is damaged or of another kind"
    with instead_of(Exception, say=BadInput(FIELD, path.name, allowed)):  # each library raises its own for a damaged file
        with gzip.open(path) if kind in _GZ else path.open("rb") as file:
            content = file.read(most + 1 if kind in _GZ else -1)
        if kind in _GZ and len(content) > most:
            raise BadInput(FIELD, path.name, f"must have at most {most:,} bytes when unpacked")
        if plain in _READERS:
            _READERS[plain](content, folder, stem)
        else:
            (folder / f"{stem}{plain}").write_bytes(content)
    return True


def _of_hub_folder(path: Path, folder: Path) -> bool:
    """Writes what `save_to_disk` of Hugging Face's datasets has left in a folder as parquet; False for another folder."""
    inner = _folders(path)
    place = next((one for one in (path, *inner[: len(inner) == 1]) if any((one / name).is_file() for name in _HUB)), None)
    if place is None:
        return False
    for part in _folders(place) or [place]:
        pieces = sorted(part.glob("*.arrow"))
        allowed = "must be whole as save_to_disk has left it; else save it by load_from_disk(...).to_parquet(...)"
        if pieces:
            with instead_of(pa.ArrowException, say=BadInput(FIELD, place.name, allowed)):
                tables = [pa.ipc.open_stream(io.BytesIO(piece.read_bytes())).read_all() for piece in pieces]
                pq.write_table(pa.concat_tables(tables), folder / f"{part.name}.parquet")
    return True


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.is_dir() and not one.is_symlink())


def _json(content: bytes, folder: Path, stem: str) -> None:
    """A JSON array of objects, one line each, numbers as they are written; or lines of objects under the name of JSON."""
    text, found = content.decode("utf-8-sig"), None
    try:
        found = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        if text.lstrip().startswith("["):
            raise
    if isinstance(found, dict):
        allowed = "is one JSON object: save its records as lines, by to_json(..., orient='records', lines=True)"
        raise BadInput(FIELD, f"{stem}.json", allowed)
    lines = map(json.dumps, found) if isinstance(found, list) else [text]
    (folder / f"{stem}.jsonl").write_text("\n".join(lines), encoding="utf-8")




def _feather(content: bytes, folder: Path, stem: str) -> None:
    import pyarrow.feather as pf  # loaded only where it is needed

    pq.write_table(pf.read_table(io.BytesIO(content)), folder / f"{stem}.parquet")


def _excel(content: bytes, folder: Path, stem: str) -> None:
    """The sheet of an Excel file, whose first row names the columns. Raises BadInput for several: one is a dataset."""
    if lacking := machine.lacking(["openpyxl"]):
        raise BadInput(FIELD, f"{stem}.xlsx", lacking)
    found = pd.read_excel(io.BytesIO(content), dtype=object, sheet_name=None)
    if len(filled := [name for name, frame in found.items() if len(frame.columns)]) != 1:
        raise BadInput(FIELD, f"{stem}.xlsx", f"must have one sheet that holds rows; it has {len(filled)}")
    frame = found[filled[0]]
    handed.of_frame(frame.set_axis([*map(str, frame.columns)], axis=1), folder / f"{stem}.xlsx")


def _npz(content: bytes, folder: Path, stem: str) -> None:
    """Arrays called as by Keras (x_train, y_train) or MedMNIST (train_images, train_labels), by part; others as they are."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        names = {name.lower(): name for name in found.files}
        forms = [("x_{}", "y_{}"), ("{}_images", "{}_labels"), ("{}_x", "{}_y")]
        for part in ("train", "test", "val"):
            pairs = [(rows.format(part), labels.format(part)) for rows, labels in forms]
            pair = next((one for one in pairs if names.keys() >= {*one}), None)
            if pair is not None:  # vectors as NPZ, pictures by class, as they are written of arrays that Python holds
                arrays = found[names[pair[0]]], found[names[pair[1]]].ravel()
                written = handed.of_arrays(arrays, folder / f"{part}.npz")
                if written.suffix == ".zip":
                    (folder / part).mkdir()
                    _unzip(written, folder / part, MAX_BYTES)
                    written.unlink()
            elif part == files.TRAIN:
                (folder / f"{stem}.npz").write_bytes(content)
                return


_READERS: Mapping[str, Callable[[bytes, Path, str], None]] = {
    ".json": _json, ".feather": _feather, ".xlsx": _excel, ".npz": _npz,
}  # fmt: skip
