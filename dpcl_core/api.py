"""The Python API for scripts and notebooks: `import dpcl_core as dpcl`, then `dpcl.run("digits-cosine")`."""

from __future__ import annotations

import itertools
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcl_core import checks, presets
from dpcl_core.data import handed, understood
from dpcl_core.data import schema as schemas
from dpcl_core.data.intake import Asked, own_name
from dpcl_core.errors import BadInput, RunFailed
from dpcl_core.events import Classifier, Event, of_kind
from dpcl_core.later import pd
from dpcl_core.privacy.calculator import Answer, solve
from dpcl_core.results import Result, of_run
from dpcl_core.spec import Adjacency, RunSpec, validated

if TYPE_CHECKING:
    from dpcl_core.privacy.audit_bounds import Audited
    from dpcl_core.runs.spend import Account
    from dpcl_core.runs.store import Store

PresetOrSpec = str | RunSpec | Mapping[str, object]


def run(
    preset_or_spec: PresetOrSpec | None = None,
    *,
    data: object = None,
    target: str | None = None,
    person: str | None = None,
    text: str | None = None,
    source: str | None = None,
    time: str | None = None,
    per_person: int | None = None,
    schema: object = None,
    name: str = "data",
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
    on_event: Callable[[Event], None] | None = None,
    device: str | None = None,
    store: str | None = None,
    ceiling: bool = False,
    here: bool = False,
) -> Result:
    """Carries out one run in this process, keeps it in the app's store, and returns its result.

    Args:
        preset_or_spec: a preset's name, a `RunSpec`, or settings as nested mappings, as in TOML; none beside `data`.
        data: your own: a data frame; (X, y) with X [n, K], n texts or pictures uint8 [n, h, w] or [n, h, w, 3]; a path; a
            Dataset of the package datasets; a map-style dataset of torch. A copy is kept as own:NAME, as of a file.
        target: the column to predict; of (X, y) it is y.
        person: the column that names the person of a row, who is then protected.
        text: the column of texts to learn from.
        source: the column that says where a row comes from.
        time: the column of dates.
        per_person: how many rows of a person count; the others are left out.
        schema: what is public about the columns: a mapping, or the path of a TOML file (`schema.Schema`).
        name: what data that are no file are called.
        epsilons: budgets instead of the spec's own; `math.inf`: no noise.
        seeds: seeds instead of the spec's own.
        settings: further settings by dotted key, such as `{"params.learning_rate": 0.5}`.
        on_event: called with every event as it happens.
        device: "cpu" or "cuda:N"; None: the first GPU, else the CPU.
        store: database URL, or the path of a file that ends in .db or .sqlite; None: `DPCL_STORE`, else a file in the home.
        ceiling: first train on all tasks at once without noise, unless that is known; refused on your own data.
        here: nothing is kept, and nothing can be resumed. Of a run on `data` one thing stays in the store: how often
            these rows were used, and what that adds up to.

    When interrupted, returns the result so far; raises KeyboardInterrupt where the run itself had not begun. Raises BadInput
    for unusable settings, RunFailed if the run fails, and what `on_event` raises, which stops the run.

    >>> result = run("digits-cosine", epsilons=[1.0], seeds=[0])
    >>> result.guarantee(1.0).epsilon <= 1.0
    True
    >>> sorted(result.accuracy.columns)
    ['accuracy', 'after_task', 'epsilon', 'on_task', 'pooled', 'seed']
    """
    from dpcl_core.papers import measured
    from dpcl_core.runs import administration, process, worker
    from dpcl_core.runs.store import Store

    roles = {"target": target, "person": person, "text": text, "source": source, "time": time}
    if data is None:
        about = {**roles, "per_person": per_person, "schema": schema}
        if said := next((role for role, value in about.items() if value is not None), None):
            raise BadInput(said, about[said], "is said of data: give data=, too")
        spec = _spec(preset_or_spec, epsilons, seeds, settings)
    else:
        if preset_or_spec is not None:
            raise BadInput("data", type(data).__name__, "cannot be combined with a preset or spec: change settings=")
        spec = _of_data(data, name, _asked(roles, per_person, schema), _changes(epsilons, seeds, settings), Store(store))
    checks.check_run(spec)
    if here and data is None:
        if spec.data.dataset.startswith("own:"):
            raise BadInput("here", True, f"is for public data and data=…: {spec.data.dataset} is kept already: leave it out")
        engine = worker.real_engine(spec, device or process.default())
        return _unkept(spec, on_event, lambda heard: deque(map(heard, engine), maxlen=0))
    # A changed preset loses the preset's name: even the data may differ.
    is_changed = epsilons is not None or seeds is not None or bool(settings)
    title = preset_or_spec if isinstance(preset_or_spec, str) and not is_changed else None
    stored = Store(store)

    def carried_out(spec: RunSpec, name: str | None, on_event: Callable[[Event], None] | None = on_event) -> str:
        run_id = stored.create(spec, name=name, device=device or process.default(), attended_by=process.me())
        finished = worker.run_here(stored, run_id, on_event=on_event)
        if finished.status == "failed":
            raise RunFailed(finished.id, finished.error or "the run failed")
        return finished.id

    if here:  # of data handed in: the store then keeps the number of uses and their bound alone
        try:
            return _unkept(spec, on_event, lambda heard: carried_out(spec, None, heard))
        finally:
            administration.purge(stored, spec.data.dataset)
    if ceiling and measured.known(spec, store=stored) is None:
        wanted = measured.settings(spec)
        checks.check_run(wanted)
        if stored.status(carried_out(wanted, f"ceiling of {spec.method}")) == "cancelled":
            raise KeyboardInterrupt  # it was meant for all
    return of_run(stored, stored.get_with_results(carried_out(spec, title)))


def check(
    data: object, *, target: str | None = None, person: str | None = None, text: str | None = None,
    source: str | None = None, time: str | None = None, per_person: int | None = None, schema: object = None,
) -> understood.Public:  # fmt: skip
    """What of these data would be public, before anything runs; arguments as `run` takes them.

    Raises BadInput as `run` would.
    """
    roles = {"target": target, "person": person, "text": text, "source": source, "time": time}
    with handed.as_file(data) as path:
        return understood.report(str(path), _asked(roles, per_person, schema)).public


def sweep(
    preset_or_spec: PresetOrSpec,
    over: Mapping[str, Sequence[object]],
    *,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    on_event: Callable[[Event], None] | None = None,
    device: str | None = None,
    store: str | None = None,
) -> pd.DataFrame:
    """Runs every combination of settings and returns the metrics of all runs in one table.

    Args:
        preset_or_spec: as `run` takes it.
        over: values to try by dotted key, such as `{"labels": ["prior", "prior-const"]}`.
        epsilons: as `run` takes them.
        seeds: as `run` takes them.
        on_event: as `run` takes it.
        device: as `run` takes it.
        store: as `run` takes it.

    All combinations are checked before the first run. When interrupted, starts no further run, and returns the metrics of
    the models that were finished. Columns: the settings tried, run_id, epsilon, seed, metric, value.
    """
    from dpcl_core.runs.store import Store

    every = [_listed(key, values) for key, values in over.items()]
    grid = [dict(zip(over, values, strict=True)) for values in itertools.product(*every)]
    for chosen in grid:
        checks.check_run(_spec(preset_or_spec, epsilons, seeds, chosen))
    tables = []
    for chosen in grid:
        result = run(
            preset_or_spec, epsilons=epsilons, seeds=seeds, settings=chosen, on_event=on_event, device=device, store=store
        )  # fmt: skip
        table = result.metrics.assign(run_id=result.run_id)
        tables.append(table.assign(**{key: [value] * len(table) for key, value in chosen.items()}))
        if result.run_id is not None and Store(store).status(result.run_id) == "cancelled":
            break
    return pd.concat(tables, ignore_index=True)[[*over, "run_id", "epsilon", "seed", "metric", "value"]]


def account(
    *,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float | None = None,
    sample_rate: float = 1.0,
    steps: int = 1,
    adjacency: Adjacency = "add-remove",
) -> Answer:
    """The missing one of epsilon, sigma and delta for `steps` Gaussian releases, each Poisson-sampled at `sample_rate`.

    `sigma`: the noise multiplier, standard deviation divided by sensitivity. Raises BadInput unless exactly two are given.

    >>> round(account(epsilon=1.0, delta=1e-5).sigma, 2)
    3.73
    """
    numbers = {"epsilon": epsilon, "sigma": sigma, "delta": delta, "sample_rate": sample_rate, "n_steps": steps}
    return solve(**{name: _plain(value) for name, value in numbers.items()}, adjacency=adjacency)


def budget(
    data_id: str | None = None, *, epsilon: float | None = None, delta: float = 1e-5, adjacency: Adjacency = "add-remove"
) -> Account:
    """What all estimators fitted on the data of this name have spent; with `epsilon`, after declaring a budget for them.

    A `fit` that would exceed the budget is refused before it reads a row. `math.inf` takes the budget back; what was spent
    stays counted. `data_id` None: the account of all data without a name. Raises BadInput for numbers that promise nothing.
    Own data of runs have budgets of their own: `dpcl data --budget own:NAME`.
    """
    from dpcl_core.runs import spend

    return spend.account(data_id) if epsilon is None else spend.declare(data_id, epsilon, delta, adjacency)


def audit(preset_or_spec: PresetOrSpec, *, attack: str | None = None, trials: int | None = None) -> tuple[Audited, ...]:
    """Attacks a method through its learner and returns a lower bound on epsilon for each budget of the spec.

    Args:
        preset_or_spec: as `run` takes it.
        attack: one of the method's attacks by name; None: the default attack of its runs.
        trials: releases per side; None: as many as the attack needs.

    Raises BadInput for a method without an audit.
    """
    from dpcl_core.attacks import catalog as attacks

    spec = _spec(preset_or_spec)
    checks.check_run(spec)
    return tuple(attacks.auditor(spec.method, attack)(spec, trials or attacks.audit_of(spec.method).trials))


def load(run_id: str, *, store: str | None = None) -> Result:
    """The result so far of a stored run. Raises BadInput for an unknown run, a tuning and an audit."""
    from dpcl_core.runs import database
    from dpcl_core.runs.store import Store

    database.check_there(store)
    stored = Store(store)
    return of_run(stored, stored.get_with_results(run_id))


def to_onnx(
    from_model: object, path: str | Path, *, epsilon: float | None = None, seed: int | None = None, after: int | None = None,
    unprotected: bool = False, store: str | None = None,
) -> Path:  # fmt: skip
    """Writes a released linear or cosine classifier as an ONNX file, with its privacy statement; returns the file's path.

    The model takes `features` float32 [n, K] and gives `label` [n] and `scores` float64 [n, classes].

    Args:
        from_model: a fitted estimator, a `Result`, or a folder that `dpcl export` wrote.
        path: where the file is written.
        epsilon: the model's budget, where there are several; None: the largest that has a bound.
        seed: the model's seed; None: the first.
        after: the number of tasks learned; None: all.
        unprotected: of a result also models without a bound.
        store: as `run` took it.

    Raises BadInput for anything else and for other kinds of classifiers, DataMissing where the package onnx is missing.
    """
    from dpcl_core import estimators
    from dpcl_core.classifiers import onnx_graph
    from dpcl_core.classifiers.folder import files as released_files
    from dpcl_core.runs.store import Store

    if isinstance(from_model, estimators.PrivateClassifier):
        rule, steps = from_model.released()
        model = onnx_graph.graph(rule, steps, from_model.classes_, about=str(from_model.privacy_))
    elif isinstance(from_model, str | Path):
        model = onnx_graph.of_folder(Path(from_model), epsilon, seed, after)
    elif isinstance(from_model, Result):
        kept = [*of_kind(from_model.events, Classifier)]
        if from_model.run_id is not None:
            kept = Store(store).classifiers(from_model.run_id)
        files = released_files("", from_model.spec, from_model.events, kept, unprotected=unprotected)
        with tempfile.TemporaryDirectory() as place:
            for name, content in files.items():
                (Path(place) / Path(name).name).write_bytes(content)
            model = onnx_graph.of_folder(Path(place), epsilon, seed, after)
    else:
        kind = from_model if isinstance(from_model, int | float) else type(from_model).__name__
        raise BadInput("from_model", kind, "must be a fitted estimator of dpcl, a result, or the folder of an export")
    Path(path).write_bytes(model)
    return Path(path)


def preset(name: str) -> RunSpec:
    """The settings of a preset. Raises BadInput naming the known presets."""
    return presets.load(name, here=True)


Hear = Callable[[Event], None]


def _unkept(spec: RunSpec, on_event: Hear | None, carried_out: Callable[[Hear], object]) -> Result:
    """The result of a run whose events nobody keeps."""
    events: list[Event] = []

    def heard(event: Event) -> None:
        events.append(event)
        if on_event is not None:
            on_event(event)

    carried_out(heard)
    return Result(None, "", spec, tuple(events))


def _of_data(data: object, name: str, asked: Asked, changes: Mapping[str, object], store: Store) -> RunSpec:
    """The settings of a run on data of the user's own, which are taken in as a file is."""
    from dpcl_core.runs import administration

    names: Any = getattr(data, "column_names", None)  # of a dataset, or else of a frame
    names = list(names or getattr(data, "columns", ()))
    if names and handed.TARGET not in names and asked.columns.target is None and asked.instead is None:
        raise BadInput("target", "nothing", f"must be the column to predict: {', '.join(map(str, names[:12]))}")
    seen = administration.marks_kept(store)
    with handed.as_file(data, name) as path, own_name(str(path), asked, seen) as own:
        return presets.on_own(own, changes)


def _asked(roles: Mapping[str, str | None], per_person: int | None, schema: object) -> Asked:
    """What is said of the columns. Raises BadInput for a schema that is none."""
    instead = schema if isinstance(schema, schemas.Schema) else None
    if isinstance(schema, str | Path):
        instead = schemas.parsed(Path(schema), str(schema))
    elif isinstance(schema, Mapping):
        instead = validated(schemas.Schema, _plain(schema))
    elif schema is not None and instead is None:
        raise BadInput("schema", type(schema).__name__, "must be a mapping, or the path of a TOML file")
    return Asked(schemas.Columns(**roles), _plain(per_person), instead=instead)


def _changes(
    epsilons: Sequence[float] | None, seeds: Sequence[int] | None, settings: Mapping[str, object] | None
) -> dict[str, object]:
    """Changed settings by their dotted keys, with plain numbers and lists in the place of NumPy's."""
    changes = dict(_plain(settings or {}))
    if epsilons is not None:
        changes["privacy.epsilons"] = _listed("epsilons", epsilons)
    if seeds is not None:
        changes["seeds"] = _listed("seeds", seeds)
    return changes


def _plain(value: Any) -> Any:
    """The same with plain numbers and lists in the place of NumPy's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _spec(
    preset_or_spec: PresetOrSpec | None,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
) -> RunSpec:
    """The checked settings of a run. Raises BadInput naming the first wrong one."""
    changes = _changes(epsilons, seeds, settings)
    raw: Mapping[str, object]
    if isinstance(preset_or_spec, str):
        raw = presets.raw(preset_or_spec, here=True)
    elif isinstance(preset_or_spec, RunSpec):
        raw = asdict(preset_or_spec)
    elif isinstance(preset_or_spec, Mapping):
        raw = _plain(preset_or_spec)
    else:
        raise BadInput("preset_or_spec", preset_or_spec, "must be a preset's name, a RunSpec, or settings as a mapping")
    return checks.parse(checks.changed(raw, changes))


def _listed(field: str, values: object) -> list[object]:
    """The values as a list. Raises BadInput for a single one, and for a text, whose letters would be the values."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadInput(field, values, "must be a list, even of one value")
    return list(_plain(values if hasattr(values, "tolist") else list(values)))
