"""Exercises, their codes, handouts, the texts of lessons, and sharp edges."""

import itertools
import math
import re
import stat
from collections import Counter
from decimal import Decimal
from html import unescape

import pytest

from dpcl_core import paths
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.lessons import edges, exercises, in_browser, text
from dpcl_core.privacy.statement import odds_bound
from pages.parts import lesson_digits as step_pages
from tests.support.asserting import excludes, includes, refuses
from tests.support.together import together

NAMES = [f"visitor {number}" for number in range(60)]
SHEETS = {part: [exercises.sheet(part, name) for name in NAMES] for part in text.PARTS}


def of(lesson: str, key: str) -> list[exercises.Exercise]:
    """One exercise with the numbers of every name."""
    place = [one.key for one in text.load(lesson).exercises].index(key)
    return [[one for one in sheet if one.lesson == lesson][place] for sheet in SHEETS[text.part_of_lesson(lesson)]]


def numbers(words: str) -> list[float]:
    return [float(found.replace(",", "").replace("−", "-")) for found in re.findall(r"−?\d[\d,]*(?:\.\d+)?", words)]


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
    ("modes", "match"): lambda *d: min(d[a] + d[3 + b] + d[6 + c] for a, b, c in itertools.permutations(range(3))),
    ("rare", "average"): lambda n, people, before, after: people / n * (before - after),
    ("contract", "printed"): lambda delta, people: delta * people,
    ("contract", "luck"): lambda *s: max(s) - sum(s) / 5,
    ("audit", "coins"): lambda e, _delta, n: n / (1 + math.exp(-e)),
    ("audit", "least"): lambda share, _delta: -math.log(100 / share - 1),
    ("choice", "code"): lambda n, e, _delta: 100 / (1 + (n - 1) * math.exp(-e)),
    ("network", "shorten"): lambda first, _second, length, clip: first * clip / length,
    ("members", "line"): lambda hits, _1, alarms, _2: (hits + 100 - alarms) / 2,
    ("gradient", "quotient"): lambda bias, weight: weight / bias,
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
        assert (releases in step_pages.RELEASES, epsilon in step_pages.EPSILONS) == (True, True)
        assert epsilon < one.answer < releases * epsilon
        assert not one.is_right(releases * epsilon)


def test_every_exercise_is_checked_here() -> None:
    asked = {(name, one.key) for name in text.NAMES for one in text.load(name).exercises}
    assert asked == {*BY_HAND, ("adding", "total")}
    takes = {name: getattr(one, "__annotations__", {}).values() for name, one in vars(exercises).items()}
    drawing = {name for name, taken in takes.items() if exercises._Numbers in taken}
    assert drawing == {f"_{lesson}_{key}" for lesson, key in asked}
    for part, names in text.PARTS.items():
        assert [one.letter for one in exercises.sheet(part)] == list("abcdefghi"[: len(SHEETS[part][0])])
        assert {one.lesson for one in exercises.sheet(part)} == set(names)


def test_a_name_keeps_its_numbers_and_neighbours_get_others() -> None:
    for part in text.PARTS:
        assert exercises.sheet(part, "amber fox") == exercises.sheet(part, "amber fox")
        assert Counter(tuple(one.ask for one in sheet) for sheet in SHEETS[part]).most_common(1)[0][1] == 1
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
    assert not any(map(rounded.is_right, (None, math.nan, math.inf)))
    one = exercises.Exercise("a", "coin", "", "", "", 1, 0.3, Decimal("0.1"))
    assert [given for given in (0.1, 0.2, 0.3, 0.4, 0.5) if one.is_right(given)] == [0.2, 0.3, 0.4], "as on the sheet"
    assert 0.4 - 0.3 > 0.1, "in floating point"


def test_the_smallest_epsilon_allows_just_that_share() -> None:
    for one in of("audit", "least"):
        assert 100 * odds_bound(one.answer, 0.0) == pytest.approx(numbers(one.ask)[0], abs=0.15)  # of an ε within 0.005


# Codes to hand in: what they say comes back, and a changed one, another server's and other text are refused.


HANDED = exercises.Handed("amber fox", 2, "acd")
pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("handed", [HANDED, exercises.Handed("übung 7", 1, ""), exercises.Handed("a b", 3, "abcdefg")])
def test_a_code_says_what_it_was_made_from(handed: exercises.Handed) -> None:
    code = exercises.sealed(handed)
    assert exercises.read_code(code) == exercises.read_code(code.lower()) == exercises.read_code(code.upper()) == handed
    assert code == exercises.sealed(handed), "no secret changes between two codes"


def test_a_changed_code_is_refused_and_each_letter_of_the_seal_counts() -> None:
    code = exercises.sealed(HANDED)
    swaps = (("amber", "ember"), ("-2acd", "-2abcd"), ("-2acd", "-2ac"), ("-2acd", "-1acd"), ("fox", "fox-fox"))
    changed = [code.replace(old, new) for old, new in swaps]
    places = range(len(code) - 8, len(code))
    for one in [*changed, *(code[:at] + ("A" if code[at] != "A" else "B") + code[at + 1 :] for at in places)]:
        refuses("was changed or mistyped", exercises.read_code, one)


def test_a_code_of_another_server_is_refused_in_a_sentence_that_says_so(tmp_path, monkeypatch) -> None:
    code = exercises.sealed(HANDED)
    monkeypatch.setattr(paths, "codes_key", lambda: tmp_path / "other.key")
    while exercises.sealed(HANDED).split("-")[-2] == code.split("-")[-2]:  # one key in 32,768 has the same mark
        paths.codes_key().unlink()
    refuses("was made on another server, or mistyped", exercises.read_code, code)


@pytest.mark.parametrize("text", ["", "hello", "amber-fox", "-2acd-XKW-QTPMRB3D", "a-2a-XKW-QTPMRB31", "=1+1", "x" * 9999])
def test_other_text_is_no_code(text: str) -> None:
    with pytest.raises(BadInput, match="is no code") as refused:
        exercises.read_code(text)
    assert len(str(refused.value)) < 200


def test_a_name_is_the_same_however_it_is_typed_and_others_are_refused_in_one_sentence() -> None:
    for typed, name in {"  Amber   Fox ": "amber fox", "Jean-Luc": "jean luc", "ＡＢ１": "ab1"}.items():
        assert exercises.clean_name(typed) == name == exercises.clean_name(name)
    for typed in ("", "a", "x" * 25, "=cmd()", "<b>me</b>", "a_b", "a\nb?"):
        refuses("must be 2 to 24 letters", exercises.clean_name, typed)


def test_codes_are_found_in_what_is_pasted() -> None:
    assert exercises.codes_in("a-1\n b-2;c-3, d-4\t\n") == ["a-1", "b-2", "c-3", "d-4"]
    refuses("at most 500 at once", exercises.codes_in, "x " * 501)


def test_only_its_owner_reads_the_key_and_a_broken_one_is_said() -> None:
    exercises.sealed(HANDED)
    assert stat.S_IMODE(paths.codes_key().stat().st_mode) == 0o600
    assert [path.name for path in paths.home().iterdir()] == [paths.codes_key().name], "nothing is left beside it"
    paths.codes_key().write_bytes(b"short")
    refuses("is damaged", exercises.sealed, HANDED, error=StoreTrouble)


def test_those_who_begin_at_once_use_one_key() -> None:
    made: list[str] = []
    together(lambda _: made.append(exercises.sealed(HANDED)), 16)
    assert made == [exercises.sealed(HANDED)] * 16


# The course on paper: predictions on one sheet, explanations on another, and a plan that fits its time.


@pytest.mark.parametrize("part", text.PARTS)
def test_answers_stand_on_a_sheet_of_their_own(part: str) -> None:
    page = in_browser.page(part)
    notes, sheet, answers = (unescape(re.sub(r"<[^>]+>", "", section)) for section in page.split("<section")[1:])
    assert " ".join(text.notes()[part].when_wrong.split()) in " ".join(notes.split())
    place = list(text.PARTS).index(part) + 1
    answered = [f"{place}{one.letter} {one.shown}." for one in exercises.sheet(part)]
    asked, told = ([getattr(one, name) for one in exercises.sheet(part)] for name in ("ask", "how"))
    for lesson in map(text.load, text.PARTS[part]):
        asked += [step.predict for step in lesson.steps]
        told += [*(step.explain for step in lesson.steps), *(one.answer for one in lesson.think)]
    plain = [one.replace("**", "") for one in told]
    includes(sheet, *(one.replace("**", "") for one in asked))
    includes(answers, *answered, *plain)
    excludes(sheet, *plain)
    excludes(page, "<script", "http")


@pytest.mark.parametrize("part", text.PARTS)
def test_the_plan_fits_its_time_in_the_order_of_the_course(part: str) -> None:
    rows = in_browser.plan(part)
    assert rows
    assert ([start for start, _, _ in rows[1:]], rows[0][0]) == ([end for _, end, _ in rows[:-1]], 0)
    assert rows[-1][1] <= in_browser.MINUTES
    for start, end, name in rows:
        assert end - start > text.load(name).minutes
    assert [name for _, _, name in rows] == [one for one in text.PARTS[part] if one in {name for _, _, name in rows}]


def test_the_plan_for_one_class_fills_its_time_with_steps_that_are_there() -> None:
    assert sum(block.minutes for block in text.one_class()) == in_browser.MINUTES
    for block in text.one_class():
        assert set(block.steps) <= set(range(1, len(text.load(block.lesson).steps) + 1))
        assert list(block.steps) == sorted(set(block.steps))
        assert not FORBIDDEN.search(block.ask)


# The words of the lessons: complete, short, and free of words that promise too much.


FORBIDDEN = re.compile(
    r"anonym|\bsafe(ly)?\b|\bsecure|guaranteed|zero risk|encrypt|ε of \d|\bprivate\b(?! data)|\bperfect", re.IGNORECASE
)


def words(name: str) -> list[str]:
    lesson = text.load(name)
    said = [lesson.title, lesson.question, lesson.intro]
    for step in lesson.steps:
        said += [step.title, step.predict, *step.choices, step.do, step.see, step.explain]
        said += [] if step.chart is None else [step.chart.title, step.chart.source, step.chart.finding]
    said += [part for one in lesson.exercises for part in (one.ask, one.how)]
    return [*said, *(part for one in lesson.think for part in (one.question, one.answer))]


@pytest.mark.parametrize("said", ["your data is private", "Anonymous sums", "it is safe", "an ε of 3 %", "guaranteed"])
def test_the_scan_finds_what_is_forbidden(said: str) -> None:
    assert FORBIDDEN.search(said)
    assert not FORBIDDEN.search("Never do that with private data.")


def modest_and_short(said: list[str]) -> None:
    """No word promises too much, and no sentence is long."""
    assert [one for one in said if FORBIDDEN.search(one)] == []
    sentences = [sentence for one in said for sentence in re.split(r"(?<=[.?!:])\s+", one)]
    assert [sentence for sentence in sentences if len(sentence.split()) > 32] == []


@pytest.mark.parametrize("name", text.NAMES)
def test_steps_are_few_and_sentences_short(name: str) -> None:
    lesson = text.load(name)
    assert len({step.key for step in lesson.steps}) == len(lesson.steps)
    modest_and_short(words(name))


@pytest.mark.parametrize("part", text.PARTS)
def test_the_teachers_notes_are_short_and_promise_nothing(part: str) -> None:
    notes = text.notes()[part]
    said = [notes.look_for, notes.ask, notes.when_wrong]
    said += [part for one in notes.misconceptions for part in (one.belief, one.reply)]
    modest_and_short(said)
    assert sum(len(words_of.split()) for words_of in said) <= 250


def test_every_text_is_a_lesson_that_keeps_its_number_in_links_wherever_it_is_taught() -> None:
    """Saved links of the first seven: another number would open them on other ticks."""
    assert {path.stem for path in (paths.assets_dir() / "lessons").glob("*.toml")} == set(text.NAMES)
    assert [text.link_number(name) for name in ("label", "noise", "shared", "surprise", "sign", "modes", "digits")] == [
        1, 2, 3, 4, 5, 6, 7
    ]  # fmt: skip
    assert sorted(text.link_number(name) for name in text.NAMES) == list(range(1, len(text.NAMES) + 1))
    assert [text.number(name) for name in text.NAMES] == list(range(1, len(text.NAMES) + 1))


# Sharp edges: every pitfall has its words and its computation; each shows the fault it names, and the right way none.


def test_lessons_and_code_that_are_named_are_there() -> None:
    root = paths.assets_dir().parent
    for edge in text.edges():
        assert edge.lesson in (None, *text.NAMES)
        folder = ""
        for named in edge.where.split(", "):
            path = named if named.startswith("dpcl_core/") else f"{folder}/{named}"
            path = path if (root / path).exists() else f"dpcl_core/{named}"
            assert (root / path).exists(), f"{edge.key}: {named}"
            folder = path.rpartition("/")[0]


def shown(key: str) -> tuple[tuple[str, ...], ...]:
    """The rows that demonstrate a pitfall."""
    (edge,) = (one for one in text.edges() if one.key == key)
    return edges.demonstration(edge)[0]


@pytest.mark.parametrize("edge", text.edges(), ids=lambda edge: edge.key)
def test_each_is_told_in_two_sentences_and_shown_in_a_table_with_a_finding(edge: text.Edge) -> None:
    assert len(re.findall(r"[.?!](?=\s|$)", edge.wrong)) == 2
    assert len(edge.prevented.split()) < 45
    rows, finding = edges.demonstration(edge)
    assert len(rows) >= 2
    assert {len(row) for row in rows} == {len(edge.head)}
    assert finding.endswith(".")
    assert rows[0][1:] != rows[-1][1:]


@pytest.mark.parametrize("key", ["realised-batch", "batch-clipping", "normalisation"])
def test_she_moves_it_further_than_accounted_and_here_she_does_not(key: str) -> None:
    wrong, *_, right = shown(key)
    assert float(wrong[1]) > 1.5 * float(wrong[2])
    assert float(right[1]) <= float(right[2]) + 1e-3


def test_a_coin_of_the_rows_bytes_moves_nobody_else_and_a_seed_gives_the_truth_back() -> None:
    by_rank, by_coin = shown("by-rank")
    assert int(by_rank[1]) > 100
    assert int(by_coin[1]) == 0
    recorded, fresh = shown("recorded-seed")
    assert recorded[2] == "1.000"
    assert fresh[2] != "1.000" or fresh[1] == recorded[1]


def test_the_digits_prove_more_than_was_asked_for() -> None:
    """Half of all rounds have an impossible digit: 400 of them with fewer than 60 have a chance below 1e-30."""
    naive, rounded = shown("last-digits")
    assert float(naive[2]) > 2
    assert float(rounded[2]) == 0


def test_the_stolen_memory_is_the_truth_and_the_releases_are_not() -> None:
    memory, *others = shown("stolen-state")
    assert memory[1:3] == ("23", "24")
    assert {row[3] for row in others} == {"55.3 %"}, "Phi(1 / 2 sigma) at epsilon 1, sigma 3.7306"
    assert all(row[1:3] != memory[1:3] for row in others)


def test_latecomers_learn_less_with_fresh_noise_and_less_the_later_they_come() -> None:
    remembered, fresh = ([float(cell) for cell in row[1:]] for row in shown("latecomers"))
    for values in (remembered, fresh):
        assert values == sorted(values, reverse=True)
        assert values[0] < 1
    assert all(late > early for late, early in zip(remembered, fresh, strict=True))


def test_who_is_deleted_without_noise_is_what_two_models_differ_by() -> None:
    subtracted, anew, noisy = shown("delete-me")
    assert subtracted[1:] == anew[1:] == ("1.00", "100 %")
    assert float(noisy[1]) < 0.9, "64 numbers of noise of 5.3 each against a row of length 1"
    assert noisy[2] == "55.3 %"
