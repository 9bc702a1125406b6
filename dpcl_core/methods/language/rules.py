"""How the releases of this family classify without their learners; the arithmetic is the learners' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.backbones import causal, plain_language
from dpcl_core.methods.common.classifier import Step
from dpcl_core.methods.language import evaluation, public_text
from dpcl_core.methods.language.gradients import Forks
from dpcl_core.methods.language.olora import Stack


def language(steps: Sequence[Step], inputs: NDArray[np.generic]) -> NDArray[np.floating]:
    """Scores [n, competing] of encoded texts [n, length, planes], asked as in the task `Step.task`.

    Adapters of earlier tasks, where they belong to the classifier, lie frozen beneath the last.
    """
    last, facts = steps[-1], steps[-1].facts
    assert last.task is not None, "the question names the task"
    net = _adapted(steps)
    backbone, name = str(facts["network"]), cast("tuple[str, ...]", facts["task_names"])[last.task]
    ready, texts, reading = plain_language.load_tokenizer(backbone), inputs.astype(np.int32), facts["reading"]
    labels = [last.classes.index(one) for one in last.competing]
    if reading == "choice":
        forks, public = Forks(), public_text.sentences(backbone, cast(int, facts["length"]))
        evaluation.add_forks(forks, net, ready, labels, last.classes, name, str(facts["loss"]), public, "cpu")
        scores = evaluation.choice_scores(net, ready, texts, forks, last.classes, name, device="cpu")
    else:
        rule = cast("Literal['whole', 'generate']", reading)
        scores = evaluation.label_scores(net, ready, texts, labels, last.classes, name, rule, device="cpu")
    return last.chosen(scores)


def _adapted(steps: Sequence[Step]) -> causal.Adapted:
    facts = steps[-1].facts
    rank, alpha = cast(int, facts["rank"]), cast(float, facts["alpha"])
    layers, every = cast("int | None", facts["layers"]), bool(facts["every_map"])
    net = causal.adapted(str(facts["network"]), "cpu", rank, alpha, 0, layers, every=every)
    stack = Stack(net) if len(steps) > 1 else None
    for place, step in enumerate(steps):
        if stack is not None and place:
            stack.freeze(torch.Generator())
        with torch.no_grad():
            for name, weights in net.trainable().items():
                weights.copy_(torch.from_numpy(step.arrays[name]))
    return net
