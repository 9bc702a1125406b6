"""Audit of a trained language model: lower bound on epsilon from canaries (planted codes) among its training texts.

Unlike the attacks on a mechanism it carries out the whole run, so it takes as long as the run; its attacker sees only the
trained model.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcl_core import engine
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Leaks
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.spec import Cell, RunSpec

NAME = "planted-codes"
_ATTACK = "each planted code ranked among all codes by the trained model's likelihood"
_ADVERSARY = (
    "sees the trained model alone, and knows the text before each code; a bound on one text comes from codes in few texts, "
    "and few codes give a weak one: 0 is no sign that nothing leaks"
)


def is_offered(spec: RunSpec) -> bool:
    """Whether the method trains a language model, so that codes can be planted among its texts."""
    return spec.params.inputs == "text"


def audited(spec: RunSpec, device: str = "cpu") -> list[Audited]:
    """Trains once per budget and seed of the spec; the lower bounds from the planted codes, in the order of the cells.

    Raises BadInput for a method that reads no texts and for data without planted codes, and the errors of `engine.run`.
    """
    if not is_offered(spec):
        raise BadInput("--attack", NAME, f"must be left out: {spec.method} trains no language model")
    return list(results(spec, engine.run(spec, device=device)))


def results(spec: RunSpec, events: Iterator[Event]) -> Iterator[Audited]:
    """The lower bounds from a run's events, one per cell. Raises BadInput where no codes were planted."""
    last: dict[Cell, Leaks] = {}
    for event in events:
        if isinstance(event, Leaks):
            last[event.cell] = event
        elif isinstance(event, CellFinished):
            if event.cell not in last:
                allowed = "must be left out for texts among which no codes are planted: try data.dataset = pii-synthetic"
                raise BadInput("--attack", NAME, f"{allowed} ({datasets.card(spec.data.dataset).title} has none)")
            yield _audited(spec, last[event.cell], event)


def _audited(spec: RunSpec, leaks: Leaks, finished: CellFinished) -> Audited:
    n_planted = sum(count for level, count in zip(leaks.levels, leaks.codes, strict=True) if level > 0)
    return Audited(
        claimed=finished.cell.epsilon,
        accounted=finished.guarantee.epsilon,
        lower_bound=leaks.epsilon_at_least,
        delta=spec.privacy.delta,
        confidence=leaks.confidence,
        trials=n_planted,
        attack=_ATTACK,
        adversary=_ADVERSARY,
        unit="planted codes",
    )
