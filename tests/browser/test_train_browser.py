"""Train, Runs and Compare as a visitor meets them: start, watch, reload, stop, a killed worker, a narrow screen."""

import os
import re
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dpcl_core import checks, presets
from dpcl_core.spec import RunSpec
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready, serve
from tests.support import replay
from tests.support.waiting import until


def _start(page: Page) -> str:
    """Presses Start and gives the id of the run that the link then names."""
    before = re.search(r"run=([0-9a-f]{12})", page.url)
    page.get_by_role("button", name="Start", exact=True).click()
    old = before.group(1) if before else "none"
    page.wait_for_url(re.compile(rf"run=(?!{old})[0-9a-f]{{12}}"))
    return re.search(r"run=([0-9a-f]{12})", page.url).group(1)


def _said(page: Page, words: str) -> None:
    expect(page.locator(".run-state")).to_contain_text(words, timeout=PATIENCE_MS)


def test_train_from_the_form_watch_and_reload(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/train")
    run_id = _start(page)
    expect(page.locator(".run-state .pill")).to_have_text(re.compile("Queued|Starting|Running|Finished"))
    page.reload()
    assert run_id in page.url
    _said(page, "Finished")
    ready(page)
    expect(page.get_by_text(re.compile("After 5 tasks: .* % without noise"))).to_be_visible()
    page.get_by_text("times likelier because of you").click()
    expect(page.locator(".privacy-bar").first).to_contain_text("Not covered")
    assert page.locator(".picture svg").count() >= 3
    assert len([e for _, e in app.store().events_after(run_id) if type(e).__name__ == "CellFinished"]) == 30
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Everything (zip)").click()
    with zipfile.ZipFile(waiting.value.path()) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    assert {"accuracy.csv", "spec.toml", "accuracy.html", "privacy.json"} <= names
    fresh = visit(page.url)
    _said(fresh, "Finished")
    said, again = (one.get_by_text(re.compile("After 5 tasks")).first.inner_text() for one in (page, fresh))
    assert said == again
    fresh.get_by_role("button", name="Settings").click()
    fresh.get_by_role("spinbutton", name="Tasks").fill("2")
    fresh.keyboard.press("Enter")
    expect(fresh.locator(".st-key-card-stream").filter(has_text="2 tasks of").first).to_be_visible()  # one fades
    expect(fresh.locator(".st-key-card-stream .picture svg rect").first).to_be_attached()


def _endless() -> RunSpec:
    """A run that cannot end while a test looks at it: hundreds of trainings of the largest size there is."""
    sets = ["params.epochs=1000", f"seeds={list(range(100))}"]
    return checks.parse(checks.apply_sets(presets.raw("digits-peft-head"), sets))


def test_stop_is_acknowledged_and_keeps_the_run(app: App, visit: Visit) -> None:
    """Already in the browser, in the very task of the press, whatever else the machine does; then by the server."""
    run_id = app.store().create(_endless())
    page = visit(f"{app.url}/train?v=1&run={run_id}")
    button = page.locator(".st-key-stop button")
    expect(button).to_have_text("Stop")
    expect(page.locator(".run-state .pill")).to_have_text(re.compile("Starting|Running"))
    said = button.evaluate("button => { button.click(); return [button.dataset.acknowledged, button.ariaBusy]; }")
    assert said == ["Stopping …", "true"]
    _said(page, "Cancelled")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    assert app.store().get(run_id).status == "cancelled"
    assert page.locator("[data-acknowledged]").count() == 0


def test_a_killed_worker_is_lost_with_words_and_retry(app: App, visit: Visit) -> None:
    run_id = (store := app.store()).create(_endless())
    page = visit(f"{app.url}/train?v=1&run={run_id}")
    until(lambda: store.get(run_id).process is not None)
    os.kill(store.get(run_id).process.pid, signal.SIGKILL)
    _said(page, "Lost")
    _said(page, "The computer stopped this run")
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url(re.compile(rf"run=(?!{run_id})[0-9a-f]{{12}}"))
    page.get_by_role("button", name="Stop", exact=True).click()
    _said(page, "Cancelled")


def _tick(page: Page, *rows: int) -> None:
    """Ticks rows of the table of runs, which is drawn on a canvas."""
    grid = page.get_by_test_id("stDataFrame")
    for row in rows:
        grid.click(position={"x": 18, "y": 35 * (row + 1) + 17})


def test_after_an_action_in_the_list_all_of_runs_is_as_it_is_now(app: App, visit: Visit) -> None:
    for name in ("fourth", "third", "second", "first"):
        replay.fill(app.store(), replay.a_spec(), [], name=f"{name} #acted", status="cancelled")
    page = visit(f"{app.url}/runs?v=1&q=%23acted")
    _tick(page, 0, 1)
    page.get_by_role("button", name="Delete these 2").click()
    expect(page.get_by_text("Deleted 2 runs.")).to_be_visible()
    expect(page.get_by_text("Tick a run to open")).to_be_visible()
    expect(page.get_by_text(re.compile(r"Trash \(\d"))).to_be_visible()
    _tick(page, 1)
    expect(page.locator(".st-key-card-chosen")).to_contain_text("fourth")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text(re.compile("fourth .* is in the queue again"))).to_be_visible()
    expect(page.locator(".st-key-card-chosen")).to_contain_text("fourth")  # its place is another one
    newest = app.store().list_runs()[0].id
    until(lambda: app.store().get(newest).is_over)
    expect(page.get_by_text(re.compile(r"finished \(\d"))).to_be_visible()


@pytest.mark.parametrize(("width", "height", "most"), [(1360, 850, 330), (1024, 768, 330), (390, 844, 500)])
def test_the_curve_comes_first_on_every_screen(app: App, visit: Visit, width: int, height: int, most: int) -> None:
    page = visit(f"{app.url}/train", width=width, height=height)
    expect(page.locator(".st-key-card-accuracy .picture svg")).to_be_visible()
    chart = page.locator(".st-key-card-accuracy .picture").bounding_box()  # its drawing is replaced as the width changes
    assert chart["y"] < most
    assert page.locator(".st-key-statement summary").bounding_box()["height"] < 60, "one line"


def test_a_narrow_screen_has_a_link_to_the_form_below(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/train", width=1280)
    link = page.get_by_role("link", name="To the form and Start")
    expect(page.get_by_role("combobox", name="Dataset")).to_be_in_viewport()
    expect(link).to_be_hidden()
    page = visit(f"{app.url}/train", width=390)
    before = page.url
    dataset = page.get_by_role("combobox", name="Dataset")
    expect(dataset).not_to_be_in_viewport()
    page.get_by_role("link", name="To the form and Start").click()
    expect(dataset).to_be_in_viewport()
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_in_viewport()
    assert page.url.partition("#")[0] == before


def test_typing_in_dataset_offers_the_match_first_and_brings_its_network(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/train")
    page.get_by_role("combobox", name="Dataset").fill("cifar-100")
    expect(page.get_by_role("option").first).to_contain_text("CIFAR-100")
    page.keyboard.press("Enter")
    expect(page.get_by_text("CIFAR-100 brings along: EfficientNet-Lite0")).to_be_visible()
    expect(page).to_have_url(re.compile("bb=lite0"))
    expect(page.locator(".st-key-card-ghost .picture svg").first).to_be_visible()  # one fades


@pytest.fixture
def fresh_app(tmp_path: Path) -> Iterator[App]:
    """An app that nobody has visited yet."""
    yield from serve(tmp_path)


def test_a_link_to_a_page_opens_inside_the_app_on_a_fresh_server(fresh_app: App, visit: Visit) -> None:
    page = visit(f"{fresh_app.url}/runs")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    expect(page.get_by_role("link", name="Questions", exact=True)).to_be_visible()
    page.get_by_role("link", name="Start a run").click()
    expect(page.get_by_text("recorded with these settings")).to_be_visible()
    expect(page.get_by_text(re.compile("After 5 tasks: .* % without noise"))).to_be_visible()
