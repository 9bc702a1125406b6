"""Check for tasks without a public label, for methods that require at least one in every task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpcl_core.errors import BadInput
from dpcl_core.spec import RunSpec


def check(spec: RunSpec, tasks: Iterable[tuple[str, Sequence[int]]], public: Sequence[int]) -> None:
    """Raises BadInput if a task has labels of its own and none of them is public.

    `tasks`: each task's name and its own labels.
    """
    for name, home in tasks:
        if home and not set(home) & set(public):
            raise refusal(spec, name)


def refusal(spec: RunSpec, task: str) -> BadInput:
    """The error for a task without a public label."""
    labels = ", ".join(spec.public_labels or ())
    return BadInput("public_labels", labels, f"must name a label of every task: {task} would have none")
