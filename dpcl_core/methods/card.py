"""The record a method is known by: everything the app, the command line and the docs say about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from dpcl_core.spec import Cell, LabelSetting, Params, RunSpec

if TYPE_CHECKING:
    from dpcl_core.methods.base import Learner
    from dpcl_core.privacy.audit import Audited


@dataclass(frozen=True, slots=True)
class MethodCard:
    """What a visitor reads of a method and what it can be combined with.

    `module` holds `make_learner`; `audit_module`, where the method can be attacked, holds `audit`.
    `shares` says which cells one learner takes: "all" of the run's grid, the "epsilons" of one seed, or one "cell" each.
    """

    name: str
    title: str
    summary: str
    source: str
    params: type[Params]
    module: str
    inputs: Literal["features", "images", "text"]
    shares: Literal["all", "epsilons", "cell"]
    labels: tuple[LabelSetting, ...]
    scenarios: tuple[str, ...]
    audit_module: str | None = None


class MakeLearner(Protocol):
    """How the engine makes a learner for a group of cells.

    `n_inputs` is the feature size, `n_classes` the size of the dataset's class list, `public` the class indices that are
    assumed public: all facts known before any private example is read.
    """

    def __call__(
        self, spec: RunSpec, cells: Sequence[Cell], n_inputs: int, n_classes: int, public: Sequence[int]
    ) -> Learner: ...


class Audit(Protocol):
    """How a method is attacked: one result for each budget of the spec; `trials` releases on each side."""

    def __call__(self, spec: RunSpec, trials: int) -> Sequence[Audited]: ...
