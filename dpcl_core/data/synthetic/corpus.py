"""The texts of the synthetic corpus, composed from templates so that every span is known exactly.

A text is one sentence of its class and one fact, in random order. Facts and people are drawn independently of the class, and
sentences of a class have no spans: personal data are independent of the label.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

import numpy as np

from dpcl_core import paths
from dpcl_core.data.dataset import Split
from dpcl_core.data.synthetic.people import Person, lookalikes, people
from dpcl_core.data.texts import KINDS, Span, Texts

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
    order = np.arange(len(made)).reshape(n_sources, -1).T.ravel()
    return made.take(order[:n])


def _split(which: Which, n_per_source: int, everybody: Sequence[Person], who: range, seed: int) -> Split:
    """`n_per_source` texts of each source about people of `who`, source after source, labels in random order within one."""
    random = Random(seed)
    pools = lookalikes(_lists(), 2 * n_per_source, seed)
    weights = [1 / (rank + _HEAD) for rank in range(len(who))]
    strings, spans, persons, labels, origins = [], [], [], [], []
    first = 0
    for index, source in enumerate(_sources(which)):
        names = list(source.classes)
        drawn = [place % len(names) for place in range(n_per_source)]
        random.shuffle(drawn)
        for label, person in zip(drawn, random.choices(who, weights, k=n_per_source), strict=True):
            string, marked = _text(source, names[label], everybody[person], pools, random)
            strings.append(string)
            spans.append(marked)
            persons.append(person)
            labels.append(first + label)
            origins.append(index)
        first += len(names)
    texts = Texts(strings, spans, np.array(persons, dtype=np.int64))
    return Split(texts, np.array(labels, dtype=np.int64), np.array(origins, dtype=np.int64))


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
                string += random.choice(pools[piece]) if piece in pools else person.values[piece]
                spans.append(Span(start, len(string), kind))
    return string, tuple(spans)


@cache
def _sources(which: Which) -> tuple[_Source, ...]:
    return tuple(
        _Source(
            name=source["name"],
            classes={label: _part(sentences, which) for label, sentences in source["classes"].items()},
            private=_part(source["private"], which),
            harmless=_part(source["harmless"], which),
            private_share=source["private_share"],
        )
        for source in tomllib.loads(template_file().decode())["sources"]
    )


@cache
def _lists() -> dict[str, Sequence[str]]:
    lists: dict[str, Sequence[str]] = tomllib.loads(template_file().decode())["lists"]
    return lists


def _part(sentences: Sequence[str], which: Which) -> Sequence[str]:
    """The first two thirds of a list for the corpus, the last two thirds for its companion."""
    n = -(-2 * len(sentences) // 3)
    return sentences[:n] if which == "corpus" else sentences[-n:]
