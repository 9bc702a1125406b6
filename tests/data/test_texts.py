"""Texts and sentences with tagged words: what is read, divided and refused in one sentence, and what is never shown."""

import csv
import functools
import io
import json
import math
import operator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcl_core.data import catalog, files, load, own, texts
from dpcl_core.data.card import CARDS
from dpcl_core.data.dataset import Dataset
from dpcl_core.data.texts import Sentences, Span
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.scenarios import catalog as previews
from dpcl_core.scenarios.catalog import Federated, SourceIncremental, preview
from dpcl_core.spec import DataSpec
from tests.data import making
from tests.data.making import location, refusal, write, write_both
from tests.support.asserting import refuses

MINE = "own:mine"
GOOD = "text,label\nall is well,good\nwoe,bad\n"


def put(folder: Path, ending: str = "csv", **files: str | bytes) -> Path:
    """Files by name in the folder of own:mine."""
    for name, content in files.items():
        making.put(folder / "mine" / f"{name}.{ending}", content)
    return folder / "mine"


def written(*texts: str, ends: str = "\n") -> str:
    """CSV of these texts, the last one with a label of its own."""
    file = io.StringIO()
    rows = [(text, "a") for text in texts[:-1]]
    csv.writer(file, lineterminator=ends).writerows([("text", "label"), *rows, (texts[-1], "b")])
    return file.getvalue()


def read_back(folder: Path, text: str, ends: str) -> str:
    """What is read of a text between such ends of lines."""
    content = written(text, "other", ends=ends)
    put(folder, train=content, test=content)
    return strings(read())[0]


def read(**subset: int) -> Dataset:
    return load.load_dataset(DataSpec(dataset=MINE, **subset))  # type: ignore[arg-type]


def strings(found: Dataset, split: str = "train") -> list[str]:
    return list(getattr(found, split).images.strings)


def refused() -> str:
    return str(refusal())


def test_two_csv_files(data_dir: Path) -> None:
    put(data_dir, train=GOOD, test='label,text\nbad,"no, not ""this"""\ngood,yes\n')
    found = read()
    assert (found.classes, found.title) == (("bad", "good"), "mine (own data)")
    assert (strings(found), strings(found, "test")) == (["all is well", "woe"], ['no, not "this"', "yes"])
    assert (found.train.labels.tolist(), found.test.labels.tolist()) == ([1, 0], [0, 1])
    assert (own.names_of_own_data(), catalog.card(MINE).kind) == ([MINE], "text")
    assert catalog.available(catalog.card(MINE)) is None


def test_labels_that_are_numbers_keep_their_order(data_dir: Path) -> None:
    lines = "".join(f"t,{number}\n" for number in (10, 9, 2, 9))
    put(data_dir, train=f"text,label\n{lines}", test=f"text,label\n{lines}")
    assert read().classes == ("2", "9", "10")


@pytest.mark.parametrize(
    "text", ["🙂👩‍👩‍👧 ünï", "שלום עולם مرحبا", "x" * 100_000, "word " * 20_000, "\ufeffmark", " edge ", "=1+1"])
def test_any_text_is_read_as_it_is(data_dir: Path, text: str) -> None:
    assert read_back(data_dir, text, "\n") == text


def test_a_text_of_several_lines_is_read_from_json_lines_and_in_a_public_csv(data_dir: Path) -> None:
    """In a private CSV every line is judged alone: an open quote of one person must not swallow the rows of others."""
    text = "a\nb\r\nc"
    content = written("first", text, "other")
    put(data_dir, train=content, test=content)
    assert (strings(read()), strings(read(), "test")) == (["first", "other"], ["first", text, "other"])
    for split in ("train", "test"):
        (data_dir / "mine" / f"{split}.csv").unlink()
        rows = [json.dumps({"text": one, "label": label}) for one, label in ((text, "a"), ("other", "b"))]
        put(data_dir, "jsonl", **{split: "\n".join(rows)})
    assert strings(read()) == [text, "other"]


_LETTERS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
_WORDS = _LETTERS.filter(lambda one: bool(one.strip(" .0123456789+-").strip()))  # 3.0 is 3 in a cell of any kind


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_WORDS)
def test_what_a_csv_writer_writes_is_read_back(data_dir: Path, text: str) -> None:
    assert read_back(data_dir, text, "\r\n") == text


TEST = "own:mine/test.csv"
BAD = {
    "no text column": ("body,label\na,b\n", f"{TEST} = no such column"),
    "no label column": ("text,class\na,b\n", f"{TEST} = no such column"),
    "tildes": ("text~label\na~b\n", f"{TEST} = no such column"),
    "empty text": ("text,label\na,bad\n,good\n", f"{TEST} row 1, text = nothing"),
    "blank text": ("text,label\na,bad\n \t ,good\n", f"{TEST} row 1, text = nothing"),
    "empty label": ("text,label\na,x\nb,\n", f"{TEST} row 1, label = nothing"),
    "too many fields": ("text,label\na,b,c\n", f"{TEST} line 2 = 3 values"),
    "open quote": ('text,label\n"a,b\n', f"{TEST} line 2 = an open quote"),
    "nothing": ("", f"{TEST} = empty file"),
    "only a head": ("text,label\n", f"{TEST} = no rows"),
    "two of a name": ("text,label,text\na,b,c\n", f"{TEST} = two columns text"),
    "utf-16": (GOOD.encode("utf-16"), f"{TEST} = UTF-16"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_file_is_said(data_dir: Path, case: str) -> None:
    content, where = BAD[case]
    put(data_dir, train=GOOD, test=content)
    assert location(refusal()) == where


def test_a_training_row_that_cannot_be_used_is_none(data_dir: Path) -> None:
    """A label that nobody else has, no text, no label, a comma too many: nothing is said. Letters of Windows are letters."""
    rows = [b"a,good", b"b,ugly", b",good", b"c,", b"d,e,bad", b"caf\xe9,bad", b"f,bad"]
    put(data_dir, train=b"\n".join([b"text,label", *rows]), test=GOOD)
    found = read()
    assert (strings(found), found.classes) == (["a", "café", "f"], ("bad", "good"))
    put(data_dir, train=GOOD, test="text,label\na,good\n")
    assert (strings(read()), read().classes) == (["all is well"], ("good",))
    put(data_dir, train="text,label\n", test=GOOD)
    assert strings(read()) == []


def test_a_csv_beside_a_parquet_file_is_refused(data_dir: Path) -> None:
    put(data_dir, train=GOOD)
    write(data_dir / "mine", "test", text=["a"], label=[0])
    assert "its training and test part must be two files of one kind" in refused()
    write(data_dir / "mine", "train", text=["a"], label=[0])
    assert "holds its train part in two forms" in refused()


def test_a_training_part_alone_is_enough_for_texts_and_no_file_is_not(data_dir: Path) -> None:
    put(data_dir, test=GOOD)
    refuses(r"train.csv and test.csv|train.parquet", read, error=DataMissing)


def test_parquet_with_words_for_labels_and_spans(data_dir: Path) -> None:
    spans = pa.array([[{"start": 0, "end": 3, "kind": "NAME"}], []])
    write_both(data_dir / "mine", text=["Ann left.", "It rained."], label=["left", "rain"], spans=spans, person=[4, 4])
    found = read()
    assert found.train.images.spans == [(Span(0, 3, "NAME"),), ()]
    assert found.train.images.people is None, "of own data a schema names the column of people"
    assert found.classes == ("left", "rain")


WRONG_SPANS: list[tuple[dict[str, object], str]] = [
    ({"start": 0, "end": 99, "kind": "NAME"}, "0 to 99"),
    ({"start": 2, "end": 2, "kind": "NAME"}, "2 to 2"),
    ({"start": -1, "end": 2, "kind": "NAME"}, "-1 to 2"),
    ({"start": 0, "end": 3, "kind": "NAMES"}, "NAMES"),
    ({"from": 0, "to": 3}, "[{'from': 0, 'to': 3}]"),
]


@pytest.mark.parametrize(("columns", "where"), [
    ({"text": ["a", None], "label": [0, 1]}, "row 1, text = nothing"),
    *(
        ({"text": ["Ann left.", "It."], "label": ["a", "b"], "spans": [[span], []]}, f"row 0, spans = {said}")
        for span, said in WRONG_SPANS
    ),
    ({"tokens": [["a"], ["b", "c"]], "tags": [["O"], ["O"]]}, "sentence 1 = 2 and 1"),
    ({"tokens": [["a"], []], "tags": [["O"], ["O"]]}, "sentence 1 = 0 and 1"),
])
def test_parquet_files_that_cannot_be_read(columns: dict[str, object], where: str, data_dir: Path) -> None:
    write_both(data_dir / "mine", **columns)
    assert location(refusal()) == f"own:mine/test.parquet {where}"


def test_own_texts_are_shown_only_where_their_owner_says_so(data_dir: Path) -> None:
    folder = put(data_dir, train=GOOD, test=GOOD)
    card = catalog.card(MINE)
    assert not card.may_show
    assert f"an empty file public.txt or synthetic.txt in {folder}" in files.refusal(card)
    for mark in files.MARKS:
        (folder / mark).touch()
        assert catalog.card(MINE).may_show
        assert files.refusal(catalog.card(MINE)) is None
        (folder / mark).unlink()
    assert not catalog.card(MINE).may_show


def test_posts_of_people_in_distress_are_never_shown() -> None:
    assert [name for name, card in CARDS.items() if not card.may_show] == ["dreaddit", "pecl-six"]
    assert "none of them is shown" in str(files.refusal(CARDS["dreaddit"]))
    assert files.refusal(CARDS["pii-synthetic"]) is None


def test_text_sets_say_what_they_leave_unprotected(data_dir: Path) -> None:
    put(data_dir, train=GOOD, test=GOOD)
    for card in (catalog.card(MINE), *(card for card in CARDS.values() if card.kind == "text")):
        assert any(limit.startswith("a person, only a single text") for limit in card.limits)
        assert any("how long a text is" in limit for limit in card.limits)
    assert any("a secret that stands in several texts" in limit for limit in CARDS["pii-synthetic"].limits)


def test_two_columns_make_a_text_of_two_lines(data_dir: Path) -> None:
    for split in ("train", "test"):
        write(data_dir / "dbpedia14", split, title=["T"] * 14, content=["body"] * 14, label=list(range(14)))
    assert strings(load.load_dataset(DataSpec(dataset="dbpedia14")))[0] == "T\nbody"


def test_a_preview_deals_out_the_corpus_in_the_order_given(data_dir: Path) -> None:
    order = ("mailbox", "news")
    found = preview(DataSpec(dataset="pii-synthetic-tiny"), SourceIncremental(order=order), seed=0)
    assert found.tasks == order
    assert [[found.classes[label] for label in home] for home in found.homes] == [
        ["billing", "delivery", "password", "booking", "refund"],
        ["world", "sports", "business", "science"],
    ]
    assert found.counts.sum(axis=1).tolist() == [160, 160]


def test_a_domain_column_makes_tasks_and_a_preview_of_own_texts_shows_their_plan_alone(data_dir: Path) -> None:
    content = "text,label,domain\na,x,home\nb,y,home\nc,x,work\nd,y,work\n"
    put(data_dir, train=content, test=content)
    assert [source.name for source in read().sources] == ["home", "work"]
    assert preview(DataSpec(dataset=MINE), SourceIncremental(), seed=0).counts is None


REAL = {
    "fomc": (1_846, 472), "yelp": (4_000, 750), "ag_news": (7_400, 2_000), "amazon-stars": (4_000, 750),
    "dreaddit": (2_817, 715), "dbpedia14": (4_480, 1_120), "trec": (5_365, 500), "pecl-six": (24_543, 5_807),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_texts(real_data: Path, name: str) -> None:
    card = CARDS[name]
    if any(not (real_data / member.folder).exists() for member in catalog.members(card)):
        pytest.skip(f"{name} is not in DPCL_DATA")
    found = load.load_dataset(DataSpec(dataset=name))
    assert "subset: " in found.title
    assert (found.classes, (len(found.train), len(found.test))) == (card.classes, REAL[name])
    assert set(np.unique(found.train.labels)) == set(range(card.n_classes))
    assert catalog.facts(name).title == found.title
    thin = load.load_dataset(DataSpec(dataset=name, train_per_class=5, test_per_class=2))
    # Coins keep about so many, as the test part has the classes: six standard deviations, and a class cut short by its size.
    assert abs(len(thin.train) - thin.n_people) < 6 * math.sqrt(5 * card.n_classes) + 0.2 * thin.n_people
    assert (thin.n_people, len(thin.test)) == (5 * card.n_classes, 2 * card.n_classes)


WORDS = [["Ada", "Smith", "slept"], ["Rain", "fell"], ["Acme", "grew"]]
TAGS = [["B-PER", "I-PER", "O"], ["O", "O"], ["B-ORG", "O"]]


def line(word: str, entity: str, document: str = "bc/some/00/some_0001") -> str:
    return f"{document} 0 0 {word} NN * - - - - {entity} -"


def document(*words: str, name: str = "bc/some/00/some_0001") -> str:
    """A document of one sentence, words written as word=entity."""
    lines = [line(*word.split("="), name) for word in words]
    return "\n".join([f"#begin document ({name}); part 000", *lines, "", "#end document", ""])


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
    rain = document("Rain=*", name="nw/x/1")
    put(data_dir, "conll", train=spoken + rain, test=spoken + document("Rome=(GPE)", name="nw/x/2"))
    found = read()
    assert found.classes == ("O", "B-GPE", "I-GPE", "B-ORG", "I-ORG", "B-PERSON", "I-PERSON"), "those of the test part"
    odd = document("Mars=(PLANET)") + document("Ada=*)") + document("New=*", name="xx/x/1")
    put(data_dir, "conll", train=spoken + rain + odd, test=spoken + document("Rome=(ORG)", name="nw/x/2"))
    found = read()
    assert [found.classes[label] for label in found.train.labels] == ["B-PERSON", "I-PERSON", "O", "B-ORG", "O", "O"]
    assert [source.name for source in found.sources] == ["bc", "nw"]
    assert words(found) == [("Ada", "Smith", "of", "Acme", "slept"), ("Rain",)]
    card = catalog.card(MINE)
    assert (card.kind, card.held_out) == ("tagged", None)


def test_a_single_conll_file_is_divided_by_sentence(data_dir: Path) -> None:
    told = [document(f"{genre}{n}=(ORG)", f"v{n}=*", name=f"{genre}/x/{n}") for n in range(100) for genre in ("bc", "nw")]
    put(data_dir, "conll", everything="".join(told))
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
    put(data_dir, "conll", train=document("Ada=(PER)"), test=content)
    assert location(refusal()) == f"own:mine/test.conll{where}"
    assert "Ada" not in str(refusal()), "a word may be private, and failures are kept"


def test_sentences_are_only_taken_whole() -> None:
    sentences = Sentences([("a", "b"), ("c",), ("d", "e")])
    assert sentences.take(np.array([2, 3, 4])).words == [("c",), ("d", "e")]
    refuses("whole", sentences.take, np.array([0, 2]), error=ValueError)


REAL_TAGGED = {
    "amazon-domains": (12_760, 3_000, 2, 10, "Amazon reviews of ten domains"),
    "multiwoz-intent": (9_684, 2_307, 17, 7, "MultiWOZ 2.1 turns with derived intents (stands in for MultiWOZ 2.2 intents)"),
    "sgd-intent": (7_200, 1_800, 23, 9, "Schema-guided dialogue turns with intents (stands in for MultiWOZ 2.2 intents)"),
    "ner-gum": (101_914, 28_579, 21, 8, "GUM named mentions by genre (stands in for OntoNotes by domain)"),
    "ner-wnut17": (78_619, 20_838, 13, 3, "WNUT 2017 emerging entities by source (stands in for OntoNotes by domain)"),
    "ner-crossner": (105_909, 94_953, 79, 5, "CrossNER, five domains (stands in for OntoNotes by domain)"),
}


@pytest.mark.parametrize("name", REAL_TAGGED)
def test_the_real_sets_hold_what_their_cards_say(name: str, real_data: Path) -> None:
    facts = catalog.facts(name)
    assert (facts.n_train, facts.n_test, facts.n_classes, len(facts.sources), facts.title) == REAL_TAGGED[name]
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
