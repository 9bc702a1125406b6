"""Links: what is written is read back, nothing broken passes silently, nothing unknown is lost."""

from __future__ import annotations

import math
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.errors import BadInput
from pages.parts import link
from pages.parts.link import Codec, Field

CODEC = Codec(
    [
        Field("epsilon", "e", "ε", link.BUDGET, 1.0),
        Field("budgets", "es", "budgets", link.Many(link.BUDGET), (1.0, 8.0)),
        Field("tasks", "t", "tasks", link.Whole(1, 100), 5),
        Field("size", "n", "size", link.Maybe(link.Whole(1, 10**6)), None),
        Field("labels", "l", "label list", link.Choice(("data", "prior", "prior-const")), "prior-const"),
        Field("hidden", "h", "hidden", link.Flag(), False),
        Field("name", "q", "name", link.Text(), ""),
        Field("classes", "c", "classes", link.Maybe(link.Many(link.Text())), None),
    ]
)
BUDGETS = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=True)
WORDS = st.text(min_size=1, max_size=12)
VALUES = st.fixed_dictionaries(
    {
        "epsilon": BUDGETS,
        "budgets": st.lists(BUDGETS, max_size=6).map(tuple),
        "tasks": st.integers(1, 100),
        "size": st.none() | st.integers(1, 10**6),
        "labels": st.sampled_from(["data", "prior", "prior-const"]),
        "hidden": st.booleans(),
        "name": st.text(max_size=20),
        "classes": st.none() | st.lists(WORDS, min_size=1, max_size=4).map(tuple).filter(lambda words: words != ("-",)),
    }
)
OWN_KEYS = {"v", *(field.key for field in CODEC.fields)}
UNKNOWN = st.dictionaries(WORDS.filter(lambda key: key not in OWN_KEYS), st.text(max_size=12), max_size=3)


@given(VALUES, UNKNOWN)
def test_what_is_written_is_read_back_through_a_real_address(values: dict[str, object], unknown: dict[str, str]) -> None:
    written = CODEC.write(values, unknown)
    address = link.address("http://127.0.0.1:8501/train?old=1", written)
    query = dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))
    read = CODEC.read(query)
    assert read.values == values
    assert read.unknown == unknown
    assert bool(read.notices) == bool(unknown)


@given(VALUES, UNKNOWN)
def test_order_is_fixed_and_defaults_are_left_out(values: dict[str, object], unknown: dict[str, str]) -> None:
    written = CODEC.write(dict(reversed(values.items())), dict(reversed(unknown.items())))
    own = [field for field in CODEC.fields if field.key in written]
    assert list(written) == ["v", *(field.key for field in own), *sorted(unknown)]
    assert all(values[field.name] != field.default for field in own)
    assert len(urlencode(written)) <= 2000


@given(st.dictionaries(st.sampled_from(sorted(OWN_KEYS)), st.text(max_size=30)))
def test_any_text_gives_a_value_and_a_notice_for_each_that_was_not_taken(raw: dict[str, str]) -> None:
    read = CODEC.read(raw)
    assert set(read.values) == {field.name for field in CODEC.fields}
    for field in CODEC.fields:
        value = read.values[field.name]
        if field.key in raw and not any(notice.startswith(f"The link asks for {field.title} =") for notice in read.notices):
            assert CODEC.read(CODEC.write({field.name: value})).values[field.name] == value
        else:
            assert value == field.default


@pytest.mark.parametrize(
    ("key", "text", "notice"),
    [
        ("e", "banana", "The link asks for ε = banana: must be a number above 0, or inf; using 1 instead."),
        ("e", "0", "The link asks for ε = 0: must be a number above 0, or inf; using 1 instead."),
        ("e", "-1", "The link asks for ε = -1: must be a number above 0, or inf; using 1 instead."),
        ("e", "nan", "The link asks for ε = nan: must be a number above 0, or inf; using 1 instead."),
        (
            "es", "1,,8",
            "The link asks for budgets = 1,,8: must be at most 32 values between commas, each a number above 0, or inf; "
            "using 1,8 instead.",
        ),
        ("t", "101", "The link asks for tasks = 101: must be a whole number from 1 to 100; using 5 instead."),
        ("t", "٣", "The link asks for tasks = ٣: must be a whole number from 1 to 100; using 5 instead."),
        ("n", "0", "The link asks for size = 0: must be a whole number from 1 to 1,000,000; that is left out."),
        ("l", "secret", "The link asks for label list = secret: must be one of data, prior, prior-const; "
         "using prior-const instead."),
        ("h", "yes", "The link asks for hidden = yes: must be 0 or 1; using 0 instead."),
        ("q", "x" * 101, f"The link asks for name = {'x' * 37}...: must be a text of at most 100 characters; "
         "that is left out."),
        ("v", "9", "The link has version 9; this app reads version 1 and uses what it can."),
    ],
)
def test_broken_values_give_their_notice(key: str, text: str, notice: str) -> None:
    assert CODEC.read({key: text}).notices == (notice,)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (link.Choice(tuple("abcdefghij")), "one of a, b, c, d, e, f, g, h and 2 others"),
        (link.Number(0.0, 1e3), "a number from 0 to 1000"),
        (link.Number(0.5, math.inf), "a number of at least 0.5"),
        (link.Number(-link.UNBOUNDED, 3), "a number of at most 3"),
        (link.Number(-link.UNBOUNDED, link.UNBOUNDED), "a number"),
        (object(), ""),
    ],
)
def test_what_is_allowed_is_said_in_words(kind: object, said: str) -> None:
    assert link.allowed(kind) == said


def test_unknown_keys_are_reported_and_kept() -> None:
    read = CODEC.read({"e": "2", "zz": "1", "future": "x"})
    assert read.notices == ("The link also has future, zz, unknown to this page: kept in the link, not used.",)
    assert CODEC.write(read.values, read.unknown) == {"v": "1", "e": "2", "future": "x", "zz": "1"}


def test_infinity_is_written_for_people() -> None:
    assert CODEC.write({"epsilon": math.inf})["e"] == "inf"
    assert CODEC.read({"e": "∞"}).values["epsilon"] == math.inf


def test_a_link_never_exceeds_its_length() -> None:
    long = {str(i): "x" * 90 for i in range(30)}
    assert CODEC.write({"epsilon": 2.0}, long) == {"v": "1", "e": "2"}
    with pytest.raises(BadInput, match="must have at most 2000"):
        CODEC.write({"classes": tuple("ä" * 90 for _ in range(20))})


def test_two_fields_cannot_share_a_key() -> None:
    with pytest.raises(ValueError, match="share a link key"):
        Codec([Field("a", "x", "a", link.Flag(), False), Field("b", "x", "b", link.Flag(), False)])


def test_a_word_is_read_like_the_short_key_and_never_written() -> None:
    codec = Codec([Field("step", "s", "step", link.Whole(1, 9), 1, word="step")])
    assert codec.read({"step": "3"}).values == {"step": 3}
    assert codec.read({"step": "3", "s": "4"}).values == {"step": 4}
    assert codec.read({"step": "3"}).notices == ()
    assert codec.write(codec.read({"step": "3"}).values) == {"v": "1", "s": "3"}
    (notice,) = codec.read({"step": "x"}).notices
    assert notice == "The link asks for step = x: must be a whole number from 1 to 9; using 1 instead."
    with pytest.raises(ValueError, match="share a link key"):
        Codec([Field("a", "step", "a", link.Flag(), False), Field("b", "x", "b", link.Flag(), False, word="step")])
