"""Start in a real browser: few words, no Plotly, and a person who is there without noise and drowns with it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dpcl_core.elements import element
from scripts import one_person
from tests.browser.conftest import App, Visit
from tests.support.tiers import quick

pytestmark = pytest.mark.browser
DATA = one_person.decode(element.hero_document()["digits"])  # type: ignore[arg-type]
WORDS = """() => {
    let text = '';
    const walk = node => {
        for (const child of node.childNodes) {
            if (child.nodeType === 3) text += ' ' + child.textContent;
            else if (child.nodeType === 1 && !child.matches('style, script, details:not([open]) > :not(summary)')) {
                if (child.shadowRoot) walk(child.shadowRoot);
                walk(child);
            }
        }
    };
    walk(document.querySelector('[data-testid=stMain]'));
    return text.split(/\\s+/).filter(Boolean).length;
}"""


def recognised(page: Page, epsilon: float) -> None:
    share = f"{100 * one_person.accuracy(DATA, epsilon):.0f} % of new digits recognised."
    expect(page.locator(".hero .accuracy")).to_have_text(share)


def test_a_person_is_there_without_noise_and_drowns_with_it(app: App, visit: Visit) -> None:
    page = visit(app.url)
    finding = page.locator(".hero .finding")
    expect(finding).to_have_text("Without noise, subtracting brings the 2 back exactly.")
    recognised(page, float("inf"))
    page.get_by_role("slider", name=re.compile("Privacy budget")).press("Home")
    expect(finding).to_have_text(re.compile("The 2 drowns in noise"))
    recognised(page, 0.1)
    page.get_by_role("radio", name="a handwritten 2").press("ArrowRight")
    expect(finding).to_have_text(re.compile("The 0 drowns in noise"))
    assert page.evaluate(WORDS) <= 150
    page.get_by_role("checkbox", name="same noise twice").check()
    expect(finding).to_have_text("The same noise cancels: the 0 is back.")
    assert page.evaluate(WORDS) <= 150
    loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert not [name for name in loaded if "Plotly" in name]


def test_doors_move_under_the_hand(app: App, visit: Visit) -> None:
    page = visit(app.url)
    page.get_by_role("slider", name="ε on the curve").press("End")
    expect(page.get_by_role("img", name="ε = 16: 90 %")).to_be_visible()
    page.get_by_role("slider", name="noise on every list").press("Home")
    expect(page.get_by_role("img", name="80 of 80 match")).to_be_visible()
    page.get_by_role("textbox", name="Your sentence").fill("the zebra of the")
    shades = page.locator(".door .heat i")
    expect(shades).to_have_text(["the", "zebra", "of", "the"])
    expect(shades.nth(1)).to_have_class("t4")  # a surprise
    expect(shades.nth(0)).to_have_class("t0")  # a stop word


@pytest.mark.parametrize("dark", quick(1, [True, False]))
def test_a_phone_scrolls_one_way(app: App, visit: Visit, dark: bool) -> None:
    page = visit(app.url, width=390, dark=dark)
    expect(page.locator(".hero .finding")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for button in page.locator(".hero .people button").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44
