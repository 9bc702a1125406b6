"""A learner's classifier after a task: arrays that it released, and the rule by which they classify without it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from dpcl_core.events import Classifier, Fact
from dpcl_core.methods.common.learner import Learner, PublicContext
from dpcl_core.spec import Cell

Arrays = Mapping[str, NDArray[np.generic]]
LARGEST = 64_000_000  # bytes of all classifiers of a run together
PUBLIC = "public."  # before the name of an array that no example has changed


@dataclass(frozen=True, slots=True)
class Rule:
    """How released arrays classify.

    `name`: a function in its family's `rules`. `arrays`: what it reads of `Learner.released`, and nothing else is kept.
    `columns`: the label of each row of these arrays. `competing`: labels that can be predicted after this task; `by_task`:
    those of each task so far, where the task of an example is known when it is predicted. `facts`: public numbers and names;
    `public`: public arrays, the same whatever the examples are. `uses_all`: the arrays of earlier tasks belong to it, too.
    """

    name: str
    arrays: tuple[str, ...]
    columns: Sequence[int] | NDArray[np.int64]
    competing: Sequence[int] | NDArray[np.int64]
    by_task: Sequence[Sequence[int]] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    public: Arrays = field(default_factory=dict)
    uses_all: bool = False


@runtime_checkable
class Classifying(Protocol):
    """A learner whose releases classify without it."""

    def rule(self, cell: Cell) -> Rule | None:
        """How the cell's releases so far classify; None before the first release."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a rule reads of one task: arrays by name, names of their rows, names that compete, public facts.

    `task`: the index of the examples' own task, where it is known.
    """

    arrays: Arrays
    classes: tuple[str, ...]
    competing: tuple[str, ...]
    facts: Mapping[str, Fact]
    task: int | None = None

    def real(self, name: str) -> NDArray[np.floating]:
        """An array of real numbers."""
        return cast("NDArray[np.floating]", self.arrays[name])

    def chosen(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """The competing columns [n, competing] of scores [n, classes]."""
        return scores[:, [self.classes.index(name) for name in self.competing]]


def kept(
    learner: Learner, cell: Cell, task: int, context: PublicContext, reads: Mapping[str, Fact], n_cells: int
) -> Classifier | None:
    """The cell's classifier after a task, to be kept with the run; None where there is none, or no room for it.

    Every task has room for its share of `LARGEST`, and the last one for its cell's: what fits is a public number, as sizes
    of releases are. `reads`: how examples become the learner's inputs.
    """
    rule = learner.rule(cell) if isinstance(learner, Classifying) else None
    if rule is None:
        return None
    released = learner.released(cell)
    arrays = {name: released[name] for name in rule.arrays} | {f"{PUBLIC}{name}": one for name, one in rule.public.items()}
    is_last = task == context.n_tasks - 1 and not rule.uses_all
    if sum(array.nbytes for array in arrays.values()) > LARGEST // n_cells // (1 if is_last else context.n_tasks):
        return None
    names = (*context.classes, *context.undeclared)  # an undeclared label is in a rule only once it was released
    # The format writes memory as it lies: arrays must be in C order.
    content = safetensors.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    return Classifier(
        cell,
        task,
        rule.name,
        tuple(names[label] for label in rule.columns),
        tuple(names[label] for label in rule.competing),
        tuple(tuple(names[label] for label in of_task) for of_task in rule.by_task),
        {**rule.facts, **reads},
        rule.uses_all,
        base64.b64encode(content).decode("ascii"),
    )
