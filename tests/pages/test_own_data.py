"""The page Your data without a browser: another schema of kept data is another dataset, and streams are public plans."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import checks, paths, presets
from dpcl_core.data import intake, own, schema
from dpcl_core.runs import administration, worker
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell
from pages.parts import own_data, own_model, train_form, visitor
from tests.pages.conftest import Open, Patch, labels, press, turned, words
from tests.support import replay
from tests.support.asserting import includes

NAMES = ("low", "mid", "high", "top")


@pytest.fixture
def kept(home: Path, monkeypatch: Patch) -> str:
    """A table that the visitor has kept: own:visits."""
    monkeypatch.setattr(visitor, "token", lambda: "a" * 32)
    table = home / "visits.csv"
    rows = "".join(f"{row},{NAMES[row % 4]},{'ab'[row % 2]},p{row % 90},s{row % 3}\n" for row in range(360))
    table.write_text(f"age,risk,arm,patient,site\n{rows}", encoding="utf-8")
    return take_in(table, schema.Columns(target="risk"), owner=visitor.digest())


def field(page: AppTest, kind: str, name: str) -> Any:
    """The first field of a kind whose label or key begins so."""
    return next(one for one in getattr(page, kind) if one.label.startswith(name) or str(one.key).startswith(name))


def box(page: AppTest, label: str) -> Any:
    return field(page, "selectbox", label)


def folds(page: AppTest) -> list[str]:
    return [one.label for one in page.expander]


def several(page: AppTest) -> Any:
    """The question whether one person has several rows."""
    return next(one for one in page.radio if "several rows" in one.label)


def brought(page: AppTest, table: Path | str) -> AppTest:
    field(page, "text_input", "own-path").set_value(str(table))
    return page.run()


def take_in(source: Path, fields: schema.Schema | schema.Columns, of: str | None = None, owner: str = "") -> str:
    """Keeps a file, as from a terminal, and gives its name."""
    asked = intake.Asked(fields) if isinstance(fields, schema.Columns) else intake.Asked(instead=fields)
    with intake.taken_in(intake.Given(source, asked, owner, of=of)) as name:
        return name


@pytest.fixture
def unshared(monkeypatch: Patch) -> None:
    """A server on the visitor's own computer."""
    monkeypatch.setattr(visitor, "is_shared", lambda: False)


def drop(monkeypatch: Patch, name: str, content: str) -> None:
    """A file lies in the box for uploads."""
    dropped = SimpleNamespace(file_id=name, name=name, getvalue=content.encode)
    monkeypatch.setattr(own_data.st, "file_uploader", lambda *_, **__: dropped)


def test_another_schema_makes_another_dataset_and_goes_on_counting(kept: str, open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    replay.finished(store, replace(spec, data=replace(spec.data, dataset=kept)))
    page = press(open_page("data"), "Change the schema")
    assert "The schema of visits (own data)." in words(page)
    assert box(page, "Target").value == 1 + ["age", "risk", "arm", "patient", "site"].index("risk")
    assert next(one for one in page.button if one.label == "Keep with this schema").disabled, "nothing is changed yet"
    box(page, "Person").set_value(4)
    page.run()
    assert "makes other rows public" in words(page)
    page = press(page, "Keep with this schema")
    said = page.success[0].value.replace("\\", "")
    assert said == "Kept as visits-2 (own data). Runs on visits (own data) stay as they are."
    assert intake.kept_folder(kept)[1].columns == schema.Columns(target="risk")
    assert intake.kept_folder("own:visits-2")[1].columns == schema.Columns(target="risk", person="patient")
    assert "target: risk · person: patient" in words(page)
    counts = [administration.looks_at(store, name) for name in (kept, "own:visits-2")]
    assert [found and (found.runs, found.is_known) for found in counts] == [(1, False), (1, True)]


def test_rows_that_change_sides_keep_their_marks(kept: str) -> None:
    """Even where no row of the two test parts is the same."""
    folder, fields = intake.kept_folder(kept)
    name = take_in(folder, replace(fields, columns=schema.Columns(target="risk", person="patient")), of=kept)
    assert own.kept_marks(name) > own.kept_marks(kept)


def test_every_field_of_a_schema_survives_a_change(kept: str, open_page: Open) -> None:
    said = schema.Schema(
        title="Visits", classes=NAMES, n_train=400, held_out=0.25, kind="table", per_person=2, sources=("s0", "s1", "s2"),
        columns=schema.Columns(target="risk", person="patient", source="site"),
        features={"age": schema.Declared(low=0, high=120), "arm": schema.Declared(categories=("a", "b"))},
    )  # fmt: skip
    name = take_in(intake.kept_folder(kept)[0], said, of=kept, owner=visitor.digest())
    page = open_page("data")
    page.button(key=f"edit-{name}").click().run()
    field(page, "text_input", "Title").set_value("Visits of 2024")
    press(page.run(), "Keep with this schema")
    added = {"title": "Visits of 2024", "coins": 2, "first_line": "names"}
    assert intake.kept_folder("own:visits-2-2")[1] == replace(said, **added)


def test_the_stream_of_each_scenario_is_shown_from_public_facts(kept: str, open_page: Open) -> None:
    page = press(open_page("data"), "Change the schema")
    shown = {}
    for place, title in enumerate(box(page, "What comes when").options):
        box(page, "What comes when").set_value(place)
        page.run()
        shown[title] = words(page)
    assert {"New classes in every task", "Blurred tasks of equal size", "The classes in their own order"} <= set(shown)
    assert all("We show no counts" in text for text in shown.values())
    next(one for one in page.number_input if one.label == "Tasks").set_value(4)
    page.run()
    assert "4 tasks" in words(page)


def test_scenarios_follow_from_classes_and_columns(kept: str) -> None:
    assert "source-incremental" not in [one.kind for one in presets.streams(kept, 2)]
    assert "class-incremental" not in [one.kind for one in presets.streams(kept, 3)], "4 classes make no 3 equal tasks"
    columns = schema.Columns(target="risk", source="site", person="patient")
    name = take_in(intake.kept_folder(kept)[0], schema.Schema(columns=columns), of=kept)
    kinds = [one.kind for one in presets.streams(name, 2)]
    assert "source-incremental" in kinds
    assert "federated" not in kinds, "where a column names the person, clients are refused"


@pytest.mark.usefixtures("unshared")
def test_a_first_line_is_asked_about_before_anything_of_it_is_shown(home: Path, open_page: Open) -> None:
    table = home / "iris.csv"
    table.write_text("".join(f"{row % 9},{'ab'[row % 2]}\n" for row in range(200)), encoding="utf-8")
    page = brought(open_page("data"), table)
    assert "The first line may be a row of data." in words(page)
    assert not page.selectbox
    page.radio[0].set_value("data").run()
    assert box(page, "Target").options == ["none", "column1", "column2"]
    box(page, "Target").set_value(2).run()
    assert "The first line is a row of data: columns are called column1, column2" in words(page)


@pytest.mark.usefixtures("unshared")
def test_a_file_that_cannot_be_read_says_so_at_once(home: Path, open_page: Open) -> None:
    (home / "table.csv").write_bytes("größe,label\n1,a\n".encode("utf-16"))
    page = brought(open_page("data"), home / "table.csv")
    assert "must be saved as UTF-8" in words(page)
    assert not page.radio


@pytest.mark.parametrize("stem", ["汉" * 90, "visits of may " * 20, "a\0b", "\udcff", ".."], ids=range(5))
def test_an_upload_may_have_any_name(stem: str, home: Path, open_page: Open, monkeypatch: Patch) -> None:
    drop(monkeypatch, f"{stem}.csv", "age,label\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(200)))
    page = open_page("data")
    assert not page.error
    assert "What was understood: a table of features" in folds(page)


def test_an_upload_that_the_disk_refuses_is_told(home: Path, open_page: Open, monkeypatch: Patch) -> None:
    (home / "uploads").write_bytes(b"")
    drop(monkeypatch, "visits.csv", "age,label\n1,a\n")
    assert open_page("data").error[0].value.startswith("File = visits.csv")


def test_data_put_there_by_hand_are_not_changed_here(home: Path, open_page: Open) -> None:
    (folder := paths.home() / "data" / "mine").mkdir(parents=True)
    (folder / "mine.csv").write_text("x,label\n1,a\n", encoding="utf-8")
    assert "Change the schema" not in labels(open_page("data"))


def test_visitors_leave_the_computers_data_alone(kept: str, open_page: Open, store: Store, monkeypatch: Patch) -> None:
    """Everybody uses data that were taken in from a terminal: deleting them would delete the runs of all."""
    monkeypatch.setattr(visitor, "is_shared", lambda: True)
    computers = take_in(paths.home() / "visits.csv", schema.Columns(target="arm"))
    page = open_page("data")
    keys = {one.key for one in page.button}
    assert {f"edit-{kept}", f"edit-{computers}", "delete-visits"} <= keys
    assert "delete-visits-2" not in keys
    page = turned(turned(page, "budget-visits"), "budget-visits-2")
    assert [one.key for one in page.number_input if one.label == "ε of all runs together"] == ["budget-visits-epsilon"]
    monkeypatch.setattr(visitor, "is_shared", lambda: False)
    assert "delete-visits-2" in {one.key for one in open_page("data").button}


def test_features_go_though_a_file_cannot_be_deleted(kept: str, open_page: Open, store: Store, monkeypatch: Patch) -> None:
    features = paths.features_dir() / "of-visits.npz"
    features.parent.mkdir()
    features.touch()
    monkeypatch.setattr(own, "delete", lambda _: False)
    page = open_page("data").button(key="delete-visits").click().run()
    assert "some of its files could not be deleted" in page.error[0].value
    assert not features.exists()


def test_an_upload_never_kept_can_be_deleted_and_taken_out(home: Path, open_page: Open, monkeypatch: Patch) -> None:
    """It counts against the visitor's limit, and was in the way for ever where the browser was closed."""
    monkeypatch.setattr(visitor, "token", lambda: "a" * 32)
    folder = paths.uploads(visitor.digest())
    page = open_page("data")
    for is_in_box in (False, True):
        assert "Delete that file" not in labels(page)
        folder.mkdir(parents=True)
        (folder / "visits.csv").write_text("x,label\n1,a\n", encoding="utf-8")
        page = open_page("data")
        if is_in_box:
            turned(page, "own-data-file", ("number of the file", folder / "visits.csv"))
        else:
            press(page, "Delete that file")
        assert not folder.exists()


def test_an_array_of_people_beside_embeddings_can_be_named(home: Path, open_page: Open) -> None:
    coin = np.random.default_rng(1)
    np.savez(home / "e.npz", embeddings=coin.normal(size=(400, 5)), labels=np.arange(400) % 4, patient=np.arange(400) // 3)
    page = brought(open_page("data"), home / "e.npz")
    assert "What was understood" not in words(page), "first it is asked whom the noise protects"
    several(page).set_value(False)
    includes(words(page.run()), "| patient | unused |")
    assert "What was understood: embeddings" in folds(page)
    several(page).set_value(True)
    said = words(page.run())
    assert box(page, "Person").value == 3
    includes(said, "| patient | person |", "Each person counts once; one row of each is used.")


def test_the_owner_declares_and_removes_a_budget_and_start_obeys_it(kept: str, open_page: Open, store: Store) -> None:
    link = train_form.parameters_of(checks.parse(presets.settings(kept)))
    page = turned(open_page("data"), "budget-visits")  # the popover is open
    assert "Budget of" not in words(page)
    field(page, "number_input", "ε of all runs together").set_value(0.5)
    said, left = words(press(page, "Declare")), "epsilon 0.5, delta 0.001"
    assert f"Budget of visits (own data) for all runs on these rows: {left}, for one row left out." in said
    train = open_page("train", **link)
    assert train.button(key="start").disabled
    assert f"{left} is left of the budget of all runs on these rows" in words(train)
    assert not press(train, "Use ε = 0.5 instead").button(key="start").disabled
    assert "Budget of" not in words(press(page, "Remove"))
    assert not open_page("train", **link).button(key="start").disabled


@pytest.mark.parametrize(("columns", "asked"), [
    (["id", "user", "text", "label"], "user"), (["PatientNr", "age", "label"], "PatientNr"),
    (["age", "customer_id", "user_id"], "customer_id"), (["text", "label", "useful", "mail"], None), ([], None),
])  # fmt: skip
def test_a_person_is_asked_about_by_the_name_of_the_column(columns: list[str], asked: str | None) -> None:
    assert own_data.people_column(columns) == asked


@pytest.mark.usefixtures("unshared")
def test_whom_to_protect_is_asked_alike_of_files_with_and_without_repeated_people(home: Path, open_page: Open) -> None:
    """Neighbours differ in private rows: whether a name repeats among them must not show."""
    said = []
    for people in (400, 90):
        table = home / f"of {people}" / "tickets.csv"
        table.parent.mkdir()
        rows = "".join(f"u{row % people},ticket {row},{'ab'[row % 2]}\n" for row in range(400))
        table.write_text(f"user,text,label\n{rows}", encoding="utf-8")
        page = brought(open_page("data"), table)
        assert several(page).label == "Did one person write several rows? (column user)"
        assert several(page).value is None
        assert not any(one.key == "own-start" for one in page.button), "nothing can be spent before it is answered"
        said.append(words(page))
    assert said[0] == said[1]


@pytest.mark.usefixtures("unshared")
def test_start_says_what_one_model_spends_and_makes_it(home: Path, open_page: Open, store: Store) -> None:
    table = home / "tickets.csv"
    rows = "".join(f"u{row % 300},ticket {row} of {'ab'[row % 2]},{'ab'[row % 2]}\n" for row in range(600))
    table.write_text(f"user,text,label\n{rows}", encoding="utf-8")
    page = brought(open_page("data"), table)
    several(page).set_value(True).run()
    for epsilon in (1.0, 2.0):
        page.button_group(key="own-epsilon").set_value(epsilon)
        assert page.run().button(key="own-start").label == f"Start: spends ε = {epsilon:g} of tickets"
    assert not store.list_runs()
    page = page.button(key="own-start").click().run()
    (run,) = store.list_runs()
    assert (run.spec.data.dataset, list(run.spec.cells())) == ("own:tickets", [Cell(2.0, 0)])
    assert intake.kept_folder("own:tickets")[1].columns == schema.Columns(target="label", text="text", person="user")
    assert "A model of tickets" in words(page)
    scenario = checks.parse({"scenario": {"kind": "permuted", "tasks": 3}}).scenario  # everybody is in each task
    assert own_model.price(scenario, 1.0, "rows") == "Start: spends up to ε = 3 of rows"


@pytest.mark.parametrize(
    ("row", "said"), [("age,arm,patient,site\n4,a,p4,s1\n5,b,p5,s2\n", ""), ("height\n4\n", "INPUT = rows.csv")]
)  # fmt: skip
def test_a_model_is_asked(kept: str, row: str, said: str, open_page: Open, store: Store, monkeypatch: Patch) -> None:
    """The answers are those of the released classifier, and asking is no use of the data."""
    run_id = store.create(checks.parse({**presets.settings(kept), "labels": "prior-const"}))
    assert worker.run_here(store, run_id).status == "finished"
    before = administration.looks_at(store, kept)
    page = press(open_page("data"), "Its model")
    assert "These data have been used once: ε adds up to at most 1" in words(page)
    dropped, usual = SimpleNamespace(name="rows.csv", getvalue=row.encode), own_model.st.file_uploader
    asked = lambda *of, **named: dropped if "own-asked" in named["key"] else usual(*of, **named)  # noqa: E731
    monkeypatch.setattr(own_model.st, "file_uploader", asked)
    page = press(page, "Ask")
    assert [one.value.replace("\\", "").partition(":")[0] for one in page.error] == ([said] if said else [])
    answered = re.findall(r"\| row (\d) \| (low|mid|high|top) \|", words(page))
    assert [row for row, _ in answered] == ([] if said else ["1", "2"])
    if not said:  # a row can be typed, below the line that the field has
        monkeypatch.setattr(own_model.st, "file_uploader", usual)
        page = press(open_page("data"), "Its model")
        typed = page.text_area(key=f"own-typed-{run_id}")
        typed.set_value(f"{typed.value}4,a,p4,s1\n")
        page = press(page, "Ask")
        assert not page.error
        assert len(re.findall(r"\| row 1 \| (?:low|mid|high|top) \|", words(page))) == 1
    assert administration.looks_at(store, kept) == before


@pytest.mark.usefixtures("unshared")
def test_what_to_expect_is_told_from_public_numbers_before_anything_is_spent(home: Path, open_page: Open) -> None:
    """Other private labels and texts, with the same public part: the same words."""
    said = []
    for shift in (0, 1):
        folder = home / f"of {shift}" / "tickets"
        for part, n in (("train", 200), ("test", 60)):
            path = folder / f"{part}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            turned = shift if part == "train" else 0
            rows = "".join(f"{part} {row + turned},{'ab'[(row + turned) % 2]}\n" for row in range(n))
            path.write_text(f"text,label\n{rows}", encoding="utf-8")
        page = open_page("data")
        page.session_state["own-helper"] = True  # it is open
        assert not brought(page, folder).error
        said.append(words(page))
        includes(said[-1], "With about 240 examples, 2 classes and 2 tasks", "DP cosine classifier", "at least 8 in 10")
    assert said[0] == said[1]
