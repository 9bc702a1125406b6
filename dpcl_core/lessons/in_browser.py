"""Lessons as an element drawn in the browser: their words, and the public numbers that their steps compute with.

The browser adds fresh noise itself. Its arithmetic, `assets/lesson/games.mjs`, is that of label.py, noise.py and duel.py.
"""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.lessons import exercises, text
from dpcl_core.lessons import label as label_game
from dpcl_core.lessons import noise as noise_game
from dpcl_core.lessons.text import Lesson
from dpcl_core.privacy import statement
from dpcl_core.privacy.numerics import student_quantile
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.spec import LABELS

# A part of the course on paper: notes and a plan for the teacher, a sheet to fill in, and the answers apart.


MINUTES = 45  # of a lesson at school
_TALK = 2  # minutes after each lesson for its questions
_RUN = 8  # minutes that a run in a room takes at least
_BOLD = re.compile(r"\*\*(.+?)\*\*")


def plan(part: str) -> list[tuple[int, int, str]]:
    """Lessons of a part that fit into `MINUTES` with the talk after each: first minute, last minute, name.

    Lessons are taken in order while they fit; the others are left for home.
    """
    rows, now = [], 0
    for name in text.PARTS[part]:
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

    Exercises have the numbers of `exercises.PAPER`, the same on every sheet.
    """
    lessons = [(text.number(name), text.load(name)) for name in text.PARTS[part]]
    title, place, asked = escape(part), list(text.PARTS).index(part) + 1, exercises.sheet(part)
    style = (paths.assets_dir() / "lessons" / "handout.css").read_text(encoding="utf-8").strip()
    rows = "".join(
        f'<div class="step"><p><b>{place}{one.letter}</b> {_words(one.ask)} ({_words(one.wanted)})</p>{_LINE}</div>'
        for one in asked
    )
    sheets = "".join(_sheet(number, lesson) for number, lesson in lessons) + f"<h2>Exercises</h2>{rows}"
    solved = "".join(f"<p><b>{place}{one.letter} {_words(one.shown)}.</b> {_words(one.how)}</p>" for one in asked)
    answers = "".join(_answers(number, lesson) for number, lesson in lessons) + f"<h2>Exercises</h2>{solved}"
    notes = text.notes()[part]
    beliefs = "".join(f"<p><i>“{_words(one.belief)}”</i> {_words(one.reply)}</p>" for one in notes.misconceptions)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style><body>'
        f"<section><h1>{title}: for the teacher</h1>"
        f"<h3>What to look for</h3><p>{_words(notes.look_for)}</p><h3>What students often believe</h3>{beliefs}"
        f"<h3>A question to ask</h3><p>{_words(notes.ask)}</p>"
        f"<h3>When a prediction is wrong</h3><p>{_words(notes.when_wrong)}</p>{_plan(part)}</section>"
        f"<section><h1>{title}</h1><p>{text.PUBLIC}</p>{sheets}</section>"
        f'<section class="answers"><h1>{title}: answers</h1>{answers}</section></body></html>'
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
    left = [text.load(name).title for name in text.PARTS[part] if name not in {one for _, _, one in planned}]
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


_LINE = '<div class="line"></div>'


def _words(markdown: str) -> str:
    return _BOLD.sub(r"<b>\1</b>", escape(markdown))


EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
LISTS: Final[Mapping[label_game.Listing, str]] = {"data": "list read from the data", "prior-const": "public list"}
_PIXEL_LEVELS = 17  # a pixel feature is a grey level of 0 to 16 over this
_WORDS = paths.asset_table("lesson/words.toml")
# What is said elsewhere, too: of both lessons, and of each.
_ELSEWHERE: Final[Mapping[str, Mapping[str, object]]] = {
    "shared": {
        "no_bound": statement.NOT_DP.format(reason=statement.LIST_FROM_DATA), "odds": statement.ODDS,
        "no_odds": statement.NO_ODDS,
    },
    "label": {"lists": LISTS},
    "noise": {
        "names": {
            "clean": "without noise (public teaching data only)", "one": LABELS["prior-const"], "own": LABELS["prior"],
            "data": LABELS["data"],
        },
    },
}  # fmt: skip


def document(
    name: str, start: text.Progress | None = None, *, epoch: str = "", hidden: Sequence[str] = (), is_quiet: bool = False,
    first: int = 0, is_alone: bool = True,
) -> dict[str, object]:  # fmt: skip
    """The data of the element, which goes to `start` when it is first drawn, and for a new `epoch`.

    `hidden`: controls that keep their value; `is_quiet`: asks for no prediction; `first`: the step before which none is
    needed; `is_alone`: on a page of its own, which lists the steps above and keeps the progress in the browser.
    """
    progress = start or text.Progress()
    values = {control.name: control.default for control in text.load(name).controls} | progress.values
    begin = {"step": progress.step, "done": sorted(progress.done), "predictions": progress.predictions, "values": values}
    words = {key: words for part in ("shared", name) for key, words in (_WORDS[part] | _ELSEWHERE[part]).items()}
    if not is_alone:  # as every lesson of the course says it
        words["where"] = f"Lesson {text.number(name)}, {words['where']}"
    return {
        "name": name, "epoch": epoch, "lesson": _lesson(name), "start": begin,
        "hidden": list(hidden), "is_quiet": is_quiet, "first": first, "is_alone": is_alone, "delta": label_game.DELTA,
        "words": words, "game": _label() if name == "label" else _noise(),
    }  # fmt: skip


@cache
def _lesson(name: str) -> dict[str, object]:
    """The texts; those of more than a line as parts, each a plain text or a word of the glossary with its meaning."""
    lesson, seen = text.load(name), set[text.Word]()
    intro = _parts(lesson.intro, seen)
    steps = [
        step.model_dump(include={"key", "title", "choices"})
        | {part: _parts(getattr(step, part), seen) for part in ("predict", "do", "see", "explain")}
        for step in lesson.steps
    ]
    think = [{"question": " ".join(one.question.split()), "answer": _parts(one.answer, seen)} for one in lesson.think]
    controls = [control.model_dump(include={"name", "title"}) for control in lesson.controls]
    shown = {"intro": intro, "steps": steps, "controls": controls, "think": think}
    return lesson.model_dump(include={"title", "question"}) | shown


def _parts(words: str, seen: set[text.Word]) -> list[str | list[str]]:
    parts: list[str | list[str]] = []
    done = 0
    for start, end, word in text.first_uses(words, seen):
        parts += [words[done:start], [words[start:end], f"{word.word}: {word.meaning}"]]
        done = end
    return [*parts, words[done:]]


@cache
def _label() -> dict[str, object]:
    pair = label_game.neighbours()
    n_classes = len(pair.classes)
    rows = unit_rows(pair.known)
    sums = np.stack([rows[pair.labels == label].sum(axis=0) for label in range(n_classes)])
    unit = "one training example"
    promises = {f"{epsilon:g}": statement.headline(unit, epsilon, label_game.DELTA, {}) for epsilon in EPSILONS}
    return {
        "classes": list(pair.classes), "label": pair.label, "size": sums.shape[1],
        "counts": np.bincount(pair.labels, minlength=n_classes).tolist(), "sums": _encoded(sums, np.float32),
        "person": _encoded(unit_rows(pair.person), np.float32), "epsilons": list(EPSILONS), "promises": promises,
        "doors": {listing: label_game.doors(pair, listing, EPSILONS[0]) for listing in LISTS},
    }  # fmt: skip


@cache
def _noise() -> dict[str, object]:
    stream, sums = noise_game.stream(n_tasks=1), noise_game.digit_sums()
    test = stream.tasks[0].test
    n_runs = len(noise_game.SEEDS)
    return {
        "classes": list(stream.classes), "watched": noise_game.stream().tasks[0].prior[0], "size": sums.shape[1],
        "sums": _encoded(sums, np.float32), "tests": _encoded(np.rint(np.asarray(test.inputs) * _PIXEL_LEVELS), np.uint8),
        "test_labels": _encoded(test.labels, np.uint8), "epsilons": list(EPSILONS), "n_tasks": noise_game.N_TASKS,
        "cuts": list(noise_game.CUTS), "returns": list(noise_game.RETURNS), "n_runs": n_runs,
        "interval_factor": student_quantile(n_runs - 1, 0.975) / math.sqrt(n_runs),  # as `figures.statistics` has it
    }  # fmt: skip


def _encoded(values: NDArray[np.generic], kind: type[np.generic]) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
