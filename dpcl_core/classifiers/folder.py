"""The folder of released classifiers: one JSON document, and a safetensors file for each model and task.

What a file holds has left a learner: each array is one that the ledger accounts for, computed from such arrays alone, or
public. Everything in the document is a public fact or a released list of labels.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from dpcl_core import arrays as arrays_file
from dpcl_core import checks, documents, paths
from dpcl_core.classifiers.written import DOCUMENT, NAME, UNPROTECTED, shown
from dpcl_core.errors import BadInput, first_of, instead_of
from dpcl_core.events import Fact
from dpcl_core.methods.common.classifier import LARGEST, Step
from dpcl_core.spec import Cell, RunSpec

_LARGEST_DOCUMENT, _LARGEST_FILE = 16_000_000, 2 * LARGEST


class _Step(documents.Document):
    """A classifier after a task, counted from 1: `file` has the arrays that left with it, `files` all that it needs."""

    task: int = Field(ge=1, le=100_000)
    name: str
    rule: str
    file: str
    files: tuple[str, ...] = Field(min_length=1)
    classes: tuple[str, ...]
    competing: tuple[str, ...]
    by_task: tuple[tuple[str, ...], ...]
    facts: Mapping[str, Fact]


class _Model(documents.Document):
    """One model. `epsilon`: what was asked for; `accounted`: what the ledger adds up to."""

    epsilon: float = Field(gt=0)
    seed: int
    accounted: float = Field(ge=0)
    delta: float
    protected: bool
    statement: str
    steps: tuple[_Step, ...] = Field(min_length=1)


class Document(documents.Document):
    """The document. `spec`: the run's settings, by which inputs are read; `network_identity`: name, hash of the weights and
    preprocessing. `together`: what all models give away together; `left_out`: what is not here, and why.
    """

    format: Literal["released classifiers of a continual learner"] = "released classifiers of a continual learner"
    version: Literal[1] = 1
    run_id: str
    dataset: str
    spec: Mapping[str, object]
    network: str
    network_identity: str
    inputs: str
    axes: str | None
    models: tuple[_Model, ...]
    together: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A classifier that was read: its settings, its place, its rule, and the steps that this rule reads.

    `by_task`: the classes of each task, where it is asked about an example whose task is known; else empty.
    """

    spec: RunSpec
    cell: Cell
    task: int
    is_protected: bool
    statement: str
    rule: str
    by_task: tuple[tuple[str, ...], ...]
    steps: tuple[Step, ...]


def remarks(exported: Mapping[str, bytes]) -> list[str]:
    """What to know of the classifiers among exported files, in sentences: what is left out, what has no bound."""
    if (content := exported.get(f"{NAME}/{DOCUMENT}")) is None:
        return []
    document = Document.model_validate(json.loads(content))
    models = [Cell(one.epsilon, one.seed) for one in document.models if not one.protected]
    return [*(f"warning: {shown(cell)}: {UNPROTECTED}" for cell in models), *document.left_out]


def read_classifier(folder: Path, epsilon: float | None = None, seed: int | None = None, after: int | None = None) -> Loaded:
    """A classifier of a folder. `after`: counted from 1; None: after the last task.

    Without `epsilon` and `seed` the first model of the largest budget that has a bound. Raises BadInput for a folder without
    classifiers, a damaged file and a model that is not there.
    """
    place, document = _document(folder)
    models = [one for one in document.models if epsilon in (None, one.epsilon) and seed in (None, one.seed)]
    if not models:
        there = "; ".join(shown(Cell(one.epsilon, one.seed)) for one in document.models) or "none"
        raise BadInput("FOLDER", folder.name, f"has no such classifier; it has {there}")
    model = max(models, key=lambda one: (one.protected, one.epsilon if math.isfinite(one.epsilon) else 0.0))
    steps = {one.task: one for one in model.steps}
    number = max(steps) if after is None else after
    if number not in steps:
        raise BadInput("--after", number, f"must be one of {', '.join(map(str, steps))}")
    chosen = steps[number]
    by_file = {one.file: one for one in model.steps}
    if missing := [name for name in chosen.files if name not in by_file]:
        raise BadInput(DOCUMENT, missing[0], "must be the file of one of the model's steps")
    steps_read = tuple(
        Step(_arrays(place, name), by_file[name].classes, by_file[name].competing, by_file[name].facts)
        for name in chosen.files
    )
    cell = Cell(model.epsilon, model.seed)
    spec, said = checks.parse(document.spec), model.statement
    return Loaded(spec, cell, number, model.protected, said, chosen.rule, chosen.by_task, steps_read)


def _document(folder: Path) -> tuple[Path, Document]:
    """The folder that holds the document, `folder` itself or its `classifier`, and the document."""
    must = f"must be a folder written by dpcl export, with {NAME}/{DOCUMENT}"

    def of_document(error: ValidationError) -> BadInput:
        first = first_of(error, DOCUMENT)
        return BadInput(first.field, first.value, f"{first.allowed}; the folder {must}")

    wrong = instead_of(OSError, ValueError, RecursionError, StopIteration, say=BadInput("FOLDER", folder.name, must))
    with wrong, instead_of(ValidationError, say=of_document):
        place = next(one for one in (folder, folder / NAME) if (one / DOCUMENT).is_file())
        content = paths.read_file(place / DOCUMENT, DOCUMENT, at_most=_LARGEST_DOCUMENT)
        return place, Document.model_validate(json.loads(content))


def _arrays(folder: Path, name: str) -> Mapping[str, NDArray[np.generic]]:
    content = paths.read_file(paths.inside(folder, name, DOCUMENT), name, at_most=_LARGEST_FILE)
    wrong = BadInput("FOLDER", name, "must be the safetensors file that dpcl export wrote")
    with instead_of(arrays_file.Damaged, say=wrong):
        return arrays_file.load(content)
