"""The document that a browser gets before any script has run."""

from __future__ import annotations

import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import app
from pages.parts import document
from pages.parts.text import in_document

STATIC = document._STATIC


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=app.documents))


@pytest.mark.parametrize(
    ("path", "called"), [("/", "Start"), ("/start", "Start"), ("/runs", "Runs"), ("/teacher", "For teachers")]
)
def test_a_page_has_its_title_before_any_script_runs(client, path, called):
    assert re.findall("<title>(.*)</title>", client.get(path).text) == [f"{called} · DP continual learning"]


def test_every_page_of_the_menu_and_beside_it_has_a_document(client):
    for pages in (*app.PAGES.values(), app.UNLISTED):
        for name, _ in pages:
            assert client.get(f"/{name}").status_code == 200
    assert client.get("/nowhere").status_code == 404  # the framework's to answer


def test_it_is_the_frameworks_own_with_nothing_lost(client):
    own = (STATIC / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href)="([^"]*)"', re.sub("<noscript>.*</noscript>", "", own, flags=re.DOTALL)))
    ours = client.get("/runs").text
    assert len(named) > 10
    assert all(f'"{each}"' in ours for each in named)
    assert ours.count('<div id="root"></div>') == 1


def test_the_scripts_that_it_names_are_there(client):
    own = (STATIC / "index.html").read_text(encoding="utf-8")
    scripts = re.findall(r'<link rel="modulepreload" crossorigin href="\./([^"]*)">', client.get("/").text)
    added = [each for each in scripts if each not in own]
    assert len(added) == len(document._PRELOADED)  # a new version of the framework may rename one
    assert all((STATIC / each).is_file() for each in scripts)


def test_it_is_asked_for_anew_and_says_what_it_needs(client):
    answer = client.get("/lessons")
    assert answer.headers["cache-control"] == "no-cache"
    assert re.findall("<noscript>(.*?)</noscript>", answer.text, flags=re.DOTALL) == [document.WITHOUT_SCRIPTS]


def test_it_has_the_style_and_the_script_that_answers_a_press(client):
    for path in ("/", "/runs"):
        text = client.get(path).text
        assert text.count(in_document()) == 1
        assert text.index("</head>") < text.index(in_document()) < text.index('<div id="root">')
    assert ".st-key-controls" in in_document()
    assert "Stopping …" in in_document()
    assert in_document().count("</script>") == 1


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://a.test/", True), ("http://a.test", True), ("http://a.test/runs?v=1", True),
        ("http://a.test/class/runs", True),
        ("http://a.test/nowhere", False), ("http://a.test/runs.html", False), (None, False),
    ],
)  # fmt: skip
def test_an_address_without_a_page_has_the_frameworks_document(url, own):
    assert document.is_own(url, ["start", "runs"]) is own


def test_documents_are_below_the_servers_own_path(monkeypatch):
    monkeypatch.setattr(document.st, "get_option", {"server.baseUrlPath": "/class/"}.__getitem__)
    routes = document.routes([("start", "Start"), ("runs", "Runs")])
    below = {"/class/start/{more}", "/class/runs/{more}"}
    assert {each.path for each in routes} == {"/class/", "/class/start", "/class/runs", *below}


def test_the_name_of_the_first_page_leads_to_it(client):
    """The framework knows its default page by no name, and would say that there is no such page."""
    answer = client.get("/start", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "./")


def test_an_address_below_a_page_leads_to_the_page_but_the_server_is_not_there(client):
    answer = client.get("/lessons/3", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "../lessons")
    assert client.get("/lessons/_stcore/health", follow_redirects=False).status_code == 404
