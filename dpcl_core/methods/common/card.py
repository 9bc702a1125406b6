"""A method's card: everything that the app, the command line and the docs say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from dpcl_core.layers import Print
from dpcl_core.methods.common.learner import PublicSizes
from dpcl_core.privacy.noise_forecast import NoiseForecast
from dpcl_core.spec import Cell, LabelSetting, Params, RunSpec

if TYPE_CHECKING:
    from dpcl_core.methods.common.learner import Learner, PublicContext


P = TypeVar("P", bound=Params)


def settings_of(spec: RunSpec, kind: type[P]) -> P:
    """The settings of a run's method, which are of this class."""
    assert isinstance(spec.params, kind)
    return spec.params


class ForecastNoise(Protocol):
    """Pre-run forecast of the effect of a finite budget's noise on the models; None if these settings have none.

    From settings and public sizes only: all classes are taken as equally large, and all tasks. `classes_per_task`: mean
    number of a task's own labels.
    """

    def __call__(
        self, spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
    ) -> NoiseForecast | None: ...


@dataclass(frozen=True, slots=True)
class MethodCard:
    """Description, settings and compatibility of one method. Its functions of settings take those of its own class.

    `module` contains `make_learner`.
    `key_settings`: the settings that matter most to a first reader, three at most; a form shows the others under
    Advanced; none given: all in front.
    `cells_per_learner`: the cells of one learner: "all" of the run's grid, the "epsilons" of one seed, or one "cell".
    `labels`: the settings of lists that it takes, the usual one first. `learns_lists`: it releases lists that are read or
    learned itself; otherwise they are given to it (`given_lists`).
    `trains_on`: one "task" at a time, or "all" examples of all tasks together, which it keeps.
    `refuses` raises BadInput for settings that cannot work on data with these public sizes.
    `derived`: one sentence for the form with numbers that follow from settings and public sizes; `totals`: one with the
    noise of each budget and its total cost, where these are not obvious. It loads the accountant and may take a second.
    `forecast`: effect of the noise on the models, before the run; None if its noise-to-signal ratio was not measured.
    `guarantee`: "proved" (the ledger bounds what a release reveals), "nominal" (published with an epsilon that its mechanism
    does not deliver: the ledger has no bound, the claim is shown beside it, every run is audited) or "none" (no noise).
    `batch_size`: examples in each batch, if no task may be smaller than one batch; 0 if any size works.
    `notes`: caveats on its guarantee under these settings, shown before all others.
    `assumes`: assumptions of its guarantee about tasks under these settings, in place of the standard one for any stream.
    `is_for_the_replay`: whether, under these settings, the budget covers the replay alone; every surface then says so,
    because the head, and so the whole release, has no bound.
    `training_steps`: sampling rate and number of DP-SGD steps of a training, if nothing else gives them; else None.
    `planned`: "module:function" of its plan (`methods.planned`), where its guarantee is "proved"; without one, no bound
    for all models of a run together is stated.
    `audit`: the module of its attack (`dpcl_core.attacks`); empty: none.
    `is_one_release`: whether a task is exactly one Gaussian release, so that tasks add up in closed form.
    `is_in_playground`: whether the Playground shows its finished runs.
    `noises_embeddings`: whether, under these settings, it adds noise to token embeddings.
    `needs_anchors`: uses features of public sentences, which the engine passes in `PublicContext.anchors`.
    `asks_clients`: whether its clients can be processes of their own: `make_learner` then takes `collect`, which asks them.
    `ceiling`: the method that trains the same kind of model on all tasks at once; "" if none does. `at_once`: settings under
    which this method does so in a single training, for a ceiling.
    `packages`: Python packages beyond the base that its module imports.
    `printed`: the settings printed in its publication; they determine a run's layer.
    `table_names`: the method's and the variant's name in its publication's tables; the method's own name if they have none.
    `reference`: the method whose printed scores are shown beside its own and a repair's; "" if none.
    `no_classifier`: one sentence, where its releases under these settings do not classify without its learner.
    `differences`: sentences on how a run differs from the publication, and on choices that the publication leaves open.
    """

    name: str
    title: str
    summary: str
    source: str
    params: type[Params]
    module: str
    cells_per_learner: Literal["all", "epsilons", "cell"]
    scenarios: tuple[str, ...]
    printed: Print
    labels: tuple[LabelSetting, ...] = ("prior-const", "prior", "data", "dp-learned")
    learns_lists: bool = False
    key_settings: tuple[str, ...] = ()
    table_names: Callable[[RunSpec], tuple[str, str]] = lambda spec: (spec.method, "")
    reference: str = ""
    differences: Callable[[RunSpec], tuple[str, ...]] = lambda spec: ()
    no_classifier: Callable[[Any], str] = lambda params: ""
    packages: tuple[str, ...] = ()
    trains_on: Literal["task", "all"] = "task"
    refuses: Callable[[RunSpec, PublicSizes], None] = lambda spec, facts: None
    derived: Callable[[Any, PublicSizes], str] = lambda params, facts: ""
    totals: Callable[[RunSpec, PublicSizes], str] = lambda spec, facts: ""
    forecast: ForecastNoise | None = None
    guarantee: Literal["proved", "nominal", "none"] = "proved"
    batch_size: Callable[[Any], int] = lambda params: 0
    notes: Callable[[Any], tuple[str, ...]] = lambda params: ()
    assumes: Callable[[Any], tuple[str, ...]] = lambda params: ()
    is_for_the_replay: Callable[[Any], bool] = lambda params: False
    training_steps: Callable[[Any], tuple[float, int] | None] = lambda params: None
    planned: str = ""
    audit: str = ""
    is_one_release: bool = False
    is_in_playground: bool = False
    noises_embeddings: Callable[[Any], bool] = lambda params: False
    needs_anchors: bool = False
    asks_clients: bool = False
    ceiling: str = ""
    at_once: Mapping[str, object] = field(default_factory=dict)

    @property
    def has_clients(self) -> bool:
        """Whether clients hold its examples, in whatever stream."""
        return "federated" in self.scenarios


class MakeLearner(Protocol):
    """Makes a learner for a group of cells, from settings and public facts alone. Raises BadInput."""

    def __call__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> Learner: ...
