"""Clients' lists as the simulator sees them: plain data that a learner says, never a release, and nothing a server gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpcl_core.methods.common.learner import Observation
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.public_context import PublicEmbeddings
from dpcl_core.methods.federated.replay import Replay


@dataclass(frozen=True, slots=True)
class NoiseStd:
    """Standard deviation of one budget's noise on a coordinate: of a group's `mean`, of a `second` moment were it released
    too, and of each client's own list were nobody trusted (`local`).

    `released`: means on the public axes alone, or whole ones and second moments, "diagonal" or "full"."""

    mean: float
    second: float
    local: float
    released: Literal["axes", "diagonal", "full"] = "axes"


@dataclass(frozen=True, slots=True)
class ListsObserved(Observation):
    """The clients' lists of a task without noise, and what each budget has released by then.

    `lists`: gives them [N, entries], the same object each time; not called for a person's own data. `round`: from 0.
    `parts`: by budget, its mixtures so far, one a task; `stds`: by budget, the noise in the last of them. `public`: what the
    method knows before it reads a private text.
    """

    lists: Callable[[], Lists]
    task: int
    round: int
    parts: Sequence[Sequence[Replay]]
    stds: Sequence[NoiseStd]
    public: PublicEmbeddings
