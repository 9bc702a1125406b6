"""The methods by name. A card imports no torch; the learner's module is loaded by the worker alone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from dpcl_core.errors import BadInput
from dpcl_core.methods.card import MakeLearner, MethodCard
from dpcl_core.methods.cards import cosine

if TYPE_CHECKING:
    from collections.abc import Mapping

CARDS: Mapping[str, MethodCard] = {card.name: card for card in (cosine.CARD,)}


def card(name: str) -> MethodCard:
    """The card of a method. Raises BadInput naming the known ones."""
    if name not in CARDS:
        raise BadInput("method", name, f"must be one of {', '.join(CARDS)}")
    return CARDS[name]


def maker(name: str) -> MakeLearner:
    """The function that makes a method's learner; imports its module, torch included where it needs it."""
    return cast(MakeLearner, import_module(card(name).module).make_learner)
