"""The answer to a question: one comparison fixed beforehand, judged in every form of the question, in the quantity asked.

What is compared and how the verdict is worded: `assets/answers.toml`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat

from dpcl_core import paths, presets
from dpcl_core.documents import Document
from dpcl_core.figures.picture import epsilon_text, minus
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval
from dpcl_core.papers import catalog, claims, measured, questions
from dpcl_core.papers.paper import Judged, Ordering, Side, Size, judge
from dpcl_core.spec import RunSpec, validated

FILE = "answers.toml"
State = Literal["found", "not found", "cannot tell", "not run"]
STATES: Mapping[claims.Verdict, State] = {
    "found": "found", "contradicted": "not found", "mixed": "cannot tell", "undecided": "cannot tell", "not run": "not run",
}  # fmt: skip
_Words = Annotated[str, Field(min_length=1)]
_MANY_BUDGETS = 3  # budgets of one run that are drawn as a line


class Asked(Document):
    """What answers a question: see `assets/answers.toml`. `sides`: name in the picture, run, epsilon."""

    sides: tuple[tuple[str, _Words, PositiveFloat], ...] = Field(min_length=1)
    yes: _Words
    no: _Words
    metric: _Words = "AA"
    kind: Literal["higher", "alike"] = "higher"
    is_open: bool = False

    @property
    def ordering(self) -> Ordering:
        """The comparison of the first two sides; of a single side with itself."""
        first, second = (Side(run, epsilon) for _, run, epsilon in (self.sides[0], self.sides[min(1, len(self.sides) - 1)]))
        return Ordering("", first, second, self.metric, self.kind)


@dataclass(frozen=True, slots=True)
class Tested:
    """A form of a question with its results by label, and what they say of the comparison. `is_toy`: as of `claims.Form`."""

    size: Size
    specs: Mapping[str, RunSpec]
    runs: Mapping[str, measured.Measured]
    judged: Judged
    is_toy: bool

    def level(self, side: tuple[str, str, float], metric: str) -> Interval | None:
        """Mean and interval of a side in the metric's unit; None where it has not run."""
        run = self.runs.get(side[1])
        values = [] if run is None else list(run.by_seed(side[2], metric).values())
        return interval([measured.scale(metric) * value for value in values]) if values else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question's answer. `shown`: the form whose numbers the verdict tells (None: nothing has run)."""

    question: questions.Question
    asked: Asked
    tests: tuple[Tested, ...]
    state: State
    verdict: str
    shown: Tested | None

    @property
    def excluded(self) -> float | None:
        """For an undecided answer: what the difference does not reach either way, in the metric's unit."""
        return claims.excluded(test.judged for test in self.tests) if self.state == "cannot tell" else None


@cache
def table() -> Mapping[str, Asked]:
    """What answers each question, by preset or experiment. Raises BadInput naming the key that is wrong."""
    return {name: validated(Asked, raw, f"assets/{FILE}: {name}") for name, raw in paths.asset_table(FILE).items()}


def asked_of(question: questions.Question) -> Asked:
    """What answers a question; of one without an entry, its first two runs, or budgets of its only run, with no claim."""
    if (known := table().get(question.name)) is not None:
        return known
    specs = list(questions.specs(question.smallest.name).items())
    sides = [(run, run, epsilon) for run, spec in specs[:2] for epsilon in spec.privacy.epsilons[-1:]]
    if len(specs) == 1:
        (run, spec), *_ = specs
        sides = [(epsilon_text(epsilon), run, epsilon) for epsilon in (spec.privacy.epsilons[-1], spec.privacy.epsilons[0])]
    return Asked(sides=tuple(sides), yes="{0} % against {1} %.", no="{0} % against {1} %.", is_open=True)


def answer(question: questions.Question, found: Mapping[Size, Mapping[str, measured.Measured]]) -> Answer:
    """The answer from results by label, for each form of the question; other forms as recorded."""
    asked = asked_of(question)
    tests = tuple(_tested(question, asked, size, found.get(size)) for size in question.forms)
    counted = [test for test in tests if not test.is_toy]
    if asked.metric == "audited":
        return _audited(question, asked, tests)
    verdict = claims.joined(test.judged.state for test in counted)
    shown = _shown(counted, verdict) or next((test for test in reversed(tests) if test.judged.state != "not run"), None)
    state = "cannot tell" if shown is not None and shown.is_toy else STATES[verdict]
    if asked.is_open and state == "not found":
        state = "found"
    return Answer(question, asked, tests, state, _verdict(asked, tests, verdict, shown), shown)


@cache
def recorded() -> Mapping[str, Answer]:
    """The answers of all questions from the records, by the question's name."""
    return {question.name: answer(question, {}) for question in questions.questions()}


def _tested(question: questions.Question, asked: Asked, size: Size, runs: Mapping[str, measured.Measured] | None) -> Tested:
    name = question.forms[size].name
    specs = presets.variants(name) if runs is None else questions.specs(name)
    known = questions.recorded(specs) if runs is None else runs
    toys = () if question.paper is None else catalog.paper(question.paper).toys
    is_toy = any(spec.data.backbone in toys for spec in specs.values())
    return Tested(size, specs, known, judge(asked.ordering, known, questions.recorded_chances(name, specs)), is_toy)


def _shown(tests: Sequence[Tested], verdict: claims.Verdict) -> Tested | None:
    """The largest form that says what all together say; of an undecided question, the one that excludes most."""
    if verdict == "undecided":
        known = {test.size: claims.excluded([test.judged]) for test in tests}
        told = [test for test in tests if known[test.size] is not None]
        if told:
            return min(told, key=lambda test: known[test.size] or 0.0)
    wanted = {"found": "found", "contradicted": "not found"}.get(verdict)
    having = [test for test in tests if test.judged.state != "not run" and wanted in (None, test.judged.state)]
    return having[-1] if having else None


def _audited(question: questions.Question, asked: Asked, tests: tuple[Tested, ...]) -> Answer:
    """Whether an attack refutes the claimed budget of the first side: a lower bound above it."""
    (_, run, claimed), *_ = asked.sides
    bounds = [(bound, test) for test in tests if run in test.runs and (bound := test.runs[run].audited(claimed)) is not None]
    if not bounds:
        return Answer(question, asked, tests, "not run", "", None)
    bound, shown = max(bounds, key=lambda one: one[0])
    words = (asked.no if bound > claimed else asked.yes).format(_number(bound))
    return Answer(question, asked, tests, "not found" if bound > claimed else "cannot tell", words, shown)


def _verdict(asked: Asked, tests: Sequence[Tested], verdict: claims.Verdict, shown: Tested | None) -> str:
    """At most twelve words in the quantity that the question asks; empty where nothing has run."""
    if shown is None:
        return ""
    if shown.is_toy:
        return "Not tested: a network this small only guesses."
    levels = [level.mean if (level := shown.level(side, asked.metric)) is not None else math.nan for side in asked.sides]
    if verdict in ("found", "contradicted"):
        gains = [minus(f"{_number(a - b, sign='+')}") for a, b in zip(levels[::2], levels[1::2], strict=False)]
        named = dict(zip(("gain", "more"), gains, strict=False)) | {"loss": gains[0].lstrip("+−") if gains else ""}
        return (asked.yes if verdict == "found" else asked.no).format(*map(_number, levels), **named)
    if verdict == "mixed":
        return "One form finds it, another the opposite."
    if all(test.judged.state in ("both guess", "not run") for test in tests):
        return "Both runs only guess."
    both = " against ".join(map(_number, levels[:2]))
    without = claims.excluded([shown.judged])
    if without is None:
        seeds = "one seed" if len(shown.specs[asked.sides[0][1]].seeds) == 1 else f"fewer than {MIN_SEEDS} seeds"
        return f"{both} {measured.unit(asked.metric)}, from {seeds} each."
    unit = measured.unit(asked.metric)
    return f"{both} {unit}: less than {claims.bound_text(without)} {unit.replace('%', 'points')} apart."


def _number(value: float, sign: str = "") -> str:
    """A level or a difference, with one decimal where it is small."""
    return minus(f"{value:{sign}.0f}" if abs(value) >= 9.95 else f"{value:{sign}.1f}")


# The picture of an answer, from its records.
#
# Small pictures of answers as SVG of a few kilobytes: two lines over tasks, one line over budgets, or rows side by side.
#
# Colours are classes (`main`, `other`, `guide`) that the page's style sheet sets, so a picture fits both themes.


_WIDTH, _HEIGHT = 240, 162
_LEFT, _RIGHT, _TOP, _FOOT = 8.0, 149.0, 20.0, 140.0  # pixels of the plot; names of lines stand right of it
_LOOKS = ("main", "other")
_LINE = 18.0  # pixels between two names
_BASE_LINE = 156.0  # the base line of words below the plot


def picture(of: Answer) -> str:
    """The answer's comparison as SVG: over budgets, else over tasks, else side by side; empty where nothing has run."""
    shown, asked = of.shown, of.asked
    if shown is None:
        return ""
    if asked.metric == "audited":
        name, run, claimed = asked.sides[0]
        bound = shown.runs[run].audited(claimed) or 0.0
        return _drawn_rows([(name, Interval(claimed, None, None, 1)), ("attack", Interval(bound, None, None, 1))], unit="ε")
    sides = [side for side in asked.sides if side[0] and side[1] in shown.runs][:2]
    budgets = sorted({model.epsilon for model in shown.runs[sides[0][1]].models})
    if len({side[1] for side in sides}) == 1 and len(budgets) >= _MANY_BUDGETS:
        levels = [shown.level(("", sides[0][1], epsilon), asked.metric) for epsilon in budgets]
        known = [(epsilon_text(one), level) for one, level in zip(budgets, levels, strict=True) if level is not None]
        return _drawn_budgets(known, unit=measured.unit(asked.metric))
    factor = measured.scale(asked.metric)
    curves = [shown.runs[run].mean_curve(epsilon, asked.metric) for _, run, epsilon in sides]
    points = [[(task, round(factor * value, 9)) for task, value in enumerate(one, 1) if value is not None] for one in curves]
    lines = [(side[0], values) for side, values in zip(sides, points, strict=True)]
    if all(len(values) > 1 for _, values in lines):
        return _drawn_curves(lines, unit=measured.unit(asked.metric))
    rows = [(side[0], level) for side in sides if (level := shown.level(side, asked.metric)) is not None]
    return _drawn_rows(rows, unit=measured.unit(asked.metric))


def _drawn_curves(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]], *, unit: str) -> str:
    """Lines over tasks with their names and last values. `lines`: name, (task, value)."""
    low, high = _range([value for _, points in lines for _, value in points], unit)
    last = max(task for _, points in lines for task, _ in points)
    body, ends = _guides(low, high, unit), list[tuple[str, float, float]]()
    for look, (name, points) in reversed(list(zip(_LOOKS, lines, strict=False))):
        places = [(_across(task - 1, last - 1), _height(value, low, high)) for task, value in points]
        body += f'<path class="{look}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
        body += _dot(look, *places[-1])
        ends.insert(0, (name, points[-1][1], places[-1][1]))
    return _svg(body + _names(ends))


def _drawn_budgets(levels: Sequence[tuple[str, Interval]], *, unit: str) -> str:
    """One line over budgets, small ones at the left. `levels`: budget as displayed, and the value."""
    low, high = _range([end for _, level in levels for end in (level.mean, *_ends(level))], unit)
    places = [(_across(at, len(levels) - 1) + 12, _height(one.mean, low, high)) for at, (_, one) in enumerate(levels)]
    body = _guides(low, high, unit) + f'<path class="main" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
    body += f'<text x="{_LEFT - 6:g}" y="{_BASE_LINE:g}">ε</text>'
    for place, ((x, y), (name, level)) in enumerate(zip(places, levels, strict=True)):
        body += _bar("main", x, *(_height(end, low, high) for end in _ends(level))) + _dot("main", x, y)
        if place in (0, len(levels) - (2 if levels[-1][0] == "∞" else 1)):  # no noise is named beside the line
            body += f'<text class="middle" x="{x:.1f}" y="{_BASE_LINE:g}">{escape(name)}</text>'
    (_, first), (_, last) = levels[0], levels[-1]
    above = max(_height(_ends(first)[1], low, high) - 5, _TOP + 6)
    body += f'<text class="main strong middle" x="{places[0][0] + 4:.1f}" y="{above:.1f}">{_number(first.mean)}</text>'
    return _svg(body + _names([("no noise" if levels[-1][0] == "∞" else "", last.mean, places[-1][1])], shift=12))


def _drawn_rows(levels: Sequence[tuple[str, Interval]], *, unit: str) -> str:
    """A bar a side, from zero to its mean, with its interval, name and number."""
    low, high = _range([0.0, *(end for _, level in levels for end in (level.mean, *_ends(level)))], unit)
    wide, body = _WIDTH - 2 * _LEFT - 40, ""

    def across(value: float) -> float:
        return _LEFT + wide * (min(max(value, low), high) - low) / (high - low)

    for place, (look, (name, level)) in enumerate(zip(_LOOKS, levels, strict=False)):
        y, start, end = 48 + 62 * place, *sorted((across(0.0), across(level.mean)))
        body += f'<rect class="{look}" x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="16" rx="3"/>'
        if level.low is not None and level.high is not None:
            body += f'<path class="whisker" d="M{across(level.low):.1f} {y + 8}H{across(level.high):.1f}"/>'
        body += f'<text x="{_LEFT:g}" y="{y - 6}">{escape(name)}</text>'
        body += f'<text class="{look} strong" x="{max(across(_ends(level)[1]), end) + 6:.1f}" y="{y + 13}">'
        body += f"{_number(level.mean)}</text>"
    return _svg(body)


def _ends(level: Interval) -> tuple[float, float]:
    """The ends of its interval; its mean twice where it has none."""
    return (level.mean, level.mean) if level.low is None or level.high is None else (level.low, level.high)


def _range(values: Sequence[float], unit: str) -> tuple[float, float]:
    """The ends of the axis: 0 to 100 %, or to a round place above the data; below zero where the data are."""
    low, most = min(0.0, *values), max(1.0, *values)
    step = 10.0 ** math.floor(math.log10(most)) / 2
    return low, 100.0 if unit == "%" else step * math.ceil(most / step)


def _across(place: float, last: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * place / max(last, 1)


def _height(value: float, low: float, high: float) -> float:
    return _FOOT - (_FOOT - _TOP) * (min(max(value, low), high) - low) / (high - low)


def _guides(low: float, high: float, unit: str) -> str:
    """Lines at zero, at the middle and at the end of the axis, which has its number and unit."""
    heights = (_height(value, low, high) for value in (0.0, high / 2, high))
    lines = "".join(f'<path class="guide" d="M{_LEFT:g} {y:.1f}H{_RIGHT:g}"/>' for y in heights)
    return f'{lines}<text x="{_LEFT:g}" y="{_TOP - 5:g}">{high:.0f}{"%" * (unit == "%")}</text>'


def _dot(look: str, x: float, y: float) -> str:
    return f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'


def _bar(look: str, x: float, start: float, end: float) -> str:
    return f'<path class="{look} thin" d="M{x:.1f} {start:.1f}V{end:.1f}"/>' if abs(start - end) > 1 else ""


def _names(ends: Sequence[tuple[str, float, float]], shift: float = 0.0) -> str:
    """Number and name right of each line's end, a line of text apart at least. `ends`: name, value, height in pixels."""
    order = sorted(range(len(ends)), key=lambda place: ends[place][2])
    heights, least = [0.0] * len(ends), _TOP
    for place in order:
        heights[place] = least = max(ends[place][2], least)
        least += _LINE
    over = max(0.0, least - _LINE - _FOOT)
    return "".join(
        f'<text class="{look}" x="{_RIGHT + 8 + shift:g}" y="{height - over + 4:.1f}"><tspan class="strong">{_number(value)}'
        f'</tspan><tspan class="name" dx="4">{escape(name)}</tspan></text>'
        for look, height, (name, value, _) in zip(_LOOKS, heights, ends, strict=False)
    )


def _svg(body: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true" focusable="false">{body}</svg>'


# What cites an answer.


def citation(of: Answer, link: str, version: str) -> str:
    """A BibTeX entry for the answer, with its link, and those of the software and of the papers behind its runs."""
    dates = sorted({run.date for test in of.tests for run in test.runs.values()})
    fields: dict[str, Any] = {
        "title": f"{of.question.asked} {of.verdict or 'Not measured yet.'}".replace("%", r"\%"),
        "howpublished": f"\\url{{{link}}}",
        "year": dates[-1][:4] if dates else "",
        "note": f"{of.state.capitalize()}; dpcl {version}" + (f", measured {dates[0]} to {dates[-1]}" if dates else ""),
    }
    body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    first = next(iter((of.shown or of.tests[0]).specs.values()))
    return f"@misc{{dpcl-{of.question.name},\n{body}\n}}\n\n{catalog.citations(first)}"
