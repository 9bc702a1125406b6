"""How the releases of this family classify without their learners, and how the members of an ensemble vote."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.later import adaptable, torch
from dpcl_core.methods.common.classifier import PUBLIC, Step
from dpcl_core.methods.features import params
from dpcl_core.methods.features.linear_heads import Heads
from dpcl_core.privacy.sums import unit_rows

Scores = NDArray[np.floating]


def cosine(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Scores:
    """Cosines [n, competing] of features [n, K] with class sums, shrunk ones where released; -inf for a zero sum."""
    sums = directions(steps[-1])
    return np.where(sums.any(axis=1), unit_rows(inputs) @ sums.T, -np.inf)


def directions(step: Step) -> Scores:
    """The class sums of competing classes at length 1 [competing, K], shrunk ones where released; zeros stay zeros."""
    return unit_rows(step.chosen(step.real("shrunk" if "shrunk" in step.arrays else "sums").T).T)


def heads(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Scores:
    """Logits [n, competing] of a linear layer on features [n, K], or its members' votes."""
    return _voted(steps, (_head(step, inputs) for step in steps))


def adapters(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Scores:
    """Logits [n, competing] of an adapted network on pictures [n, side, side, channels], or its members' votes."""
    return _voted(steps, _adapted(steps, inputs))


def _head(step: Step, inputs: NDArray[np.generic]) -> Scores:
    weights, columns = step.real("weights"), np.arange(len(step.classes))
    allowed = np.asarray(step.arrays["labels"], dtype=np.bool_)[None]
    logits: Scores = Heads(weights[None], columns, allowed, len(columns)).logits(inputs)[0]
    return logits


def _adapted(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Iterator[Scores]:
    from dpcl_core.backbones.bundled import Axes
    from dpcl_core.methods.features.adapters import Adapter

    facts = steps[0].facts
    network = adaptable.load(facts["network"], "cpu", facts["resolution"])
    for step in steps:
        weights = {name: torch.from_numpy(one) for name, one in step.arrays.items() if not name.startswith(PUBLIC)}
        columns = np.arange(len(step.classes))
        axes = None
        if f"{PUBLIC}centre" in step.arrays:
            centre, directions = (step.real(f"{PUBLIC}{name}").astype(np.float32) for name in ("centre", "directions"))
            axes = Axes("", centre, directions)
        yield Adapter(network, facts["adapter"], facts["rank"], columns, len(columns), weights, axes).logits(inputs)


def _voted(steps: Sequence[Step], logits: Iterator[Scores]) -> Scores:
    """The votes [n, competing] of members with logits [n, classes] each, over the classes that compete after the last."""
    last, votes = steps[-1], VoteAccumulator(one_space=bool(steps[-1].facts.get("one_space", True)))
    for step, of_member in zip(steps, logits, strict=True):
        placed = np.full((1, len(of_member), len(last.competing)), -np.inf, of_member.dtype)
        for place, name in enumerate(last.competing):
            if name in step.classes:
                placed[0, :, place] = of_member[:, step.classes.index(name)]
        votes.add(placed)
    vote = last.facts.get("vote", "argmax")
    scores: Scores = votes.scores(vote)[vote][0]
    return scores


# Prediction rules of an ensemble: ArgMax, Median and Entropy (Tobaben et al., Eq. 10, A41 and appendix H.2).


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
        # Over members: largest logit, largest after centring, weighted sum, sum of weights [epsilons, n, classes or 1].
        self._votes: tuple[Scores, Scores, Scores, Scores] | None = None
        self.n_members = 0

    def add(self, logits: Scores) -> None:
        """Adds one member's votes: logits [epsilons, n, classes], -inf outside its label space."""
        allowed = np.isfinite(logits)
        probabilities = _softmax(logits)
        # 0 log 0 = 0: a label of probability 0, or outside the member's space, adds nothing to its entropy.
        entropy = -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1))).sum(axis=2, keepdims=True)
        weights = np.exp(-entropy) * allowed.any(axis=2, keepdims=True)
        voted = np.where(allowed, weights * (np.where(allowed, logits, 0) if self._one_space else probabilities), -np.inf)
        centred = logits - _median(logits, allowed)[:, :, None]
        if self._votes is not None:
            logits, centred = np.maximum(self._votes[0], logits), np.maximum(self._votes[1], centred)
            both = np.isfinite(self._votes[2]) & np.isfinite(voted)
            voted = np.where(both, self._votes[2] + voted, np.maximum(self._votes[2], voted))
            weights = self._votes[3] + weights
        self._votes = logits, centred, voted, weights
        self.n_members += 1

    def scores(self, first: params.Rule) -> dict[str, Scores]:
        """Scores [epsilons, n, classes] by rule, `first` first; -inf for labels in no member's space. Needs a member."""
        assert self._votes is not None
        largest, centred, voted, weights = self._votes
        weighted = voted / np.maximum(weights, np.finfo(weights.dtype).tiny)
        scores = {"argmax": largest, "median": centred, "entropy": weighted}
        return {rule: scores[rule] for rule in (first, *(rule for rule in params.RULES if rule != first))}


def _median(logits: Scores, allowed: NDArray[np.bool_]) -> Scores:
    """Median [epsilons, n] over the labels in the space; 0 if it is empty.

    A budget's label space is the same for all examples, so the first example's mask applies to all.
    """
    medians = np.zeros(logits.shape[:2], dtype=logits.dtype)
    if logits.shape[1]:
        for budget, mask in enumerate(allowed[:, 0]):
            if mask.any():
                medians[budget] = np.median(logits[budget][:, mask], axis=1)
    return medians


def _softmax(logits: Scores) -> Scores:
    """Softmax over the labels; zeros if the label space is empty."""
    top = logits.max(axis=2, keepdims=True)
    raised: Scores = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = raised.sum(axis=2, keepdims=True)
    shares: Scores = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return shares
