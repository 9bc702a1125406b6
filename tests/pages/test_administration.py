"""Page of the administrator: shut without the key, and with it every visitor's runs can be stopped and deleted."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import paths
from dpcl_core.cli import main
from dpcl_core.data import own
from dpcl_core.runs import administration, queue
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.store import Store
from pages.parts import visitor
from tests.pages.conftest import Open, Patch, labels, press, words
from tests.pages.test_runs import ALL, SPEC
from tests.support import replay


@pytest.fixture
def visited(store: Store, monkeypatch: Patch) -> Store:
    """A shared server with runs of two visitors and of a terminal, seen by a third visitor."""
    monkeypatch.setenv(queue.VARIABLE, "usual")
    monkeypatch.setattr(visitor, "digest", lambda: "carol")
    for owner in ("anna", "berta"):
        theirs = store.as_visitor(Visitor(owner, Limits()))
        replay.fill(theirs, SPEC, ALL, name="secret title")
        theirs.create(SPEC)
    store.create(SPEC)
    return store


def opened(page: AppTest) -> AppTest:
    page.text_input[0].set_value(administration.key())
    return press(page, "Open")


def test_nothing_is_shown_without_the_key(
    open_page: Open, visited: Store, capsys: pytest.CaptureFixture[str], monkeypatch: Patch
) -> None:
    """Sizes of what is kept depend on the texts of everybody's runs, and every run of the server reads these files."""
    page = open_page("administration")
    page.text_input[0].set_value("guessed")
    press(page, "Open")
    assert page.error[0].value.startswith("key: is not this server's")
    assert "under way" not in words(page)
    assert "Kept on this computer" not in words(page)
    assert stat.S_IMODE(paths.administrator_key().stat().st_mode) == 0o600
    assert "Kept on this computer" in words(opened(page))
    about = open_page("about").segmented_control(key="about-views").set_value("Limits, version, citation").run()
    assert "This computer" in words(about)
    assert "Kept on this computer" not in words(about)
    assert not [label for label in labels(about) if label.startswith("Delete")]
    assert main(["administrator"]) == 0
    assert administration.is_key(capsys.readouterr().out.upper())
    assert not administration.is_key("")
    monkeypatch.delenv(queue.VARIABLE)  # a server for one has no administrator
    page = open_page("administration")
    assert "not shared" in page.info[0].value
    assert not page.text_input


def test_with_the_key_everybodys_runs_are_counted_stopped_and_deleted(open_page: Open, visited: Store) -> None:
    page = opened(open_page("administration"))
    said = words(page)
    assert "1 waiting, 0 under way, 1 over, 0 in the trash" in said
    assert said.count("**queued** on") == 3
    assert "secret title" not in said
    page.button(key="stop-anna").click().run()
    page.button(key="delete-berta").click().run()
    used = {one.owner: one for one in administration.usage(visited)}
    assert (used["anna"].waiting, used["anna"].over) == (0, 2)
    assert (used["berta"].waiting, used["berta"].over, used["berta"].trash) == (1, 0, 0)
    assert used["anna"].megabytes > used["berta"].megabytes == 0


def brought(name: str, owner: str) -> Path:
    """Data that somebody (empty: the computer) has brought."""
    folder = paths.home() / "data" / name
    folder.mkdir(parents=True)
    (folder / own.OWNER).write_text(owner, encoding="ascii")
    return folder


def test_who_has_only_data_or_an_upload_is_listed_and_they_can_be_deleted(
    open_page: Open, visited: Store, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("DPCL_DATA", raising=False)
    dora, emil = "d" * 64, "e" * 64
    for name, owner in (("hers", dora), ("hers-2", dora), ("the-computers", "")):
        (brought(name, owner) / "train.csv").write_bytes(bytes(300_000))
    for owner, n_bytes in ((dora, 100_000), (emil, 200_000)):
        paths.uploads(owner).mkdir(parents=True)
        (paths.uploads(owner) / "next.csv").write_bytes(bytes(n_bytes))
    run_id = visited.create(replace(SPEC, data=replace(SPEC.data, dataset="own:hers")))
    page = opened(open_page("administration"))
    for said in ("2 datasets and an upload; 0.7 of 500 MB", "0 datasets and an upload; 0.2 of 500 MB"):
        assert f"{said}; last start never" in words(page)
    for owner in (dora, emil[:16]):
        page.button(key=f"delete-data-{owner}").click().run()
    assert not page.error
    assert {one.owner for one in administration.usage(visited)} == {"anna", "berta"}
    assert [path.name for path in (paths.home() / "data").iterdir()] == ["the-computers"]
    assert visited.present([run_id]) == {}


def test_features_go_also_where_only_some_of_the_data_can_be_deleted(
    open_page: Open, visited: Store, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("DPCL_DATA", raising=False)
    dora = "d" * 64
    for name in ("first", "second"):
        (brought(name, dora) / own.ORIGIN).touch()
    replay.fill(visited, replace(SPEC, data=replace(SPEC.data, dataset="own:second")), [], status="running")
    features = paths.features_dir() / "of-the-first.npz"
    features.parent.mkdir()
    features.touch()
    page = opened(open_page("administration"))
    page.button(key=f"delete-data-{dora}").click().run()
    assert "is under way on these data: stop it first" in words(page)
    assert [path.name for path in (paths.home() / "data").iterdir()] == ["second"]
    assert not features.exists()
