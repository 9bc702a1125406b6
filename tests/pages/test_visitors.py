"""Whose runs and data are whose on a shared server: without logins and with, and what each visitor is shown."""

import importlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from streamlit.runtime.secrets import secrets_singleton
from streamlit.testing.v1 import AppTest

from dpcl_core import export, paths, unforeseen
from dpcl_core.cli import main
from dpcl_core.data import own
from dpcl_core.runs import administration, queue
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from pages.parts import state, visitor
from pages.parts.rooms import share
from tests.pages.conftest import Open, Patch, labels, press, words
from tests.pages.test_runs import ALL, SPEC, _tick
from tests.support import replay
from tests.support.asserting import excludes, refuses

Be = Callable[[Mapping[str, object]], None]
BROWSER = "a" * 32
ADA = {"is_logged_in": True, "iss": "https://login.example", "sub": "1", "email": "ada@example.org"}
AUTH = {"redirect_uri": "http://localhost/oauth2callback", "cookie_secret": "c" * 32, "client_id": "dpcl"}


@pytest.fixture
def user(monkeypatch: Patch) -> Be:
    """Makes somebody the user whom Streamlit names; the browser's token stays the same."""
    monkeypatch.setattr(visitor, "token", lambda: BROWSER)

    def be(claims: Mapping[str, object]) -> None:
        monkeypatch.setattr(importlib.import_module("streamlit.user_info"), "_get_user_info", lambda: dict(claims))

    return be


@pytest.fixture
def with_logins(monkeypatch: Patch) -> None:
    """A shared server whose secrets name a provider."""
    monkeypatch.setenv(queue.VARIABLE, queue.USUAL)
    monkeypatch.setattr(secrets_singleton, "_secrets", {"auth": AUTH})


@pytest.mark.parametrize(
    "other", [{"sub": "2"}, {"iss": "https://elsewhere.example"}, {"iss": "https://login.exampl", "sub": "e1"}]
)
def test_the_owner_is_the_account_and_else_the_browser(other: dict[str, str], user: Be) -> None:
    def digest(claims: Mapping[str, object]) -> str:
        user(claims)
        return visitor.digest()

    browser, hers = digest({}), digest(ADA)
    assert browser == sha256(BROWSER.encode()).hexdigest() != hers
    assert visitor.checked(visitor.account()) is None, "no cookie can name an account"
    assert digest({**ADA, "email": "ada@elsewhere.org", "name": "Ada"}) == hers, "an account is its issuer and its subject"
    assert digest({**ADA, **other}) not in (hers, browser)
    assert digest({**ADA, "is_logged_in": False}) == browser


def test_nothing_of_the_account_is_kept_but_a_digest(
    open_page: Open, store: Store, user: Be, with_logins: None, idle: None, home: Path
) -> None:
    user(ADA)
    open_page("questions", question="digits-cosine").button(key="start-set").click().run()
    (run,) = store.list_runs()
    assert run.owner == visitor.account()
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert str(visitor.account()).encode() in kept
    assert not [said for said in ("ada@example.org", "login.example", "Ada") if said.encode() in kept]


@pytest.mark.parametrize("name", ["start", "train", "runs", "data", "questions", "room", "administration", "about"])
def test_all_pages_but_start_ask_for_a_login(name: str, open_page: Open, store: Store, user: Be, with_logins: None) -> None:
    replay.fill(store, SPEC, ALL, name="of somebody")
    user({"is_logged_in": False})
    page = open_page(name)
    assert ([title.value for title in page.title] == ["Log in"]) is (name != "start")
    if name != "start":
        assert [button.key for button in page.button] == ["login-only"]
        assert "of somebody" not in words(page)
        said = words(page.button(key="login-only").click().run())
        assert "missing the following keys" in said, "wrong secrets are one sentence"
        assert AUTH["cookie_secret"] not in said
    user(ADA)
    assert [title.value for title in page.run().title] != ["Log in"]


def test_without_a_provider_or_visitors_nobody_is_asked(open_page: Open, user: Be, monkeypatch: Patch) -> None:
    for limits, claims in ((queue.USUAL, {}), (None, {"is_logged_in": False})):
        if limits is None:
            monkeypatch.delenv(queue.VARIABLE)
        else:
            monkeypatch.setenv(queue.VARIABLE, limits)
        user(claims)
        page = open_page("runs")
        assert [title.value for title in page.title] == ["Runs"]
    assert not {"logout", "login-only"} & {button.key for button in page.button}


def test_each_provider_has_a_button(open_page: Open, user: Be, with_logins: None, monkeypatch: Patch) -> None:
    shared = {name: AUTH[name] for name in ("redirect_uri", "cookie_secret")}
    named = {**shared, "google": {"client_id": "1"}, "university": {"client_id": "2", "client_kwargs": {"scope": "openid"}}}
    monkeypatch.setattr(secrets_singleton, "_secrets", {"auth": named})
    user({"is_logged_in": False})
    assert labels(open_page("runs")) == ["Log in with Google", "Log in with University"]


def test_secrets_of_logins_are_masked(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".streamlit").mkdir()
    file = tmp_path / ".streamlit" / "secrets.toml"
    file.write_text('[auth]\nclient_id = "the-client"\n[auth.google]\nclient_secret = "not-for-you"\n', encoding="utf-8")
    assert unforeseen.masked("the-client sent not-for-you") == "the-client sent ***"
    file.write_text("no TOML", encoding="utf-8")
    assert unforeseen.masked("the-client sent not-for-you") == "the-client sent not-for-you"


# On a server that others reach, nobody uses what another visitor has brought; on one's own computer nothing is noticed.


def brought(name: str, owner: str | None) -> Path:
    """Data that somebody (empty or None: the computer) has brought."""
    folder = paths.home() / "data" / name
    folder.mkdir(parents=True)
    if owner is not None:
        (folder / own.OWNER).write_text(owner, encoding="ascii")
    return folder


@pytest.fixture
def owned(home: Path, monkeypatch: Patch) -> None:
    """Data of two visitors and of the computer; the first visitor is here."""
    monkeypatch.setattr(visitor, "token", lambda: "a" * 32)
    for name, owner in (("mine", visitor.digest()), ("hers", "b" * 64), ("everybodys", None)):
        (brought(name, owner) / f"{name}.csv").write_text("x,label\n1,a\n", encoding="utf-8")


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.7", None, "localhost", "127.0.0.1", "::1"])
def test_on_a_shared_server_data_of_others_are_out_of_reach(monkeypatch: Patch, owned: None, address: str | None) -> None:
    monkeypatch.setattr(visitor.st, "get_option", lambda name: address if name == "server.address" else None)
    names = ["own:mine", "own:hers", "own:everybodys", "own:nobodys", "digits"]
    theirs = [] if address in visitor.HERE else ["own:hers", "own:nobodys"]
    assert visitor.mine(names) == [name for name in names if name not in theirs]
    for name in visitor.mine(names):
        visitor.check_owner(name)
    for name in theirs:
        refuses(f"{name}: is none of your data on this server", visitor.check_owner, name)


# Pages of a shared server: limits with their reason before Start, and buttons only for one's own runs.


@pytest.fixture
def mine(store: Store, monkeypatch: Patch) -> Store:
    """The store as the visitor of the pages uses it."""
    monkeypatch.setenv(queue.VARIABLE, "cells=12,places=2")
    monkeypatch.setattr(visitor, "digest", lambda: "anna")
    return store.as_visitor(queue.Visitor("anna", queue.Limits(cells=12, places=2)))


def test_start_says_what_is_above_a_limit_and_stays_shut(open_page: Open, mine: Store, idle: None) -> None:
    def opened(seeds: str, said: str) -> AppTest:
        page = open_page("train", v="1", e="0.5,inf", l="prior", sd=seeds, **{"s.tasks": "2"})
        assert [said in error.value.replace("\\", "") for error in page.error] == [True] * bool(said)
        assert page.button(key="start").disabled is bool(said)
        return page

    opened("0,1,2,3,4,5,6", "budgets times seeds = 14: must be at most 12 on this server: take fewer budgets or seeds")
    for _ in range(2):
        opened("0,1", "").button(key="start").click().run()
    opened("0,1,2", "wait for one to end, or stop one")
    assert [run.owner for run in mine.list_runs()] == ["anna"] * 2, "a run started here is one's own"


def test_fresh_cookies_count_for_their_address(open_page: Open, store: Store, idle: None, monkeypatch: Patch) -> None:
    monkeypatch.setenv(queue.VARIABLE, "places=2,address_places=2")
    for number, (host, is_shut) in enumerate([("10.0.0.1", False)] * 2 + [("10.0.0.1", True), ("10.0.0.2", False)]):
        monkeypatch.setattr(visitor, "token", lambda number=number: f"{number}" * 32)
        monkeypatch.setattr(visitor, "host", lambda host=host: host)
        page = open_page("train", v="1", e="0.5", sd="0")
        assert page.button(key="start").disabled is is_shut
        assert ["runs of your class or address = 2" in error.value for error in page.error] == [True] * is_shut
        if not is_shut:
            press(page, "Start")


def test_another_visitors_run_can_be_opened_and_repeated_but_not_changed(open_page: Open, store: Store, mine: Store) -> None:
    def offered(*rows: int) -> set[str]:
        return {*labels(_tick(open_page("runs"), *rows))}

    others = replay.fill(store, SPEC, ALL, name="others", status="running")
    own = replay.fill(mine, SPEC, ALL, name="own")
    assert not {"Stop", "Delete", "Save name"} & offered(1)
    assert {"Delete", "Save name"} <= offered(0)
    assert "Stop" not in labels(open_page("train", run=others))
    assert "Delete these 2" not in offered(0, 1)
    assert store.status(own) == "finished"


def test_the_trash_is_restored_and_emptied(open_page: Open, store: Store) -> None:
    """On one's own computer, too."""
    assert "Trash" not in words(open_page("runs"))
    run_id, kept = (replay.fill(store, SPEC, ALL, name=name) for name in ("first", "kept"))
    for key, said in (("trash-restore", ""), ("trash-empty", "The trash is empty.")):
        store.delete(run_id)
        page = open_page("runs")
        assert "“first”. Emptying deletes their results for good" in words(page)
        assert said in words(page.button(key=key).click().run())
        assert not store.trash()
    assert ([run.id for run in store.list_runs()], store.events(run_id)) == ([kept], ())


# On a server that others reach, a visitor sees no trace of runs on another's data: in no list, by no link, in no export.


HERS, HIS = "a" * 32, "b" * 32
PRIVATE = replace(SPEC, data=replace(SPEC.data, dataset="own:salaries"))


@pytest.fixture
def as_visitor(home: Path, monkeypatch: Patch) -> Callable[[str], None]:
    """Makes somebody the visitor of the pages of a server that others reach."""
    monkeypatch.setattr(visitor, "is_shared", lambda: True)
    return lambda token: monkeypatch.setattr(visitor, "token", lambda: token)


@pytest.fixture
def run_id(as_visitor: Callable[[str], None], store: Store) -> str:
    """A finished run on data of hers, and a public run; he is the visitor."""
    as_visitor(HERS)
    folder = brought("salaries", visitor.digest())
    rows = "".join(f"{row},{'xenolith' if row % 2 else 'zugzwang'}\n" for row in range(80))
    (folder / "salaries.csv").write_text(f"x,label\n{rows}", encoding="utf-8")
    os.utime(folder / "salaries.csv", (0, 0))  # long before the run, which `replay.fill` lets begin in the past
    replay.fill(store, SPEC, ALL, name="of everybody")
    found = replay.finished(store, PRIVATE, name="of my salaries")
    as_visitor(HIS)
    return found


def trace(page: AppTest) -> list[str]:
    """What a page shows of her data, their labels or the run."""
    options = [str(one) for box in [*page.selectbox, *page.multiselect] for one in box.options]
    tables = [frame.value.to_csv() for frame in page.dataframe]
    shown = "\n".join([words(page), *options, *tables, *[str(link.proto) for link in page.get("page_link")]])
    return re.findall("salaries|xenolith|zugzwang", shown)


@pytest.mark.parametrize("name", ["runs", "compare", "train", "privacy", "playground", "data", "questions"])
def test_no_page_lists_a_run_on_anothers_data(name: str, run_id: str, open_page: Open, as_visitor) -> None:
    assert trace(open_page(name)) == []
    if name in ("runs", "compare", "train"):
        as_visitor(HERS)
        assert "salaries" in trace(open_page(name)), "she sees it"


@pytest.mark.parametrize(("name", "key"), [("runs", "run"), ("compare", "r"), ("train", "run"), ("privacy", "run"),
                                           ("playground", "run"), ("tokens", "run"), ("anchors", "run")])  # fmt: skip
def test_a_link_to_it_says_the_same_as_one_to_no_run(name: str, key: str, run_id: str, open_page: Open, as_visitor) -> None:
    found, none = (open_page(name, v="1", **{key: one}) for one in (run_id, "0123456789ab"))
    assert (trace(found), words(found).replace(run_id, "RUN")) == ([], words(none).replace("0123456789ab", "RUN"))


@pytest.mark.parametrize("dataset", ["own:salaries", "own:nothing"])
def test_a_form_for_anothers_data_is_refused_as_one_for_none(dataset: str, run_id: str, open_page: Open) -> None:
    (paths.home() / "data" / "salaries" / "schema.toml").write_text('title = "Clinic payroll"\n', encoding="utf-8")
    page = open_page("train", v="1", d=dataset)
    assert f"{dataset}: is none of your data on this server" in words(page)
    assert set(trace(page)) <= ({"salaries"} if "salaries" in dataset else set()), "the name is his own guess"
    shown = [str(option) for box in page.selectbox for option in box.options]
    assert f"{dataset} (not on this computer)" in shown
    assert not [text for text in (*shown, words(page)) if "payroll" in text], "nor is their title shown"


def test_store_exports_and_audits_know_it_no_more_than_lists(run_id: str, as_visitor, store: Store) -> None:
    audit = Audits(store).create(run_id)
    seen = state.store()
    for find, named in ((partial(export.bundle, seen), run_id), (seen.get, run_id), (seen.retry, run_id),
                        (Audits(seen).get, audit)):  # fmt: skip
        refuses("no such run in this store", find, named)
    assert (seen.unfinished(), seen.queues()) == ([], {"cpu": (0, 1)}), "that something waits is said to everybody"
    as_visitor(HERS)
    assert [run.id for run in state.store().unfinished()] == [audit]


def test_runs_of_others_push_none_out_of_the_list(run_id: str, as_visitor, store: Store, monkeypatch: Patch) -> None:
    def listed(*most: int) -> set[str]:
        return {run.name for run in state.store().list_runs(*most)}

    with monkeypatch.context() as alone:
        alone.setattr(visitor, "is_shared", lambda: False)
        assert listed() == {"of everybody", "of my salaries"}, "on one's own computer"
    for _ in range(3):
        store.create(PRIVATE)
    assert listed(1) == {"of everybody"}
    (paths.home() / "data" / "salaries").rename(paths.home() / "moved")
    as_visitor(HERS)
    assert listed() == {"of everybody"}


@pytest.mark.parametrize("is_owner_known", [True, False])
def test_own_data_stay_out_of_rooms(is_owner_known: bool, run_id: str, as_visitor, store: Store, monkeypatch: Patch) -> None:
    as_visitor(HERS)
    if not is_owner_known:
        monkeypatch.setattr(visitor, "is_shared", lambda: False)  # else the run is nobody's to put anywhere
        (paths.home() / "data" / "salaries" / own.OWNER).write_bytes(b"\xff")
    rooms = Rooms(store)
    rooms.join(code := rooms.open("Monday", "teacher"), HERS)
    share([run_id, public := store.create(SPEC)])
    assert list(rooms.state(code).runs) == [public]


# Page of the administrator: shut without the key, and with it every visitor's runs can be stopped and deleted.


@pytest.fixture
def visited(store: Store, monkeypatch: Patch) -> Store:
    """A shared server with runs of two visitors and of a terminal, seen by a third visitor."""
    monkeypatch.setenv(queue.VARIABLE, "usual")
    monkeypatch.setattr(visitor, "digest", lambda: "carol")
    for owner in ("anna", "berta"):
        theirs = store.as_visitor(queue.Visitor(owner, queue.Limits()))
        replay.fill(theirs, SPEC, ALL, name="secret title")
        theirs.create(SPEC)
    store.create(SPEC)
    return store


def opened(page: AppTest) -> AppTest:
    page.text_input[0].set_value(administration.key())
    return press(page, "Open")


def test_the_key_is_needed(open_page: Open, visited: Store, capsys: pytest.CaptureFixture[str], monkeypatch: Patch) -> None:
    """Sizes of what is kept depend on the texts of everybody's runs, and every run of the server reads these files."""
    page = open_page("administration")
    page.text_input[0].set_value("guessed")
    press(page, "Open")
    assert page.error[0].value.startswith("key: is not this server's")
    excludes(words(page), "under way", "Kept on this computer")
    assert stat.S_IMODE((paths.home() / "administrator.key").stat().st_mode) == 0o600
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


def test_who_has_only_data_or_an_upload_is_listed_and_deleted(open_page: Open, visited: Store) -> None:
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


def test_features_go_where_only_some_of_the_data_can_be_deleted(open_page: Open, visited: Store) -> None:
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
