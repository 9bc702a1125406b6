"""The record a method is known by: everything the app, the command line and the docs say about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from dpcl_core.spec import Cell, LabelSetting, Params, RunSpec

if TYPE_CHECKING:
    from dpcl_core.methods.base import Known, Learner
    from dpcl_core.privacy.audit import Audited


@dataclass(frozen=True, slots=True)
class MethodCard:
    """What a visitor reads of a method and what it can be combined with.

    `module` holds `make_learner`; `audit_module`, where the method can be attacked, holds `audit`.
    `shares` says which cells one learner takes: "all" of the run's grid, the "epsilons" of one seed, or one "cell" each.
    `trains_on`: one "task" at a time, or "all" examples of all tasks together, which it keeps.
    `refuses` raises BadInput where settings cannot work on a backbone, a number of training examples and of tasks.
    `derived` says what follows from settings, that number of examples and of tasks, in a sentence for the form.
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
    audit_module: str | None = None
    trains_on: Literal["task", "all"] = "task"
    refuses: Callable[[Params, str, int, int], None] = lambda params, backbone, n_people, n_tasks: None
    derived: Callable[[Params, int, int], str] = lambda params, n_people, n_tasks: ""


class MakeLearner(Protocol):
    """How the engine makes a learner for a group of cells, from settings and public facts alone. Raises BadInput."""

    def __call__(self, spec: RunSpec, cells: Sequence[Cell], known: Known) -> Learner: ...


class Audit(Protocol):
    """How a method is attacked: one result for each budget of the spec; `trials` releases on each side."""

    def __call__(self, spec: RunSpec, trials: int) -> Sequence[Audited]: ...
