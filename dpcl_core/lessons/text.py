"""The texts of lessons (steps of predict, do, see, explain), teacher's notes, and pitfalls, read from `assets/`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Annotated

from pydantic import Field

from dpcl_core import paths
from dpcl_core.documents import Document

PUBLIC = "Public data. With private data, one number without noise ends every promise."  # said above every lesson
# The course: its parts and their lessons, in the order in which they are taught; a lesson's number is its place in `NAMES`.
PARTS: Mapping[str, tuple[str, ...]] = {
    "One release": ("coin", "unit"),
    "Many releases": ("adding", "forgetting"),
    "Continual and private": ("label", "noise", "shared", "surprise", "sign", "modes", "rare"),
    "Reading claims": ("contract", "audit", "digits", "choice"),
    "Networks": ("network", "members", "gradient"),
}
NAMES = tuple(name for names in PARTS.values() for name in names)
# In the order in which they were written: a lesson's place here is its number in links, which stays what it was.
_WRITTEN = (
    "label", "noise", "shared", "surprise", "sign", "modes", "digits", "coin", "unit", "adding", "forgetting", "rare",
    "audit", "contract", "network", "members", "gradient", "choice",
)  # fmt: skip
IN_BROWSER = ("label", "noise")  # what the browser computes (in_browser.py)
MAX_STEPS = 8

_Words = Annotated[str, Field(min_length=1)]


class Scale(Document):
    """An axis of a step's chart. `is_share`: values in [0, 1] are shown in percent, from 0 to 100 unless `is_log`.

    `ticks`: on a logarithmic axis these places; true: wherever points are; else the powers of ten.
    """

    title: _Words
    is_log: bool = False
    is_share: bool = False
    ticks: bool | tuple[float, ...] = False


class Chart(Document):
    """The chart of a step: curves, bars where it has no `y`, or rows of pictures. `source`: what its numbers come from.

    Title and source are empty where the step's code computes them. `finding`: a template for the values of the lesson's
    controls, by name, and for what the step's code computes; formats beside Python's are "pc" and "pc0" (percent), "eps",
    "least" and "budget" (as `privacy.statement` writes them).
    """

    title: str = ""
    source: str = ""
    finding: _Words
    x: Scale = Scale(title="picture")
    y: Scale | None = None


class Step(Document):
    """One step: the question `predict` with its `choices`, the instruction `do`, then the explanation.

    `key` names the function that carries the step out.
    """

    key: _Words
    title: _Words
    chart: Chart | None = None
    predict: _Words
    choices: tuple[_Words, ...] = Field(min_length=2, max_length=4)
    do: _Words
    see: _Words
    explain: _Words


class Question(Document):
    """A question to think about after the lesson, and its answer."""

    question: _Words
    answer: _Words


class Exercise(Document):
    """A question with a number for an answer; `how` it is worked out.

    Both have places {like_this} for numbers, which the function of `key` in `lessons/exercises.py` draws. `digits`: decimals
    that are asked for; `is_exact`: nothing is rounded on the way.
    """

    key: _Words
    ask: _Words
    how: _Words
    unit: str = ""
    digits: int = Field(ge=0, le=3)
    is_exact: bool = False


class Control(Document):
    """A number that a lesson's steps share and its links contain, from `least` to `most`, both allowed.

    `name` identifies it in the code of the steps, `key` in links.
    """

    name: _Words
    key: Annotated[str, Field(pattern="^[a-z]$")]
    title: _Words
    least: float
    most: float
    default: float


class Lesson(Document):
    """The texts of a lesson. `intro`: what it works with; `minutes`: its approximate length; `think`: questions after it;
    `exercises`: numbers to work out.

    A step's code is the function of its key's name, in the module that `pages/parts/lesson_stage.py` names; of those
    `IN_BROWSER`, in `assets/lesson/`.
    """

    title: _Words
    question: _Words
    intro: _Words
    minutes: int = Field(gt=0)
    controls: tuple[Control, ...]
    steps: tuple[Step, ...] = Field(min_length=4, max_length=MAX_STEPS)
    think: tuple[Question, Question]
    exercises: tuple[Exercise, ...] = Field(min_length=1, max_length=3)


@dataclass
class Progress:
    """Where a visitor is in a lesson: step from 0, steps done, place of the choice predicted by step, controls by name.

    `moves`: how often a page, not the lesson in the browser, went to another step.
    """

    step: int = 0
    done: set[int] = field(default_factory=set)
    predictions: dict[int, int] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    moves: int = 0

    def take(self, reported: object, lesson: Lesson) -> None:
        """Takes over what the browser reports; changes nothing where it cannot have reported that."""
        choices = {str(place): len(step.choices) for place, step in enumerate(lesson.steps)}
        controls = {control.name: control for control in lesson.controls}
        match reported:
            case {"step": step, "done": [*done], "predictions": Mapping() as predictions, "values": Mapping() as values}:
                is_known = step in range(len(choices)) and all(one in range(len(choices)) for one in done)
                is_known &= all(choice in range(choices.get(str(place), 0)) for place, choice in predictions.items())
                is_known &= set(values) == set(controls) and all(
                    isinstance(value, int | float) and controls[control].least <= value <= controls[control].most
                    for control, value in values.items()
                )
                if is_known:
                    self.step = step
                    self.done.update(map(int, done))
                    self.predictions.update({int(place): int(choice) for place, choice in predictions.items()})
                    self.values.update({name: float(value) for name, value in values.items()})


@lru_cache(maxsize=len(NAMES))
def load(name: str) -> Lesson:
    """The texts of a lesson."""
    return Lesson.model_validate(paths.asset_table(f"lessons/{name}.toml"))


def number(name: str) -> int:
    """A lesson's number in the course, from 1."""
    return NAMES.index(name) + 1


def link_number(name: str) -> int:
    """Its number in links, from 1."""
    return _WRITTEN.index(name) + 1


def part_of_lesson(name: str) -> str:
    """The part of the course that a lesson belongs to."""
    return next(title for title, names in PARTS.items() if name in names)


class Misconception(Document):
    """What students often believe, and what to say or do then."""

    belief: _Words
    reply: _Words


class Notes(Document):
    """A teacher's notes on a part: what to `look_for`, a question to `ask`, and what to say when a prediction is wrong."""

    part: _Words
    look_for: _Words
    misconceptions: tuple[Misconception, ...] = Field(min_length=2, max_length=4)
    ask: _Words
    when_wrong: _Words


@lru_cache(maxsize=1)
def notes() -> dict[str, Notes]:
    """The notes on each part."""
    return {one.part: one for one in map(Notes.model_validate, paths.asset_table("notes.toml")["parts"])}


class Block(Document):
    """A stretch of the plan for one class: so many minutes on these steps of a lesson, by number, and what to `ask`."""

    minutes: int = Field(gt=0)
    lesson: str
    steps: tuple[int, ...] = Field(min_length=1)
    ask: _Words


@lru_cache(maxsize=1)
def one_class() -> tuple[Block, ...]:
    """The plan for a teacher who has one class only, in order."""
    return tuple(map(Block.model_validate, paths.asset_table("notes.toml")["one_class"]))


class Edge(Document):
    """The texts of a pitfall: what goes `wrong`, how it is `prevented` here, and `where` in the code.

    `key` names the function of `lessons/edges.py` that computes what a table under `head` and a `finding` say: the wrong way
    in the first of its `rows`, the right one in the last. `lesson`: one that teaches it at length.
    """

    key: _Words
    title: _Words
    wrong: _Words
    prevented: _Words
    head: tuple[_Words, ...]
    rows: tuple[tuple[_Words, ...], ...]
    finding: _Words
    where: _Words
    lesson: str | None = None


@lru_cache(maxsize=1)
def edges() -> tuple[Edge, ...]:
    """All pitfalls, in the order in which they are shown."""
    return tuple(map(Edge.model_validate, paths.asset_table("edges.toml")["edges"]))


# The field's words as this project uses them, read from `assets/glossary.toml`.


class Word(Document):
    """One word and its meaning in one or two sentences. `also`: other forms that it has in texts."""

    word: _Words
    meaning: _Words
    also: tuple[_Words, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        """The word and all its other forms."""
        return (self.word, *self.also)


@lru_cache(maxsize=1)
def words() -> tuple[Word, ...]:
    """The glossary in its own order."""
    return tuple(map(Word.model_validate, paths.asset_table("glossary.toml")["words"]))


@lru_cache(maxsize=512)
def explained(text: str) -> str:
    """The glossary's words that occur in a short text, with their meanings, as Markdown; empty where there is none."""
    occurring = [word for word in words() if _pattern(word).search(text)]
    return "\n\n".join(f"**{word.word}**: {word.meaning}" for word in occurring)


def first_uses(text: str, seen: set[Word]) -> Iterator[tuple[int, int, Word]]:
    """Start, end and word where a word that is not in `seen` first occurs in a text, in the text's order; grows `seen`."""
    found = [(match.span(), word) for word in words() if word not in seen and (match := _pattern(word).search(text))]
    done = 0
    for (start, end), word in sorted(found, key=lambda use: (use[0][0], -use[0][1])):
        if start >= done:  # a word within a longer one waits for its next use
            seen.add(word)
            done = end
            yield start, end, word


@cache
def _pattern(word: Word) -> re.Pattern[str]:
    """A pattern for whole words; abbreviations in capitals, such as AA, match only in capitals."""
    forms = (re.escape(form) if form.isupper() else f"(?i:{re.escape(form)})" for form in word.forms)
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)")
