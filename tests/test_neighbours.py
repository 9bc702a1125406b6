"""Neighbours through every door and every method: all that is no release is the same, whatever training rows hold.

D and D' differ in training rows alone. What is compared stands in `tests.support.outside`: exit status, standard output and
error, titles, sizes, progress, previews, notes, statements, stored runs, every exported file.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcl_core import checks, engine, export
from dpcl_core.data import catalog, files, load, outline, rows
from dpcl_core.data.card import Kind
from dpcl_core.data.dataset import Images
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios_catalog
from dpcl_core.spec import RunSpec
from tests.data.making import write
from tests.data.test_images import in_lab, long_transparency
from tests.support import outside
from tests.support.asserting import refusal_of
from tests.support.doors import DOORS, SINGLE, TOGETHER, Change
from tests.support.tiers import of_methods

Door = tuple[Kind, str]
Raw = Mapping[str, Any]
PICTURES: Door = ("image", ".parquet")
WINDOWS: Door = ("sensor", ".parquet")
TEXTS: Door = ("text", ".parquet")
TAGGED: Door = ("tagged", ".parquet")
TABLE: Door = ("table", ".jsonl")
VECTORS: Door = ("embedding", ".npz")
D = Change()
_BATCHES = {"batch_size": 20, "epochs": 1}
_LM = {"length": 24, "epochs": 1, "batch_size": 40, "lora_rank": 2}
_HEADS = {"epochs": 2, "sample_rate": 0.5}
_ROUNDS = {"rounds": 2, "local_steps": 1, "hidden": 4, "batch_size": 4, "participation": 1.0}
_LISTS = {"dimensions": 4, "anchors": 20, "restarts": 1}
_SERVER = {"steps": 1, "samples": 2, "hidden": 0}
_DOMAINS = {"kind": "federated", "clients": 3, "protocol": "domain-incremental", "tasks": 2}
_ONE_OF_ALL = {"kind": "federated", "clients": 3, "protocol": "one-vs-rest", "tasks": 2}
_CLASSES = {"kind": "federated", "clients": 3, "tasks": 2}
_LEARNED = {"labels": "dp-learned", "privacy": {"epsilons": [40.0]}}  # so that no list is empty, which a table would show
# Every method of the catalogue on a door and with settings that take a second; one without a row makes a test red.
METHODS: Mapping[str, tuple[Door, Raw]] = {
    "cosine": (PICTURES, _LEARNED),
    "peft-ensemble": (WINDOWS, {**_LEARNED, "params": _HEADS}),
    "naive": (PICTURES, {"labels": "prior-const", "params": _HEADS, "scenario": {"kind": "i-blurry", "tasks": 2}}),
    "non-cl": (TEXTS, {**_LEARNED, "params": _HEADS, "scenario": {"kind": "si-blurry", "tasks": 2}}),
    "agem": (PICTURES, {"params": _BATCHES, "privacy": {"epsilons": [math.inf]}}),
    "l2dp-ml": (PICTURES, {"params": _BATCHES}),
    "joint-network": (PICTURES, {"params": _BATCHES, "privacy": {"epsilons": [math.inf]}}),
    "dp-agem": (TABLE, {"params": {"epochs": 1, "sample_rate": 0.5, "memory_size": 8, "replay_rate": 0.5}}),
    "dp-coeff-memory": (WINDOWS, {"scenario": {"kind": "permuted", "tasks": 2}, "labels": "prior-const"}),
    "independent-laplace": (PICTURES, {"params": {"steps": 2}, "privacy": {"adjacency": "replace"}}),
    **{name: (TEXTS, {"params": _LM}) for name in ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl")},
    "pecl-published": (TEXTS, {"params": {**_LM, "score2_scope": "all"}, "privacy": {"epsilons": [10.0]}}),
    "cslr-server-head": (TEXTS, {"params": {**_LISTS, **_SERVER}, "scenario": _CLASSES}),
    "cslr-central": (TEXTS, {"params": {**_LISTS, **_ROUNDS}, "scenario": _ONE_OF_ALL}),
    "cslr-published": (TEXTS, {"params": {"anchors": 20, "restarts": 1, **_ROUNDS}, "scenario": _CLASSES}),
    "dp-stat-share": (TAGGED, {"params": {**_LISTS, "list_size": 1, **_ROUNDS}, "scenario": _DOMAINS}),
    "local-list": (TAGGED, {"params": {**_LISTS, **_SERVER}, "scenario": _DOMAINS}),
    "label-means": (TAGGED, {"params": {"dimensions": 4}, "scenario": {**_DOMAINS, "clients": 4, "partition": "domain"}}),
    "dp-fedavg": (TAGGED, {"params": _ROUNDS, "scenario": _DOMAINS}),
    "fedcil-dp": (VECTORS, {"params": {**_ROUNDS, "noise_size": 2, "consolidation_steps": 1}, "scenario": _CLASSES}),
    "fedta-lite": (TEXTS, {"params": _ROUNDS, "scenario": _CLASSES, "privacy": {"epsilons": [math.inf]}}),
}


_FREE = {"epsilons": [math.inf]}
_REPLAYED = {"epochs": 1, "sample_rate": 0.5, "memory_size": 8, "replay_rate": 0.5}
# Methods on doors, streams and lists that were opened to them later, by what is new: clients in any stream and on any data,
# lists that are given, networks on features.
_NEW: Mapping[str, tuple[str, Door, Raw]] = {
    "clients with pictures": ("label-means", PICTURES, {**_LEARNED, "params": {"dimensions": 4, "radius": 0.5}}),
    "clients with tables": ("cslr-server-head", TABLE, {"params": {**_LISTS, **_SERVER}}),
    "clients with windows": ("fedta-lite", WINDOWS, {"params": _ROUNDS, "labels": "data", "privacy": _FREE}),
    "clients with embeddings": ("cslr-central", VECTORS, {**_LEARNED, "params": {**_LISTS, **_ROUNDS}}),
    "clients with tagged words": ("dp-fedavg", TAGGED, {**_LEARNED, "params": _ROUNDS}),
    "a network on texts": ("dp-agem", TEXTS, {**_LEARNED, "params": _REPLAYED}),
    "texts in another order": ("dp-coeff-memory", TEXTS, _LEARNED),
    "a blurred stream of texts": ("lm-seqft", TEXTS, {**_LEARNED, "params": _LM}),
    "adapters on texts": ("peft-ensemble", TEXTS, {
        **_LEARNED, "params": {**_HEADS, "adapter": "lora", "lora_rank": 1},
        "data": {"dataset": "own:mine", "backbone": "lm-tiny"},
    }),
    "a network of one's own": ("naive", WINDOWS, {
        **_LEARNED, "params": {**_HEADS, "adapter": "all"}, "data": {"dataset": "own:mine", "backbone": "own:windows"},
    }),
    "one class against the rest, read": ("lm-seqft", TEXTS, {**_LEARNED, "params": _LM}),
    "one class against the rest, seen": ("naive", PICTURES, {**_LEARNED, "params": _HEADS}),
    "one class against the rest, remembered": ("dp-coeff-memory", WINDOWS, {"labels": "prior-const"}),
    "one class against the rest, held": ("dp-fedavg", VECTORS, {**_LEARNED, "params": _ROUNDS}),
    "sentences that no client holds": ("cosine", TAGGED, {"labels": "prior-const"}),
    "a layer that grows": ("naive", VECTORS, {**_LEARNED, "params": _HEADS}),
}
_STREAMS: Mapping[str, Raw] = {
    "clients with pictures": {"kind": "si-blurry", "tasks": 2, "clients": 3},
    "clients with tables": _CLASSES,
    "clients with windows": {"kind": "permuted", "tasks": 2, "clients": 3},
    "clients with embeddings": {"kind": "split", "tasks": 2, "clients": 3},
    "clients with tagged words": {"kind": "source-incremental", "clients": 3},
    "texts in another order": {"kind": "permuted", "tasks": 2},
    "a blurred stream of texts": {"kind": "i-blurry", "tasks": 2},
    "sentences that no client holds": {"kind": "permuted", "tasks": 2, "images": "disjoint"},
    "one class against the rest, read": {"kind": "one-vs-rest", "tasks": 2},
    "one class against the rest, seen": {"kind": "one-vs-rest"},
    "one class against the rest, remembered": {"kind": "one-vs-rest", "tasks": 2},
    "one class against the rest, held": {"kind": "one-vs-rest", "tasks": 2, "clients": 3},
}
ALSO = {
    name: (method, door, {**changes, **({"scenario": _STREAMS[name]} if name in _STREAMS else {})})
    for name, (method, door, changes) in _NEW.items()
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of public sentences are computed once for all tests here."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def shared(home: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(home))


def spec(method: str, changes: Raw, kind: Kind, **more: object) -> RunSpec:
    """One budget and one seed, under seeded noise, so that no test depends on luck."""
    of_values = kind in ("image", "sensor", "table", "embedding")
    backbone = "pixels" if of_values else "lm-tiny" if method[:3] in ("lm-", "pec") else "hashed-text"
    raw = {"scenario": {"kind": "class-incremental", "tasks": 2}, "labels": "prior", "seeds": [0], **changes, **more}
    privacy = {"epsilons": [4.0], "delta": 1e-4, "noise": "seeded", **raw.pop("privacy", {})}  # type: ignore[dict-item]
    return checks.parse({"method": method, "data": {"dataset": "own:mine", "backbone": backbone}, "privacy": privacy, **raw})


def lies(door: Door, change: Change, root: Path, patch: pytest.MonkeyPatch) -> None:
    """Puts a neighbour where `own:mine` is looked for."""
    folder = root / f"{len(list(root.glob('neighbour *')))}".join(("neighbour ", ""))
    folder.mkdir()
    patch.setenv("DPCL_DATA", str(folder))
    DOORS[door](folder / "mine", change)


def said(asked: RunSpec) -> list[object]:
    """All that the engine says outside releases, and what pages draw and list before a run."""
    drawn = scenarios_catalog.preview(asked.data, asked.scenario, 0)
    facts = catalog.facts(asked.data.dataset, catalog.Caps(10, 5)), catalog.facts(asked.data.dataset)
    return [*outside.events(list(engine.run(asked))), None if drawn is None else asdict(drawn), facts]


def run_of(kind: Kind, setting: str) -> RunSpec:
    """A cheap run on data of this kind."""
    if kind == "tagged":
        return spec("label-means", {"scenario": _DOMAINS}, kind, labels=setting)
    return spec("cosine", {}, kind, labels=setting)


SETTINGS = [(door, setting) for door in DOORS for setting in ("prior-const", "dp-learned")]


def test_every_door_and_every_method_is_tried() -> None:
    assert {kind for kind, _ in DOORS} == set(get_args(Kind))
    assert {form for _, form in DOORS} == {*files.TABLES, "folder"}
    assert METHODS.keys() == methods.CARDS.keys()
    assert {door[0] for door, _ in METHODS.values()} == set(get_args(Kind))


def at_both(door: Door, other: Change, root: Path, patch: pytest.MonkeyPatch, ask: Callable[[], Any]) -> list[Any]:
    """What is answered where the data are D, and where they are a neighbour."""
    found = []
    for change in (D, other):
        lies(door, change, root, patch)
        found.append(ask())
    return found


# One change at a time finds no more than all at once, but names the one that a run gives away.
@pytest.mark.parametrize("name", ["all at once", *(pytest.param(name, marks=pytest.mark.slow) for name in SINGLE)])
@pytest.mark.parametrize(("door", "setting"), SETTINGS)
def test_training_rows_change_nothing_outside_the_releases(door, setting, name, data_dir, tmp_path, monkeypatch):
    change = SINGLE.get(name, TOGETHER)
    assert_same(*at_both(door, change, tmp_path, monkeypatch, lambda: said(run_of(door[0], setting))))


def odd_pictures(folder: Path, *, is_there: bool) -> None:
    for name, content in (("odd.png", long_transparency()), ("odd.tif", in_lab())):
        if is_there:
            (folder / "train" / "c1" / name).write_bytes(content)


def deep_lines(folder: Path, *, is_there: bool) -> None:
    with (folder / "train.jsonl").open("a", encoding="utf-8") as file:
        for depth in (40, 60, *range(300, 1100), 100_000) if is_there else ():
            file.write(f'{{"size": "7", "colour": "red", "note": {"[" * depth}{"]" * depth}, "label": "c1"}}\n')


def endless_spans(folder: Path, *, is_there: bool) -> None:
    """Nobody has marked anything, but the odd ones."""
    kind = pa.list_(pa.struct([("start", pa.float64()), ("end", pa.float64()), ("kind", pa.string())]))
    odd = [[{"start": start, "end": 2.0, "kind": "name"}] for start in (math.inf, -math.inf, math.nan, 1e300) if is_there]
    table = pq.read_table(folder / "train.parquet")
    more = pa.table({"text": ["somebody else"] * len(odd), "label": ["c1"] * len(odd)}, schema=table.schema)
    table = pa.concat_tables([table, more]).append_column("spans", pa.array([[]] * len(table) + odd, kind))
    pq.write_table(table, folder / "train.parquet")


TREACHEROUS: Mapping[str, tuple[Door, Callable[..., None]]] = {
    "pictures that fail in conversion": (("image", "folder"), odd_pictures),
    "spans that begin at infinity": (TEXTS, endless_spans),
    "lines of JSON nested at all depths": (TABLE, deep_lines),
}


@pytest.mark.parametrize("name", TREACHEROUS)
def test_rows_that_once_broke_their_reader_change_nothing_outside_the_releases(name, data_dir, tmp_path, monkeypatch):
    door, put = TREACHEROUS[name]
    found = []
    for is_there in (False, True):
        lies(door, D, tmp_path, monkeypatch)
        put(Path(os.environ["DPCL_DATA"]) / "mine", is_there=is_there)
        found.append(said(run_of(door[0], "prior-const")))
    assert_same(*found)


def assert_same(expected: object, found: object) -> None:
    """Arrays and not-a-numbers included, by what they print."""
    with np.printoptions(threshold=10**9):
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("method", of_methods(METHODS))
def test_through_every_method_the_terminal_and_all_files_are_the_same(method, data_dir, tmp_path, monkeypatch):
    """Files with pictures, 5 MB each, are made for one method: the others' are made by the same code."""
    if method != "cosine":
        monkeypatch.setattr(export, "_figures", lambda *_: {})
    held_against(method, *METHODS[method], tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ALSO)
def test_through_every_new_door_the_terminal_and_all_files_are_the_same(name, data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_figures", lambda *_: {})
    monkeypatch.setenv("DPCL_NETWORKS", "tests.support.own_networks")
    held_against(*ALSO[name], tmp_path, monkeypatch)


def held_against(method: str, door: Door, changes: Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = at_both(door, TOGETHER, tmp_path, monkeypatch, lambda: outside.terminal(
        spec(method, changes, door[0]), Path(mkdtemp(dir=tmp_path)) / "mine"
    ))  # fmt: skip
    assert first["run"][0] == 0, first["run"]  # type: ignore[index]
    assert {"result.json", "privacy_card.json", "accuracy.csv", "command.txt", "classifier.json"} <= first.keys()
    assert any(name.endswith("-task-2.safetensors") for name in first), "the released classifier is among what is compared"
    assert "\n".join(outside.differences(other, first)) == ""
    references = first["result.json"]["references"]  # type: ignore[index]
    assert 0 <= references["chance"] <= 1
    assert references["ceiling"] is None, "a person's own data have none"
    assert (references["untrained"] is not None) == (door[0] == "text"), "the other doors here have no pretrained network"


# Of 35 to 44 tokens, more than `checks.check_run` keeps free after a text.
_LONG_NAMES = (
    "topic number 0: zoology, botany, mycology, bacteriology and veterinary pharmacology",
    "topic number 1: jurisprudence, notarial deeds, arbitration and extradition law",
    "topic number 2: metallurgy, galvanisation, electroplating and powder technology",
    "topic number 3: ethnomusicology, choreography, puppetry and scenography",
)


@pytest.mark.parametrize("method", ["lm-seqft", "pecl"])
def test_a_text_that_would_not_fit_is_refused_whether_somebody_has_one_or_not(method, tmp_path, monkeypatch):
    """The length of private texts decides nothing: the setting, the tasks' names and the public labels do."""
    rows = [(f"text number {row} of many", _LONG_NAMES[row % 4]) for row in range(120)]
    long = [("word " * 20_000, _LONG_NAMES[1])]
    found = []
    for place, (train, test) in enumerate(((rows, rows[:40]), (rows[:-1] + long, rows[:40]), (rows, rows[:39] + long))):
        monkeypatch.setenv("DPCL_DATA", str(tmp_path / str(place)))
        for split, part in (("train", train), ("test", test)):
            write(tmp_path / str(place) / "mine", split, text=[text for text, _ in part], label=[name for _, name in part])
        with pytest.raises(BadInput, match=r"^params\.length = 216: must be at most 2\d\d: a text with its") as refused:
            list(engine.run(spec(method, {"params": {**_LM, "length": 216}}, "text")))
        found.append(str(refused.value))
    assert len(set(found)) == 1, found


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_refuses_is_said_in_public_numbers(method, data_dir, tmp_path, monkeypatch):
    """A delta, tasks, clients, batches that are too large: the sentence names nominal sizes, never what was counted."""
    door, changes = METHODS[method]
    scenario = changes.get("scenario", {"kind": "class-incremental"})
    refused: list[Raw] = [{"privacy": {**changes.get("privacy", {}), "delta": 0.5}}]
    refused += [{"scenario": {**scenario, "tasks": 50}}] if scenario["kind"] != "permuted" else []
    refused += [{"scenario": {**scenario, "clients": 5000}}] if "clients" in scenario else []
    if methods.card(method).batch_size(methods.card(method).params()):
        refused.append({"params": {**changes["params"], "batch_size": 5000}})

    def refusals() -> list[str]:
        return [str(refusal_of(checks.check_run, spec(method, changes, door[0], **one))) for one in refused]

    of_d, of_neighbour = at_both(door, TOGETHER, tmp_path, monkeypatch, refusals)
    assert of_d == of_neighbour


def test_batches_of_ones_own_data_are_held_against_public_sizes_alone(data_dir, tmp_path, monkeypatch):
    """Two tasks of 160 / 2 nominal examples: a batch of 80 is allowed and runs, though no task has so many; 81 is not."""
    changes = {**METHODS["agem"][1], "params": {"epochs": 1, "batch_size": 80}}
    for change in (D, Change(fewer=118)):
        lies(PICTURES, change, tmp_path, monkeypatch)
        *_, last = engine.run(spec("agem", changes, "image"))
        assert type(last).__name__ == "CellFinished"
        with pytest.raises(BadInput, match=r"^params\.batch_size = 81: must be at most 80, the number of training examples"):
            checks.check_run(spec("agem", {**changes, "params": {"epochs": 1, "batch_size": 81}}, "image"))


@pytest.mark.parametrize("algorithm", ["batches", "whole-task"])
def test_tasks_of_ones_own_data_that_nobody_is_in_are_learned_from_noise_alone(algorithm, data_dir, tmp_path, monkeypatch):
    """Two rows are left for four tasks, so that two or more of these are empty: the run ends as one with rows does."""
    stream = {"scenario": {"kind": "si-blurry", "tasks": 4}, "labels": "prior-const", "seeds": [0]}
    changes = {**stream, "params": {"batch_size": 4, "algorithm": algorithm}, "privacy": {"epsilons": [1.0], "delta": 1e-5}}
    for change in (D, Change(fewer=118)):
        lies(("embedding", ".npz"), change, tmp_path, monkeypatch)
        *_, last = engine.run(spec("l2dp-ml", changes, "embedding"))
        assert type(last).__name__ == "CellFinished"


@pytest.mark.parametrize("setting", ["prior-const", "dp-learned"])
@pytest.mark.parametrize("method", ["cosine", "peft-ensemble"])
def test_another_row_of_the_bundled_digits_changes_nothing_outside_the_releases(method, setting, data_dir, monkeypatch):
    """One more, and one replaced, in the training part: coins of their own bytes say that the new pictures are in it."""
    pictures, named = rows.digits()
    pixels = np.asarray(pictures.content)
    (whole,) = catalog.outlines(catalog.card("digits"))
    first = int(whole.train.rows[0])
    new = np.full((1, 8, 8, 1), 17, np.uint8)
    replaced = pixels.copy()
    replaced[first] = new[0]
    neighbours = [
        (pixels, named), (np.concatenate([pixels, new]), np.append(named, named[first])), (replaced, named)
    ]  # fmt: skip
    params = {} if method == "cosine" else {"epochs": 1, "sample_rate": 0.5}
    data = {"dataset": "digits", "backbone": "pixels", "train_per_class": 20, "test_per_class": 5}
    asked = spec(method, {"labels": setting, "data": data, "params": params}, "image")
    found = []
    for content, of in neighbours:
        monkeypatch.setattr(rows, "digits", lambda one=content, other=of: (Images(one, (8, 8, 1)), other))
        forget()
        (now,) = catalog.outlines(catalog.card("digits"))
        assert len(now.test.rows) == len(whole.test.rows), "the new picture is in the training part"
        facts = catalog.facts("digits"), catalog.facts("digits", catalog.Caps(20, 5))
        found.append([outside.events(list(engine.run(asked))), *facts])
    monkeypatch.undo()
    forget()
    for other in found[1:]:
        assert_same(found[0], other)


def forget() -> None:
    """Bundled data never change, and are kept for good."""
    for kept in (outline._outline, outline.keys_of, load._read_labels, scenarios_catalog._counted):
        kept.cache_clear()
