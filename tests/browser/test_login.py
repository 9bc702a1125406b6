"""Logins, and browsers without cookies."""

import asyncio
import secrets
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sqlalchemy import update
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from dpcl_core.runs import administration, process, queue, tables
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.run import columns_of
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from tests.browser.conftest import App, go, new_page, ready, serve
from tests.support import provider, replay
from tests.support.provider import Provider
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def answering() -> Iterator[Provider]:
    """A provider of logins."""
    with provider.running() as running:
        yield running


@pytest.fixture(scope="module")
def app(answering: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A shared server that asks this provider."""
    home = tmp_path_factory.mktemp("home")
    (home / ".streamlit").mkdir()
    (home / ".streamlit" / "secrets.toml").write_text(answering.secrets("http://127.0.0.1:{port}"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(queue.VARIABLE, queue.USUAL)
        patch.setenv("HOME", str(home))
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield from serve(home)


def stands_outside(page: Page, app: App) -> None:
    """Asserts that a page asks for a login."""
    go(page, f"{app.url}/runs")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def log_in(browser: Browser, app: App, person: str) -> Page:
    """A browser of its own in which the person has logged in."""
    page = new_page(browser)
    stands_outside(page, app)
    page.get_by_role("button", name="Log in").press("Enter")
    page.get_by_role("link", name=person).click()
    page.wait_for_url(f"{app.url}/")
    ready(page)
    return page


def test_what_a_person_starts_in_two_browsers_has_one_owner_and_anothers_has_another(browser: Browser, app: App) -> None:
    owners = []
    for person, question in (("ada", "digits-cosine"), ("ada", "blurry-digits"), ("grace", "digits-peft-head")):
        page = log_in(browser, app, person)
        go(page, f"{app.url}/questions?question={question}")
        page.locator(".st-key-start-set button").press("Enter")
        expect(page.locator(".st-key-stop-set button")).to_be_visible()
        page.context.close()
        sets = Sets(app.store())
        started = sets.newest(question)
        sets.request_stop(started.id)  # nobody waits for its results
        owners.append({run.owner for run in started.runs.values()})
    first, second, of_another = owners
    assert first == second
    assert len(first) == 1
    assert None not in first | of_another
    assert not first & of_another


def test_after_logging_out_the_login_is_asked_for_again(browser: Browser, app: App) -> None:
    page = log_in(browser, app, "ada")
    go(page, f"{app.url}/about")
    page.get_by_role("button", name="Help", exact=True).press("Enter")
    page.get_by_role("button", name="Log out").press("Enter")
    page.wait_for_url(f"{app.url}/")
    stands_outside(page, app)
    page.context.close()


def slowly(route: Route) -> None:
    time.sleep(1)
    route.continue_()


def test_a_login_outlives_the_cookie_that_confirms_it(browser: Browser, app: App) -> None:
    """The login is kept for a month, the framework's cookie until the browser is closed."""
    page = log_in(browser, app, "ada")
    assert [each for each in page.context.cookies() if each["name"] == "_streamlit_xsrf"]
    page.context.clear_cookies(name="_streamlit_xsrf")
    page.route("**/_stcore/health", slowly)  # whose answer has the cookie
    go(page, f"{app.url}/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.context.close()


def test_a_provider_that_refuses_leaves_the_visitor_outside(browser: Browser, app: App, answering: Provider) -> None:
    answering.refuses = True
    try:
        page = log_in(browser, app, "ada")
    finally:
        answering.refuses = False
    stands_outside(page, app)
    assert provider.SECRET not in (app.home / "server.log").read_text(encoding="utf-8")
    page.context.close()


# Strangers with a new cookie for every run, beside an honest visitor and a class: what each browser's connection gets.


def ended(work: Coroutine[None, None, list[str]]) -> list[str]:
    """What it gives, from a thread without a loop of events: the browsers of other tests leave theirs in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def test_fresh_cookies_count_for_their_address_and_a_class_for_itself(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))  # the other tests' has a provider of logins
    monkeypatch.setenv(queue.VARIABLE, "places=3,address_places=3,class_places=4")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")  # as behind a proxy, which says from where it was asked
    strangers, (honest, teacher), pupils = ([secrets.token_hex(16) for _ in range(n)] for n in (5, 2, 5))
    for app in serve(tmp_path):
        with busy(store := app.store()):
            said = [ended(started(app.url, one, "10.0.0.1")) for one in strangers]
            assert ended(started(app.url, honest, "10.0.0.2")) == []
            of_teacher = queue.Visitor(owner(teacher), queue.Limits(), queue.address_of("10.0.0.1"))
            room = Rooms(store.as_visitor(of_teacher)).open("Privacy, Monday at ten", of_teacher.owner)
            administration.check_kept(store.as_visitor(of_teacher), 1)  # as who has opened a room from there
            said_in_class = [ended(started(app.url, one, "10.0.0.1", f"room={room}")) for one in pupils]
            queued = {run.owner: run.place_in_queue for run in store.list_runs(states=["queued"])}
    assert [owner(one) in queued for one in strangers] == [True, True, True, False, False]
    assert said[0] == []
    assert all("runs of your class or address = 3" in " ".join(lines) for lines in said[3:])
    assert queued[owner(honest)] == 2, "after one of the strangers, who were there before"
    assert [owner(one) in queued for one in pupils] == [True] * 4 + [False], "though its address has as many as it may"
    assert any("runs of your class or address = 4" in line for line in said_in_class[-1])


def owner(token: str) -> str:
    return sha256(token.encode()).hexdigest()


@contextmanager
def busy(store: Store) -> Iterator[None]:
    """A run of this process holds the device, so that all others wait."""
    run_id = replay.fill(store, replay.a_spec(), [], status="running")
    with store.writing() as connection:
        connection.execute(update(tables.runs).where(tables.runs.c.id == run_id).values(**columns_of(process.me())))
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1.0):
            store.heartbeat(run_id, process.me())

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


async def started(url: str, token: str, address: str, room: str = "") -> list[str]:
    """Opens a room, if one is given, and Train, and presses Start: the errors and warnings that the visitor then sees."""
    headers = {"Cookie": f"dpcl-visitor={token}", "X-Forwarded-For": address}
    where = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
    named = {"origin": url, "subprotocols": ["streamlit"], "additional_headers": headers, "max_size": None, "proxy": None}
    async with await connect(where, **named) as visitor:
        if room:
            await asked(visitor, url, "teach", f"view=classroom&{room}")
        buttons, _ = await asked(visitor, url, "train", "preset=digits-cosine")
        return (await asked(visitor, url, "train", "preset=digits-cosine", press=buttons["Start"]))[1]


async def asked(
    visitor: ClientConnection, url: str, page: str, query: str, *, press: str = ""
) -> tuple[dict[str, str], list[str]]:
    """Asks for a page as a browser does; gives the ids of its buttons by label, and its errors and warnings."""
    message = BackMsg()
    said = message.rerun_script
    said.page_name, said.query_string, said.context_info.url = page, query, f"{url}/{page}"
    if press:
        pressed = said.widget_states.widgets.add()
        pressed.id, pressed.trigger_value = press, True
    await visitor.send(message.SerializeToString())
    buttons, alerts = dict[str, str](), list[str]()
    while True:
        heard = ForwardMsg.FromString(await asyncio.wait_for(visitor.recv(decode=False), PATIENCE_SECONDS))
        element = heard.delta.new_element
        if element.WhichOneof("type") == "button":
            buttons[element.button.label] = element.button.id
        if element.WhichOneof("type") == "alert":
            alerts.append(element.alert.body)
        if heard.WhichOneof("type") == "script_finished" and heard.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
            return buttons, alerts
