"""The words of the lessons: complete, short, and free of words that promise too much."""

from __future__ import annotations

import ast
import re

import pytest

from dpcl_core import paths
from dpcl_core.errors import BadInput
from dpcl_core.lessons import text

FORBIDDEN = re.compile(
    r"anonym|\bsafe(ly)?\b|\bsecure|guaranteed|zero risk|encrypt|ε of \d|\bprivate\b(?! data)|\bperfect", re.IGNORECASE
)


def words(name: str) -> list[str]:
    lesson = text.load(name)
    said = [lesson.title, lesson.question, lesson.intro]
    for step in lesson.steps:
        said += [step.title, step.predict, *step.choices, step.do, step.see, step.explain]
        said += [] if step.chart is None else [step.chart.title, step.chart.source]
    said += [part for one in lesson.exercises for part in (one.ask, one.how)]
    return [*said, *(part for one in lesson.think for part in (one.question, one.answer))]


@pytest.mark.parametrize("name", text.NAMES)
def test_no_word_promises_too_much(name: str) -> None:
    assert [said for said in words(name) if FORBIDDEN.search(said)] == []


def test_no_word_in_the_code_of_the_lessons_does() -> None:
    root = paths.assets_dir().parent
    figures = [root / "dpcl_core" / "figures" / f"{name}.py" for name in ("stream", "matching")]
    others = [root / "pages" / "lessons.py", root / "dpcl_core" / "lessons" / "in_browser.py"]
    pages = [*(root / "pages" / "parts").glob("lesson_*.py")]
    assert len(pages) > 3
    for path in [*others, *pages, *figures]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not FORBIDDEN.search(node.value), f"{path.name}: {node.value}"


@pytest.mark.parametrize("said", ["your data is private", "Anonymous sums", "it is safe", "an ε of 3 %", "guaranteed"])
def test_the_scan_finds_what_is_forbidden(said: str) -> None:
    assert FORBIDDEN.search(said)
    assert not FORBIDDEN.search("Never do that with private data.")


@pytest.mark.parametrize("name", text.NAMES)
def test_raw_answers_come_with_their_warning(name: str) -> None:
    said = " ".join(text.load(name).intro.split())
    assert "public" in said
    assert "Never do that with private data" in said


@pytest.mark.parametrize("name", text.NAMES)
def test_steps_are_few_and_sentences_short(name: str) -> None:
    lesson = text.load(name)
    assert 4 <= len(lesson.steps) <= 8
    assert len({step.key for step in lesson.steps}) == len(lesson.steps)
    for said in words(name):
        for sentence in re.split(r"(?<=[.?!:])\s+", said):
            assert len(sentence.split()) <= 32, sentence


@pytest.mark.parametrize("part", text.PARTS)
def test_the_teachers_notes_are_short_and_promise_nothing(part: str) -> None:
    notes = text.notes(part)
    said = [notes.look_for, notes.ask, notes.when_wrong]
    said += [part for one in notes.misconceptions for part in (one.belief, one.reply)]
    for words_of in said:
        assert not FORBIDDEN.search(words_of)
        for sentence in re.split(r"(?<=[.?!:])\s+", words_of):
            assert len(sentence.split()) <= 32, sentence
    assert sum(len(words_of.split()) for words_of in said) <= 250


def test_every_text_is_a_lesson() -> None:
    assert {path.stem for path in (paths.assets_dir() / "lessons").glob("*.toml")} == set(text.NAMES)


def test_a_lesson_keeps_its_number_in_links_wherever_it_is_taught() -> None:
    """Saved links of the first seven: another number would open them on other ticks."""
    assert [text.link_number(name) for name in ("label", "noise", "shared", "surprise", "sign", "modes", "digits")] == [
        1, 2, 3, 4, 5, 6, 7
    ]  # fmt: skip
    assert sorted(text.link_number(name) for name in text.NAMES) == list(range(1, len(text.NAMES) + 1))
    assert [text.number(name) for name in text.NAMES] == list(range(1, len(text.NAMES) + 1))


def test_an_unknown_lesson_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match=f"lesson = magic: must be one of {', '.join(text.NAMES)}"):
        text.load("magic")
