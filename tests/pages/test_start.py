"""Start without a browser: the picture comes first, doors lead on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import Open, words

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_comes_first_and_doors_lead_on(open_page: Open) -> None:
    page = open_page("start")
    assert not page.exception
    kinds = [element.type for element in page.main]
    assert not page.get("plotly_chart")
    assert "page_link" not in kinds[: kinds.index("bidi_component")]
    links = [one.proto for one in page.get("page_link")]
    leads = {one.label.removeprefix(":primary[").removesuffix(" →]"): one.page for one in links}
    assert leads == {
        "Playground": "playground", "Sensitive words": "tokens", "Matching clients": "anchors", "Start lesson 1": "lessons",
        "Questions to run for real": "questions",
    }  # fmt: skip


def test_the_first_picture_waits_for_no_numerics() -> None:
    """What Start imports before it feeds the element: no scipy, no figures, no accountant, no torch."""
    script = (
        "import sys; import pages.start; from dpcl_core.elements import element;"
        "element.hero_document();"
        "print([name for name in ('torch', 'scipy', 'dp_accounting', 'dpcl_core.figures.theme') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_teaching_data_says_that_it_is_public(open_page: Open) -> None:
    assert "Public digits, fixed noise: for teaching only." in words(open_page("start"))


def test_the_computer_is_described_in_one_line(open_page: Open) -> None:
    said = words(open_page("about").segmented_control(key="about-views").set_value("Limits, version, citation").run())
    found = re.search(r"This computer trains on its (processor|graphics card)\. Datasets ready to use: (.*)\.", said)
    assert found is not None
    assert "Handwritten digits" in found.group(2)


@pytest.mark.parametrize("word", ["anonymous", "guaranteed", "zero risk", "encrypted"])
def test_forbidden_words_do_not_occur(open_page: Open, word: str) -> None:
    for name in ("start", "playground", "privacy"):
        page: AppTest = open_page(name)
        assert word not in words(page).lower()
