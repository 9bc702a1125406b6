"""Invented people: names by Faker, other data from reserved or invalid ranges, so that no string is real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faker import Faker

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WORD_SURNAMES = 0.15  # share of people whose surname is a common word, some of them stop words
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Person:
    """One invented person: the value of each kind of span. NAME.first and NAME.last are parts of NAME."""

    values: Mapping[str, str]


def faker(seed: int) -> Faker:
    """Faker with its own generator; repeatable for one seed within one version of Faker."""
    from faker import Faker  # takes a tenth of a second to import, and only generating the corpus needs it

    instance = Faker("en_US", use_weighting=False)
    instance.seed_instance(seed)
    return instance


def people(n: int, lists: Mapping[str, Sequence[str]], seed: int) -> list[Person]:
    """`n` people with distinct names and e-mail addresses."""
    fake, random = faker(seed), Random(seed)
    by_name: dict[str, Person] = {}
    while len(by_name) < n:
        first = fake.first_name()
        last = random.choice(lists["words"]) if random.random() < _WORD_SURNAMES else fake.last_name()
        if f"{first} {last}" not in by_name:
            by_name[f"{first} {last}"] = _person(first, last, len(by_name), lists, fake, random)
    return list(by_name.values())


def names(n: int, seed: int) -> list[str]:
    """`n` distinct full names."""
    fake = faker(seed)
    full_names: dict[str, None] = {}
    while len(full_names) < n:
        full_names[f"{fake.first_name()} {fake.last_name()}"] = None
    return list(full_names)


def lookalikes(lists: Mapping[str, Sequence[str]], n: int, seed: int) -> dict[str, list[str]]:
    """For each harmless kind a list of at most `n` entries to draw from; rare entries occur once or twice."""
    fake, random = faker(seed), Random(seed)
    return {
        "D:city": [fake.city() for _ in range(n)],
        "D:company": [fake.company() for _ in range(n)],
        "D:job title": [fake.job().lower() for _ in range(n)],
        "D:public figure": list(lists["figures"]),
        "D:jargon": list(lists["jargon"]),
        "D:year": [str(year) for year in range(1950, 2025)],
        "D:price": [f"${random.randrange(1, 400)}.{random.randrange(100):02d}" for _ in range(n)],
        "D:percentage": [f"{random.randrange(1, 90)}.{random.randrange(10)}%" for _ in range(n)],
        "D:product code": [f"{_letters(2, random)}-{random.randrange(100, 1000)}" for _ in range(n)],
    }


def _person(first: str, last: str, number: int, lists: Mapping[str, Sequence[str]], fake: Faker, random: Random) -> Person:
    domain = random.choice(("example.com", "example.org", "example.net"))  # RFC 2606: reserved
    birthday = f"{random.randrange(1, 29)} {random.choice(_MONTHS)} {random.randrange(1935, 2006)}"
    return Person(
        {
            "NAME": f"{first} {last}",
            "NAME.first": first,
            "NAME.last": last,
            "EMAIL": f"{first}.{last}{number}@{domain}".lower(),
            "PHONE": f"{random.randrange(201, 990)}-555-01{random.randrange(100):02d}",  # 555-0100 to 555-0199: for fiction
            "ADDRESS": f"{random.randrange(1, 999)} {fake.street_name()}, 000{random.randrange(1, 100):02d}",  # no such ZIP
            "SSN": f"9{random.randrange(100):02d}-{random.randrange(10, 50)}-{random.randrange(10_000):04d}",  # never issued
            "CARD": _card(random),
            "IBAN": f"GB00TEST{random.randrange(10**14):014d}",  # invalid: check digits are 02 to 98
            "DOB": birthday,
            "RECORD": f"ZZ-{random.randrange(10**6):06d}",
            "CONDITION": random.choice(lists["conditions"]),
            "DRUG": random.choice(lists["drugs"]),
            "EMPLOYER": f"{random.choice(lists['roles'])} at {random.choice(lists['places'])}",
        }
    )


def _card(random: Random) -> str:
    """A card number with a prefix of test cards, whose last digit fails Luhn's check."""
    body = f"400000{random.randrange(10**9):09d}"
    return f"{body}{(luhn(body) + random.randrange(1, 10)) % 10}"


def luhn(body: str) -> int:
    """Luhn check digit of a card number with these leading digits."""
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(body))]
    return -sum(digit // 10 + digit % 10 for digit in doubled) % 10


def _letters(n: int, random: Random) -> str:
    return "".join(random.choice(_LETTERS) for _ in range(n))
