"""Sensor windows: the same rows as in the file, scaled by public constants, tasks by rate; anything else is one sentence."""

import math
import runpy
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcl_core import checks, engine
from dpcl_core.backbones import extractor, pixels
from dpcl_core.data import catalog, dataset, own
from dpcl_core.data.dataset import RANGE, Dataset, Form, Windows
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.events import CellFinished, Started, of_kind
from dpcl_core.spec import DataSpec, RunSpec
from scripts import prepare_sensors
from scripts.prepare_sensors import Stretch
from tests.data.making import location, refusal, write, write_both, write_pair
from tests.support.asserting import refusal_of, refuses

RATES = [20, 5, 50, 10]


def signal(n: int, seed: int = 0) -> np.ndarray:
    """Accelerations [n, 300] in m/s^2, a few of them beyond the range."""
    return np.random.default_rng(seed).normal(0, 9, (n, 300)).astype(np.float32)


def write_sensors(folder: Path, n: int = 24, **columns: object) -> np.ndarray:
    """Train and test of n windows each, rates and three classes in turn; gives the training values."""
    values = signal(n)
    for split in ("train", "test"):
        given = {**of_rows(values, range(n)), **columns}
        write(folder, split, **{name: column for name, column in given.items() if column is not None})
    return values


def of_rows(values: np.ndarray, rows: range) -> dict[str, object]:
    """The columns of some windows."""
    kinds = [row % 3 for row in rows]
    return {
        "window": [values[row] for row in rows], "rate_hz": [RATES[row // 3 % 4] for row in rows], "label": kinds,
        "label_name": [("walk", "sit", "run")[kind] for kind in kinds],
    }  # fmt: skip


def opened() -> Dataset:
    return load_dataset(DataSpec(dataset="own:mine"))


def test_rows_rates_and_values_are_the_files(data_dir: Path) -> None:
    values = write_sensors(data_dir / "mine")
    found = opened()
    assert isinstance(found.train.images, Windows)
    read, expected = found.train.images.values.reshape(-1, 300), np.clip(values / (2 * 9.80665), -1, 1)
    np.testing.assert_allclose(read, expected, rtol=1e-6, atol=0)
    assert found.train.images.values.dtype == np.float32
    assert abs(found.train.images.values).max() == 1, "some lie beyond the range"
    assert [source.name for source in found.sources] == ["5 Hz", "10 Hz", "20 Hz", "50 Hz"]
    assert all(source.classes == (0, 1, 2) for source in found.sources)
    assert [found.sources[source].name for source in found.train.sources[::3]] == ["20 Hz", "5 Hz", "50 Hz", "10 Hz"] * 2
    assert (found.classes, found.title) == (("walk", "sit", "run"), "mine (own data)")
    assert catalog.facts("own:mine").sources == ("5 Hz", "10 Hz", "20 Hz", "50 Hz")
    assert own.names_of_own_data() == ["own:mine"]


def test_a_window_is_a_row_of_numbers_sample_after_sample(data_dir: Path) -> None:
    write_sensors(data_dir / "mine")
    content = opened().train.images
    rows = extractor.features("pixels", content)
    assert (rows.shape, rows.dtype, rows[7].tolist()) == ((24, 300), np.float32, content.values[7].ravel().tolist())
    assert pixels.values_form(content) == Form((100, 3), -1.0, 1.0)


def test_the_digest_sees_every_value_and_the_order_of_rows() -> None:
    content = dataset.in_range(signal(6).reshape(6, 100, 3))
    other = content.values.copy()
    other[5, 99, 2] += 1e-3
    swapped = content.take(np.array([1, 0, 2, 3, 4, 5]))
    assert len({one.digest() for one in (content, Windows(other), swapped)}) == 3
    assert content.digest() == Windows(content.values.copy()).digest()


def test_a_subset_takes_the_same_windows_from_pieces_as_from_one_file(data_dir: Path) -> None:
    values = write_sensors(data_dir / "mine", n=60)
    whole = load_dataset(DataSpec(dataset="own:mine", train_per_class=4))
    assert 0 < len(whole.train) < 60
    assert whole.title == "mine (own data; subset: 12 of 240 training and all 60 test windows)"
    (data_dir / "mine" / "train.parquet").unlink()
    for part, rows in enumerate((range(20), range(20, 60))):
        write(data_dir / "mine", f"train-0000{part}-of-00002", **of_rows(values, rows))
    pieces = load_dataset(DataSpec(dataset="own:mine", train_per_class=4))
    assert pieces.train.images.digest() == whole.train.images.digest()
    assert pieces.train.labels.tolist() == whole.train.labels.tolist()


def test_the_published_scaling_uses_the_training_part_alone() -> None:
    train, test = signal(50, 1).reshape(50, 100, 3) * [1, 2, 3] + [0, 5, -9], signal(20, 2).reshape(20, 100, 3) * 40
    train, test = train.astype(np.float32), test.astype(np.float32)
    scaled, other = dataset.z_scored(train, test)
    for axis in range(3):  # as printed: 2 [(x - min) / (max - min) - 1/2] of the clipped z-score, min = -2, max = 2
        values = train[:, :, axis].astype(np.float64)
        z = np.clip((values - values.mean()) / values.std(), -2, 2)
        np.testing.assert_allclose(scaled.values[:, :, axis], 2 * ((z + 2) / 4 - 0.5), atol=1e-6)
        z = np.clip((test[:, :, axis] - values.mean()) / values.std(), -2, 2)
        np.testing.assert_allclose(other.values[:, :, axis], 2 * ((z + 2) / 4 - 0.5), atol=1e-6)
    assert abs(scaled.values).max() == abs(other.values).max() == 1
    np.testing.assert_array_equal(dataset.z_scored(train, test * 3)[0].values, scaled.values)
    flat, _ = dataset.z_scored(np.full((4, 100, 3), 9.8, np.float32), test)
    assert not flat.values.any()


def test_the_public_scaling_of_a_window_depends_on_that_window_alone() -> None:
    values = signal(10).reshape(10, 100, 3)
    np.testing.assert_array_equal(dataset.in_range(values).values[:1], dataset.in_range(values[:1]).values)
    assert pytest.approx(2 * 9.80665) == RANGE


MINE = "own:mine/test.parquet"


def spoiled(row: int, place: int, value: float) -> list[np.ndarray]:
    values = signal(24)
    values[row, place] = value
    return list(values)


@pytest.mark.parametrize(("columns", "where"), [
    ({"window": [[0.0] * (250 if row == 3 else 300) for row in range(24)]}, f"{MINE} row 3, window = a list of 250"),
    ({"window": [None if row == 2 else [0.0] * 300 for row in range(24)]}, f"{MINE} row 2, window = a list of 0"),
    ({"window": spoiled(5, 7, float("nan"))}, f"{MINE} row 5, window = nan"),
    ({"window": spoiled(4, 299, float("inf"))}, f"{MINE} row 4, window = inf"),
    ({"window": [["a"] * 300] * 24}, f"{MINE} column window = list<element: string>"),
    ({"window": [0.5] * 24}, f"{MINE} column window = double"),
    ({"rate_hz": [20] * 6 + [25] + [20] * 17}, f"{MINE} row 6, rate_hz = 25"),
    ({"rate_hz": pa.array([20] * 6 + [None] + [20] * 17)}, f"{MINE} row 6, rate_hz = nothing"),
    ({"rate_hz": ["20"] * 24}, f"{MINE} column rate_hz = string"),
    ({"rate_hz": None}, "own:mine/train.parquet = window, label, label_name"),
])
def test_windows_that_cannot_be_used(columns: dict[str, object], where: str, data_dir: Path) -> None:
    write_sensors(data_dir / "mine", **columns)
    assert location(refusal()) == where


def test_a_rate_that_the_test_part_lacks_is_no_example(data_dir: Path) -> None:
    write_sensors(data_dir / "mine")
    three = of_rows(signal(24), range(24)) | {"rate_hz": [RATES[row // 3 % 3] for row in range(24)]}
    write(data_dir / "mine", "test", **three)
    found = opened()
    assert (len(found.sources), len(found.train) < 24) == (3, True)


def test_a_file_of_pictures_under_a_sensor_s_name(data_dir: Path) -> None:
    write_pair(data_dir / "har_wisdm", list(range(5)), list(range(5)))
    assert location(refusal("har-wisdm")) == "har-wisdm/train.parquet = image, label"
    of_phone = DataSpec(dataset="har-phone50")
    refuses("columns window, rate_hz and label; python -m scripts", load_dataset, of_phone, error=DataMissing)


def refused(raw: dict[str, object]) -> BadInput:
    return refusal_of(lambda: checks.check_run(checks.parse(raw)))


def test_no_network_reads_windows(data_dir: Path) -> None:
    write_sensors(data_dir / "mine")
    raw = {"data": {"dataset": "own:mine", "backbone": "vit-cifar100"}}
    assert (location(refused(raw)), refused(raw).fix["data.backbone"]) == ("data.backbone = vit-cifar100", "pixels")
    adapted = refused({**raw, "method": "naive", "params": {"adapter": "film"}})  # which pixels would not mend
    assert (location(adapted), "data.backbone" in adapted.fix) == ("data.dataset = own:mine", False)
    refuses("reads pictures only", lambda: next(iter(extractor.load("convnext-cifar100").batches(opened().train.images))))


def test_a_run_by_rate_says_what_it_does_not_protect(data_dir: Path) -> None:
    write_sensors(data_dir / "mine", n=96)
    order = ["50 Hz", "5 Hz", "20 Hz"]
    events = list(engine.run(by_rate("own:mine", 2.0, order=order)))
    (started,), (finished,) = of_kind(events, Started), of_kind(events, CellFinished)
    assert started.task_names == tuple(order)
    assert any("windows of one recording may overlap" in line for line in finished.guarantee.not_covered)
    assert finished.guarantee.composition.startswith("parallel")


def by_rate(dataset: str, *epsilons: float, **stream: object) -> RunSpec:
    scenario, privacy = {"kind": "source-incremental", **stream}, {"epsilons": list(epsilons), "delta": 1e-3}
    return checks.parse({"data": {"dataset": dataset}, "scenario": scenario, "privacy": privacy, "seeds": [0]})


def test_the_published_scaling_is_refused_where_a_bound_would_not_cover_it(data_dir: Path) -> None:
    rates, labels = [RATES[row % 4] for row in range(40)], [row % 5 for row in range(40)]
    write_both(data_dir / "har_wisdm", window=list(signal(40)), rate_hz=rates, label=labels)
    asked = by_rate("har-wisdm-zscored", 1.0, math.inf)
    assert location(refusal_of(checks.check_run, asked)) == "data.dataset = har-wisdm-zscored"
    (finished,) = of_kind(list(engine.run(by_rate("har-wisdm-zscored", math.inf))), CellFinished)
    assert any("no ledger pays for them" in line for line in finished.guarantee.not_covered)
    content = load_dataset(DataSpec(dataset="har-wisdm-zscored")).train.images
    np.testing.assert_allclose(content.values.std(axis=(0, 1)), 0.48, atol=0.02)  # half, less what is clipped


@pytest.mark.parametrize(("name", "n_train", "n_test"), [("har-wisdm", 14_649, 4_923), ("har-phone50", 2_420, 780)])
def test_the_real_windows(name: str, n_train: int, n_test: int, real_data: Path) -> None:
    found = load_dataset(DataSpec(dataset=name))
    assert (len(found.train), len(found.test), len(found.classes)) == (n_train, n_test, 5)
    assert "(stands in for HARW)" in found.title
    values = found.train.images.values
    assert (abs(values) == 1).mean() < 0.003
    # Both are in m/s^2: a phone at rest feels the standard gravity, half of the range.
    assert np.median(np.linalg.norm(values, axis=2)) == pytest.approx(0.5, abs=0.01)
    assert [source.name for source in found.sources] == ["5 Hz", "10 Hz", "20 Hz", "50 Hz"]
    assert (np.bincount(found.train.labels * 4 + found.train.sources) > 0).all()


def test_all_of_cifar10_comes_before_all_of_cifar100(real_data: Path) -> None:
    spec = checks.parse({
        "data": {"dataset": "cifar10-100", "train_per_class": 3, "test_per_class": 1}, "seeds": [0],
        "scenario": {"kind": "split", "tasks": 11}, "privacy": {"epsilons": [8.0], "delta": 1e-4},
    })  # fmt: skip
    dataset = load_dataset(spec.data)
    (started,) = of_kind(list(engine.run(spec)), Started)
    assert (len(dataset.classes), started.n_tasks, started.n_train) == (110, 11, 330)
    assert dataset.classes[9:11] == ("CIFAR-10: truck", "CIFAR-100: apple")
    assert dataset.title.startswith("CIFAR-10/100 (subset: ")


# Recordings become windows as printed: every step on a case counted by hand, and the whole way into a run.


def recorded(seconds: float, rate: int, activity: str, subject: str = "a", start: float = 0.0) -> pd.DataFrame:
    """Samples whose x is their time: what is left of them tells what was cut."""
    times = start + np.arange(int(seconds * rate)) / rate
    made = {"time": times, "x": times, "y": 0.5, "z": 9.8, "activity": activity, "subject": subject}
    return pd.DataFrame(made, columns=list(prepare_sensors.COLUMNS))


def test_equal_time_stamps_are_averaged_and_times_ascend() -> None:
    times, values = prepare_sensors.merged(np.array([2.0, 1, 2, 3, 2]), np.array([[1.0, 0], [5, 1], [2, 0], [7, 0], [6, 3]]))
    assert (times.tolist(), values.tolist()) == ([1, 2, 3], [[5, 1], [3, 1], [7, 0]])


def test_a_gap_of_more_than_300_ms_ends_a_session() -> None:
    times = np.cumsum([0, 0.2, 0.2, 0.31, 0.2, 0.29, 5.0])
    assert [(part.start, part.stop) for part in prepare_sensors.sessions(times)] == [(0, 3), (3, 6), (6, 7)]
    assert prepare_sensors.sessions(np.array([])) == []


@pytest.mark.parametrize("rate", [5, 10, 20, 50])
def test_stable_rates_are_known_with_some_jitter(rate: int) -> None:
    draw = np.random.default_rng(rate)
    assert prepare_sensors.stable_rate(np.arange(400) / rate + draw.uniform(-0.2, 0.2, 400) / rate) == rate


def test_other_and_unsteady_rates_are_none() -> None:
    both = np.cumsum(np.tile([0.02, 0.18], 200))  # 10 Hz on average only
    for times in (np.arange(400) / 14, np.arange(400) / 100, both, np.array([1.0])):
        assert prepare_sensors.stable_rate(times) is None


@pytest.mark.parametrize(
    ("seconds", "first", "last"), [(60, 10, 49.9), (3600, 10, 1810), (20.2, 10, 10.1), (19, None, None), (0, None, None)])
def test_ten_seconds_off_both_ends_and_thirty_minutes_at_most(seconds: float, first: float, last: float) -> None:
    times = np.arange(round(seconds * 10)) / 10
    kept = times[prepare_sensors.trimmed(times)]
    assert (len(kept) == 0) if first is None else (kept[0], kept[-1]) == pytest.approx((first, last))


def test_stretches_keep_to_one_person_one_label_one_session_and_one_rate() -> None:
    samples = pd.concat([
        recorded(40, 20, "walk"), recorded(40, 20, "sit", start=40),  # no gap: another label alone
        recorded(40, 10, "sit", start=200), recorded(40, 14, "sit", start=300),  # no rate that is kept
        recorded(40, 20, "walk", subject="b"),
    ]).sample(frac=1, random_state=0)  # fmt: skip
    found = prepare_sensors.stretches(samples)
    kinds = [(one.subject, one.activity, one.rate) for one in found]
    assert kinds == [("a", "walk", 20), ("a", "sit", 20), ("a", "sit", 10), ("b", "walk", 20)]
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
    np.testing.assert_array_equal(cut, np.stack([values[start : start + 100] for start in (0, 75, 150)]), strict=True)
    assert [len(prepare_sensors.windows(values[:n], 75)) for n in (99, 100)] == [0, 1]


def test_overlap_is_25_percent_for_the_commonest_and_up_to_90_for_rare_ones() -> None:
    kinds = ((6000, 50, "walk"), (4000, 50, "walk"), (5000, 50, "sit"), (10, 5, "sit"), (2000, 5, "walk"))
    found = [Stretch(np.zeros((n, 3), np.float32), rate, activity, "a") for n, rate, activity in kinds]
    assert prepare_sensors.steps(found) == {(50, "walk"): 75, (50, "sit"): 38, (5, "sit"): 10, (5, "walk"): 15}


def test_the_script_makes_a_dataset_that_loads(data_dir, tmp_path, monkeypatch, capsys):
    path, kinds = tmp_path / "raw.csv", product((5, 10, 20, 50), ("walk", "sit"))
    pd.concat([recorded(400, *kind, start=1000 * place) for place, kind in enumerate(kinds)]).to_csv(path, index=False)
    monkeypatch.setattr(sys, "argv", ["prepare_sensors.py", str(data_dir / "walks"), str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(prepare_sensors.__file__, run_name="__main__")
    assert ended.value.code == 0
    found = load_dataset(DataSpec(dataset="own:walks"))
    assert (found.classes, len(found.sources)) == (("sit", "walk"), 4)
    assert abs(found.train.images.values).max() <= 1
    assert capsys.readouterr().out.startswith(f"{len(found.train)} training and {len(found.test)} test windows in ")
    train, test = (pq.read_table(data_dir / "walks" / f"{split}.parquet") for split in ("train", "test"))
    times = [np.concatenate(part["window"].to_pylist()).reshape(-1, 3)[:, 0] for part in (train, test)]
    assert not set(times[0].tolist()) & set(times[1].tolist()), "no sample is in both parts"
    # Samples, not windows, are divided: 15 % of those that some window holds, but for what is left at the ends.
    share = len(set(times[1].tolist())) / (len(set(times[0].tolist())) + len(set(times[1].tolist())))
    assert share == pytest.approx(0.15, abs=0.03)


@pytest.mark.parametrize(("text", "sentence"), [
    ("time,x,y,z,activity\n0,1,2,3,walk\n", "raw.csv = time, x, y, z, activity: must have a column subject"),
    ("time,x,y,z,activity,subject\n0,1,2,up,walk,a\n", "raw.csv line 2, z = up: must be a number"),
    ("time,x,y,z,activity,subject\n0,1,nan,3,walk,a\n", "raw.csv line 2, y = nan: must be a number"),
    ("time,x,y,z,activity,subject\n0,1,2,3,,a\n", "raw.csv line 2, activity = nothing: must be a name"),
    ("", "raw.csv = EmptyDataError: must be a CSV file that you can read"),
    ("time,x,y,z,activity,subject\n0,1,2,3,walk,a\n",
     "raw.csv = no window: must hold stretches of one activity at 5, 10, 20 or 50 Hz with 100 samples left for train"),
])
def test_recordings_that_cannot_be_used(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(text, encoding="utf-8")
    assert str(refusal_of(prepare_sensors.prepare, [tmp_path / "raw.csv"], tmp_path / "out")) == sentence
