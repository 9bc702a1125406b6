"""The scenarios by name: cards with their settings and requirements on a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from dpcl_core.data import card_files
from dpcl_core.errors import unknown
from dpcl_core.spec import Recurrence, ScenarioSpec

if TYPE_CHECKING:
    from dpcl_core.scenarios.stream import CountTasks

_FILE = "scenarios.toml"  # in assets/cards
TaskOrder = Annotated[
    tuple[int, ...] | None,
    Field(description="Which task is learned first, second, ..., counted from 1; empty: as they are numbered."),
]


class ClassGroups(ScenarioSpec):
    """Base of the scenarios whose tasks are equally large groups of classes."""

    tasks: Annotated[int, Field(ge=1)] = Field(5, description="Number of tasks.")
    classes_per_task: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Classes in each task; empty: all classes, split evenly."
    )


class ClassIncremental(ClassGroups):
    """Each task brings classes that no other task has; the order of classes is drawn separately for every seed."""

    kind: Literal["class-incremental"] = "class-incremental"


class Split(ClassGroups):
    """The classes in the dataset's own order, cut into tasks: the same tasks for every seed."""

    kind: Literal["split"] = "split"
    order: TaskOrder = None


class Permuted(ScenarioSpec):
    """The same classes in every task, with the values of all examples in another order."""

    kind: Literal["permuted"] = "permuted"
    tasks: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="Number of tasks.")
    of: Literal["pixels", "values"] = Field(
        "pixels",
        title="What changes places",
        description="What changes places. pixels: whole pixels (or samples of a sensor). values: pixels and colour channels "
        "(or a sensor's axes) jointly.",
    )
    images: Literal["same", "disjoint"] = Field(
        "same",
        title="Images of a task",
        description="same: every task has all examples, as published, so that their budgets add up. disjoint: examples are "
        "dealt out at random, each to one task.",
    )
    order: TaskOrder = None
    permutations: tuple[tuple[int, ...], ...] | None = Field(
        None, description="The place, from 0, that each place's value is taken from, a list for each task; empty: drawn."
    )

    @property
    def recurrence(self) -> Recurrence:
        return "every" if self.images == "same" else "once"

    @property
    def by_coin(self) -> bool:
        return self.images == "disjoint"


class SourceIncremental(ScenarioSpec):
    """Each task is one part of the dataset: a member set of a combined one, a sampling rate of a sensor."""

    kind: Literal["source-incremental"] = "source-incremental"
    order: tuple[str, ...] | None = Field(
        None, description="Order of the sources by name; empty: a new random order for every seed."
    )


class Blurry(ScenarioSpec):
    """Tasks with blurred edges: part of the classes also occurs outside its home task."""

    tasks: Annotated[int, Field(ge=1)] = Field(5, description="Number of tasks.")
    disjoint_percent: int = Field(
        50, ge=0, le=100, description="N: share of the classes that occur in one task only (100: all of them)."
    )
    blurry_percent: int = Field(
        10, ge=0, le=100, description="M: share of the other classes' examples that is dealt out over all tasks."
    )
    task_prior: Literal["home", "occurring"] = Field(
        "home",
        description="List of labels of a task, where each task has its own. home: the classes at home there, a public map; "
        "other examples that strayed in are dropped. occurring: oracle prior, the labels that really occur, read off the "
        "training examples: no bound holds then.",
    )

    @property
    def reads_lists(self) -> bool:
        return self.task_prior == "occurring"

    @property
    def by_coin(self) -> bool:
        return True


class IBlurry(Blurry):
    """Equal tasks whose edges are blurred."""

    kind: Literal["i-blurry"] = "i-blurry"


class SiBlurry(Blurry):
    """Blurred tasks of random sizes."""

    kind: Literal["si-blurry"] = "si-blurry"


class Federated(ScenarioSpec):
    """Clients hold the examples, and tasks arrive one after another: what is protected is all that a client holds."""

    kind: Literal["federated"] = "federated"
    clients: int = Field(20, ge=1, le=10_000, description="Number of clients, a public number.")
    partition: Literal["dirichlet", "domain"] = Field(
        "dirichlet",
        description="Who holds what. dirichlet: each label's examples (of each source, where these are the tasks) are dealt "
        "out in shares drawn for it. domain: each client belongs to one source of the dataset.",
    )
    alpha: float = Field(
        0.5,
        ge=0.01,
        le=1000,
        allow_inf_nan=False,
        description="Concentration of the Dirichlet partition: small, and most examples of a label lie with few clients.",
    )
    protocol: Literal["class-incremental", "one-vs-rest", "domain-incremental"] = Field(
        "class-incremental",
        description="class-incremental: each task brings classes, and one classifier must tell apart all seen so far. "
        "one-vs-rest: each task is one class against as many examples of the same client's others; it is given at the test. "
        "domain-incremental: each task is one source of the dataset.",
    )
    tasks: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Number of tasks; empty: one for each class, or for each source."
    )
    order: tuple[str, ...] | None = Field(
        None, description="Classes or sources by name, in the order to be learned; empty: all, in their own order."
    )

    @property
    def recurrence(self) -> Recurrence:
        return "once" if self.partition == "domain" and self.by_source else "every"

    @property
    def by_source(self) -> bool:
        """Whether each task is one source of the dataset."""
        return self.protocol == "domain-incremental"

    @property
    def by_coin(self) -> bool:
        return True

    @property
    def n_users(self) -> int:
        return self.clients

    def sources_used(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """The sources that occur in the stream: where sources are the tasks, those that are learned, else all."""
        return (self.order or sources)[: self.tasks] if self.by_source else sources

    def pooled(self, n_classes: int, sources: tuple[str, ...]) -> ScenarioSpec | None:
        """One class against the rest has no such stream, nor has a part of the classes, or groups in another order."""
        if self.protocol == "domain-incremental":
            return SourceIncremental(order=self.sources_used(sources)) if self.order or sources else None
        n_tasks = self.tasks or n_classes
        is_whole = self.order is None or len(self.order) == n_classes == n_tasks
        return Split(tasks=n_tasks) if self.protocol == "class-incremental" and is_whole else None

    def label_names(self, classes: tuple[str, ...]) -> tuple[str, ...]:
        """The stream's class names: "not NAME" and NAME of each task in one-vs-rest, else the dataset's classes."""
        if self.protocol != "one-vs-rest":
            return classes
        requested = (self.order or classes)[: self.tasks]
        return tuple(name for one in requested for name in (f"not {one}", one))


_SETTINGS = (ClassIncremental, Split, Permuted, SourceIncremental, IBlurry, SiBlurry, Federated)


@dataclass(frozen=True, slots=True)
class ScenarioCard:
    """Description of a scenario, and what it can be combined with.

    `module` has `open_stream` and `n_tasks` (protocols of `scenarios.stream`). `needs_values`: it rearranges the examples'
    own values, so features of a network cannot be used. `has_clients`: the privacy unit is a client, not an example.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    title: str
    summary: str
    source: str
    settings: type[ScenarioSpec]
    module: str
    needs_values: bool = False
    has_clients: bool = False


def read() -> dict[str, ScenarioCard]:
    """The cards of the file, with their settings. Raises BadInput naming file, table, key and what is allowed."""
    form, tables = TypeAdapter(ScenarioCard), card_files.tables(_FILE)
    named = {settings.model_fields["kind"].default: settings for settings in _SETTINGS}
    return {
        name: card_files.checked(form, _FILE, name, {**tables[name], "name": name, "settings": settings})
        for name, settings in named.items()
    }


CARDS: dict[str, ScenarioCard] = read()


def check(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...]) -> int:
    """The number of tasks on a dataset with so many classes and these names of sources.

    Raises BadInput naming the setting that does not fit the dataset.
    """
    count: CountTasks = import_module(card(settings.kind).module).n_tasks
    return count(settings, n_classes, sources)


def card(name: str) -> ScenarioCard:
    """The card of a scenario. Raises BadInput naming the known ones."""
    if name not in CARDS:
        raise unknown("scenario.kind", name, CARDS)
    return CARDS[name]
