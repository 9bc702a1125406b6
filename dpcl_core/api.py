"""The Python API for scripts and notebooks: `import dpcl_core as dpcl`, then `dpcl.run("digits-cosine")`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from dpcl_core import checks, presets
from dpcl_core.errors import BadInput, RunFailed
from dpcl_core.events import Event
from dpcl_core.privacy.calculator import Answer, solve
from dpcl_core.results import Result, of_run
from dpcl_core.spec import Adjacency, RunSpec

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.privacy.audit_bounds import Audited

PresetOrSpec = str | RunSpec | Mapping[str, object]


def run(
    preset_or_spec: PresetOrSpec,
    *,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
    on_event: Callable[[Event], None] | None = None,
    device: str | None = None,
    store: str | None = None,
    ceiling: bool = False,
) -> Result:
    """Carries out one run in this process, keeps it in the app's store, and returns its result.

    Args:
        preset_or_spec: a preset's name, a `RunSpec`, or settings as nested mappings, as in TOML.
        epsilons: budgets instead of the spec's own; `math.inf`: no noise.
        seeds: seeds instead of the spec's own.
        settings: further settings by dotted key, such as `{"params.learning_rate": 0.5}`.
        on_event: called with every event as it happens.
        device: "cpu" or "cuda:N"; None: the first GPU, else the CPU.
        store: database URL, or the path of a file that ends in .db or .sqlite; None: `DPCL_STORE`, else a file in the home.
        ceiling: first train on all tasks at once without noise, unless that is known; refused on your own data.

    When interrupted, returns the result so far; raises KeyboardInterrupt where the run itself had not begun. Raises BadInput
    for unusable settings, RunFailed if the run fails, and what `on_event` raises, which stops the run.

    >>> result = run("digits-cosine", epsilons=[1.0], seeds=[0])
    >>> result.guarantee(1.0).epsilon <= 1.0
    True
    >>> sorted(result.accuracy.columns)
    ['accuracy', 'after_task', 'epsilon', 'on_task', 'pooled', 'seed']
    """
    from dpcl_core.papers import measured
    from dpcl_core.runs import process, worker
    from dpcl_core.runs.store import Store

    spec = _spec(preset_or_spec, epsilons, seeds, settings)
    checks.check_run(spec)
    # A changed preset loses the preset's name: even the data may differ.
    name = (
        preset_or_spec if isinstance(preset_or_spec, str) and epsilons is None and seeds is None and not settings else None
    )
    stored = Store(store)

    def carried_out(spec: RunSpec, name: str | None) -> str:
        run_id = stored.create(spec, name=name, device=device or process.default(), attended_by=process.me())
        finished = worker.run_here(stored, run_id, on_event=on_event)
        if finished.status == "failed":
            raise RunFailed(finished.id, finished.error or "the run failed")
        return finished.id

    if ceiling and measured.known(spec, store=stored) is None:
        wanted = measured.settings(spec)
        checks.check_run(wanted)
        if stored.status(carried_out(wanted, f"ceiling of {spec.method}")) == "cancelled":
            raise KeyboardInterrupt  # it was meant for all
    return of_run(stored, stored.get_with_results(carried_out(spec, name)))


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
    import pandas as pd

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
    return solve(epsilon=epsilon, sigma=sigma, delta=delta, sample_rate=sample_rate, n_steps=steps, adjacency=adjacency)


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


def preset(name: str) -> RunSpec:
    """The settings of a preset. Raises BadInput naming the known presets."""
    return presets.load(name, here=True)


def _spec(
    preset_or_spec: PresetOrSpec,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
) -> RunSpec:
    """The checked settings of a run. Raises BadInput naming the first wrong one."""
    changes = dict(settings or {})
    if epsilons is not None:
        changes["privacy.epsilons"] = _listed("epsilons", epsilons)
    if seeds is not None:
        changes["seeds"] = _listed("seeds", seeds)
    raw: Mapping[str, object]
    if isinstance(preset_or_spec, str):
        raw = presets.raw(preset_or_spec, here=True)
    elif isinstance(preset_or_spec, RunSpec):
        raw = asdict(preset_or_spec)
    elif isinstance(preset_or_spec, Mapping):
        raw = preset_or_spec
    else:
        raise BadInput("preset_or_spec", preset_or_spec, "must be a preset's name, a RunSpec, or settings as a mapping")
    return checks.parse(checks.changed(raw, changes))


def _listed(field: str, values: object) -> list[object]:
    """The values as a list. Raises BadInput for a single one, and for a text, whose letters would be the values."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadInput(field, values, "must be a list, even of one value")
    return list(values)
