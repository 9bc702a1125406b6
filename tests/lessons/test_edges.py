"""Sharp edges: every pitfall has its words and its computation; each shows the fault it names, and the right way none."""

from __future__ import annotations

import re

import pytest

from dpcl_core import paths
from dpcl_core.lessons import edges, text


def test_lessons_that_are_named_are_there() -> None:
    assert {edge.lesson for edge in text.edges()} - {None} <= set(text.NAMES)


def test_what_is_named_in_the_code_is_there() -> None:
    root = paths.assets_dir().parent
    for edge in text.edges():
        folder = ""
        for named in edge.where.split(", "):
            path = named if named.startswith("dpcl_core/") else f"{folder}/{named}"
            path = path if (root / path).exists() else f"dpcl_core/{named}"
            assert (root / path).exists(), f"{edge.key}: {named}"
            folder = path.rpartition("/")[0]


@pytest.mark.parametrize("key", [edge.key for edge in text.edges()])
def test_each_is_a_table_and_a_sentence(key: str) -> None:
    shown = edges.demonstration(key)
    assert len(shown.rows) >= 2
    assert {len(row) for row in shown.rows} == {len(shown.head)}
    assert shown.finding.endswith(".")
    assert shown.rows[0][1:] != shown.rows[-1][1:]


@pytest.mark.parametrize("edge", text.edges(), ids=lambda edge: edge.key)
def test_what_goes_wrong_is_told_in_two_sentences(edge: text.Edge) -> None:
    assert len(re.findall(r"[.?!](?=\s|$)", edge.wrong)) == 2
    assert len(edge.prevented.split()) < 45


@pytest.mark.parametrize("key", ["realised-batch", "batch-clipping", "normalisation"])
def test_she_moves_it_further_than_accounted_and_here_she_does_not(key: str) -> None:
    rows = edges.demonstration(key).rows
    assert float(rows[0][1]) > 1.5 * float(rows[0][2])
    assert float(rows[-1][1]) <= float(rows[-1][2]) + 1e-3


def test_a_coin_of_the_rows_bytes_moves_nobody_else() -> None:
    rows = edges.by_rank().rows
    assert int(rows[0][1]) > 100
    assert int(rows[1][1]) == 0


def test_the_seed_gives_the_truth_back_and_no_other_does() -> None:
    rows = edges.recorded_seed().rows
    assert rows[0][2] == "1.000"
    assert rows[1][2] != "1.000" or rows[1][1] == rows[0][1]


def test_the_digits_prove_more_than_was_asked_for() -> None:
    """Half of all rounds have an impossible digit: 400 of them with fewer than 60 have a chance below 1e-30."""
    rows = edges.last_digits().rows
    assert float(rows[0][2]) > 2
    assert float(rows[1][2]) == 0
