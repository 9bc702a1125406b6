"""Any method on any data: the table of what goes with what, and a real small training for every pair of its parts.

One training for each family with each kind of data and each stream, each kind with each stream, and each setting of lists
with all of these: a greedy cover of all such pairs. Without noise every one of them must beat chance by a margin that was
set before the first was run.
"""

import json
import math
from collections.abc import Callable, Mapping
from itertools import combinations as pairs_of
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcl_core import checks, combinations, engine
from dpcl_core.combinations import REASONS, USUAL, Combination
from dpcl_core.data.card import Kind
from dpcl_core.events import CellFinished, References, of_kind
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import LABELS
from tests.data.making import put, write
from tests.support.asserting import document_of, refusal_of

MARGIN = 0.1  # over chance: ten points of a hundred, or of the F1 of names
N_CLASSES, PER_CLASS, N_TEST = 4, 60, 40
WORDS = ("river water lake boat", "goal match team score", "market price money share", "star planet orbit moon")
TOPICS = ("nature", "sports", "business", "science")
KINDS: Mapping[Kind, str] = {  # with a card of data of the same kind
    "image": "digits", "sensor": "har-wisdm", "text": "amazon-domains", "tagged": "ner-gum", "table": "own:table",
    "embedding": "own:embeddings",
}  # fmt: skip
WITHOUT_SOURCES = ("image", "table", "embedding")  # as they are made here
# Of each family the methods that learn something in a second, in turn.
QUICK: Mapping[str, tuple[str, ...]] = {
    "features": ("cosine", "naive"),
    "lifelong": ("dp-coeff-memory", "joint-network"),
    "language": ("lm-mtl", "lm-er"),  # one task after another alone forgets, as it should
    "federated": ("label-means", "fedta-lite"),
}
_LM = {"length": 12, "epochs": 12, "batch_size": 20, "lora_rank": 4, "learning_rate": 0.01}
PARAMS: Mapping[str, Mapping[str, object]] = {
    "naive": {"epochs": 20, "sample_rate": 0.5, "learning_rate": 0.1},
    "joint-network": {"epochs": 8, "batch_size": 20, "learning_rate": 0.01}, "lm-mtl": _LM, "lm-er": _LM,
    "label-means": {"dimensions": 4}, "fedta-lite": {"rounds": 5},
}  # fmt: skip
Row = tuple[str, str, str, str]  # family, kind, stream, labels


@pytest.fixture(scope="module")
def table() -> list[Combination]:
    return combinations.table(USUAL)


def test_every_family_starts_on_nearly_all_that_is_possible(table: list[Combination]) -> None:
    """What the table promises: 3,500 of 9,072, and of the structurally possible ones 95 of a hundred."""
    allowed = [one for one in table if one.allowed]
    possible = [one for one in table if one.reason not in REASONS]
    assert len(table) == 12 * 27 * 8 * 4
    assert len(allowed) >= 3500
    assert len(allowed) >= 0.95 * len(possible)
    assert len(REASONS) <= 8
    kinds = {name: combinations._card(name).kind for name in USUAL}
    for family, names in families().items():
        found = {kinds[one.dataset] for one in allowed if one.method in names}
        assert len({one.dataset for one in allowed if one.method in names}) >= 3, family
        assert len(found) >= (1 if family == "language" else 3), family


def families() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, card in methods.CARDS.items():
        found.setdefault(card.module.split(".")[2], []).append(name)
    return found


def test_every_reason_is_one_that_the_checks_have_too(table: list[Combination]) -> None:
    """Nothing is called impossible that a run would do, but for streams of sources, whose data a card does not open."""
    alike: dict[object, Combination] = {}
    for one in table:
        alike.setdefault((combinations._card(one.dataset).kind, one.method, one.stream, one.reason), one)
    for one in alike.values():
        if one.reason not in REASONS or one.reason == "no sources":
            continue
        data = combinations._card(one.dataset)
        spec = checks.parse({
            "method": one.method, "labels": "prior",
            "data": {"dataset": data.name, "backbone": network(data.kind, one.method)}, "scenario": {"kind": one.stream},
        })  # fmt: skip
        refusal_of(checks.check_cards, spec, data)


def test_the_terminal_prints_the_table(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = document_of(capsys, "list", "combinations")
    assert {"dataset", "method", "stream", "labels", "allowed", "reason"} == set(rows[0])
    assert all(bool(row["reason"]) != row["allowed"] for row in rows)
    assert not {row["reason"] for row in rows} & REASONS.keys(), "a sentence, no key"


def network(kind: str, method: str) -> str:
    if methods.card(method).params().inputs == "text":
        return "lm-tiny"
    return "hashed-text" if kind in ("text", "tagged") else "pixels"


# Small data of each kind, whose classes differ: what a method learns can be told from chance.


def values(random: np.random.Generator, label: int, n: int) -> np.ndarray:
    """n numbers in [-1, 1] about a place of the class's own."""
    place = np.random.default_rng(label).uniform(-0.8, 0.8, n)
    return np.clip(place + 0.1 * random.standard_normal(n), -1, 1).astype(np.float32)


def sensors(folder: Path, split: str, labels: list[int], random: np.random.Generator) -> None:
    windows = [(19 * np.repeat(values(random, label, 12), 25)).tolist() for label in labels]
    write(folder, split, window=windows, label=labels, rate_hz=[(20, 50)[row % 2] for row in range(len(labels))])


def texts(folder: Path, split: str, labels: list[int], random: np.random.Generator) -> None:
    strings = [" ".join(random.choice(WORDS[label].split(), 3)) for label in labels]
    write(folder, split, text=strings, label=[TOPICS[label] for label in labels], domain=domains(labels))


def names(folder: Path, split: str, labels: list[int], random: np.random.Generator) -> None:
    people, others = ("Ada", "Bob", "Eve", "Max"), ("slept", "ran", "ate", "sang", "there", "then", "well", "long")
    tokens = [[people[label], *random.choice(others, 3)] for label in labels]
    words, tags = (pa.array(one, pa.list_(pa.string())) for one in (tokens, [["B-PER", "O", "O", "O"]] * len(labels)))
    write(folder, split, tokens=words, tags=tags, domain=domains(labels))


def cells(folder: Path, split: str, labels: list[int], random: np.random.Generator) -> None:
    columns = [f"n{place}" for place in range(6)]
    put(folder / "schema.toml", "".join(f"[features.{one}]\nlow = -1\nhigh = 1\n" for one in columns))
    rows = [dict(zip(columns, values(random, label, 6).tolist(), strict=True)) | {"label": f"c{label}"} for label in labels]
    put(folder / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def vectors(folder: Path, split: str, labels: list[int], random: np.random.Generator) -> None:
    folder.mkdir(exist_ok=True)
    made = np.stack([values(random, label, 12) for label in labels])
    np.savez(folder / f"{split}.npz", embeddings=made, labels=np.array([f"c{label}" for label in labels]))


def domains(labels: list[int]) -> list[str]:
    return ["ab"[row // N_CLASSES % 2] for row in range(len(labels))]


MADE: Mapping[str, Callable[..., None]] = {
    "sensor": sensors, "text": texts, "tagged": names, "table": cells, "embedding": vectors,
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of every kind, each a folder of its own, and features that all runs share."""
    root = tmp_path_factory.mktemp("any")
    for kind, make in MADE.items():
        random = np.random.default_rng(7)
        for split, n in (("train", N_CLASSES * PER_CLASS), ("test", N_TEST)):
            make(root / "data" / kind, split, [row % N_CLASSES for row in range(n)], random)
    return root


def possible() -> list[Row]:
    """All families, kinds, streams and settings of lists that go together."""
    found = []
    for family, quick in QUICK.items():
        for kind, like in KINDS.items():
            for stream in scenarios.CARDS.values():
                is_made = stream.name != "source-incremental" or kind not in WITHOUT_SOURCES
                if is_made and not combinations.why_not(combinations._card(like), methods.card(quick[0]), stream):
                    found += [(family, kind, stream.name, labels) for labels in LABELS]
    return found


def cover(rows: list[Row]) -> list[Row]:
    """Some of the rows that have every pair of parts which any of them has: each time the one with most new pairs."""
    of = {row: set(pairs_of(enumerate(row), 2)) for row in rows}
    left, chosen = set().union(*of.values()), []
    while left:
        best = max(rows, key=lambda row: len(of[row] & left))
        left -= of[best]
        chosen.append(best)
    return chosen


COVER = cover(possible())


def test_the_cover_is_small_and_whole() -> None:
    assert len(COVER) <= 60
    for places in pairs_of(range(4), 2):
        wanted = {tuple(row[place] for place in places) for row in possible()}
        assert {tuple(row[place] for place in places) for row in COVER} == wanted


def settings(row: Row, place: int) -> dict[str, Any]:
    family, kind, stream, labels = row
    method = QUICK[family][place % len(QUICK[family])]
    scenario: dict[str, object] = {"kind": stream}
    if stream == "federated" and kind == "tagged":
        scenario["protocol"] = "domain-incremental"
    if stream != "source-incremental" and scenario.get("protocol") is None:
        scenario["tasks"] = 2
    if stream == "permuted" and kind not in ("text", "tagged"):
        scenario["of"] = "values"
    if methods.card(method).has_clients:
        scenario |= {"clients": 4, "alpha": 5.0}
    data = {"dataset": "digits" if kind == "image" else f"own:{kind}", "backbone": network(kind, method)}
    return {
        "method": method, "data": data, "scenario": scenario, "labels": labels, "params": PARAMS.get(method, {}),
        "privacy": {"epsilons": [math.inf], "delta": 1e-4, "noise": "seeded"}, "seeds": [0],
    }  # fmt: skip


@pytest.mark.parametrize("place", range(len(COVER)), ids=["-".join(row) for row in COVER])
def test_a_small_training_beats_chance(place: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(home / "home"))
    monkeypatch.setenv("DPCL_DATA", str(home / "data"))
    events = list(engine.run(checks.parse(settings(COVER[place], place))))
    known, (finished,) = next(of_kind(events, References)), of_kind(events, CellFinished)
    assert finished.metrics["AA"] >= known.chance + MARGIN
    assert math.isinf(finished.guarantee.epsilon)
