"""Sentences with tagged words: parquet and CoNLL files, subsets and divisions by sentence, and what is refused."""

import functools
import operator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcl_core.data import catalog, load, own, texts
from dpcl_core.data.dataset import Dataset
from dpcl_core.data.texts import Sentences
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as previews
from dpcl_core.scenarios.catalog import Federated, preview
from dpcl_core.spec import DataSpec
from tests.data.making import location, refusal, write, write_both
from tests.support.asserting import refuses

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
    return load.load_dataset(DataSpec(dataset=MINE, **subset))  # type: ignore[arg-type]


def words(found: Dataset, split: str = "train") -> list[tuple[str, ...]]:
    return list(getattr(found, split).images.words)


def test_parquet_files_give_a_row_a_word(data_dir: Path) -> None:
    write_both(data_dir / "mine", tokens=WORDS, tags=TAGS, domain=["a", "b", "a"])
    found = read()
    assert found.classes == ("O", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert [found.classes[label] for label in found.train.labels] == functools.reduce(operator.iadd, TAGS, [])
    assert [found.sources[place].name for place in found.train.sources.tolist()] == list("aaabbaa")  # type: ignore[union-attr]
    assert words(found) == [tuple(sentence) for sentence in WORDS]
    assert found.train.images.sentence_of.tolist() == [0, 0, 0, 1, 1, 2, 2]  # type: ignore[union-attr]
    assert (len(found.train), len(found.train.images), found.title) == (7, 7, "mine (own data)")
    assert own.names_of_own_data() == [MINE]


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


@pytest.mark.parametrize(("content", "where"), [
    ("", " = no sentences"),
    ("a\n", " line 1 = 1 columns"),
    ("a b c\n", " line 1 = another tag"),
    (document("Ada=(PER*", "slept=*"), " line 4 = end of a sentence"),
    (document("Ada=*)"), " line 2 = brackets that do not fit"),
    (document("Ada=(PER*", "Smith=(PER)"), " line 3 = brackets that do not fit"),
    (document("Ada=Person"), " line 2 = brackets that do not fit"),
])
def test_conll_files_that_cannot_be_read(content: str, where: str, data_dir: Path) -> None:
    put(data_dir, train=document("Ada=(PER)"), test=content)
    assert location(refusal()) == f"own:mine/test.conll{where}"
    assert "Ada" not in str(refusal()), "a word may be private, and failures are kept"


@pytest.mark.parametrize(("lacking", "where"), [(["b", "c"], "2 and 1"), ([], "0 and 1")])
def test_parquet_files_that_cannot_be_read(lacking: list[str], where: str, data_dir: Path) -> None:
    write_both(data_dir / "mine", tokens=[["a"], lacking], tags=[["O"], ["O"]])
    assert location(refusal()) == f"own:mine/test.parquet sentence 1 = {where}"


def test_sentences_are_only_taken_whole() -> None:
    sentences = Sentences([("a", "b"), ("c",), ("d", "e")])
    assert sentences.take(np.array([2, 3, 4])).words == [("c",), ("d", "e")]
    refuses("whole", sentences.take, np.array([0, 2]), error=ValueError)


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
    found = load.load_dataset(DataSpec(dataset=name, train_per_class=30, test_per_class=10))
    assert (found.classes, len(found.train.images)) == (catalog.card(name).classes, len(found.train.labels))
    for source, held in enumerate(found.sources):
        assert set(found.train.labels[found.train.sources == source].tolist()) <= set(held.classes)


def test_too_many_clients_for_the_sentences_are_refused_before_anything_is_read(data_dir: Path) -> None:
    write_both(data_dir / "ner_wnut17", tokens=[[f"a{n}", "b", "c"] for n in range(30)],
              tags=[["O", "B-person", "I-person"]] * 30,
              domain=["twitter", "youtube", "stackexchange_reddit"] * 10)  # fmt: skip
    settings = Federated(clients=4, protocol="domain-incremental")
    with pytest.raises(BadInput, match=r"must be at most 3: each client holds 10 of 30 sentences or more"):
        preview(DataSpec(dataset="ner-wnut17"), settings, 0)
    found = preview(DataSpec(dataset="ner-wnut17"), replace(settings, clients=2), 0)
    assert found.held.sum() == 90
    assert (found.held % 3 == 0).all(), "sentences are whole"
    stream = previews.tested(DataSpec(dataset="ner-wnut17"), replace(settings, clients=2), 0, None)
    assert stream.metric == "entity-f1", "chance of tags is an F1, also where no training word is read"


# BIO tags: the mask, the best sequence that obeys it, whole entities, and their F1 on cases worked out by hand.


BIO = texts.tags_of(("PER", "ORG"))
PLACE = {tag: place for place, tag in enumerate(BIO)}


def labels(*written: str) -> np.ndarray:
    return np.array([PLACE[tag] for tag in written], dtype=np.int64)


def test_an_inside_tag_follows_its_own_type_alone() -> None:
    allowed = texts.may_follow(BIO)
    assert allowed.shape == (6, 5)
    for before, tag in product([*BIO, "start"], BIO):
        kind = tag.removeprefix("I-")
        expected = not tag.startswith("I-") or before in (f"B-{kind}", f"I-{kind}")
        assert allowed[[*BIO, "start"].index(before), PLACE[tag]] == expected


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_decoding_equals_the_best_of_all_sequences(seed: int, lengths: list[int]) -> None:
    scores = np.random.default_rng(seed).normal(size=(sum(lengths), 5))
    found = texts.decode(scores, np.repeat(np.arange(len(lengths)) * 3, lengths), BIO)
    allowed = texts.may_follow(BIO)
    first = 0
    for length in lengths:
        rows = scores[first : first + length]
        legal = [
            path
            for path in product(range(5), repeat=length)
            if allowed[-1, path[0]] and all(allowed[a, b] for a, b in pairwise(path))
        ]
        best = max(legal, key=lambda path: sum(rows[place, tag] for place, tag in enumerate(path)))
        assert tuple(found[first : first + length]) == best
        first += length


def test_a_shift_of_a_word_s_scores_changes_nothing_and_the_mask_is_never_broken() -> None:
    random = np.random.default_rng(7)
    scores, sentences = random.normal(size=(400, 5)), np.sort(random.integers(0, 60, 400))
    scores[:, 2] += 2  # the model is fond of an inside tag that rarely may stand there
    found = texts.decode(scores, sentences, BIO)
    np.testing.assert_array_equal(found, texts.decode(scores + random.normal(size=(400, 1)), sentences, BIO))
    allowed = texts.may_follow(BIO)
    for row, tag in enumerate(found):
        starts = row == 0 or sentences[row] != sentences[row - 1]
        assert allowed[-1 if starts else found[row - 1], tag]
    assert (scores.argmax(axis=1) != found).any(), "greedy reading breaks the mask here"


def test_tags_that_a_model_does_not_know_are_never_chosen() -> None:
    scores = np.zeros((3, 5))
    scores[:, 1:3] = -np.inf
    scores[2] = -np.inf
    found = texts.decode(scores, np.zeros(3, dtype=np.int64), BIO)
    assert found[2] == PLACE["O"]
    assert not np.isin(found, labels("B-PER", "I-PER")).any()
    assert texts.decode(np.zeros((0, 5)), np.zeros(0, dtype=np.int64), BIO).shape == (0,)


SENTENCES = np.array([0, 0, 0, 0, 1, 1], dtype=np.int64)
THERE = labels("B-PER", "I-PER", "O", "B-ORG", "B-PER", "O")


def test_entities_end_where_their_sentence_does() -> None:
    assert texts.entities(THERE, SENTENCES, BIO) == {(0, 2, "PER"), (3, 4, "ORG"), (4, 5, "PER")}
    runs_on = labels("O", "O", "O", "B-PER", "I-PER", "I-PER")
    assert texts.entities(runs_on, SENTENCES, BIO) == {(3, 4, "PER"), (4, 6, "PER")}
    neighbours = labels("B-PER", "B-PER", "I-ORG", "O", "O", "O")
    assert texts.entities(neighbours, SENTENCES, BIO) == {(0, 1, "PER"), (1, 2, "PER"), (2, 3, "ORG")}


@pytest.mark.parametrize(("told", "counts"), [
    (("B-PER", "I-PER", "O", "B-ORG", "B-PER", "O"), (6, 6)),  # all of them
    (("O",) * 6, (0, 3)),  # none
    (("B-PER", "O", "O", "B-ORG", "B-PER", "O"), (4, 6)),  # one too short
    (("B-ORG", "I-ORG", "O", "B-ORG", "B-PER", "O"), (4, 6)),  # one of another type
    (("B-PER", "I-PER", "O", "B-ORG", "B-PER", "B-PER"), (6, 7)),  # one too many
])
def test_f1_counts_exact_spans_and_types(told: tuple[str, ...], counts: tuple[int, int]) -> None:
    assert texts.f1_counts(labels(*told), THERE, SENTENCES, BIO) == counts
