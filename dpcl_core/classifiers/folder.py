"""The folder of released classifiers: one JSON document, and a safetensors file for each model and task.

What a file holds has left a learner: each array is one that the ledger accounts for, computed from such arrays alone, or
public. Everything in the document is a public fact or a released list of labels.
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
from annotated_types import Ge, Gt, Interval, MinLen
from numpy.typing import NDArray

from dpcl_core import arrays as arrays_file
from dpcl_core import checks, paths
from dpcl_core.backbones import bundled as public_axes
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import CellFinished, Classifier, Event, Fact, Guarantee, Started, of_kind, plain
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.classifier import LARGEST, Step
from dpcl_core.privacy import card_document, statement
from dpcl_core.spec import Cell, RunSpec, validated

NAME = "classifier"
DOCUMENT = f"{NAME}.json"
AXES = "axes.safetensors"
UNPROTECTED = "no privacy bound holds for it: do not give it to anyone who may not see the data"
_READ = {
    "features": "The network turns an example into features x; where there are axes, into ((x - centre) @ directions), of "
    "which the first n_inputs count.",
    "images": "The network itself was adapted: the arrays are what was trained in it, beside its public weights.",
    "text": "The language model itself was adapted: the arrays are what was trained in it, beside its public weights.",
}
_PERMUTED = "This run orders an example's values anew in every task: put them into the order of the task asked about."
_LARGEST_DOCUMENT, _LARGEST_FILE = 16_000_000, 2 * LARGEST


@dataclass(frozen=True, slots=True)
class _Step:
    """A classifier after a task, counted from 1: `file` has the arrays that left with it, `files` all that it needs.

    `by_task`: the classes of each task, where it is asked about an example whose task is known; else empty.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    task: Annotated[int, Interval(ge=1, le=100_000)]
    name: str
    rule: str
    file: str
    files: Annotated[tuple[str, ...], MinLen(1)]
    classes: tuple[str, ...]
    competing: tuple[str, ...]
    by_task: tuple[tuple[str, ...], ...]
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class _Model:
    """One model. `epsilon`: what was asked for; `accounted`: what the ledger adds up to."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    epsilon: Annotated[float, Gt(0)]
    seed: int
    accounted: Annotated[float, Ge(0)]
    delta: float
    protected: bool
    statement: str
    steps: Annotated[tuple[_Step, ...], MinLen(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The document. `spec`: the run's settings, by which inputs are read; `network_identity`: name, hash of the weights and
    preprocessing. `together`: what all models give away together; `left_out`: what is not here, and why.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

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
    """A classifier that was read: the run's settings, its model and step in the document, and the steps its rule reads."""

    spec: RunSpec
    model: _Model
    step: _Step
    steps: tuple[Step, ...]


def remarks(exported: Mapping[str, bytes]) -> list[str]:
    """What to know of the classifiers among exported files, in sentences: what is left out, what has no bound."""
    if (content := exported.get(f"{NAME}/{DOCUMENT}")) is None:
        return []
    document = validated(Document, json.loads(content))
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
    return Loaded(checks.parse(document.spec), model, chosen, steps_read)


def _document(folder: Path) -> tuple[Path, Document]:
    """The folder that holds the document, `folder` itself or its `classifier`, and the document."""
    must = f"must be a folder written by dpcl export, with {NAME}/{DOCUMENT}"
    with instead_of(OSError, ValueError, RecursionError, StopIteration, say=BadInput("FOLDER", folder.name, must)):
        place = next(one for one in (folder, folder / NAME) if (one / DOCUMENT).is_file())
        content = json.loads(paths.read_file(place / DOCUMENT, DOCUMENT, at_most=_LARGEST_DOCUMENT))
    try:
        return place, validated(Document, content, DOCUMENT)
    except BadInput as first:
        raise BadInput(first.field, first.value, f"{first.allowed}; the folder {must}") from first


def _arrays(folder: Path, name: str) -> Mapping[str, NDArray[np.generic]]:
    content = paths.read_file(paths.inside(folder, name, DOCUMENT), name, at_most=_LARGEST_FILE)
    wrong = BadInput("FOLDER", name, "must be the safetensors file that dpcl export wrote")
    with instead_of(arrays_file.Damaged, say=wrong):
        return arrays_file.load(content)


# What an export writes.


def files(
    run_id: str, spec: RunSpec, events: Sequence[Event], kept: Sequence[Classifier], *,
    unprotected: bool = False, last_only: bool = False,
) -> dict[str, bytes]:  # fmt: skip
    """The folder's files by name, `classifier/…`; empty for a run without finished models.

    `unprotected`: also models without a bound, and those whose noise was seeded, which the seed takes off again.
    `last_only`: of a model the step after its last task alone, unless that needs the earlier ones.
    """
    finished = {event.cell: event.guarantee for event in of_kind(events, CellFinished)}
    started = next(of_kind(events, Started), None)
    if not finished or started is None:
        return {}
    by_cell = {cell: [one for one in kept if one.cell == cell] for cell in finished}
    left_out = _missing(spec, by_cell, started.n_tasks)
    if last_only:
        by_cell = {cell: of if of[-1:] and of[-1].uses_all else of[-1:] for cell, of in by_cell.items()}
    models, arrays, written = list[_Model](), dict[str, bytes](), list[Classifier]()
    for cell, given in finished.items():
        if by_cell[cell] and (unprotected or protected(given)):
            models.append(_model(cell, given, by_cell[cell], started.task_names))
            written += by_cell[cell]
            steps = zip(by_cell[cell], models[-1].steps, strict=True)
            arrays |= {step.file: base64.b64decode(one.content) for one, step in steps}
        elif by_cell[cell]:
            left_out.append(f"{shown(cell)}: {UNPROTECTED}; --unprotected writes it all the same")
    facts = kept[0].facts if kept else {}
    if "axes" in facts and written:  # of the public axes as many as a model uses
        most = max(cast(int, one.facts["n_inputs"]) for one in written)
        along = public_axes.load(str(facts["network"]), str(facts["axes"])).first(most)
        arrays[AXES] = arrays_file.save({"centre": along.centre, "directions": along.directions})
    parts = (part for given in finished.values() for part in given.parts.items() if part[0].startswith(statement.OF_ALL))
    together = next((f"{name}: epsilon {statement.shown_number(value)}" for name, value in parts), "")
    how = _READ[spec.params.inputs] + (f" {_PERMUTED}" if spec.scenario.kind == "permuted" else "")
    document = Document(
        run_id=run_id, dataset=started.dataset_title, spec=spec.jsonable(), network=spec.data.backbone,
        network_identity=str(facts.get("network_identity", "")), inputs=how, axes=AXES if AXES in arrays else None,
        models=tuple(models), together=together, left_out=tuple(left_out),
    )  # fmt: skip
    content = {DOCUMENT: (json.dumps(plain(document), indent=1, ensure_ascii=False) + "\n").encode(), **arrays}
    return {f"{NAME}/{name}": one for name, one in content.items()}


_OF_SUMS = "cosine"  # the rule of classifiers that are sums of features: a few lines use them without this program


def bundle(run_id: str, spec: RunSpec, events: Sequence[Event], kept: Sequence[Classifier]) -> dict[str, bytes]:
    """The files that use what a run released after its last task: arrays, the privacy card, and a README with the lines.

    Raises BadInput for a run without a classifier that has a privacy bound.
    """
    found = files(run_id, spec, events, kept, last_only=True)
    model = json.loads(found.get(f"{NAME}/{DOCUMENT}", b"{}")).get("models", [])
    if not model:
        raise BadInput("run", run_id, "kept no classifier that has a privacy bound")
    step = model[0]["steps"][-1]
    about, lines = (paths.assets_dir() / "classifier.md").read_text(encoding="utf-8").split("<!-- on features -->")
    said = about.format(
        dataset=datasets.called(spec.data.dataset), method=methods.card(spec.method).title, statement=model[0]["statement"],
        classes=", ".join(step["competing"]), card=card_document.FILE,
    )  # fmt: skip
    if step["rule"] == _OF_SUMS:
        said += lines.format(network=spec.data.backbone)
    return {**found, card_document.FILE: card_document.content(run_id, spec, events), "README.md": said.encode()}


def protected(given: Guarantee) -> bool:
    """Whether what was released keeps its bound outside: the seed of recorded noise, which takes it off, leaves, too."""
    return given.is_private and statement.standing(given) == "bound" and given.noise != "seeded"


def _model(cell: Cell, given: Guarantee, kept: Sequence[Classifier], names: Sequence[str]) -> _Model:
    place = f"epsilon-{cell.epsilon:.12g}-seed-{cell.seed}"
    steps: list[_Step] = []
    for one in kept:
        file = f"{place}-task-{one.task + 1}.safetensors"
        earlier = [step.file for step in steps] if one.uses_all else []
        about = names[one.task], one.rule, file, (*earlier, file)
        steps.append(_Step(one.task + 1, *about, one.classes, one.competing, one.by_task, one.facts))
    words = statement.guarantee_words(given)
    said = protected(given), words.banner or words.headline
    return _Model(cell.epsilon, cell.seed, given.epsilon, given.delta, *said, tuple(steps))


def _missing(spec: RunSpec, kept: Mapping[Cell, Sequence[Classifier]], n_tasks: int) -> list[str]:
    """What a run has not kept, in sentences."""
    card = methods.CARDS.get(spec.method)
    if not any(kept.values()):
        own = card.no_classifier(spec.params) if card is not None else ""
        return [own or "This run kept no classifier: its method names no rule, or it is older than kept classifiers."]
    too_large = f"classifiers of a run may have {LARGEST // 1_000_000} MB together"
    found = [f"{shown(cell)}: nothing was kept; {too_large}" for cell, of_cell in kept.items() if not of_cell]
    tasks = {one.task for of_cell in kept.values() for one in of_cell}
    gone = [str(task + 1) for task in range(n_tasks) if task not in tasks]
    return found + ([f"After task {', '.join(gone)}: nothing was released, or {too_large}."] if gone else [])


def shown(cell: Cell) -> str:
    """A model by its budget and seed, in words."""
    return f"epsilon {statement.shown_number(cell.epsilon)}, seed {cell.seed}"
