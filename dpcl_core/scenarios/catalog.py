"""The scenarios by name: cards with their settings and requirements on a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from dpcl_core.errors import unknown
from dpcl_core.spec import Recurrence, ScenarioSpec

if TYPE_CHECKING:
    from dpcl_core.scenarios.stream import CountTasks


class ClassIncremental(ScenarioSpec):
    """Each task brings classes that no other task has; the order of classes is drawn separately for every seed."""

    kind: Literal["class-incremental"] = "class-incremental"
    tasks: Annotated[int, Field(ge=1)] = Field(5, description="Number of tasks.")
    classes_per_task: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Classes in each task; empty: all classes, split evenly."
    )


class Split(ScenarioSpec):
    """The classes in the dataset's own order, cut into tasks: the same tasks for every seed."""

    kind: Literal["split"] = "split"
    tasks: Annotated[int, Field(ge=1)] = Field(5, description="Number of tasks.")
    classes_per_task: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Classes in each task; empty: all classes, split evenly."
    )
    order: tuple[int, ...] | None = Field(
        None, description="Which task is learned first, second, ..., counted from 1; empty: as they are numbered."
    )


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
    order: tuple[int, ...] | None = Field(
        None, description="Which task is learned first, second, ..., counted from 1; empty: as they are numbered."
    )
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
        "other examples that strayed in are dropped. occurring: oracle prior, the labels that really occur, as if known.",
    )

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
        return "once" if self.partition == "domain" and self.protocol == "domain-incremental" else "every"

    @property
    def by_coin(self) -> bool:
        return True

    @property
    def n_users(self) -> int:
        return self.clients

    def sources_used(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """The sources that occur in the stream: where sources are the tasks, those that are learned, else all."""
        return (self.order or sources)[: self.tasks] if self.protocol == "domain-incremental" else sources

    def label_names(self, classes: tuple[str, ...]) -> tuple[str, ...]:
        """The stream's class names: "not NAME" and NAME of each task in one-vs-rest, else the dataset's classes."""
        if self.protocol != "one-vs-rest":
            return classes
        requested = (self.order or classes)[: self.tasks]
        return tuple(name for one in requested for name in (f"not {one}", one))


@dataclass(frozen=True, slots=True)
class ScenarioCard:
    """Description of a scenario, and what it can be combined with.

    `module` has `open_stream` and `n_tasks` (protocols of `scenarios.stream`). `needs_values`: it rearranges the examples'
    own values, so features of a network cannot be used. `has_clients`: the privacy unit is a client, not an example.
    """

    name: str
    title: str
    summary: str
    source: str
    settings: type[ScenarioSpec]
    module: str
    needs_sources: bool
    needs_values: bool = False
    has_clients: bool = False


CARDS: dict[str, ScenarioCard] = {
    card.name: card
    for card in (
        ScenarioCard(
            name="class-incremental",
            title="New classes in every task",
            summary="The classes are split over the tasks; one classifier must tell apart all classes seen so far, "
            "without being told which task a test example comes from.",
            source="Tobaben et al. 2025, section 6 (Split-CIFAR-100)",
            settings=ClassIncremental,
            module="dpcl_core.scenarios.class_incremental",
            needs_sources=False,
        ),
        ScenarioCard(
            name="split",
            title="The classes in their own order",
            summary="The classes are cut into tasks in the order in which the dataset lists them, the same way for every "
            "seed. Split MNIST: 0 and 1, then 2 and 3, and so on.",
            source="Lai et al. 2022, experiments (split MNIST, split CIFAR-10/100)",
            settings=Split,
            module="dpcl_core.scenarios.split",
            needs_sources=False,
        ),
        ScenarioCard(
            name="permuted",
            title="The same classes, pixels in another order",
            summary="Every task has all classes; what changes is the order of the examples' values, drawn for each. "
            "As published every task has the same images, so that one image is used in all of them.",
            source="Lai et al. 2022, experiments (permuted MNIST, permuted CIFAR-10)",
            settings=Permuted,
            module="dpcl_core.scenarios.permuted",
            needs_sources=False,
            needs_values=True,
        ),
        ScenarioCard(
            name="source-incremental",
            title="A new source in every task",
            summary="Each task is one member set of a combined dataset, with labels of its own, or one part of a dataset "
            "that has several, such as a style of pictures or a sampling rate of a sensor, with the same labels.",
            source="Tobaben et al. 2025, section 6 (5-Datasets); Lai et al. 2022 (sampling rates of HARW)",
            settings=SourceIncremental,
            module="dpcl_core.scenarios.source_incremental",
            needs_sources=True,
        ),
        ScenarioCard(
            name="i-blurry",
            title="Blurred tasks of equal size",
            summary="Some classes occur in one task only; the others have a home task, but part of their examples is dealt "
            "out over all tasks, so old classes come back. Every example occurs once.",
            source="Koh et al. 2022 (i-Blurry), as in Tobaben et al. 2025, section 6",
            settings=IBlurry,
            module="dpcl_core.scenarios.i_blurry",
            needs_sources=False,
        ),
        ScenarioCard(
            name="si-blurry",
            title="Blurred tasks of random size",
            summary="As blurred tasks of equal size, but how many classes and stray examples a task gets is drawn at "
            "random: tasks may be huge, tiny or empty.",
            source="Moon et al. 2023 (Si-Blurry), as in Tobaben et al. 2025, section 6",
            settings=SiBlurry,
            module="dpcl_core.scenarios.si_blurry",
            needs_sources=False,
        ),
        ScenarioCard(
            name="federated",
            title="Clients, and one task after another",
            summary="Clients hold the examples, unevenly, and all of them meet the tasks in the same order. What is "
            "protected is everything that one client holds.",
            source="Shihab et al. 2026 (CSLR), experiments",
            settings=Federated,
            module="dpcl_core.scenarios.federated",
            needs_sources=False,
            has_clients=True,
        ),
    )
}


def check(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...]) -> int:
    """The number of tasks that the settings give on a dataset with these public facts; `sources` are names.

    Raises BadInput naming the setting that does not fit the dataset.
    """
    count: CountTasks = import_module(card(settings.kind).module).n_tasks
    return count(settings, n_classes, sources)


def card(name: str) -> ScenarioCard:
    """The card of a scenario. Raises BadInput naming the known ones."""
    if name not in CARDS:
        raise unknown("scenario.kind", name, CARDS)
    return CARDS[name]
