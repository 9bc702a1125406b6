"""The plain files of the site, and those that a page saves."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dpcl_core.elements import calculator, element
from dpcl_core.lessons import in_browser
from dpcl_core.site import build
from tests.browser.conftest import PATIENCE_MS
from tests.browser.test_accessibility import SMALL, amiss
from tests.browser.test_start import shows
from tests.support.tiers import quick

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build.build(folder)
    return folder


@pytest.fixture
def opened(browser: Browser, site: Path) -> Iterator[Open]:
    """Opens a page of the site offline; checks at the end that it asked for nothing and that no script failed."""
    troubles: list[str] = []
    contexts = []

    def at(name: str, *, width: int = 1360, dark: bool = False) -> Page:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else troubles.append(asked.url))
        page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto((site / name).as_uri())
        return page

    yield at
    for context in contexts:
        context.close()
    assert not troubles, "\n".join(troubles)


@pytest.mark.parametrize(("width", "one"), quick(1, [(390, min), (1360, max)]), ids=["phone", "desk"])
def test_pages_are_readable_in_both_themes(opened: Open, site: Path, width: int, one: Callable[..., Path]) -> None:
    """Every page of the menu, and one answer and one paper, whose likes are made as they are; folds are open."""
    header = (site / "index.html").read_text(encoding="utf-8").partition("</header>")[0]
    menu = {"index.html", *re.findall(r'href="([\w-]+\.html)"', header)}
    alike = {one(site.glob(kind), key=lambda path: path.stat().st_size).name for kind in ("run-*", "published-*")}
    assert len(menu) >= 6
    found = []
    for number, name in enumerate(sorted(menu | alike)):
        page = opened(name, width=width, dark=(number % 2 == 0) == (width == 390))
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        where = f"{name} at {width}"
        found += [f"{where}: {said}" for said in sorted(amiss(page))]
        found += [f"{where}: {said}" for said in page.evaluate(SMALL)] if width == 390 else []
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{where}: {wide} px wide")
        page.context.close()
    assert not found, "\n".join(found)


def test_one_slider_moves_model_and_attacker_without_a_server(opened: Open) -> None:
    page = opened("index.html")
    shows(page, element.FIRST_STOP)
    page.get_by_role("slider", name=re.compile("Privacy budget")).press("Home")
    shows(page, 0.1)
    page.get_by_role("button", name="What if the seed leaks?").press("Enter")
    shows(page, 0.1, is_leaked=True)
    page.get_by_role("link", name=re.compile("^Ask")).press("Enter")
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_in_viewport()
    page.locator(".cards .card").first.click()  # all of it is its link
    expect(page).to_have_url(re.compile(r"/run-[\w-]+\.html$"))


def test_another_list_and_number_of_tasks_feed_the_slider(opened: Open) -> None:
    page = opened("budget.html")
    sentence = page.locator(".drag .sentence")
    expect(sentence).to_have_text(calculator.digits("prior-const", 5).sentence(1.0))
    page.get_by_label("From the data: not DP").check()
    page.locator("#settings").get_by_label("10", exact=True).check()
    expect(sentence).to_have_text(calculator.digits("data", 10).sentence(1.0))
    expect(page.locator("#meaning")).to_have_text(calculator.SETTINGS["data"][1])
    page.get_by_role("slider", name=re.compile("Privacy budget")).press("Home")
    expect(sentence).to_have_text(calculator.digits("data", 10).sentence(0.1))


def test_the_keyboard_skips_the_menu(opened: Open) -> None:
    page = opened("published.html")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip the menu")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("main :focus")).to_have_count(1)


# Elements as plain files: opened without a server, they answer, and nothing is asked of anybody.


def opened_file(browser: Browser, path: Path, inline: str, width: int) -> tuple[Page, list[str]]:
    """The page and, from then on, its errors and its requests for anything but itself."""
    path.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><body>{inline}</body></html>', encoding="utf-8")
    page = browser.new_context(viewport={"width": width, "height": 860}).new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    return page, troubles


def ticked(page: Page, n_ticks: int) -> None:
    """Opens the page's file a second time: its lesson has so many ticks.

    The page itself opens it, so that both share a process of the browser: another one hears of what a page keeps late on a
    busy computer. A page that is loaded again at once may end before it has told its browser.
    """
    with page.expect_popup() as popup:
        page.evaluate("() => { open(location.href); }")
    popup.value.get_by_role("heading", level=2).wait_for()
    expect(popup.value.get_by_role("button", name=", done")).to_have_count(n_ticks)
    popup.value.close()


def test_lessons_work_from_a_file(browser: Browser, tmp_path: Path) -> None:
    lessons = (("label", "Release both", "With her a 9 is on it."), ("noise", "Learn ten tasks", "in this one draw."))
    for name, button, found in lessons:
        inline = element.LESSON.inline(in_browser.document(name), name=name)
        page, troubles = opened_file(browser, tmp_path / f"{name}.html", inline, 390)
        page.get_by_role("radio").first.press("Space")
        page.get_by_role("button", name=button).press("Enter")
        expect(page.get_by_role("img")).to_have_accessible_name(re.compile(found))
        expect(page.get_by_role("status")).to_contain_text("You predicted")
        page.get_by_role("button", name="Next").press("Enter")
        expect(page.get_by_role("heading", level=2)).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not troubles
        ticked(page, n_ticks=1)
        page.get_by_role("button", name="Start again").press("Enter")
        ticked(page, n_ticks=0)
        page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } });")
        page.reload()
        page.get_by_role("radio").first.press("Space")
        page.get_by_role("button", name=button).press("Enter")
        expect(page.get_by_role("button", name=", done")).to_have_count(1)
        assert not [one for one in troubles if not one.startswith("file:")]
        page.context.close()
