"""Runs that cannot be audited in one training, with the reasons. The audits are in `one_run`, which this does not load."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.cards.federated_params import ReleaseParams
from dpcl_core.spec import RunSpec

_WITHOUT_NOISE = "adds no noise and claims no epsilon that guesses could disprove"
REFUSED: Mapping[str, str] = {
    "agem": _WITHOUT_NOISE,
    "joint-network": _WITHOUT_NOISE,
    "fedta-lite": _WITHOUT_NOISE,
    "l2dp-ml": "all its records share one draw of noise: whoever knows one record can take it off the others",
    "cslr-published": "the server clusters what all clients send, so no part of the release comes from one client alone",
    "fedcil-dp": "the clients' synthetic data move all weights, so no weight depends on one planted client alone",
    "pecl-published": "its epsilon is claimed for single tokens, and such an audit plants whole texts",
}


def adds_no_noise(spec: RunSpec) -> bool:
    """Whether a run claims nothing: its method has no noise, or is asked for none."""
    return REFUSED.get(spec.method) == _WITHOUT_NOISE or all(map(math.isinf, spec.privacy.epsilons))


def refusal(spec: RunSpec) -> str | None:
    """Why these settings cannot be audited in one training, as the end of a sentence about the method; None if they can."""
    methods.card(spec.method)  # raises BadInput for an unknown method
    params, why = spec.params, REFUSED.get(spec.method)
    if isinstance(params, ReleaseParams) and params.slots == "even" and spec.method != "local-list":
        why = "with params.slots = even all clients share the same places in the sum"
    if why is not None and adds_no_noise(spec):
        why = _WITHOUT_NOISE  # which none of the other reasons would fit
    return None if why is None else f"cannot be audited in one training: {why}"
