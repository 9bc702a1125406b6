"""Data that a Python program holds, written as a file that is then read like any other: one code path for both.

A frame, arrays and a dataset are refused only for what their types, shapes and column names show. What a single row shows is
handled row by row, by the rule for files.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.columns import pa, pq
from dpcl_core.errors import BadInput

FIELD = "data"
TARGET = "label"  # the column of y
_FORMS = (
    "must be a data frame, (X, y), a path, a Dataset of the package datasets, or a dataset of torch with tensors "
    "(.tensors, or .data and .targets)"
)


@contextmanager
def as_file(data: object, name: str = "data") -> Iterator[Path]:
    """Within this context the data lie at this path: a path as it is; else a file NAME.parquet or NAME.npz of their own.

    Raises BadInput for an object of another kind, and for types, shapes and names that no row could mend.
    """
    if isinstance(data, str | Path):
        yield Path(data)
        return
    with tempfile.TemporaryDirectory(prefix="dpcl-") as folder:
        stem = Path(folder) / (re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "data")
        yield _written(data, stem)


def _written(data: Any, stem: Path) -> Path:
    if hasattr(data, "to_pandas") and hasattr(data, "features"):
        return _of_frame(_named_classes(data), stem)
    if not hasattr(data, "columns") and (hasattr(data, "tensors") or (hasattr(data, "data") and hasattr(data, "targets"))):
        pair = tuple(data.tensors) if hasattr(data, "tensors") else (data.data, data.targets)
        return _of_arrays(pair, stem)
    if isinstance(data, tuple):
        return _of_arrays(data, stem)
    if hasattr(data, "__dataframe__") and hasattr(data, "columns"):  # any frame of the interchange protocol
        import pandas as pd

        return _of_frame(data if isinstance(data, pd.DataFrame) else pd.api.interchange.from_dataframe(data), stem)
    raise BadInput(FIELD, type(data).__name__, _FORMS)


def _named_classes(data: Any) -> Any:
    """The frame of a Hugging Face dataset, with the names of classes in the place of their numbers."""
    frame = data.to_pandas()
    for name, feature in data.features.items():
        if names := getattr(feature, "names", None):
            places = frame[name].to_numpy(dtype=np.int64)
            frame[name] = [names[place] if 0 <= place < len(names) else None for place in places]
    return frame


def _of_frame(frame: Any, stem: Path) -> Path:
    """A frame of pandas as parquet. The index is left out: it is no column."""
    names = list(frame.columns)
    if wrong := next((name for name in names if not isinstance(name, str)), None):
        raise BadInput(f"{FIELD} columns", wrong, "must have names that are texts: data.columns = [...]")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{FIELD} columns", twice, "stands there twice: rename one of them")
    if not len(frame):
        raise BadInput(FIELD, "no rows", "must have at least one row")
    columns = {name: _column(frame[name], name) for name in names}
    path = stem.with_suffix(".parquet")
    pq.write_table(pa.table(columns), path)
    return path


def _column(series: Any, name: str) -> pa.Array:
    """A column by its type alone: whatever a row of it holds becomes a number, a date, a text, or nothing."""
    kind = str(series.dtype)
    if kind.startswith("Sparse"):
        raise BadInput(f"{FIELD} column {name}", kind, "must not be sparse: take .sparse.to_dense()")
    if kind.startswith(("complex", "interval", "period", "timedelta")):
        raise BadInput(f"{FIELD} column {name}", kind, "must hold numbers, texts or dates: convert it first")
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


def _of_arrays(pair: tuple[Any, ...], stem: Path) -> Path:
    """(X, y): vectors [n, K] with labels [n] as NPZ, or texts [n] with labels as a table."""
    if len(pair) != 2:
        raise BadInput(FIELD, f"{len(pair)} arrays", "must be two, (X, y)")
    inputs, labels = (_array(one, name) for one, name in zip(pair, ("X", "y"), strict=True))
    if labels.ndim != 1 or labels.dtype.kind not in "biufUSO":
        raise BadInput(f"{FIELD} y", _shape(labels), "must have one label for each row: a vector [n]")
    if len(inputs) != len(labels):
        raise BadInput(FIELD, f"{len(inputs):,} rows and {len(labels):,} labels", "must have a label for each row")
    if not len(labels):
        raise BadInput(FIELD, "no rows", "must have at least one row")
    if inputs.ndim == 1 and inputs.dtype.kind in "UO":
        import pandas as pd

        return _of_frame(pd.DataFrame({"text": inputs.astype(object), TARGET: labels}), stem)
    if inputs.ndim != 2 or inputs.dtype.kind not in "fiub":
        raise BadInput(f"{FIELD} X", _shape(inputs), "must be numbers [n, K], or texts [n]")
    path = stem.with_suffix(".npz")
    words = labels if labels.dtype.kind in "biufUS" else np.array([_as_text(one) or "" for one in labels])
    np.savez(path, embeddings=inputs if inputs.dtype.kind != "b" else inputs.astype(np.uint8), labels=words)
    return path


def _array(values: Any, name: str) -> NDArray[Any]:
    """As an array, by its type alone. Raises BadInput for a sparse matrix and for rows of several lengths."""
    if hasattr(values, "tocsr"):
        raise BadInput(f"{FIELD} {name}", type(values).__name__, "must not be sparse: take .toarray()")
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        found = np.asarray(values)
    except ValueError:  # rows of several lengths
        raise BadInput(f"{FIELD} {name}", type(values).__name__, "must be an array of one shape") from None
    return found.astype(object) if found.dtype.kind in "UT" else found


def _shape(values: NDArray[Any]) -> str:
    return f"{values.dtype} [{', '.join(map(str, values.shape))}]"
