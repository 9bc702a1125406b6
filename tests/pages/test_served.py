"""Files that leave compressed, the icon font with the framework's icons alone, data as files, and the page that trains."""

import json
from collections.abc import Iterator
from gzip import decompress
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fontTools.ttLib import TTFont
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import app
from dpcl_core import paths, presets
from dpcl_core.elements import element
from dpcl_core.site import live
from pages.parts import figure_card, layout, served
from tests.pages.conftest import Open, Patch

SCRIPT = min(served.STATIC.glob("js/index.*.js"), key=lambda path: path.stat().st_size)
NAME = f"js/{SCRIPT.name}"
WHOLE = SCRIPT.read_bytes()
FONT = next(served.STATIC.glob("media/MaterialSymbols-*.woff2"))


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: Patch) -> Iterator[tuple[Path, Path]]:
    """An environment and a cache of the test's own, both without files."""
    both = tmp_path / "environment", tmp_path / "cache"
    monkeypatch.setattr(paths, "shared_dirs", lambda _: both)
    for is_over in (False, True):
        for kept in (served.address, served.style, figure_card.written_once):
            kept.cache_clear()
        if not is_over:
            yield both


@pytest.fixture
def client() -> TestClient:
    """A server that has one script of the framework in all forms, and answers itself for what it does not have."""
    for way in ("gzip", "br"):
        served._keep(way, NAME, SCRIPT.read_bytes)
    rest = [Route("/{path:path}", lambda _: PlainTextResponse("passed on"))]
    return TestClient(Starlette(routes=rest, middleware=[Middleware(served.Compressed)]))


def ask(client: TestClient, encodings: str | None, name: str = NAME, method: str = "GET", **headers: str):
    """The answer to a browser that takes these encodings (None: it says nothing of them), with its body as it was sent."""
    del client.headers["accept-encoding"]
    sent = headers if encodings is None else {"accept-encoding": encodings, **headers}
    with client.stream(method, f"/static/{name}", headers=sent) as answer:
        answer.sent = b"".join(answer.iter_raw())
    client.headers["accept-encoding"] = "identity"
    return answer


@pytest.mark.parametrize(("encodings", "encoding"), [
    ("gzip, deflate, br, zstd", "br"), ("gzip, deflate", "gzip"), ("br;q=0, gzip;q=0.5", "gzip"), ("GZIP", "gzip"),
    ("gzip; q=0.000, identity", None), ("zstd", None), ("", None), (None, None),
])  # fmt: skip
def test_a_browser_gets_the_best_form_that_it_takes(client: TestClient, encodings: str | None, encoding: str | None) -> None:
    answer = ask(client, encodings)
    assert (answer.status_code, answer.headers.get("content-encoding")) == (200, encoding)
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["cache-control"] == "public, immutable, max-age=31536000"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert int(answer.headers["content-length"]) == len(answer.sent)
    if encoding == "br":
        assert pa.Codec("brotli").decompress(answer.sent, len(WHOLE), asbytes=True) == WHOLE
    else:
        assert (decompress(answer.sent) if encoding else answer.sent) == WHOLE
    head = ask(client, encodings, method="HEAD")
    assert (head.sent, dict(head.headers)) == (b"", dict(answer.headers))


def test_each_form_has_a_tag_of_its_own_and_is_not_sent_again(client: TestClient) -> None:
    tags = {encodings: ask(client, encodings).headers["etag"] for encodings in ("br", "gzip", "identity")}
    assert len(set(tags.values())) == 3
    for encodings, tag in tags.items():
        again = ask(client, encodings, **{"if-none-match": tag})
        assert ((again.status_code, again.sent), again.headers["vary"]) == ((304, b""), "Accept-Encoding")
        assert "content-encoding" not in again.headers
        assert ask(client, encodings, **{"if-none-match": '"another"'}).status_code == 200


def test_parts_and_what_is_not_compressed_are_the_plain_file(client: TestClient, places: tuple[Path, Path]) -> None:
    answer = ask(client, "br, gzip", range="bytes=10-19")
    assert (answer.status_code, answer.sent) == (206, WHOLE[10:20])
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-range"] == f"bytes 10-19/{len(WHOLE)}"
    (places[1] / "br" / NAME).unlink()
    assert ask(client, "br, gzip").headers["content-encoding"] == "gzip"
    (places[1] / "gzip" / NAME).unlink()
    assert ask(client, "br, gzip").sent == WHOLE


@pytest.mark.parametrize("name", ["js/nothing.js", "", "js", "../index.html", "%2e%2e/index.html", "..%2f..%2fversion.py"])
def test_all_else_is_the_frameworks_to_answer(client: TestClient, name: str) -> None:
    assert (ask(client, "br", name).sent, client.get("/elsewhere").text) == (b"passed on", "passed on")
    assert client.post(f"/static/{NAME}").status_code == 405  # of the route


def test_a_server_below_a_path_answers_there(client: TestClient, monkeypatch: Patch) -> None:
    monkeypatch.setattr(served.st, "get_option", {"server.baseUrlPath": "/class/"}.__getitem__)
    below = TestClient(Starlette(routes=client.app.routes, middleware=[Middleware(served.Compressed)]))
    assert below.get(f"/class/static/{NAME}").headers["content-encoding"] in ("br", "gzip")
    assert below.get(f"/static/{NAME}").text == "passed on"


def test_each_file_is_compressed_once(tmp_path: Path, places: tuple[Path, Path], monkeypatch: Patch) -> None:
    def made() -> dict[str, int]:
        return {path.relative_to(environment).as_posix(): path.stat().st_mtime_ns for path in environment.rglob("*.*")}

    static = tmp_path / "static"
    (static / "js").mkdir(parents=True)
    for name, content in {"js/a.js": b"a" * 5000, "js/b.css": b"b" * 4000, "c.woff2": b"c"}.items():
        (static / name).write_bytes(content)
    monkeypatch.setattr(served, "STATIC", static)
    environment, cache = places
    (environment / "gzip" / "js").mkdir(parents=True)
    (environment / "gzip" / "js" / "a.js").write_bytes(b"made by the installation")
    served.fill()
    first = made()
    assert first.keys() == {"gzip/js/a.js", "gzip/js/b.css", "br/js/a.js", "br/js/b.css"}
    assert (environment / "gzip/js/a.js").read_bytes() == b"made by the installation"
    served.fill()
    assert made() == first
    assert not cache.exists()


def test_a_place_that_cannot_be_written_to_stops_nothing(places: tuple[Path, Path]) -> None:
    places[1].write_text("no folder")
    served.fill()
    assert served.style() is None
    assert json.loads(figure_card.json_bytes({"a": 1}, part=b"[1,2]")) == {"a": 1, "part": [1, 2]}


# Icons.


def test_the_style_sheet_is_the_frameworks_but_for_its_icon_font(places: tuple[Path, Path]) -> None:
    style = served.style()
    assert style is not None
    known, own = style
    framework = (served.STATIC / known.removeprefix("./static/")).read_text(encoding="utf-8")
    text = (places[1] / "identity" / own.removeprefix("./static/")).read_text(encoding="utf-8")
    assert framework.count(FONT.name) == 1
    start = framework.index(f"../media/{FONT.name}")
    rest = framework[start:].removeprefix(f"../media/{FONT.name}")
    assert text.startswith(framework[:start])
    assert text.endswith(rest)
    font = (places[1] / "identity/css" / text.removeprefix(framework[:start]).removesuffix(rest)).resolve()
    assert font.stat().st_size < 20_000 < FONT.stat().st_size
    assert font.read_bytes()[:4] == b"wOF2"


def test_all_icons_that_scripts_name_are_found() -> None:
    names = served.named(served.STATIC.glob("js/*.js"))
    assert {"keyboard_arrow_down", "expand_more", "more_vert", "check", "close", "info"} <= names


def ligatures(font: TTFont) -> dict[str, Any]:
    """The outlines of a font's icons, by what one may write for them."""
    letters = {glyph: chr(code) for code, glyph in font.getBestCmap().items()}
    parts = (part for lookup in font["GSUB"].table.LookupList.Lookup for part in lookup.SubTable)
    groups = (each for part in parts for each in getattr(part, "ExtSubTable", part).ligatures.items())
    drawn = ((one.LigGlyph, (first, *one.Component)) for first, group in groups for one in group)
    return {"".join(letters.get(each, "?") for each in written): font["glyf"][glyph] for glyph, written in drawn}


def test_every_icon_that_scripts_name_stays_with_its_outline_and_few_others() -> None:
    names, whole = served.named(served.STATIC.glob("js/*.js")), TTFont(FONT)
    few = TTFont(BytesIO(served.subset(FONT, names)))
    kept, all_icons = ligatures(few), ligatures(whole)
    assert len(known := names & all_icons.keys()) > 50
    assert all(kept[icon] == all_icons[icon] and kept[icon].numberOfContours for icon in known)
    assert len(few.getGlyphOrder()) < 2 * len(names) < len(whole.getGlyphOrder()) / 10


@pytest.mark.parametrize("content", [b"", b"no font", FONT.read_bytes()[:5000]])
def test_a_font_of_another_kind_leaves_the_frameworks_own(tmp_path: Path, monkeypatch: Patch, content: bytes) -> None:
    for folder, name in (("css", "index.a.css"), ("media", "MaterialSymbols-a.woff2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content)
    monkeypatch.setattr(served, "STATIC", tmp_path)
    assert served.style() is None


# Data that go as files.


def test_a_named_entry_goes_as_one_file_whoever_sends_it(places: tuple[Path, Path]) -> None:
    model = figure_card.written_once(element.model)
    words, again = (json.loads(figure_card.json_bytes({"layer": layer}, model=model)) for layer in ("score", "mask"))
    assert words == {"layer": "score", "files": again["files"]}
    stored = places[1] / "identity" / words["files"]["model"].removeprefix("./static/")
    assert json.loads(stored.read_bytes()) == json.loads(json.dumps(element.model()))


@pytest.mark.parametrize("path", ["/", "/train"])
def test_a_document_leaves_compressed_and_is_asked_for_anew(path: str) -> None:
    client = TestClient(Starlette(routes=app.documents))
    plain, packed = (client.get(path, headers={"accept-encoding": taken}) for taken in ("identity", "br, gzip"))
    assert plain.text == packed.text
    assert [answer.headers.get("content-encoding") for answer in (plain, packed)] == [None, "gzip"]
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    for answer in (plain, packed):
        assert (answer.headers["cache-control"], answer.headers["vary"]) == ("no-cache", "Accept-Encoding")


# The door to the page that trains: which questions have one, and what the server hands out behind it.


def test_a_question_has_a_door_where_a_page_can_repeat_one_of_its_runs() -> None:
    assert (live.link_here([presets.load("digits-cosine")]) or "").startswith("#run=")
    assert live.link_here([presets.load("pecl-synthetic")]) is None
    both = [presets.load("pecl-synthetic"), presets.load("digits-cosine")]
    assert live.link_here(both) == live.link_here(both[1:])


def test_the_server_hands_out_the_page_where_it_was_built(places: tuple[Path, Path]) -> None:
    assert served.routes() == []
    places[1].mkdir(parents=True)
    (places[1] / "train-here.html").write_text("the page", encoding="utf-8")
    client = TestClient(Starlette(routes=served.routes()))
    assert (client.get("/here/train-here.html").text, client.get("/here/../cache").status_code) == ("the page", 404)


def test_start_has_a_door_or_the_commands_that_make_one(open_page: Open) -> None:
    assert layout.IN_BROWSER in [one.proto.popover.label for one in open_page("start").get("popover")]
