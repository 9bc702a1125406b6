"""Scores between which a run is read, before it has learned anything: chance, and the public network untrained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import cache
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput
from dpcl_core.events import References
from dpcl_core.methods.common.evaluation import zero_shot
from dpcl_core.methods.common.learner import Answering, Learner
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios import chance, preview
from dpcl_core.scenarios.stream import Task, TaskStream
from dpcl_core.spec import RunSpec


def before_training(spec: RunSpec, streams: Sequence[TaskStream], public: Sequence[int], device: str) -> References:
    """Chance and, unless a language model has to be opened first, the score of the public network that has learned nothing.

    An encoder of texts finds labels by their meaning: a text gets the label whose name has the largest cosine with it among
    the labels that compete. A network of pictures, or of single words, has never heard of the labels and can only guess: its
    score is chance. None without a pretrained network. Reads no training example. `public`: indices of the public labels.
    """
    is_given = spec.params.is_task_given
    known = References(chance.chance(streams, public, is_task_given=is_given), n_tested=chance.n_tested(streams))
    if datasets.card(spec.data.dataset).kind != "text":
        return _guessing(known, spec)
    if backbones.card(spec.data.backbone).is_language_model:
        return known
    names = [name.replace("_", " ") for name in streams[0].classes]
    directions = unit_rows(cache.features(spec.data.backbone, Texts(names), device))

    def nearest(task: Task) -> NDArray[np.float64]:
        competing = sorted(set(public) & set(task.prior)) if is_given or task.task_id is not None else list(public)
        scores = np.full((len(task.test), len(names)), -np.inf)
        scores[:, competing] = unit_rows(task.test.inputs) @ directions[competing].T
        return scores

    return replace(known, untrained=zero_shot(streams, nearest))


def of_labels(spec: RunSpec) -> References:
    """Chance from the label columns alone, for runs that were stored before it was.

    Where the files are gone, one over the number of classes that the dataset's card gives; where that is gone too, 0.
    """
    try:
        streams = [preview.tested(spec.data, spec.scenario, seed, None) for seed in spec.seeds]
        opened = [stream for stream in streams if stream is not None]
        card = datasets.card(spec.data.dataset)
    except BadInput:
        return References(0.0)
    if not opened:
        n_classes = 0 if card.kind == "tagged" else card.n_classes
        return References(1 / n_classes if n_classes else 0.0)
    classes = opened[0].classes
    public = [place for place, name in enumerate(classes) if spec.public_labels is None or name in spec.public_labels]
    level = chance.chance(opened, public, is_task_given=spec.params.is_task_given)
    known = References(level, n_tested=chance.n_tested(opened))
    return known if card.kind == "text" else _guessing(known, spec)


def _guessing(known: References, spec: RunSpec) -> References:
    """With a network that has never heard of the labels: it can only guess. Without one, there is nothing to ask."""
    return known if backbones.card(spec.data.backbone).size_mb == 0 else replace(known, untrained=known.chance)


def answered(known: References, streams: Sequence[TaskStream], fresh: Learner) -> References:
    """The same with the answers of a learner that has learned nothing, if it can answer so early."""
    return replace(known, untrained=zero_shot(streams, fresh.untrained)) if isinstance(fresh, Answering) else known
