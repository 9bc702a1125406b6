"""Released classifiers as files: which leave, how they are used with and without this program, and what is refused."""

import gzip
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dpcl_core import apart, checks, engine, errors, export
from dpcl_core.classifiers import folder, predict
from dpcl_core.data import columns, dataset, table_features
from dpcl_core.data.card import Feature
from dpcl_core.data.rows import digits
from dpcl_core.data.table_features import RowEncoding
from dpcl_core.methods.common import classifier
from dpcl_core.runs.store import Store
from tests.support import asserting, replay
from tests.support.tiers import quick
from tests.support.waiting import python
from tests.test_neighbours import METHODS, D, lies
from tests.test_neighbours import spec as neighbour

ROOT = Path(__file__).resolve().parent.parent.parent
RAW = {
    "method": "cosine", "data": {"dataset": "digits", "train_per_class": 30, "test_per_class": 5},
    "scenario": {"kind": "class-incremental", "tasks": 2}, "labels": "prior",
    "privacy": {"epsilons": [8.0, math.inf]}, "seeds": [0],
}  # fmt: skip


def ran(changes: Mapping[str, object], home: Path) -> tuple[Store, str]:
    """A store with a run, and the run's id."""
    spec, store = checks.parse(checks.changed(RAW, changes)), Store(f"sqlite:///{home / 'store.sqlite'}")
    return store, replay.fill(store, spec, list(engine.run(spec)))


def exported(changes: Mapping[str, object], home: Path, *, unprotected: bool = False) -> dict[str, bytes]:
    """The files of a run's export, without figures."""
    return export.bundle(*ran(changes, home), unprotected=unprotected)


def lay(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an export, and features of ten public digits in INPUT.npz."""
    home = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCL_HOME", str(home))
        patch.setattr(export, "_figures", lambda *_: {})
        lay(exported({}, home), home / "DIR")
    np.savez(home / "INPUT.npz", features=pictures()[:, :, :, 0].reshape(10, -1).astype(np.float32) / 255)
    return home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.setattr(export, "_figures", lambda *_: {})


def pictures() -> NDArray[np.uint8]:
    """The first ten bundled digits."""
    content, _ = digits()
    return np.asarray(content.content)[:10]


def test_models_with_a_bound_leave_and_the_others_on_demand_alone(tmp_path: Path) -> None:
    files = exported({}, tmp_path)
    document = json.loads(files["classifier/classifier.json"])
    assert sorted(name for name in files if name.endswith(".safetensors")) == [
        f"classifier/epsilon-8-seed-0-task-{task}.safetensors" for task in (1, 2)
    ]
    (model,) = document["models"]
    assert (model["epsilon"], model["protected"]) == (8.0, True)
    assert model["accounted"] <= 8.0
    first, second = (set(step["competing"]) for step in model["steps"])
    assert (len(first), len(second)) == (5, 10)
    assert document["left_out"] == [
        "epsilon ∞, seed 0: no privacy bound holds for it: do not give it to anyone who may not see the data; "
        "--unprotected writes it all the same"
    ]
    assert document["network_identity"].startswith("pixels|")
    everything = exported({}, tmp_path, unprotected=True)
    assert "classifier/epsilon-inf-seed-0-task-2.safetensors" in everything
    assert folder.remarks(everything) == [
        "warning: epsilon ∞, seed 0: no privacy bound holds for it: do not give it to anyone who may not see the data"
    ]


def test_seeded_noise_and_a_claim_are_no_bounds(tmp_path: Path) -> None:
    """The seed is in the same export, and takes the noise off again."""
    assert not [name for name in exported({"privacy.noise": "seeded"}, tmp_path) if name.endswith(".safetensors")]
    claimed = {"method": "l2dp-ml", "params": {"batch_size": 20}, "privacy": {"epsilons": [8.0]}, "labels": "prior"}
    assert not [name for name in exported(claimed, tmp_path) if name.endswith(".safetensors")]


def test_what_is_too_large_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one of two tasks: the last is kept. Room for none: nothing is."""
    size = 10 * 64 * 8
    for module in (classifier, folder):
        monkeypatch.setattr(module, "LARGEST", 2 * size)
    document = json.loads((files := exported({}, tmp_path))["classifier/classifier.json"])
    assert [step["task"] for step in document["models"][0]["steps"]] == [2]
    assert any("After task 1" in line for line in document["left_out"])
    assert len([name for name in files if name.endswith(".safetensors")]) == 1
    monkeypatch.setattr(classifier, "LARGEST", size)
    document = json.loads(exported({}, tmp_path)["classifier/classifier.json"])
    assert (document["models"], len(document["left_out"])) == ([], 1)


def test_the_lines_of_the_readme_need_numpy_and_safetensors_alone_and_answer_as_the_program(written: Path) -> None:
    _, code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.split("\n\n", 1)[1].strip().splitlines()) <= 10
    alone = f"{code}\nimport sys\nassert not [name for name in sys.modules if name.startswith(('dpcl', 'torch'))]\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = python("-I", "-c", alone, cwd=written, env=environment)
    ours = predict.predicted(written / "DIR", written / "INPUT.npz").predictions
    assert said.strip() == str([one.label for one in ours])
    assert len({one.label for one in ours}) > 5, "ten digits, at epsilon 8"


def test_a_classifier_alone_is_small_has_the_last_task_and_lines_that_use_it(tmp_path: Path, written: Path) -> None:
    files = export.classifier(*ran({"privacy.epsilons": (8.0,)}, tmp_path))
    assert sorted(files) == [
        "README.md", "classifier/classifier.json", "classifier/epsilon-8-seed-0-task-2.safetensors", "privacy_card.json",
    ]  # fmt: skip
    assert sum(map(len, files.values())) < 1_000_000
    lay(files, tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", files["README.md"].decode(), re.DOTALL)
    assert len(lines.splitlines()) <= 10
    (tmp_path / "INPUT.npz").write_bytes((written / "INPUT.npz").read_bytes())
    said = [one.label for one in predict.predicted(tmp_path, tmp_path / "INPUT.npz").predictions]
    assert python("-c", lines, cwd=tmp_path).strip() == str(said)
    asked = apart.answer("predict", apart.Tried(tmp_path / "INPUT.npz", tmp_path))
    assert [labels[0] for _, labels in asked.labels] == said


def test_a_classifier_that_found_no_label_names_none(tmp_path: Path, written: Path) -> None:
    few = {"labels": "dp-learned", "privacy.epsilons": (0.01,), "data.train_per_class": 5}
    lay(export.classifier(*ran(few, tmp_path)), tmp_path)
    asked = apart.answer("predict", apart.Tried(written / "INPUT.npz", tmp_path), is_apart=False)
    assert [labels for _, labels in asked.labels] == [()] * 10


def test_a_run_without_a_bound_gives_no_classifier_alone(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match="kept no classifier that has a privacy bound"):
        export.classifier(*ran({"privacy.epsilons": (math.inf,)}, tmp_path))


def test_a_folder_of_pictures_a_picture_and_their_features_get_the_same_answer(written: Path, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for number, pixels in enumerate(pictures()):
        Image.fromarray(pixels[:, :, 0]).save(tmp_path / "pictures" / f"{number}.png")
    of_features = predict.predicted(written / "DIR", written / "INPUT.npz").predictions
    of_folder = predict.predicted(written / "DIR" / "classifier", tmp_path / "pictures").predictions
    assert [one.scores for one in of_folder] == [one.scores for one in of_features]
    assert [one.name for one in of_folder] == [f"{number}.png" for number in range(10)]
    (tmp_path / "pictures" / "IMG_1.HEIC").write_bytes(b"photograph")
    said = predict.predicted(written / "DIR" / "classifier", tmp_path / "pictures").warnings
    assert said == ("1 of 11 files are left out: IMG_1.HEIC.", dataset.AS_READ)
    np.savez(tmp_path / "arrays.npz", pictures=pictures())
    rows = np.load(written / "INPUT.npz")["features"]
    np.savetxt(tmp_path / "table.csv", rows, "%.17g", ",", header=",".join(f"x{place}" for place in range(64)), comments="")
    for name in ("pictures/3.png", "arrays.npz", "table.csv"):
        found = predict.predicted(written / "DIR", tmp_path / name).predictions
        assert found[-1].label == of_features[3 if name.endswith("png") else 9].label, name


def test_the_terminal_prints_one_document(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = asserting.document_of(capsys, "predict", str(written / "DIR"), str(written / "INPUT.npz"), "--after", "1")
    assert (document["epsilon"], document["after_task"], document["protected"]) == (8.0, 1, True)
    assert len(document["predictions"]) == 10
    assert len(document["predictions"][0]["scores"]) == 5, "the classes of the first task"


WRONG: Mapping[str, tuple[object, str]] = {
    "narrow.npz": ({"features": np.ones((2, 3), np.float32)}, "INPUT = 3 numbers a row: must have 64"),
    "infinite.npz": ({"features": np.full((1, 64), np.inf)}, "finite numbers"),
    "objects.npz": ({"features": np.array([{}], dtype=object)}, "without pickled objects"),
    "two.npz": ({"features": np.ones((1, 64)), "pictures": np.ones((1, 8, 8, 1))}, "exactly one of the arrays"),
    "broken.npz": (b"PK\x03\x04nothing", "must be an NPY or NPZ file"),
    "broken.png": (b"nothing", "must be an image file"),
    "ragged.csv": (b"a,b\n1\n", "as many as there are columns"),
    "words.csv": (b"a,b\n1,two\n", "numbers alone"),
    "utf-16.csv": ("text\n\u00e9\n".encode("utf-16"), "saved as UTF-8"),
    "other.doc": (b"nothing", "must be a picture, a folder of pictures"),
    "missing.csv": (None, "cannot be read"),
    "pipe.csv": (os.mkfifo, "must be a regular file"),  # which is refused before it is read
    "empty": ({}, "holds 0 pictures"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_input_that_cannot_be_used_is_one_sentence(
    name: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, said = WRONG[name]
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif isinstance(content, dict):
        (tmp_path / name).mkdir() if not content else np.savez(tmp_path / name, **content)
    elif callable(content):
        content(tmp_path / name)
    error = asserting.complaint(capsys, "predict", str(written / "DIR"), str(tmp_path / name))
    assert said in error
    assert error.count("\n") == 1
    assert str(tmp_path) not in error


@pytest.mark.parametrize(("choice", "said"), [
    ({"epsilon": 3.0}, "has no such classifier; it has epsilon 8, seed 0"),
    ({"after": 7}, "must be one of 1, 2"),
    ({"task": 1}, "must be left out"),
])  # fmt: skip
def test_a_model_that_is_not_there_is_one_sentence(choice: Mapping[str, object], said: str, written: Path) -> None:
    asserting.refuses(said, predict.predicted, written / "DIR", written / "INPUT.npz", **choice)  # type: ignore[arg-type]


def test_a_damaged_folder_is_one_sentence(written: Path, tmp_path: Path) -> None:
    document = json.loads((written / "DIR" / "classifier" / "classifier.json").read_text(encoding="utf-8"))
    asserting.refuses("must be a folder written by dpcl export", folder.read_classifier, tmp_path)
    for place, (changes, said) in enumerate([({"version": 2}, "version"), ({"models": [], "x": 1}, "x")]):
        (tmp_path / str(place)).mkdir()
        (tmp_path / str(place) / "classifier.json").write_text(json.dumps({**document, **changes}), encoding="utf-8")
        asserting.refuses(said, folder.read_classifier, tmp_path / str(place))
    document["models"][0]["steps"][1]["files"] = ["../../store.sqlite"]
    (tmp_path / "classifier.json").write_text(json.dumps(document), encoding="utf-8")
    asserting.refusal_of(folder.read_classifier, tmp_path)


KINDS: Mapping[str, tuple[str, str, list[str], list[str]]] = {
    "image": ("cosine", "asked.npz", [], ["row 1", "row 2"]),
    "sensor": ("peft-ensemble", "asked.npz", [], ["row 1", "row 2"]),
    "text": ("lm-olora", "asked.csv", ["--task", "2"], ["row 1", "row 2"]),
    "tagged": ("label-means", "asked.txt", [], ["Ada", "saw", "Rome"]),
}


@pytest.mark.parametrize("kind", quick(2, KINDS))
def test_every_kind_of_example_is_read_as_the_run_read_it(
    kind: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Data that the run used are not needed any more."""
    method, asked, more, names = KINDS[kind]
    door, changes = METHODS[method]
    door = door if door[0] == kind else (kind, door[1])  # type: ignore[assignment]
    lies(door, D, tmp_path, monkeypatch)
    spec, store = neighbour(method, changes, door[0]), Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    run_id = replay.fill(store, spec, list(engine.run(spec)))
    asserting.printed(capsys, "export", run_id, "--to", str(tmp_path / "DIR"), "--store", store.url, "--unprotected")
    monkeypatch.setenv("DPCL_DATA", str(tmp_path / "nothing"))
    random = np.random.default_rng(0)
    arrays = {
        "image": {"pictures": random.integers(0, 255, (2, 40, 30, 3), np.uint8)},
        "sensor": {"windows": random.normal(size=(2, 100, 3))},
    }
    if kind in arrays:
        np.savez(tmp_path / asked, **arrays[kind])  # type: ignore[arg-type]
    else:
        lines = "Ada saw Rome" if asked.endswith("txt") else "text,other\nmine,1\n\"not, mine\",2\n"
        (tmp_path / asked).write_text(lines, encoding="utf-8")
    document = asserting.document_of(capsys, "predict", str(tmp_path / "DIR"), str(tmp_path / asked), *more)
    assert [one["input"] for one in document["predictions"]] == names
    known = {name for one in store.classifiers(run_id) for name in one.competing}
    assert {one["label"] for one in document["predictions"]} <= known
    if more:
        said = asserting.complaint(capsys, "predict", str(tmp_path / "DIR"), str(tmp_path / asked))
        assert "as the question names the task" in said



def rows(n: int) -> str:
    """A table with semicolons and decimal commas, whose outcome its other columns tell."""
    lines = (f"{30 + place % 2},5;{('nurse', 'smith')[place % 2]};{('no', 'yes')[place % 2]}" for place in range(n))
    return "\n".join(["age;job;outcome", *lines, ""])


def export_of(table: Path, capsys: pytest.CaptureFixture[str], *more: str) -> None:
    """Runs on a table and exports the run into DIR beside it, from a terminal."""
    run_id = asserting.document_of(capsys, "run", "--data", str(table), "--set", "seeds=[0]", *more)["run_id"]
    asserting.printed(capsys, "export", run_id, "--to", str(table.parent / "DIR"))


@pytest.fixture
def of_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The export of a run on 1,600 such rows."""
    (tmp_path / "work.csv").write_text(rows(1600), encoding="utf-8")
    export_of(tmp_path / "work.csv", capsys, "--target", "outcome")
    return tmp_path


def test_rows_of_a_table_are_asked_about_as_they_are(of_table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they lie in the user's files: with the target or without it, in any order, in any kind of table."""
    (of_table / "again.csv").write_text(rows(6), encoding="utf-8")
    (of_table / "turned.tsv").write_text("job\tid\tage\nnurse\t1\t30.5\nsmith\t2\t31.5\n", encoding="utf-8")
    lines = [{"age": 30.5, "job": "nurse"}, {"age": 31.5, "job": "smith"}]
    (of_table / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (of_table / "array.json").write_text(json.dumps(lines), encoding="utf-8")
    (of_table / "packed.csv.gz").write_bytes(gzip.compress(rows(6).encode()))
    for name, n in (("again.csv", 6), ("turned.tsv", 2), ("lines.jsonl", 2), ("array.json", 2), ("packed.csv.gz", 6)):
        found = predict.predicted(of_table / "DIR", of_table / name).predictions
        assert [one.label for one in found] == ["no", "yes"] * (n // 2), name
    (of_table / "some.csv").write_text("age;job\n30,5;nurse\nn.d.;nurse\nabout 30;smith\n", encoding="utf-8")
    lost = "age: 1 of 2 cells are no number ('about 30') and count as missing."
    assert predict.predicted(of_table / "DIR", of_table / "some.csv").warnings == (lost,)
    for lines, told in (
        ("age,work\n30.5,nurse\n", "it lacks job and has age, work"),
        ("Age,Job\n30.5,nurse\n", "it lacks age, job and has Age, Job"),
        ("1,2\n30.5,4\n", "it lacks age, job and has 1, 2"),  # numbers alone, and not as many as a row becomes
    ):
        (of_table / "less.csv").write_text(lines, encoding="utf-8")
        said = asserting.complaint(capsys, "predict", str(of_table / "DIR"), str(of_table / "less.csv"))
        assert f"the columns that the classifier learned from, age, job; {told}" in said


def test_texts_are_asked_about_in_the_column_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (f"{('all was fine', 'it broke')[place % 2]} {place},{('plus', 'minus')[place % 2]}" for place in range(600))
    (tmp_path / "reports.csv").write_text("\n".join(["report,mark", *lines, ""]), encoding="utf-8")
    more = ["--target", "mark", "--text", "report", "--set", "data.backbone=hashed-text"]
    export_of(tmp_path / "reports.csv", capsys, *more)
    (tmp_path / "new.csv").write_text("id,report\n1,it broke\n2,all was fine\n", encoding="utf-8")
    assert [one.label for one in predict.predicted(tmp_path / "DIR", tmp_path / "new.csv").predictions] == ["minus", "plus"]
    (tmp_path / "other.csv").write_text("id,text\n1,it broke\n", encoding="utf-8")
    said = asserting.complaint(capsys, "predict", str(tmp_path / "DIR"), str(tmp_path / "other.csv"))
    assert "must have the column report, or numbers alone; it has id, text" in said


def test_an_embedding_is_scaled_as_those_of_the_run_were(tmp_path: Path) -> None:
    cells = {"x": ["3", "0"], "y": ["4", ""], "label": ["a", "b"]}
    table = columns.Table({name: columns.Column("text", values) for name, values in cells.items()}, 2)
    encoding = table_features.read_encoding(RowEncoding((Feature("x"), Feature("y")), (1, 1), is_embedding=True).document())
    np.testing.assert_array_equal(encoding.values(table, "x.csv"), np.array([[0.6, 0.8], [0, 0]], np.float32))
