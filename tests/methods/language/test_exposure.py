"""Exposure against its definition: closed forms, ties, both ends, references instead of all values, and what it proves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.methods.language.public_text import Ranked, epsilon_at_least, leaks, ranked
from dpcl_core.spec import Cell, PrivacySpec

N = 10_000
REPLACE = PrivacySpec(epsilons=(1.0,), delta=1e-6, adjacency="replace")
CELL = Cell(1.0, 0)


def at(rank: int, repetitions: int = 16, extracted: bool = False) -> Ranked:
    """A code with so many of the 10,000 at least as likely."""
    return ranked(-rank + 0.5, -np.delete(np.arange(1.0, N + 1) - 0.5, rank - 1) + 0.0, N, repetitions, extracted)


@pytest.mark.parametrize("rank", [1, 2, 77, 5000, N])
def test_exposure_is_its_definition(rank: int) -> None:
    found = at(rank)
    assert found.rank == rank
    assert found.exposure == pytest.approx(math.log2(N) - math.log2(rank))
    assert found.below == pytest.approx(math.log2(N) - math.log2(N + 1 - rank))


def test_a_code_never_seen_has_1_44_bits_from_either_end() -> None:
    """The mean over all ranks, which is what a random code has: log2 N - log2(N!) / N."""
    exact = math.log2(N) - math.lgamma(N + 1) / math.log(2) / N
    assert exact == pytest.approx(1 / math.log(2), abs=1e-3)
    every = [at(rank) for rank in range(1, N + 1, 25)]
    assert np.mean([one.exposure for one in every]) == pytest.approx(1.44, abs=0.05)
    assert np.mean([one.below for one in every]) == pytest.approx(1.44, abs=0.05)


def test_ties_are_no_find() -> None:
    """A model that thinks the same of all codes has learned none: the middle rank for exposure, the last for a proof."""
    flat = ranked(-3.0, np.full(N - 1, -3.0), N, 16, False)
    assert flat.exposure == pytest.approx(1.0, abs=1e-3)
    assert flat.below == pytest.approx(1.0, abs=1e-3)
    assert flat.rank == N
    pair = ranked(-1.0, np.array([-1.0, -2.0, -3.0]), 4, 1, False)
    assert (pair.rank, pair.place) == (2, 1.5)


def test_broken_numbers_count_as_least_likely() -> None:
    assert ranked(math.nan, np.arange(9.0), 10, 1, False).exposure == 0
    assert ranked(0.0, np.full(9, math.nan), 10, 1, False).rank == 1
    assert ranked(math.nan, np.full(9, math.nan), 10, 1, False).rank == 10


def test_references_estimate_what_all_values_give() -> None:
    """1,000 of 10^6 values, the secret at a known quantile: a share's standard error is sqrt(u (1 - u) / 1000)."""
    generator = np.random.default_rng(3)
    for share in (0.01, 0.2, 0.6):
        likelihood = -share  # of values spread evenly over [-1, 0] this share is more likely
        found = ranked(likelihood, -generator.random(1000), 10**6, 1, False)
        assert found.place / 10**6 == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 1000))
        assert found.exposure == pytest.approx(-math.log2(found.place / 10**6))


def test_places_between_references_are_interpolated_and_the_ends_are_held() -> None:
    references = np.array([-1.0, -2.0, -4.0])
    place = {own: ranked(own, references, 400, 1, False).place for own in (-0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -9.0)}
    assert place == {-0.5: 50, -1.0: 100, -1.5: 150, -2.0: 200, -3.0: 250, -4.0: 300, -9.0: 350}
    assert ranked(0.0, references, 400, 1, False).exposure == pytest.approx(math.log2(2 * (3 + 1)))
    assert ranked(-1.0, np.array([-1.0, -1.0, -4.0]), 400, 1, False).place == 150  # the middle of those that equal it
    with pytest.raises(ValueError, match="references"):
        ranked(0.0, np.zeros(0), 400, 1, False)


def test_random_codes_among_references_have_the_mean_of_all() -> None:
    """Exchangeable: the mean of 2,000 has a standard error of 1.44 / sqrt(2000) = 0.032; the cap costs 0.01."""
    generator = np.random.default_rng(5)
    drawn = generator.random((2000, 401))
    found = [ranked(float(row[0]), row[1:], 10**6, 0, False).exposure for row in drawn]
    assert np.mean(found) == pytest.approx(1 / math.log(2), abs=0.17)


def test_levels_are_told_apart() -> None:
    found = [at(1, 16, True), at(3, 16), at(5000, 0), at(1, 0), at(100, 4)]
    said = leaks(found, cell=CELL, task=2, privacy=REPLACE)
    assert (said.cell, said.task, said.levels, said.codes) == (CELL, 2, (0, 4, 16), (2, 1, 2))
    assert said.first == (0.5, 0.0, 0.5)
    assert said.extracted == (0.0, 0.0, 0.5)
    assert said.exposure[2] == pytest.approx(math.log2(N) - math.log2(3) / 2)
    assert said.below[1] == pytest.approx(math.log2(N / (N + 1 - 100)))
    assert leaks([], cell=CELL, task=0, privacy=REPLACE).levels == ()


def test_controls_alone_prove_nothing() -> None:
    """The codes of controls are never in the data, whatever their rank: no proof rests on them."""
    assert epsilon_at_least([at(1, 0)] * 30, REPLACE) == 0
    assert epsilon_at_least([], REPLACE) == 0


def test_what_fifteen_codes_can_prove() -> None:
    """The docstring's numbers: three lists a level share the error probability, and a fifth of the values is left out."""
    rate = (0.05 / 3) ** (1 / 15)
    exact = math.log(rate / (1 - rate) * (0.8 * N - 1))
    once = epsilon_at_least([at(1, 1)] * 15, PrivacySpec(epsilons=(1.0,), delta=1e-9, adjacency="replace"))
    assert once == pytest.approx(exact, abs=0.01)
    assert 10.1 < once < 10.2
    both = epsilon_at_least([at(1, 1)] * 15, PrivacySpec(epsilons=(1.0,), delta=1e-9, adjacency="add-remove"))
    assert both == pytest.approx(exact / 2, abs=0.01)
    assert epsilon_at_least([at(1, 16)] * 15, REPLACE) < exact / 16
    assert epsilon_at_least([at(60, 1)] * 15, REPLACE) > 2  # not the likeliest, but in the first hundred


def test_random_codes_prove_nothing_but_at_the_stated_rate() -> None:
    """Of 40 audits of codes that no model knows, 5 % may say more than 0: 12 of them would be a 1-in-10^6 event."""
    generator = np.random.default_rng(11)
    said = [epsilon_at_least([at(int(rank), 1) for rank in generator.integers(1, N + 1, 15)], REPLACE) for _ in range(40)]
    assert sum(bound > 0 for bound in said) <= 11
