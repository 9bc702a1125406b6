"""Card of CSLR as its paper prints it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.federated.cards import federated_params, printed
from dpcl_core.privacy.cslr_accounting import TABLE_5
from dpcl_core.spec import Params, RunSpec

_MATCHERS: Mapping[federated_params.Matcher, str] = {
    "signature": "CSLR",
    "random": "CSLR-NoAnchor (Random)",
    "pca-mean": "Added: matched by public axes",
    "target": "Added: matched by targets",
}
_RULES: Mapping[federated_params.Rule, str] = {
    "nearest": "CSLR-NearestMean",
    "hungarian": "CSLR-Hungarian",
    "ot": "CSLR-OptimalTransport",
}


class CslrPublishedParams(federated_params.ListParams, federated_params.RehearsalParams, federated_params.RoundParams):
    """Lists pooled and clustered by the server every round; the noise of Table 5; a head without noise."""

    clusters_together: ClassVar[bool] = True
    modes_per_task: int = Field(
        4,
        ge=1,
        le=64,
        title="Groups of a task",
        description="Groups that a round's lists are clustered into, of every label or of the whole task, as lists are; the "
        "paper's 1 leaves nothing to match.",
    )
    lists: Literal["label", "task"] = Field(
        "label",
        title="Lists made for each",
        description="What a client's list is of. label: one for each label of a task, so that an entry has one label. task: "
        "one of all that the client has of a task, as printed; an entry's target is then a mixture of labels.",
    )
    rule: federated_params.Rule = Field(
        "hungarian",
        title="Decision rule",
        description="nearest: each to its nearest group. hungarian: one to one, at least cost. ot: optimal transport.",
    )
    second_moments: Literal["diagonal", "full"] = Field(
        "diagonal",
        title="Covariances",
        description="What is released of second moments; full is as printed, and costs seconds a round."
    )
    dimensions: Annotated[int, Field(ge=2, le=1024)] | None = Field(
        None,
        title="Public axes",
        description="Public axes on which all of it happens; empty: the embedding as it is, as printed."
    )
    noisy_lists: bool = Field(
        False,
        title="Noise on lists",
        description="Whether clients noise the four statistics of every entry before lists are matched, by Table 5 and "
        "again in every round, as printed (Algorithm 1, line 2).",
    )
    aggregation: Literal["shares", "entries"] = Field(
        "shares",
        title="Unit of averaging",
        description="How groups are averaged. shares: entries count by their share of a client's texts, over the expected "
        "number of clients. entries: each counts the same, over the clients that came, as printed (Eq. 2).",
    )
    averaging: float = Field(
        0.9,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        title="Weight of the last classifier",
        description="What the replayed mixture keeps of a task's earlier rounds; 0: a round's own release alone (Eq. 2).",
    )
    targets: Literal["simplex", "raw"] = Field(
        "simplex",
        title="Anchor targets",
        description="Noisy targets of the mixture. simplex: brought back to shares that add up to 1. raw: as released, as "
        "printed.",
    )


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a budget without printed noise, inconsistent lists, and unit length on projected axes."""
    federated_params.check(spec, facts)
    params = spec.params
    assert isinstance(params, CslrPublishedParams)
    if params.dimensions is not None:
        federated_params.check_axes(spec, params.dimensions)
    if params.unit_length and params.dimensions is not None:
        allowed = "must be false with params.dimensions: rows on axes are no units"
        raise BadInput("params.unit_length", "true", allowed, {"params.unit_length": False})
    for epsilon in spec.privacy.epsilons:
        if math.isfinite(epsilon) and epsilon not in TABLE_5:
            allowed = "must be 1, 4, 8 or inf: no noise is printed for any other"
            printed = sorted({_nearest_printed(other) for other in spec.privacy.epsilons})
            raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", allowed, {"privacy.epsilons": tuple(printed)})


def _nearest_printed(epsilon: float) -> float:
    """The budget with printed noise whose ratio to this one is nearest to 1; infinity stays."""
    return epsilon if math.isinf(epsilon) else min(TABLE_5, key=lambda printed: abs(math.log(printed / epsilon)))


def notes(params: Params) -> tuple[str, ...]:
    """Caveats shown first in the privacy statement."""
    assert isinstance(params, CslrPublishedParams)
    head = "The head's updates travel without noise, and no number here covers them."
    if params.noisy_lists:
        lists = (
            "Lists are noised before they leave a client, and all that follows is made of them: the replay's bound counts "
            "each of a client's lists in full, for the server sees whose they are."
        )
        return head, lists
    if params.aggregation == "entries":
        return head, "Sums are divided by how many clients came, a private number: no bound follows even for the replay."
    if params.modes_per_task == 1:
        return (head,)
    clustered = (
        "Lists are clustered together, so that one client can move what others are counted as: no bound follows even for "
        "the replay, and the accounted number grants the printed sensitivity."
    )
    return head, clustered


def table_names(spec: RunSpec) -> tuple[str, str]:
    """Named after the matcher; a variant for each setting that differs from the main tables."""
    params = spec.params
    assert isinstance(params, CslrPublishedParams)
    if params.list_size == 1:
        return "DP-Stat-Share", ""
    if params.matcher == "mean":
        return _RULES[params.rule], ""
    variant = [f"L = {params.list_size}"] if params.list_size != 4 else []
    if params.matcher == "signature":
        variant += [f"m = {params.anchors}"] if params.anchors != 100 else []
        is_usual = (params.signature_covariance, params.signature_norm) == ("shared-spherical", "centred")
        if not is_usual and printed.PUBLISHED.layer(spec).name != "as printed":
            variant.append(f"{params.signature_norm} log-densities, covariance: {params.signature_covariance}")
    return _MATCHERS[params.matcher], ", ".join(variant)


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices for what the paper leaves open."""
    params = spec.params
    assert isinstance(params, CslrPublishedParams)
    sentences = [
        *federated_params.differences(spec),
        "Not given either: the fit of lists, full or diagonal second moments, how statistics of several entries are "
        f"added up, the weight of replay. Ours: {params.restarts} starts of a fit; {params.second_moments}; by shares; "
        f"{params.replay_weight:g}.",
    ]
    if params.modes_per_task > 1:
        sentences.append(f"{params.modes_per_task} groups of a label, since one a task leaves nothing to match.")
        if params.matcher == "signature":
            sentences.append(
                "Nor what is done to log-densities, and by which rule entries are clustered. Ours: "
                f"{params.signature_norm}, covariance {params.signature_covariance}; {params.rule}."
            )
    return tuple(sentences)


CARD = federated_params.card(
    name="cslr-published",
    title="CSLR as published",
    summary="In every round some clients send lists of Gaussians. The server clusters them by their log-densities at public "
    "sentences and averages each group with the paper's noise; clients rehearse texts generated from the averages. The "
    "claimed epsilon leaves out the head, and its noise costs more than it claims.",
    source=federated_params.SOURCE,
    params=CslrPublishedParams,
    matters=("anchors", "list_size", "matcher"),
    module="dpcl_core.methods.federated.cslr_published",
    refuses=check,
    guarantee="nominal",
    notes=notes,
    assumes=lambda params: federated_params.SIMULATED[:1],
    needs_anchors=True,
    printed=printed.PUBLISHED,
    table_names=table_names,
    reference="CSLR",
    differences=differences,
)
