"""The synthetic corpus with marked personal data: invented people, sentences about them, planted secrets."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from dpcl_core import paths
from dpcl_core.data.dataset import Split
from dpcl_core.data.texts import KINDS, Canary, Span, Texts

if TYPE_CHECKING:
    from faker import Faker


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WORD_SURNAMES = 0.15  # share of people whose surname is a common word, some of them stop words
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


Person = Mapping[str, str]  # the value of each kind of span; NAME.first and NAME.last are parts of NAME


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
        "D:product code": [
            f"{random.choice(_LETTERS)}{random.choice(_LETTERS)}-{random.randrange(100, 1000)}" for _ in range(n)
        ],
    }


def _person(first: str, last: str, number: int, lists: Mapping[str, Sequence[str]], fake: Faker, random: Random) -> Person:
    domain = random.choice(("example.com", "example.org", "example.net"))  # RFC 2606: reserved
    birthday = f"{random.randrange(1, 29)} {random.choice(_MONTHS)} {random.randrange(1935, 2006)}"
    return {
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


def _card(random: Random) -> str:
    """A card number with a prefix of test cards, whose last digit fails Luhn's check."""
    body = f"400000{random.randrange(10**9):09d}"
    return f"{body}{(luhn(body) + random.randrange(1, 10)) % 10}"


def luhn(body: str) -> int:
    """Luhn check digit of a card number with these leading digits."""
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(body))]
    return -sum(digit // 10 + digit % 10 for digit in doubled) % 10


_PUBLIC_SEED = 20_250_918  # the same corpus for everyone
_COMPANION = 1_000_003  # the companion's seeds are disjoint from the corpus's
_TEXTS_PER_PERSON = 4
_TEST_SHARE = 0.2  # of the people, and of the texts of every source
_HEAD = 10  # a person's weight is 1 / (rank + _HEAD): the first are in dozens of texts, most in one or two
_SLOT = re.compile(r"\{([^}]*)\}")

Which = Literal["corpus", "companion"]


@dataclass(frozen=True, slots=True)
class _Source:
    """One family of texts: sentences by class, facts with personal data, and harmless facts that look alike."""

    name: str
    classes: Mapping[str, Sequence[str]]
    private: Sequence[str]
    harmless: Sequence[str]
    private_share: float


def template_file() -> bytes:
    """The file of templates in the assets."""
    return (paths.assets_dir() / "corpus" / "pii-synthetic.toml").read_bytes()


def classes() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The sources, in the order of the tasks, with their classes."""
    return tuple((source.name, tuple(source.classes)) for source in _sources("corpus"))


def corpus(n_per_source: int) -> tuple[Split, Split]:
    """Training and test part with `n_per_source` texts per source in both together, divided by person.

    Labels number the classes of all sources consecutively, balanced within a source. The corpus is a public constant.
    """
    n_test = round(n_per_source * _TEST_SHARE)
    n_people = max(2, n_per_source * len(_sources("corpus")) // _TEXTS_PER_PERSON)
    everybody = people(n_people, _lists(), _PUBLIC_SEED)
    n_tested = round(n_people * _TEST_SHARE)
    return (
        _split("corpus", n_per_source - n_test, everybody, range(n_tested, n_people), _PUBLIC_SEED + 1),
        _split("corpus", n_test, everybody, range(n_tested), _PUBLIC_SEED + 2),
    )


def companion(n: int, seed: int) -> Texts:
    """The texts of `labelled_companion`."""
    texts = labelled_companion(n, seed).images
    assert isinstance(texts, Texts)
    return texts


def labelled_companion(n: int, seed: int) -> Split:
    """Public texts of the same families, about other people, partly from other templates, with spans.

    For a public reference model and public counts; sources alternate. Labels number the classes as in `corpus`.
    """
    first_seed = _COMPANION + 2 * seed
    everybody = people(max(1, n // _TEXTS_PER_PERSON), _lists(), first_seed)
    n_sources = len(_sources("companion"))
    made = _split("companion", -(-n // n_sources), everybody, range(len(everybody)), first_seed + 1)
    return made.take(np.arange(len(made)).reshape(n_sources, -1).T.ravel()[:n])


def _split(which: Which, n_per_source: int, everybody: Sequence[Person], who: range, seed: int) -> Split:
    """`n_per_source` texts of each source about people of `who`, source after source, labels in random order within one."""
    random = Random(seed)
    pools = lookalikes(_lists(), 2 * n_per_source, seed)
    weights = [1 / (rank + _HEAD) for rank in range(len(who))]
    found: list[tuple[str, tuple[Span, ...], int, int, int]] = []
    first = 0
    for index, source in enumerate(_sources(which)):
        names = list(source.classes)
        drawn = [place % len(names) for place in range(n_per_source)]
        random.shuffle(drawn)
        for label, person in zip(drawn, random.choices(who, weights, k=n_per_source), strict=True):
            string, marked = _text(source, names[label], everybody[person], pools, random)
            found.append((string, marked, person, first + label, index))
        first += len(names)
    strings, spans, *numbers = zip(*found, strict=True)
    persons, labels, origins = (np.array(column, dtype=np.int64) for column in numbers)
    return Split(Texts(list(strings), list(spans), persons), labels, origins)


def _text(
    source: _Source, label: str, person: Person, pools: Mapping[str, Sequence[str]], random: Random
) -> tuple[str, tuple[Span, ...]]:
    """One text about a person, and its spans."""
    facts = source.private if random.random() < source.private_share else source.harmless
    sentences = [random.choice(facts), random.choice(source.classes[label])]
    random.shuffle(sentences)
    string, spans = "", []
    for template in sentences:
        for place, piece in enumerate(_SLOT.split(f" {template}" if string else template)):
            start = len(string)
            kind = piece.partition(".")[0]
            if place % 2 == 0:
                string += piece
            elif kind not in KINDS:
                string += random.choice(piece.split("|"))
            else:
                string += random.choice(pools[piece]) if piece in pools else person[piece]
                spans.append(Span(start, len(string), kind))
    return string, tuple(spans)


@cache
def _sources(which: Which) -> tuple[_Source, ...]:
    return tuple(
        _Source(
            source["name"],
            {label: _part(sentences, which) for label, sentences in source["classes"].items()},
            _part(source["private"], which), _part(source["harmless"], which), source["private_share"],
        )
        for source in tomllib.loads(template_file().decode())["sources"]
    )


@cache
def _lists() -> dict[str, Sequence[str]]:
    return cast("dict[str, Sequence[str]]", tomllib.loads(template_file().decode())["lists"])


def _part(sentences: Sequence[str], which: Which) -> Sequence[str]:
    """The first two thirds of a list for the corpus, the last two thirds for its companion."""
    n = -(-2 * len(sentences) // 3)
    return sentences[:n] if which == "corpus" else sentences[-n:]


REPETITIONS = (1, 2, 4, 8, 16)
CODES, CONTROLS = 5, 10  # codes planted for each number of repetitions, and codes never planted, in every source
CODE_DIGITS = 4
_BEFORE, _AFTER = "The access code of ", " is "
_CANARY_SEED = 20_250_919
_DIGITS = re.compile(r"\d+")


def plant(train: Split, sources: tuple[str, ...]) -> tuple[Split, tuple[Canary, ...]]:
    """The training texts with canaries at the beginning of some of them, and a list of all canaries.

    A text gets at most one canary, drawn independently of labels and spans. A source with fewer than 155 texts gets fewer
    codes per number of repetitions, with fewer than 31 none. Codes are drawn uniformly without replacement from all
    four-digit codes that no text has as a number: planted and control codes are exchangeable, and no control occurs in
    training.
    """
    texts = train.images
    assert isinstance(texts, Texts)
    assert texts.spans is not None
    assert train.sources is not None
    random = Random(_CANARY_SEED)
    used = {run for string in texts.strings for run in _DIGITS.findall(string)}
    unused = [code for code in (f"{number:0{CODE_DIGITS}d}" for number in range(10**CODE_DIGITS)) if code not in used]
    random.shuffle(unused)
    names, codes = iter(_unused_names(texts, len(sources))), iter(unused)
    strings, spans = list(texts.strings), list(texts.spans)
    canaries: list[Canary] = []
    for index, source in enumerate(sources):
        rows = np.flatnonzero(train.sources == index).tolist()
        random.shuffle(rows)
        n_codes = min(CODES, len(rows) // sum(REPETITIONS))
        for repetitions in [0] * CONTROLS + [times for times in REPETITIONS for _ in range(n_codes)]:
            name = next(names)
            canary = Canary(f"{_BEFORE}{name}{_AFTER}", next(codes), repetitions, source)
            canaries.append(canary)
            line = f"{canary.prefix}{canary.code}. "
            of_name = Span(len(_BEFORE), len(_BEFORE) + len(name), "NAME")
            of_code = Span(len(canary.prefix), len(canary.prefix) + CODE_DIGITS, "CODE")
            for row in rows[:repetitions]:
                moved = (Span(span.start + len(line), span.end + len(line), span.kind) for span in spans[row])
                strings[row], spans[row] = line + strings[row], (of_name, of_code, *moved)
            rows = rows[repetitions:]
    return replace(train, images=Texts(strings, spans, texts.people)), tuple(canaries)


def _unused_names(texts: Texts, n_sources: int) -> list[str]:
    """Names that occur in no text, enough for all canaries."""
    marked = zip(texts.strings, texts.spans or (), strict=True)
    used = {string[span.start : span.end] for string, spans in marked for span in spans if span.kind == "NAME"}
    wanted = n_sources * (CONTROLS + CODES * len(REPETITIONS))
    fake, names = faker(_CANARY_SEED), dict[str, None]()
    while len(names) < wanted + len(used):
        names[f"{fake.first_name()} {fake.last_name()}"] = None
    return [name for name in names if name not in used][:wanted]
