"""Codes ranked through a language model: equal to reading every code on its own, and found once one is learned."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.data.texts import Canary
from dpcl_core.methods.language import evaluation, public_text
from dpcl_core.spec import Cell, PrivacySpec
from tests.methods.language import tiny
from tests.support.tiers import quick

PREFIX = "the code of ann is "
REPLACE = PrivacySpec(epsilons=(1.0,), delta=1e-6, adjacency="replace")


class Pairs(tiny.Letters):
    """A tokenizer that reads two digits as one token, as many do."""

    size = tiny.Letters.size + 100

    def encode(self, string: str) -> tuple[list[int], list[tuple[int, int]]]:
        ids, offsets, place = [], [], 0
        while place < len(string):
            two = string[place : place + 2]
            if len(two) == 2 and two.isdigit():
                ids.append(tiny.Letters.size + int(two))
            else:
                two = string[place]
                ids.append(super().encode(two)[0][0])
            offsets.append((place, place + len(two)))
            place += len(two)
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
    network, canary = tiny.frozen(), Canary(PREFIX, code, 1, "")
    ids, start = evaluation._continued(tiny.Letters(), PREFIX, canary.code)  # type: ignore[arg-type]
    digits = evaluation._digits(tiny.Letters(), canary)  # type: ignore[arg-type]
    assert digits is not None
    n_codes = 10 ** len(code)
    with torch.no_grad():
        found = evaluation._all_codes(network, [0, *ids[:start]], digits, len(code))
    assert found.shape == (n_codes,)
    some = np.unique(np.linspace(0, n_codes - 1, 1000).astype(int))
    plain = plainly(network, tiny.Letters(), [f"{number:0{len(code)}d}" for number in some])
    assert found[some] == pytest.approx(plain, abs=2e-4)
    (one,) = evaluation.ranks(network, tiny.Letters(), [canary])  # type: ignore[arg-type]
    assert (one.n_ranked, one.n_values, one.repetitions) == (n_codes, n_codes, 1)
    assert abs(one.rank - (1 + (found > plainly(network, tiny.Letters(), [code])[0]).sum())) <= 2  # rounding may swap


class Forgetful(torch.nn.Module):
    """A network that reads on without its cache, as one whose cache does not hold all that a token leaves behind."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, **given: object) -> object:
        return self.inner(**{name: value for name, value in given.items() if name != "past_key_values"})


def test_codes_of_a_network_without_a_full_cache_are_ranked_among_references() -> None:
    network, canary = Forgetful(tiny.frozen()).eval(), Canary(PREFIX, "4078", 1, "")
    (found,) = evaluation.ranks(network, tiny.Letters(), [canary])  # type: ignore[arg-type]
    assert (found.n_ranked, found.n_values) == (1001, 10**4)
    plain = plainly(network, tiny.Letters(), [canary.code, *evaluation._references(canary)])
    assert abs(found.rank - (1 + (plain[1:] > plain[0]).sum())) <= 2


def test_references_of_long_codes_equal_reading_each() -> None:
    network, canary = tiny.frozen(), Canary(PREFIX, "4071234", 0, "")
    (found,) = evaluation.ranks(network, tiny.Letters(), [canary])  # type: ignore[arg-type]
    assert (found.n_ranked, found.n_values) == (1001, 10**7)
    others = evaluation._references(canary)
    assert len(set(others)) == 1000
    assert canary.code not in others
    assert {len(code) for code in others} == {7}
    plain = plainly(network, tiny.Letters(), [canary.code, *others])
    assert abs(found.rank - (1 + (plain[1:] > plain[0]).sum())) <= 2


def test_codes_whose_digits_share_tokens_are_ranked_among_references() -> None:
    network, canary = tiny.frozen(size=Pairs.size), Canary(PREFIX, "40711", 1, "")
    assert evaluation._digits(Pairs(), canary) is None  # type: ignore[arg-type]
    (found,) = evaluation.ranks(network, Pairs(), [canary])  # type: ignore[arg-type]
    assert (found.n_ranked, found.n_values) == (1001, 10**5)
    plain = plainly(network, Pairs(), [canary.code, *evaluation._references(canary)])
    assert abs(found.rank - (1 + (plain[1:] > plain[0]).sum())) <= 2


def test_a_code_learned_by_heart_is_first_and_printed_and_another_is_not() -> None:
    network = tiny.frozen().requires_grad_(True)
    learned, control = Canary(PREFIX, "4071", 16, ""), Canary("the code of bob is ", "8203", 0, "")
    ids = torch.tensor([[0, *tiny.Letters().encode(PREFIX + learned.code)[0]]])
    descent = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(60):
        descent.zero_grad()
        network(input_ids=ids, labels=ids).loss.backward()
        descent.step()
    network.train()
    rankings = evaluation.ranks(network, tiny.Letters(), [learned, control])  # type: ignore[arg-type]
    said = public_text.leaks(rankings, cell=Cell(1.0, 0), task=0, privacy=REPLACE)
    assert network.training  # left as it was found
    assert said.levels == (0, 16)
    assert said.exposure[1] == pytest.approx(math.log2(10_000))
    assert said.first[1] == said.extracted[1] == 1
    assert said.extracted[0] == 0
    assert said.exposure[0] < 9  # of a code never seen: a 1-in-500 chance, fixed by the seed


def test_a_model_that_is_not_a_number_tells_nothing() -> None:
    network = tiny.frozen()
    with torch.no_grad():
        network.get_parameter("transformer.wte.weight").fill_(math.nan)
    (found,) = evaluation.ranks(network, tiny.Letters(), [Canary(PREFIX, "40", 1, "")])  # type: ignore[arg-type]
    assert found.rank == 100
    assert not found.extracted
