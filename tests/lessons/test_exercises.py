"""Exercises: numbers differ by name, answers are those of an independent way, and what counts as right is what is said."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from decimal import Decimal

import pytest

from dpcl_core.lessons import exercises, text
from dpcl_core.lessons.exercises import Exercise
from dpcl_core.privacy.statement import odds_bound
from pages.parts import lesson_digits as step_pages

NAMES = [f"visitor {number}" for number in range(60)]
SHEETS = {part: [exercises.sheet(part, name) for name in NAMES] for part in text.PARTS}


def of(lesson: str, key: str) -> list[Exercise]:
    """One exercise with the numbers of every name."""
    place = [one.key for one in text.load(lesson).exercises].index(key)
    return [[one for one in sheet if one.lesson == lesson][place] for sheet in SHEETS[text.part(lesson)]]


def numbers(words: str) -> list[float]:
    return [float(found.replace(",", "").replace("−", "-")) for found in re.findall(r"−?\d[\d,]*(?:\.\d+)?", words)]


def nearest_pairs(*d: float) -> float:
    return min(d[a] + d[3 + b] + d[6 + c] for a, b, c in itertools.permutations(range(3)))


# The answers once more, from the numbers of the question as a visitor reads them.
BY_HAND = {
    ("coin", "odds"): lambda e, _delta: 100 / (1 + math.exp(-e)),
    ("coin", "share"): lambda keeps, said: 100 * (said - (100 - keeps)) / (2 * keeps - 100),
    ("coin", "clip"): lambda *n: sum(max(0, income - n[-1]) for income in n[:-1]),
    ("unit", "mail"): lambda e, words: e * words,
    ("unit", "mean"): lambda patients, std, hospitals: std * patients / hospitals,
    ("adding", "average"): lambda std, n: std / math.sqrt(n),
    ("adding", "people"): lambda a, b, c: max(a + b, c),
    ("forgetting", "points"): lambda _1, a1, a2, _2, a3, _3, _4, b2, b3: (a1 - a3 + b2 - b3) / 2,
    ("label", "alarms"): lambda e, _delta, alarms: math.exp(e) * alarms,
    ("noise", "pile"): lambda sigma, tasks: sigma * math.sqrt(tasks),
    ("shared", "mask"): lambda mine, published, other: other - (published - mine),
    ("surprise", "pairs"): lambda *s: 100 * sum(a > b for a in s[:3] for b in s[3:]) / 12,
    ("sign", "weight"): lambda strength, score: 1 - strength * (score - 0.6),
    ("modes", "match"): nearest_pairs,
    ("rare", "average"): lambda n, people, before, after: people / n * (before - after),
    ("contract", "printed"): lambda delta, people: delta * people,
    ("contract", "luck"): lambda *s: max(s) - sum(s) / 5,
    ("audit", "coins"): lambda e, _delta, n: n / (1 + math.exp(-e)),
    ("audit", "least"): lambda share, _delta: -math.log(100 / share - 1),
    ("digits", "grid"): lambda step, value: step * math.floor(value / step + 0.5),
}  # fmt: skip


@pytest.mark.parametrize(("lesson", "key"), BY_HAND)
def test_answers_are_those_worked_out_from_the_printed_numbers(lesson: str, key: str) -> None:
    for one in of(lesson, key):
        worked_out = BY_HAND[lesson, key](*numbers(one.ask))
        # Half a unit of the last digit is what rounding does; the rest is floating point.
        assert abs(worked_out - one.answer) <= 0.5 * 10**-one.digits + 1e-9, one.ask
        assert one.is_right(worked_out if one.tolerance else round(worked_out, one.digits))


def test_the_total_is_what_the_lesson_shows() -> None:
    """Between one release and the plain sum, and at settings that its step offers; the sum itself is refused."""
    for one in of("adding", "total"):
        releases, epsilon, _step = numbers(one.ask)
        assert releases in step_pages.RELEASES
        assert epsilon in step_pages.EPSILONS
        assert epsilon < one.answer < releases * epsilon
        assert not one.is_right(releases * epsilon)


def test_every_exercise_is_checked_here() -> None:
    asked = {(name, one.key) for name in text.NAMES for one in text.load(name).exercises}
    assert asked == {*BY_HAND, ("adding", "total")} == set(exercises._DRAWN)
    for part, names in text.PARTS.items():
        assert [one.letter for one in exercises.sheet(part)] == list("abcdefghi"[: len(SHEETS[part][0])])
        assert {one.lesson for one in exercises.sheet(part)} == set(names)


def test_a_name_keeps_its_numbers_and_neighbours_get_others() -> None:
    for part in text.PARTS:
        assert exercises.sheet(part, "amber fox") == exercises.sheet(part, "amber fox")
        alike = Counter(tuple(one.ask for one in sheet) for sheet in SHEETS[part]).most_common(1)[0][1]
        assert alike == 1
        for column in zip(*SHEETS[part], strict=True):
            answers = [one.answer for one in column]
            copied = sum(one.is_right(answers[place - 1]) for place, one in enumerate(column))
            assert copied <= len(column) / 3, f"{column[0].ask}: a neighbour's answer is right too often"


def test_the_tolerance_ends_where_it_is_said_to() -> None:
    sheet = {one.letter: one for one in exercises.sheet("One release", "amber fox")}
    rounded, exact = sheet["a"], sheet["d"]
    assert rounded.wanted == "in %, to a whole number; ± 1 is right"
    for given, is_right in ((0, True), (1, True), (-1, True), (1.01, False), (-1.01, False)):
        assert rounded.is_right(rounded.answer + given) is is_right
    assert exact.wanted == "to one decimal; exactly"
    assert exact.is_right(exact.answer)
    assert not exact.is_right(exact.answer + 0.1)
    for nothing in (None, math.nan, math.inf):
        assert not rounded.is_right(nothing)


def test_a_tenth_is_within_a_tenth() -> None:
    """0.3 and 0.4 differ by more than 0.1 in floating point; on the sheet they do not."""
    one = Exercise("a", "coin", "", "", "", 1, 0.3, Decimal("0.1"))
    assert [given for given in (0.1, 0.2, 0.3, 0.4, 0.5) if one.is_right(given)] == [0.2, 0.3, 0.4]
    assert 0.4 - 0.3 > 0.1


def test_the_smallest_epsilon_allows_just_that_share() -> None:
    for one in of("audit", "least"):
        assert 100 * odds_bound(one.answer, 0.0) == pytest.approx(numbers(one.ask)[0], abs=0.15)  # of an ε within 0.005
