"""The engine from Python, as a notebook uses it: `import dpcl_core as dpcl`, then `dpcl.run("digits-cosine")`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dpcl_core import checks, presets
from dpcl_core.errors import RunFailed
from dpcl_core.events import Event
from dpcl_core.privacy.calculator import Answer, solve
from dpcl_core.results import Result
from dpcl_core.spec import Adjacency, RunSpec

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.privacy.lower_bound import Audited
    from dpcl_core.runs.store import Store

What = str | RunSpec | Mapping[str, object]


def run(
    what: What,
    *,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
    on_event: Callable[[Event], None] | None = None,
    device: str | None = None,
    store: str | None = None,
) -> Result:
    """Carries out one run in this process, keeps it in the store that the app shows, and gives its result.

    Args:
        what: a preset's name, a `RunSpec`, or settings as nested tables, as TOML has them.
        epsilons: budgets in place of the spec's own; `math.inf` is no noise.
        seeds: in place of the spec's own.
        settings: further settings by dotted key, such as `{"params.learning_rate": 0.5}`.
        on_event: called with every event as it happens.
        device: "cpu" or "cuda:N"; None: the first GPU, else the CPU.
        store: database URL; None: `DPCL_STORE`, else a file in the home.

    Interrupted, it gives what is there by then. Raises BadInput for settings that cannot be used, RunFailed where the run
    ended on its way.

    >>> result = run("digits-cosine", epsilons=[1.0], seeds=[0])
    >>> result.guarantee(1.0).epsilon <= 1.0
    True
    >>> sorted(result.accuracy.columns)
    ['accuracy', 'after_task', 'epsilon', 'on_task', 'pooled', 'seed']
    """
    from dpcl_core.runs import worker
    from dpcl_core.runs.store import Store

    asked = _spec(what, epsilons, seeds, settings)
    checks.check(asked)
    # A changed preset does not run under the preset's name: it may not even be the same data.
    name = what if isinstance(what, str) and epsilons is None and seeds is None and not settings else None
    kept = Store(store)
    run_id = kept.create(asked, name=name, device=device or worker.default_device())
    done = worker.run_here(kept, run_id, on_event=on_event)
    if done.status == "failed":
        raise RunFailed(done.id, done.error or "the run failed")
    return _result(kept, done.id)


def sweep(
    what: What,
    over: Mapping[str, Sequence[object]],
    *,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    on_event: Callable[[Event], None] | None = None,
    device: str | None = None,
    store: str | None = None,
) -> pd.DataFrame:
    """One run for every combination of settings, and the metrics of all in one table.

    Args:
        what: as `run` takes it.
        over: values to try by dotted key, such as `{"labels": ["prior", "prior-const"]}`.
        epsilons: as `run` takes them.
        seeds: as `run` takes them.
        on_event: as `run` takes it.
        device: as `run` takes it.
        store: as `run` takes it.

    Columns: the settings tried, run_id, epsilon, seed, metric, value.
    """
    import pandas as pd

    tables = []
    for values in itertools.product(*over.values()):
        chosen = dict(zip(over, values, strict=True))
        result = run(
            what, epsilons=epsilons, seeds=seeds, settings=chosen, on_event=on_event, device=device, store=store
        )  # fmt: skip
        found = result.metrics.assign(run_id=result.run_id)
        tables.append(found.assign(**{key: [value] * len(found) for key, value in chosen.items()}))
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
    """The missing one of epsilon, sigma and delta for so many Gaussian releases, each Poisson-sampled at `sample_rate`.

    `sigma`: the noise multiplier, standard deviation over sensitivity. Raises BadInput unless exactly two are given.

    >>> round(account(epsilon=1.0, delta=1e-5).sigma, 2)
    3.73
    """
    return solve(epsilon=epsilon, sigma=sigma, delta=delta, sample_rate=sample_rate, n_steps=steps, adjacency=adjacency)


def audit(what: What, *, attack: str | None = None, trials: int | None = None) -> tuple[Audited, ...]:
    """Attacks a method through its learner: a lower bound on what its releases tell, for each budget of the spec.

    Args:
        what: as `run` takes it.
        attack: one of the method's attacks by name; None: the one that its runs are audited with.
        trials: releases on each side; None: as many as the attack needs to prove something.

    Raises BadInput for a method without an audit.
    """
    from dpcl_core.attacks import catalog as attacks

    asked = _spec(what)
    checks.check(asked)
    return tuple(attacks.auditor(asked.method, attack)(asked, trials or attacks.trials(asked.method)))


def load(run_id: str, *, store: str | None = None) -> Result:
    """A stored run as far as it has come. Raises BadInput for one that is not there."""
    from dpcl_core.runs.store import Store

    return _result(Store(store), run_id)


def preset(name: str) -> RunSpec:
    """The settings of a preset, to look at or to change. Raises BadInput naming the known ones."""
    return presets.load(name)


def _spec(
    what: What,
    epsilons: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, object] | None = None,
) -> RunSpec:
    """The settings of a run. Raises BadInput naming the first wrong one."""
    given = dict(settings or {})
    if epsilons is not None:
        given["privacy.epsilons"] = list(epsilons)
    if seeds is not None:
        given["seeds"] = list(seeds)
    raw = presets.raw(what) if isinstance(what, str) else what.model_dump() if isinstance(what, RunSpec) else what
    return checks.parse(checks.changed(raw, given))


def _result(store: Store, run_id: str) -> Result:
    kept = store.get(run_id)
    return Result(run_id, kept.name, kept.spec, tuple(event for _, event in store.events_after(run_id)))
