"""How the releases of this family classify without their learners; the arithmetic is the learners' own."""

from collections.abc import Sequence

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
    backbone, name = facts["network"], facts["task_names"][last.task]
    ready, texts, reading = plain_language.load_tokenizer(backbone), inputs.astype(np.int32), facts["reading"]
    labels = [last.classes.index(one) for one in last.competing]
    if reading == "choice":
        forks, public = Forks(), public_text.sentences(backbone, facts["length"])
        evaluation.add_forks(forks, net, ready, labels, last.classes, name, facts["loss"], public, "cpu")
        scores = evaluation.choice_scores(net, ready, texts, forks, last.classes, name, device="cpu")
    else:
        scores = evaluation.label_scores(net, ready, texts, labels, last.classes, name, reading, device="cpu")
    return last.chosen(scores)


def _adapted(steps: Sequence[Step]) -> causal.Adapted:
    facts = steps[-1].facts
    shape = facts["rank"], facts["alpha"], 0, facts["layers"]
    net = causal.adapted(facts["network"], "cpu", *shape, every=facts["every_map"])
    stack = Stack(net) if len(steps) > 1 else None
    for place, step in enumerate(steps):
        if stack is not None and place:
            stack.freeze(torch.Generator())
        with torch.no_grad():
            for name, weights in net.trainable().items():
                weights.copy_(torch.from_numpy(step.arrays[name]))
    return net
