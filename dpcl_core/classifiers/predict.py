"""Predictions by a released classifier: reads a folder and inputs, and applies the classifier's rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import extractor, pixels
from dpcl_core.classifiers import folder as folders
from dpcl_core.classifiers import inputs as files
from dpcl_core.classifiers.folder import Loaded
from dpcl_core.data import row_encoding, tags
from dpcl_core.data.row_encoding import RowEncoding
from dpcl_core.data.sentences import Sentences
from dpcl_core.errors import BadInput, unknown
from dpcl_core.events import JsonValue
from dpcl_core.methods.common.classifier import Step

# By name: the family whose `rules` module has the function, loaded when used.
RULES: Mapping[str, str] = {
    "cosine": "features",
    "heads": "features",
    "adapters": "features",
    "readout": "lifelong",
    "network": "lifelong",
    "federated-head": "federated",
    "nearest-mean": "federated",
    "mixed-prototypes": "federated",
    "language": "language",
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer for one example: the class with the highest score, None where no class was ever released."""

    name: str
    label: str | None
    scores: Mapping[str, float]

    def document(self) -> dict[str, JsonValue]:
        """As JSON; a class that cannot be predicted has no score."""
        return {"input": self.name, "label": self.label, "scores": dict(self.scores)}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions and the classifier that made them; `warnings` in sentences."""

    classifier: Loaded
    predictions: tuple[Prediction, ...]
    warnings: tuple[str, ...]


def predicted(
    folder: Path,
    asked: Path,
    *,
    epsilon: float | None = None,
    seed: int | None = None,
    after: int | None = None,
    task: int | None = None,
    device: str = "cpu",
) -> Predicted:
    """The predictions for a file or folder of examples.

    `epsilon`, `seed`, `after`: which classifier, as `folder.read` takes them; `task`: the examples' own task, counted from
    1, where it is known. Raises BadInput in one sentence for folders, inputs and choices that do not fit.
    """
    found = folders.read(folder, epsilon, seed, after)
    facts = found.steps[-1].facts
    competing = _competing(found, task)
    shape = cast("tuple[int, ...]", facts.get("shape", ()))
    pictures = (shape[0], shape[1], shape[2]) if len(shape) == 3 else None  # a window of a sensor has two sides
    if pictures == pixels.RESIZED:  # what pictures of any size become, and those of this size stay
        pictures = None
    encoding = _encoding(found)
    texts = str(facts.get("text_column", files.TEXT))
    given = files.read(asked, pictures, tagged=bool(facts["is_tagged"]), encoding=encoding, texts=texts)
    warnings = () if found.is_protected else (f"epsilon {found.cell.epsilon:g}: {folders.UNPROTECTED}",)
    values, more = _values(found, given, device)
    place = None if task is None else task - 1
    steps = [*found.steps[:-1], replace(found.steps[-1], competing=competing, task=place)]
    scores = rule(found.rule)(steps, values)
    chosen = np.where(np.isfinite(scores).any(axis=1), scores.argmax(axis=1), -1)
    if isinstance(given.content, Sentences):
        chosen = tags.decode(scores, given.content.sentence_of, competing)
    predictions = [
        Prediction(
            name,
            None if label < 0 else competing[label],
            {one: float(score) for one, score in zip(competing, row, strict=True) if np.isfinite(score)},
        )
        for name, label, row in zip(given.names, chosen.tolist(), scores, strict=True)
    ]
    return Predicted(found, tuple(predictions), (*warnings, *given.lost, *more))


def _competing(found: Loaded, task: int | None) -> tuple[str, ...]:
    """The classes that compete: all so far, or those of the examples' own task."""
    last, known = found.steps[-1], len(found.by_task)
    if task is None:
        if "task_names" in last.facts:  # a language model is asked in the words of a task
            names = cast("tuple[str, ...]", last.facts["task_names"])
            offered = ", ".join(f"{place} ({name})" for place, name in enumerate(names, start=1))
            raise BadInput("--task", "", f"must be given, as the question names the task: {offered}")
        return last.competing
    if not known:
        raise BadInput("--task", task, "must be left out: this classifier needs no task")
    if not 1 <= task <= known:
        raise BadInput("--task", task, f"must lie between 1 and {known}, the tasks that it has learned")
    return found.by_task[task - 1]


def _values(found: Loaded, given: files.Asked, device: str) -> tuple[NDArray[np.generic], Sequence[str]]:
    """The examples as the rule reads them, and a warning where another version of the network made its features."""
    from dpcl_core import engine  # loads every method's neighbours, which reading a folder does not need

    spec, facts = found.spec, found.steps[-1].facts
    if given.features is not None:
        if spec.params.inputs != "features":
            raise BadInput(files.FIELD, "numbers", "must be examples themselves: this classifier adapts its network")
        encoding = _encoding(found)
        is_embedding = encoding is not None and encoding.is_embedding
        return _along(found, row_encoding.units(given.features) if is_embedding else given.features), ()
    assert given.content is not None
    steps = engine.inputs(spec, given.content, device)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            values = cast("NDArray[np.generic]", done.value)
            break
    now, then = extractor.identity(spec.data.backbone, device, spec.data.resolution), str(facts["network_identity"])
    differs = now.split("|")[:2] != then.split("|")[:2]
    warning = f"the network {spec.data.backbone} is another version than the one that the classifier was made with"
    return values[:, : cast(int, facts["n_inputs"])] if "axes" in facts else values, (warning,) if differs else ()


def _encoding(found: Loaded) -> RowEncoding | None:
    """How rows of a table became inputs; None for other data."""
    facts = found.steps[-1].facts
    return row_encoding.read(str(facts["rows"])) if "rows" in facts else None


def _along(found: Loaded, features: NDArray[np.floating]) -> NDArray[np.floating]:
    """Features along the run's public axes; unchanged where there are none, or where they are coordinates already."""
    from dpcl_core.backbones import axes

    facts = found.steps[-1].facts
    n_inputs, n_given = cast(int, facts["n_inputs"]), features.shape[1]
    if n_given == n_inputs:
        return features
    public = axes.load(str(facts["network"]), str(facts["axes"])) if "axes" in facts else None
    if public is None or n_given != len(public.centre):
        other = "" if public is None else f" along the axes, or {len(public.centre)} as {facts['network']} gives them"
        raise BadInput(files.FIELD, f"{n_given} numbers a row", f"must have {n_inputs}{other}")
    return public.first(n_inputs).along(features)


class Scores(Protocol):
    """Scores [n, competing] of inputs [n, ...] by a classifier: the last step, preceded by those that belong to it."""

    def __call__(self, steps: Sequence[Step], inputs: NDArray[np.generic]) -> NDArray[np.floating]: ...


def rule(name: str) -> Scores:
    """The rule of this name. Raises BadInput for another."""
    if name not in RULES:
        raise unknown("rule", name, RULES)
    module = import_module(f"dpcl_core.methods.{RULES[name]}.rules")
    return cast(Scores, getattr(module, name.replace("-", "_")))
