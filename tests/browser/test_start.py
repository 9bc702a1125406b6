"""Start, the presenter’s size, a page’s document, questions and own data in a real browser."""

import math
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Page, Request, Route, TimeoutError, expect

from dpcl_core.elements import element
from dpcl_core.papers import questions
from dpcl_core.runs.shards import Sets
from pages.parts import document, served
from scripts import one_person
from scripts.record_first_visit import PHONE, counted
from tests.browser.conftest import PATIENCE_MS, App, Visit, go, no_wider_than, ready

DATA = one_person.decode(element.hero_document()["digits"])  # type: ignore[arg-type]
INK = """drawn => {
    const copy = new OffscreenCanvas(drawn.width, drawn.height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(drawn, 0, 0);
    const pixels = copy.getImageData(0, 0, drawn.width, drawn.height).data;
    return Math.max(...pixels.filter((_, at) => at % 4 === 3)) / 255;
}"""  # the darkest pixel


def shows(page: Page, epsilon: float, *, is_leaked: bool = False) -> None:
    """Waits until all pairs are there, then compares accuracy, meter, and the ink of the trace with Python's numbers."""
    share = f"{100 * one_person.knowledge(DATA, epsilon)[-1].mean():.0f} %"
    expect(page.locator(".hero .here")).to_have_count(5)
    expect(page.locator(".hero .accuracy")).to_have_text(share)
    chance = 1.0 if is_leaked else one_person.chance(DATA, epsilon)
    expect(page.locator(".hero .right")).to_have_text(str(math.ceil(100 * chance - 1e-6)))
    assert abs(page.locator(".hero .difference").evaluate(INK) - (2 * chance - 1)) < 0.01


def test_one_slider_moves_what_the_model_knows_and_what_an_attacker_can_tell(app: App, visit: Visit) -> None:
    page = visit(app.url)
    shows(page, element.FIRST_STOP)

    slider = page.get_by_role("slider", name=re.compile("Privacy budget"))
    slider.press("Home")
    shows(page, 0.1)
    page.get_by_role("button", name="What if the seed leaks?").press("Enter")
    expect(page.locator(".hero .finding")).to_have_text("The attacker draws the same noise, takes it away, and sees you.")
    shows(page, 0.1, is_leaked=True)
    page.get_by_role("button", name="What if the seed leaks?").press("Enter")
    slider.press("End")
    shows(page, float("inf"))
    loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert not [name for name in loaded if "Plotly" in name]


def test_digits_arrive_two_by_two_and_again_but_at_once_for_less_motion(app: App, visit: Visit) -> None:
    page = visit(app.url)
    here = page.locator(".hero .here")
    expect(here).to_have_count(5)
    again = page.get_by_role("button", name="Let the digits arrive again")
    again.press("Enter")
    assert here.count() < 5
    expect(here).to_have_count(5)
    page.emulate_media(reduced_motion="reduce")
    again.press("Enter")
    assert here.count() == 5


# Presenter size on a projector, kept over pages and a reload, and in links; on a phone, a slider beside its picture.


TOGETHER = {
    "": (".hero .difference", ".hero .slider"),
    "explore?view=playground": (".panel-accuracy svg", ".drag #slider"),
    "explore?view=words": (".tk-text", ".tk-theta"),
    "explore?view=clients": (".an-map", ".an-noise"),
}
USUAL, LARGE = 15, 19  # of letters, in pixels


def letters_of(page: Page, size: int) -> None:
    """Waits until the page's letters have that size: a switch's new name arrives before the page's new style."""
    page.wait_for_function(f"parseFloat(getComputedStyle(document.documentElement).fontSize) === {size}")


def seen(page: Page, *selectors: str) -> None:
    for selector in selectors:
        expect(page.locator(selector)).to_be_in_viewport(ratio=0.99)  # places are fractions of a pixel


def test_a_projector_shows_each_picture_with_its_slider_in_large_letters(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/?large=1", width=1024, height=768)
    for name, together in TOGETHER.items():
        go(page, f"{app.url}/{name}{'&' if name else '?'}large=1")
        page.locator(together[0]).scroll_into_view_if_needed()
        seen(page, *together)
        letters_of(page, LARGE)
        no_wider_than(page, 1024)


def test_presenter_size_is_switched_kept_over_pages_and_a_reload_and_shared(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons", width=1360)
    letters_of(page, USUAL)
    page.get_by_role("button", name="Presenter size").press("Enter")
    expect(page.get_by_role("button", name="Normal size")).to_be_visible()
    letters_of(page, LARGE)
    page.get_by_role("link", name="Your data", exact=True).click()
    expect(page.get_by_role("heading", name="Your data", exact=True)).to_be_visible()
    page.wait_for_url(re.compile(r"data\?large=1$"))
    page.reload()
    ready(page)
    letters_of(page, LARGE)
    page.go_back()
    if "/data" in page.url:  # which of a page and its parameters the browser is told first is open; either adds an entry
        ready(page)
        page.go_back()
    expect(page.get_by_role("heading", name="Lessons", exact=True)).to_be_visible()
    ready(page)
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_test_id("stPopoverBody").get_by_test_id("stCode")).to_contain_text(re.compile("large=1"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Normal size").click()
    expect(page.get_by_role("button", name="Presenter size", include_hidden=True)).to_be_attached()
    letters_of(page, USUAL)
    assert "large" not in page.url


# A page's document in a real browser: whom it asks, and for what.


def test_a_page_does_not_ask_where_its_server_is(browser: Browser, app: App) -> None:
    """A browser without the framework's cookie asks the server for it; one that has it waits for no answer."""
    context = browser.new_context()
    for visit in range(2):
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        if visit:
            page.route("**/_stcore/health", lambda _: None)  # never answered
        go(page, f"{app.url}/lessons")
        assert f"{app.url}/_stcore/health" in asked
        assert not [url for url in asked if url.startswith(f"{app.url}/lessons/")]
    context.close()


@pytest.mark.parametrize(("path", "page_path", "server"), [
    ("/lessons", "/lessons", ""), ("/class/lessons", "/lessons", "/class"), ("/", "/", ""), ("/class/", "/", "/class"),
    ("/class", "/", None), ("/lessons", "/runs", None),
])  # fmt: skip
def test_the_server_is_where_the_page_is(browser: Browser, path: str, page_path: str, server: str | None) -> None:
    """Its address is the page's without the name, also below a proxy's path; where it is unclear, the framework asks."""

    def served(route: Route) -> None:
        is_page = route.request.resource_type == "document"
        text = document.of_page(page_path, "Page") if is_page else ""
        route.fulfill(status=200 if is_page else 404, content_type="text/html", body=text)

    page = browser.new_page()
    page.route("**/*", served)
    page.goto(f"http://dpcl.test{path}")
    told = page.evaluate("window.__streamlit ?? null")
    assert told == (None if server is None else {"BACKEND_BASE_URL": f"http://dpcl.test{server}"})
    page.close()


def test_one_back_undoes_one_link(app: App, visit: Visit) -> None:
    """Train writes its whole view into the address: no entry of its own, and none at the address of the page before."""
    question, train = f"{app.url}/questions?v=1&question=digits-cosine", re.compile(r"/train\?.*&e=")
    page = visit(question)
    heading = page.get_by_role("heading", level=1)
    asked = heading.inner_text()
    for name, url in (("Change its settings", train), ("Its answer", question)):
        page.get_by_role("link", name=name).click()
        expect(page).to_have_url(url, timeout=PATIENCE_MS)
        ready(page)
    for url, title in ((train, "Train"), (question, asked)):
        page.go_back()
        expect(page).to_have_url(url, timeout=PATIENCE_MS)
        expect(heading).to_have_text(title, timeout=PATIENCE_MS)
        ready(page)
        expect(page.get_by_text("The link also has")).to_have_count(0)


# Questions in a browser: a set is started from the gallery and stopped as a whole; records answer without a run.


def test_a_set_is_started_from_its_card_and_stopped_as_a_whole_by_keyboard(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions?p=own")
    asked = questions.of_preset("blurry-digits").asked
    page.get_by_role("link", name=asked).press("Enter")
    expect(page.get_by_role("heading", name=asked, level=1)).to_be_visible()
    page.locator(".st-key-start-set button").press("Enter")
    expect(page.locator(".st-key-stop-set button")).to_be_visible()
    page.locator(".st-key-stop-set button").press("Enter")
    # Four runs take longer than a press; how many of them ended before it depends on the machine.
    expect(page.get_by_text(re.compile(r"^Stopped: [0-3] of 4 runs finished"))).to_be_visible()
    assert Sets(app.store()).newest("blurry-digits").status == "cancelled"
    page.get_by_role("link", name="All questions").press("Enter")
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()
    page.wait_for_url(re.compile("p=own"))  # the filters are kept


BAR = 11  # words of the bar of pages, which the limits leave out
# Labels and buttons count; numbers do not, nor what a figure, a table or a text that a figure shades says.
_SHOWN = """() => { const words = [], how = { contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true };
    const figures = 'svg, table, .tk-text, [data-testid=stIconMaterial], a[href="#stMain"]', visit = (root) => {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walk.currentNode; node; node = walk.nextNode()) {
        if (node.shadowRoot) visit(node.shadowRoot);
        if (node.nodeType !== 3 || !node.data.trim() || ['STYLE', 'SCRIPT'].includes(node.parentElement.tagName)) continue;
        if (node.parentElement.closest(figures) || !node.parentElement.checkVisibility(how)) continue;
        for (const word of node.data.matchAll(/\\S*\\p{L}\\S*/gu)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const box = range.getBoundingClientRect();
            if (box.width > 1 && box.height > 1 && box.top < innerHeight - 4 && box.bottom > 0) words.push(word[0]);
        }
    } };
    visit(document.body);
    return words.length; }"""
# Each figure fills the place that was kept for it, to the 10 pixels of width that it may be off, and needs no scroll bar.
_FIT = """() => [...document.querySelectorAll('.picture:has(.drawing)')].every(figure => {
    const place = figure.closest('[data-testid=stElementContainer]'), left = place.clientHeight - figure.scrollHeight;
    return place.scrollHeight <= place.clientHeight && left <= 0.05 * place.clientHeight; })"""


# Every other page but About as it opens, and what has come when its first screen is there.
OPENED = {
    "lessons?l=coin": "Choose an answer", "lessons?l=modes": "Choose an answer", "lessons?l=noise": "Choose an answer",
    "lessons?l=members": "Choose an answer", "lessons?l=sign": "Choose an answer", "lessons?view=edges": "The stolen state",
    "explore?view=playground": "Must noise pile up?", "explore?view=words": "What can an attacker read of it?",
    "explore?view=clients": "Matched and true", "privacy": "What did it cost me?", "data": "Your file", "train": "Start",
    "runs": "What ran, and what is running?", "runs?view=compare": "Which is better", "teach": "Your invented name",
    "teach?view=plan": "Handout", "teach?view=classroom": "Open a room",
}


@pytest.mark.parametrize(("path", "width", "height", "most", "highest"), [
    ("", 1360, 850, 90 + BAR, 1200), ("/questions", 1360, 850, 250, 4500), ("/questions", 390, 844, 250, 9000),
    *((f"/{path}", 1360, 850, 120 + BAR, 6000) for path in OPENED),
])
def test_pages_show_before_they_say(app: App, visit: Visit, path, width, height, most, highest) -> None:
    """Words on the first screen, and pixels of the whole page."""
    page = visit(f"{app.url}{path}", width=width, height=height)
    last = {"": "Open in your browser", "/questions": questions.of_preset("paper-cslr-anchors").asked}.get(path)
    expect(page.get_by_text(last or OPENED[path[1:]]).first).to_be_attached()
    if path:  # the header's buttons come last, but for figures, which push the words below them off the screen
        expect(page.get_by_role("button", name="Presenter size", include_hidden=True)).to_be_attached()
    with suppress(TimeoutError):
        page.wait_for_function(f"({_SHOWN})() <= {most}", timeout=PATIENCE_MS / 4)
    assert page.evaluate(_SHOWN) <= most
    page.wait_for_function(_FIT)
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight") <= highest
    no_wider_than(page, width)


def test_a_card_opens_its_answer_in_this_tab_and_is_a_link_for_another(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions")
    asked = questions.of_preset("digits-cosine").asked
    opened = page.get_by_role("link", name=asked)
    opened.press("Enter")
    expect(page.get_by_role("heading", name=asked, level=1)).to_be_visible()
    page.wait_for_url(re.compile("question=digits-cosine"))
    page.go_back()
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()
    with page.context.expect_page() as other:
        opened.click(modifiers=["Control"])
    other.value.set_default_timeout(PATIENCE_MS)
    other.value.get_by_role("heading", name=asked, level=1).wait_for()
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()


# A table of one's own in a browser: mapped, kept, set up for a run, and deleted with everything made of it.


ROWS = "".join(f"p{row % 150},{20 + row % 60},{('home', 'ward')[row % 2]}\n" for row in range(600))


def test_a_table_is_mapped_kept_and_deleted(app: App, visit: Visit, tmp_path) -> None:
    table = tmp_path / "visits.csv"
    table.write_text(f"patient,age,<b>outcome</b>\n{ROWS}", encoding="utf-8")
    page = visit(f"{app.url}/data")
    page.locator("input[type=file]").set_input_files(table)
    expect(page.get_by_text("The first line may be a row of data.")).to_be_visible()
    expect(page.get_by_text("<b>outcome</b>")).to_have_count(0)
    page.get_by_text("names the columns", exact=True).click()
    expect(page.get_by_text("Choose the target: the column to predict.")).to_be_visible()
    page.get_by_label("Target", exact=True).click()
    page.get_by_role("option", name="<b>outcome</b>", exact=True).click()
    expect(page.get_by_role("radiogroup", name="Can one person have several rows? (column patient)")).to_be_visible()
    page.get_by_text("Yes: protect the whole person").click()
    page.get_by_text("What was understood").click()
    expect(page.get_by_text("Each person counts once")).to_be_visible()
    expect(page.get_by_role("cell", name="<b>outcome</b>")).to_be_visible()
    expect(page.get_by_role("button", name="Start: spends ε = 1 of visits")).to_be_enabled()
    page.get_by_role("button", name="Keep for later").click()
    expect(page.get_by_text("Kept as visits (own data).")).to_be_visible()
    assert not list((app.home / "uploads").rglob("*.csv")), "the upload itself is gone"

    page.get_by_role("link", name="Other settings").click()
    expect(page.get_by_role("heading", name="Train", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("own(:|%3A)visits"))
    go(page, f"{app.url}/data")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete all of it").click()
    expect(page.get_by_role("heading", name="On this computer")).to_have_count(0)
    assert not (app.home / "data" / "visits").exists()


# What a first visit loads: compressed files, data once, no Plotly.


MOST = 1_100_000  # bytes of a first visit to Start
SENT = """performance.getEntriesByType("resource").filter(each => each.name.includes("/own/model."))
    .map(each => each.transferSize)"""


@pytest.fixture(scope="module", autouse=True)
def compressed() -> None:
    """Everything is, as after an installation."""
    served.fill()


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(**PHONE)
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def test_start_takes_one_megabyte_and_loads_data_once_when_they_are_seen(app: App, phone: Page) -> None:
    asked: list[Request] = []
    phone.on("request", lambda request: asked.append(request))
    with counted(int(app.url.rpartition(":")[2])) as way:
        go(phone, way.url)
        expect(phone.get_by_role("button", name="What if the seed leaks?")).to_be_visible()
        phone.wait_for_timeout(1000)
        assert way.bytes < MOST
        names = [request.url.rpartition("/")[2] for request in asked]
        assert not [name for name in names if name.startswith(("Plotly", "MaterialSymbols", "rehype-raw", "model."))]
        for file in (name for name in names if name.endswith(".js")):
            answer = next(request.response() for request in asked if request.url.endswith(f"/{file}"))
            assert answer.header_value("content-encoding") == "br", file
        for _ in range(2):
            go(phone, f"{way.url}/explore?view=words")
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
    go(phone, f"{app.url}/about")
    assert told
    assert all("permessage-deflate" in {k.lower(): v for k, v in each.items()}["sec-websocket-extensions"] for each in told)
