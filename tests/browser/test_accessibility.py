"""Contrast, names, sizes and order of what is on a page, light and dark, every tab and fold open. Needs no network."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, ready

pytestmark = pytest.mark.browser
AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8").split("\n", 1)[1]

# Whatever takes a press and is below 44 px: an input counts with its label or, on a slider's track, with its group.
SMALL = """() => {
    const found = [], all = [];
    const collect = root => root.querySelectorAll('*').forEach(node => {
        all.push(node);
        if (node.shadowRoot) collect(node.shadowRoot);
    });
    collect(document);
    for (const node of all.filter(each => each.matches('button, a[href], input, select, textarea, summary, [role=tab]'))) {
        const slider = node.type === 'range' && node.closest('[role=group]');
        const box = (slider || node.closest('label') || node).getBoundingClientRect();
        if (!node.checkVisibility({ visibilityProperty: true }) || box.width < 2 || box.height < 2) continue;
        if (box.width < 44 || box.height < 44) found.push(`${box.width} x ${box.height}: ${node.outerHTML}`);
    }
    return found;
}"""


def amiss(page: Page) -> set[str]:
    """What the audit says of the page as it stands."""
    ready(page)
    page.wait_for_timeout(500)  # menus fade
    return set(page.evaluate(AUDIT))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "where",
    ["", "about", "anchors", "edges", "tokens", "privacy", "published", "published?p=cslr&x=paper-cslr-anchors"],
)
def test_nothing_is_pale_nameless_tiny_or_out_of_order(app: App, visit: Visit, where: str, dark: bool) -> None:
    page = visit(f"{app.url}/{where}", width=1280, dark=dark)
    for fold in page.locator("main [data-testid=stExpander] summary").all():
        fold.click(timeout=PATIENCE_MS)
    found = amiss(page)
    for tab in page.get_by_role("tab").all():
        tab.click()
        found |= amiss(page)
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phones_menu_can_be_read_and_everything_touched(app: App, visit: Visit, dark: bool) -> None:
    page = visit(f"{app.url}/privacy" if dark else f"{app.url}/train", width=390, dark=dark)
    assert not page.evaluate(SMALL)
    box = page.get_by_test_id("stMainMenuButton").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(page.get_by_role("link", name="About", exact=True)).to_be_in_viewport(ratio=1)
    assert not page.evaluate(SMALL)
    assert not amiss(page)


def test_a_word_of_the_glossary_is_explained_on_focus_and_within_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/edges", width=390)
    shown = "word => getComputedStyle(word, '::after').content"
    for word in page.locator(".term").all():
        assert word.evaluate(shown) == "none"
        word.focus()
        assert (word.get_attribute("aria-description") or "?") in word.evaluate(shown)
        assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth") <= 390


def test_a_sliders_value_is_on_one_line(app: App, visit: Visit) -> None:
    """In a card, too: its text must not wrap within the width of a thumb."""
    page = visit(f"{app.url}/privacy")
    slider = page.get_by_role("slider", name="Tasks with the same person")
    slider.scroll_into_view_if_needed()
    values = page.locator("[data-testid=stSliderThumbValue] p")
    assert values.count() > 0
    assert max(box["height"] for each in values.all() if (box := each.bounding_box()) is not None) < 30
