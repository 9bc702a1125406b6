"""The Privacy page in a real browser: choose, calculate, be refused, share."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_MS, App, Visit

pytestmark = pytest.mark.browser


def test_statement_and_ledger_follow_the_chosen_budget(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy")
    expect(page.locator(".privacy-bar")).to_contain_text("2.72 times as likely")
    page.get_by_role("radio", name="ε = 8").click()
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 8)")
    expect(page.locator(".st-key-card-ledger-table")).to_contain_text("the same person in every task")
    page.get_by_role("radio", name="no noise").click()
    expect(page.locator(".privacy-bar.not-dp")).to_be_visible()
    page.wait_for_url(re.compile("e=inf"))


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


@pytest.mark.slow
def test_a_phone_scrolls_one_way(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy?k=20", width=390)
    expect(page.get_by_text("One person in several tasks")).to_be_visible()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    overflowing = "[...document.querySelectorAll('[data-testid=stMain]')].some(e => e.scrollWidth > e.clientWidth)"
    assert not page.evaluate(overflowing)


def test_a_claim_is_opened_attacked_and_subtracted(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy")
    page.get_by_text("Claimed, accounted, audited: one noise for all").click()
    theorem, attacks = page.locator(".st-key-card-theorem"), page.locator(".st-key-card-audits")
    expect(theorem).to_contain_text("claimed in all, not verified")
    page.wait_for_url(re.compile("l=1"))
    attacks.get_by_role("button", name="Play 2,000 rounds").first.click()
    expect(attacks).to_contain_text("ε is at least 5.60, more than is claimed")
    page.get_by_role("button", name="Subtract two records").click()
    expect(page.locator(".st-key-card-subtract")).to_contain_text("The noise is gone from the difference")
    expect(attacks).to_contain_text("ε is at least 5.60")


@pytest.mark.slow
def test_noise_by_the_token_is_reckoned_attacked_and_fits_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy")
    page.get_by_text("Claimed, accounted, audited: noise by the token").click()
    costs, attacks = page.locator(".st-key-card-token-costs"), page.locator(".st-key-card-token-audits")
    expect(costs).to_contain_text("1.657", timeout=PATIENCE_MS)
    nominal = costs.get_by_label("nominal ε of a token")
    nominal.fill("10")
    nominal.press("Enter")
    expect(costs).to_contain_text("24.42", timeout=PATIENCE_MS)
    expect(costs).to_contain_text("Nominal ε = 10 (Zhan et al., Theorem 1), no guarantee")
    page.wait_for_url(re.compile("te=10"))
    attacks.get_by_role("button", name="Play 2,000 rounds").first.click()
    expect(attacks).to_contain_text("ε is at least 5.", timeout=PATIENCE_MS)
    phone = visit(f"{app.url}/privacy?t=1", width=390)
    expect(phone.locator(".st-key-card-token-costs")).to_contain_text("1.657", timeout=PATIENCE_MS)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_every_reading_of_a_claim_is_a_control_and_fits_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy")
    page.get_by_text("Claimed, accounted, audited: noise on replayed lists").click()
    costs, attacks = page.locator(".st-key-card-list-costs"), page.locator(".st-key-card-list-audits")
    expect(costs).to_contain_text("62.4", timeout=PATIENCE_MS)
    expect(costs).to_contain_text("This reading keeps none of the claims")
    rounds = page.locator(".st-key-card-list-reading").get_by_label("rounds in all")
    rounds.fill("1")
    rounds.press("Enter")
    expect(costs).to_contain_text("4.79", timeout=PATIENCE_MS)
    page.wait_for_url(re.compile("rt=1"))
    attacks.get_by_role("button", name="Play 200 rounds").click()
    expect(attacks).to_contain_text("ε is at least 3.28", timeout=PATIENCE_MS)
    phone = visit(f"{app.url}/privacy?r=1", width=390)
    expect(phone.locator(".st-key-card-list-costs")).to_contain_text("62.4", timeout=PATIENCE_MS)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
