"""Words of the glossary in texts: explained once, where they first occur, and never inside code, links or formulas."""

from __future__ import annotations

import re

import pytest

from dpcl_core.lessons import glossary
from pages.parts import layout
from tests.pages.conftest import Open

SPAN = re.compile(r'<span class="term" role="term" tabindex="0" aria-description="([^"]*)">([^<]*)</span>')


def explained(text: str) -> list[str]:
    return [word for _, word in SPAN.findall(layout.marked(text, set()))]


def test_a_word_is_explained_where_it_first_occurs() -> None:
    seen: set[glossary.Word] = set()
    first = layout.marked("A coreset and a coreset.", seen)
    assert SPAN.sub(r"[\2]", first) == "A [coreset] and a coreset."
    meaning = next(word.meaning for word in glossary.words() if word.word == "coreset")
    assert SPAN.findall(first)[0][0] == f"coreset: {meaning}"
    assert layout.marked("A coreset again, and replay.", seen).count('class="term"') == 1


def test_other_forms_count_as_the_word() -> None:
    assert explained("The privacy budget ε is a budget.") == ["privacy budget"]


@pytest.mark.parametrize("text", ["`coreset`", "$coreset$", "[a coreset](page)", '<b title="coreset">', "Coresets"])
def test_code_links_formulas_and_tags_stay_as_they_are(text: str) -> None:
    assert layout.marked(text, set()) == text


@pytest.mark.parametrize("text", ["ε", "**LoRA** or FiLM: *replay*", "labels of the label space", "a client's seed"])
def test_nothing_but_tags_is_added(text: str) -> None:
    assert SPAN.sub(r"\2", layout.marked(text, set())) == text


def test_a_page_explains_a_word_once_in_every_run(open_page: Open) -> None:
    page = open_page("edges")
    for _ in range(2):
        said = "\n".join(block.value for block in page.markdown)
        found = [meaning for meaning, _ in SPAN.findall(said)]
        assert found
        assert len(found) == len(set(found))
        page = page.run()
