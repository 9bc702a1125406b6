"""On a server that others reach, a visitor sees no trace of runs on another's data: in no list, by no link, in no export."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import export, paths
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from pages.parts import state, visitor
from pages.parts.rooms import share
from tests.pages.conftest import Open, words
from tests.support import replay

HERS, HIS = "a" * 32, "b" * 32
SPEC = replay.a_spec()
PRIVATE = replace(SPEC, data=replace(SPEC.data, dataset="own:salaries"))


@pytest.fixture
def as_visitor(home, monkeypatch):
    """Makes somebody the visitor of the pages of a server that others reach."""
    monkeypatch.delenv("DPCL_DATA", raising=False)
    monkeypatch.setattr(visitor, "is_shared", lambda: True)

    def be(token: str) -> None:
        monkeypatch.setattr(visitor, "token", lambda: token)

    return be


@pytest.fixture
def run_id(as_visitor, store: Store) -> str:
    """A finished run on data of hers, and a public run; he is the visitor."""
    as_visitor(HERS)
    folder = paths.home() / "data" / "salaries"
    folder.mkdir(parents=True)
    rows = "".join(f"{row},{'xenolith' if row % 2 else 'zugzwang'}\n" for row in range(80))
    (folder / "salaries.csv").write_text(f"x,label\n{rows}", encoding="utf-8")
    os.utime(folder / "salaries.csv", (0, 0))  # long before the run, which `replay.fill` lets begin in the past
    (folder / own.OWNER).write_text(visitor.digest(), encoding="ascii")
    replay.fill(store, SPEC, replay.recorded(SPEC), name="of everybody")
    found = replay.fill(store, PRIVATE, replay.recorded(PRIVATE), name="of my salaries")
    as_visitor(HIS)
    return found


def trace(page: AppTest) -> list[str]:
    """What a page shows of her data, their labels or the run."""
    options = [str(one) for box in [*page.selectbox, *page.multiselect] for one in box.options]
    tables = [frame.value.to_csv() for frame in page.dataframe]
    links = [str(link.proto) for link in page.get("page_link")]
    shown = "\n".join([words(page), *options, *tables, *links])
    return re.findall("salaries|xenolith|zugzwang", shown)


@pytest.mark.parametrize("name", ["runs", "compare", "train", "privacy", "playground", "published", "data", "questions"])
def test_no_page_lists_a_run_on_anothers_data(name: str, run_id: str, open_page: Open, as_visitor) -> None:
    page = open_page(name)
    assert not page.exception
    assert trace(page) == []


@pytest.mark.parametrize(("name", "key"), [("runs", "run"), ("compare", "r"), ("train", "run"), ("privacy", "run"),
                                           ("playground", "run"), ("tokens", "run"), ("anchors", "run")])  # fmt: skip
def test_a_link_to_it_leads_to_the_same_words_as_one_to_no_run(
    name: str, key: str, run_id: str, open_page: Open, as_visitor
) -> None:
    found, none = (open_page(name, v="1", **{key: one}) for one in (run_id, "0123456789ab"))
    assert not found.exception
    assert trace(found) == []
    assert words(found).replace(run_id, "RUN") == words(none).replace("0123456789ab", "RUN")


@pytest.mark.parametrize("dataset", ["own:salaries", "own:nothing"])
def test_a_form_for_anothers_data_is_refused_as_one_for_none(dataset: str, run_id: str, open_page: Open) -> None:
    page = open_page("train", v="1", d=dataset)
    assert not page.exception
    assert f"{dataset}: is none of your data on this server" in words(page)
    assert set(trace(page)) <= ({"salaries"} if "salaries" in dataset else set()), "the name is his own guess"


def test_a_form_for_anothers_data_does_not_show_their_title(run_id: str, open_page: Open) -> None:
    schema = paths.home() / "data" / "salaries" / "schema.toml"
    schema.write_text('title = "Clinic payroll"\n', encoding="utf-8")
    page = open_page("train", v="1", d="own:salaries")
    shown = [str(option) for box in page.selectbox for option in box.options]
    assert "own:salaries (not on this computer)" in shown
    assert not [text for text in (*shown, words(page)) if "payroll" in text]


def test_she_sees_it_everywhere(run_id: str, open_page: Open, as_visitor) -> None:
    as_visitor(HERS)
    for name in ("runs", "compare", "train"):
        assert "salaries" in trace(open_page(name)), name


def test_store_exports_and_audits_know_it_no_more_than_lists(run_id: str, as_visitor, store: Store) -> None:
    audit = Audits(store).create(run_id)
    seen = state.store()
    with pytest.raises(BadInput, match="no such run in this store"):
        export.bundle(seen, run_id)
    for find, named in ((seen.get, run_id), (seen.retry, run_id), (Audits(seen).get, audit)):
        with pytest.raises(BadInput, match="no such run in this store"):
            find(named)
    assert (seen.unfinished(), seen.queues()) == ([], {"cpu": (0, 1)}), "that something waits is said to everybody"
    as_visitor(HERS)
    assert [run.id for run in state.store().unfinished()] == [audit]


def test_many_runs_of_others_push_none_out_of_the_list(run_id: str, as_visitor, store: Store) -> None:
    for _ in range(3):
        store.create(PRIVATE)
    assert [run.name for run in state.store().list_runs(1)] == ["of everybody"]


@pytest.mark.parametrize("is_owner_known", [True, False])
def test_in_a_room_a_run_on_ones_own_data_stays_ones_own(
    is_owner_known: bool, run_id: str, as_visitor, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_visitor(HERS)
    if not is_owner_known:
        monkeypatch.setattr(visitor, "is_shared", lambda: False)  # else the run is nobody's to put anywhere
        (paths.home() / "data" / "salaries" / own.OWNER).write_bytes(b"\xff")
    rooms = Rooms(store)
    code = rooms.open("Monday", "teacher")
    rooms.join(code, HERS)
    public = store.create(SPEC)
    share([run_id, public])
    assert list(rooms.state(code).runs) == [public]


def test_on_ones_own_computer_every_run_is_listed(run_id: str, monkeypatch, as_visitor) -> None:
    monkeypatch.setattr(visitor, "is_shared", lambda: False)
    assert {run.name for run in state.store().list_runs()} == {"of everybody", "of my salaries"}


def test_runs_on_data_that_are_gone_are_nobodys(run_id: str, as_visitor) -> None:
    (paths.home() / "data" / "salaries").rename(paths.home() / "moved")
    as_visitor(HERS)
    assert [run.name for run in state.store().list_runs()] == ["of everybody"]
