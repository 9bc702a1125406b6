"""Settings of a tuning: the base run, the data to tune on, the number of trials. Reads cards, never data; no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import of_spec
from dpcl_core.scenarios.catalog import ClassIncremental, classes_per_task, number_of_tasks
from dpcl_core.spec import RunSpec, Settings, fields_of, parameter, validated

On = Literal["public", "private"]

# Tobaben et al., Table A2, which does not give the scales: here learning rate and clipping norm are drawn on a logarithmic
# one, the batch size on a linear one.
LEARNING_RATES = (1e-7, 1e-2)
CLIP_NORMS = (0.2, 10.0)
SMALLEST_BATCH = 10  # the largest is the number of training examples
SHARE = 0.7  # of the tuning data for training; accuracy is measured on the rest
COMBINED_SHARE = 0.1 / SHARE  # of a task of a combined dataset, so that a tenth of it is used for training


@dataclass(frozen=True, kw_only=True)
class TuneSpec(Settings):
    """One search: the base run (one budget and one seed), the data to tune on, the number of trials."""

    base: RunSpec
    on: On = parameter("public", description="On another, public dataset, or on the private data themselves.")
    proxy: str | None = parameter(None, description="The public dataset that stands in for the private one.")
    n_trials: int = parameter(20, ge=1, le=500, description="Trainings, each with settings of its own.")

    @property
    def epsilon(self) -> float:
        return self.base.privacy.epsilons[0]

    @property
    def seed(self) -> int:
        return self.base.seeds[0]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of training and held-out examples of a trial, and of the final training (public)."""

    n_tune: int
    n_validation: int
    n_final: float

    @property
    def ratio(self) -> float:
        """r = N_final / N_tune."""
        return self.n_final / self.n_tune


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished trial. `accuracy` on the held-out examples, in [0, 1]; None where it failed, for the reason `trouble`."""

    number: int
    learning_rate: float
    batch_size: int
    clip_norm: float
    accuracy: float | None
    trouble: str | None
    seconds: float


def parse(raw: Mapping[str, object]) -> TuneSpec:
    """The search of a mapping from JSON, with `base` the settings of a run. Raises BadInput naming the wrong setting."""
    base = raw.get("base")
    if not isinstance(base, (Mapping, RunSpec)):
        raise BadInput("base", base, "must be the settings of a run")
    return validated(TuneSpec, {**raw, "base": base if isinstance(base, RunSpec) else checks.parse(base)})


def check_search(tune: TuneSpec) -> None:
    """Checks that the search can be carried out on this computer. Raises BadInput, and DataMissing as `checks.check_run`."""
    base = tune.base
    if not can_tune(base.method):
        able = ", ".join(name for name in methods.CARDS if can_tune(name))
        raise BadInput("method", base.method, f"has no learning rate to tune; these have: {able}")
    if len(base.privacy.epsilons) != 1:
        requested = ", ".join(f"{epsilon:g}" for epsilon in base.privacy.epsilons)
        raise BadInput("privacy.epsilons", requested, "must be one budget: other budgets have other best settings")
    if len(base.seeds) != 1:
        raise BadInput("seeds", ", ".join(map(str, base.seeds)), "must be one seed: a tuning is for one")
    checks.check_run(base)
    if tune.on == "private":
        if tune.proxy is not None:
            raise BadInput("proxy", tune.proxy, "is for tuning on public data: leave it out, or tune on public")
        return
    fitting = proxies(base.data.dataset)
    listed = ", ".join(name for name in fitting if datasets.available(datasets.card(name)) is None)
    hint = f"; on this computer: {listed}" if listed else "; none is on this computer"
    if tune.proxy is None:
        raise BadInput("proxy", "", f"must name a public dataset to tune on{hint}")
    if tune.proxy not in datasets.CARDS:
        raise BadInput("proxy", tune.proxy, f"must be a dataset of the catalog, for those are public{hint}")
    if tune.proxy not in fitting:
        raise BadInput("proxy", tune.proxy, f"shares examples with {base.data.dataset}, the data called private{hint}")
    checks.check_run(searched(tune))


def can_tune(method: str) -> bool:
    """Whether the method has training settings to tune."""
    return {"learning_rate", "sample_rate", "clip_norm", "epochs"} <= set(fields_of(methods.card(method).params))


def proxies(dataset: str) -> tuple[str, ...]:
    """The catalog's datasets of the same kind that share no member with this one: its possible proxies."""
    own_members, kind = _members(dataset), datasets.card(dataset).kind
    return tuple(name for name, card in datasets.CARDS.items() if card.kind == kind and not own_members & _members(name))


def searched(tune: TuneSpec) -> RunSpec:
    """The run whose first task the trials learn: the base itself, or a task with as many classes of the proxy."""
    if tune.on == "private" or tune.proxy is None:
        return tune.base
    facts = datasets.facts_of(tune.base.data)
    n_tasks = number_of_tasks(tune.base.scenario, facts.n_classes, facts.sources)
    n_home = classes_per_task(tune.base.data, tune.base.scenario, tune.seed) or facts.n_classes / n_tasks
    per_task = min(datasets.facts(tune.proxy).n_classes, max(2, int(n_home)))
    data = replace(tune.base.data, dataset=tune.proxy, train_per_class=None, train_per_source=None, test_per_class=None)
    return replace(tune.base, data=data, scenario=ClassIncremental(tasks=1, classes_per_task=per_task), public_labels=None)


def final_size(spec: RunSpec) -> float:
    """Nominal number of examples of a run's largest training: of one task, or of all tasks where examples are kept."""
    sizes = of_spec(spec)
    return sizes.task_size * (sizes.n_tasks if methods.card(spec.method).trains_on == "all" else 1)


def _members(dataset: str) -> set[str]:
    """The folders of a dataset's examples: datasets may share them, and all generated ones share people."""
    return {"made" if member.made_per_source else member.folder for member in datasets.members(datasets.card(dataset))}


def batch_bounds(n_tune: int) -> tuple[int, int]:
    """Smallest and largest batch size. Raises BadInput where there are too few examples for a batch."""
    if n_tune < SMALLEST_BATCH:
        allowed = f"must be at least {SMALLEST_BATCH}, the smallest batch: take more examples a class or fewer tasks"
        raise BadInput("examples to tune on", n_tune, allowed)
    return SMALLEST_BATCH, n_tune


def n_train_of(n_examples: int) -> int:
    """Number of the tuning examples used for training."""
    return math.floor(SHARE * n_examples + 0.5)
