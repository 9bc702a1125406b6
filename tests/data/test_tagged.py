"""Sentences with tagged words: parquet and CoNLL files, subsets and divisions by sentence, and what is refused."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcl_core.data import catalog, load, own
from dpcl_core.data.dataset import Dataset
from dpcl_core.data.texts import Sentences
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as previews
from dpcl_core.scenarios.catalog import Federated, preview
from dpcl_core.spec import DataSpec
from tests.data.making import write

MINE = "own:mine"
WORDS = [["Ada", "Smith", "slept"], ["Rain", "fell"], ["Acme", "grew"]]
TAGS = [["B-PER", "I-PER", "O"], ["O", "O"], ["B-ORG", "O"]]


def line(word: str, entity: str, document: str = "bc/some/00/some_0001") -> str:
    return f"{document} 0 0 {word} NN * - - - - {entity} -"


def document(*words: str, name: str = "bc/some/00/some_0001") -> str:
    """A document of one sentence, words written as word=entity."""
    lines = [line(*word.split("="), name) for word in words]
    return "\n".join([f"#begin document ({name}); part 000", *lines, "", "#end document", ""])


def put(folder: Path, **files: str) -> None:
    (folder / "mine").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "mine" / f"{name}.conll").write_text(content, encoding="utf-8")


def read(**subset: int) -> Dataset:
    return load.load(DataSpec(dataset=MINE, **subset))  # type: ignore[arg-type]


def words(found: Dataset, split: str = "train") -> list[tuple[str, ...]]:
    content = getattr(found, split).images
    assert isinstance(content, Sentences)
    return list(content.words)


def refused() -> str:
    with pytest.raises(BadInput) as caught:
        read()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_parquet_files_give_a_row_a_word(data_dir: Path) -> None:
    for split in ("train", "test"):
        write(data_dir / "mine", split, tokens=WORDS, tags=TAGS, domain=["a", "b", "a"])
    found = read()
    assert found.classes == ("O", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert [found.classes[label] for label in found.train.labels] == functools.reduce(operator.iadd, TAGS, [])
    assert [found.sources[place].name for place in found.train.sources.tolist()] == list("aaabbaa")  # type: ignore[union-attr]
    assert words(found) == [tuple(sentence) for sentence in WORDS]
    assert found.train.images.sentence_of.tolist() == [0, 0, 0, 1, 1, 2, 2]  # type: ignore[union-attr]
    assert (len(found.train), len(found.train.images)) == (7, 7)
    assert found.title == "mine (own data)"
    assert own.names() == [MINE]


def test_conll_files_of_ontonotes_are_read(data_dir: Path) -> None:
    spoken = document("Ada=(PERSON*", "Smith=*)", "of=*", "Acme=(ORG)", "slept=*")
    put(data_dir, train=spoken + document("Rain=*", name="nw/x/1"), test=spoken + document("Rome=(GPE)", name="nw/x/2"))
    found = read()
    assert found.classes == ("O", "B-GPE", "I-GPE", "B-ORG", "I-ORG", "B-PERSON", "I-PERSON"), "those of the test part"
    put(data_dir, test=spoken + document("Rome=(ORG)", name="nw/x/2"), train=spoken + document("Rain=*", name="nw/x/1")
        + document("Mars=(PLANET)") + document("Ada=*)") + document("New=*", name="xx/x/1"))  # fmt: skip
    found = read()
    assert [found.classes[label] for label in found.train.labels] == ["B-PERSON", "I-PERSON", "O", "B-ORG", "O", "O"]
    assert [source.name for source in found.sources] == ["bc", "nw"]
    assert words(found) == [("Ada", "Smith", "of", "Acme", "slept"), ("Rain",)]
    card = catalog.card(MINE)
    assert (card.kind, card.held_out) == ("tagged", None)


def test_a_single_conll_file_is_divided_by_sentence(data_dir: Path) -> None:
    told = [document(f"{genre}{n}=(ORG)", f"v{n}=*", name=f"{genre}/x/{n}") for n in range(100) for genre in ("bc", "nw")]
    put(data_dir, everything="".join(told))
    found = read()
    assert len(words(found)) + len(words(found, "test")) == 200
    assert abs(len(words(found, "test")) - 40) < 34, "six standard deviations of a binomial of 200 at 0.2"
    assert not set(words(found)) & set(words(found, "test"))


def test_a_subset_counts_sentences_of_each_source(data_dir: Path) -> None:
    told = [[f"{word}{n}" for word in sentence] for n in range(300) for sentence in WORDS]
    for split in ("train", "test"):
        write(data_dir / "mine", split, tokens=told if split == "train" else WORDS * 300, tags=TAGS * 300,
              domain=["a", "b", "a"] * 300)  # fmt: skip
    found = read(train_per_class=100, test_per_class=1)
    lengths = [len(sentence) for sentence in words(found)]
    assert abs(len(words(found)) - 50) < 42, "100 of nominally 2,400 and 1,200: six standard deviations of two binomials"
    assert len(words(found, "test")) == 2
    assert sum(lengths) == len(found.train.labels), "sentences are whole"
    facts = catalog.facts(MINE, catalog.Caps(100, 1))
    assert (facts.n_train, facts.n_test) == (found.n_people, len(found.test))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must hold at least one sentence in the form of OntoNotes"),
        ("a\n", "mine/test.conll line 1 = 1 columns: must have a word first and its tag last"),
        ("a b c\n", "mine/test.conll line 1 = another tag: must end in O, or in B-, I-, E- or S-"),
        (document("Ada=(PER*", "slept=*"), "line 4 = end of a sentence: a name was opened before and is not closed"),
        (document("Ada=*)"), "line 2 = brackets that do not fit: its 11th column must open or close one name"),
        (document("Ada=(PER*", "Smith=(PER)"), "line 3 = brackets that do not fit"),
        (document("Ada=Person"), "line 2 = brackets that do not fit"),
    ],
)
def test_conll_files_that_cannot_be_read(content: str, said: str, data_dir: Path) -> None:
    put(data_dir, train=document("Ada=(PER)"), test=content)
    sentence = refused()
    assert said in sentence
    assert "Ada" not in sentence, "a word may be private, and failures are kept"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"tokens": [["a"], ["b", "c"]], "tags": [["O"], ["O"]]}, "sentence 1 = 2 and 1: must have as many tags as tokens"),
        ({"tokens": [["a"], []], "tags": [["O"], []]}, "sentence 1 = 0 and 0: must have as many tags as tokens"),
        ({"tokens": [["a"]], "tags": [["I-"]]}, None),
    ],
)
def test_parquet_files_that_cannot_be_read(columns: dict[str, object], said: str | None, data_dir: Path) -> None:
    for split in ("train", "test"):
        write(data_dir / "mine", split, **columns)
    if said is not None:
        assert said in refused()


def test_sentences_are_only_taken_whole() -> None:
    sentences = Sentences([("a", "b"), ("c",), ("d", "e")])
    assert sentences.take(np.array([2, 3, 4])).words == [("c",), ("d", "e")]
    with pytest.raises(ValueError, match="whole"):
        sentences.take(np.array([0, 2]))


REAL = {
    "amazon-domains": (12_760, 3_000, 2, 10, "Amazon reviews of ten domains"),
    "multiwoz-intent": (9_684, 2_307, 17, 7, "MultiWOZ 2.1 turns with derived intents (stands in for MultiWOZ 2.2 intents)"),
    "sgd-intent": (7_200, 1_800, 23, 9, "Schema-guided dialogue turns with intents (stands in for MultiWOZ 2.2 intents)"),
    "ner-gum": (101_914, 28_579, 21, 8, "GUM named mentions by genre (stands in for OntoNotes by domain)"),
    "ner-wnut17": (78_619, 20_838, 13, 3, "WNUT 2017 emerging entities by source (stands in for OntoNotes by domain)"),
    "ner-crossner": (105_909, 94_953, 79, 5, "CrossNER, five domains (stands in for OntoNotes by domain)"),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_sets_hold_what_their_cards_say(name: str, real_data: Path) -> None:
    facts = catalog.facts(name)
    assert (facts.n_train, facts.n_test, facts.n_classes, len(facts.sources), facts.title) == REAL[name]
    found = load.load(DataSpec(dataset=name, train_per_class=30, test_per_class=10))
    assert found.classes == catalog.card(name).classes
    assert len(found.train.images) == len(found.train.labels)
    for source, held in enumerate(found.sources):
        own_labels = found.train.labels[found.train.sources == source]
        assert set(own_labels.tolist()) <= set(held.classes)


def test_too_many_clients_for_the_sentences_are_refused_before_anything_is_read(data_dir: Path) -> None:
    for split in ("train", "test"):
        write(data_dir / "ner_wnut17", split, tokens=[[f"a{n}", "b", "c"] for n in range(30)],
              tags=[["O", "B-person", "I-person"]] * 30,
              domain=["twitter", "youtube", "stackexchange_reddit"] * 10)  # fmt: skip
    settings = Federated(clients=4, protocol="domain-incremental")
    with pytest.raises(BadInput, match=r"must be at most 3: each client holds 10 of 30 sentences or more"):
        preview(DataSpec(dataset="ner-wnut17"), settings, 0)
    found = preview(DataSpec(dataset="ner-wnut17"), replace(settings, clients=2), 0)
    assert found is not None
    assert found.held is not None
    assert found.held.sum() == 90
    assert (found.held % 3 == 0).all(), "sentences are whole"
    stream = previews.tested(DataSpec(dataset="ner-wnut17"), replace(settings, clients=2), 0, None)
    assert stream is not None
    assert stream.metric == "entity-f1", "chance of tags is an F1, also where no training word is read"
