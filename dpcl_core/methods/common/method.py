"""What every method is: its card, the public facts on which it bases its work, and the protocol of its learner.

The card is everything that the app, the command line and the docs say about a method.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog
from dpcl_core.data.catalog import DatasetFacts
from dpcl_core.data.dataset import Form
from dpcl_core.data.texts import Canary, TextForm
from dpcl_core.errors import BadInput
from dpcl_core.events import Leaks, Note, Progress, Retained, TokensScored
from dpcl_core.privacy.labels import in_label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise_forecast import NoiseForecast
from dpcl_core.published import Departure, Print, Printed
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, LabelSetting, Params, Recurrence, RunSpec


def check_public_labels(spec: RunSpec, tasks: Iterable[tuple[str, Sequence[int]]], public: Sequence[int]) -> None:
    """Raises BadInput if a task has labels of its own and none of them is public.

    `tasks`: each task's name and its own labels.
    """
    for name, home in tasks:
        if home and not set(home) & set(public):
            raise label_refusal(spec, name)


def label_refusal(spec: RunSpec, task: str) -> BadInput:
    """The error for a task without a public label."""
    labels = ", ".join(spec.public_labels or ())
    return BadInput("public_labels", labels, f"must name a label of every task: {task} would have none")


def refuse_budgets(spec: RunSpec, why: str) -> None:
    """Raises BadInput with this reason for a finite budget: the method adds no noise."""
    for epsilon in spec.privacy.epsilons:
        if math.isfinite(epsilon):
            raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", f"must be inf: {why}", {"privacy.epsilons": (math.inf,)})


@dataclass(frozen=True, slots=True)
class PublicSizes:
    """Public sizes of a run's data: numbers of training examples, tasks and classes, and whether people recur.

    `n_people`: nominal number of training examples in all tasks. `recurrence`: whether one person can be in several tasks,
    as in `TaskStream`. `n_users`: clients that hold the examples if the unit of protection is a client, else None.
    `source_sizes`: nominal numbers of training examples by task name, if tasks are a dataset's sources.
    """

    n_people: int
    n_tasks: int
    n_classes: int
    recurrence: Recurrence = "once"
    n_users: int | None = None
    source_sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def task_size(self) -> float:
        """Nominal number of training examples of a task: all tasks are taken as equal, whatever their actual sizes.

        If one person can be in every task, each task is as large as the dataset.
        """
        return self.n_people / self.n_tasks if self.recurrence == "once" else float(self.n_people)

    @property
    def n_recurring(self) -> int:
        """The number of tasks that one person can be in."""
        return self.n_tasks if self.recurrence == "every" else 1

    def check_sampled(self, sample_rate: float) -> None:
        """Raises BadInput for a rate of Poisson sampling under which a batch has less than one example on average."""
        if sample_rate * self.task_size < 1:
            least = f"must be at least {1 / self.task_size:.3g}, one of the {self.task_size:.0f} examples"
            raise BadInput("params.sample_rate", sample_rate, f"{least} that a task has on average")


def run_sizes(spec: RunSpec, dataset: DatasetFacts, n_tasks: int) -> PublicSizes:
    """Public sizes of a run, before its data are read; `n_tasks` from the scenario's settings."""
    n_labels = len(spec.scenario.label_names(dataset.classes or tuple(map(str, range(dataset.n_classes)))))
    sizes = source_sizes(spec)
    return PublicSizes(dataset.n_train, n_tasks, n_labels, spec.scenario.recurrence, spec.scenario.n_users, sizes)


def of_spec(spec: RunSpec) -> PublicSizes:
    """Public sizes of a run from dataset cards and file headers.

    Raises BadInput for unknown data and for scenario settings that do not fit the data.
    """
    dataset = catalog.facts_of(spec.data)
    return run_sizes(spec, dataset, scenarios.number_of_tasks(spec.scenario, dataset.n_classes, dataset.sources))


def source_sizes(spec: RunSpec) -> Mapping[str, int]:
    """Nominal sizes of a run's tasks by name, if tasks are sources whose sizes a card gives; else empty."""
    if spec.scenario.kind != "source-incremental":
        return {}
    sizes = catalog.source_sizes(spec.data)
    return {name: sizes[name] for name in spec.scenario.sources_used(tuple(sizes))}


class Observation:
    """Data for the simulator's visualisations, not part of a release; shown for public or synthetic examples only.

    The engine passes it to `dpcl_core.explorers` and records only the events that these make of it.
    """

    __slots__ = ()


LearnerEvent = Progress | Note | TokensScored | Retained | Leaks | Observation  # what `learn` may yield


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicContext(PublicSizes):
    """Public facts that a learner may use, all known before any private example is read (except `undeclared`).

    Beside the sizes: `n_inputs`: feature size K (0 if the method reads images); `public`: class indices assumed public,
    ascending; `device`: torch device name. `form`: layout of the examples' own values in the inputs, None for network
    features or pictures. `classes`: names of the classes. `texts`: encoding of texts, None for other inputs; `canaries`:
    secrets planted among them. `anchors` float32 [p, K]: features of public sentences from the same backbone, at most 2,000,
    for methods whose card has `needs_anchors`; `Task.train.users` then gives the client of each example. `undeclared`: names
    of the training labels from n_classes on, candidates for a learned list. It is the one private field, because labels are
    private: nothing may depend on it except through a released list. `counted`: whether the number of examples in a task is
    public, as for a benchmark; for a person's own data only nominal sizes are. `n_axes`: how many public axes of the network
    each budget takes its features along; empty where there are none.
    """

    n_inputs: int
    public: tuple[int, ...]
    device: str = "cpu"
    form: Form | None = None
    classes: tuple[str, ...] = ()
    texts: TextForm | None = None
    canaries: tuple[Canary, ...] = ()
    anchors: NDArray[np.float32] | None = None
    undeclared: tuple[str, ...] = ()
    counted: bool = True
    n_axes: Mapping[float, int] = field(default_factory=dict)

    @property
    def n_labels(self) -> int:
        """Number of possible labels, and so the length of arrays indexed by label. Private, as `undeclared` is."""
        return self.n_classes + len(self.undeclared)

    def size_of(self, task: Task) -> float:
        """Nominal number of training examples of this task: its source's size if a card gives it, else `task_size`."""
        return self.source_sizes.get(task.name, self.task_size)


def labelled(task: Task, labels: Sequence[int]) -> Examples:
    """The task's training examples of these labels."""
    return task.train.take(np.flatnonzero(in_label_space(task.train.labels, labels)))


class Learner(Protocol):
    """Learns tasks one after another for a group of cells that may share work, but never noise. Keeps no examples.

    Streams differ by seed (class order), so each step passes one task per seed; budgets of one seed see the same task.
    """

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[LearnerEvent]:
        """Learns the next task of every seed; each use of private data enters the cell's ledger before its output leaves."""

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores [epsilons, n, classes] of `task.test` under the seed's models, by prediction rule, the run's own first.

        -inf: a label that was never released. Empty if no model has been released yet. Streams that look ahead also call it
        before the first task, for the untrained model, and for a task that is not learned yet.
        """

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """Everything that this cell's learner released after the last task, by name: all that an adversary sees of it.

        It depends on private data only through releases that are in the ledger.
        """


@runtime_checkable
class TaskBlind(Protocol):
    """A learner that scores an example the same in whichever task it is: test sets of several tasks may be scored as one."""

    is_task_unread: ClassVar[bool]


@runtime_checkable
class Answering(Protocol):
    """A learner whose public network answers before it has learned anything, as a language model does."""

    def untrained(self, task: Task) -> NDArray[np.floating]:
        """Scores [n, classes] of `task.test` under the public network as it came; of a learner that has learned nothing."""


@runtime_checkable
class Surveying(Protocol):
    """A learner that reads all tasks before it learns the first, which a true stream would not allow."""

    def survey(self, streams: Mapping[int, Sequence[Task]], ledgers: Mapping[Cell, Ledger]) -> None:
        """Reads the tasks of every seed, in order; every use of private data enters the cell's ledger."""


@runtime_checkable
class Prefetching(Protocol):
    """A learner whose models do not build on each other: it may train the next task while another is evaluated."""

    def prefetch(self, coming: Sequence[Mapping[int, Task]]) -> None:
        """Starts work on coming tasks, the next one first. No result or ledger entry leaves before that task's `learn`."""


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


def printed_by(
    source: str, *groups: Mapping[str, Printed | str], always: tuple[Departure, ...] = (),
    kind: Literal["paper", "repair"] = "paper",
) -> Print:  # fmt: skip
    """What a publication prints of a method, in these groups of settings; a string says why it leaves a setting open."""
    items = [item for group in groups for item in group.items()]
    settings = {name: one for name, one in items if isinstance(one, Printed)}
    return Print(source, settings, {name: one for name, one in items if isinstance(one, str)}, always, kind)


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
    `planned`: "module:function" of its plan (`methods.references`), where its guarantee is "proved"; without one, no bound
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
