"""Privacy, audits, comparisons, sensitive words and matching clients in a real browser."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, no_wider_than, ready, tab_to, walk_and_press
from tests.support import replay


def test_the_calculator_answers_refuses_and_answers_again(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy")
    card = page.locator(".st-key-card-calculator")
    expect(card).to_contain_text("σ = 3.7307")
    epsilon = card.get_by_label("ε", exact=True)
    epsilon.fill("0")
    expect(card.get_by_role("alert")).to_have_text("ε = 0: must be above 0 and at most 1,000,000")
    epsilon.fill("2e6")
    expect(card.get_by_role("alert")).to_have_text("ε = 2e6: must be above 0 and at most 1,000,000")
    epsilon.fill("8")
    epsilon.press("Enter")
    expect(card.get_by_role("status")).to_have_text("σ = 0.6003")
    expect(card.get_by_role("alert")).to_have_count(0)
    page.wait_for_url(re.compile("ce=8"))
    card.get_by_label("ε, slider").press("ArrowLeft")
    expect(card.get_by_role("status")).not_to_have_text("σ = 0.6003")
    card.get_by_role("radio", name="DP-SGD").check()
    expect(card).to_contain_text("By privacy loss distributions: σ =")
    card.get_by_label("ε, from σ and δ").check()
    card.get_by_label("σ (noise multiplier)", exact=True).fill("0.001")
    expect(card.get_by_role("alert")).to_have_text("σ = 0.001: must be a finite number of at least 0.01")


# The audit of a run as a visitor meets it: started, watched over a reload, finished.


def _pill(page: Page, words: str) -> None:
    expect(page.locator(".st-key-card-audit .run-state")).to_contain_text(re.compile(words))


def test_an_audit_is_started_survives_a_reload_and_ends_with_a_number_on_every_page(app: App, visit: Visit) -> None:
    run_id = replay.finished(app.store(), replay.a_spec(epsilons=(1.0, 8.0), seeds=(0,)))
    page = visit(f"{app.url}/train?v=1&run={run_id}")
    page.get_by_role("button", name="Audit this run").click()
    _pill(page, "Queued|Running|Finished")
    page.reload()
    _pill(page, "Finished")
    ready(page)
    said = page.get_by_text(re.compile(r"right in \d+ of \d+ guesses at ε = 8"))
    expect(said).to_be_visible()
    expect(page.get_by_role("button", name="Audit again")).to_be_visible()
    privacy = visit(f"{app.url}/privacy?v=1&run={run_id}")
    expect(privacy.get_by_text(said.inner_text())).to_be_visible()
    assert privacy.locator(".st-key-card-audit [data-testid=stAlert]").count() == 0


# Compare by keyboard alone: a group by its tag, one more run by name, and the settings in which they differ.


def test_a_group_a_filter_and_the_settings_by_keyboard(app: App, visit: Visit) -> None:
    names = ["first #pair", "second #pair", "another", "quiet", "lone", "extra", "zebra"]  # a search needs more than six
    for number, name in enumerate(names):
        replay.finished(app.store(), replay.a_spec(epsilons=(1.0, 8.0), tasks=2 + number % 2), name=name)
    page = visit(f"{app.url}/runs?view=compare")
    tags = page.locator("[data-tag-index]")

    tab_to(page, "INPUT", "Search")
    page.keyboard.type("zebra")
    page.keyboard.press("Enter")
    ready(page)  # a menu that is open while its choices change closes
    walk_and_press(page, "#pair · 2")
    expect(tags).to_have_count(2)
    expect(tags.nth(0)).to_contain_text("second #pair")
    ready(page)

    tab_to(page, "INPUT", "Runs")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="zebra")).to_be_visible()
    expect(page.get_by_role("option", name="quiet")).to_have_count(0)  # the search has not found it
    page.keyboard.press("Enter")
    expect(tags).to_have_count(3)
    page.keyboard.press("Escape")
    ready(page)

    tab_to(page, "BUTTON", "Paired difference")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_text("other settings are the same")).to_be_visible(timeout=PATIENCE_MS)


# Tokens in a real browser: shades match the legend, letters can be read, words unfold by keyboard, a game is played.


def test_a_slider_moves_the_shades_in_every_layer(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=words&lf=full")
    expect(page.locator(".tk-text [role=button]").first).to_be_visible(timeout=PATIENCE_MS)
    for layer in page.locator(".tk-layers button").all():
        layer.click()
        expect(layer).to_have_attribute("aria-checked", "true")
    finding = page.locator(".tk-finding")
    before = finding.text_content()
    page.get_by_role("slider", name="Sensitive above score").focus()
    page.keyboard.press("Home")
    expect(finding).not_to_have_text(str(before))
    expect(page.locator(".tk-text .tk-over").first).to_be_visible()
    page.wait_for_url(re.compile("th=0"))
    ready(page)


def test_a_word_unfolds_by_keyboard_and_the_game_is_played(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=words")
    chosen = page.locator(".tk-text [aria-pressed=true]")
    expect(chosen).to_have_count(1, timeout=PATIENCE_MS)
    chosen.focus()
    page.keyboard.press("Home")
    expect(page.locator(".tk-text [role=button]").first).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator(".tk-text [role=button]").last).to_be_focused()
    expect(page.locator(".tk-word")).to_contain_text("An attacker reads")
    page.get_by_text("Guess: which word gets the higher score?").press("Enter")
    page.locator(".tk-choices button").first.press("Enter")
    expect(page.locator(".tk-game [role=status]")).to_contain_text("It cannot know what is private")
    expect(page.locator(".tk-next")).to_be_focused()


def test_an_own_text_that_is_too_long_or_empty_is_answered(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=words&sh=own")
    area, said, word = page.get_by_role("textbox", name="Your sentence"), page.locator(".tk-long"), page.locator(".tk-word")
    area.fill("a " * 400)
    expect(said).to_have_text("Only the first 600 of 800 characters are scored.", timeout=PATIENCE_MS)
    expect(page.locator(".tk-text [role=button]")).to_have_count(300)
    expect(word).to_be_hidden()  # its arithmetic is for who asks
    page.get_by_text("Press a word for its arithmetic").click()
    expect(word).to_be_visible()
    area.fill("")
    expect(page.locator(".tk-finding")).to_contain_text("Type a sentence")
    expect(said).to_be_empty()
    expect(word).to_be_hidden()
    area.fill("Anna flew")
    expect(word).to_be_visible()
    area.fill("Anna")
    expect(page.locator(".tk-finding")).to_contain_text("of 1 word for private")


def test_own_sentence_on_a_phone_is_scored_in_the_browser_in_its_own_direction(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=words&sh=own", width=390, dark=True)
    page.get_by_role("textbox", name="Your sentence").fill("שלום Grace 😀 <b>bold</b>")
    text = page.locator(".tk-text")
    expect(text).to_have_text("שלום Grace 😀 <b>bold</b>", timeout=PATIENCE_MS)
    assert text.evaluate("element => getComputedStyle(element).direction") == "rtl"
    expect(page.locator(".tk-finding")).to_contain_text("words for private")
    assert "Grace" not in page.url
    ready(page)
    no_wider_than(page, 390)


# Anchors in a real browser: sliders move the lists on a phone, six lists are matched by hand, then by the machine.


def test_noise_by_keyboard_on_a_phone_moves_the_lists_and_its_link(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=clients&n=0&x=axes", width=390, dark=True)
    finding, marks = page.locator(".an-finding"), page.locator(".an-map path")
    expect(finding).to_contain_text("“public axes” puts 80 of 80 entries in their group.", timeout=PATIENCE_MS)
    expect(marks).to_have_count(80)
    before = marks.evaluate_all("marks => marks.map(mark => mark.style.transform)")
    no_wider_than(page, 390)
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("slider", name="Noise on the lists").focus()
    page.keyboard.press("End")
    assert page.evaluate("document.getAnimations().length") == 0  # marks jump where no motion is wished for
    expect(finding).not_to_contain_text("80 of 80")
    assert before != marks.evaluate_all("marks => marks.map(mark => mark.style.transform)")
    page.wait_for_url(re.compile("n=0.4"))
    ready(page)
    page.get_by_role("radio", name="public axes").focus()
    page.keyboard.press("ArrowUp")
    expect(finding).to_contain_text("“anchors, centred” puts")
    page.wait_for_url(re.compile("^(?!.*x=axes)"))
    ready(page)
    page.get_by_role("radio", name="Signal").click()
    expect(page.get_by_text("Signal against noise")).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)


def test_six_lists_are_matched_by_hand_and_then_by_the_machine(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=clients&n=0")
    page.get_by_role("radio", name="Match six lists by hand").click(timeout=PATIENCE_MS)
    entries = page.locator(".an-entry:enabled")
    expect(entries).to_have_count(20)
    expect(page.locator(".an-compare")).to_be_disabled()
    entries.first.focus()
    for number in range(20):
        page.keyboard.press(str(number % 4 + 1))
        page.keyboard.press("ArrowRight")
    expect(page.locator(".an-score")).to_have_text("0 of 20 entries left.")
    page.locator(".an-compare").press("Enter")
    expect(page.locator(".an-finding")).to_contain_text("The machine, “anchors, centred”: 20 of 20, 1.00.")
    expect(page.locator(".an-again")).to_be_focused()
    expect(entries.first).to_have_accessible_name(re.compile("truly ., machine ."))
    page.keyboard.press("Enter")
    expect(page.locator(".an-score")).to_have_text("20 of 20 entries left.")
    entries.first.click()
    expect(entries.first).to_have_accessible_name("List 2, entry 1: group 1")
    ready(page)
