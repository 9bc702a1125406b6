"""The words on screen and in documents: the glossary is whole, and titles, labels and headings use the field's words."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.lessons import text
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog as papers
from dpcl_core.scenarios import catalog as scenarios
from scripts import docs_pages

ROOT = Path(__file__).resolve().parent.parent
# Words of a story, or of our own making, where the field has one.
UNUSED = re.compile(
    r"\b(anew|bury|crew|foresees?|foretold|hears? of|lives|nobody listens|outlook|pileup|prospects|said of|slopes?|spare"
    r"|strip|tellings?|tells|told|what becomes of|what came of)\b",
    re.IGNORECASE,
)
# Functions of streamlit and of pages/parts whose first argument, or `title` or `label`, is a title, label or heading.
SHOWN = {
    "actions", "button", "card", "checkbox", "download_button", "expander", "header", "heading", "link_button", "metric",
    "multiselect", "number_input", "page_link", "popover", "press", "radio", "segmented_control", "select_slider",
    "selectbox", "show", "slider", "subheader", "text_area", "text_input", "title", "toggle",
}  # fmt: skip


def literals(node: ast.expr) -> Iterator[str]:
    yield from (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))


def on_pages() -> Iterator[tuple[str, str]]:
    """Titles, labels and headings as they stand in the code of pages, with the file they are in. Views are named by keys."""
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        where = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                shown = [word.value for word in node.keywords if word.arg in ("title", "label", "question")]
                if name in SHOWN:
                    shown += node.args[:2] if name in ("header", "heading") else node.args[:1]
                yield from ((where, said) for value in shown for said in literals(value))
            if isinstance(node, ast.Dict):
                yield from ((where, said) for key in node.keys if key is not None for said in literals(key))


def of_cards() -> Iterator[tuple[str, str]]:
    """Titles of all that can be chosen by name."""
    catalogs = methods.CARDS, datasets.CARDS, backbones.CARDS, scenarios.CARDS
    yield from (("card", card.title) for cards in catalogs for card in cards.values())
    for name in presets.names():
        yield f"preset {name}", presets.about(name).title
        yield f"preset {name}", presets.about(name).question
    for paper in papers.PAPERS.values():
        yield from ((paper.name, said) for one in paper.experiments for said in (one.title, one.question))
    for name in text.NAMES:
        lesson = text.load(name)
        yield from ((f"lesson {name}", said) for said in (lesson.title, *(step.title for step in lesson.steps)))
    yield from (("edges", edge.title) for edge in text.edges())


def of_documents() -> Iterator[tuple[str, str]]:
    """Headings of documents, those that are made from cards included."""
    written = {path.name: path.read_text(encoding="utf-8") for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    for name, document in (written | docs_pages.pages()).items():
        outside_code = re.sub(r"```.*?```", "", document, flags=re.DOTALL)
        yield from ((name, line) for line in re.findall(r"^#+ (.*)$", outside_code, re.MULTILINE))


def test_the_scan_sees_titles_labels_and_headings() -> None:
    said = {words for _, words in on_pages()}
    assert {"Figure of the paper", "What happens when I run it for real?", "Methods and data", "Undo"} <= said
    assert UNUSED.search("What is told of a step")
    assert not UNUSED.search("Accuracy over tasks")


@pytest.mark.parametrize("source", [on_pages, of_cards, of_documents], ids=lambda source: source.__name__)
def test_titles_labels_and_headings_use_the_fields_words(source: object) -> None:
    assert callable(source)
    assert not [(where, said) for where, said in source() if UNUSED.search(said)]


def test_the_glossary_is_short_and_has_each_word_once() -> None:
    raw = tomllib.loads((ROOT / "assets" / "glossary.toml").read_text(encoding="utf-8"))["words"]
    assert len(raw) == len(text.words())
    forms = [form.casefold() for word in text.words() for form in word.forms]
    assert len(forms) == len(set(forms))
    for word in text.words():
        assert word.meaning.endswith(".")
        assert 1 <= len(re.findall(r"[.:](?:\s|$)", word.meaning)) <= 6
        assert len(word.meaning) <= 200, word.word
        assert not UNUSED.search(word.meaning)


@pytest.mark.parametrize(
    "word", ["ε", "δ", "adjacency", "composition", "clipping norm", "noise multiplier", "forgetting", "replay", "coreset",
             "LoRA", "FiLM", "exposure", "canary"],
)  # fmt: skip
def test_a_word_in_a_title_is_explained(word: str) -> None:
    assert text.explained(f"What about {word} here").startswith("**")


def test_only_whole_words_are_explained() -> None:
    assert text.explained("Multitasking, AAA and aa") == ""
    assert "Mean test accuracy" in text.explained("AA after each task")
