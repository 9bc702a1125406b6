"""The plain site: whole, the same each time, closed to the network; and the browser's Python that it takes with it."""

import io
import json
import os
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from dpcl_core import checks, paths, presets
from dpcl_core.backbones import packaged
from dpcl_core.elements import calculator, element
from dpcl_core.errors import DataMissing
from dpcl_core.explorers.tokens import Dials
from dpcl_core.figures.picture import span
from dpcl_core.lessons import in_browser
from dpcl_core.lessons import text as lessons
from dpcl_core.papers import catalog, claims, measured, questions
from dpcl_core.site import build, live, runs
from tests.support import javascript
from tests.support.asserting import complaint, includes, refuses
from tests.support.waiting import python

PAPERS = tuple(paper.link for paper in catalog.PAPERS.values())
SECTIONS = ("questions", "lessons", "install", "papers")
ROOT = Path(__file__).resolve().parents[2]
PANELS = ("accuracy", "matrix", "classes")
EXPLORABLES: dict[str, tuple[element.Element, object]] = {
    "index.html": (element.HERO, element.hero_document()),
    "budget.html": (element.DRAG, element.drag_document(calculator.digits("prior-const", 5), 1.0, PANELS)),
    "words.html": (element.TOKENS, element.document(None, Dials(), element.FIRST, "your sentence", element.BUDGETS, None)),
    "clients.html": (element.ANCHORS, element.anchors_document(384, 50, 0.1, "centred")),
    "calculators.html": (element.CALCULATOR, calculator.document()),
    "lesson-1.html": (element.LESSON, in_browser.document("label")),
    "lesson-2.html": (element.LESSON, in_browser.document("noise")),
}


class Reader(HTMLParser):
    """What a page links to, loads and is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links, self.loads = list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {found["id"] or ""} if "id" in found else set()
        if tag == "a":
            self.links.append(found.get("href") or "")
        elif "src" in found or "href" in found:
            self.loads.append(found.get("src") or found.get("href") or "")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as another process writes it, without data, store or torch, and with another order of sets."""
    folder = tmp_path_factory.mktemp("site") / "public"
    code = (
        "import sys; from dpcl_core import cli\n"
        f"status = cli.main(['site', '--to', {str(folder)!r}, '--json'])\n"
        "heavy = {'torch', 'streamlit', 'timm', 'transformers', 'opacus', 'playwright'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.exit(status)"
    )
    home = folder.parent / "home"
    nothing = {"DPCL_DATA": str(folder.parent / "none"), "DPCL_HOME": str(home), "PYTHONHASHSEED": "7"}
    written = json.loads(python("-c", code, env={**os.environ, **nothing}))["files"]
    assert written == sorted(path.name for path in folder.iterdir())
    assert not home.exists()
    return folder


@pytest.fixture(scope="module")
def texts(built: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in built.iterdir()}


@pytest.mark.slow
def test_it_is_the_same_each_time_with_data_and_without(texts: dict[str, str]) -> None:
    every = build.pages()
    assert {one.file: runs.run_page(one, every) for one in every} == texts


def test_every_link_leads_to_a_page_and_every_page_is_reached_from_the_index(texts: dict[str, str]) -> None:
    read = {name: Reader(text) for name, text in texts.items()}
    for name, one in read.items():
        for link in one.links:
            if link in PAPERS:
                continue
            file, _, anchor = link.partition("#")
            assert file in texts or not file, f"{name}: {link}"
            assert not anchor or anchor in read[file or name].ids, f"{name}: {link}"
    reached, new = {"index.html"}, {"index.html"}
    while new := {link for name in new for link in read[name].links if link in texts} - reached:
        reached |= new
    assert reached == set(texts)
    assert {"budget.html", "words.html", "clients.html", "published.html"} <= set(read["index.html"].links)
    assert set(texts) <= set(read["index.html"].links), "at once, not through others alone"
    assert set(PAPERS) <= set(read["index.html"].links)


def test_the_index_says_what_this_is_then_shows_start_questions_lessons_installing_and_papers(texts: dict[str, str]) -> None:
    text = texts["index.html"]
    parts = ('class="brand"', f"<h1>{element.TITLE}</h1>", build._WHAT, 'id="hero"')
    places = [text.index(part) for part in (*parts, *(f'<section id="{name}"' for name in SECTIONS))]
    assert places == sorted(places)
    assert [text.count(f'href="#{name}"') for name in ("lessons", "questions", "install")] == [1, 1, 1]
    n_here, n_lessons = len(lessons.IN_BROWSER), len(lessons.NAMES)
    assert f"{n_here} of {n_lessons} lessons run here, without a server." in text
    for name in lessons.NAMES:
        assert runs.escape(lessons.load(name).title) in text
    assert "make app" in build._INSTALL.values()
    assert re.search(r"^app:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_a_card_counts_the_claims_of_its_question(texts: dict[str, str]) -> None:
    cards = dict(re.findall(r'<li class="card"><h4><a href="([^"]+)">.*?</h4>(.*?)</li>', texts["index.html"]))
    assert len(cards) == len([name for name in texts if name.startswith("run-")]) >= element.N_ANSWERED
    for paper in catalog.PAPERS.values():
        for experiment in paper.experiments:
            forms = [one for one in claims.recorded_forms(paper) if one.experiment == experiment]
            found = claims.counts(claims.claims(forms))
            card = cards.get(runs.file_of(questions.of_preset(experiment.preset(experiment.sizes[0]))))
            if card is not None and any(found.values()):
                said = ", ".join(f"{n} {verdict}" for verdict, n in found.items() if n)
                assert f"{runs.counted(sum(found.values()), 'claim')}: {said}" in card
                widths = re.findall(r'<i class="([a-z-]+)" style="flex: (\d+)"', card)
                assert {name.replace("-", " "): int(n) for name, n in widths} == {k: n for k, n in found.items() if n}


def test_nothing_is_loaded_and_no_page_is_large(built: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        assert (built / name).stat().st_size <= 1_500_000, name
        assert set(Reader(text).loads) == {"data:,"}, name
        style = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
        assert not re.search(r"@import|@font-face|url\(\s*['\"]?(?!#|data:)", style), name
        assert f'content="{runs.POLICY}"' in text
    assert runs.POLICY.startswith("default-src 'none'")


@pytest.mark.parametrize("name", EXPLORABLES)
def test_elements_and_their_data_are_the_apps_own(texts: dict[str, str], name: str) -> None:
    (one, data), in_page = EXPLORABLES[name], texts[name].replace("<\\/", "</").replace("<\\!--", "<!--")
    (drawn,) = re.findall(r"^draw\((.*)\);$", in_page, re.MULTILINE)
    assert (one.classic in in_page, element.theme() in in_page) == (True, True)
    assert json.loads(drawn) == json.loads(json.dumps(data))


def test_the_slider_has_every_list_and_number_of_tasks(texts: dict[str, str]) -> None:
    (call,) = re.findall(r"^\}\)\((\{.*)\);$", texts["budget.html"].replace("<\\/", "</"), re.MULTILINE)
    documents, replays = json.loads(f"[{call}]")
    every = list(product(calculator.SETTINGS, calculator.TASKS))
    for labels, n_tasks in every:
        one = documents[f"{labels}-{n_tasks}"]
        given = {**one["data"], "replay": replays[one["replay"]]}
        assert given == json.loads(json.dumps(element.drag_document(calculator.digits(labels, n_tasks), 1.0, PANELS)))
    assert len(documents) == len(every) == 9


def test_every_recorded_question_has_its_finding_picture_and_numbers(texts: dict[str, str]) -> None:
    answered = 0
    for question, form in ((one, form) for one in questions.questions() for form in one.forms.values()):
        specs = presets.variants(form.name)
        if found := questions.recorded(specs):
            answered += 1
            text, titles = texts[runs.file_of(question)], questions.question_names(specs)
            asked = form.asks_about_forgetting
            finding = questions.finding(next(iter(specs.values())), found, titles, with_forgetting=asked)
            assert ("Forgotten of the earlier tasks" in finding) == asked
            assert text.count(f'aria-label="{runs.escape(finding)}"') >= 4  # two themes, two widths
            rows = [f'<th scope="row">{runs.escape(run)}</th>' for run in questions.scores(found, titles)["run"].unique()]
            includes(text, runs.paragraph(finding, "finding"), *rows)
    references = json.loads((ROOT / "assets" / "reproduction" / questions.RECORD).read_text())
    assert answered == sum(" on " not in name for name in references) > 30  # the others are of claims on other data


def test_a_size_is_headed_by_how_long_its_runs_took_where_that_is_known(texts: dict[str, str]) -> None:
    name = "paper-split-cifar-100-bundled"
    seconds = questions.elsewhere(presets.about(name), presets.variants(name))
    assert f"<h2>Larger: more data, about {span(seconds)}</h2>" in texts["run-split-cifar-100.html"]
    assert not any(f"{size}, {unit}</h2>" in text for text in texts.values() for size in runs.FORMS.values()
                   for unit in ("minutes", "hours"))  # fmt: skip


def test_claims_are_counted_as_the_records_say(texts: dict[str, str]) -> None:
    every = [one for paper in catalog.PAPERS.values() for one in claims.of_paper(paper)]
    text, counts = texts[runs.PUBLISHED_FILE], Counter(one.verdict for one in every)
    assert f"Of {len(every)} claims in four papers, {counts['found']} are found here." in text
    for paper in catalog.PAPERS.values():
        assert claims.sentence(claims.of_paper(paper)) in text
    by_layer = text[text.index("Layer by layer") : text.index("Differences, and why")]
    layers = [(int(found), int(decided)) for found, decided in re.findall(r"(\d+) of (\d+) decided claims", by_layer)]
    assert tuple(map(sum, zip(*layers, strict=True))) == (counts["found"], counts["found"] + counts["contradicted"])
    ours = texts["published-pecl.html"].partition("Parts, settings and orders without noise")[2].partition("</section>")[0]
    assert "Of 30 comparisons of our own" in ours
    assert "the paper&#x27;s" not in ours.partition("</p>")[0]
    assert text.index("claims in four papers") < text.index("Layer by layer") < text.index("Differences, and why")


def test_a_ceiling_is_named_below_its_picture(texts: dict[str, str]) -> None:
    known = measured.known(presets.load("paper-split-cifar-100-small"))
    assert f"all tasks at once without noise {100 * known:.1f} %" in texts["run-split-cifar-100.html"]


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.html").write_text("<!doctype html>mine", encoding="utf-8")
    said = complaint(capsys, "site", "--to", str(tmp_path))
    assert (said.count("\n"), "thesis.html is no page of one" in said) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.html"]
    refuses("this is a file", build.build, tmp_path / "thesis.html")


def test_an_earlier_site_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only(name: str) -> list[runs.Page]:
        return [runs.Page(name, "A", "B?", "<p>C</p>", "A")]

    for names in (["index.html", "old.html"], ["index.html", "new.html"]):
        monkeypatch.setattr(build, "PAGES", tuple(lambda name=name: only(name) for name in names))
        build.build(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


# The page “Train in this page” as files: what it may ask for, and what its scripts decide by themselves.


TEXT = paths.asset_table("live/exercises.toml")["smallest"]
EXERCISES = (paths.assets_dir() / "live" / "exercises.mjs").read_text(encoding="utf-8")


def test_scripts_find_each_other_and_ask_for_files_of_the_site_alone() -> None:
    files = build.scripts()
    for name, text in files.items():
        assert name.endswith(".js")
        wanted = set(re.findall(r'from "\./([\w-]+\.js)"', text))
        assert all(f"live/{one}" in files for one in wanted), (name, wanted)
        assert not re.search(r"""(?:fetch|import|Worker|open)\(["'`]https?:""", text), name
    fetching = {name for name, text in files.items() if re.search(r"(?<!\.)\bfetch\(", text)}
    assert fetching <= {"live/files.js", "live-cache.js", "live/engine.js"}


def test_the_page_asks_its_own_origin_alone() -> None:
    page = build.live_page()
    assert f'content="{build.POLICY}"' in runs.run_page(page, [page])
    assert "connect-src 'self' blob:" in build.POLICY
    assert "{{" not in page.body
    assert 'data-state="loading"' in page.body


def outcome(means: dict[float, list[float]], **settings: object) -> dict[str, object]:
    models = [{"epsilon": epsilon, "metrics": {"AA": one}} for epsilon, seeds in means.items() for one in seeds]
    return {"models": models, "settings": {**TEXT["settings"], **settings}}


@pytest.mark.parametrize(("found", "said"), [
    (None, "no_run"), (outcome({1: [0.9] * 3}, labels="prior"), "other"), (outcome({1: [0.7] * 3}), "none"),
    (outcome({1: [0.9] * 2, 0.5: [0.7] * 3}), "few"), (outcome({1: [0.9] * 3, 2: [0.9] * 3}), "all"),
    (outcome({1: [0.9] * 3, 2: [0.7] * 3}), "mixed"), (outcome({2: [0.9] * 3, 1: [0.7] * 3}), "wide"),
    (outcome({1.5: [0.9, 0.7, 0.8], 1: [0.79] * 3}), "right"),
])  # fmt: skip
def test_an_answer_is_judged_by_the_run(found: object, said: str) -> None:
    # 0.9, 0.7 and 0.8 have a mean of 0.8 up to rounding: the share is a hair less here, so that rounding decides nothing.
    text = {**TEXT, "share": 0.7999, "wanted": TEXT["settings"]}
    script = EXERCISES.replace('import { made } from "./dom.js";', "")
    judged = javascript.run(script, "return verdict(...fromPython);", sent=[text, found])
    low, high = {"mixed": (2, 1), "wide": (1, 2)}.get(said, (1, 1.5))
    assert judged == TEXT[said].format(low=low, high=high)


def test_a_run_that_is_going_on_is_summed_up_as_far_as_it_is() -> None:
    """Rows still to come are null: they count neither as zero nor as forgotten."""
    whole = [[0.9], [0.7, 0.8], [0.5, 0.6, 0.7]]
    begun = [*whole[:2], [None] * 3]
    sources = [(paths.assets_dir() / name).read_text(encoding="utf-8") for name in element.DRAG.scripts]
    script = re.sub(r"^export (default )?", "", "\n".join(sources), flags=re.MULTILINE)
    of = "return summarised({ matrices: fromPython, classes: [] });"
    found = javascript.run(script, of, sent=[begun])
    assert found["last"] == 1
    assert found["curve"] == [pytest.approx(0.9), pytest.approx(0.75), None]  # of a few doubles
    assert found["lost"] == pytest.approx(0.2)
    assert javascript.run(script, of, sent=[whole])["last"] == 2


def test_start_and_every_answer_that_can_be_repeated_lead_to_the_page() -> None:
    """The link says the settings of a run of the answer, and nothing else."""
    answers = runs.recorded()
    start = runs.Page(runs.HOME, "", "", '<ul class="doors"></ul>')
    before = [runs.Page(runs.file_of(question), "", "", '<p class="row"></p>') for question, _ in answers]
    first, *after = build.with_doors([start, *before])
    assert f'href="{build.FILE}"' in first.body
    opened = 0
    for (_, forms), page in zip(answers, after, strict=True):
        possible = [spec for form in forms for spec in form.specs.values() if live.runs_here(spec)]
        linked = re.search(r'href="train-here\.html#run=([^"]+)"', page.body)
        assert bool(linked) == bool(possible), page.file
        if linked:
            opened += 1
            assert checks.parse(json.loads(unquote(unescape(linked[1])))) in possible
    assert 0 < opened < len(answers)


WHEEL = "numpy-1-py3-none-any.whl"
NUMPY = b"a package"
LOCK = json.dumps({"packages": {"numpy": {"file_name": WHEEL, "sha256": sha256(NUMPY).hexdigest()}}}).encode()
CORE = {"core.js": b"let core;", live.LOCK: LOCK}


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an official server with two core files and one package; the user's cache is empty."""
    folder = tmp_path / "official"
    folder.mkdir()
    for name, content in {**CORE, WHEEL: NUMPY}.items():
        (folder / name).write_bytes(content)
    said = {
        "version": "0", "official": f"{folder.as_uri()}/{{file}}", "npm": "pyodide@0", "packages": {"engine": ["numpy"]},
        "pypi": {"requirement": "some==1", "folder": "some/files", "sha256": ""},
        "core": {name: sha256(content).hexdigest() for name, content in CORE.items()},
    }  # fmt: skip
    monkeypatch.setattr(live, "about_python", lambda: said)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def fetched() -> Path:
    list(live.fetch_python())
    place = live.python_folder()
    assert place is not None
    return place


def test_the_official_server_is_asked_first_and_once(official: Path) -> None:
    assert live.python_folder() is None
    place = fetched()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {**CORE, WHEEL: NUMPY}
    assert live.package_files(place) == {"engine": [WHEEL]}
    for path in official.iterdir():
        path.unlink()
    fetched()


@pytest.mark.parametrize("name", [*CORE, WHEEL])
def test_another_file_than_the_official_one_is_not_kept(official: Path, name: str) -> None:
    (official / name).write_bytes(b"another")
    refuses("its SHA-256 differs", list, live.fetch_python())
    assert live.python_folder() is None
    assert not (Path(os.environ["XDG_CACHE_HOME"]) / "dpcl" / live.PYODIDE / name).exists()


def of_registries(official: Path, monkeypatch: pytest.MonkeyPatch, core: dict[str, bytes], wheel: dict[str, bytes]) -> None:
    """The official server is away, npm is a program that writes this archive, and PyPI gives this wheel."""
    for path in official.iterdir():
        path.unlink()
    with tarfile.open(official / "pyodide-0.tgz", "w:gz") as archive:
        for name, content in core.items():
            about = tarfile.TarInfo(f"package/{name}")
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    program = official / "npm"
    program.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "{official}/pyodide-0.tgz" "$last"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{official}:{os.environ['PATH']}")

    def downloaded(name: str, package: Any, file: Path) -> Iterator[packaged.Step]:
        with zipfile.ZipFile(file, "w") as packed:
            for member, content in wheel.items():
                packed.writestr(member, content)
        yield packaged.Step("downloading", 1, 1)

    monkeypatch.setattr(packaged, "downloaded", downloaded)


def test_registries_serve_where_the_official_server_is_away(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_registries(official, monkeypatch, CORE, {f"some/files/{WHEEL}": NUMPY, "some/code.py": b"raise SystemExit"})
    assert {path.name for path in fetched().iterdir()} == {*CORE, WHEEL}


def test_a_registry_is_held_to_the_official_hashes(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_registries(official, monkeypatch, CORE, {f"some/files/{WHEEL}": b"another"})
    refuses("its SHA-256 differs", list, live.fetch_python())


def test_a_file_that_no_source_has_is_said(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_registries(official, monkeypatch, CORE, {})
    refuses(f"{WHEEL} is in none of its sources: connect this computer", list, live.fetch_python(), error=DataMissing)


def test_without_it_no_site_that_trains_is_built(official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, "site", "--live", "--to", str(tmp_path / "site"))
    assert "run `dpcl fetch pyodide`, once, and build the site again" in said
    assert not list((tmp_path / "site").glob("*"))


def test_the_manifest_has_every_file_with_its_hash(official: Path) -> None:
    fetched()
    files = live.files()
    manifest = json.loads(files.pop(live.MANIFEST))
    assert {name: (len(one), sha256(one).hexdigest()) for name, one in files.items()} == {
        name: (about["bytes"], about["sha256"]) for name, about in manifest["files"].items()
    }
    assert sorted(path for of_group in manifest["groups"].values() for path in of_group) == sorted(files)
    assert all(set(rule["groups"]) <= {*manifest["groups"], "scipy", "cluster"} for rule in manifest["needs"])
    names = zipfile.ZipFile(io.BytesIO(files["dpcl.zip"])).namelist()
    rooms = ("runs/", "cli/", "site/", "methods/language/")
    assert not [name for name in names if name.startswith((*(f"dpcl_core/{room}" for room in rooms), "tests/", "pages/"))]
    again = {**files, live.MANIFEST: json.dumps(manifest, separators=(",", ":")).encode()}
    assert live.files() == again, "the same bytes again"


def test_every_public_feature_is_small_and_says_where_it_is_from(official: Path) -> None:
    fetched()
    for name, content in live.files().items():
        assert not name.startswith("data/") or len(content) <= 3_000_000, name
    for dataset in live.choices()["datasets"][:-1]:  # type: ignore[index]
        assert all(dataset[key] for key in ("source", "licence", "scenarios")), dataset  # type: ignore[index,call-overload]
