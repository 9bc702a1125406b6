"""Prediction rules of an ensemble: ArgMax, Median and Entropy (Tobaben et al., Eq. 10, A41 and appendix H.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.features.cards.adaptation_params import RULES, Rule

Logits = NDArray[np.floating]


class VoteAccumulator:
    """Accumulates the members' votes on one set of examples, under every rule at once.

    Members may be added in any order. `one_space`: all members have the same label space (S_prior_const).

    * ArgMax: the largest logit of any member.
    * Median: the largest logit after subtracting from each member's logits their median over its labels.
    * Entropy: the weighted sum of the members' logits, with weights softmax over members of minus the entropy of each
      member's softmax (natural logarithm, gamma = 1, after SAFE, Zhao et al. 2024). If members have different label spaces,
      that sum is not defined, and multiplying a negative logit by a small weight would raise it; our extension then uses
      probabilities instead of logits.

    A member votes only for labels in its own space (finite logits).
    """

    def __init__(self, *, one_space: bool) -> None:
        self._one_space = one_space
        self._votes: _Votes | None = None
        self.n_members = 0

    def add(self, logits: Logits) -> None:
        """Adds one member's votes: logits [epsilons, n, classes], -inf outside its label space."""
        votes = _votes_of(logits, one_space=self._one_space)
        self._votes = votes if self._votes is None else _combined(self._votes, votes)
        self.n_members += 1

    def scores(self, first: Rule) -> dict[str, Logits]:
        """Scores [epsilons, n, classes] by rule, `first` first; -inf for labels in no member's space. Needs a member."""
        votes = self._votes
        assert votes is not None
        smallest = np.finfo(votes.weights.dtype).tiny
        scores = {
            "argmax": votes.largest,
            "median": votes.centred,
            "entropy": votes.weighted / np.maximum(votes.weights, smallest),
        }
        return {rule: scores[rule] for rule in (first, *(rule for rule in RULES if rule != first))}


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """Sums and maxima over members that the three rules require, each [epsilons, n, classes or 1]."""

    largest: Logits
    centred: Logits
    weighted: Logits
    weights: Logits


def _votes_of(logits: Logits, *, one_space: bool) -> _Votes:
    allowed = np.isfinite(logits)
    probabilities = _softmax(logits)
    # 0 log 0 = 0: a label of probability 0, or outside the member's space, adds nothing to its entropy.
    entropy = -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1))).sum(axis=2, keepdims=True)
    weights = np.exp(-entropy) * allowed.any(axis=2, keepdims=True)
    voted = weights * (np.where(allowed, logits, 0) if one_space else probabilities)
    return _Votes(logits, logits - _median(logits, allowed)[:, :, None], np.where(allowed, voted, -np.inf), weights)


def _combined(left: _Votes, right: _Votes) -> _Votes:
    both = np.isfinite(left.weighted) & np.isfinite(right.weighted)
    return _Votes(
        np.maximum(left.largest, right.largest),
        np.maximum(left.centred, right.centred),
        np.where(both, left.weighted + right.weighted, np.maximum(left.weighted, right.weighted)),
        left.weights + right.weights,
    )


def _median(logits: Logits, allowed: NDArray[np.bool_]) -> Logits:
    """Median [epsilons, n] over the labels in the space; 0 if it is empty.

    A budget's label space is the same for all examples, so the first example's mask applies to all.
    """
    medians = np.zeros(logits.shape[:2], dtype=logits.dtype)
    if logits.shape[1]:
        for budget, mask in enumerate(allowed[:, 0]):
            if mask.any():
                medians[budget] = np.median(logits[budget][:, mask], axis=1)
    return medians


def _softmax(logits: Logits) -> Logits:
    """Softmax over the labels; zeros if the label space is empty."""
    top = logits.max(axis=2, keepdims=True)
    raised: Logits = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = raised.sum(axis=2, keepdims=True)
    shares: Logits = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return shares
