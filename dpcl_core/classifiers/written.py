"""The folder of released classifiers as files: one JSON document, and a safetensors file for each model and task.

What a file holds has left a learner: each array is one that the ledger accounts for, computed from such arrays alone, or
public. Everything in the document is a public fact or a released list of labels; `folder` reads it.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from dpcl_core import arrays as arrays_file
from dpcl_core import paths
from dpcl_core.backbones import bundled as public_axes
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Classifier, Event, Guarantee, Started, of_kind, plain
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.classifier import LARGEST
from dpcl_core.privacy import card_document, statement
from dpcl_core.spec import Cell, RunSpec

FORMAT = "released classifiers of a continual learner"
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
    models, arrays, written = list[dict[str, Any]](), dict[str, bytes](), list[Classifier]()
    for cell, given in finished.items():
        if by_cell[cell] and (unprotected or protected(given)):
            models.append(_model(cell, given, by_cell[cell], started.task_names))
            written += by_cell[cell]
            steps = zip(by_cell[cell], models[-1]["steps"], strict=True)
            arrays |= {step["file"]: base64.b64decode(one.content) for one, step in steps}
        elif by_cell[cell]:
            left_out.append(f"{shown(cell)}: {UNPROTECTED}; --unprotected writes it all the same")
    facts = kept[0].facts if kept else {}
    if "axes" in facts and written:  # of the public axes as many as a model uses
        most = max(cast(int, one.facts["n_inputs"]) for one in written)
        along = public_axes.load(str(facts["network"]), str(facts["axes"])).first(most)
        arrays[AXES] = arrays_file.save({"centre": along.centre, "directions": along.directions})
    parts = [part for given in finished.values() for part in given.parts.items()]
    of_all = [
        f"{name}: epsilon {statement.shown_number(value)}" for name, value in parts if name.startswith(statement.OF_ALL)
    ]
    how = _READ[spec.params.inputs] + (f" {_PERMUTED}" if spec.scenario.kind == "permuted" else "")
    document = {
        "format": FORMAT, "version": 1, "run_id": run_id, "dataset": started.dataset_title, "spec": spec.jsonable(),
        "network": spec.data.backbone, "network_identity": str(facts.get("network_identity", "")), "inputs": how,
        "axes": AXES if AXES in arrays else None, "models": models, "together": of_all[0] if of_all else "",
        "left_out": left_out,
    }  # fmt: skip
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


def _model(cell: Cell, given: Guarantee, kept: Sequence[Classifier], names: Sequence[str]) -> dict[str, Any]:
    place = f"epsilon-{cell.epsilon:.12g}-seed-{cell.seed}"
    steps: list[dict[str, Any]] = []
    for one in kept:
        file = f"{place}-task-{one.task + 1}.safetensors"
        earlier = [step["file"] for step in steps] if one.uses_all else []
        steps.append({
            "task": one.task + 1, "name": names[one.task], "rule": one.rule, "file": file, "files": [*earlier, file],
            "classes": one.classes, "competing": one.competing, "by_task": one.by_task, "facts": one.facts,
        })  # fmt: skip
    said = statement.guarantee_words(given)
    return {
        "epsilon": cell.epsilon, "seed": cell.seed, "accounted": given.epsilon, "delta": given.delta,
        "protected": protected(given), "statement": said.banner or said.headline, "steps": steps,
    }  # fmt: skip


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
