"""Clients' clean lists, observed by the simulator for visualisation: never a release; the server does not receive them."""

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
    """Noise standard deviations per coordinate for one budget: `mean` of a group under central trust, its `second` moment if
    that were released too, and each client's own list under local trust (`local`).

    `released`: "axes" for means on the public axes only; "diagonal" or "full" for whole means and such second moments."""

    mean: float
    second: float
    local: float
    released: Literal["axes", "diagonal", "full"] = "axes"


@dataclass(frozen=True, slots=True)
class ListsObserved(Observation):
    """The clients' clean lists of a task, and each budget's releases so far.

    `lists`: returns them [N, entries], the same object each time; not called for a user's own data. `round`: from 0.
    `parts`: by budget, its mixtures so far, one per task; `stds`: by budget, the noise in the last of them. `public`: the
    method's public embeddings.
    """

    lists: Callable[[], Lists]
    task: int
    round: int
    parts: Sequence[Sequence[Replay]]
    stds: Sequence[NoiseStd]
    public: PublicEmbeddings
