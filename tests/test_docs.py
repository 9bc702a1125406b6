"""The documentation: made from cards and records, every link checked, no result typed by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import docs_pages
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent


def test_readmes_results_are_those_of_the_records() -> None:
    """`python -m scripts.docs_pages --readme` writes them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert docs_pages.readme(text) == text
    assert text.count("\n- **") >= 4


def test_the_notebook_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    code, _ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(code, {})


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Strict: a link that leads nowhere, a page without a place and a parameter without a type are errors."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
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
