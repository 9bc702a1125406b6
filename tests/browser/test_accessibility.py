"""Every page by axe-core and by touch: wide and light with every fold and tab open; on a phone and dark; no network."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from app import PAGES, UNLISTED
from tests.browser.conftest import PATIENCE_MS, WIDTH, App, Visit, ready
from tests.support import replay
from tests.support.tiers import quick

DRAWN_TEXT = Path(__file__).with_name("drawn_text.js").read_text(encoding="utf-8").partition("\n")[2]
AXE = Axe()
OPTIONS = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}  # of WCAG 2.2, off by default

# What Streamlit draws and nobody can change from here, as rule and selector.
STREAMLITS = {
    "list": "[data-testid=stSidebarNavItems]",  # the menu's groups are divisions between its list and its items
    "listitem": "[data-testid=stSidebarNavItems] li",  # the same
    "presentation-role-conflict": "[data-testid=stFileUploaderDropzone]",  # a presentation with a name
}

# Whatever takes a press and is below 44 px: an input counts with its label or, on a slider's track, with its group.
SMALL = """() => {
    const found = [], all = [];
    const collect = root => root.querySelectorAll('*').forEach(node => {
        all.push(node);
        if (node.shadowRoot) collect(node.shadowRoot);
    });
    collect(document);
    for (const node of all.filter(each => each.matches('button, a[href], input, select, textarea, summary'))) {
        const slider = node.type === 'range' && node.closest('[role=group]');
        const box = (slider || node.closest('label') || node).getBoundingClientRect();
        if (!node.checkVisibility({ visibilityProperty: true }) || box.width < 2 || box.height < 2) continue;
        const size = `${box.width} x ${box.height}`;
        if (box.width < 44 || box.height < 44) found.push(`below 44 px: ${size}, ${node.outerHTML.slice(0, 200)}`);
    }
    return found;
}"""
REDRAWN = ":is([data-stale=true], [data-testid=stExpander] summary, [data-testid=stTab])"  # is pale for a moment
SCROLLED = "(document.querySelector('[data-testid=stMain]') ?? document.scrollingElement)"

# Every page of the app, and what else has a face of its own; {0} and {1} are finished runs.
PLACES = [
    *("" if name == "start" else name for name, _ in PAGES + UNLISTED),
    "explore?view=words", "explore?view=clients", "teach?view=plan", "teach?view=classroom", "runs?view=compare",
    "lessons?l=shared&s=2&hide=prediction", "questions?question=cifar100-cosine", "train?run={0}",
    "runs?view=compare&r={0},{1}", "questions?w=paper&x=paper-cslr-anchors",
]  # fmt: skip
WIDE_TOO = ("train?run={0}",)  # by `make test`: what a desk shows beside a phone's column


@dataclass(frozen=True)
class Screens:
    """One page that is wide and light, one that is narrow and dark, and the runs that places name."""

    wide: Page
    phone: Page
    runs: tuple[str, str]


@pytest.fixture(scope="module")
def screens(app: App, browser: Browser) -> Iterator[Screens]:
    """Both pages, used for all places: a new one for each would take longer than the look at it."""
    wide = browser.new_page(viewport={"width": 1360, "height": 860}, color_scheme="light")
    phone = browser.new_page(viewport={"width": 390, "height": 860}, color_scheme="dark", has_touch=True)
    for page in (wide, phone):
        page.set_default_timeout(PATIENCE_MS)
        page.emulate_media(reduced_motion="reduce")  # nothing fades while it is looked at
    first, second = (replay.finished(app.store(), replay.a_spec(labels=labels)) for labels in ("prior-const", "prior"))
    yield Screens(wide, phone, (first, second))
    wide.close()
    phone.close()


def amiss(page: Page) -> set[str]:
    """What axe-core and the look at drawn text say of the page at its end: rule, element, and what is wrong."""
    while True:
        to_the_end(page)
        found, violations = set(page.evaluate(DRAWN_TEXT)), AXE.run(page, options=OPTIONS).response["violations"]
        if page.evaluate(f"{SCROLLED}.scrollHeight - {SCROLLED}.scrollTop - {SCROLLED}.clientHeight < 2"):
            break  # else it has grown meanwhile, and the bar of Start has covered what it does not cover at the end
    for violation in violations:
        rule = violation["id"]
        for node in violation["nodes"]:
            own = STREAMLITS.get(rule)
            if own and page.locator(node["target"][0]).first.evaluate("(node, own) => node.matches(own)", own):
                continue
            reasons = [check["message"] for check in node["any"] + node["all"] + node["none"]]
            found.add(f"{rule} ({violation['impact']}): {node['html'][:160]}: {'; '.join(reasons)}")
    return found


def unfold(page: Page) -> None:
    """Opens every fold of the page."""
    folds = page.locator("main [data-testid=stExpander] details:not([open]) > summary")
    folds.evaluate_all("folds => folds.forEach(fold => fold.click())")
    expect(folds).to_have_count(0)
    ready(page)


def to_the_end(page: Page) -> None:
    """Scrolls down, where the bar of Start has a place of its own; higher up it covers a part of whatever is behind it."""
    page.evaluate(f"{SCROLLED}.scrollTo({{ top: {SCROLLED}.scrollHeight, behavior: 'instant' }})")


def opened(page: Page, where: str) -> set[str]:
    """Opens a place with all its folds; what is amiss with it."""
    page.goto(where)
    page.add_style_tag(content=f"{REDRAWN} {{ opacity: 1 !important; }}")
    ready(page)
    unfold(page)
    return amiss(page)


@pytest.mark.parametrize("place", PLACES)
def test_a_page_on_a_phone_keeps_the_rules_of_accessibility(app: App, screens: Screens, place: str) -> None:
    where = f"{app.url}/{place.format(*screens.runs)}"
    found = opened(screens.phone, where) | set(screens.phone.evaluate(SMALL))
    if (width := screens.phone.evaluate(WIDTH)) > 390:
        found.add(f"scrolls sideways: {width} px wide")
    assert not found, f"{where}\n" + "\n".join(sorted(found))


@pytest.mark.parametrize("place", quick(len(WIDE_TOO), [*WIDE_TOO, *(place for place in PLACES if place not in WIDE_TOO)]))
def test_a_page_on_a_desk_keeps_the_rules_of_accessibility(app: App, screens: Screens, place: str) -> None:
    where = f"{app.url}/{place.format(*screens.runs)}"
    found = opened(screens.wide, where)
    for view in screens.wide.get_by_role("radiogroup", name="View").get_by_role("radio").all()[1:]:
        view.click()
        ready(screens.wide)
        found |= amiss(screens.wide)
    assert not found, f"{where}\n" + "\n".join(sorted(found))


@pytest.mark.parametrize("dark", quick(1, [True, False]), ids=["dark", "light"])
def test_a_phones_menu_can_be_read_and_everything_touched(app: App, visit: Visit, dark: bool) -> None:
    page = visit(f"{app.url}/privacy" if dark else f"{app.url}/train", width=390, dark=dark)
    page.emulate_media(reduced_motion="reduce")
    box = page.get_by_test_id("stMainMenuButton").bounding_box()
    assert box["x"] + box["width"] <= 390
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(page.get_by_role("link", name="About", exact=True)).to_be_in_viewport(ratio=1)
    ready(page)
    assert not page.evaluate(SMALL)
    assert not amiss(page)


def test_a_word_of_the_glossary_is_explained_on_focus_and_within_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?view=edges", width=390)
    for fold in page.get_by_test_id("stMain").locator("summary").all():
        fold.click()
    shown = "word => getComputedStyle(word, '::after').content"
    for word in page.locator(".term").all():
        assert word.evaluate(shown) == "none"
        word.focus()
        assert (word.get_attribute("aria-description") or "?") in word.evaluate(shown)
        assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth") <= 390
