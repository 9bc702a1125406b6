"""CONTRIBUTING.md, followed: a throw-away method, dataset, preset and page in a copy of the project."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tests.support.waiting import python

ROOT = Path(__file__).resolve().parent.parent
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
PRESET = """[about]
title = "A new method"
question = "What does subtracting a constant change?"

[spec]
method = "centred-cosine"
labels = "prior-const"
seeds = [0]

[spec.privacy]
epsilons = [1.0]
"""
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
    method = copy / "dpcl_core" / "methods" / "features" / "centred_cosine.py"
    method.write_text(module, encoding="utf-8")
    changed(method, 'module="centred_cosine"', 'module="dpcl_core.methods.features.centred_cosine"')
    catalog = copy / "dpcl_core" / "methods" / "catalog.py"
    changed(catalog, '_FEATURES = {', '_FEATURES = {"centred-cosine": "centred_cosine", ')

    with (copy / "assets" / "cards" / "datasets.toml").open("a", encoding="utf-8") as cards:
        cards.write(CARD)
    folder = copy / "data" / "two_words"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        table = pd.DataFrame({"text": ["a good day", "a bad day"] * 20, "label": [0, 1] * 20})
        table.to_parquet(folder / f"{part}.parquet", index=False)

    (copy / "assets" / "presets" / "new-method.toml").write_text(PRESET, encoding="utf-8")
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
