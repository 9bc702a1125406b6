"""Start without a browser: the picture comes first, the presets open, the computer is described."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import presets
from pages.parts.training import train_form
from tests.pages.conftest import Open, words

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_is_drawn_before_anything_that_takes_time(open_page: Open) -> None:
    page = open_page("start")
    assert not page.exception
    kinds = [element.type for element in page.main]
    assert "bidi_component" in kinds
    assert not page.get("plotly_chart")
    before = kinds[: kinds.index("bidi_component")]
    assert not {"page_link", "caption", "header"} & set(before)  # what needs the cards and the datasets comes after it
    assert json.loads(page.get("bidi_component")[0].proto.json)["panels"] == ["accuracy", "matrix"]


def test_the_first_picture_waits_for_no_numerics() -> None:
    """What Start imports before it feeds the element: no scipy, no figures, no accountant, no torch."""
    script = (
        "import sys; import pages.start; from pages.parts.training import budget_source;"
        "budget_source.digits('prior-const', 5);"
        "print([name for name in ('torch', 'scipy', 'dp_accounting', 'dpcl_core.figures.theme') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_teaching_data_says_that_it_is_not_protected(open_page: Open) -> None:
    said = words(open_page("start"))
    assert "class sums without noise" in said
    assert "Never do this with private data." in said
    assert "For teaching only: a recorded noise seed voids this bound." in said


def test_every_preset_card_opens_train_with_that_preset(open_page: Open) -> None:
    page = open_page("start")
    links = [link.proto for link in page.get("page_link")]
    for name in presets.names()[:3]:
        asked = train_form.parameters_of(presets.load(name))
        matching = [link for link in links if link.page_script_hash and all(f"{k}=" in link.query_string for k in asked)]
        assert matching, name
        assert presets.about(name).title in words(page)


def test_the_computer_is_described_in_one_line(open_page: Open) -> None:
    said = words(open_page("start"))
    found = re.search(r"This computer trains on its (processor|graphics card)\. Datasets ready to use: (.*)\.", said)
    assert found is not None
    assert "Handwritten digits" in found.group(2)


@pytest.mark.parametrize("word", ["anonymous", "guaranteed", "zero risk", "encrypted"])
def test_forbidden_words_do_not_occur(open_page: Open, word: str) -> None:
    for name in ("start", "playground", "privacy"):
        page: AppTest = open_page(name)
        assert word not in words(page).lower()
