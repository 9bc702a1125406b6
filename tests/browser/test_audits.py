"""The audit of a run as a visitor meets it: started, watched over a reload, finished; stopped; failed; above the ledger."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dpcl_core import checks
from tests.browser.conftest import App, Visit, ready
from tests.browser.test_accessibility import amiss
from tests.support import audited, replay

pytestmark = pytest.mark.browser
SPEC = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0,))
# As many budgets as there can be, each a training with a thousand clients: an audit that lasts while a test looks at it.
LONG = checks.parse({
    "method": "label-means", "labels": "prior", "scenario": {"kind": "federated", "clients": 20}, "seeds": [0],
    "privacy": {"epsilons": [1 + number / 32 for number in range(32)]},
})  # fmt: skip


def _finished(app: App) -> str:
    return replay.fill(app.store(), SPEC, replay.recorded(SPEC))


def _pill(page: Page, words: str) -> None:
    expect(page.locator(".st-key-card-audit .run-state")).to_contain_text(re.compile(words))


def test_an_audit_is_started_survives_a_reload_and_ends_with_a_number_on_every_page(app: App, visit: Visit) -> None:
    run_id = _finished(app)
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


def test_an_audit_is_stopped(app: App, visit: Visit) -> None:
    run_id = replay.fill(app.store(), LONG, [])
    page = visit(f"{app.url}/runs?v=1&q={run_id}")
    page.get_by_test_id("stDataFrame").click(position={"x": 16, "y": 52})  # the box that ticks the first row
    page.get_by_role("button", name="Audit this run").click()
    button = page.locator(".st-key-audit-stop button")
    _pill(page, "Running")
    expect(page.locator(".st-key-card-audit").get_by_role("progressbar")).to_be_visible()
    said = button.evaluate("button => { button.click(); return button.dataset.acknowledged; }")
    assert said == "Stopping …"
    _pill(page, "Audit stopped on request")
    expect(page.get_by_role("button", name="Audit again")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_failed_and_above_the_ledger_are_told_in_a_sentence_each(app: App, visit: Visit, dark: bool) -> None:
    failed, exceeding = _finished(app), _finished(app)
    audited.fill(app.store(), failed, "failed", failure=replay.a_failure("diverged"))
    audited.fill(app.store(), exceeding, "finished", audited.result(1.0, 2.349), audited.result(8.0, 4.6))
    page = visit(f"{app.url}/train?v=1&run={failed}", dark=dark)
    _pill(page, "This run failed on purpose")
    expect(page.get_by_role("button", name="Audit again")).to_be_visible()
    page = visit(f"{app.url}/privacy?v=1&run={exceeding}", dark=dark)
    alert = page.locator(".st-key-card-audit [data-testid=stAlert]")
    expect(alert).to_contain_text("proves ε ≥ 2.34, but the ledger accounts for only 1")
    expect(alert).to_contain_text("Do not release it")
    assert not amiss(page)
    for width in (1280, 1024, 390):
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width
