"""Rules of voting against loops over examples, members and labels, and the laws they follow (paper card, C18)."""

import math

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

from dpcl_core.methods.features.params import RULES, Rule
from dpcl_core.methods.features.rules import VoteAccumulator

N_ROWS, N_CLASSES = 40, 6


def members(n_members: int = 3, seed: int = 4, spaces: list[list[int]] | None = None) -> list[np.ndarray]:
    """Logits [2 budgets, n, classes] of some members; -inf outside a member's space."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(n_members):
        logits = generator.standard_normal((2, N_ROWS, N_CLASSES)) * (number + 1)
        if spaces is not None:
            logits[:, :, [label for label in range(N_CLASSES) if label not in spaces[number]]] = -np.inf
        found.append(logits)
    return found


def scores(votes: list[np.ndarray], *, one_space: bool, first: Rule = "argmax") -> dict[str, np.ndarray]:
    tally = VoteAccumulator(one_space=one_space)
    for logits in votes:
        tally.add(logits)
    return tally.scores(first)


def by_hand(votes: list[np.ndarray], rule: Rule, *, one_space: bool) -> np.ndarray:
    """The formulas, one number after the other."""
    found = np.full(votes[0].shape, -np.inf)
    for budget in range(2):
        for row in range(N_ROWS):
            own = [{o: float(v) for o, v in enumerate(m[budget, row]) if math.isfinite(v)} for m in votes]
            shares = [softmax(list(logits.values())) for logits in own]
            probabilities = [dict(zip(logits, each, strict=True)) for logits, each in zip(own, shares, strict=True)]
            weights = softmax([-entropy(each) for each in shares])
            for label in {o for logits in own for o in logits}:
                heard = [k for k, logits in enumerate(own) if label in logits]
                if rule == "argmax":
                    value = max(own[k][label] for k in heard)
                elif rule == "median":
                    value = max(own[k][label] - float(np.median(list(own[k].values()))) for k in heard)
                else:
                    value = sum(weights[k] * (own if one_space else probabilities)[k][label] for k in heard)
                found[budget, row, label] = value
    return found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("votes", "one_space"), [
    (members(), True), (members()[::-1], True), (members(1), True), (members(1), False), (members()[::-1], False),
    (members(spaces=[[0, 1], [2, 3, 4], [1, 5]]), False),
])  # fmt: skip
def test_each_rule_equals_its_formula(rule: Rule, votes: list[np.ndarray], one_space: bool) -> None:
    """In any order of members, and of one alone."""
    expected = by_hand(votes, rule, one_space=one_space)
    np.testing.assert_allclose(scores(votes, one_space=one_space)[rule], expected, rtol=0, atol=1e-12)


def test_a_member_that_knows_no_label_has_no_voice() -> None:
    votes = members(2)
    mute = np.full_like(votes[0], -np.inf)
    for one_space in (True, False):
        for rule, found in scores([*votes, mute], one_space=one_space).items():
            np.testing.assert_allclose(found, scores(votes, one_space=one_space)[rule], atol=1e-12)


def test_the_chosen_rule_comes_first() -> None:
    assert [next(iter(scores(members(), one_space=True, first=rule))) for rule in RULES] == list(RULES)
