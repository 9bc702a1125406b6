"""Answers against sequences read one by one, and the exposure of codes against its definition."""

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.data.texts import Canary
from dpcl_core.methods.language import evaluation, public_text
from dpcl_core.methods.language.public_text import Ranked, answer_ids, epsilon_at_least, leaks, prompted, ranked
from dpcl_core.spec import Cell, PrivacySpec
from tests.methods.language import tiny
from tests.support.asserting import refuses
from tests.support.tiers import quick

NAME = "pets"


LETTERS = tiny.Letters()


def scored(net: tiny.Adapted, strings: Sequence[str], labels: Sequence[int], rule: str = "whole") -> NDArray[np.float32]:
    return evaluation.label_scores(net, LETTERS, tiny.encoded(strings), labels, tiny.CLASSES, NAME, rule, device="cpu")


@pytest.mark.parametrize("rows", [512, 4])
def test_ranking_equals_reading_every_pair_alone(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_ROWS", rows)
    net = tiny.adapted()
    found = scored(net, tiny.STRINGS, (0, 2))
    assert np.isneginf(found[:, 1]).all()  # not in the task's list
    for label in (0, 2):
        answer = answer_ids(LETTERS, tiny.CLASSES[label])
        logits = [tiny.logits_behind(net, string, answer).log_softmax(-1) for string in tiny.STRINGS]
        expected = [sum(float(own[k, token]) for k, token in enumerate(answer)) for own in logits]
        np.testing.assert_allclose(found[:, label], expected, rtol=0, atol=1e-4)


def test_no_texts_and_no_labels() -> None:
    assert scored(tiny.adapted(), (), (0,)).shape == (0, 3)
    assert np.isneginf(scored(tiny.adapted(), ("x",), ())).all()


def greedy_one_by_one(net: tiny.Adapted, string: str, most: int) -> list[int]:
    written: list[int] = []
    for _ in range(most):
        written.append(int(tiny.logits_behind(net, string, written)[-1].argmax()))
    return written


def test_writing_equals_a_loop_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    net, texts = tiny.adapted(seed=3), prompted(LETTERS, tiny.encoded(tiny.STRINGS), None, tiny.CLASSES, NAME)
    monkeypatch.setattr(evaluation, "_text", lambda tokenizer, ids: ids)
    found = evaluation._greedy(net, evaluation.batch_of(texts, tiny.ALL, "cpu"), LETTERS, 6)
    assert found == [greedy_one_by_one(net, string, 6) for string in tiny.STRINGS]
    assert len({tuple(ids) for ids in found}) > 1  # the texts matter


def test_only_a_whole_name_that_ends_is_an_answer() -> None:
    good = LETTERS.encode(" good")[0]
    assert (evaluation._text(LETTERS, [*good, LETTERS.eos, 5]), evaluation._text(LETTERS, good)) == ("good", "")
    assert evaluation._text(LETTERS, [LETTERS.eos]) == ""


def test_a_written_name_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    written = ["good", "bad", "nothing of the kind", "worse"]
    monkeypatch.setattr(evaluation, "_greedy", lambda net, batch, *rest: [written[row] for row in batch.rows])
    expected = np.full((4, 3), -np.inf)
    expected[0, 1] = expected[1, 0] = 0  # "worse" is no label of this task
    np.testing.assert_array_equal(scored(tiny.adapted(), tiny.STRINGS[:4], (0, 1), "generate"), expected)


# Exposure against its definition: closed forms, ties, both ends, references instead of all values, and what it proves.


N = 10_000
REPLACE = PrivacySpec(epsilons=(1.0,), delta=1e-6, adjacency="replace")
CELL = Cell(1.0, 0)


def at(rank: int, repetitions: int = 16, extracted: bool = False) -> Ranked:
    """A code with so many of the 10,000 at least as likely."""
    return ranked(-rank + 0.5, -np.delete(np.arange(1.0, N + 1) - 0.5, rank - 1) + 0.0, N, repetitions, extracted)


@pytest.mark.parametrize("rank", [1, 2, 77, 5000, N])
def test_exposure_is_its_definition(rank: int) -> None:
    found = at(rank)
    assert (found.rank, found.exposure) == (rank, pytest.approx(math.log2(N) - math.log2(rank)))
    assert found.below == pytest.approx(math.log2(N) - math.log2(N + 1 - rank))


def test_a_code_never_seen_has_1_44_bits_from_either_end() -> None:
    """The mean over all ranks, which is what a random code has: log2 N - log2(N!) / N."""
    assert math.log2(N) - math.lgamma(N + 1) / math.log(2) / N == pytest.approx(1 / math.log(2), abs=1e-3)
    every = [at(rank) for rank in range(1, N + 1, 25)]
    assert np.mean([one.exposure for one in every]) == pytest.approx(1.44, abs=0.05)
    assert np.mean([one.below for one in every]) == pytest.approx(1.44, abs=0.05)


def test_ties_are_no_find() -> None:
    """A model that thinks the same of all codes has learned none: the middle rank for exposure, the last for a proof."""
    flat = ranked(-3.0, np.full(N - 1, -3.0), N, 16, False)
    assert (flat.exposure, flat.below) == (pytest.approx(1.0, abs=1e-3), pytest.approx(1.0, abs=1e-3))
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
    refuses("references", ranked, 0.0, np.zeros(0), 400, 1, False, error=ValueError)


def test_random_codes_among_references_have_the_mean_of_all() -> None:
    """Exchangeable: the mean of 2,000 has a standard error of 1.44 / sqrt(2000) = 0.032; the cap costs 0.01."""
    drawn = np.random.default_rng(5).random((2000, 401))
    found = [ranked(float(row[0]), row[1:], 10**6, 0, False).exposure for row in drawn]
    assert np.mean(found) == pytest.approx(1 / math.log(2), abs=0.17)


def test_levels_are_told_apart() -> None:
    said = leaks([at(1, 16, True), at(3, 16), at(5000, 0), at(1, 0), at(100, 4)], cell=CELL, task=2, privacy=REPLACE)
    assert (said.cell, said.task, said.levels, said.codes) == (CELL, 2, (0, 4, 16), (2, 1, 2))
    assert (said.first, said.extracted) == ((0.5, 0.0, 0.5), (0.0, 0.0, 0.5))
    assert said.exposure[2] == pytest.approx(math.log2(N) - math.log2(3) / 2)
    assert said.below[1] == pytest.approx(math.log2(N / (N + 1 - 100)))
    assert leaks([], cell=CELL, task=0, privacy=REPLACE).levels == ()


def test_controls_alone_prove_nothing() -> None:
    """The codes of controls are never in the data, whatever their rank: no proof rests on them."""
    assert (epsilon_at_least([at(1, 0)] * 30, REPLACE), epsilon_at_least([], REPLACE)) == (0, 0)


def test_what_fifteen_codes_can_prove() -> None:
    """The docstring's numbers: three lists a level share the error probability, and a fifth of the values is left out."""
    rate = (0.05 / 3) ** (1 / 15)
    exact = math.log(rate / (1 - rate) * (0.8 * N - 1))
    budgets = [PrivacySpec(delta=1e-9, adjacency=one) for one in ("replace", "add-remove")]
    once, both = (epsilon_at_least([at(1, 1)] * 15, one) for one in budgets)
    assert once == pytest.approx(exact, abs=0.01)
    assert 10.1 < once < 10.2
    assert both == pytest.approx(exact / 2, abs=0.01)
    assert epsilon_at_least([at(1, 16)] * 15, REPLACE) < exact / 16
    assert epsilon_at_least([at(60, 1)] * 15, REPLACE) > 2  # not the likeliest, but in the first hundred


def test_random_codes_prove_nothing_but_at_the_stated_rate() -> None:
    """Of 40 audits of codes that no model knows, 5 % may say more than 0: 12 of them would be a 1-in-10^6 event."""
    generator = np.random.default_rng(11)
    said = [epsilon_at_least([at(int(rank), 1) for rank in generator.integers(1, N + 1, 15)], REPLACE) for _ in range(40)]
    assert sum(bound > 0 for bound in said) <= 11


# Codes ranked through a language model: equal to reading every code on its own, and found once one is learned.


PREFIX = "the code of ann is "


class Pairs(tiny.Letters):
    """A tokenizer that reads two digits as one token, as many do."""

    size = tiny.Letters.size + 100

    def encode(self, string: str) -> tuple[list[int], list[tuple[int, int]]]:
        ids, offsets = [], []
        for found in re.finditer(r"\d\d|.", string):
            ids += [tiny.Letters.size + int(found[0])] if len(found[0]) == 2 else super().encode(found[0])[0]
            offsets.append(found.span())
        return ids, offsets


def plainly(network: torch.nn.Module, tokenizer: tiny.Letters, codes: Sequence[str]) -> NDArray[np.float64]:
    """Log-likelihood of each code behind the prefix, every one in a row of its own from the first token on."""
    rows = [[tokenizer.bos, *tokenizer.encode(PREFIX + code)[0]] for code in codes]
    start = 1 + len(tokenizer.encode(PREFIX)[0])
    found = np.zeros(len(rows))
    for length in {len(row) for row in rows}:
        alike = [k for k, row in enumerate(rows) if len(row) == length]
        ids = torch.tensor([rows[k] for k in alike])
        with torch.no_grad():
            steps = network(input_ids=ids, use_cache=False).logits[:, start - 1 : -1].double().log_softmax(dim=-1)
        found[alike] = steps.gather(2, ids[:, start:, None]).sum(dim=(1, 2)).numpy()
    return found


@pytest.mark.parametrize(("code", "at_once"), quick(3, [("407", 100), ("407", 3), ("4", 100), ("40711", 300)]))
def test_the_tree_of_codes_equals_reading_each(code: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, a few beginnings after the other, without any, and the longest that are read so (a thousand of its codes)."""
    monkeypatch.setattr(evaluation, "_BRANCHES", at_once)
    network, canary, n_codes = tiny.frozen(), Canary(PREFIX, code, 1, ""), 10 ** len(code)
    ids, start = evaluation._continued(LETTERS, PREFIX, canary.code)
    with torch.no_grad():
        found = evaluation._all_codes(network, [0, *ids[:start]], evaluation._digits(LETTERS, canary), len(code))
    assert found.shape == (n_codes,)
    some = np.unique(np.linspace(0, n_codes - 1, 1000).astype(int))
    assert found[some] == pytest.approx(plainly(network, LETTERS, [f"{number:0{len(code)}d}" for number in some]), abs=2e-4)
    (one,) = evaluation.ranks(network, LETTERS, [canary])
    assert (one.n_ranked, one.n_values, one.repetitions) == (n_codes, n_codes, 1)
    assert abs(one.rank - (1 + (found > plainly(network, LETTERS, [code])[0]).sum())) <= 2  # rounding may swap


class Forgetful(torch.nn.Module):
    """A network that reads on without its cache, as one whose cache does not hold all that a token leaves behind."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, **given: object) -> object:
        return self.inner(**{name: value for name, value in given.items() if name != "past_key_values"})


def ranked_among_references(network: torch.nn.Module, tokenizer: tiny.Letters, code: str) -> list[str]:
    """A thousand of them, as if each had been read alone."""
    canary = Canary(PREFIX, code, 1, "")
    (found,), others = evaluation.ranks(network, tokenizer, [canary]), evaluation._references(canary)
    assert (found.n_ranked, found.n_values) == (1001, 10 ** len(code))
    plain = plainly(network, tokenizer, [code, *others])
    assert abs(found.rank - (1 + (plain[1:] > plain[0]).sum())) <= 2
    return others


def test_codes_of_a_network_without_a_full_cache_are_ranked_among_references() -> None:
    ranked_among_references(Forgetful(tiny.frozen()).eval(), LETTERS, "4078")


def test_references_of_long_codes_equal_reading_each() -> None:
    others = ranked_among_references(tiny.frozen(), LETTERS, "4071234")
    assert len(set(others)) == 1000
    assert "4071234" not in others
    assert {len(code) for code in others} == {7}


def test_codes_whose_digits_share_tokens_are_ranked_among_references() -> None:
    assert evaluation._digits(Pairs(), Canary(PREFIX, "40711", 1, "")) is None
    ranked_among_references(tiny.frozen(size=Pairs.size), Pairs(), "40711")


def test_a_code_learned_by_heart_is_first_and_printed_and_another_is_not() -> None:
    network = tiny.frozen().requires_grad_(True)
    learned, control = Canary(PREFIX, "4071", 16, ""), Canary("the code of bob is ", "8203", 0, "")
    ids = torch.tensor([[0, *LETTERS.encode(PREFIX + learned.code)[0]]])
    descent = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(60):
        descent.zero_grad()
        network(input_ids=ids, labels=ids).loss.backward()
        descent.step()
    network.train()
    rankings = evaluation.ranks(network, LETTERS, [learned, control])
    said = public_text.leaks(rankings, cell=Cell(1.0, 0), task=0, privacy=REPLACE)
    assert network.training  # left as it was found
    assert (said.levels, said.exposure[1]) == ((0, 16), pytest.approx(math.log2(10_000)))
    assert said.first[1] == said.extracted[1] == 1
    assert said.extracted[0] == 0
    assert said.exposure[0] < 9  # of a code never seen: a 1-in-500 chance, fixed by the seed


def test_a_model_that_is_not_a_number_tells_nothing() -> None:
    network = tiny.frozen()
    with torch.no_grad():
        network.get_parameter("transformer.wte.weight").fill_(math.nan)
    (found,) = evaluation.ranks(network, LETTERS, [Canary(PREFIX, "40", 1, "")])
    assert found.rank == 100
    assert not found.extracted
