"""The methods by name. A card imports no torch; the learner's module is loaded by the worker alone.

Methods outside the package: modules named in `DPCL_METHODS`, separated by commas, each with a `CARD`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, cast

from dpcl_core.errors import BadInput, unknown
from dpcl_core.methods.common.card import MakeLearner, MethodCard
from dpcl_core.methods.features.cards import cosine, naive, non_cl, peft_ensemble
from dpcl_core.methods.federated.cards import (
    cslr_central,
    cslr_published,
    cslr_server_head,
    dp_fedavg,
    dp_stat_share,
    fedcil_dp,
    fedta_lite,
    label_means,
    local_list,
)
from dpcl_core.methods.language.cards import baselines, pecl, pecl_published
from dpcl_core.methods.lifelong.cards import agem, dp_agem, dp_coeff_memory, independent_laplace, joint_network, l2dp_ml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcl_core.layers import Layer
    from dpcl_core.privacy.statement import Standing
    from dpcl_core.spec import RunSpec

_ELSEWHERE = "DPCL_METHODS"
_FEATURES = (cosine.CARD, peft_ensemble.CARD, naive.CARD, non_cl.CARD)
_LIFELONG = (
    agem.CARD,
    l2dp_ml.CARD,
    dp_agem.CARD,
    dp_coeff_memory.CARD,
    independent_laplace.CARD,
    joint_network.CARD,
)
_BASELINES = (baselines.SEQFT, baselines.ER, baselines.EWC, baselines.GEM, baselines.OLORA, baselines.MTL)
_LANGUAGE = (*_BASELINES, pecl_published.CARD, pecl.CARD)
_CSLR = (cslr_server_head.CARD, cslr_central.CARD, cslr_published.CARD, local_list.CARD)
_FEDERATED = (*_CSLR, label_means.CARD, dp_stat_share.CARD, dp_fedavg.CARD, fedcil_dp.CARD, fedta_lite.CARD)
_BUILT_IN: Mapping[str, MethodCard] = {card.name: card for card in (*_FEATURES, *_LIFELONG, *_LANGUAGE, *_FEDERATED)}


def _added() -> dict[str, MethodCard]:
    """Cards of the modules named in `DPCL_METHODS`. Raises BadInput for a module without a card, and for a name in use."""
    cards: dict[str, MethodCard] = {}
    for module in filter(None, map(str.strip, os.environ.get(_ELSEWHERE, "").split(","))):
        must = "must be a module on PYTHONPATH with a MethodCard called CARD"
        try:
            card = import_module(module).CARD
        except Exception as error:  # whatever somebody else's module raises
            raise BadInput(_ELSEWHERE, module, f"{must} ({type(error).__name__}: {error})") from error
        if not isinstance(card, MethodCard):
            raise BadInput(_ELSEWHERE, module, f"{must}; its CARD is a {type(card).__name__}")
        if card.name in {**_BUILT_IN, **cards}:
            raise BadInput(_ELSEWHERE, module, f"its card must have a new name: there is already a method {card.name}")
        cards[card.name] = card
    return cards


CARDS: Mapping[str, MethodCard] = {**_BUILT_IN, **_added()}


def card(name: str) -> MethodCard:
    """The card of a method. Raises BadInput naming the known ones."""
    if name not in CARDS:
        raise unknown("method", name, CARDS)
    return CARDS[name]


def is_nominal(name: str) -> bool:
    """Whether a method's epsilon is only claimed by its publication; False for a method that no longer exists."""
    return name in CARDS and CARDS[name].guarantee == "nominal"


def standing(spec: RunSpec) -> Standing:
    """Whether a run's budgets bound all that is released, the replay alone or nothing, or are a publication's claim."""
    if is_nominal(spec.method):
        return "claimed"
    if spec.method in CARDS and CARDS[spec.method].is_for_the_replay(spec.params):
        return "replay"
    return "none" if spec.reads_labels else "bound"


def layer(spec: RunSpec) -> Layer | None:
    """How a run relates to its method's publication; None for a method that no longer exists."""
    return CARDS[spec.method].printed.layer(spec) if spec.method in CARDS else None


def maker(name: str) -> MakeLearner:
    """The function that makes a method's learner; imports its module, torch included where it needs it."""
    return cast(MakeLearner, import_module(card(name).module).make_learner)
