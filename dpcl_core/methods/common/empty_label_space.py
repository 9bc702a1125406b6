"""Tasks that have none of the labels assumed public, for methods that cannot do without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpcl_core.errors import BadInput
from dpcl_core.spec import RunSpec


def check(spec: RunSpec, tasks: Iterable[tuple[str, Sequence[int]]], public: Sequence[int]) -> None:
    """Raises BadInput where a task has labels of its own and none of them is public.

    `tasks`: names, and the labels at home there.
    """
    for name, home in tasks:
        if home and not set(home) & set(public):
            raise refusal(spec, name)


def refusal(spec: RunSpec, task: str) -> BadInput:
    """What is said of a task without a public label."""
    named = ", ".join(spec.public_labels or ())
    return BadInput("public_labels", named, f"must name a label of every task: {task} would have none")
