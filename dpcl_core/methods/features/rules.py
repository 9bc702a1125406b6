"""How the releases of this family classify without their learners; the arithmetic is the learners' own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.classifier import PUBLIC, Step
from dpcl_core.methods.features.adapted_network import VoteAccumulator
from dpcl_core.methods.features.cards.adaptation_params import Rule as Vote
from dpcl_core.methods.features.linear_heads import Heads
from dpcl_core.privacy.mechanisms import unit_rows

if TYPE_CHECKING:
    from dpcl_core.methods.features.adapted_network import Kind

Scores = NDArray[np.floating]


def cosine(steps: Sequence[Step], inputs: NDArray[np.generic]) -> Scores:
    """Cosines [n, competing] of features [n, K] with class sums; -inf for a zero sum."""
    last = steps[-1]
    sums = unit_rows(last.chosen(last.real("sums").T).T)
    cosines: Scores = np.where(sums.any(axis=1), unit_rows(inputs) @ sums.T, -np.inf)
    return cosines


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
    import torch

    from dpcl_core.backbones import adaptable
    from dpcl_core.backbones.bundled import Axes
    from dpcl_core.methods.features.adapters import Adapter

    facts = steps[0].facts
    resolution, rank = cast("int | None", facts["resolution"]), cast(int, facts["rank"])
    kind = cast("Kind", facts["adapter"])
    network = adaptable.load(str(facts["network"]), "cpu", resolution)
    for step in steps:
        weights = {name: torch.from_numpy(one) for name, one in step.arrays.items() if not name.startswith(PUBLIC)}
        columns = np.arange(len(step.classes))
        axes = None
        if f"{PUBLIC}centre" in step.arrays:
            centre, directions = (step.real(f"{PUBLIC}{name}").astype(np.float32) for name in ("centre", "directions"))
            axes = Axes("", centre, directions)
        yield Adapter(network, kind, rank, columns, len(columns), weights, axes).logits(inputs)


def _voted(steps: Sequence[Step], logits: Iterator[Scores]) -> Scores:
    """The votes [n, competing] of members with logits [n, classes] each, over the classes that compete after the last."""
    last, votes = steps[-1], VoteAccumulator(one_space=bool(steps[-1].facts.get("one_space", True)))
    for step, of_member in zip(steps, logits, strict=True):
        placed = np.full((1, len(of_member), len(last.competing)), -np.inf, of_member.dtype)
        for place, name in enumerate(last.competing):
            if name in step.classes:
                placed[0, :, place] = of_member[:, step.classes.index(name)]
        votes.add(placed)
    vote = cast(Vote, last.facts.get("vote", "argmax"))
    scores: Scores = votes.scores(vote)[vote][0]
    return scores
