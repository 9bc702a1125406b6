"""What a program hands over: rows, labels and persons for a private classifier; data to be taken in as a file is.

Refused is only what types, shapes, names and declarations show. What a single row shows is handled row by row, in silence
or by the rule for files.
"""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data.columns import pa, pc, pq
from dpcl_core.errors import BadInput
from dpcl_core.later import pd


def table_of(X: Any) -> Any:
    """Rows of numbers [n, K], as an array or as a frame with its names. Raises BadInput for what types and shapes show."""
    if hasattr(X, "tocsr"):
        raise BadInput("X", type(X).__name__, "must not be sparse: take .toarray()")
    X = _plain(X)
    if hasattr(X, "__arrow_c_stream__") and not isinstance(X, np.ndarray):
        return _frame(X)
    try:
        found = np.asarray(X, np.float64 if isinstance(X, list | tuple) else None)
    except (TypeError, ValueError):
        raise BadInput("X", type(X).__name__, "must have rows of numbers, all of one length") from None
    if found.dtype.kind not in "biuf" or found.dtype.itemsize > 8:
        allowed = "must be numbers of at most 8 bytes: texts, objects and Complex data not supported"
        raise BadInput("X", str(found.dtype), allowed)
    if found.ndim != 2:  # the library's own message shows numbers of the rows
        raise BadInput("X", f"{found.ndim} axes", "must have two, rows and columns: Reshape your data")
    return found


def _plain(values: Any) -> Any:
    """What it is, but for a tensor of torch, which becomes an array."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _frame(frame: Any) -> Any:
    """A frame of pandas with numbers alone, read by the types of its columns: what is missing becomes NaN."""
    frame = frame if isinstance(frame, pd.DataFrame) else pa.table(frame).to_pandas()
    names = [*frame.columns]
    if len({*names}) < len(names):
        raise BadInput("X columns", ", ".join(map(str, names[:12])), "must have different names")
    for name, kind in zip(names, frame.dtypes, strict=True):
        of_numbers = pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
        if not of_numbers or isinstance(kind, pd.SparseDtype):
            raise BadInput(f"X column {name}", str(kind), "must hold numbers, and not be sparse: convert it or leave it out")
    return pd.DataFrame(frame.to_numpy(dtype=np.float64, na_value=np.nan), columns=frame.columns)


def labels_of(y: Any, name: str, is_secret: bool) -> NDArray[Any]:
    """The labels, or persons, [n]. Refused is only what type and shape show.

    `is_secret`: what has no type of its own is taken one by one, so that no odd one changes how the others are read.
    """
    from sklearn.utils.validation import column_or_1d  # slow to load, and data that become a file need none of it

    if y is None:
        raise BadInput(name, None, "the classifier requires y to be passed, but the target y is None")
    y = _plain(y)
    has_type = not isinstance(y, list | tuple) and isinstance(getattr(y, "dtype", np.dtype("O")), np.dtype)
    if is_secret and not has_type and not hasattr(y, "columns"):
        values = [*y]
        y = np.empty(len(values), object)
        y[:] = values
    try:
        labels: NDArray[Any] = column_or_1d(y, warn=True)
    except ValueError:
        raise BadInput(name, type(y).__name__, "must have one entry for each row: a 1d array") from None
    if labels.dtype.kind not in "biufUSTO":
        raise BadInput(name, str(labels.dtype), "must hold texts or numbers")
    return labels


def read_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that are read from the data, and so may be refused for what they are. Raises ValueError."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise BadInput("y", "NaN or infinite", "must be labels where labels='data' reads them")
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(labels)
    return labels


def counted_rows(rows: NDArray[np.float64], places: NDArray[np.int64], people: NDArray[Any], most: int) -> NDArray[np.int64]:
    """Which rows [n, K] count: of each person at most so many, those with the smallest hash of their bytes and label.

    Which rows of a person count depends on that person's rows alone, and equal rows are one as good as another. So one
    person changes at most `most` rows. A row of nobody is left out.
    """
    coins = [blake2b(row.tobytes() + place.tobytes()).digest() for row, place in zip(rows, places, strict=True)]
    named, seen, kept = people.tolist(), Counter[Any](), []
    for row in sorted(range(len(rows)), key=coins.__getitem__):
        with suppress(TypeError):  # nothing that could name a person
            is_somebody = named[row] is not None and bool(named[row] == named[row])
            seen[named[row]] += 1
            if is_somebody and seen[named[row]] <= most:
                kept.append(row)
    return np.asarray(kept, np.int64)


def is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "UST" or (labels.dtype.kind == "O" and len(labels) > 0 and isinstance(labels[0], str))


def declared_names(classes: Any) -> NDArray[Any]:
    """Declared labels, ascending. Raises BadInput for a list that is none."""
    names = np.asarray(classes).tolist() if not isinstance(classes, str) and np.ndim(classes) == 1 else []
    of_text = {isinstance(name, str) for name in list(classes)} if names else set()
    if len(of_text) != 1 or any(name is None or name != name for name in names):
        raise BadInput("classes", classes, "must be a list of labels, all texts or all numbers")
    return np.unique(np.asarray(names))


def joined_names(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """All labels of both lists, ascending. Raises BadInput for texts beside numbers."""
    if len(one) and len(other) and is_text(one) != is_text(other):
        raise BadInput("classes", other[:3].tolist(), "must be of the kind of the others: all texts or all numbers")
    return np.unique(np.concatenate([one, other]) if len(one) else other)


def places_of(labels: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each label [n] among the known ones; -1 for any other, whatever it is."""
    places = {name: place for place, name in enumerate(known.tolist())}
    found = np.full(len(labels), -1, np.int64)
    for row, label in enumerate(labels.tolist()):
        with suppress(TypeError):  # nothing that could be a label
            found[row] = places.get(label, -1)
    return found


# Data that a Python program holds, written as a file that is then read like any other: one code path for both.


FIELD = "data"
TARGET = "label"  # the column of y
_FORMS = (
    "must be a data frame, (X, y), a path, a Dataset of the package datasets, or a dataset of torch that has a length and "
    "gives (x, y) for a number"
)
_CONVERT = "must hold numbers, texts or dates: convert it first"
_NO_DATASETS = (bytes, list, Mapping)  # which have a length, too
_FOLDER = re.compile(r"(?!\.)[^/\\\x00-\x1f]{1,100}")  # what can be the name of a class's folder


@contextmanager
def as_file(data: object, name: str = "data") -> Iterator[Path]:
    """Within this context the data lie at this path: a path as it is; else a file of their own, NAME.parquet, .npz or .zip.

    Raises BadInput for an object of another kind, and for types, shapes and names that no row could mend.
    """
    if isinstance(data, str | Path):
        yield Path(data)
        return
    with tempfile.TemporaryDirectory(prefix="dpcl-") as folder:
        yield _written(data, Path(folder) / paths.slug(name))


def _written(data: Any, stem: Path) -> Path:
    if hasattr(data, "features") and hasattr(data, "with_format") and hasattr(data, "__len__"):
        return _of_hub(data, stem)
    if hasattr(data, "columns"):
        if isinstance(data, pd.DataFrame):
            return of_frame(data, stem)
        if hasattr(data, "__arrow_c_stream__"):  # a frame of polars, a table of pyarrow, a relation of DuckDB
            return _of_table(pa.table(data), stem)
    elif isinstance(data, tuple):
        return of_arrays(data, stem)
    elif hasattr(data, "tensors") or (hasattr(data, "data") and hasattr(data, "targets")):
        return of_arrays(tuple(data.tensors) if hasattr(data, "tensors") else (data.data, data.targets), stem)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "dtype"):
        # A map-style dataset of torch, read once from the first to the last.
        rows: list[Any] = [] if isinstance(data, _NO_DATASETS) else [data[place] for place in range(len(data))]
        if not isinstance(data, _NO_DATASETS) and all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
            # A picture of Pillow is an array; what has one number only is that number.
            plain = (_plain(row[0]) for row in rows)
            inputs = [np.asarray(one) if hasattr(one, "__array_interface__") else one for one in plain]
            return of_arrays((inputs, [row[1].item() if hasattr(row[1], "item") else row[1] for row in rows]), stem)
    raise BadInput(FIELD, type(data).__name__, _FORMS)


def _of_hub(data: Any, stem: Path) -> Path:
    """A Hugging Face dataset, with the names of classes in the place of their numbers."""
    table, kinds = data.with_format("arrow")[:], data.features
    for place, name in enumerate(table.column_names):
        if names := getattr(kinds[name], "names", None):
            words = pa.array([*names], pa.string())
            is_known = pc.is_in(table[name], pa.array(range(len(names)), table[name].type))
            table = table.set_column(place, name, pc.take(words, pc.if_else(is_known, table[name], None)))
    pictures = [name for name in table.column_names if type(kinds[name]).__name__ == "Image"]
    if not pictures:
        return _of_table(table, stem)
    others = [name for name in table.column_names if name not in pictures]
    label = TARGET if TARGET in others else others[0] if len(others) == 1 else None
    if label is None or len(pictures) > 1:
        raise BadInput(f"{FIELD} columns", ", ".join(table.column_names), f"must be one of pictures and one called {TARGET}")
    return _of_pictures([_file(one) for one in table[pictures[0]].to_pylist()], table[label].to_pylist(), stem)


def _file(cell: Mapping[str, Any] | None) -> bytes:
    """The bytes of a picture's file; none where there is no such file."""
    if cell is None or cell["bytes"] is None:
        with suppress(OSError):
            return Path(cell["path"]).read_bytes() if cell and cell["path"] else b""
        return b""
    return bytes(cell["bytes"])


def _of_pictures(pictures: Sequence[Any], labels: Sequence[Any], stem: Path) -> Path:
    """Pictures, as files or uint8 [h, w] or [h, w, c], as a zip of CLASS/NAME: the form that is read member by member.

    A name is a digest of the picture, so that no row changes another's. A row that is no picture, or whose label can be no
    folder, is left out.
    """
    from PIL import Image

    path, seen = stem.with_suffix(".zip"), Counter[str]()
    with zipfile.ZipFile(path, "w") as archive:
        for picture, label in zip(pictures, labels, strict=True):
            content, name = picture, _as_text(label) or ""
            if not isinstance(picture, bytes):
                if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or picture.shape[2:] not in ((), (1,), (3,)):
                    continue
                content = io.BytesIO()
                Image.fromarray(picture.squeeze(2) if picture.shape[2:] == (1,) else picture).save(content, "PNG")
                content = content.getvalue()
            if not _FOLDER.fullmatch(name):
                continue
            file = f"{name}/{sha256(content).hexdigest()[:32]}"
            seen[file] += 1
            archive.writestr(f"{file}-{seen[file]}.png", content)
    return path


def _of_table(table: pa.Table, stem: Path) -> Path:
    """A table of Arrow as parquet, by the types of its columns."""
    return _as_parquet(table.column_names, len(table), lambda name: _typed(table[name], name), stem)


def _typed(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A column in a type that files of the field have."""
    kind = column.type
    if pa.types.is_dictionary(kind):  # of a categorical: each chunk has its words
        words = [_typed(pa.chunked_array([chunk.dictionary]), name).combine_chunks() for chunk in column.chunks]
        return pa.chunked_array(of.take(chunk.indices) for of, chunk in zip(words, column.chunks, strict=True))
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        raise BadInput(f"{FIELD} column {name}", str(kind), _CONVERT)
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    is_of_views = kind in (pa.string_view(), pa.null())
    return column.cast(pa.string()) if is_of_views else column.cast(pa.binary()) if kind == pa.binary_view() else column


def _as_parquet(names: Sequence[Any], n_rows: int, column: Callable[[str], pa.Array], stem: Path) -> Path:
    """A parquet file of these columns. Raises BadInput for names that are none, and where there is no row."""
    if wrong := next((name for name in names if not isinstance(name, str)), None):
        raise BadInput(f"{FIELD} columns", wrong, "must have names that are texts: data.columns = [...]")
    if twice := next((name for name in names if list(names).count(name) > 1), None):
        raise BadInput(f"{FIELD} columns", twice, "stands there twice: rename one of them")
    if not n_rows:
        raise BadInput(FIELD, "no rows", "must have at least one row")
    path = stem.with_suffix(".parquet")
    pq.write_table(pa.table({name: column(name) for name in names}), path)
    return path


def of_frame(frame: Any, stem: Path) -> Path:
    """A frame of pandas as a parquet file of this stem. The index is left out: it is no column."""
    return _as_parquet(list(frame.columns), len(frame), lambda name: _column(frame[name], name), stem)


def _column(series: Any, name: str) -> pa.Array:
    """A column by its type alone: whatever a row of it holds becomes a number, a date, a text, or nothing."""
    kind = str(series.dtype)
    if kind.startswith("Sparse"):
        raise BadInput(f"{FIELD} column {name}", kind, "must not be sparse: take .sparse.to_dense()")
    if kind.startswith(("complex", "interval", "period", "timedelta")):
        raise BadInput(f"{FIELD} column {name}", kind, _CONVERT)
    if kind == "category":
        kind = series.cat.categories.dtype.kind
        if kind in "biuf":  # a missing one is no whole number
            return pa.array(series.astype("float64").to_numpy(), from_pandas=True)
        series, kind = series.astype(object), "object"
    if kind in ("object", "str", "string"):
        # One odd cell must not change how the others are read, nor refuse them.
        return pa.array([_as_text(one) for one in series], pa.string())
    return pa.Array.from_pandas(series)


def _as_text(cell: object) -> str | None:
    """A cell as text, without what UTF-8 cannot write; a missing value (None, NaN, NA, NaT) as none."""
    if isinstance(cell, str) or cell is None:
        return None if cell is None else cell.encode("utf-8", "replace").decode()
    try:
        is_missing = bool(cell != cell)  # what equals nothing, not even itself, is missing
    except (TypeError, ValueError):
        is_missing = str(cell) == "<NA>"
    return None if is_missing else str(cell)


def of_arrays(pair: tuple[Any, ...], stem: Path) -> Path:
    """(X, y) with labels [n]: vectors [n, K] as NPZ, texts [n] as a table, pictures uint8 [n, h, w(, 3)] as a zip.

    In a list, pictures may have several sizes.
    """
    if len(pair) != 2:
        raise BadInput(FIELD, f"{len(pair)} arrays", "must be two, (X, y)")
    first: Any = pair[0][0] if isinstance(pair[0], list) and pair[0] else None
    are_pictures = getattr(first, "dtype", None) == np.uint8 and np.ndim(first) > 1
    inputs, labels = pair[0] if are_pictures else _array(pair[0], "X"), _array(pair[1], "y")
    if labels.ndim != 1 or labels.dtype.kind not in "biufUSO":
        raise BadInput(f"{FIELD} y", _shape(labels), "must have one label for each row: a vector [n]")
    if len(inputs) != len(labels):
        raise BadInput(FIELD, f"{len(inputs):,} rows and {len(labels):,} labels", "must have a label for each row")
    if not len(labels):
        raise BadInput(FIELD, "no rows", "must have at least one row")
    if are_pictures or (inputs.dtype == np.uint8 and inputs.ndim > 2 and inputs.shape[3:] in ((), (1,), (3,))):
        return _of_pictures([*inputs], labels.tolist(), stem)
    if inputs.ndim == 1 and inputs.dtype.kind in "UO":
        return of_frame(pd.DataFrame({"text": inputs.astype(object), TARGET: labels}), stem)
    if inputs.ndim != 2 or inputs.dtype.kind not in "fiub":
        allowed = "must be numbers [n, K], texts [n], or pictures uint8 [n, h, w] or [n, h, w, 3]"
        raise BadInput(f"{FIELD} X", _shape(inputs), allowed)
    path = stem.with_suffix(".npz")
    words = labels if labels.dtype.kind in "biufUS" else np.array([_as_text(one) or "" for one in labels])
    np.savez(path, embeddings=inputs if inputs.dtype.kind != "b" else inputs.astype(np.uint8), labels=words)
    return path


def _array(values: Any, name: str) -> NDArray[Any]:
    """As an array, by its type alone. Raises BadInput for a sparse matrix and for rows of several lengths."""
    if hasattr(values, "tocsr"):
        raise BadInput(f"{FIELD} {name}", type(values).__name__, "must not be sparse: take .toarray()")
    values = _plain(values)
    try:
        found = np.asarray(values)
    except ValueError:  # rows of several lengths
        raise BadInput(f"{FIELD} {name}", type(values).__name__, "must be an array of one shape") from None
    return found.astype(object) if found.dtype.kind in "UT" else found


def _shape(values: NDArray[Any]) -> str:
    return f"{values.dtype} [{', '.join(map(str, values.shape))}]"
