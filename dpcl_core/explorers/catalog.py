"""Chooses the explorer that turns a learner's observations into events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from dpcl_core.events import Event
from dpcl_core.explorers.matching_log import MatchingLog
from dpcl_core.methods.common.learner import LearnerEvent, Observation, PublicContext
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.spec import Cell, RunSpec


class Log(Protocol):
    """Turns one learner's observations into events, in order."""

    def events(self, observed: Observation) -> Iterator[Event]: ...


class Observer:
    """Passes on one learner's events, with observations replaced by an explorer's events."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        self._spec, self._cells, self._known = spec, cells, known
        self._log: Log | None = None

    def events(self, learner_events: Iterable[LearnerEvent]) -> Iterator[Event]:
        """The events of a task. Raises TypeError for an observation that no explorer handles."""
        for event in learner_events:
            if isinstance(event, Observation):
                self._log = self._log or self._log_of(event)
                yield from self._log.events(event)
            else:
                yield event

    def _log_of(self, observed: Observation) -> Log:
        if isinstance(observed, ListsObserved):
            return MatchingLog(self._spec, self._cells, self._known)
        raise TypeError(f"no explorer handles {type(observed).__name__}")
