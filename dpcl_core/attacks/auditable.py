"""Which runs cannot be audited in one training, and why. What the others play is in `one_run`; this loads none of it."""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.cards.federated_params import ReleaseParams
from dpcl_core.spec import RunSpec

_WITHOUT_NOISE = "adds no noise and promises no epsilon that guesses could be held against"
REFUSED: Mapping[str, str] = {
    "agem": _WITHOUT_NOISE,
    "fedta-lite": _WITHOUT_NOISE,
    "l2dp-ml": "all its records share one draw of noise, which subtracting two of them removes: no coins are needed",
    "cslr-published": "the server clusters what all clients send, so that no client has places of its own in what comes out",
    "fedcil-dp": "what clients invent moves all weights of all of them, so that none tell of one planted client alone",
    "pecl-published": "its epsilon is claimed for single tokens, and the coins of one training decide about whole texts",
}


def refusal(spec: RunSpec) -> str | None:
    """Why a run with these settings cannot be audited in one training, in words that go on from the method; None: it can."""
    methods.card(spec.method)
    why = _of_settings(spec) or REFUSED.get(spec.method)
    return None if why is None else f"cannot be audited in one training: {why}"


def _of_settings(spec: RunSpec) -> str | None:
    params = spec.params
    if isinstance(params, ReleaseParams) and params.slots == "even" and spec.method != "local-list":
        return "with params.slots = even all clients share the same places in the sum"
    return None
