"""Exercises after the lessons: questions with a number for an answer, whose numbers are drawn for each name.

The same name gets the same numbers on every computer, neighbours get others. Answers are computed by what the lessons use.
"""

import hmac
import math
import re
from base64 import b32encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from string import ascii_lowercase
from typing import TypeVar
from unicodedata import normalize

import numpy as np
from scipy.optimize import linear_sum_assignment

from dpcl_core import paths
from dpcl_core.attacks.l2dp_games import difference
from dpcl_core.errors import BadInput
from dpcl_core.explorers import tokens
from dpcl_core.lessons import adding, label, network, noise, shared_noise, text
from dpcl_core.privacy import accounting, gaussian, statement

PAPER = ""  # the name whose numbers are on the printed sheet; nobody can enter it
T = TypeVar("T")
Drawn = tuple[Mapping[str, object], float]  # what a question's places say, and the answer before it is rounded


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question with its numbers. `letter`: its place on the sheet of its part; `answer`: rounded as asked."""

    letter: str
    lesson: str
    ask: str
    how: str
    unit: str
    digits: int
    answer: float
    tolerance: Decimal

    @property
    def shown(self) -> str:
        """The answer in print."""
        return f"{self.answer:,.{self.digits}f}{f' {self.unit}' if self.unit else ''}".replace("-", "−")

    @property
    def wanted(self) -> str:
        """How the answer is to be given, and what counts as right."""
        decimals = ("a whole number", "one decimal", "two decimals", "three decimals")[self.digits]
        unit = f"in {self.unit}, " if self.unit else ""
        return f"{unit}to {decimals}; {f'± {self.tolerance:f} is right' if self.tolerance else 'exactly'}"

    def is_right(self, given: float | None) -> bool:
        """Whether a number is the answer, up to the tolerance, which is included."""
        if given is None or not math.isfinite(given):
            return False
        return abs(Decimal(str(round(given, 9))) - Decimal(str(self.answer))) <= self.tolerance


def sheet(part: str, name: str = PAPER) -> tuple[Exercise, ...]:
    """The exercises of a part of the course, with the numbers of a name in its clean form (`clean_name`).

    The tolerance is one unit of the last digit asked for: half of it for rounding the answer, half for what was rounded on
    the way. Where nothing needs rounding it is 0.
    """
    asked = [(lesson, one) for lesson in text.PARTS[part] for one in text.load(lesson).exercises]
    made = []
    for letter, (lesson, one) in zip(ascii_lowercase, asked, strict=False):
        draw: Callable[[_Numbers], Drawn] = globals()[f"_{lesson}_{one.key}"]
        places, answer = draw(_Numbers(f"{name} {lesson} {one.key}"))
        made.append(
            Exercise(
                letter, lesson, _filled(one.ask, places), _filled(one.how, places), one.unit, one.digits,
                round(answer, one.digits) + 0.0, Decimal(0) if one.is_exact else Decimal(1).scaleb(-one.digits),
            )
        )  # fmt: skip
    return tuple(made)


class _Numbers:
    """Public draws that follow from a seed alone, the same in every version of Python and NumPy."""

    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def one_of(self, options: Sequence[T]) -> T:
        self._count += 1
        return options[int.from_bytes(sha256(f"{self._seed} {self._count}".encode()).digest()) % len(options)]

    def some_of(self, options: Sequence[T], n: int) -> list[T]:
        """So many different ones, in the order drawn."""
        left = list(options)
        return [left.pop(left.index(self.one_of(left))) for _ in range(n)]

    def tenths(self, low: int, high: int) -> float:
        """A number with one decimal between low / 10 and high / 10."""
        return self.one_of(range(low, high + 1)) / 10


# Each exercise's numbers and answer, by a function named after its lesson and its key.


def _coin_odds(numbers: _Numbers) -> Drawn:
    epsilon = numbers.tenths(3, 30)
    return {"epsilon": epsilon}, 100 * statement.odds_bound(epsilon, 0.0)


def _coin_share(numbers: _Numbers) -> Drawn:
    keeps, truly = numbers.one_of(range(65, 91)) / 100, numbers.one_of(range(10, 61)) / 100
    said = round(100 * (keeps * truly + (1 - keeps) * (1 - truly)))
    places = {"keeps": f"{100 * keeps:.0f}", "turns": f"{100 * (1 - keeps):.0f}", "said": said}
    return places, 100 * label.unturned(said / 100, keeps)


def _coin_clip(numbers: _Numbers) -> Drawn:
    incomes = [*numbers.some_of(range(800, 5000, 100), 4), numbers.one_of(range(10_000, 40_000, 500))]
    clip = numbers.one_of(range(2000, 4500, 500))
    listed = [f"{income:,}" for income in incomes]
    places = {"incomes": f"{', '.join(listed[:-1])} and {listed[-1]}", "clip": f"{clip:,}"}
    return places, label.cut_off(np.array(incomes, np.float64), clip)


def _unit_mail(numbers: _Numbers) -> Drawn:
    epsilon, words = numbers.tenths(1, 15), numbers.one_of(range(8, 61))
    return {"epsilon": epsilon, "words": words}, label.by_groups(epsilon, words)[0]


def _unit_mean(numbers: _Numbers) -> Drawn:
    patients, hospitals = numbers.one_of(range(1000, 10_001, 500)), numbers.one_of(range(5, 41))
    std = numbers.one_of(range(1, 6)) / 100
    ratio = label.noise_on_mean(1.0, hospitals) / label.noise_on_mean(1.0, patients)
    return {"patients": f"{patients:,}", "hospitals": hospitals, "std": std}, std * ratio


def _adding_total(numbers: _Numbers) -> Drawn:
    releases, epsilon = numbers.one_of((5, 10, 20, 50)), numbers.one_of((0.25, 0.5, 1.0, 2.0))
    return {"releases": releases, "epsilon": f"{epsilon:g}"}, adding.total(epsilon, releases)


def _adding_average(numbers: _Numbers) -> Drawn:
    std, answers = numbers.one_of(range(10, 61)), numbers.one_of(range(4, 101))
    return {"std": std, "answers": answers}, adding.of_average(std, answers)


def _adding_people(numbers: _Numbers) -> Drawn:
    first, second = numbers.tenths(5, 30), numbers.tenths(5, 30)
    third = round(max(first, second) + numbers.tenths(1, 12), 1)
    return {"first": first, "second": second, "third": third}, max(first + second, third)


def _forgetting_points(numbers: _Numbers) -> Drawn:
    a1, b2 = numbers.some_of(range(88, 100), 2)
    a2, b3, a3 = numbers.one_of(range(60, 86)), numbers.one_of(range(50, 86)), numbers.one_of(range(20, 58))
    matrix = np.array([[a1, np.nan, np.nan], [a2, b2, np.nan], [a3, b3, 100.0]])  # of task 3 nothing can be forgotten yet
    return {"a1": a1, "a2": a2, "a3": a3, "b2": b2, "b3": b3}, adding.forgotten(matrix)


def _label_alarms(numbers: _Numbers) -> Drawn:
    epsilon, alarms = numbers.tenths(5, 20), numbers.one_of(range(1, 7))
    (most,) = noise.promised_hits(np.array([alarms / 100]), epsilon, 0.0)
    return {"epsilon": epsilon, "alarms": alarms}, 100 * float(most)


def _noise_pile(numbers: _Numbers) -> Drawn:
    sigma, tasks = numbers.tenths(20, 90), numbers.one_of(range(3, 51))
    return {"sigma": sigma, "tasks": tasks}, accounting.noise_over_tasks(sigma, tasks)["prior-const"][-1]


def _shared_mask(numbers: _Numbers) -> Drawn:
    (mine, other), mask = numbers.some_of(range(17), 2), numbers.one_of([*range(-90, -19), *range(20, 91)])
    kept = np.array([[mine + mask], [other + mask]], np.float64)
    places = {"mine": mine, "published": _signed(mine + mask), "other": _signed(other + mask)}
    return places, float(difference(kept, 0, np.array([mine], np.float64))[1, 0])


def _surprise_pairs(numbers: _Numbers) -> Drawn:
    scores = [hundredths / 100 for hundredths in numbers.some_of(range(5, 100, 5), 7)]
    is_personal = np.arange(7) < 3
    places = {"personal": _listed(scores[:3]), "others": _listed(scores[3:])}
    return places, 100 * tokens.auroc(np.array(scores), is_personal)


def _sign_weight(numbers: _Numbers) -> Drawn:
    strength, score = numbers.one_of(range(2, 21)), numbers.one_of(range(62, 96)) / 100
    p = shared_noise.probability(score)
    return {"strength": strength, "score": score, "theta": shared_noise.THETA}, shared_noise.pull(
        "flipped", score, strength, p, p
    )


def _modes_match(numbers: _Numbers) -> Drawn:
    distances = np.array([numbers.some_of(range(1, 10), 3) for _ in range(3)])
    places = {name: _listed(row) for name, row in zip(("first", "second", "third"), distances.tolist(), strict=True)}
    return places, float(distances[linear_sum_assignment(distances)].sum())


def _rare_average(numbers: _Numbers) -> Drawn:
    people, before, after = numbers.one_of(range(5, 61)), numbers.one_of(range(85, 96)), numbers.one_of(range(10, 51))
    lost = np.average([before - after, 0], weights=[people, 1000 - people])
    return {"people": people, "before": before, "after": after}, float(lost)


def _contract_printed(numbers: _Numbers) -> Drawn:
    delta, people = numbers.one_of(range(1, 11)) / 1000, numbers.one_of(range(2000, 50_001, 500))
    return {"delta": delta, "people": f"{people:,}"}, label.expected_prints(delta, people)


def _contract_luck(numbers: _Numbers) -> Drawn:
    scores = numbers.some_of(range(55, 86), 5)
    values = np.array(scores, np.float64)
    return {"scores": _listed(scores)}, label.best_of(values, len(values)) - label.best_of(values, 1)


def _audit_coins(numbers: _Numbers) -> Drawn:
    epsilon, guesses = numbers.tenths(2, 20), numbers.one_of(range(100, 501, 20))
    return {"epsilon": epsilon, "guesses": guesses}, guesses * statement.odds_bound(epsilon, 0.0)


def _audit_least(numbers: _Numbers) -> Drawn:
    share = numbers.one_of(range(55, 96))
    return {"share": share}, math.log(share / (100 - share))


def _digits_grid(numbers: _Numbers) -> Drawn:
    step, whole = numbers.one_of((0.125, 0.25, 0.5)), numbers.one_of(range(1, 40))
    value = whole + (10 * numbers.one_of(range(10)) + numbers.one_of((1, 2, 3, 4, 6, 7, 8, 9))) / 100  # never in a middle
    (steps,), _ = gaussian.parts(np.array([value]), step)
    return {"step": step, "value": f"{value:.2f}"}, float(steps * step)


def _network_shorten(numbers: _Numbers) -> Drawn:
    first, second = numbers.one_of(((3, 4), (4, 3), (6, 8), (8, 6), (5, 12), (12, 5), (8, 15), (15, 8)))
    clip, row = numbers.tenths(5, 25), np.array([[first, second]], np.float64)
    places = {"first": first, "second": second, "length": round(math.hypot(first, second)), "clip": clip}
    return places, float(network.clipped(row, clip)[0, 0])


def _members_line(numbers: _Numbers) -> Drawn:
    hits, alarms = numbers.one_of(range(40, 100)), numbers.one_of(range(1, 40))
    return {"hits": hits, "alarms": alarms}, (hits + 100 - alarms) / 2


def _gradient_quotient(numbers: _Numbers) -> Drawn:
    pixel, bias = numbers.one_of(range(1, 16)) / 16, numbers.one_of((-8, -6, -4, -2, 2, 4, 6, 8))
    return {"bias": _signed(bias), "weight": _signed(round(pixel * bias, 4))}, pixel


def _choice_code(numbers: _Numbers) -> Drawn:
    secrets, epsilon = numbers.one_of((10, 20, 50, 100, 1000)), numbers.tenths(10, 60)
    return {"secrets": f"{secrets:,}", "epsilon": epsilon}, 100 * network.named(epsilon, secrets)


def _filled(words: str, places: Mapping[str, object]) -> str:
    printed = {name: f"{value:g}" if isinstance(value, float) else value for name, value in places.items()}
    return " ".join(words.format(**printed).split()).replace(" %", "\N{NO-BREAK SPACE}%")


def _listed(values: Sequence[float]) -> str:
    shown = [f"{value:g}" for value in values]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _signed(value: float) -> str:
    return str(value).replace("-", "−")


# Codes to hand in: which exercises of a part were right under an invented name, sealed with this server's key.
#
# A code is NAME-PART LETTERS-MARK-SEAL, as in `amber-fox-2acd-XKW-QTPMRB3D`. The mark says whose key it was, the seal is a
# keyed checksum (HMAC-SHA256, 40 bits) of name, part and letters. It proves that this server has checked these answers, not
# who typed them.


SHORTEST, LONGEST = 2, 24  # characters of a name
MOST = 500  # codes that are read at once: seals cannot be guessed
_NAME = re.compile(r"[^\W_]+(?: [^\W_]+)*")
_CODE = re.compile(r"(?P<said>(?P<name>.+)-(?P<part>[1-9])(?P<right>[a-z]*))-(?P<mark>[a-z2-7]{3})-(?P<seal>[a-z2-7]{8})")


@dataclass(frozen=True, slots=True)
class Handed:
    """What a valid code says: the name, the number of the part from 1, and the letters of the exercises that were right."""

    name: str
    part: int
    right: str


def clean_name(typed: str) -> str:
    """A name as codes have it: small letters and digits, words with one blank between. Raises BadInput for anything else."""
    cleaned = " ".join(normalize("NFKC", typed).casefold().replace("-", " ").split())
    if not SHORTEST <= len(cleaned) <= LONGEST or not _NAME.fullmatch(cleaned):
        raise BadInput("name", typed[:LONGEST], f"must be {SHORTEST} to {LONGEST} letters, digits and blanks")
    return cleaned


def sealed(handed: Handed) -> str:
    """The code to hand in. Raises StoreTrouble where the key cannot be kept."""
    key, said = _key(), f"{handed.name.replace(' ', '-')}-{handed.part}{handed.right}"
    return f"{said}-{_mark(key)}-{_seal(key, said)}"


def read_code(code: str) -> Handed:
    """What a code says, in capitals or not. Raises BadInput for one of another server, a changed one, and other text."""
    if (read := _CODE.fullmatch(normalize("NFKC", code).casefold())) is None:
        raise BadInput("code", code[:60], "is no code: it should look like amber-fox-2acd-XKW-QTPMRB3D")
    key = _key()
    if read["mark"].upper() != _mark(key):
        says = f"was made on another server, or mistyped: codes of this one have {_mark(key)} before their end"
        raise BadInput("code", code[:60], says)
    if not hmac.compare_digest(read["seal"].upper(), _seal(key, read["said"])):
        raise BadInput("code", code[:60], "was changed or mistyped: its end does not fit the rest")
    return Handed(read["name"].replace("-", " "), int(read["part"]), read["right"])


def codes_in(pasted: str) -> list[str]:
    """The codes in a text, which blanks, commas, semicolons or new lines separate. Raises BadInput for more than `MOST`."""
    found = [each for each in re.split(r"[\s,;]+", pasted) if each]
    if len(found) > MOST:
        raise BadInput("codes", len(found), f"at most {MOST} at once")
    return found


def _seal(key: bytes, said: str) -> str:
    return b32encode(hmac.digest(key, said.encode(), "sha256")[:5]).decode()


def _mark(key: bytes) -> str:
    return b32encode(sha256(b"mark" + key).digest()[:5]).decode()[:3]


def _key() -> bytes:
    """This server's key."""
    return paths.kept_key(paths.codes_key(), "exercise codes")
