"""Chooses the explorer that turns a learner's observations into events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from dpcl_core.events import Event
from dpcl_core.explorers.matching_log import MatchingLog
from dpcl_core.methods.common.learner import LearnerEvent, Observation, PublicContext
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.spec import Cell, RunSpec


class Observer:
    """Passes on one learner's events, with observations replaced by an explorer's events."""

    KEPT: ClassVar[tuple[str, ...]] = ("_log",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._spec, self._cells, self._context = spec, cells, context
        self._log: MatchingLog | None = None  # made for the first observation: other methods have none

    def reopen(self) -> None:
        """Makes the log."""
        self._log = MatchingLog(self._spec, self._cells, self._context)

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
