"""dpcl run --data: a file with nothing declared runs, says what it assumes, and tells neighbours apart by releases alone."""

import csv
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from dpcl_core import checks, paths, presets
from dpcl_core.data import catalog, intake, own
from dpcl_core.data.intake import Asked
from dpcl_core.data.outline import Outline
from dpcl_core.data.schema import Columns
from dpcl_core.runs.store import Store
from tests.support import bad_files, outside
from tests.support.asserting import called, complaint, document_of, includes, printed
from tests.support.tiers import quick

ONE = ("--set", "seeds=[0]", "--set", "privacy.noise=seeded")


@pytest.fixture(autouse=True)
def here(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path: Path, bunch: object, target: str = "kind") -> list[list[object]]:
    """A table of scikit-learn as CSV; its rows."""
    names, rows = bunch.feature_names, list(zip(bunch.data.tolist(), bunch.target.tolist(), strict=True))  # type: ignore[attr-defined]
    written = [[*values, bunch.target_names[label]] for values, label in rows]  # type: ignore[attr-defined]
    write(path, [[*names, target], *written])
    return written


def write(path: Path, rows: list[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def test_a_table_with_nothing_declared_runs_and_says_what_it_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    table(Path("cells.csv"), load_breast_cancer())
    out = printed(capsys, "run", "--data", "cells.csv", "--target", "kind", *ONE)
    for said in (
        "method cosine", "labels = dp-learned", "class-incremental tasks",
        "one fixed public squashing", "words are hashed", "set aside for testing", "A schema makes the result better",
        "dpcl_core data cells.csv --target kind --write-schema",
    ):  # fmt: skip
        assert said in out, said
    (run,) = Store().list_runs()
    assert (run.spec.method, run.spec.labels, run.spec.data.dataset) == ("cosine", "dp-learned", "own:cells")
    assert asdict(run.spec.scenario)["tasks"] == 2
    document = document_of(capsys, "run", "--data", "cells.csv", "--target", "kind", *ONE)
    assert document["status"] == "finished"
    # 63 % of the rows are benign; without noise the squashed numbers give 92 %.
    assert document["cells"][-1]["accuracy"][1][0] > 0.7
    assert own.names_of_own_data() == ["own:cells"]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_any_number_of_classes_makes_two_tasks(n_classes: int, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(n_classes)
    rows = [[draw.integers(9) + 10 * (row % n_classes), f"c{row % n_classes}"] for row in range(150 * n_classes)]
    write(Path("mine.csv"), [["x", "y"], *rows])
    large = ("--set", "privacy.epsilons=[8.0]")
    out = printed(capsys, "run", "--data", "mine.csv", "--target", "y", *ONE, *large)
    (run,) = Store().list_runs()
    assert asdict(run.spec.scenario)["tasks"] == 2
    assert "–" not in next(line for line in out.splitlines() if line.startswith("epsilon 8")), "labels were learned"


def test_another_method_and_stream_start_from_their_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """What is assumed of sources means classes among clients; what is printed is what runs."""
    write(Path("sites.csv"), [["a", "site", "kind"], *([n, "xyz"[n % 3], "pq"[n % 2]] for n in range(600))])
    columns = ("--target", "kind", "--source", "site")
    out = printed(capsys, "run", "--data", "sites.csv", *columns, *ONE)
    assert "method cosine on 5 numbers of each row, source-incremental tasks" in out
    changed = ("method=dp-fedavg", "labels=prior", "scenario.kind=federated", "scenario.clients=4")
    sets = [word for one in changed for word in ("--set", one)]
    out = printed(capsys, "run", "--data", "sites.csv", *columns, *sets, *ONE)
    includes(out, "method dp-fedavg on", "federated tasks, labels = prior.")


def test_few_people_get_a_larger_share_for_their_labels() -> None:
    table(Path("iris.csv"), load_iris())
    assert presets._label_share(checks.parse({}).privacy, 1000, 1) == 0.1
    assert presets._label_share(checks.parse({}).privacy, 40, 1) == 0.5
    assert presets._label_share(checks.parse({}).privacy, 1000, 4) > 0.1, "a row's budget is a quarter of a person's"


def test_embeddings_are_called_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    bunch = load_iris()
    np.savez("e.npz", embeddings=bunch.data, labels=bunch.target)
    assert "method cosine on the embeddings" in printed(capsys, "run", "--data", "e.npz", *ONE)


@pytest.mark.parametrize(("name", "kind"), quick(5, [form for form in bad_files.GOOD if form[0] != "d.parquet"]))
def test_every_kind_of_file_runs(name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(f"mine{Path(name).suffix}")
    path.write_bytes(bad_files.GOOD[name, kind])  # type: ignore[index]
    words = ["--set", "data.backbone=pixels"] if kind == "image" else []
    words += ["--set", "data.backbone=hashed-text"] if kind in ("text", "tagged") else []
    words += ["--set", "params.dimensions=4"] if kind == "tagged" else []
    status, out, err = called("run", "--data", str(path), *ONE, *words, capsys=capsys)
    if kind == "tagged" and status == 2:
        assert "scenario.clients" in err, "sixty sentences are too few for clients"
        return
    assert status == 0, err
    assert f"own:mine: {kind};" in out


@pytest.mark.parametrize(("words", "sentence"), [
    (("--data", "no.csv"), "--data = no.csv: is not there"),
    (("--data", "mine.csv"), "--target = nothing: must name the column of labels; say --header if"),
    (("--data", "mine.csv", "--header"), "--target = nothing: must name the column of labels, one of x, y"),
    (("--data", "mine.csv", "--target", "z"), "target = z: must be a column of own:mine/mine.csv; say --header if"),
    (("--data", "mine.csv", "--target", "z", "--header"), "target = z: must be a column of own:mine/mine.csv: x, y"),
    (("--data", "mine.csv", "--target", "x", "--person", "y", "--per-person", "0"), "per_person = 0"),
    (("--data", "mine.csv", "--target", "x", "--per-person", "2"), "--per-person = 2: needs --person COLUMN"),
    (("--data", "mine.csv", "--target", "one"), "must be a column"),
    (("--data", "mine.csv", "--target", "y", "--set", "method=l2dp"), "method = l2dp"),
    (("--data", "mine.csv", "--target", "y", "--preset", "digits-cosine"), "cannot be combined"),
    (("--data", "mine.csv", "--target", "y", "--set", "privacy.delta=0.5"), "privacy.delta = 0.5"),
    (("--data", ""), "must not be empty"),
    (("--data", "same.csv", "--target", "y"), "own:same = 1 label: must have 2 labels or more in its test part"),
])
def test_what_is_refused_is_refused_before_there_is_a_run(words, sentence, capsys):
    write(Path("mine.csv"), [["x", "y"], *([row, "ab"[row % 2]] for row in range(80))])
    write(Path("same.csv"), [["x", "y"], *([row, "a"] for row in range(80))])
    err = complaint(capsys, "run", *words)
    assert sentence in err
    assert str(Path.cwd()) not in err
    assert Store().list_runs() == []
    root = paths.home() / "data"
    assert not root.exists() or not list(root.iterdir())


def outlined(head: list[str], rows: list[list[str]], asked: Asked) -> Outline:
    """How a table is divided."""
    write(Path("mine.csv"), [head, *rows])  # type: ignore[list-item]
    with intake.looked_at(intake.Given(Path("mine.csv"), asked)) as name:
        (found,) = catalog.outlines(catalog.card(name))
        return found


def test_data_of_ones_own_folder_run_by_name(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data_dir / "mine").mkdir()
    table(data_dir / "mine" / "all.csv", load_breast_cancer(), "label")
    assert "own:mine: table;" in printed(capsys, "run", "--data", "own:mine", *ONE)
    complaint(capsys, "run", "--data", "own:mine", "--target", "label")
    said = complaint(capsys, "run", "--preset", "digits-cosine", "--target", "label")
    assert "--target: is said of a file: give --data PATH, too" in said


def said_outside_releases(
    home: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: list[list[str]], *words: str
) -> tuple[object, ...]:
    """Of a run on a table, in a home of its own: a second run in one is a second look at data of that name, counted so."""
    patch.setenv("DPCL_HOME", str(home))
    write(Path("mine.csv"), rows)  # type: ignore[arg-type]
    status, out, err = called("run", "--data", "mine.csv", "--target", "label", *words, *ONE, capsys=capsys)
    assert status == 0, err
    run = Store().get(re.findall(r"^run (\S+)$", err, re.MULTILINE)[0])
    without = [line for line in out.splitlines() if not line.startswith(("epsilon", "At ε", "It may be", "No "))]
    return "\n".join(without), re.sub(run.id, "RUN", err), run.spec, outside.events(Store().events(run.id))


def test_people_with_several_rows_differ_in_releases_alone(tmp_path, monkeypatch, capsys):
    """One person less, with all rows: the person's budget covers it, and nothing else shows it."""
    head, rows = ["who", "size", "label"], [[f"p{row % 60}", str(row), "ab"[row % 2]] for row in range(240)]
    leaves = rows[int(outlined(head, rows, Asked(Columns(target="label", person="who"), 2)).train.rows[0])][0]
    first, other = (
        said_outside_releases(tmp_path / name, monkeypatch, capsys, [head, *left], "--person", "who", "--per-person", "2")
        for name, left in (("D", rows), ("D'", [row for row in rows if row[0] != leaves]))
    )
    assert "Each person is protected as a whole; up to 2 rows of each are used." in first[0]  # type: ignore[operator]
    assert repr(first) == repr(other)


def test_neighbours_differ_in_releases_alone(capsys, monkeypatch, tmp_path):
    """Rows of the private part less and more, with a label that nobody has, no label, and cells that hold anything."""
    def n_tested(rows: list[list[str]]) -> int:
        return len(outlined(head, rows, Asked(Columns(target="label"))).test.rows)

    head, rows = ["size", "note", "label"], [[str(row), f"number {row}", "ab"[row % 2]] for row in range(90)]
    odd = [["nothing", "\U0001f600", "a"], ["9" * 500, "", "b"], ["1", "x", "nobody has it"], ["1", "x", ""]]
    odd += [["", "", "c" * 400], ["5", "=1+1", "a"]]
    n_public = n_tested(rows)
    of_part = [row for row in rows[:12] if n_tested([one for one in rows if one != row]) == n_public]
    new = [row for row in odd if n_tested([*rows, row]) == n_public]
    assert len(of_part) > 5
    assert len(new) > 2
    first, other = (
        said_outside_releases(tmp_path / name, monkeypatch, capsys, [head, *neighbour])
        for name, neighbour in (("D", rows), ("D'", [row for row in rows if row not in of_part[:3]] + new))
    )
    assert repr(first) == repr(other)


def visits() -> list[list[object]]:
    """Patients with one to four visits in four months of 2024, as a hospital exports them: gaps, words, decimal commas."""
    rows: list[list[object]] = []
    for patient in range(120):
        for visit in range(1 + patient % 4):
            crp = "" if (patient + visit) % 11 == 0 else f"{(patient * 7) % 90},{visit}"
            date = f"2024-0{1 + (patient + visit) % 4}-{10 + visit}"
            note, outcome = ("Fieber, Husten", "", "Sturz")[patient % 3], ("home", "ward")[patient % 2]
            rows.append([f"P{patient:04}", date, crp, note, outcome])
    return rows


def test_visits_over_months_become_tasks_and_patients_the_unit(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("visits.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["patient", "date", "crp", "note", "outcome"], *visits()])
    said = ("--target", "outcome", "--person", "patient", "--time", "date", "--per-person", "2")
    out = printed(capsys, "run", "--data", "visits.csv", *said, *ONE)
    includes(out, "source-incremental tasks", "Each person is protected as a whole; up to 2 rows of each are used.")
    assert "The line that names the columns is public." in out
    assert "dpcl_core data visits.csv --target outcome --person patient --time date --per-person 2 --write-schema" in out
    (run,) = Store().list_runs()
    assert asdict(run.spec.scenario)["order"] == ("2024-01", "2024-02", "2024-03", "2024-04")


def test_a_published_table_without_a_line_of_names_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """As the UCI repository has them: values alone, the class first or last, blanks after commas."""
    rows = [f"{row % 3}, {13 + row % 7 / 10}, {('Male', 'Female')[row % 2]}, {5 + row * 37 % 1700}" for row in range(240)]
    Path("wine.data.csv").write_text("\n".join(rows), encoding="utf-8")
    out = printed(capsys, "run", "--data", "wine.data.csv", "--target", "column1", "--no-header", *ONE)
    includes(out, "The first line is a row of data", "--target column1 --no-header --write-schema")
    assert "--no-header if it is a row of data" in complaint(capsys, "run", "--data", "wine.data.csv")


def test_ten_thousand_labels_run_and_one_more_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """As many as a run is tried with: each has a row in the model."""
    Path("many").mkdir()
    for n in (10_000, 10_001):
        kinds = [f"k{label}" for label in range(n)]
        write(Path("many/test.csv"), [["value", "kind"], *([label / n, kind] for label, kind in enumerate(kinds))])
        write(Path("many/train.csv"), [["value", "kind"], *([label / n, kind] for label, kind in enumerate(kinds))])
        few = ("--set", "privacy.epsilons=[8.0]", "--set", "labels=prior-const")
        status, _, err = called("run", "--data", "many", "--target", "kind", "--header", *few, *ONE, capsys=capsys)
        assert status == (0 if n == 10_000 else 2), err
    assert "must have at most 10,000 labels in its test part" in err
