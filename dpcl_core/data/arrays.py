"""Precomputed embeddings in NPZ files: one array of rows, one of labels, nothing pickled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpcl_core.data.images import is_list
from dpcl_core.data.windows import AXES, RATES, SAMPLES, source_name
from dpcl_core.errors import BadInput

# Reads and checks sensor windows in a parquet file: a column of lists of numbers and one of rates.


WINDOW_COLUMN = "window"
RATE_COLUMN = "rate_hz"
_SIZE = SAMPLES * AXES
_WINDOW = f"must be a list of {_SIZE} numbers, {SAMPLES} samples of {AXES} axes in m/s^2"


def windows_of(column: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Accelerations float32 [n, 100, 3] of a column of lists, sample after sample; `rows` [n]: row numbers in messages.

    Raises BadInput naming the first row with another number of values, null, or a non-finite value.
    """
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise BadInput(f"{shown} column {WINDOW_COLUMN}", str(kind), _WINDOW)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    for row in np.flatnonzero(lengths != _SIZE)[:1]:
        raise BadInput(f"{shown} row {rows[row]}, {WINDOW_COLUMN}", f"a list of {lengths[row]}", _WINDOW)
    # A missing number becomes NaN, one too large for 32 bits infinity.
    with np.errstate(over="ignore"):
        values: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    for place in np.flatnonzero(~np.isfinite(values))[:1]:
        raise BadInput(
            f"{shown} row {rows[place // _SIZE]}, {WINDOW_COLUMN}", float(values[place]), f"{_WINDOW}, all of them finite"
        )
    return values.reshape(-1, SAMPLES, AXES)


def sources_of(column: pa.ChunkedArray, shown: str, rows: NDArray[np.int64]) -> NDArray[np.str_]:
    """The source name of each row's rate; `rows` [n]: the rows' numbers in messages.

    Raises BadInput for a column that is not numeric, and naming the first row of another rate.
    """
    allowed = f"must be {', '.join(map(str, RATES[:-1]))} or {RATES[-1]} samples a second"
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise BadInput(f"{shown} column {RATE_COLUMN}", str(column.type), allowed)
    rates: NDArray[np.float64] = column.to_numpy().astype(np.float64)  # null becomes NaN, which is no valid rate either
    for row in np.flatnonzero(~np.isin(rates, RATES))[:1]:
        value = "nothing" if np.isnan(rates[row]) else f"{rates[row]:g}"
        raise BadInput(f"{shown} row {rows[row]}, {RATE_COLUMN}", value, allowed)
    names = np.asarray([source_name(rate) for rate in RATES], dtype=np.str_)
    return names[np.searchsorted(RATES, rates)]


# Cuts raw accelerometer recordings into windows by sampling rate, as Lai et al. 2022 prepare HARW.
#
# Times are in seconds, accelerations in m/s^2. The number of windows and their overlap depend on the recordings: the
# preparation is private work on the user's own computer, and its counts are taken as public afterwards.


COLUMNS = ("time", "x", "y", "z", "activity", "subject")
GAP_SECONDS = 0.3
TRIM_SECONDS = 10.0
LONGEST_SECONDS = 30 * 60.0
TEST_SHARE = 0.15
LEAST_OVERLAP, MOST_OVERLAP = 0.25, 0.9
# The paper does not define "stable": these two are our choice.
_RATE_TOLERANCE = 0.1
_STEADY_SHARE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """An unbroken piece of one activity of one person at one rate: accelerations float32 [n, 3]."""

    values: NDArray[np.float32]
    rate: int
    activity: str
    subject: str


def read(path: Path) -> pd.DataFrame:
    """The samples of a CSV file with the columns time, x, y, z, activity and subject.

    Raises BadInput naming the file, the line and what is allowed.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise BadInput(path.name, type(error).__name__, "must be a CSV file that you can read") from error
    if missing := [name for name in COLUMNS if name not in table.columns]:
        raise BadInput(path.name, ", ".join(table.columns), f"must have a column {missing[0]}")
    for name in COLUMNS[:4]:
        numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
        for row in np.flatnonzero(~np.isfinite(numbers))[:1]:
            raise BadInput(f"{path.name} line {row + 2}, {name}", table[name][row], "must be a number")
        table[name] = numbers
    for name in COLUMNS[4:]:
        for row in np.flatnonzero(table[name].str.strip() == "")[:1]:
            raise BadInput(f"{path.name} line {row + 2}, {name}", "nothing", "must be a name")
    return table[list(COLUMNS)]


def merged(times: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Samples [n, axes] in order of time, those with an equal time stamp averaged into one."""
    stamps, which, counts = np.unique(times, return_inverse=True, return_counts=True)
    sums = np.zeros((len(stamps), values.shape[1]))
    np.add.at(sums, which, values)
    return stamps, sums / counts[:, None]


def sessions(times: NDArray[np.float64]) -> list[slice]:
    """The parts between gaps of more than 300 ms; times must ascend."""
    ends = [*(np.flatnonzero(np.diff(times) > GAP_SECONDS) + 1).tolist(), len(times)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False) if end > start]


def stable_rate(times: NDArray[np.float64]) -> int | None:
    """The session's rate, one of 5, 10, 20, 50 Hz; None where it has no stable one.

    A rate is stable if the mean interval is within 10 % of that rate's, and 95 % of the intervals within half of it.
    """
    if len(times) < 2:
        return None
    intervals = np.diff(times)
    for rate in RATES:
        is_near = abs(intervals.mean() * rate - 1) <= _RATE_TOLERANCE
        if is_near and (abs(intervals * rate - 1) <= 0.5).mean() >= _STEADY_SHARE:
            return rate
    return None


def trimmed(times: NDArray[np.float64]) -> slice:
    """A labelled stretch without its first and last 10 s, cut to at most 30 minutes."""
    if not len(times):
        return slice(0, 0)
    start = times[0] + TRIM_SECONDS
    end = min(times[-1] - TRIM_SECONDS, start + LONGEST_SECONDS)
    return slice(int(np.searchsorted(times, start)), int(np.searchsorted(times, end, side="right")))


def stretches(samples: pd.DataFrame) -> list[Stretch]:
    """The usable stretches of raw samples: merged, cut at gaps, of a stable rate, trimmed within one label."""
    pieces: list[Stretch] = []
    for subject, track in samples.groupby("subject", sort=True):
        track = track.sort_values("time", kind="stable")
        stamps, values = merged(track["time"].to_numpy(), track[["x", "y", "z"]].to_numpy(dtype=np.float64))
        activities = track.drop_duplicates("time")["activity"].to_numpy(dtype=np.str_)
        for session in sessions(stamps):
            rate = stable_rate(stamps[session])
            if rate is None:
                continue
            labels = activities[session]
            ends = [*(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)]
            for first, end in zip([0, *ends], ends, strict=False):
                times = stamps[session][first:end]
                usable = values[session][first:end][trimmed(times)]
                pieces.append(Stretch(usable.astype(np.float32), rate, str(labels[first]), str(subject)))
    return [stretch for stretch in pieces if len(stretch.values)]


def divided(stretch: Stretch) -> tuple[Stretch, Stretch]:
    """The stretch without its last 15 %, and the last 15 %: they share no sample, so they share no window."""
    n_train = len(stretch.values) - int(TEST_SHARE * len(stretch.values))
    return replace(stretch, values=stretch.values[:n_train]), replace(stretch, values=stretch.values[n_train:])


def steps(pieces: Sequence[Stretch]) -> Mapping[tuple[int, str], int]:
    """Samples from the start of one window to the next, by rate and activity.

    Overlap is 25 % for the most common activity, and grows up to 90 % the rarer the activity is at that rate, so that each
    gets about equally many windows. The two ends are from the paper, the rule in between is our choice.
    """
    lengths: dict[tuple[int, str], int] = {}
    for stretch in pieces:
        key = (stretch.rate, stretch.activity)
        lengths[key] = lengths.get(key, 0) + len(stretch.values)
    longest = max(lengths.values(), default=1)
    most, least = (round(SAMPLES * (1 - overlap)) for overlap in (LEAST_OVERLAP, MOST_OVERLAP))
    return {key: int(np.clip(round(most * length / longest), least, most)) for key, length in lengths.items()}


def windows(values: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    """Windows [n, 100, 3] of a stretch [samples, 3], one every `step` samples; the rest at the end is dropped."""
    if len(values) < SAMPLES:
        return np.empty((0, SAMPLES, AXES), np.float32)
    return np.lib.stride_tricks.sliding_window_view(values, SAMPLES, axis=0)[::step].transpose(0, 2, 1)


def prepare(files: Sequence[Path], folder: Path) -> dict[str, int]:
    """Writes train.parquet and test.parquet into a folder, from CSV files of raw samples; gives the number of windows.

    Accelerations are written in m/s^2, not scaled. Raises BadInput as `read` does, and where no window is left.
    """
    pieces = stretches(pd.concat([read(path) for path in files], ignore_index=True))
    pairs = [divided(stretch) for stretch in pieces]
    step = steps(pieces)
    names = sorted({stretch.activity for stretch in pieces})
    folder.mkdir(parents=True, exist_ok=True)
    counts: dict[str, int] = {}
    for split, parts in (("train", [pair[0] for pair in pairs]), ("test", [pair[1] for pair in pairs])):
        cut = [windows(part.values, step[part.rate, part.activity]) for part in parts]
        counts[split] = sum(map(len, cut))
        if not counts[split]:
            allowed = f"must hold stretches of one activity at 5, 10, 20 or 50 Hz with {SAMPLES} samples left for {split}"
            raise BadInput(", ".join(path.name for path in files), "no window", allowed)
        of_part = np.repeat(np.arange(len(parts)), [len(one) for one in cut])
        columns = {
            WINDOW_COLUMN: list(np.concatenate(cut).reshape(-1, SAMPLES * AXES)),
            RATE_COLUMN: [parts[part].rate for part in of_part],
            "label": [names.index(parts[part].activity) for part in of_part],
            "label_name": [parts[part].activity for part in of_part],
            "subject": [parts[part].subject for part in of_part],
        }
        pq.write_table(pa.table(columns), folder / f"{split}.parquet")
    return counts


EMBEDDING_COLUMN = "embedding"
MAX_WIDTH = 65_536
_MAX_BYTES = 4 * 2**30
_ROWS = ("embeddings", "embedding", "features", "x", "X", "arr_0")
# By column: the names that its array may have.
_OTHERS = {
    "label": ("labels", "label", "y", "arr_1"), "domain": ("domain", "source"), "person": ("person",), "time": ("time",),
}  # fmt: skip
_KNOWN = {name for names in _OTHERS.values() for name in names}
_FORM = (
    f"must hold a float array [rows, width] called {_ROWS[0]} (or {', '.join(_ROWS[1:])}) and an array [rows] called labels "
    "(or y), saved by numpy.savez without objects"
)


def table(content: bytes, shown: str, *, version: int = 2) -> pa.Table:
    """The arrays as a table, each a column: fixed-size lists of float32, and text or numbers.

    One missing value makes floating point of an array of whole numbers or of truth values. So all of them are so here, but
    by the first rule (`version` = 1), which made words of them.

    Raises BadInput naming the array and what is allowed; sizes are checked in the headers before anything is unpacked.
    """
    found = _arrays(content, shown)
    name = next((name for name in _ROWS if name in found), None)
    if name is None:
        raise BadInput(shown, ", ".join(found) or "no arrays", _FORM)
    values = found[name]
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not 1 <= values.shape[1] <= MAX_WIDTH:
        width = "x".join(map(str, values.shape[1:]))
        raise BadInput(f"{shown} {name}", f"{values.dtype} [rows, {width}]", f"{_FORM}; the width is at most {MAX_WIDTH:,}")
    with np.errstate(over="ignore"):
        flat = np.ascontiguousarray(values, dtype=np.float32).ravel()
    columns: dict[str, pa.Array] = {EMBEDDING_COLUMN: pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])}
    for other, of in found.items():
        if of.shape == (len(values),) or other in _KNOWN:
            if of.shape != (len(values),) or of.dtype.kind not in "biufUS":
                allowed = "must have one number or word for each row"
                raise BadInput(f"{shown} {other}", f"{of.dtype}, {of.ndim} axes", allowed)
            is_number = version > 1 and of.dtype.kind in "biuf"
            columns[other] = pa.array(of.astype(np.float64), from_pandas=True) if is_number else _words(of)
    return pa.table(columns)


def names(path: Path, shown: str) -> list[str]:
    """The columns of `table`, from the headers of the arrays alone. Raises BadInput for what is no NPZ file."""
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {
                one.filename.removesuffix(".npy"): _header(archive, one)[0]
                for one in archive.infolist() if one.filename.endswith(".npy")
            }  # fmt: skip
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise BadInput(shown, "no arrays", _FORM) from error
    rows = next((shapes[name] for name in _ROWS if name in shapes), None)
    if rows is None:
        raise BadInput(shown, ", ".join(shapes) or "no arrays", _FORM)
    return [EMBEDDING_COLUMN, *(name for name, shape in shapes.items() if shape == rows[:1] or name in _KNOWN)]


def canonical(columns: Sequence[str], taken: Collection[str]) -> list[str]:
    """These columns of `table` with the readers' names, but for those names that a column has by its role (`taken`)."""
    usual = {
        found: name for name, names in _OTHERS.items() if name not in taken
        and (found := next((one for one in names if one in columns), None)) is not None
    }  # fmt: skip
    return [usual.get(column, column) for column in columns]


def _words(values: NDArray[np.generic]) -> pa.Array:
    words = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in values.tolist()]
    return pa.array([word if word.isprintable() else None for word in words], pa.large_string())


def _arrays(content: bytes, shown: str) -> Mapping[str, NDArray[np.generic]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
            for member in members:
                _check(archive, member, shown)
            return {
                one.filename.removesuffix(".npy"): npy.read_array(archive.open(one), allow_pickle=False) for one in members
            }
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds of error, all with the same meaning for the user
        raise BadInput(shown, "other bytes", _FORM) from error


def _check(archive: zipfile.ZipFile, member: zipfile.ZipInfo, shown: str) -> None:
    """Raises BadInput for an array of objects, one of another size than its header announces, and a huge one."""
    shape, dtype = _header(archive, member)
    field = f"{shown} {member.filename.removesuffix('.npy')}"
    if dtype.hasobject:
        raise BadInput(field, "objects", f"{_FORM}: pickled objects could run any program")
    size = int(np.prod([int(side) for side in shape], dtype=object)) * dtype.itemsize
    if size > _MAX_BYTES or member.file_size > _MAX_BYTES or size > member.file_size:
        raise BadInput(field, f"{size:,} bytes", f"must have at most {_MAX_BYTES:,} bytes, and as many as its header says")


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """The shape and dtype that an array announces."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
    return shape, dtype
