"""Whose runs and data are whose on a server with logins, and who is asked to log in."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from streamlit.runtime.secrets import secrets_singleton

from dpcl_core import unforeseen
from dpcl_core.runs import queue
from dpcl_core.runs.store import Store
from pages.parts import visitor
from tests.pages.conftest import Open, words
from tests.support import replay

Be = Callable[[Mapping[str, object]], None]
BROWSER = "a" * 32
ADA = {"is_logged_in": True, "iss": "https://login.example", "sub": "1", "email": "ada@example.org"}
AUTH = {"redirect_uri": "http://localhost/oauth2callback", "cookie_secret": "c" * 32, "client_id": "dpcl"}


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Be:
    """Makes somebody the user whom Streamlit names; the browser's token stays the same."""
    monkeypatch.setattr(visitor, "token", lambda: BROWSER)

    def be(claims: Mapping[str, object]) -> None:
        monkeypatch.setattr(importlib.import_module("streamlit.user_info"), "_get_user_info", lambda: dict(claims))

    return be


@pytest.fixture
def with_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared server whose secrets name a provider."""
    monkeypatch.setenv(queue.VARIABLE, queue.USUAL)
    monkeypatch.setattr(secrets_singleton, "_secrets", {"auth": AUTH})


def test_the_owner_is_the_account_and_else_the_browser(user: Be) -> None:
    user({})
    assert visitor.digest() == sha256(BROWSER.encode()).hexdigest()
    user(ADA)
    hers = visitor.digest()
    assert hers != sha256(BROWSER.encode()).hexdigest()
    user({**ADA, "email": "ada@elsewhere.org", "name": "Ada"})
    assert visitor.digest() == hers, "an account is its issuer and its subject"
    user({**ADA, "is_logged_in": False})
    assert visitor.digest() == sha256(BROWSER.encode()).hexdigest()


@pytest.mark.parametrize(
    "other", [{"sub": "2"}, {"iss": "https://elsewhere.example"}, {"iss": "https://login.exampl", "sub": "e1"}]
)
def test_another_issuer_or_subject_is_another_account(other: dict[str, str], user: Be) -> None:
    user(ADA)
    hers = visitor.digest()
    user({**ADA, **other})
    assert visitor.digest() not in (hers, sha256(BROWSER.encode()).hexdigest())


def test_no_cookie_can_name_an_account(user: Be) -> None:
    user(ADA)
    assert visitor.checked(visitor.account()) is None


def test_nothing_of_the_account_is_kept_but_a_digest(
    open_page: Open, store: Store, user: Be, with_logins: None, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.schedule", lambda self: None)
    user(ADA)
    page = open_page("questions", question="digits-cosine")
    page.button(key="start-set").click().run()
    assert not page.exception
    (run,) = store.list_runs()
    assert run.owner == visitor.account()
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert str(visitor.account()).encode() in kept
    assert not [said for said in ("ada@example.org", "login.example", "Ada") if said.encode() in kept]


@pytest.mark.parametrize("name", ["train", "runs", "data", "questions", "room", "administration", "about"])
def test_every_page_but_start_asks_for_a_login_and_shows_nothing_else(
    name: str, open_page: Open, store: Store, user: Be, with_logins: None
) -> None:
    spec = replay.a_spec()
    replay.fill(store, spec, replay.recorded(spec), name="of somebody")
    user({"is_logged_in": False})
    page = open_page(name)
    assert not page.exception
    assert [title.value for title in page.title] == ["Log in"]
    assert [button.key for button in page.button] == ["login-only"]
    assert "of somebody" not in words(page)
    user(ADA)
    assert [title.value for title in page.run().title] != ["Log in"]


def test_start_is_open_to_everybody(open_page: Open, user: Be, with_logins: None) -> None:
    user({"is_logged_in": False})
    page = open_page("start")
    assert not page.exception
    assert [title.value for title in page.title] != ["Log in"]


def test_without_a_provider_or_visitors_nobody_is_asked(open_page: Open, user: Be, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(queue.VARIABLE, queue.USUAL)
    user({})
    assert [title.value for title in open_page("runs").title] == ["Runs"]
    monkeypatch.delenv(queue.VARIABLE)
    user({"is_logged_in": False})
    page = open_page("runs")
    assert [title.value for title in page.title] == ["Runs"]
    assert not [button for button in page.button if button.key in ("logout", "login-only")]


def test_each_provider_has_a_button(open_page: Open, user: Be, with_logins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {name: AUTH[name] for name in ("redirect_uri", "cookie_secret")}
    named = {**shared, "google": {"client_id": "1"}, "university": {"client_id": "2", "client_kwargs": {"scope": "openid"}}}
    monkeypatch.setattr(secrets_singleton, "_secrets", {"auth": named})
    user({"is_logged_in": False})
    page = open_page("runs")
    assert [button.label for button in page.button] == ["Log in with Google", "Log in with University"]


def test_wrong_secrets_are_one_sentence(open_page: Open, user: Be, with_logins: None) -> None:
    user({"is_logged_in": False})
    page = open_page("runs")
    page.button(key="login-only").click().run()
    assert not page.exception
    assert "missing the following keys" in words(page)
    assert AUTH["cookie_secret"] not in words(page)


def test_secrets_of_logins_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".streamlit").mkdir()
    file = tmp_path / ".streamlit" / "secrets.toml"
    file.write_text('[auth]\nclient_id = "the-client"\n[auth.google]\nclient_secret = "not-for-you"\n', encoding="utf-8")
    assert unforeseen.masked("the-client sent not-for-you") == "the-client sent ***"
    file.write_text("no TOML", encoding="utf-8")
    assert unforeseen.masked("the-client sent not-for-you") == "the-client sent not-for-you"
