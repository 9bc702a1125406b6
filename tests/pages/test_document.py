"""The document of a page, messages that no page sends, and who may talk to the server."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocket
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import SessionState, WStates
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

import app
from dpcl_core import unforeseen
from pages.parts import document, fields, state
from pages.parts.text import in_document
from tests.pages.conftest import Patch
from tests.support.asserting import includes

STATIC = document._STATIC


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=app.documents))


@pytest.mark.parametrize(
    ("path", "called"), [("/", "Start"), ("/start", "Start"), ("/runs", "Runs"), ("/administration", "Administration")]
)
def test_a_page_has_its_title_before_any_script_runs(client, path, called):
    assert re.findall("<title>(.*)</title>", client.get(path).text) == [f"{called} · DP continual learning"]


def test_every_page_of_the_menu_and_beside_it_has_a_document(client):
    for name, _ in app.PAGES + app.UNLISTED:
        assert client.get(f"/{name}").status_code == 200
    assert client.get("/nowhere").status_code == 404  # the framework's to answer


def test_it_is_the_frameworks_own_with_nothing_lost_and_scripts_that_are_there(client):
    own = (STATIC / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href)="([^"]*)"', re.sub("<noscript>.*</noscript>", "", own, flags=re.DOTALL)))
    ours = client.get("/runs").text
    assert len(named) > 10
    assert all(f'"{each}"' in ours for each in named)
    assert ours.count('<div id="root"></div>') == 1
    assert re.findall("<noscript>(.*?)</noscript>", ours, flags=re.DOTALL) == [document.WITHOUT_SCRIPTS]
    scripts = re.findall(r'<link rel="modulepreload" crossorigin href="\./([^"]*)">', ours)
    added = [each for each in scripts if each not in own]
    assert len(added) == len(document._PRELOADED)  # a new version of the framework may rename one
    assert all((STATIC / each).is_file() for each in scripts)


def test_it_has_the_style_and_the_script_that_answers_a_press(client):
    for path in ("/", "/runs"):
        text = client.get(path).text
        assert text.count(in_document()) == 1
        assert text.index("</head>") < text.index(in_document()) < text.index('<div id="root">')
    includes(in_document(), ".st-key-controls", "Stopping …")
    assert in_document().count("</script>") == 1


@pytest.mark.parametrize(("url", "own"), [
    ("http://a.test/", True), ("http://a.test", True), ("http://a.test/runs?v=1", True),
    ("http://a.test/class/runs", True),
    ("http://a.test/nowhere", False), ("http://a.test/runs.html", False), (None, False),
])  # fmt: skip
def test_an_address_without_a_page_has_the_frameworks_document(url, own):
    assert document.is_own(url, ["start", "runs"]) is own


def test_documents_are_below_the_servers_own_path(monkeypatch):
    monkeypatch.setattr(document.st, "get_option", {"server.baseUrlPath": "/class/"}.__getitem__)
    routes = document.routes([("start", "Start"), ("runs", "Runs")])
    below = {"/class/start/{more}", "/class/runs/{more}"}
    moved = {f"/class/{old}" for old in document.MOVED}
    assert {each.path for each in routes} == {"/class/", "/class/start", "/class/runs", *below, *moved}


@pytest.mark.parametrize(("old", "leads_to"), [
    ("playground?l=prior&t=2", "./explore?l=prior&t=2&view=playground"),
    ("tokens?th=0.4", "./explore?th=0.4&view=words"),
    ("anchors", "./explore?view=clients"),
    ("compare?v=1&r=one,two&f=1", "./runs?v=1&r=one,two&f=1&view=compare"),
    ("edges", "./lessons?view=edges"),
    ("exercises?part=2", "./teach?part=2&view=exercises"),
    ("teacher?p=3", "./teach?p=3&view=plan"),
    ("room?room=QWERTY&large=1", "./teach?room=QWERTY&large=1&view=classroom"),
    ("published?p=cslr&w=ours", "./questions?p=cslr&w=ours&w=paper"),
    ("start", "./"),  # the framework knows its default page by no name, and would say that there is no such page
    ("lessons/3", "../lessons"),
])  # fmt: skip
def test_an_address_of_earlier_days_leads_to_its_view_with_its_settings(client, old, leads_to):
    answer = client.get(f"/{old}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, leads_to)
    assert client.get(f"/{old}").status_code == 200
    assert client.get("/lessons/_stcore/health", follow_redirects=False).status_code == 404, "the server is not there"


def test_every_address_of_earlier_days_is_tried():
    here = Path(__file__).read_text(encoding="utf-8")
    assert all(f'("{old}' in here and old not in dict(app.PAGES + app.UNLISTED) for old in document.MOVED)


# A value that no widget of a page sends is dropped, or ends the page with a sentence: no error of the program.


@pytest.fixture(autouse=True)
def installed(monkeypatch: Patch) -> Iterator[None]:
    ours = [(WStates, "set_widget_from_proto"), (WStates, "set_widget_metadata")]
    for of, name in [*ours, (AppSession, "_handle_clear_cache_request"), (AppSession, "request_rerun")]:
        monkeypatch.setattr(of, name, getattr(of, name))  # put back at the end
    document.install()
    return iter(())


def test_a_whole_number_that_a_browser_sends_for_a_field_of_numbers_is_kept() -> None:
    states = WStates()
    states.set_widget_from_proto(WidgetState(id="n", int_value=2))
    states.set_widget_metadata(WidgetMetadata("n", lambda value: value, lambda value: value, "double_value"))
    assert states["n"] == 2


def test_a_field_read_while_empty_keeps_its_type_until_it_is_drawn_again() -> None:
    """The second of two quick messages comes before the page has drawn the field: a choice is kept, another type is not."""
    states = WStates()
    states.set_widget_metadata(WidgetMetadata("w", lambda value: value, lambda value: value, "int_value"))
    states.set_widget_from_proto(WidgetState(id="w"))
    assert states["w"] is None
    states.set_widget_from_proto(WidgetState(id="w", string_value="forged"))
    assert "w" not in states
    states.set_widget_from_proto(WidgetState(id="w", int_value=1))
    assert states["w"] == 1


class Session(AppSession):
    """One that hears messages and does nothing else."""

    def __init__(self) -> None: ...
    def __del__(self) -> None: ...


def test_no_message_of_a_browser_clears_what_is_kept_for_all() -> None:
    made: list[int] = []
    kept = st.cache_resource(lambda: made.append(1))
    for _ in range(2):
        kept()
        Session().handle_backmsg(BackMsg(clear_cache=True))
    assert made == [1]


def test_a_session_keeps_where_back_led_while_other_messages_overtake_it(monkeypatch: Patch) -> None:
    """Each message to the server ends the run of the one before, maybe before the page began."""
    asked: list[ClientState | None] = []
    monkeypatch.setattr(document, "_request", lambda _, sent: asked.append(sent))
    session, width = Session(), ClientState(query_string="v=1")
    back = ClientState(query_string="v=1", is_history_navigation=True)
    session._session_state = SessionState()
    session.request_rerun(back)  # before any page was drawn, nothing has to be kept
    session.session_state[state.LED_TO] = led_to = list[str]()
    for sent in (width, back, width, None):
        session.request_rerun(sent)
        assert led_to == ([] if len(asked) < 3 else ["v=1"])
    assert asked == [back, width, back, width, None]


def words(value: object) -> str:
    assert isinstance(value, str), "a value of another type was read"
    return value


WORDS = WidgetMetadata("w", words, str, "string_value")


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("sent", [
    WidgetState(id="w", int_value=-(2**62)), WidgetState(id="w", json_value="{"), WidgetState(id="w", bytes_value=b"x")
])
def test_a_value_of_another_type_is_dropped_before_it_is_read(sent: WidgetState, *, is_known: bool) -> None:
    states = WStates()
    if is_known:  # from the run before
        states.set_widget_metadata(WORDS)
    states.set_widget_from_proto(sent)
    states.set_widget_metadata(WORDS)
    assert states.get("w") is None
    states.set_widget_from_proto(WidgetState(id="w", string_value="said"))
    states.set_widget_metadata(WORDS)
    assert states["w"] == "said"


def test_a_value_that_is_not_offered_is_no_error_of_the_program(home: Path, monkeypatch: Patch) -> None:
    said: list[str] = []
    monkeypatch.setattr(st, "error", said.append)
    slider, space = 'def deserialize(value):\n    return ["a", "b"][value]\n', dict[str, Callable[[int], str]]()
    exec(compile(slider, "streamlit/elements/widgets/select_slider.py", "exec"), space)  # type: ignore[arg-type]
    for read in (space["deserialize"], ["a"].__getitem__):
        with pytest.raises(IndexError) as broken:
            read(7)
        document.show_break(broken.value)
        assert unforeseen.log_file().exists() is (len(said) == 2)
    assert said[0] == document.SENTENCE
    assert "The program itself went wrong" in said[1]


# The server answers to its own names, and no foreign page shows it in a frame.


async def _accepts(socket: WebSocket) -> None:
    await socket.accept()


INSIDE = Starlette(routes=[Route("/", lambda _: PlainTextResponse("inside")), WebSocketRoute("/", _accepts)])


@pytest.fixture(autouse=True)
def as_configured() -> Iterator[None]:
    before = {name: st.get_option(name) for name in ("server.address", "server.allowedHosts")}
    yield
    for name, value in before.items():
        st.config.set_option(name, value)


def answers(kind: str, host: str | None, address: str, hosts: list[str] | None = None) -> list[Message]:
    """What a server at this address, with these allowed hosts, sends to a request under this name."""
    st.config.set_option("server.address", address)
    st.config.set_option("server.allowedHosts", hosts or [])
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"} if kind == "websocket" else {"type": "http.request", "body": b""}

    headers = [] if host is None else [(b"host", host.encode())]
    scope = {"type": kind, "path": "/", "method": "GET", "headers": headers, "query_string": b"", "subprotocols": []}
    asyncio.run(document.Gate(INSIDE)(scope, receive, send))
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(("host", "address", "hosts", "is_let_in"), [
    ("localhost:8501", "localhost", None, True), ("127.0.0.1:8501", "127.0.0.1", None, True),
    ("[::1]:8501", "localhost", None, True), ("LOCALHOST.", "localhost", None, True),
    ("127.0.0.2", "127.0.0.2", None, True), ("rebound.example:8501", "localhost", None, False),
    ("rebound.example", "127.0.0.2", None, False), ("localhost.rebound.example", "localhost", None, False),
    ("localhost@rebound.example", "localhost", None, False), (None, "localhost", None, False),
    ("runs.example", "127.0.0.1", ["runs.example"], True),  # behind a proxy
    ("localhost", "127.0.0.1", ["runs.example"], False),
    ("anything.example", "0.0.0.0", None, True),  # who serves a network names the hosts
    ("anything.example", "0.0.0.0", ["runs.example"], False),
])  # fmt: skip
def test_a_server_on_this_computer_answers_to_its_names_alone(
    kind: str, host: str | None, address: str, hosts: list[str] | None, *, is_let_in: bool
) -> None:
    first = answers(kind, host, address, hosts)[0]
    if kind == "http":
        assert first["status"] == (200 if is_let_in else 421)
    else:
        assert first["type"] == ("websocket.accept" if is_let_in else "websocket.close")


@pytest.mark.parametrize("frames", ["", "https://a.example https://b.example"])
def test_every_answer_says_what_browsers_may_do_with_it(frames: str, monkeypatch: Patch) -> None:
    monkeypatch.delenv(document.FRAMES, raising=False)
    if frames:
        monkeypatch.setenv(document.FRAMES, frames)
    headers = {name.decode(): value.decode() for name, value in answers("http", "localhost", "localhost")[0]["headers"]}
    assert headers["content-security-policy"] == f"frame-ancestors 'self' {frames}".rstrip()
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")


def test_uploads_that_no_page_knows_go(monkeypatch: Patch) -> None:
    """Anybody whose page is open may send as many as they like."""
    manager = MemoryUploadedFileManager("/upload")
    monkeypatch.setattr(st.runtime, "get_instance", lambda: SimpleNamespace(uploaded_file_mgr=manager))
    monkeypatch.setattr(fields, "_MOST_BYTES", 500)

    def left(size: int, *sent: tuple[str, str]) -> list[tuple[str, str]]:
        """What is held after these sessions have sent these files."""
        for session, name in sent:
            manager.add_file(session, UploadedFileRec(name, "x.csv", "", bytes(size)))
        fields.bound()
        return [(session, name) for session, files in manager.file_storage.items() for name in files]

    assert left(100, *(("one", number) for number in "01234")) == [("one", "3"), ("one", "4")]
    others = [("two", "a"), ("three", "b"), ("four", "c")]
    assert left(150, *others) == others
