"""The catalogs as JSON rows, for the command line and the pages."""

from __future__ import annotations

from typing import Literal, Protocol, cast

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.events import JsonValue
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios

Catalog = Literal["methods", "datasets", "backbones", "scenarios", "presets"]
Row = dict[str, JsonValue]
LAYERS = {"paper": "as printed or made to work, by its settings", "repair": "repaired", "added": "added, in no paper"}


def rows(catalog: Catalog) -> list[Row]:
    """One JSON row per catalog entry, from its card; `missing`: why it cannot be used on this computer, or null.

    Of a network, `trained_on` says in words on what, null where it was not trained; `saw` names the datasets among that,
    which are refused as private.
    """
    if catalog == "methods":
        return [
            {
                **_common(card),
                "guarantee": card.guarantee,
                "layer": LAYERS[card.printed.kind],
                "printed": cast(JsonValue, card.printed.document()),
                "labels": list(card.labels),
                "scenarios": list(card.scenarios),
                "params": card.params.model_json_schema()["properties"] if card.params.model_fields else {},
            }
            for card in methods.CARDS.values()
        ]
    if catalog == "datasets":
        return [
            {**_common(card), "kind": card.kind, "missing": datasets.available(card)} for card in datasets.CARDS.values()
        ]
    if catalog == "backbones":
        return [
            {
                **_common(card),
                "trained_on": card.trained_on,
                "saw": list(card.saw),
                "missing": backbones.available(card),
            }
            for card in backbones.CARDS.values()
        ]
    if catalog == "scenarios":
        return [
            {**_common(card), "settings": card.settings.model_json_schema()["properties"]}
            for card in scenarios.CARDS.values()
        ]
    return [
        {
            "name": preset.name,
            "title": preset.title,
            "summary": preset.question,
            "seconds": preset.seconds,
            "live_demo": preset.live_demo,
        }
        for preset in map(presets.about, presets.names())
    ]


class _Card(Protocol):
    """The fields that all cards have."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def source(self) -> str: ...


def _common(card: _Card) -> Row:
    return {"name": card.name, "title": card.title, "summary": card.summary, "source": card.source}
