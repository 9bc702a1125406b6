"""The record a method is known by: everything the app, the command line and the docs say about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from dpcl_core.layers import Print
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy.noise_forecast import NoiseForecast
from dpcl_core.spec import Cell, LabelSetting, Params, RunSpec

if TYPE_CHECKING:
    from dpcl_core.methods.common.learner import Learner, PublicContext


class ForecastNoise(Protocol):
    """What a finite budget's noise will do to the models; None where that is not understood with these settings.

    From settings and public numbers alone: classes count as equally large, tasks too. `classes_per_task`: labels at home in
    a task, on average.
    """

    def __call__(
        self, spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
    ) -> NoiseForecast | None: ...


def no_forecast(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast | None:
    """Of a method whose noise and signal were not measured against each other."""
    return None


@dataclass(frozen=True, slots=True)
class MethodCard:
    """What a visitor reads of a method and what it can be combined with.

    `module` holds `make_learner`.
    `shares` says which cells one learner takes: "all" of the run's grid, the "epsilons" of one seed, or one "cell" each.
    `trains_on`: one "task" at a time, or "all" examples of all tasks together, which it keeps.
    `refuses` raises BadInput where settings cannot work on data with these public numbers.
    `derived` says what follows from settings and those numbers, in a sentence for the form; `totals` what noise its budgets
    come to and what all of it costs, where that is no plain matter. It loads the accountant and may search for a second.
    `forecast`: what noise will do to its models, known before the start.
    `guarantee`: "proved" (the ledger bounds what a release tells), "nominal" (published with an epsilon that its mechanism
    does not deliver: the ledger has no bound, the claim stands beside it, every run is audited) or "none" (adds no noise).
    `batch_size`: examples in each of its batches, where no task may be smaller than one; 0 where any size will do.
    `notes`: what a reader of its guarantee should know with these settings, sentences that stand before all others.
    `assumes`: what its guarantee takes as given about tasks, in place of the rule that any stream is held to.
    `is_for_the_replay`: whether, with these settings, the budget is for the replay alone; every surface then says so, for
    the head, and so the whole, has no bound.
    `training_steps`: sampling rate and number of steps of DP-SGD on what it trains on, where nothing else reads that; else
    None.
    `is_one_release`: whether a task is one Gaussian release and nothing else, so that tasks add up in closed form.
    `is_in_playground`: whether the Playground shows its finished runs.
    `noises_embeddings`: whether, with these settings, its noise is on embeddings of tokens.
    `needs_anchors`: it builds on features of public sentences, which the engine hands it in `PublicContext.anchors`.
    `needs_values`: it trains a network on the examples' own values, so that features of another network will not do.
    `packages`: Python packages beyond the base that its module imports.
    `printed`: what its publication prints of it, setting by setting; a run's layer follows from that.
    `table_names`: under which names of method and variant its publication's tables print such a run; its own name where they
    have none. `reference`: the method whose printed scores stand beside its own, a repair's too; "": none does.
    `differences`: how such a run differs from what was done there, and what was chosen where nothing is said: sentences.
    """

    name: str
    title: str
    summary: str
    source: str
    params: type[Params]
    module: str
    shares: Literal["all", "epsilons", "cell"]
    labels: tuple[LabelSetting, ...]
    scenarios: tuple[str, ...]
    printed: Print
    table_names: Callable[[RunSpec], tuple[str, str]] = lambda spec: (spec.method, "")
    reference: str = ""
    differences: Callable[[RunSpec], tuple[str, ...]] = lambda spec: ()
    packages: tuple[str, ...] = ()
    trains_on: Literal["task", "all"] = "task"
    refuses: Callable[[RunSpec, PublicSizes], None] = lambda spec, facts: None
    derived: Callable[[Params, PublicSizes], str] = lambda params, facts: ""
    totals: Callable[[RunSpec, PublicSizes], str] = lambda spec, facts: ""
    forecast: ForecastNoise = no_forecast
    guarantee: Literal["proved", "nominal", "none"] = "proved"
    batch_size: Callable[[Params], int] = lambda params: 0
    notes: Callable[[Params], tuple[str, ...]] = lambda params: ()
    assumes: tuple[str, ...] = ()
    is_for_the_replay: Callable[[Params], bool] = lambda params: False
    training_steps: Callable[[Params], tuple[float, int] | None] = lambda params: None
    is_one_release: bool = False
    is_in_playground: bool = False
    noises_embeddings: Callable[[Params], bool] = lambda params: False
    needs_anchors: bool = False
    needs_values: bool = False


class MakeLearner(Protocol):
    """How the engine makes a learner for a group of cells, from settings and public facts alone. Raises BadInput."""

    def __call__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> Learner: ...
