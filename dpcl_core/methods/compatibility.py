"""Kinds of data that a method and a scenario accept. Checked first: no other setting repairs a dataset of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import Kind
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

_NAMES: Mapping[Kind, str] = {
    "image": "pictures",
    "sensor": "windows of a sensor",
    "text": "texts",
    "tagged": "tagged sentences",
    "table": "rows of a table",
    "embedding": "embeddings",
}
_VALUES: tuple[Kind, ...] = ("image", "sensor", "table", "embedding")


def check(spec: RunSpec) -> None:
    """Raises BadInput for a dataset of a kind that the method or the scenario does not accept."""
    dataset = datasets.card(spec.data.dataset)
    for kinds, reason in _requirements(spec):
        if dataset.kind not in kinds:
            named = _either([_NAMES[kind] for kind in kinds])
            first = {card.kind: card.name for card in reversed(list(datasets.CARDS.values()))}  # not of every kind
            examples = _either([first[kind] for kind in kinds if kind in first])
            allowed = f"must be a dataset of {named}, such as {examples}; {reason}"
            raise BadInput("data.dataset", dataset.name, allowed, _fix(spec))


def _fix(spec: RunSpec) -> dict[str, object]:
    """The first dataset of this computer that method and stream both accept; a stream of the method's where none can be."""
    wanted = [kinds for kinds, _ in _requirements(spec)]
    fitting = [kind for kind in get_args(Kind) if all(kind in kinds for kinds in wanted)]
    if not fitting:
        return {"scenario": {"kind": methods.card(spec.method).scenarios[0]}}
    here = (card.name for card in datasets.CARDS.values() if card.kind in fitting and datasets.available(card) is None)
    return {"data.dataset": name} if (name := next(here, None)) else {}


def _requirements(spec: RunSpec) -> Iterator[tuple[tuple[Kind, ...], str]]:
    """Accepted kinds of data, each set with the reason."""
    method, scenario = methods.card(spec.method), scenarios.card(spec.scenario.kind)
    if spec.params.inputs == "text":
        yield ("text",), f"{method.title} trains a language model"
    if spec.params.inputs == "images":
        yield ("image",), f"{method.title} adapts a network of pictures with these settings"
    if method.needs_anchors:
        yield ("text", "tagged"), f"{method.title} builds on public sentences"
    if method.needs_values:
        yield _VALUES, f"{method.title} trains a network on the examples' own values"
    if scenario.needs_values:
        yield _VALUES, f"scenario.kind = {scenario.name} rearranges the examples' own values"
    if not any(scenarios.card(name).has_clients for name in method.scenarios):
        single = tuple(kind for kind in get_args(Kind) if kind != "tagged")
        yield single, f"words of one sentence stay together with a client, and {method.title} has no clients"


def _either(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
