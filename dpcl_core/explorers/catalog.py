"""Which explorer makes events of what a learner lets the simulator see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from dpcl_core.events import Event
from dpcl_core.explorers.matching_log import MatchingLog
from dpcl_core.methods.common.learner import LearnerEvent, Observation, PublicContext
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.spec import Cell, RunSpec


class Log(Protocol):
    """Makes events of one learner's observations, in their order."""

    def events(self, observed: Observation) -> Iterator[Event]: ...


class Observer:
    """Passes on what one learner says; of observations it makes events."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        self._spec, self._cells, self._known = spec, cells, known
        self._log: Log | None = None

    def events(self, said: Iterable[LearnerEvent]) -> Iterator[Event]:
        """The events of a task. Raises TypeError for an observation that nothing draws."""
        for one in said:
            if isinstance(one, Observation):
                self._log = self._log or self._log_of(one)
                yield from self._log.events(one)
            else:
                yield one

    def _log_of(self, observed: Observation) -> Log:
        if isinstance(observed, ListsObserved):
            return MatchingLog(self._spec, self._cells, self._known)
        raise TypeError(f"no explorer draws {type(observed).__name__}")
