"""What a server asks its clients for, one vector each, where they are processes of their own as much as simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.scenarios.stream import Task


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A vector of `width` numbers, wanted from each client in this round of a task, both counted from 0.

    `state`: what clients need beside public facts, itself released: the head's weights [P], or the means [S, M, d] of the
    groups that lists are matched to; empty where they need nothing.
    """

    task: int
    round: int
    width: int
    state: NDArray[np.floating]


# The answers [n, width] of the clients with these numbers, in this order; a row of zeros for one that gives none. Private.
Collect = Callable[[Question, NDArray[np.int64]], NDArray[np.floating]]


@runtime_checkable
class OfClients(Protocol):
    """A learner whose clients' part can be computed apart from the server's, where the rows are."""

    def answers(self, task: Task, question: Question, clients: NDArray[np.int64]) -> NDArray[np.floating]:
        """These clients' vectors [n, width], each from its own rows in the task, public facts and the question.

        Private: for a mechanism alone. Raises BadInput for a question that this method does not ask.
        """
        ...
