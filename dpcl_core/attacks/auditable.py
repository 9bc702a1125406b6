"""Which runs cannot be audited in one training, and why. What the others play is in `one_run`; this loads none of it."""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.cards.cslr import ReleaseParams
from dpcl_core.methods.cards.peft import PeftParams
from dpcl_core.spec import RunSpec

_OF_TEXTS = "every text moves the same few weights of a language model, so that planted texts hide behind one another"
_WITHOUT_NOISE = "adds no noise and promises no epsilon that guesses could be held against"
_NOT_PLAYED = "this program knows no game in which its planted records could be told apart in one training"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("l2dp-ml",), _NOT_PLAYED),
    **dict.fromkeys(("fedcil-dp", "cslr-published"), _NOT_PLAYED),
    **dict.fromkeys(("pecl", "pecl-published"), _OF_TEXTS),
    **dict.fromkeys(("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl"), _OF_TEXTS),
    "agem": _WITHOUT_NOISE,
    "fedta-lite": _WITHOUT_NOISE,
}


def refusal(spec: RunSpec) -> str | None:
    """Why a run with these settings cannot be audited in one training, in words that go on from the method; None: it can."""
    methods.card(spec.method)
    why = _of_settings(spec) or REFUSED.get(spec.method)
    return None if why is None else f"cannot be audited in one training: {why}"


def _of_settings(spec: RunSpec) -> str | None:
    params = spec.params
    if isinstance(params, PeftParams) and params.adapter != "head":
        return f"with params.adapter = {params.adapter} no weight is moved by one planted example alone"
    if isinstance(params, ReleaseParams) and params.slots == "even" and spec.method != "local-list":
        return "with params.slots = even all clients share the same places in the sum"
    return None
