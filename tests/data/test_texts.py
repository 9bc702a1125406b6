"""A person's own texts: what is read, what is refused in one sentence, and what is never shown."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcl_core.data import catalog, files, load, own
from dpcl_core.data.card import CARDS
from dpcl_core.data.dataset import Dataset
from dpcl_core.data.texts import Span
from dpcl_core.errors import DataMissing
from dpcl_core.scenarios.catalog import SourceIncremental, preview
from dpcl_core.spec import DataSpec
from tests.data.making import location, refusal, write, write_both
from tests.support.asserting import refuses

MINE = "own:mine"
GOOD = "text,label\nall is well,good\nwoe,bad\n"


def put(folder: Path, **files: str | bytes) -> Path:
    """CSV files by name in the folder of own:mine."""
    (folder / "mine").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "mine" / f"{name}.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / "mine"


def read() -> Dataset:
    return load.load_dataset(DataSpec(dataset=MINE))


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
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([("text", "label"), (text, "a"), ("other", "b")])
    put(data_dir, train=file.getvalue(), test=file.getvalue())
    assert strings(read())[0] == text


def test_a_text_of_several_lines_is_read_from_json_lines_and_in_a_public_csv(data_dir: Path) -> None:
    """In a private CSV every line is judged alone: an open quote of one person must not swallow the rows of others."""
    text, file = "a\nb\r\nc", io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([("text", "label"), ("first", "a"), (text, "a"), ("other", "b")])
    put(data_dir, train=file.getvalue(), test=file.getvalue())
    assert (strings(read()), strings(read(), "test")) == (["first", "other"], ["first", text, "other"])
    for split in ("train", "test"):
        (data_dir / "mine" / f"{split}.csv").unlink()
        rows = [json.dumps({"text": one, "label": label}) for one, label in ((text, "a"), ("other", "b"))]
        (data_dir / "mine" / f"{split}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert strings(read()) == [text, "other"]


_LETTERS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
_WORDS = _LETTERS.filter(lambda one: bool(one.strip(" .0123456789+-").strip()))  # 3.0 is 3 in a cell of any kind


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_WORDS)
def test_what_a_csv_writer_writes_is_read_back(data_dir: Path, text: str) -> None:
    file = io.StringIO()
    csv.writer(file).writerows([("text", "label"), (text, "a"), ("other", "b")])
    put(data_dir, train=file.getvalue(), test=file.getvalue())
    assert strings(read())[0] == text


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


@pytest.mark.parametrize(("spans", "expected"), [
    ([{"start": 0, "end": 99, "kind": "NAME"}], "0 to 99"),
    ([{"start": 2, "end": 2, "kind": "NAME"}], "2 to 2"),
    ([{"start": -1, "end": 2, "kind": "NAME"}], "-1 to 2"),
    ([{"start": 0, "end": 3, "kind": "NAMES"}], "NAMES"),
    ([{"from": 0, "to": 3}], "[{'from': 0, 'to': 3}]"),
])
def test_a_wrong_span_is_refused(data_dir: Path, spans: list[object], expected: str) -> None:
    write_both(data_dir / "mine", text=["Ann left.", "It."], label=["a", "b"], spans=pa.array([spans, []]))
    assert location(refusal()) == f"own:mine/test.parquet row 0, spans = {expected}"


def test_nulls_in_parquet_are_refused(data_dir: Path) -> None:
    write_both(data_dir / "mine", text=["a", None], label=[0, 1])
    assert location(refusal()) == "own:mine/test.parquet row 1, text = nothing"


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
