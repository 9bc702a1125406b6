"""Files of forms that are turned into a usual one when they are taken in, and the call that converts each of the others.

A conversion reads a container (an archive, a JSON array, a sheet) as a whole. What is wrong with one record inside is judged
later, row by row; a container that cannot be read at all is refused in one sentence that holds for any content.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from dpcl_core import machine
from dpcl_core.data.arrow import pa, pq
from dpcl_core.errors import BadInput

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
    name = path.name.lower()
    return next((one for one in _GZ if name.endswith(one)), path.suffix.lower())


def refused(path: Path, field: str, allowed: str) -> BadInput:
    """The refusal of a file whose form is not read, with the call that converts it where there is one."""
    call = _CALLS.get(path.suffix.lower())
    if call is not None:
        allowed = f"is not read as it is; convert it by {call.replace('FILE', repr(path.name))}"
    return BadInput(field, path.name, allowed)


def convert(path: Path, folder: Path, stem: str, most: int) -> bool:
    """Writes what a file holds into a folder in a usual form; False for a file that is none of these.

    `most`: bytes when unpacked. Raises BadInput for a file that cannot be read.
    """
    kind = ending_of(path)
    reader = _READERS.get(kind.removesuffix(".gz"))
    if kind not in (*_READERS, *_GZ):
        return False
    try:
        content = _unpacked(path, most) if kind in _GZ else path.read_bytes()
        if reader is None:
            (folder / f"{stem}{kind.removesuffix('.gz')}").write_bytes(content)
        else:
            reader(content, folder, stem)
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # each library raises its own for a damaged file
        allowed = f"must be a whole {kind} file; this one is damaged or of another kind"
        raise BadInput("--data", path.name, allowed) from error
    return True


def of_hub_folder(path: Path, folder: Path) -> bool:
    """Writes what `save_to_disk` of Hugging Face's datasets has left in a folder as parquet; False for another folder."""
    inner = _folders(path)
    path = inner[0] if len(inner) == 1 and not any((path / name).is_file() for name in _HUB) else path
    if not any((path / name).is_file() for name in _HUB):
        return False

    parts = {one.name: one for one in _folders(path)} or {path.name: path}
    for name, part in parts.items():
        pieces = sorted(part.glob("*.arrow"))
        try:
            if pieces:
                tables = [pa.ipc.open_stream(io.BytesIO(piece.read_bytes())).read_all() for piece in pieces]
                pq.write_table(pa.concat_tables(tables), folder / f"{name}.parquet")
        except pa.ArrowException as error:
            allowed = "must be whole as save_to_disk has left it; else save it by load_from_disk(...).to_parquet(...)"
            raise BadInput("--data", path.name, allowed) from error
    return True


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.is_dir() and not one.is_symlink())


def _unpacked(path: Path, most: int) -> bytes:
    with gzip.open(path) as packed:
        content = packed.read(most + 1)
    if len(content) > most:
        raise BadInput("--data", path.name, f"must have at most {most:,} bytes when unpacked")
    return content


def _records(content: bytes, folder: Path, stem: str) -> None:
    """A JSON array of objects, or an object of records: one line each, its text as it was."""
    text = content.decode("utf-8-sig")
    if _is_one_object(text.strip()):
        allowed = "is one JSON object: save its records as lines, by to_json(..., orient='records', lines=True)"
        raise BadInput("--data", f"{stem}.json", allowed)
    is_array = text.lstrip().startswith("[")  # else JSON lines under the name of JSON
    lines = (" ".join(one.split("\n")) for one in _elements(text)) if is_array else [text]
    (folder / f"{stem}.jsonl").write_text("\n".join(lines), encoding="utf-8")


def _is_one_object(text: str) -> bool:
    try:
        return text.startswith("{") and _DECODER.raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def _elements(text: str) -> Iterator[str]:
    """The text of each element of a JSON array."""
    place = text.index("[") + 1
    while True:
        place += len(text[place:]) - len(text[place:].lstrip()) if text[place : place + 1].isspace() else 0
        if text[place] == "]":
            return
        _, end = _DECODER.raw_decode(text, place)
        yield text[place:end].replace("\r", " ")
        place = end
        while text[place] in ", \n\r\t":
            place += 1


_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def _feather(content: bytes, folder: Path, stem: str) -> None:
    import pyarrow.feather as pf  # loaded only where it is needed

    pq.write_table(pf.read_table(io.BytesIO(content)), folder / f"{stem}.parquet")


def _sheet(content: bytes, folder: Path, stem: str) -> None:
    """The sheet of an Excel file, whose first row names the columns. Raises BadInput for several: one is a dataset."""
    if lacking := machine.lacking(["openpyxl"]):
        raise BadInput("--data", f"{stem}.xlsx", lacking)
    import pandas as pd

    found = pd.read_excel(io.BytesIO(content), dtype=object, sheet_name=None)
    if len(filled := [name for name, frame in found.items() if len(frame.columns)]) != 1:
        raise BadInput("--data", f"{stem}.xlsx", f"must have one sheet that holds rows; it has {len(filled)}")
    frame = found[filled[0]]
    columns = {
        str(name): pa.array([None if pd.isna(one) else str(one) for one in frame[name]], pa.large_string())
        for name in frame.columns
    }
    pq.write_table(pa.table(columns), folder / f"{stem}.parquet")


def _arrays(content: bytes, folder: Path, stem: str) -> None:
    """Arrays called as by Keras (x_train, y_train) or MedMNIST (train_images, train_labels), by part; others as they are."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        names = {name.lower(): name for name in found.files}
        parts = {part: _part(names, part) for part in ("train", "test", "val")}
        if parts["train"] is None:
            (folder / f"{stem}.npz").write_bytes(content)
            return
        for part, pair in parts.items():
            if pair is not None:
                _write_part(found[pair[0]], found[pair[1]].ravel(), folder, part)


def _part(names: Mapping[str, str], part: str) -> tuple[str, str] | None:
    """The names of a part's rows and labels."""
    for rows, labels in ((f"x_{part}", f"y_{part}"), (f"{part}_images", f"{part}_labels"), (f"{part}_x", f"{part}_y")):
        if rows in names and labels in names:
            return names[rows], names[labels]
    return None


def _write_part(rows: np.ndarray, labels: np.ndarray, folder: Path, part: str) -> None:
    if rows.ndim == 2:
        np.savez(folder / f"{part}.npz", embeddings=rows, labels=labels)
        return
    if rows.dtype != np.uint8 or rows.ndim not in (3, 4) or len(labels) != len(rows):
        allowed = "must be numbers [rows, width] or pictures uint8 [rows, height, width] or [rows, height, width, 3]"
        raise BadInput("--data", f"array {part}", allowed)
    from PIL import Image

    for place, (pixels, label) in enumerate(zip(rows, labels.tolist(), strict=True)):
        to = folder / part / str(label) / f"{place:06d}.png"
        to.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.squeeze()).save(to)


_READERS: Mapping[str, Callable[[bytes, Path, str], None]] = {
    ".json": _records, ".feather": _feather, ".xlsx": _sheet, ".npz": _arrays,
}  # fmt: skip
