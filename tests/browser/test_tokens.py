"""The heatmap in a real browser: colours agree with the numbers beside them, letters can be read, text can be selected."""

from __future__ import annotations

import math
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, ready
from tests.browser.test_lessons import no_wider_than

pytestmark = pytest.mark.browser
# Every token's number and ground, every legend entry's words and ground, and what stands behind both.
DRAWN = """() => {
    const ground = element => getComputedStyle(element).backgroundColor;
    const heat = document.querySelector('.heat');
    let card = heat;
    while (ground(card) === 'rgba(0, 0, 0, 0)') card = card.parentElement;
    return {
        tokens: [...heat.querySelectorAll('i')].map(each => [each.dataset.n, ground(each), getComputedStyle(each).color,
            getComputedStyle(each).borderBottomStyle]),
        legend: [...document.querySelectorAll('.heat + .heat-legend i')].map(each => [each.textContent, ground(each),
            getComputedStyle(each).borderBottomStyle]),
        card: ground(card),
    };
}"""
Colour = tuple[float, float, float, float]


def colour(text: str) -> Colour:
    """A computed colour, each part in [0, 1]."""
    parts = [float(part) for part in re.findall(r"[\d.]+", text)]
    alpha = parts[3] if len(parts) > 3 else 1.0
    return parts[0] / 255, parts[1] / 255, parts[2] / 255, alpha


def over(top: Colour, under: Colour) -> Colour:
    return (*(top[k] * top[3] + under[k] * (1 - top[3]) for k in range(3)), 1.0)  # type: ignore[return-value]


def contrast(one: Colour, other: Colour) -> float:
    """WCAG 2.2's contrast ratio."""

    def luminance(given: Colour) -> float:
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in given[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def bounds(words: str) -> tuple[float, float, float]:
    """Lower and upper end of a legend's range, and where its numbers are counted from."""
    origin = float(found.group(1)) if (found := re.search(r" from ([\d.]+)$", words)) else 0.0
    words = words.partition(" from ")[0]
    if words.startswith("below"):
        return -math.inf, float(words.split()[1]), origin
    if words.endswith("and more"):
        return float(words.split()[0]), math.inf, origin
    low, high = words.split(" to ")
    return float(low), float(high), origin


def heated(page: Page) -> None:
    expect(page.locator(".heat").first).to_be_visible(timeout=PATIENCE_MS)
    ready(page)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("layer", ["score", "p", "score2", "nominal", "true", "sigma", "printed", "hinge"])
def test_colours_agree_with_the_numbers_and_letters_can_be_read(app: App, visit: Visit, layer: str, dark: bool) -> None:
    page = visit(f"{app.url}/tokens?l={layer}&lf=full&th=0.3", dark=dark)
    heated(page)
    drawn = page.evaluate(DRAWN)
    card = colour(drawn["card"])
    legend = [(bounds(words), ground, line) for words, ground, line in drawn["legend"][:5]]
    assert len({(ground, line) for _, ground, line in legend}) == 5, "five shades, told apart by underline as well"
    assert len({line for *_, line in legend[1:]}) == 4
    is_weight = layer in ("printed", "hinge")
    n_shades = set()
    for told, ground, ink, line in drawn["tokens"]:
        assert contrast(colour(ink), over(colour(ground), card)) >= 4.5
        number = told.split(" · ")[0]
        if number == "no noise":
            continue
        value = float(number)
        fits = [
            place
            for place, ((low, high, origin), *_) in enumerate(legend)
            if low <= (abs(value - origin) if is_weight else value) < high
        ]
        assert len(fits) == 1, f"{number} is in {len(fits)} ranges of the legend"
        assert (ground, line) == legend[fits[0]][1:], f"{number} is drawn in another shade than the legend's"
        n_shades.add(fits[0])
    assert len(n_shades) >= 2


def test_the_number_shows_on_focus_and_under_the_hand_and_is_never_part_of_the_text(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/tokens")
    heated(page)
    token = page.locator(".heat i").nth(1)
    number = token.get_attribute("data-n")
    shown = "element => getComputedStyle(element, '::after').content"
    assert token.evaluate(shown) == "none"
    token.hover()
    assert token.evaluate(shown) == f'"{number}"'
    page.mouse.move(0, 0)
    page.locator(".heat i").nth(0).focus()
    page.keyboard.press("Tab")
    assert token.evaluate("element => document.activeElement === element")
    assert token.evaluate(shown) == f'"{number}"'
    selected = page.evaluate(
        "() => { getSelection().selectAllChildren(document.querySelector('.heat')); return getSelection().toString(); }"
    )
    assert selected.strip() == page.locator(".heat").first.text_content().strip()  # type: ignore[union-attr]
    assert str(number) not in selected


def test_own_text_on_a_phone_is_refused_marked_and_shown_in_its_own_direction(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/tokens?sh=own", width=390, dark=True)
    area = page.get_by_role("textbox", name="Your text")
    area.fill("שלום Grace 😀 <b>bold</b>")
    area.press("Control+Enter")
    expect(page.get_by_text("A picture of exact scores leaks the whole text")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".heat")).to_have_count(0)
    page.get_by_text("This text is public or made up").click()
    expect(page.locator(".heat").first).to_have_text("שלום Grace 😀 <b>bold</b>", timeout=PATIENCE_MS)
    assert page.locator(".heat").first.evaluate("element => getComputedStyle(element).direction") == "rtl"
    assert "Grace" not in page.url
    ready(page)
    no_wider_than(page, 390)
