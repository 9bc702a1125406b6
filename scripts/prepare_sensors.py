"""Makes a dataset of sensor windows of your own from raw accelerometer recordings.

    python -m scripts.prepare_sensors FOLDER RECORDING.csv [RECORDING.csv ...]

Each recording has the columns time (s), x, y, z (m/s^2), activity and subject, one row a sample. FOLDER/train.parquet and
FOLDER/test.parquet are written; where FOLDER is in DPCL_DATA (or in DPCL_HOME/data), the app lists it as own:FOLDER.

Windows are cut by sampling rate, as Lai et al. 2022 prepare HARW. Their number and overlap depend on the recordings: the
preparation is private work on the user's own computer, and its counts are taken as public afterwards.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core.data.card import AXES, SAMPLES
from dpcl_core.data.dataset import RATES
from dpcl_core.data.parquet import WINDOW_COLUMN
from dpcl_core.data.rows import RATE_COLUMN
from dpcl_core.errors import BadInput

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


def main() -> int:
    """Prepares what the command line names. Returns 1 where it cannot, with one sentence saying why."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("recordings", type=Path, nargs="+")
    chosen = parser.parse_args()
    try:
        counts = prepare(chosen.recordings, chosen.folder)
    except BadInput as refused:
        print(refused, file=sys.stderr)
        return 1
    print(f"{counts['train']} training and {counts['test']} test windows in {chosen.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
