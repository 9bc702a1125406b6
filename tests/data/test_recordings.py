"""Recordings become windows as printed: every step on a case counted by hand, and the whole way into a run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dpcl_core.data.dataset import Windows
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from scripts import prepare_sensors
from scripts.prepare_sensors import Stretch

SCRIPT = Path(__file__).parents[2] / "scripts" / "prepare_sensors.py"


def recorded(seconds: float, rate: int, activity: str, subject: str = "a", start: float = 0.0) -> pd.DataFrame:
    """Samples whose x is their time: what is left of them tells what was cut."""
    times = start + np.arange(int(seconds * rate)) / rate
    return pd.DataFrame(
        {"time": times, "x": times, "y": 0.5, "z": 9.8, "activity": activity, "subject": subject},
        columns=list(prepare_sensors.COLUMNS),
    )


def test_equal_time_stamps_are_averaged_and_times_ascend() -> None:
    times, values = prepare_sensors.merged(np.array([2.0, 1, 2, 3, 2]), np.array([[1.0, 0], [5, 1], [2, 0], [7, 0], [6, 3]]))
    assert times.tolist() == [1, 2, 3]
    assert values.tolist() == [[5, 1], [3, 1], [7, 0]]


def test_a_gap_of_more_than_300_ms_ends_a_session() -> None:
    times = np.cumsum([0, 0.2, 0.2, 0.31, 0.2, 0.29, 5.0])
    assert [(part.start, part.stop) for part in prepare_sensors.sessions(times)] == [(0, 3), (3, 6), (6, 7)]
    assert prepare_sensors.sessions(np.array([])) == []


@pytest.mark.parametrize("rate", [5, 10, 20, 50])
def test_stable_rates_are_known_with_some_jitter(rate: int) -> None:
    draw = np.random.default_rng(rate)
    times = np.arange(400) / rate + draw.uniform(-0.2, 0.2, 400) / rate
    assert prepare_sensors.stable_rate(times) == rate


def test_other_and_unsteady_rates_are_none() -> None:
    assert prepare_sensors.stable_rate(np.arange(400) / 14) is None
    assert prepare_sensors.stable_rate(np.arange(400) / 100) is None
    both = np.cumsum(np.tile([0.02, 0.18], 200))  # 10 Hz on average only
    assert prepare_sensors.stable_rate(both) is None
    assert prepare_sensors.stable_rate(np.array([1.0])) is None


@pytest.mark.parametrize(
    ("seconds", "first", "last"), [(60, 10, 49.9), (3600, 10, 1810), (20.2, 10, 10.1), (19, None, None), (0, None, None)]
)
def test_ten_seconds_off_both_ends_and_thirty_minutes_at_most(seconds: float, first: float, last: float) -> None:
    times = np.arange(round(seconds * 10)) / 10
    kept = times[prepare_sensors.trimmed(times)]
    assert (len(kept) == 0) if first is None else (kept[0], kept[-1]) == pytest.approx((first, last))


def test_stretches_keep_to_one_person_one_label_one_session_and_one_rate() -> None:
    samples = pd.concat(
        [
            recorded(40, 20, "walk"),
            recorded(40, 20, "sit", start=40),  # no gap: another label alone
            recorded(40, 10, "sit", start=200),
            recorded(40, 14, "sit", start=300),  # no rate that is kept
            recorded(40, 20, "walk", subject="b"),
        ]
    ).sample(frac=1, random_state=0)
    found = prepare_sensors.stretches(samples)
    assert [(one.subject, one.activity, one.rate) for one in found] == [
        ("a", "walk", 20), ("a", "sit", 20), ("a", "sit", 10), ("b", "walk", 20),
    ]  # fmt: skip
    ends = [float(one.values[place, 0]) for one in found for place in (0, -1)]
    assert ends == pytest.approx([10, 29.95, 50, 69.95, 210, 229.9, 10, 29.95], abs=0.06)


def test_the_last_15_percent_are_for_testing_and_no_sample_is_in_both() -> None:
    whole = Stretch(np.arange(3000, dtype=np.float32).reshape(1000, 3), 20, "walk", "a")
    train, test = prepare_sensors.divided(whole)
    assert (len(train.values), len(test.values)) == (850, 150)
    assert np.concatenate([train.values, test.values]).tolist() == whole.values.tolist()


def test_windows_overlap_as_the_step_says() -> None:
    values = np.arange(900, dtype=np.float32).reshape(300, 3)
    cut = prepare_sensors.windows(values, 75)
    assert (cut.shape, cut.dtype) == ((3, 100, 3), np.float32)
    for number, window in enumerate(cut):
        np.testing.assert_array_equal(window, values[75 * number : 75 * number + 100])
    assert len(prepare_sensors.windows(values[:99], 75)) == 0
    assert len(prepare_sensors.windows(values[:100], 75)) == 1


def test_overlap_is_25_percent_for_the_commonest_and_up_to_90_for_rare_ones() -> None:
    def long(n: int, rate: int, activity: str) -> Stretch:
        return Stretch(np.zeros((n, 3), np.float32), rate, activity, "a")

    found = [
        long(6000, 50, "walk"),
        long(4000, 50, "walk"),
        long(5000, 50, "sit"),
        long(10, 5, "sit"),
        long(2000, 5, "walk"),
    ]
    assert prepare_sensors.steps(found) == {(50, "walk"): 75, (50, "sit"): 38, (5, "sit"): 10, (5, "walk"): 15}


def test_the_script_makes_a_dataset_that_loads(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = [
        recorded(400, rate, activity, start=1000 * number)
        for number, (rate, activity) in enumerate((r, a) for r in (5, 10, 20, 50) for a in ("walk", "sit"))
    ]
    path = tmp_path / "raw.csv"
    pd.concat(samples).to_csv(path, index=False)
    monkeypatch.setattr(sys, "argv", ["prepare_sensors.py", str(data_dir / "walks"), str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 0
    found = load_dataset(DataSpec(dataset="own:walks"))
    assert isinstance(found.train.images, Windows)
    assert (found.classes, len(found.sources)) == (("sit", "walk"), 4)
    assert abs(found.train.images.values).max() <= 1
    said = capsys.readouterr().out
    assert said.startswith(f"{len(found.train)} training and {len(found.test)} test windows in ")
    train, test = (pq.read_table(data_dir / "walks" / f"{split}.parquet") for split in ("train", "test"))
    times = [np.concatenate(part["window"].to_pylist()).reshape(-1, 3)[:, 0] for part in (train, test)]
    assert not set(times[0].tolist()) & set(times[1].tolist()), "no sample is in both parts"
    # Samples, not windows, are divided: 15 % of those that some window holds, but for what is left at the ends.
    share = len(set(times[1].tolist())) / (len(set(times[0].tolist())) + len(set(times[1].tolist())))
    assert share == pytest.approx(0.15, abs=0.03)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("time,x,y,z,activity\n0,1,2,3,walk\n", "raw.csv = time, x, y, z, activity: must have a column subject"),
        ("time,x,y,z,activity,subject\n0,1,2,up,walk,a\n", "raw.csv line 2, z = up: must be a number"),
        ("time,x,y,z,activity,subject\n0,1,nan,3,walk,a\n", "raw.csv line 2, y = nan: must be a number"),
        ("time,x,y,z,activity,subject\n0,1,2,3,,a\n", "raw.csv line 2, activity = nothing: must be a name"),
        ("", "raw.csv = EmptyDataError: must be a CSV file that you can read"),
        (
            "time,x,y,z,activity,subject\n0,1,2,3,walk,a\n",
            "raw.csv = no window: must hold stretches of one activity at 5, 10, 20 or 50 Hz with 100 samples left for train",
        ),
    ],
)
def test_recordings_that_cannot_be_used(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        prepare_sensors.prepare([tmp_path / "raw.csv"], tmp_path / "out")
    assert str(caught.value) == sentence
