"""Chooses the explorer that turns a learner's observations into events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpcl_core.events import Event
from dpcl_core.explorers.matching_log import MatchingLog
from dpcl_core.methods.common.learner import LearnerEvent, Observation, PublicContext
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.spec import Cell, RunSpec


class Observer:
    """Passes on one learner's events, with observations replaced by an explorer's events."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._spec, self._cells, self._context = spec, cells, context
        self._log: MatchingLog | None = None

    def events(self, learner_events: Iterable[LearnerEvent]) -> Iterator[Event]:
        """The events of a task. Raises TypeError for an observation that no explorer handles."""
        for event in learner_events:
            if isinstance(event, ListsObserved):
                self._log = self._log or MatchingLog(self._spec, self._cells, self._context)
                yield from self._log.events(event)
            elif isinstance(event, Observation):
                raise TypeError(f"no explorer handles {type(event).__name__}")
            else:
                yield event
