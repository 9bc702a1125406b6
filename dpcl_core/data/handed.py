"""Rows, labels and persons as a program hands them to a private classifier, read by their types alone.

Refused is only what types, shapes and declarations show. What a single row shows is handled row by row, in silence.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dpcl_core.data.columns import pa
from dpcl_core.errors import BadInput


def table_of(X: Any) -> Any:
    """Rows of numbers [n, K], as an array or as a frame with its names. Raises BadInput for what types and shapes show."""
    if hasattr(X, "tocsr"):
        raise BadInput("X", type(X).__name__, "must not be sparse: take .toarray()")
    X = X.detach().cpu().numpy() if hasattr(X, "detach") else X
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


def _frame(frame: Any) -> Any:
    """A frame of pandas with numbers alone, read by the types of its columns: what is missing becomes NaN."""
    import pandas as pd

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
    if y is None:
        raise BadInput(name, None, "the classifier requires y to be passed, but the target y is None")
    y = y.detach().cpu().numpy() if hasattr(y, "detach") else y
    if is_secret and (isinstance(y, list | tuple) or not isinstance(getattr(y, "dtype", np.dtype("O")), np.dtype)):
        y = _one_by_one([*y]) if not hasattr(y, "columns") else y
    try:
        labels: NDArray[Any] = column_or_1d(y, warn=True)
    except ValueError:
        raise BadInput(name, type(y).__name__, "must have one entry for each row: a 1d array") from None
    if labels.dtype.kind not in "biufUSTO":
        raise BadInput(name, str(labels.dtype), "must hold texts or numbers")
    return labels


def _one_by_one(values: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def read_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that are read from the data, and so may be refused for what they are. Raises ValueError."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise BadInput("y", "NaN or infinite", "must be labels where labels='data' reads them")
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
        try:
            is_somebody = named[row] is not None and bool(named[row] == named[row])
            seen[named[row]] += 1
        except TypeError:  # nothing that could name a person
            continue
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
        try:
            found[row] = places.get(label, -1)
        except TypeError:  # nothing that could be a label
            continue
    return found
