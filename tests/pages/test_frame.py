"""What holds for all pages, and for the parts that they share: texts, terms, figures, parts that stand still."""

import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core import __version__
from dpcl_core.elements import element
from dpcl_core.errors import StoreTrouble
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture
from dpcl_core.lessons import text
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import answers
from pages import explore, lessons, runs, teach
from pages.parts import figure_card, layout
from pages.parts.text import plain
from scripts import citations
from tests.pages.conftest import ROOT, Open, Patch, address, words
from tests.support.asserting import includes, raising

CITED = (
    ("software", "dpcl2026"), ("article", "tobaben2025"), ("inproceedings", "lai2022"), ("article", "zhan"),
    ("article", "shihab2026"),
)  # fmt: skip
_FORBIDDEN = re.compile(r"\b(anonymous|anonymised|guaranteed|zero risk|encrypted|100 ?% private|completely private)\b", re.I)


@pytest.mark.parametrize("name", ["train", "runs", "compare", "questions"])
@pytest.mark.parametrize("is_full", [False, True])
def test_trouble_of_the_store_is_told(open_page: Open, home: Path, monkeypatch: Patch, name: str, is_full: bool) -> None:
    if is_full:
        full = raising(StoreTrouble("The disk is full: free some space."))
        monkeypatch.setattr("dpcl_core.runs.store.Store.reading", full)
    else:  # it cannot be opened
        (home / "file").write_text("not a folder")
        monkeypatch.setenv("DPCL_HOME", str(home / "file"))
    (error,) = open_page(name).error
    assert "\n" not in error.value
    told = "The disk is full: free some space. Runs under way go on and lose nothing."
    assert (error.value.replace("\\", "") == told) is is_full


@pytest.mark.parametrize(("name", "query", "notice"), [
    ("explore", {"view": "clients", "m": "banana"}, "The link asks for anchors m = banana: must be a whole number from"),
    ("explore", {"view": "clients", "sh": "magic"}, "The link asks for lists = magic: must be one of play, "),
    ("explore", {"view": "clients", "d": "33"}, None),  # between two lengths: the nearer one
    ("explore", {"view": "clients", "run": "nosuchrun"}, "run = nosuchrun: "),
    ("explore", {"view": "words", "l": "magic"}, "The link asks for layer = magic: must be one of score1, score, "),
    ("explore", {"view": "words", "a": "2"}, "The link asks for α = 2: must be a number from 0 to 1; that is left out."),
    ("explore", {"view": "words", "run": "nobody"}, "run = nobody: "),
    ("explore", {"view": "words", "n": "900"}, None),
    ("train", {"e": "banana"}, "The link asks for ε = banana: must be at most "),
    ("train", {"d": "nonsense"}, "The link asks for dataset = nonsense; using digits instead."),
    ("train", {"run": "nonsense"}, "run = nonsense"),
    ("train", {"run": "0123456789ab"}, "run = "),
    ("train", {"zzz": "1"}, "The link also has zzz"),
    ("train", {"preset": "nonsense"}, "The link asks for question = nonsense: must be one of "),
    ("train", {"question": "photos-cosine", "e": "banana"}, "The link asks for ε = banana: must be at most "),
    ("lessons", {"l": "magic"}, "lesson = magic; lessons are 1 to 18, and this is the first."),
    ("lessons", {"l": "shared", "s": "8"}, "step 8; this lesson has 6. Showing the last one."),
    ("lessons", {"l": "shared", "d3": "9"}, "steps done = 9: must be at most 6 values between commas, each a"),
    ("lessons", {"l": "shared", "e3": "x"}, "Privacy budget ε = x: must be a number from 0.1 to 16; using 2 instead."),
    ("lessons", {"l": "shared", "p3": "4"}, None),  # a fourth choice where there are three: no prediction
])  # fmt: skip
def test_broken_links_are_answered(open_page: Open, name: str, query: dict[str, str], notice: str | None) -> None:
    notices = [warning.value.replace("\\", "") for warning in open_page(name, v="1", **query).warning]

    assert len(notices) == (notice is not None)
    assert all((notice or "") in said for said in notices)


def test_no_text_promises_too_much_and_no_icon_asks_a_font_host() -> None:
    pages = [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]
    for path in [*pages, *(one for room in ("figures", "lessons") for one in (ROOT / "dpcl_core" / room).rglob("*.py"))]:
        text = path.read_text(encoding="utf-8")
        assert not _FORBIDDEN.findall(text), path
        assert ":material/" not in text or path not in pages, path


def test_about_names_every_method_and_its_source_the_version_the_computer_and_how_to_cite(open_page: Open) -> None:
    page = open_page("about")
    for card in methods.CARDS.values():
        includes(words(page), card.title, card.source)
    assert "Trained on: a billion public pairs of sentences; none of the datasets here is known to be among" in words(page)
    page.segmented_control(key="about-views").set_value("Limits, version, citation").run()
    assert f"dpcl {__version__}" in words(page)
    ready = r"This computer trains on its (?:processor|graphics card)\. Datasets ready to use: .*Handwritten digits.*\."
    assert re.search(ready, words(page))
    shown = "\n".join(block.value for block in page.code)
    assert all(f"@{kind}{{{key}," in shown for kind, key in CITED)


def test_citations_are_those_of_the_citation_file() -> None:
    """`python -m scripts.citations` writes them."""
    assert citations.BIBTEX.read_text(encoding="utf-8") == citations.bibtex()
    assert f"Version {__version__}" in citations.bibtex()


# Start without a browser: the picture comes first, doors lead on.


def test_the_picture_comes_first_and_doors_lead_on(open_page: Open) -> None:
    page = open_page("start")
    kinds = [element.type for element in page.main]
    assert not page.get("plotly_chart")
    assert "page_link" not in kinds[: kinds.index("bidi_component")]
    links = [one.proto for one in page.get("page_link")]
    leads = {re.sub(r":primary\[\*\*(.*)\*\*.*", r"\1", one.label): one.page for one in links}
    assert leads == {"Learn": "lessons", "Ask": "questions", "Use my data": "data"}
    assert list(leads) == list(element.DOORS)


def test_the_door_to_questions_says_how_many_have_an_answer() -> None:
    assert sum(one.state != "not run" for one in answers.recorded().values()) == element.N_ANSWERED


# Sharp edges: every demonstration can be pressed, shows its table, and keeps it while others are pressed.


def test_every_pitfall_stands_there_and_can_be_shown(open_page: Open) -> None:
    page = open_page("lessons", view="edges")
    assert page.segmented_control[0].value == "edges"
    assert [fold.label for fold in page.expander] == [f"{n}. {edge.title}" for n, edge in enumerate(text.edges(), 1)]
    assert len([button for button in page.button if button.label == "Show it"]) == len(text.edges())
    for edge in text.edges():
        page.button(f"show-{edge.key}").click().run()
    said = words(page)
    for part in ("A person in all ten tasks has spent ε = 3.62, not 1.", "reveals that she was there", "moves everybody's",
                 "subtract the noise and read it", "moves 300 others"):  # fmt: skip
        assert part in said


# Parts of a page that stand still: they are drawn once, and shown again to everybody whose arguments are alike.


DRAWN: list[str] = []
STILL = re.compile(r"@(?:figure_card\.)?still\n")


@figure_card.still
def part(words: str, _rest: object) -> None:
    DRAWN.append(words)
    with st.container(key=f"part-{words}"):
        st.markdown(f"**{words}**")
        st.caption(str(_rest))


@pytest.mark.usefixtures("home")
def test_a_part_is_drawn_once_for_everybody_and_anew_for_other_arguments() -> None:
    def script(words: str, rest: str) -> None:
        from tests.pages.test_frame import part  # the script runs by itself

        part(words, rest)

    DRAWN.clear()
    for said, rest, shown in (("one", "a", "a"), ("one", "b", "a"), ("two", "b", "b"), ("one", "c", "a")):
        page = AppTest.from_function(script, kwargs={"words": said, "rest": rest}).run()
        assert [page.markdown[0].value, page.caption[0].value] == [f"**{said}**", shown]
    assert DRAWN == ["one", "two"]


def test_no_part_that_stands_still_asks_or_looks_at_a_visitor() -> None:
    """What a visitor sees must follow from arguments: a session, a theme or a widget would be another visitor's."""
    forbidden = ("session_state", "is_dark", "visitor", "ownership", "state.", "st.context", "st.query_params", "presenter")
    widgets = ("st.button", "download_button", "selectbox", "segmented_control", "text_input", "on_change", "figure_card")
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "pages" / "parts").glob("*.py")}
    parts = [(path, body.split("\n\n\n")[0]) for path, text in texts.items() for body in STILL.split(text)[1:]]
    assert len(parts) >= 4
    for path, function in parts:
        assert not [word for word in (*forbidden, *widgets) if word in function], f"{path}: {function[:80]}"


# Pictures are built once for all visitors.


def test_equal_tables_give_the_picture_that_was_built_and_others_a_new_one(monkeypatch: Patch) -> None:
    built: list[float] = []

    def build(table: pd.DataFrame, *, dark: bool = False) -> Picture:
        built.append(float(table["value"].sum()))
        return theme.nothing("", dark, 100)

    first = figure_card.built(build, pd.DataFrame({"value": [1.0, 2.0]}))
    assert figure_card.built(build, pd.DataFrame({"value": [1.0, 2.0]})) is first
    assert figure_card.built(build, pd.DataFrame({"value": [1.0, 3.0]})) is not first
    monkeypatch.setattr("pages.parts.text.is_dark", lambda: True)
    assert figure_card.built(build, pd.DataFrame({"value": [1.0, 2.0]})) is not first
    assert built == [3.0, 4.0, 3.0]


# Words of the glossary in texts: explained once, where they first occur, and never inside code, links or formulas.


SPAN = re.compile(r'<span class="term" role="term" tabindex="0" aria-description="([^"]*)">([^<]*)</span>')


def test_a_word_is_explained_where_it_first_occurs() -> None:
    seen: set[text.Word] = set()
    first = layout.marked("A coreset and a coreset.", seen)
    assert SPAN.sub(r"[\2]", first) == "A [coreset] and a coreset."
    meaning = next(word.meaning for word in text.words() if word.word == "coreset")
    assert SPAN.findall(first)[0][0] == f"coreset: {meaning}"
    assert layout.marked("A coreset again, and replay.", seen).count('class="term"') == 1
    forms = SPAN.findall(layout.marked("The privacy budget ε is a budget.", set()))
    assert [word for _, word in forms] == ["privacy budget"], "other forms count as the word"


@pytest.mark.parametrize("text", ["ε", "**LoRA** or FiLM: *replay*", "labels of the label space", "a client's seed"])
@pytest.mark.parametrize("kept", ["`coreset`", "$coreset$", "[a coreset](page)", '<b title="coreset">', "Coresets"])
def test_nothing_but_tags_is_added_and_none_to_code_links_formulas_and_tags(text: str, kept: str) -> None:
    assert layout.marked(kept, set()) == kept
    assert SPAN.sub(r"\2", layout.marked(f"{text}, {kept} {text}", set())) == f"{text}, {kept} {text}"


def test_a_page_explains_a_word_once_in_every_run(open_page: Open) -> None:
    page = open_page("lessons", view="edges")
    for _ in range(2):
        found = [meaning for meaning, _ in SPAN.findall("\n".join(block.value for block in page.markdown))]
        assert found
        assert len(found) == len(set(found))
        page = page.run()


# A name is never markup.


@pytest.mark.parametrize("text", ["![x](http://e.org/x.png)", "[a](b)", "$x^2$", "<img src=x>", ":red[a]", "# a", "`a`"])
def test_markup_is_escaped(text: str) -> None:
    escaped = plain(text)
    assert escaped.replace("\\", "") == text
    for sign in "[](<$`:#!":
        assert f"\\{sign}" in escaped or sign not in text
    assert plain(f"a\n{text}") == f"a {escaped}", "on one line"


# Pages of several views: the address names the open one, each keeps its own settings, and no other is drawn.


PAGES = {"explore": explore.VIEWS, "runs": runs.VIEWS, "teach": teach.VIEWS, "lessons": lessons.VIEWS}
VIEWS = [(page, view) for page, views in PAGES.items() for view in views]


def turn(page: AppTest, view: str) -> AppTest:
    return page.segmented_control[0].set_value(view).run()


@pytest.mark.parametrize(("name", "view"), VIEWS)
def test_the_address_opens_a_view_and_names_it(open_page: Open, name: str, view: str) -> None:
    page = open_page(name, view=view)
    assert (page.segmented_control[0].value, address(page)["view"]) == (view, view)
    assert not page.warning


@pytest.mark.parametrize("name", PAGES)
def test_without_a_view_the_first_opens_and_a_wrong_one_is_named(open_page: Open, name: str) -> None:
    first = next(iter(PAGES[name]))
    assert open_page(name).segmented_control[0].value == first
    page = open_page(name, view="none")
    assert page.segmented_control[0].value == first
    assert f"view = none: must be one of {', '.join(PAGES[name])}" in page.warning[0].value.replace("\\", "")


def test_each_view_keeps_its_settings_while_others_are_open(open_page: Open) -> None:
    page = open_page("explore", view="playground", plain="1", e="4")
    turn(page, "words")
    assert address(page) == {"view": "words", "v": "1"}, "settings of one view are none of another's"
    assert not page.warning
    turn(page, "playground")
    assert address(page) == {"view": "playground", "v": "1", "e": "4", "plain": "1"}
    assert page.select_slider[0].value == 4.0


def test_only_the_open_view_is_computed(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sensitive_words", "matching_clients"):
        monkeypatch.setitem(sys.modules, f"pages.parts.{name}", None)  # an import of it raises
    assert "What happens if I change this?" in words(open_page("explore", view="playground"))
