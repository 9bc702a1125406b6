"""How an ensemble's members vote: ArgMax, Median and Entropy (Tobaben et al., Eq. 10, A41 and appendix H.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.features.cards.adaptation_params import RULES, Rule

Logits = NDArray[np.floating]


class VoteAccumulator:
    """The votes of the members heard so far on one set of examples, under every rule at once.

    Members may be heard in any order. `one_space`: all members know the same labels (S_prior_const).

    * ArgMax: the largest logit of any member.
    * Median: the same after each member's logits are lowered by their own median over its labels.
    * Entropy: the sum of the members' logits, weighted by softmax over members of minus the entropy of their softmax
      (natural logarithm, gamma = 1, after SAFE, Zhao et al. 2024). Where members know different labels that sum is not
      defined, and multiplying a negative logit by a small weight would raise it: probabilities take the place of logits
      there, which is our extension.

    Only labels that a member knows (finite logits) are counted for it.
    """

    def __init__(self, *, one_space: bool) -> None:
        self._one_space = one_space
        self._votes: _Votes | None = None
        self.n_members = 0

    def add(self, logits: Logits) -> None:
        """Hears one member: logits [epsilons, n, classes], -inf for labels that it does not know."""
        votes = _votes_of(logits, one_space=self._one_space)
        self._votes = votes if self._votes is None else _together(self._votes, votes)
        self.n_members += 1

    def scores(self, first: Rule) -> dict[str, Logits]:
        """Scores [epsilons, n, classes] by rule, `first` first; -inf for labels that no member knows. Needs a member."""
        votes = self._votes
        assert votes is not None
        smallest = np.finfo(votes.weights.dtype).tiny
        found = {
            "argmax": votes.largest,
            "median": votes.centred,
            "entropy": votes.weighted / np.maximum(votes.weights, smallest),
        }
        return {rule: found[rule] for rule in (first, *(rule for rule in RULES if rule != first))}


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """What the three rules need of one member or of several: the sums and maxima over them. [epsilons, n, classes or 1]."""

    largest: Logits
    centred: Logits
    weighted: Logits
    weights: Logits


def _votes_of(logits: Logits, *, one_space: bool) -> _Votes:
    known = np.isfinite(logits)
    probabilities = _softmax(logits)
    # 0 log 0 = 0: a label that a member does not know, or rules out, adds nothing to its entropy.
    entropy = -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1))).sum(axis=2, keepdims=True)
    weights = np.exp(-entropy) * known.any(axis=2, keepdims=True)
    voted = weights * (np.where(known, logits, 0) if one_space else probabilities)
    return _Votes(logits, logits - _median(logits, known)[:, :, None], np.where(known, voted, -np.inf), weights)


def _together(left: _Votes, right: _Votes) -> _Votes:
    both = np.isfinite(left.weighted) & np.isfinite(right.weighted)
    return _Votes(
        np.maximum(left.largest, right.largest),
        np.maximum(left.centred, right.centred),
        np.where(both, left.weighted + right.weighted, np.maximum(left.weighted, right.weighted)),
        left.weights + right.weights,
    )


def _median(logits: Logits, known: NDArray[np.bool_]) -> Logits:
    """Median [epsilons, n] over the known labels; 0 where none is known.

    A budget's label space is the same for all examples, so the first example's mask serves the others.
    """
    medians = np.zeros(logits.shape[:2], dtype=logits.dtype)
    if logits.shape[1]:
        for budget, mask in enumerate(known[:, 0]):
            if mask.any():
                medians[budget] = np.median(logits[budget][:, mask], axis=1)
    return medians


def _softmax(logits: Logits) -> Logits:
    """Along the labels; zeros where no label is known."""
    top = logits.max(axis=2, keepdims=True)
    raised: Logits = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = raised.sum(axis=2, keepdims=True)
    shares: Logits = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return shares
