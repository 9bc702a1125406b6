"""What a first visit loads in a real browser: compressed files, the icons that there are, data once, no Plotly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from pages.parts import served
from scripts.record_first_visit import PHONE, counted
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready

pytestmark = pytest.mark.browser
MOST = 1_100_000  # bytes of a first visit to Start
SENT = """performance.getEntriesByType("resource").filter(each => each.name.includes("/own/model."))
    .map(each => each.transferSize)"""
LOADED = """performance.getEntriesByType("resource").map(each => each.name.split("/").at(-1))"""
FONTS = """async ([ours, whole, names]) => {
    const load = async (family, font) => {
        const face = new FontFace(family, Uint8Array.from(font));
        document.fonts.add(await face.load());
    };
    await load("ours", ours);
    await load("whole", whole);
    const pixels = (family, name) => {
        const context = Object.assign(document.createElement("canvas"), {width: 400, height: 48}).getContext("2d");
        context.font = `40px ${family}`;
        context.fillText(name, 4, 44);
        return {drawn: context.getImageData(0, 0, 400, 48).data.join(), width: context.measureText(name).width};
    };
    return names.map((name) => {
        const [here, there] = [pixels("ours", name), pixels("whole", name)];
        return [name, here.drawn === there.drawn, here.width, there.width];
    });
}"""


@pytest.fixture(scope="module", autouse=True)
def compressed() -> None:
    """Everything is, as after an installation."""
    served.fill()


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def test_start_takes_one_megabyte_and_loads_data_once_when_they_are_seen(app: App, phone: Page) -> None:
    asked: list[Request] = []
    phone.on("request", lambda request: asked.append(request))
    with counted(int(app.url.rpartition(":")[2])) as way:
        phone.goto(way.url)
        ready(phone)
        expect(phone.get_by_role("button", name="What if the seed leaks?")).to_be_visible()
        phone.wait_for_timeout(1000)
        assert way.bytes < MOST
        names = [request.url.rpartition("/")[2] for request in asked]
        assert not [name for name in names if name.startswith(("Plotly", "MaterialSymbols", "rehype-raw", "model."))]
        for file in (name for name in names if name.endswith(".js")):
            answer = next(request.response() for request in asked if request.url.endswith(f"/{file}"))
            assert answer.header_value("content-encoding") == "br", file
        for _ in range(2):
            phone.goto(f"{way.url}/explore?view=words")
            ready(phone)
            expect(phone.locator(".tk-text")).not_to_be_empty()
            phone.locator(".tk-text").scroll_into_view_if_needed()
            phone.wait_for_function(f"() => {SENT}.length > 0")
        assert len({request.url for request in asked if "/own/model." in request.url}) == 1
        assert phone.evaluate(SENT) == [0]  # from the browser's own store


def test_the_websocket_is_compressed(app: App, phone: Page) -> None:
    told: list[dict[str, str]] = []
    devtools = phone.context.new_cdp_session(phone)
    devtools.send("Network.enable")
    devtools.on("Network.webSocketHandshakeResponseReceived", lambda event: told.append(event["response"]["headers"]))
    phone.goto(f"{app.url}/about")
    ready(phone)
    assert told
    assert all("permessage-deflate" in {k.lower(): v for k, v in each.items()}["sec-websocket-extensions"] for each in told)


def test_every_icon_of_the_framework_looks_as_in_its_own_font(app: App, visit: Visit) -> None:
    whole = next(served.STATIC.glob("media/MaterialSymbols-*.woff2")).read_bytes()
    names = served.named(served.STATIC.glob("js/*.js")) - {"star_filled"}  # which the framework draws as a picture
    page = visit(f"{app.url}/about")
    ours = served.subset(whole, names)
    found = page.evaluate(FONTS, [list(ours), list(whole), [*sorted(names), "zoom_in"]])
    *known, (_, alike, here, there) = found
    assert [(name, width) for name, is_alike, width, other in known if not is_alike or width != other or width > 41] == []
    assert not alike  # an icon that nobody names: its letters
    assert here > 2 * there
    loaded = page.evaluate(LOADED)
    assert [name.partition(".")[0] for name in loaded if name.startswith(("icons.", "Material"))] == ["icons"]
