"""Tokens in a real browser: shades match the legend, letters can be read, words unfold by keyboard, a game is played."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, ready
from tests.browser.test_lessons import no_wider_than
from tests.support.tiers import quick

pytestmark = pytest.mark.browser
# Every word's class, ground and letters, the legend's grounds by class, and what stands behind both.
DRAWN = """() => {
    const ground = element => getComputedStyle(element).backgroundColor;
    let card = document.querySelector('.tk-text');
    while (ground(card) === 'rgba(0, 0, 0, 0)') card = card.parentElement;
    const shade = element => [...element.classList].find(name => /^(t\\d|quiet)$/.test(name));
    return {
        words: [...document.querySelectorAll('.tk-text [role=button]')].map(each =>
            [shade(each), ground(each), getComputedStyle(each).color, each.getAttribute('aria-label')]),
        legend: Object.fromEntries([...document.querySelectorAll('.tk-legend i')].map(each => [shade(each), ground(each)])),
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


@pytest.mark.parametrize("dark", quick(1, [True, False]), ids=["dark", "light"])
def test_words_can_be_read_in_every_layer_and_a_slider_moves_the_shades(app: App, visit: Visit, dark: bool) -> None:
    page = visit(f"{app.url}/tokens?lf=full", dark=dark)
    page.emulate_media(reduced_motion="reduce")  # shades then change at once
    words = page.locator(".tk-text [role=button]")
    expect(words.first).to_be_visible(timeout=PATIENCE_MS)
    for layer in page.locator(".tk-layers button").all():
        layer.click()
        drawn = page.evaluate(DRAWN)
        card = colour(drawn["card"])
        for name, ground, ink, label in drawn["words"]:
            assert contrast(colour(ink), over(colour(ground), card)) >= 4.5
            assert name == "quiet" or ground == drawn["legend"][name], label
        assert len({name for name, *_ in drawn["words"]}) >= 2
    finding = page.locator(".tk-finding")
    before = finding.text_content()
    page.get_by_role("slider", name="Sensitive above score").focus()
    page.keyboard.press("Home")
    expect(finding).not_to_have_text(str(before))
    expect(page.locator(".tk-text .tk-over").first).to_be_visible()
    page.wait_for_url(re.compile("th=0"))
    ready(page)


def test_a_word_unfolds_by_keyboard_and_the_game_is_played(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/tokens")
    chosen = page.locator(".tk-text [aria-pressed=true]")
    expect(chosen).to_have_count(1, timeout=PATIENCE_MS)
    chosen.focus()
    page.keyboard.press("Home")
    expect(page.locator(".tk-text [role=button]").first).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator(".tk-text [role=button]").last).to_be_focused()
    expect(page.locator(".tk-word")).to_contain_text("An attacker reads")
    page.locator(".tk-choices button").first.press("Enter")
    expect(page.locator(".tk-game [role=status]")).to_contain_text("It cannot know what is private")
    expect(page.locator(".tk-next")).to_be_focused()


def test_an_own_text_that_is_too_long_or_empty_is_answered(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/tokens?sh=own")
    area, said, word = page.get_by_role("textbox", name="Your sentence"), page.locator(".tk-long"), page.locator(".tk-word")
    area.fill("a " * 400)
    expect(said).to_have_text("Only the first 600 of 800 characters are scored.", timeout=PATIENCE_MS)
    expect(page.locator(".tk-text [role=button]")).to_have_count(300)
    expect(word).to_be_visible()
    area.fill("")
    expect(page.locator(".tk-finding")).to_contain_text("Type a sentence")
    expect(said).to_be_empty()
    expect(word).to_be_hidden()
    area.fill("Anna flew")
    expect(word).to_be_visible()
    area.fill("Anna")
    expect(page.locator(".tk-finding")).to_contain_text("of 1 word counts as sensitive")


def test_own_sentence_on_a_phone_is_scored_in_the_browser_in_its_own_direction(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/tokens?sh=own", width=390, dark=True)
    area = page.get_by_role("textbox", name="Your sentence")
    area.fill("שלום Grace 😀 <b>bold</b>")
    text = page.locator(".tk-text")
    expect(text).to_have_text("שלום Grace 😀 <b>bold</b>", timeout=PATIENCE_MS)
    assert text.evaluate("element => getComputedStyle(element).direction") == "rtl"
    expect(page.locator(".tk-finding")).to_contain_text("words count as sensitive")
    assert "Grace" not in page.url
    ready(page)
    no_wider_than(page, 390)
