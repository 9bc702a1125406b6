"""The course on paper: predictions on one sheet, explanations on another, and a plan that fits its time."""

from __future__ import annotations

import re
from html import unescape

import pytest

from dpcl_core.errors import BadInput
from dpcl_core.lessons import exercises, in_browser, text


def _plain(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page))


@pytest.mark.parametrize("part", text.PARTS)
def test_answers_stand_on_a_sheet_of_their_own(part: str) -> None:
    page = in_browser.page(part)
    notes, sheet, answers = (_plain(section) for section in page.split("<section")[1:])
    assert " ".join(text.notes(part).when_wrong.split()) in " ".join(notes.split())
    place = list(text.PARTS).index(part) + 1
    for one in exercises.sheet(part):
        assert one.ask in sheet
        assert f"{place}{one.letter} {one.shown}." in answers
        assert one.how in answers
        assert one.how not in sheet
    for name in text.PARTS[part]:
        lesson = text.load(name)
        for step in lesson.steps:
            asked, explained = (words.replace("**", "") for words in (step.predict, step.explain))
            assert asked in sheet
            assert explained in answers
            assert explained not in sheet
        for one in lesson.think:
            assert one.answer.replace("**", "") in answers
            assert one.answer.replace("**", "") not in sheet
    assert "<script" not in page
    assert "http" not in page


@pytest.mark.parametrize("part", text.PARTS)
def test_the_plan_fits_its_time_in_the_order_of_the_course(part: str) -> None:
    rows = in_browser.plan(part)
    assert rows
    assert [start for start, _, _ in rows[1:]] == [end for _, end, _ in rows[:-1]]
    assert rows[0][0] == 0
    assert rows[-1][1] <= in_browser.MINUTES
    for start, end, name in rows:
        assert end - start > text.load(name).minutes
    assert [name for _, _, name in rows] == [one for one in text.PARTS[part] if one in {name for _, _, name in rows}]


def test_an_unknown_part_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="must be one of One release"):
        in_browser.page("Magic")
