"""Final results of finished runs, from a store's events or from a recorded file.

`assets/reproduction/PAPER.json` holds the last recorded results: spec (with the network), the data actually used, date,
seconds, machine, commit, and the metrics of every model. Accuracies and forgetting are in [0, 1].
"""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter

from dpcl_core import checks, machine, metrics, paths
from dpcl_core.data import catalog as datasets
from dpcl_core.data.files import replacing
from dpcl_core.errors import BadInput
from dpcl_core.events import (
    CellFinished,
    Event,
    JsonValue,
    Leaks,
    References,
    Signatures,
    Started,
    TaskLearned,
    TokensScored,
    plain_number,
)
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import ways_out
from dpcl_core.runs import process
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell, LabelSetting, RunSpec, fields_of

EDITION = 2  # version of what settings mean: raised when the same settings select other rows or equations than before
_MADE_BEFORE = {
    2: "Recorded by older code, before public coins dealt out rows and before some equations became exact as printed: today "
    "it may come out otherwise.",
}


@dataclass(frozen=True, slots=True)
class Model:
    """The results of one model: metrics (None: not defined), and final average accuracy by rule, where it has several.

    Beside the metrics of events there is "pooled": accuracy over all test examples together. It does not depend on which
    classes share a task, as the mean over tasks (AA) does where tasks differ in size. "task1" and so on: final accuracy on
    the k-th task learned. "exposure": bits by which the codes planted most often stand out (`events.Leaks`); "found": share
    of the marked private tokens that a method's score finds; "agreement": adjusted Rand index of matched list entries.

    `curves`: "AA" and "AF" after each task, None where not defined; empty in older records.

    `channel_epsilons`: accounted epsilon of "replay", "head" and "total" where private data leave in two ways; else empty.
    `audited_epsilon`: the largest lower bound of an attack on this budget; None where none was made.
    """

    epsilon: float
    seed: int
    accounted_epsilon: float
    metrics: Mapping[str, float | None]
    by_rule: Mapping[str, float]
    channel_epsilons: Annotated[Mapping[str, float], Field(validation_alias="ways")] = field(default_factory=dict)
    curves: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    audited_epsilon: float | None = None

    def value(self, metric: str, rule: str | None = None) -> float | None:
        """A metric, or the average accuracy (AA) of one prediction rule; None where it is not defined.

        "trend": the change of average accuracy from the first task to the last on its least-squares line over tasks.
        """
        if metric == "audited":
            return self.audited_epsilon
        if metric == "trend":
            return metrics.trend(self.curves.get("AA", ()))
        return self.metrics.get(metric) if rule is None else self.by_rule.get(rule)


_MODELS = TypeAdapter(tuple[Model, ...])
OWN = "own"  # the record of questions that belong to no paper
_UNITS = {"exposure": "bits", "audited": "ε", **dict.fromkeys(("AF", "BWT", "FWT", "trend"), "points")}


def unit(metric: str) -> str:
    """What a metric is told in: %, points, bits or ε."""
    return _UNITS.get(metric, "%")


def scale(metric: str) -> float:
    """What a metric is multiplied by to be told in its unit."""
    return 1.0 if unit(metric) in ("bits", "ε") else 100.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One run's results. `dataset_title`: the data actually used; `run_id` is None for a recorded run.

    `edition`: the version of what settings meant when it was made, see EDITION. `machine` and `commit` are of recorded runs,
    as `dpcl_core.machine` names them; empty where a record is older than they are. `untrained`: the public network's score
    on the same test data before training, where the run measured it.
    """

    spec: RunSpec
    dataset_title: str
    date: str
    seconds: float
    device: str
    run_id: str | None
    models: tuple[Model, ...]
    edition: int = EDITION
    machine: str = ""
    commit: str = ""
    untrained: float | None = None

    @property
    def made_before(self) -> tuple[str, ...]:
        """The changes since the results were recorded, one sentence each; empty for a current edition."""
        return tuple(change for edition, change in _MADE_BEFORE.items() if self.edition < edition)

    def by_seed(self, epsilon: float, metric: str, rule: str | None = None) -> dict[int, float]:
        """The metric by seed, for the models of one budget that have it."""
        values = {model.seed: model.value(metric, rule) for model in self.models if model.epsilon == epsilon}
        return {seed: value for seed, value in values.items() if value is not None}

    def channel_epsilons(self, epsilon: float) -> dict[str, float]:
        """Accounted epsilon by kind of release at a budget, the largest of all seeds; empty with one kind alone."""
        budgets = [model.channel_epsilons for model in self.models if model.epsilon == epsilon]
        return {name: max(epsilons[name] for epsilons in budgets) for name in (budgets[0] if budgets else ())}

    def accounted(self, epsilon: float) -> float | None:
        """What the ledger adds up to at a budget, the largest of all seeds; None without a model of it."""
        return max((model.accounted_epsilon for model in self.models if model.epsilon == epsilon), default=None)

    def audited(self, epsilon: float) -> float | None:
        """The largest lower bound that an attack showed for a budget; None where none was made."""
        bounds = [model.audited_epsilon for model in self.models if model.epsilon == epsilon]
        return max((bound for bound in bounds if bound is not None), default=None)

    def mean_curve(self, epsilon: float, metric: str) -> list[float | None]:
        """The metric after each task in [0, 1], mean over the seeds; empty where the record has the last task alone."""
        known = [curve for model in self.models if model.epsilon == epsilon and (curve := model.curves.get(metric))]
        points = ([value for value in values if value is not None] for values in zip(*known, strict=True))
        return [fmean(values) if values else None for values in points]

    def curve_rows(self, metric: str) -> list[tuple[float, int, int, float]]:
        """The metric after each task that has it: budget, seed, task (from 0) and value in [0, 1]."""
        curves = [(one.epsilon, one.seed, enumerate(one.curves.get(metric, ()))) for one in self.models]
        return [(budget, seed, task, value) for budget, seed, curve in curves for task, value in curve if value is not None]

    @property
    def rules(self) -> tuple[str, ...]:
        """The prediction rules with recorded accuracies, the run's own first."""
        return tuple(self.models[0].by_rule) if self.models else ()


def measured_run(run: Run, events: Iterable[Event]) -> Measured:
    """The results of a stored run that has ended, from its events; unfinished models are left out."""
    spec, title, models = run.spec, run.spec.data.dataset, list[Model]()
    learned: dict[Cell, list[TaskLearned]] = {}
    explored: dict[Cell, dict[str, float]] = {}
    untrained = None
    for event in events:
        if isinstance(event, Started):
            title = event.dataset_title
        elif isinstance(event, References):
            untrained = event.untrained
        elif isinstance(event, TaskLearned):
            learned.setdefault(event.cell, []).append(event)
        elif isinstance(event, Leaks | TokensScored | Signatures):
            explored.setdefault(event.cell, {}).update(_explored(spec, event))
        elif isinstance(event, CellFinished):
            cell, bound, tasks = event.cell, event.guarantee, learned.get(event.cell, [])
            final, of_rule, pooled = (tasks[-1].accuracy, tasks[-1].by_rule, tasks[-1].pooled) if tasks else ((), {}, None)
            by_task = {f"task{k}": value for k, value in enumerate(final, start=1)}
            values = {**event.metrics, "pooled": pooled, **by_task, **explored.get(cell, {})}
            by_rule = {rule: average for rule, of in of_rule.items() if (average := metrics.mean(of)) is not None}
            matrix = [task.accuracy for task in tasks]
            curves = {"AA": tuple(metrics.average_accuracy(matrix)), "AF": tuple(metrics.average_forgetting(matrix))}
            audited = None if bound.audit is None else bound.audit.lower_bound
            models.append(Model(cell.epsilon, cell.seed, bound.epsilon, values, by_rule, ways_out(bound), curves, audited))
    date, seconds = time.strftime("%Y-%m-%d", time.localtime(run.finished or run.created)), run.seconds_taken or 0.0
    return Measured(spec, title, date, seconds, process.bare(run.device), run.id, tuple(models), untrained=untrained)


def _explored(spec: RunSpec, event: Leaks | TokensScored | Signatures) -> dict[str, float]:
    """What an observer measured beside accuracy; later tasks replace earlier ones."""
    if isinstance(event, Leaks):
        return {"exposure": event.exposure[-1]} if event.exposure else {}
    if isinstance(event, Signatures):
        known = event.agreement.get(event.matcher)
        return {} if known is None else {"agreement": known}
    if event.model != "base":
        return {}
    from dpcl_core.explorers import tokens

    dials = tokens.dials_of(spec, event.cell.epsilon)
    score = np.concatenate([tokens.token_scores(text, dials) for text in event.texts])
    share = tokens.recall(score, tokens.gathered(event.texts).is_private, dials.threshold)
    return {} if math.isnan(share) else {"found": share}


@cache
def recorded(paper: str, dataset: str | None = None) -> tuple[Measured, ...]:
    """The last recorded results of a paper's experiments, on one dataset or all; empty where none were recorded yet."""
    path = paths.assets_dir() / "reproduction" / f"{paper}.json"
    return read_measured(path, dataset) if path.exists() else ()


def papers() -> list[str]:
    """The names of the papers, without what they print."""
    return sorted(path.stem for path in (paths.assets_dir() / "papers").glob("*.toml"))


def all_recorded(dataset: str | None = None) -> tuple[Measured, ...]:
    """The last recorded results of all papers, on one dataset or all."""
    return tuple(run for paper in papers() for run in recorded(paper, dataset))


def read_measured(path: Path, dataset: str | None = None) -> tuple[Measured, ...]:
    """The results in a file of `write`, on one dataset or all. Raises BadInput for a file of other content."""
    try:
        document = json.loads(paths.read_file(path, "recorded figures"))
        return tuple(_from_json(run) for run in document["runs"] if dataset in (None, run["spec"]["data"]["dataset"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput("recorded figures", str(path), "must be a file that `reproduce --record` wrote") from error


def stamped(run: Measured) -> Measured:
    """The results of a run that has just ended in this process, with this machine and the commit of this code."""
    return replace(run, machine=machine.machine(run.device), commit=machine.commit())


def write(path: Path, paper: str, fresh: Sequence[Measured]) -> None:
    """Writes the results into the file, replacing older ones of the same settings. Raises BadInput where that fails."""
    unchanged = [run for run in (read_measured(path) if path.exists() else ()) if all(run.spec != new.spec for new in fresh)]
    # One line a run: a new record then changes the lines of the runs that were repeated, and no other.
    lines = ",\n".join(json.dumps(_to_json(run), ensure_ascii=False, allow_nan=False) for run in [*unchanged, *fresh])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:  # a full disk, or an end halfway, costs no earlier record
            file.write(f'{{"paper": {json.dumps(paper)}, "runs": [\n{lines}\n]}}\n'.encode())
        path.chmod(0o644)
    except OSError as error:
        raise BadInput("--record", str(path), f"must be a file that can be written: {error.strerror}") from error


def find(spec: RunSpec, among: Iterable[Measured]) -> Measured | None:
    """The first of the runs with exactly these settings; None where there is none."""
    return next((run for run in among if run.spec == spec), None)


def _to_json(run: Measured) -> dict[str, JsonValue]:
    return {
        "date": run.date,
        "dataset": run.dataset_title,
        "digest": run.spec.digest(),
        "seconds": round(run.seconds, 1),
        "device": run.device,
        **({"machine": run.machine, "commit": run.commit} if run.machine else {}),  # older lines stay as they are
        **({} if run.untrained is None else {"untrained": _rounded(run.untrained)}),
        "edition": run.edition,
        "spec": run.spec.jsonable(),
        "models": [
            {
                "epsilon": plain_number(model.epsilon),
                "seed": model.seed,
                "accounted_epsilon": plain_number(model.accounted_epsilon),
                "metrics": _rounded(model.metrics),
                "by_rule": _rounded(model.by_rule),
                "ways": {name: plain_number(value) for name, value in model.channel_epsilons.items()},
                **({"curves": _rounded(model.curves)} if model.curves else {}),  # older lines stay as they are
                **({} if model.audited_epsilon is None else {"audited_epsilon": _rounded(model.audited_epsilon)}),
            }
            for model in run.models
        ],
    }


def _rounded(value: Any) -> Any:
    """A number to five digits, or every number of a table or list; None stays None."""
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return [*map(_rounded, value)] if isinstance(value, tuple) else None if value is None else round(value, 5)


def _from_json(document: Mapping[str, Any]) -> Measured:
    given = {name: document[name] for name in ("date", "device", "machine", "commit", "untrained") if name in document}
    spec, models = checks.parse(document["spec"]), _MODELS.validate_python(document["models"])
    edition, seconds = int(document.get("edition", 1)), float(document["seconds"])
    return Measured(spec, document["dataset"], run_id=None, models=models, edition=edition, seconds=seconds, **given)


# The ceiling of a run: all tasks learned at once without noise, by the same kind of model on the same public data.
#
# Found among the records of the papers and the finished runs of a store, or carried out on demand. It is a benchmark's
# number: without noise it protects no one, so a person's own data have none. A run that ends below the untrained network, or
# below a recorded run on the same tasks, failed to learn: it is no ceiling. Noise may be luck, so a recorded run with noise
# counts only where the 95 % interval over its seeds is above.


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
        raise BadInput("method", spec.method, f"has no ceiling on this stream: {card.title} cannot take these tasks at once")
    kind = next(kind for kind in type(spec.params).__mro__ if issubclass(card.params, kind))
    shared = {field: getattr(spec.params, field) for field in fields_of(kind)}
    # One list for all tasks, or each task's own where the task of a test example is given.
    wanted: LabelSetting = "prior" if spec.params.is_task_given else "prior-const"
    return checks.parse(
        {
            "method": name,
            "params": {**shared, **card.at_once},
            "data": asdict(spec.data),
            "scenario": asdict(scenario),
            "labels": wanted if wanted in card.labels else card.labels[0],
            "public_labels": spec.public_labels,
            "privacy": {"epsilons": (math.inf,), "delta": checks.default_delta(dataset.n_train)},
            "seeds": spec.seeds[:_MOST_SEEDS],
        }
    )


def known(spec: RunSpec, finished: Iterable[CellFinished] = (), store: Store | None = None) -> float | None:
    """The run's ceiling in [0, 1], mean over seeds of the final average accuracy; None if there is none yet.

    The best of: the run itself (its `finished` models), if it learns all tasks at once; records with the same data, network
    and tasks; finished runs of the store with `settings`. None also where that best is no ceiling (`refused`).
    """
    best, higher = _best_and_higher(spec, finished, store)
    return best if higher is None else None


def refused(spec: RunSpec) -> tuple[float, float] | None:
    """What the best recorded run of all tasks at once reaches, and a higher score that shows it is no ceiling, in [0, 1].

    None where no such run is recorded, or where it is a ceiling.
    """
    best, higher = _best_and_higher(spec, (), None)
    return None if best is None or higher is None else (best, higher)


def is_tried(spec: RunSpec, store: Store) -> bool:
    """Whether a record or a finished run of the store learned all tasks at once without noise, be it a ceiling or not."""
    return _best_and_higher(spec, (), store)[0] is not None


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


def _best_and_higher(
    spec: RunSpec, finished: Iterable[CellFinished], store: Store | None
) -> tuple[float | None, float | None]:
    """The best known score of all tasks at once, and a higher one that shows it is no ceiling; None where there is none."""
    try:
        wanted = settings(spec)
    except BadInput:
        return None, None
    found = [_mean({cell.cell: cell.metrics for cell in finished})] if _fits(spec, wanted) else []
    for run in all_recorded(wanted.data.dataset):
        if _fits(run.spec, wanted):
            found.append(_mean({Cell(model.epsilon, model.seed): model.metrics for model in run.models}))
    if store is not None:
        from dpcl_core.runs.shards import Sets

        found.append(_mean(Sets(store).alike(wanted)))
    best = max((value for value in found if value is not None), default=None)
    return best, None if best is None else _higher(spec, wanted, best)


def _higher(spec: RunSpec, wanted: RunSpec, best: float) -> float | None:
    """The highest recorded score above `best` on the same data and tasks, of any method or of no training; None without any.

    With noise, the whole interval over seeds must be above `best`.
    """
    from dpcl_core.figures.statistics import interval

    reached: list[float | None] = []
    for run in all_recorded(wanted.data.dataset):
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
    own, other = ((one.method, one.data, one.public_labels, one.params.is_task_given) for one in (spec, wanted))
    if own != other:
        return False
    card = methods.card(spec.method)
    if card.trains_on != "all" and any(getattr(spec.params, name) != value for name, value in card.at_once.items()):
        return False
    return _unordered(spec) == _unordered(wanted)


def _unordered(spec: RunSpec) -> Mapping[str, object]:
    """The scenario's settings but for the order of tasks, which makes no difference to training on all at once."""
    return {**asdict(spec.scenario), "order": sorted(getattr(spec.scenario, "order", None) or ())}


def _mean(metrics: Mapping[Cell, Mapping[str, float | None]]) -> float | None:
    """Mean final average accuracy of the models without noise; None if there is none."""
    values = [of_cell.get("AA") for cell, of_cell in metrics.items() if math.isinf(cell.epsilon)]
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None
