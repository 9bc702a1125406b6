"""BIO tags: the mask, the best sequence that obeys it, whole entities, and their F1 on cases worked out by hand."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcl_core.data import texts

TAGS = texts.tags_of(("PER", "ORG"))
PLACE = {tag: place for place, tag in enumerate(TAGS)}


def labels(*written: str) -> np.ndarray:
    return np.array([PLACE[tag] for tag in written], dtype=np.int64)


def test_tags_come_in_pairs_behind_o() -> None:
    assert TAGS == ("O", "B-PER", "I-PER", "B-ORG", "I-ORG")


def test_an_inside_tag_follows_its_own_type_alone() -> None:
    allowed = texts.may_follow(TAGS)
    assert allowed.shape == (6, 5)
    for before, tag in product([*TAGS, "start"], TAGS):
        kind = tag.removeprefix("I-")
        expected = not tag.startswith("I-") or before in (f"B-{kind}", f"I-{kind}")
        assert allowed[[*TAGS, "start"].index(before), PLACE[tag]] == expected


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_decoding_equals_the_best_of_all_sequences(seed: int, lengths: list[int]) -> None:
    scores = np.random.default_rng(seed).normal(size=(sum(lengths), 5))
    sentences = np.repeat(np.arange(len(lengths)) * 3, lengths)
    found = texts.decode(scores, sentences, TAGS)
    allowed = texts.may_follow(TAGS)
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
    found = texts.decode(scores, sentences, TAGS)
    np.testing.assert_array_equal(found, texts.decode(scores + random.normal(size=(400, 1)), sentences, TAGS))
    allowed = texts.may_follow(TAGS)
    for row, tag in enumerate(found):
        starts = row == 0 or sentences[row] != sentences[row - 1]
        assert allowed[-1 if starts else found[row - 1], tag]
    assert (scores.argmax(axis=1) != found).any(), "greedy reading breaks the mask here"


def test_tags_that_a_model_does_not_know_are_never_chosen() -> None:
    scores = np.zeros((3, 5))
    scores[:, 1:3] = -np.inf
    scores[2] = -np.inf
    found = texts.decode(scores, np.zeros(3, dtype=np.int64), TAGS)
    assert found[2] == PLACE["O"]
    assert not np.isin(found, labels("B-PER", "I-PER")).any()
    assert texts.decode(np.zeros((0, 5)), np.zeros(0, dtype=np.int64), TAGS).shape == (0,)


SENTENCES = np.array([0, 0, 0, 0, 1, 1], dtype=np.int64)
THERE = labels("B-PER", "I-PER", "O", "B-ORG", "B-PER", "O")


def test_entities_end_where_their_sentence_does() -> None:
    assert texts.entities(THERE, SENTENCES, TAGS) == {(0, 2, "PER"), (3, 4, "ORG"), (4, 5, "PER")}
    runs_on = labels("O", "O", "O", "B-PER", "I-PER", "I-PER")
    assert texts.entities(runs_on, SENTENCES, TAGS) == {(3, 4, "PER"), (4, 6, "PER")}
    neighbours = labels("B-PER", "B-PER", "I-ORG", "O", "O", "O")
    assert texts.entities(neighbours, SENTENCES, TAGS) == {(0, 1, "PER"), (1, 2, "PER"), (2, 3, "ORG")}


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        (("B-PER", "I-PER", "O", "B-ORG", "B-PER", "O"), (6, 6)),  # all of them
        (("O",) * 6, (0, 3)),  # none
        (("B-PER", "O", "O", "B-ORG", "B-PER", "O"), (4, 6)),  # one too short
        (("B-ORG", "I-ORG", "O", "B-ORG", "B-PER", "O"), (4, 6)),  # one of another type
        (("B-PER", "I-PER", "O", "B-ORG", "B-PER", "B-PER"), (6, 7)),  # one too many
    ],
)
def test_f1_counts_exact_spans_and_types(told: tuple[str, ...], counts: tuple[int, int]) -> None:
    assert texts.f1_counts(labels(*told), THERE, SENTENCES, TAGS) == counts
