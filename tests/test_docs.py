"""Documents: made from cards and records, every link checked, every step followed; and the words that are explained."""

import json
import math
import os
import re
import shutil
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import fmean

import pandas as pd
import pytest

from dpcl_core import presets
from dpcl_core.lessons import text
from dpcl_core.papers import catalog, claims, measured, questions
from dpcl_core.papers.paper import Paper
from dpcl_core.privacy.statement import shown_number
from scripts import docs_beyond, docs_pages
from tests.data.making import put
from tests.support.waiting import python

ROOT = Path(__file__).resolve().parent.parent


def test_readmes_results_are_those_of_the_records() -> None:
    """`python -m scripts.docs_pages --readme` writes them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert docs_pages.readme(text) == text
    assert text.count("\n- **") >= 4


def test_the_page_of_networks_tells_public_texts_from_no_training() -> None:
    page = docs_pages.pages_made()["networks.md"]()
    said = dict(zip(re.findall("- name: `(.*)`", page), re.findall("- trained on: (.*)", page), strict=True))
    assert {name for name, words in said.items() if words == "nothing"} == {"pixels", "hashed-text"}
    assert said["minilm"].startswith("a billion public pairs of sentences; none of the datasets here is known")
    assert said["convnext-cifar10"].endswith("refused as private data: cifar10")


@cache
def _page(name: str) -> list[str]:
    return docs_pages.pages_made()[f"results_{name}.md"]().splitlines()


@pytest.mark.parametrize("paper", catalog.PAPERS.values(), ids=lambda paper: paper.name)
def test_a_page_of_results_has_no_two_verdicts_on_one_comparison(paper: Paper) -> None:
    """What a line compares, its budgets included, is said once in a form, and the legend explains its verdict."""
    lines = _page(paper.name)
    legend = " ".join(lines[: next(place for place, line in enumerate(lines) if line.startswith("## "))])
    for form in "\n".join(lines).split("\n## ")[1:]:
        said = re.findall(r"^- (.*, (?:ε = |no noise).*): \*\*(.*)\*\* \(", form, re.MULTILINE)
        assert len(said) == len(re.findall(r"^- .*\*\* \(", form, re.MULTILINE))
        assert not [what for what, n in Counter(what for what, _ in said).items() if n > 1]
        for verdict in {verdict.removeprefix("not decided: ") for _, verdict in said} - {"not run"}:
            assert f"*{verdict.capitalize()}*" in legend or f"*{verdict}*" in legend


def test_a_budget_that_the_ledger_exceeds_stands_beside_the_one_asked_for() -> None:
    """Every row of PeCL's main table against the records; what adds up to the budget asked for is not repeated."""
    rows = [line.split(" | ") for line in _page("pecl") if line.startswith("| ")]
    budgets = {(row[0].strip("| "), row[1]) for row in rows}
    for name, is_all in {"ER (DPSGD)": False, "O-LoRA (DPSGD)": True, "Repair: PeCL (central)": True}.items():
        assert ((name, "ε = 1") in budgets) is is_all
    for run in measured.recorded("pecl"):
        name, variant = catalog.PAPERS["pecl"].printed_as(run.spec)
        for epsilon in {model.epsilon for model in run.models}:
            spent = run.accounted(epsilon)
            if math.isfinite(spent) and spent > 1.01 * epsilon:
                assert any(
                    f"accounted {shown_number(spent)}" in budget for row, budget in budgets if row.startswith(name)
                ), variant


def test_the_readme_counts_every_claim_of_a_paper_once() -> None:
    """Against a plain count over all forms: no experiment and no comparison of ours, and no network that is a toy."""
    text = docs_pages.readme((ROOT / "README.md").read_text(encoding="utf-8"))
    for paper in catalog.PAPERS.values():
        states = dict[object, set[str]]()
        for experiment in paper.experiments:
            for size in experiment.sizes:
                specs = presets.variants(experiment.preset(size))
                found = ((label, measured.find(spec, measured.recorded(paper.name))) for label, spec in specs.items())
                runs = {label: run for label, run in found if run is not None}
                for one in claims.form(paper, experiment, size, runs).judged:
                    if experiment.is_ours or one.ordering.is_ours:
                        continue
                    ordering, place = one.ordering, experiment.table or experiment.name
                    key = (place, experiment.dataset, ordering.statement, ordering.first.epsilon, ordering.second.epsilon)
                    states.setdefault(key, set()).add("toy" if paper.name == "pecl" and size == "small" else one.state)
        n_found = sum("found" in one and "not found" not in one for one in states.values())
        n_contradicted = sum("not found" in one and "found" not in one for one in states.values())
        n_idle = sum(one <= {"not run", "toy"} for one in states.values())
        assert f"**{paper.title}.** Of {len(states)} claims: {n_found} found, {n_contradicted} contradicted," in text
        assert f", {n_idle} not run." in text


def test_the_page_beyond_the_papers_has_the_records_means_and_names_what_is_not_recorded() -> None:
    sections = docs_pages.pages_made()["beyond.md"]().split("\n### ")[1:]
    for name, section in zip(docs_beyond.PRESETS, sections, strict=True):
        known = questions.recorded(presets.variants(name))
        assert (f"Not recorded yet: `dpcl run --preset {name} --all`" in section) == (not known)
        for label, run in known.items():
            (line,) = (line for line in section.splitlines() if line.startswith(f"| {questions.run_name(label)} | "))
            told = [float(cell) for cell in line.strip("| ").split(" | ")[1:]]
            for epsilon, mean in zip(run.spec.privacy.epsilons, told, strict=True):
                reached = [100 * (model.metrics["AA"] or 0) for model in run.models if model.epsilon == epsilon]
                assert mean == pytest.approx(fmean(reached), abs=0.0501)
    assert questions.recorded(presets.variants("noise-over-tasks"))


def test_every_record_names_its_commit_and_machine_and_a_single_day_once() -> None:
    for paper in catalog.PAPERS:
        assert all(run.commit and run.machine and run.date for run in measured.recorded(paper))
        days = [re.findall(r"\d{4}-\d\d-\d\d", line) for line in _page(paper) if line.startswith("Recorded ")]
        assert days
        assert all(len(set(two)) == len(two) for two in days)


def test_a_page_does_not_pass_off_a_changed_tree_as_an_ordinary_commit() -> None:
    assert "commit 0eaa975d with further changes in the tree" in docs_pages.pages_made()["gpu.md"]()


def test_a_page_says_that_a_ceiling_is_missing_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before all tasks were learned at once with a step that suits training without noise."""
    for paper in catalog.PAPERS:
        assert not [line for line in _page(paper) if line.startswith("No ceiling is known")]
    suits = presets.variants("paper-split-cifar-100-bundled")["non-cl-head-smaller-step"]
    others = tuple(run for run in measured.all_recorded() if run.spec != suits)
    monkeypatch.setattr(measured, "all_recorded", lambda dataset=None: others)
    (said,) = [line for line in _page.__wrapped__("tobaben") if line.startswith("No ceiling is known")]
    assert "ends at 66.2 %, though the records of the same tasks reach 68.2 %" in said


def test_the_notebook_of_the_readme_runs(home: Path) -> None:
    code, _ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(code, {})


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "guides").glob("from_*.md")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("home")
def test_the_lines_of_a_guide_from_another_library_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours; those of the other library stand before them, and are ten lines or few more."""
    monkeypatch.chdir(tmp_path)
    theirs, *ours = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    compile(theirs, path.name, "exec")
    assert "dpcl" not in theirs
    for code in ours:
        assert "import dpcl_core as dpcl" in code
        exec(code, {})


def test_the_lines_of_the_guide_on_own_data_run(home: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "own_data.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["result"].guarantee(1.0).epsilon <= 1.0  # type: ignore[attr-defined]


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Strict: a link that leads nowhere, a page without a place and a parameter without a type are errors."""
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    python("-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site"), env=quiet)
    pages = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("index.html")}
    assert {"methods/index.html", "results_tobaben/index.html", "api/index.html", "guides/own_data/index.html"} <= pages
    shown = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"https?://(fonts|cdn|unpkg)", shown), "the site must be readable offline"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_links_of_the_documents_lead_somewhere(path: Path) -> None:
    """As the files lie in a checkout, where generated pages are not; these are checked with the site."""
    made = set(docs_pages.pages_made())
    for target in re.findall(r"\]\(([^)#]+\.md)\)", path.read_text(encoding="utf-8")):
        found = (path.parent / target).resolve()
        assert found.exists() or found.relative_to(ROOT / "docs").as_posix() in made, target


def _unheld(security: str) -> list[str]:
    """The sentences that claim something and have no note behind them, and the notes that lead nowhere or are not used."""
    text, notes = security[security.index("\n## ") :], dict(re.findall(r"^\[\^([\w-]+)\]: (.*)$", security, re.MULTILINE))
    claims = text[: text.index("## Reporting a weakness")]
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\n|^\* |^## .*$", claims, flags=re.MULTILINE)]
    wrong, used = list[str](), set[str]()
    for paragraph in paragraphs:
        plain = re.sub(r"^\*\*[^*]*\.\*\* ", "", paragraph)  # a bullet's title
        for sentence in re.findall(r"\S.*?[.:?!](?:\[\^[\w-]+\])*(?= [A-Z`*]|$)|\S.*$", plain):
            found = re.search(r"[.?!]((?:\[\^[\w-]+\])+)$", sentence)
            if found is None:
                wrong.append(sentence)
            else:
                used |= set(re.findall(r"\[\^([\w-]+)\]", found[1]))
    wrong += sorted(used ^ notes.keys())
    for note, places in notes.items():
        named = re.findall(r"`([^`:]+)(?:::(\w+))?`", places)
        wrong += [] if named and re.fullmatch(r"`[^`]+`(, `[^`]+`)*", places) else [note]
        for path, name in named:
            source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
            is_there = source and re.search(rf"^(def |class )?{name}\b", source, re.MULTILINE)
            wrong += [] if is_there else [f"{note}: {path}::{name}"]
    return wrong


SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_sentence_on_security_names_a_test_or_a_module_that_is_there() -> None:
    assert _unheld(SECURITY) == []
    assert SECURITY.count(".[^") >= 40


@pytest.mark.parametrize(("old", "new"), [
    ("[^times] Stored", " Stored"),
    ("coarse.[^coarse]", "coarse."),
    ("[^audit]\n", "\n"),
    (".[^seeded]\n", ".[^seeded] It is safe.\n"),
    ("[^noise]: `dpcl_core/privacy/noise.py::ReleaseNoise`", "[^noise]: `dpcl_core/privacy/noise.py::NoSuchNoise`"),
    ("tests/runs/test_looks.py::", "tests/runs/test_no_looks.py::"),
    ("[^second]: ", "[^secnd]: "),
    ("[^forgery]: `dpcl_core/privacy/card.py::CHECK_FINDS`", "[^forgery]: somewhere"),
])
def test_a_sentence_without_its_note_and_a_note_that_leads_nowhere_are_found(old: str, new: str) -> None:
    assert SECURITY.count(old) == 1
    assert _unheld(SECURITY.replace(old, new))


# CONTRIBUTING.md, followed: a throw-away method, dataset, preset and page in a copy of the project.


TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CARD = '''
[two-words]
title = "Two words"
summary = "Short texts of two kinds."
source = "this test"
licence = "CC0"
kind = "text"
n_train = 40
n_test = 20
classes = ["good", "bad"]
'''
PAGE = '''"""Hello: does a page need more than this?"""

import streamlit as st

from pages.parts.layout import header


def page() -> None:
    """The page."""
    header("Hello", "Does a page need more than this?")
    st.markdown("No.")


if __name__ == "__main__":
    page()
'''
FOLLOWED = """
from pathlib import Path
import dpcl_core as dpcl
from dpcl_core import checks, export, presets
from streamlit.testing.v1 import AppTest
from tests.test_house import test_every_method_is_one_file, test_families_do_not_know_each_other

assert dpcl.__file__.startswith(str(Path.cwd())), dpcl.__file__
test_every_method_is_one_file()
test_families_do_not_know_each_other("methods.features")
assert "centred-cosine" in [row["name"] for row in export.catalog_rows("methods")]
assert dpcl.run("new-method").guarantee(1.0).epsilon <= 1.0
(row,) = [row for row in export.catalog_rows("datasets") if row["name"] == "two-words"]
assert row["missing"] is None, row["missing"]
checks.check_run(checks.parse({"data": {"dataset": "two-words", "backbone": "hashed-text"}, "scenario": {"tasks": 1},
                           "privacy": {"delta": 1e-3}}))
import app
assert ("hello", "Hello") in app.PAGES
page = AppTest.from_file("pages/hello.py", default_timeout=600).run()
assert not page.exception, page.exception
assert page.title[0].value == "Hello"
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project's code, presets and cards, to be changed; the other assets are linked."""
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("dpcl_core", "pages", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
    shutil.copy(ROOT / "app.py", tmp_path)
    (tmp_path / "assets").mkdir()
    for path in (ROOT / "assets").iterdir():
        if path.name in ("presets", "cards"):
            shutil.copytree(path, tmp_path / "assets" / path.name)
        else:
            (tmp_path / "assets" / path.name).symlink_to(path)
    return tmp_path


def changed(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text, f"{path.name}: {before}"
    path.write_text(text.replace(before, after, 1), encoding="utf-8")


def test_a_method_a_dataset_a_preset_and_a_page_are_added_as_it_says(copy: Path) -> None:
    cells = json.loads((ROOT / "examples" / "3_own_method.ipynb").read_text(encoding="utf-8"))["cells"]
    (module,) = ["".join(cell["source"]) for cell in cells if "".join(cell["source"]).startswith("%%writefile")]
    _, _, module = module.partition("\n")
    method = put(copy / "dpcl_core" / "methods" / "features" / "centred_cosine.py", module)
    changed(method, 'module="centred_cosine"', 'module="dpcl_core.methods.features.centred_cosine"')
    catalog = copy / "dpcl_core" / "methods" / "catalog.py"
    changed(catalog, '"features": (', '"features": ("centred-cosine", ')

    with (copy / "assets" / "cards" / "datasets.toml").open("a", encoding="utf-8") as cards:
        cards.write(CARD)
    folder = copy / "data" / "two_words"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        table = pd.DataFrame({"text": ["a good day", "a bad day"] * 20, "label": [0, 1] * 20})
        table.to_parquet(folder / f"{part}.parquet", index=False)

    preset = copy / "assets" / "presets" / "new-method.toml"
    shutil.copy(preset.with_stem("digits-cosine"), preset)
    changed(preset, 'method = "cosine"', 'method = "centred-cosine"')
    (copy / "pages" / "hello.py").write_text(PAGE, encoding="utf-8")
    changed(copy / "app.py", '("runs", "Runs")', '("runs", "Runs"), ("hello", "Hello")')

    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DPCL_", "PYTHONPATH"))}
    environment |= {"DPCL_HOME": str(copy / "home"), "DPCL_DATA": str(copy / "data"), "HF_HUB_OFFLINE": "1"}
    python("-c", FOLLOWED, cwd=copy, env=environment)


def test_every_place_that_it_names_is_there() -> None:
    """Files and folders in code marks, links, and tables named beside a file."""
    for named in re.findall(r"`((?:dpcl_core|pages|tests|assets|docs|scripts)/[\w./]+)`", TEXT):
        if not re.search(r"FAMILY|NAME", named):
            assert (ROOT / named).exists(), named
    for target in re.findall(r"\]\(([\w./]+)\)", TEXT):
        assert (ROOT / target).exists(), target
    for path, table in (
        ("dpcl_core/methods/catalog.py", "CARDS"), ("dpcl_core/attacks/play.py", "REFUSED"), ("app.py", "PAGES"),
        ("tests/test_neighbours.py", "METHODS"), ("tests/attacks/units.py", "UNITS"), ("dpcl_core/lessons/text.py", "PARTS"),
    ):  # fmt: skip
        assert f"`{table}`" in TEXT
        assert re.search(rf"^{table}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), f"{path}: {table}"


def test_the_glossary_is_short_and_has_each_word_once() -> None:
    raw = tomllib.loads((ROOT / "assets" / "glossary.toml").read_text(encoding="utf-8"))["words"]
    assert len(raw) == len(text.words())
    forms = [form.casefold() for word in text.words() for form in word.forms]
    assert len(forms) == len(set(forms))
    for word in text.words():
        assert word.meaning.endswith(".")
        assert 1 <= len(re.findall(r"[.:](?:\s|$)", word.meaning)) <= 6
        assert len(word.meaning) <= 200, word.word


@pytest.mark.parametrize(
    "word", ["ε", "δ", "adjacency", "composition", "clipping norm", "noise multiplier", "forgetting", "replay", "coreset",
             "LoRA", "FiLM", "exposure", "canary"],
)  # fmt: skip
def test_a_word_in_a_title_is_explained(word: str) -> None:
    assert text.explained(f"What about {word} here").startswith("**")


def test_only_whole_words_are_explained() -> None:
    assert text.explained("Multitasking, AAA and aa") == ""
    assert "Mean test accuracy" in text.explained("AA after each task")
