"""The ceiling of a run: all tasks learned at once without noise, by the same kind of model on the same public data.

Found among the records of the papers and the finished runs of a store, or carried out on demand. It is a benchmark's number:
without noise it protects no one, so a person's own data have none. A run that ends below the untrained network, or below a
recorded run on the same tasks, failed to learn: it is no ceiling. Noise may be luck, so a recorded run with noise counts
only where the 95 % interval over its seeds is above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished
from dpcl_core.figures.statistics import interval
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.papers import measured
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell, LabelSetting, RunSpec

_MOST_SEEDS = 3
_OWN = (
    "is your own: a ceiling is trained without noise, so nothing would protect the people in your data; take a public "
    "dataset that resembles it"
)


def settings(spec: RunSpec) -> RunSpec:
    """The run that gives this run's ceiling: the same data, network and tasks, all learned at once without noise.

    Settings of training that both methods share are kept; up to three of the seeds. Raises BadInput for a person's own data,
    and where no method trains such a model on all of these tasks at once.
    """
    name = methods.card(spec.method).ceiling
    dataset = datasets.card(spec.data.dataset)
    if dataset.is_own:
        raise BadInput("data.dataset", spec.data.dataset, _OWN)
    if not name:
        raise BadInput("method", spec.method, "has no ceiling: no method trains its network on all tasks at once")
    card, sources = methods.card(name), tuple(source for source, _ in dataset.sources) or dataset.members
    scenario = spec.scenario.pooled(dataset.n_classes, sources)
    if scenario is None or dataset.kind == "tagged":
        allowed = f"has no ceiling on this stream: {card.title} cannot take these tasks at once"
        raise BadInput("method", spec.method, allowed)
    kind = next(kind for kind in type(spec.params).__mro__ if issubclass(card.params, kind))
    shared = {field: getattr(spec.params, field) for field in getattr(kind, "model_fields", {})}
    return checks.parse(
        {
            "method": name,
            "params": {**shared, **card.at_once},
            "data": spec.data.model_dump(),
            "scenario": scenario.model_dump(),
            "labels": _labels(spec, card),
            "public_labels": spec.public_labels,
            "privacy": {"epsilons": (math.inf,), "delta": checks.default_delta(dataset.n_train)},
            "seeds": spec.seeds[:_MOST_SEEDS],
        }
    )


def _labels(spec: RunSpec, card: MethodCard) -> LabelSetting:
    """One list for all tasks, or each task's own where the task of a test example is given."""
    wanted: LabelSetting = "prior" if spec.params.is_task_given else "prior-const"
    return wanted if wanted in card.labels else card.labels[0]


def known(spec: RunSpec, finished: Iterable[CellFinished] = (), store: Store | None = None) -> float | None:
    """The run's ceiling in [0, 1], mean over seeds of the final average accuracy; None if there is none yet.

    The best of: the run itself (its `finished` models), if it learns all tasks at once; records with the same data, network
    and tasks; finished runs of the store with `settings`. None also where that best is no ceiling (`refused`).
    """
    try:
        wanted = settings(spec)
    except BadInput:
        return None
    best = _best(spec, wanted, finished, store)
    return best if best is not None and _higher(spec, wanted, best) is None else None


def refused(spec: RunSpec) -> tuple[float, float] | None:
    """What the best recorded run of all tasks at once reaches, and a higher score that shows it is no ceiling, in [0, 1].

    None where no such run is recorded, or where it is a ceiling.
    """
    try:
        wanted = settings(spec)
    except BadInput:
        return None
    best = _best(spec, wanted, (), None)
    higher = None if best is None else _higher(spec, wanted, best)
    return None if best is None or higher is None else (best, higher)


def is_tried(spec: RunSpec, store: Store) -> bool:
    """Whether a record or a finished run of the store learned all tasks at once without noise, be it a ceiling or not."""
    try:
        return _best(spec, settings(spec), (), store) is not None
    except BadInput:
        return False


def is_at_once(spec: RunSpec) -> bool:
    """Whether a run learns all its tasks at once by the method of its own ceiling: its models without noise are one."""
    try:
        return _fits(spec, settings(spec))
    except BadInput:
        return False


def is_one(spec: RunSpec) -> bool:
    """Whether a run is a ceiling and nothing else: all tasks at once, every model of it without noise."""
    return all(map(math.isinf, spec.privacy.epsilons)) and is_at_once(spec)


def tested_on(spec: RunSpec) -> Mapping[str, object]:
    """What a run's scores are formed over: test data, tasks in any order, and the labels that may be given."""
    return {
        "data": (spec.data.dataset, spec.data.test_per_class),
        "tasks": _unordered(spec),
        "labels": (spec.public_labels, spec.params.is_task_given),
    }


def _best(spec: RunSpec, wanted: RunSpec, finished: Iterable[CellFinished], store: Store | None) -> float | None:
    found = [_mean({cell.cell: cell.metrics for cell in finished})] if _fits(spec, wanted) else []
    for run in measured.all_recorded():
        if _fits(run.spec, wanted):
            found.append(_mean({Cell(model.epsilon, model.seed): model.metrics for model in run.models}))
    if store is not None:
        found.append(_mean({cell.cell: cell.metrics for cell in store.alike(wanted)}))
    return max((value for value in found if value is not None), default=None)


def _higher(spec: RunSpec, wanted: RunSpec, best: float) -> float | None:
    """The highest recorded score above `best` on the same data and tasks, of any method or of no training; None without any.

    With noise, the whole interval over seeds must be above `best`.
    """
    reached: list[float | None] = []
    for run in measured.all_recorded():
        if run.spec.data != wanted.data or tested_on(run.spec) not in (tested_on(spec), tested_on(wanted)):
            continue
        reached += [run.untrained, _mean({Cell(model.epsilon, model.seed): model.metrics for model in run.models})]
        for epsilon in filter(math.isfinite, {model.epsilon for model in run.models}):
            values = list(run.by_seed(epsilon, "AA").values())
            known = interval(values) if values else None
            if known is not None and known.low is not None and known.low > best:
                reached.append(known.mean)
    return max((value for value in reached if value is not None and value > best), default=None)


def _fits(spec: RunSpec, wanted: RunSpec) -> bool:
    """Whether a run learns the same tasks at once with the same method; training settings and order may differ."""
    if (spec.method, spec.data, spec.public_labels) != (wanted.method, wanted.data, wanted.public_labels):
        return False
    if spec.params.is_task_given != wanted.params.is_task_given:
        return False
    card = methods.card(spec.method)
    if card.trains_on != "all" and any(getattr(spec.params, name) != value for name, value in card.at_once.items()):
        return False
    return _unordered(spec) == _unordered(wanted)


def _unordered(spec: RunSpec) -> Mapping[str, object]:
    """The scenario's settings but for the order of tasks, which makes no difference to training on all at once."""
    dumped = spec.scenario.model_dump()
    return {**dumped, "order": sorted(dumped.get("order") or ())}


def _mean(metrics: Mapping[Cell, Mapping[str, float | None]]) -> float | None:
    """Mean final average accuracy of the models without noise; None if there is none."""
    values = [of_cell.get("AA") for cell, of_cell in metrics.items() if math.isinf(cell.epsilon)]
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None
