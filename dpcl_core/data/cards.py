"""The datasets by name: the contents of `assets/cards/datasets.toml`, and derived fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from dpcl_core.data import card
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.data.tagged import tags_of
from dpcl_core.errors import BadInput

_FILE = "datasets.toml"
# What a set of each kind leaves unprotected, a person's own ones as well.
_TEXT = (
    "a person, only a single text: one may have written several, or be named in several, in one task or in many",
    "how long a text is, where a method works on noisy copies of its tokens",
)
_ROW = ("a person, only a single row: one may have several, in one task or in many",)
LIMITS: Mapping[Kind, tuple[str, ...]] = {
    "image": (),
    "sensor": (
        "a person, only a single window: one contributes many windows, windows of one recording may overlap, and one signal "
        "may occur at several rates",
    ),
    "text": _TEXT,
    "tagged": _TEXT,
    "table": _ROW,
    "embedding": (*_ROW, "the public network that made the embeddings, if it was trained on these people"),
}


class _Table(BaseModel):
    """The keys of a table from which fields are derived; all other keys are fields of the card.

    `tags`: types of names, which become BIO tags. `domains`: sources that can all hold every class. `sources`: the classes
    of each. `titled_classes`: the labels of a set with `members` carry their titles.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    source: str
    kind: Kind = "image"
    classes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    sources: dict[str, tuple[str, ...]] = {}
    limits: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    titled_classes: bool = False


_TABLE, _CARD = TypeAdapter(_Table), TypeAdapter(DatasetCard)


def _card(name: str, written: card.Table, above: Mapping[str, DatasetCard]) -> DatasetCard:
    """The card of a table; `above`: earlier cards, which it may combine."""
    table = card.checked(_TABLE, _FILE, name, written)
    classes = table.classes or (tags_of(table.tags) if table.tags else ())
    sources = dict.fromkeys(table.domains, classes) or table.sources
    fields: dict[str, Any] = {
        **(table.model_extra or {}),
        "name": name,
        "source": table.source,
        "kind": table.kind,
        "classes": classes or tuple(label for labels in sources.values() for label in labels),
        "sources": tuple(sources.items()),
        "limits": (*LIMITS[table.kind], *table.limits),
    }
    if table.members:
        if unknown := set(table.members) - set(above):
            raise BadInput(f"{_FILE}: {name}.members", ", ".join(sorted(unknown)), "must be names of tables above this one")
        fields |= _of_members(table, [above[member] for member in table.members])
    elif fields["classes"]:
        fields["n_classes"] = len(fields["classes"])
    return card.checked(_CARD, _FILE, name, fields)


def _of_members(table: _Table, members: list[DatasetCard]) -> dict[str, object]:
    """The fields that a combined set derives from its members."""
    titled = [(f"{card.title}: " if table.titled_classes else "", card.classes) for card in members]
    return {
        "members": table.members,
        "source": "; ".join([table.source, *(card.title for card in members)]),
        "n_classes": sum(card.n_classes for card in members),
        "n_train": sum(card.n_train for card in members),
        "n_test": sum(card.n_test for card in members),
        "classes": tuple(title + label for title, labels in titled for label in labels),
        "may_show": all(card.may_show for card in members),
    }


def read() -> dict[str, DatasetCard]:
    """The cards of the file, in its order. Raises BadInput naming file, table, key and what is allowed."""
    cards: dict[str, DatasetCard] = {}
    for name, table in card.tables(_FILE).items():
        cards[name] = _card(name, table, cards)
    return cards


CARDS: Mapping[str, DatasetCard] = read()
