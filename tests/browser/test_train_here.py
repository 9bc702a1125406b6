"""Training in a page: a static host in a subfolder, Chromium and Firefox, and whatever can go wrong on the way.

The site is built with the engine once; without Pyodide's files (`dpcl fetch pyodide`) these tests are skipped.
"""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from dpcl_core import cli, paths
from tests.browser.conftest import CHROMIUM, FLAGS, PATIENCE_MS
from tests.browser.test_accessibility import SMALL, amiss
from tests.support import firefox
from tests.support.live_site import built
from tests.support.static_host import Host, cut, hosted

pytestmark = pytest.mark.slow
BELOW = "course/week-3"  # the site is not at the root of its host
SECRET = "Zanzibar-4711"  # in a row of own data, and nowhere else
NINE = {
    "method": "cosine", "data": {"dataset": "digits", "backbone": "pixels"},
    "scenario": {"kind": "class-incremental", "tasks": 5}, "privacy": {"epsilons": [0.5, 1, 8]}, "seeds": [0, 1, 2],
}  # fmt: skip
EXERCISE = paths.asset_table("live/exercises.toml")["learner"]
Opens = Callable[..., Page]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose subfolder is the site."""
    root = tmp_path_factory.mktemp("host")
    built(root / BELOW)
    return root


@pytest.fixture
def host(folder: Path) -> Iterator[Host]:
    with hosted(folder) as one:
        yield one


@pytest.fixture
def opens(browser: Browser, host: Host) -> Iterator[Opens]:
    """Opens the page in a fresh context; checks at the end that it asked no other host and that no script failed."""
    troubles: list[str] = []
    contexts: list[BrowserContext] = []

    def at(settings: dict[str, Any] | None = None, *, script: str = "", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 860}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        if script:
            page.add_init_script(script)
        ours = re.compile(rf"http://127\.0\.0\.1:{host.port}/{BELOW}/|data:|blob:|.*/favicon\.ico$")
        page.on("request", lambda asked: None if ours.match(asked.url) else troubles.append(asked.url))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(address(host, settings))
        return page

    yield at
    for context in contexts:
        context.close()
    assert not troubles, "\n".join(troubles)


def address(host: Host, settings: dict[str, Any] | None = None) -> str:
    link = "" if settings is None else f"#run={quote(json.dumps(settings))}"
    return f"http://127.0.0.1:{host.port}/{BELOW}/train-here.html{link}"


def reaches(page: Page, *states: str) -> str:
    """Waits until the page is in one of these states, or has failed; returns which."""
    root = page.locator(", ".join(f"#train-here[data-state={state}]" for state in (*states, "failed")))
    root.wait_for(timeout=5 * PATIENCE_MS)
    found = str(root.get_attribute("data-state"))
    assert found in states, page.get_by_role("alert").inner_text()
    return found


def loaded(opens: Opens, *settings: dict[str, Any]) -> Page:
    """A page that can begin to train."""
    page = opens(*settings)
    reaches(page, "ready")
    return page


def failed(page: Page) -> str:
    """The one sentence of a page that has failed."""
    expect(page.locator("#train-here")).to_have_attribute("data-state", "failed")
    said = page.locator("#trouble").inner_text()
    assert said.endswith((".", "reload the page")), said
    return said


def trained(page: Page) -> None:
    reaches(page, "ready")
    page.get_by_role("button", name="Start", exact=True).click()
    reaches(page, "finished")


def saved(page: Page, button: str) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return Path(download.value.path()).read_bytes()


def test_digits_train_in_a_subfolder_with_the_network_cut(opens: Opens, host: Host, tmp_path: Path) -> None:
    page = loaded(opens, NINE)
    asked = len(host.asked)
    cut(host)
    page.context.set_offline(True)
    trained(page)
    assert len(host.asked) == asked
    expect(page.locator("#models tbody tr")).to_have_count(9)
    expect(page.locator("#said")).to_contain_text("At ε = 1")
    expect(page.locator("#guarantee > summary")).to_contain_text("ε = 1")
    expect(page.locator("#ledger tbody tr")).to_have_count(3)  # the same in each task and for each seed
    (tmp_path / "card.json").write_bytes(saved(page, "Privacy card"))
    assert cli.main(["verify", str(tmp_path / "card.json")]) == 0
    names = zipfile.ZipFile(io.BytesIO(saved(page, "Classifier"))).namelist()
    assert any(name.endswith(".safetensors") for name in names)
    slider = page.get_by_role("slider", name=re.compile("Privacy budget"))
    slider.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^ε = 0\.5"))


def test_the_same_link_trains_in_firefox(host: Host, tmp_path: Path) -> None:
    if firefox.PROGRAM is None:
        pytest.skip("no Firefox: install firefox-esr or name it in DPCL_FIREFOX")
    with firefox.firefox(tmp_path) as window:
        window.open(address(host, NINE))
        state = "document.getElementById('train-here').dataset.state"
        window.until(f"{state} !== 'loading'")
        trouble = "return document.getElementById('trouble').textContent"
        assert window.run(f"return {state}") == "ready", window.run(trouble)
        asked = len(host.asked)
        cut(host)
        window.run("document.getElementById('start').click()")
        window.until(f"!['running', 'ready'].includes({state})")
        assert window.run(f"return {state}") == "finished", window.run(trouble)
        assert window.run("return document.querySelectorAll('#models tbody tr').length") == 9
        assert len(host.asked) == asked


def test_own_rows_stay_in_the_engine(opens: Opens, host: Host) -> None:
    page = loaded(opens)
    page.locator("[data-key='data.dataset']").select_option("own")
    expect(page.locator("#said")).to_contain_text("Choose a file")
    words = ["rain and wind", "goals and teams", "votes and laws"]
    rows = [f'"{words[k % 3]} {SECRET if k == 7 else k}",{words[k % 3][:4]}' for k in range(240)]
    page.locator("#own-file").set_input_files(
        {"name": f"{SECRET}.csv", "mimeType": "text/csv", "buffer": "\n".join(["text,label", *rows]).encode()}
    )
    trained(page)
    assert not any(SECRET in asked for asked in host.asked)
    assert SECRET not in page.url
    assert SECRET not in page.content()
    kept = page.evaluate("""async (secret) => {
        const found = [JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage })];
        for (const name of await caches.keys()) {
            const cache = await caches.open(name);
            for (const request of await cache.keys()) {
                const bytes = await (await cache.match(request)).arrayBuffer();
                found.push(request.url, new TextDecoder("latin1").decode(bytes).includes(secret) ? secret : "");
            }
        }
        return [...found, ...(await indexedDB.databases()).map(({ name }) => name)].join(' ');
    }""", SECRET)
    assert SECRET not in kept
    assert "live/snapshot?" in kept
    page.locator("#files").get_by_role("link").click()
    page.reload()
    expect(page.locator("#said")).to_contain_text("Choose a file")  # a link has settings, and never rows


def test_a_later_visit_begins_from_what_was_kept_and_draws_noise_anew(opens: Opens) -> None:
    page = opens({**NINE, "seeds": [0], "privacy": {"epsilons": [1]}})
    released = set()
    for _ in range(3):
        trained(page)
        archive = zipfile.ZipFile(io.BytesIO(saved(page, "Classifier")))
        released.add(b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".safetensors")))
        page.reload()
    assert len(released) == 3
    reaches(page, "ready")
    page.evaluate("""async () => {
        const kept = await caches.open("dpcl-live");
        const [{ url }] = (await kept.keys()).filter(({ url }) => url.includes("/snapshot?"));
        await kept.put(url, new Response("damaged"));
    }""")
    page.reload()
    reaches(page, "ready")


@pytest.mark.parametrize("method", ["cslr-central", "fedcil-dp"])
def test_clients_train_at_the_first_settings(opens: Opens, method: str) -> None:
    """CSLR's heads and lists on digits: matching, its packages and public cut-outs are there; rounds are few."""
    clients = {"data": NINE["data"], "scenario": {"kind": "federated"}, "privacy": {"epsilons": [8]}, "seeds": [0]}
    page = opens({"method": method, **clients})
    trained(page)
    expect(page.locator("#models tbody tr")).to_have_count(1)
    expect(page.locator("#guarantee > summary")).to_contain_text("ε = 8")


def test_stop_at_any_time_and_start_again(opens: Opens, host: Host) -> None:
    page = loaded(opens, {**NINE, "seeds": list(range(30))})
    asked = len(host.asked)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("#train-here")).to_have_attribute("data-state", "running")
    page.get_by_role("button", name="Stop").click()
    reaches(page, "ready")
    scripts = ("worker.js", "engine.js", "live-cache.js")  # a browser looks for newer ones when a worker begins
    assert all(one.endswith(scripts) for one in host.asked[asked:])
    trained(page)


def test_a_tab_that_was_closed_and_a_second_one(opens: Opens) -> None:
    page = loaded(opens, {**NINE, "seeds": list(range(60))})
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("#train-here")).to_have_attribute("data-state", "running")
    beside = page.context.new_page()
    beside.goto(page.url)
    expect(beside.locator("#around")).to_contain_text("open in another tab")
    page.close()
    beside.reload()
    expect(beside.locator("#around")).to_contain_text("The last run ended when its tab was closed")


@pytest.mark.parametrize(("fault", "said"), [("wrong", "is not the file that"), ("short", "did not come whole")])
def test_a_file_that_came_wrong(opens: Opens, host: Host, fault: str, said: str) -> None:
    getattr(host, fault).add("dpcl.zip")
    page = opens()
    assert said in failed(page)
    getattr(host, fault).clear()
    page.get_by_role("button", name="Try again").click()
    reaches(page, "ready")


@pytest.mark.parametrize(("script", "said"), [
    ("delete window.WebAssembly;", "runs no WebAssembly"),
    ("window.Worker = class { constructor() { throw new RangeError('out of memory'); } };", "no more memory"),
])  # fmt: skip
def test_a_browser_that_cannot(opens: Opens, script: str, said: str) -> None:
    assert said in failed(opens(script=script))


def test_files_that_are_too_large_or_of_another_kind(opens: Opens, tmp_path: Path) -> None:
    page = loaded(opens)
    page.locator("[data-key='data.dataset']").select_option("own")
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(200_000_000)
    page.locator("#own-file").set_input_files(large)
    assert "large.csv has 200 MB: this page takes at most" in failed(page)
    page.locator("#own-file").set_input_files({"name": "notes.docx", "mimeType": "application/zip", "buffer": b"PK"})
    assert "notes.docx must end in" in failed(page)


def test_a_page_opened_as_a_file_says_how_to_serve_it(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / BELOW / "train-here.html").as_uri())
    assert "serve its folder" in failed(page)
    expect(page.locator("pre").first).to_contain_text(f"--directory '{folder / BELOW}/'")
    page.close()


def test_a_phone_is_asked_first_and_keeps_the_replay(opens: Opens, host: Host) -> None:
    def heavier(route: Route) -> None:
        manifest = route.fetch().json()
        manifest["files"]["dpcl.zip"]["bytes"] += 21_000_000
        route.fulfill(json=manifest)

    phone = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
    page = opens(**phone, service_workers="block")  # which would ask for the manifest in place of the page
    page.route("**/manifest.json", heavier)
    before = len(host.asked)
    page.reload()
    expect(page.locator("#said")).to_contain_text("this page loads")
    expect(page.get_by_role("button", name=re.compile("^Load"))).to_be_visible()
    assert not [one for one in host.asked[before:] if "dpcl.zip" in one]
    page.get_by_role("slider", name=re.compile("Privacy budget")).press("Home")
    expect(page.locator(".drag .sentence")).to_contain_text("At ε = 0.1")


def test_without_a_secure_address_and_without_a_network(browser: Browser, opens: Opens, host: Host) -> None:
    """A teacher's laptop has no https: files are held to their hashes all the same, and one sentence says what is lost."""
    flags = [*FLAGS, "--host-resolver-rules=MAP teacher.example 127.0.0.1"]
    chromium = browser.browser_type.launch(executable_path=CHROMIUM, args=flags)
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address(host).replace("127.0.0.1", "teacher.example"))
    expect(page.locator("#around")).to_contain_text("not secure", timeout=PATIENCE_MS)
    reaches(page, "ready")
    chromium.close()
    page = loaded(opens)
    page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    page.reload()  # the first visit is not seen by a service worker that it installed
    reaches(page, "ready")
    cut(host)
    page.reload()
    reaches(page, "ready")


def test_links_fill_the_form(opens: Opens) -> None:
    page = loaded(opens, {**NINE, "labels": "prior", "privacy": {"epsilons": [0.3, "inf"], "delta": 1e-4}, "seeds": [4, 9]})
    expect(page.locator("[data-key=labels]")).to_have_value("prior")
    expect(page.locator(".th-budget summary")).to_have_text("ε 0.3 to ∞, 2 seeds")
    assert json.loads(page.evaluate("decodeURIComponent(location.hash.slice(5))"))["seeds"] == [4, 9]
    page.goto(page.url.partition("#")[0] + "#run=%7Bnonsense")
    page.reload()
    expect(page.locator("#around")).to_contain_text("cannot be read")


def test_exercises_check_their_answers(opens: Opens) -> None:
    page = loaded(opens)
    learner, editor = page.locator("#exercise-learner"), page.locator("#code")
    learner.get_by_role("button", name="Check my learner").click()
    expect(learner.locator(".th-wrong")).to_have_count(2)
    clipped = EXERCISE["code"].replace("+= row", "+= row / max(1, np.linalg.norm(row))")
    editor.fill(clipped.replace("set(labels)", "range(n_classes)"))
    learner.get_by_role("button", name="Check my learner").click()
    expect(learner.locator(".th-right")).to_have_count(3)
    editor.fill("def learn(rows, labels, n_classes, sigma, noise):\n    while True: pass")
    learner.get_by_role("button", name="Check my learner").click()
    page.get_by_role("button", name="Stop").click()
    reaches(page, "ready")
    smallest = page.locator("#exercise-smallest")
    smallest.get_by_role("button", name="Check my run").click()
    expect(smallest.get_by_role("status")).to_contain_text("Set it up")
    smallest.get_by_role("button", name="Set it up").click()
    trained(page)
    smallest.get_by_role("button", name="Check my run").click()
    expect(smallest.get_by_role("status")).to_contain_text("try one between them")


@pytest.mark.parametrize(("width", "dark"), [(1360, False), (1024, True), (390, True)])
def test_it_can_be_read_and_pressed(opens: Opens, width: int, dark: bool) -> None:
    scheme = "dark" if dark else "light"
    page = opens(NINE, viewport={"width": width, "height": 860}, color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator(".drag .panel-accuracy svg")).to_be_in_viewport()  # before anything is loaded
    trained(page)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    found = sorted(amiss(page)) + (page.evaluate(SMALL) if width == 390 else [])
    assert not found, "\n".join(found)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_keyboard_alone_trains(opens: Opens) -> None:
    page = loaded(opens, NINE)
    start = page.get_by_role("button", name="Start", exact=True)
    for _ in range(40):
        page.keyboard.press("Tab")
        if start.evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("Enter")
    reaches(page, "finished")
