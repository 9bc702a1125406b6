"""The privacy statement of a run as plain text, for terminals and files, in the same words as in the app."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from dpcl_core.events import Guarantee
from dpcl_core.privacy.statement import Words, is_nominal, shown, standing, words


def text(guarantees: Mapping[float, Guarantee]) -> str:
    """The statement of a run by requested epsilon: each budget, then what holds for all of them."""
    statements = {requested: words(guarantee) for requested, guarantee in guarantees.items()}
    lists = {requested: _lists(guarantee, statements[requested]) for requested, guarantee in guarantees.items()}
    common = [line for line in next(iter(lists.values()), []) if all(line in other for other in lists.values())]
    lines: list[str] = []
    for requested, guarantee in guarantees.items():
        specific = [line for line in lists[requested] if line not in common]
        lines += [
            _budget_sentence(requested, guarantee),
            *(f"  {line}" for line in _sentences(statements[requested])),
            *(f"  {line}" for line in specific),
        ]
    return "\n".join([*lines, *common]) + "\n"


def _budget_sentence(requested: float, guarantee: Guarantee) -> str:
    budget = f"Asked for epsilon {shown(requested)}"
    if is_nominal(guarantee):
        return f"{budget}, which is claimed and not verified; accounted: no bound."
    if standing(guarantee) == "replay":
        return f"{budget} for the replay alone; the head is not private, and the whole has no bound."
    return f"{budget}: accounted epsilon {shown(guarantee.epsilon)}, delta {guarantee.delta:g}."


def _sentences(statement: Words) -> list[str]:
    """The first lines of a budget; where epsilon is only claimed, with the audit's result."""
    return [line for line in (statement.banner, statement.headline, statement.audited, statement.odds) if line]


def _lists(given: Guarantee, statement: Words) -> list[str]:
    return [
        *(f"Covered: {text}" for text in statement.covered),
        *(f"Not covered: {text}" for text in statement.not_covered),
        *(f"Assumed: {text}" for text in statement.assumptions),
        *(f"Note: {text}" for text in statement.caveats),
        *([f"Layer: {statement.layer}"] if statement.layer is not None else []),
        f"Composition: {given.composition}",
        f"By part: {_parts(given.parts)}",
        *([f"Claimed by part: {_parts(given.claim.terms)}"] if given.claim is not None else []),
    ]


def _parts(parts: Mapping[str, float]) -> str:
    """Parts with their epsilons, consecutive tasks of equal epsilon merged: "task 1 to task 5: epsilon 1"."""
    spans = []
    for _, group in groupby(parts, key=lambda name: shown(parts[name]) if name.startswith("task ") else name):
        first, *others = group
        span = f"{first} to {others[-1]}" if others else first
        spans.append(f"{span}: epsilon {shown(parts[first])}")
    return "; ".join(spans)
