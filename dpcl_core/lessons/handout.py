"""A part of the course on paper: notes and a plan for the teacher, a sheet to fill in, and the answers apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from dpcl_core.errors import unknown
from dpcl_core.lessons import exercises, text
from dpcl_core.lessons.exercises import Exercise
from dpcl_core.lessons.text import Lesson

MINUTES = 45  # of a lesson at school
_TALK = 2  # minutes after each lesson for its questions
_RUN = 8  # minutes that a run in a room takes at least
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_STYLE = """@page{size:A4;margin:18mm}
body{font-family:Georgia,serif;font-size:11pt;line-height:1.4;max-width:46rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5em}h2{font-size:1.2em;margin:1.4em 0 .3em}h3{font-size:1em;margin:1em 0 .2em}
section+section{break-before:page}.step{break-inside:avoid}
ul{list-style:none;padding:0;margin:.3em 0}li::before{content:"\\2610  "}.line{border-bottom:1px solid #999;height:1.7em}
table{border-collapse:collapse}td{padding:.2em .8em .4em 0;text-align:left;vertical-align:top}"""


def plan(part: str) -> list[tuple[int, int, str]]:
    """Lessons of a part that fit into `MINUTES` with the talk after each: first minute, last minute, name.

    Lessons are taken in order while they fit; the others are left for home. Raises BadInput naming the parts.
    """
    rows, now = [], 0
    for name in _names(part):
        end = now + text.load(name).minutes + _TALK
        if end <= MINUTES:
            rows.append((now, end, name))
            now = end
    return rows


def run_from(part: str) -> int | None:
    """The minute from which a class has time for a run of its own; None where it has not."""
    end = plan(part)[-1][1]
    return end if MINUTES - end >= _RUN else None


def page(part: str) -> str:
    """The part as one HTML document to print, without scripts: notes and plan, sheet, answers.

    Exercises have the numbers of `exercises.PAPER`, the same on every sheet. Raises BadInput naming the parts.
    """
    lessons = [(text.number(name), text.load(name)) for name in _names(part)]
    title, place, asked = escape(part), list(text.PARTS).index(part) + 1, exercises.sheet(part)
    sheets = "".join(_sheet(number, lesson) for number, lesson in lessons) + _exercises(place, asked)
    answers = "".join(_answers(number, lesson) for number, lesson in lessons) + _solved(place, asked)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style><body>'
        f"<section><h1>{title}: for the teacher</h1>{_notes(part)}{_plan(part)}</section>"
        f"<section><h1>{title}</h1>{sheets}</section>"
        f'<section class="answers"><h1>{title}: answers</h1>{answers}</section></body></html>'
    )


def _names(part: str) -> tuple[str, ...]:
    if part not in text.PARTS:
        raise unknown("part", part, text.PARTS)
    return text.PARTS[part]


def _notes(part: str) -> str:
    notes = text.notes(part)
    beliefs = "".join(f"<p><i>“{_words(one.belief)}”</i> {_words(one.reply)}</p>" for one in notes.misconceptions)
    return (
        f"<h3>What to look for</h3><p>{_words(notes.look_for)}</p><h3>What students often believe</h3>{beliefs}"
        f"<h3>A question to ask</h3><p>{_words(notes.ask)}</p>"
        f"<h3>When a prediction is wrong</h3><p>{_words(notes.when_wrong)}</p>"
    )


def _plan(part: str) -> str:
    rows, planned = "", plan(part)
    for start, end, name in planned:
        lesson = text.load(name)
        steps = f"Guess, do, see, explain: {len(lesson.steps)} steps. Then its two questions, in pairs."
        what = f"<b>{_words(lesson.title)}</b><br>{_words(lesson.question)}<br>{steps}"
        rows += f"<tr><td>{start} to {end} min</td><td>{what}</td></tr>"
    if (spare := run_from(part)) is not None:
        what = "<b>A run of your own</b><br>In the app's classroom, everybody starts a run. Look at the plot."
        rows += f"<tr><td>{spare} to {MINUTES} min</td><td>{what}</td></tr>"
    left = [text.load(name).title for name in _names(part) if name not in {one for _, _, one in planned}]
    rest = "".join(f"<li>{_words(title)}</li>" for title in left)
    rest = f"<p>At home, or in a second hour:</p><ul>{rest}</ul>" if left else ""
    return f"<h2>A plan for {MINUTES} minutes</h2><table>{rows}</table>{rest}"


def _sheet(number: int, lesson: Lesson) -> str:
    steps = ""
    for place, step in enumerate(lesson.steps, start=1):
        boxes = "".join(f"<li>{_words(choice)}</li>" for choice in step.choices)
        steps += (
            f'<div class="step"><h3>{number}.{place} {_words(step.title)}</h3><p>{_words(step.predict)}</p><ul>{boxes}</ul>'
            f"<p>{_words(step.do)} What did you see?</p>{_LINE}</div>"
        )
    think = "".join(f'<div class="step"><p>{_words(one.question)}</p>{_LINE}{_LINE}</div>' for one in lesson.think)
    return f"<h2>{number}. {_words(lesson.title)}</h2><p>{_words(lesson.intro)}</p>{steps}<h3>Think</h3>{think}"


def _answers(number: int, lesson: Lesson) -> str:
    steps = "".join(
        f"<p><b>{number}.{place} {_words(step.title)}</b><br>{_words(step.see)} {_words(step.explain)}</p>"
        for place, step in enumerate(lesson.steps, start=1)
    )
    think = "".join(f"<p><i>{_words(one.question)}</i> {_words(one.answer)}</p>" for one in lesson.think)
    return f"<h2>{number}. {_words(lesson.title)}</h2>{steps}{think}"


def _exercises(place: int, asked: Sequence[Exercise]) -> str:
    rows = "".join(
        f'<div class="step"><p><b>{place}{one.letter}</b> {_words(one.ask)} ({_words(one.wanted)})</p>{_LINE}</div>'
        for one in asked
    )
    return f"<h2>Exercises</h2>{rows}"


def _solved(place: int, asked: Sequence[Exercise]) -> str:
    rows = "".join(f"<p><b>{place}{one.letter} {_words(one.shown)}.</b> {_words(one.how)}</p>" for one in asked)
    return f"<h2>Exercises</h2>{rows}"


_LINE = '<div class="line"></div>'


def _words(markdown: str) -> str:
    return _BOLD.sub(r"<b>\1</b>", escape(markdown))
