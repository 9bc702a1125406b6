"""Card of CSLR under central trust, with a head that clients train in rounds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpcl_core.methods.federated.cards import federated_params, printed
from dpcl_core.spec import Params, RunSpec


class CslrCentralParams(
    federated_params.ListParams,
    federated_params.ReleaseParams,
    federated_params.RehearsalParams,
    federated_params.ClippedParams,
):
    """One release per task or round, and a head averaged over clients."""

    head: Literal["private", "clean"] = Field(
        "private",
        title="Output layer",
        description="private: the head's updates are clipped and noised, and epsilon is for both. clean: they travel as "
        "they are, as published; epsilon is for the replay alone, and both together have no bound.",
    )
    replay_share: float = Field(
        0.5,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        title="Share of ε for replay",
        description="Share of epsilon that the replay may spend, where the head is private; the head has what is then left.",
    )
    releases: Literal["task", "round"] = Field(
        "task",
        title="Published after each",
        description="task: one release a task, of every client. round: one a round, of the clients who also send updates.",
    )


def notes(params: Params) -> tuple[str, ...]:
    """Caveats on the bound."""
    assert isinstance(params, CslrCentralParams)
    if params.head == "private":
        return ()
    return ("The head's updates travel without noise: the budget covers the replay alone, and the model has no bound.",)


def is_for_the_replay(params: Params) -> bool:
    """Whether the budget covers only the replay, as published: with a head without noise."""
    assert isinstance(params, CslrCentralParams)
    return params.head == "clean"


def table_names(spec: RunSpec) -> tuple[str, str]:
    """A repair in tables, with the training of its head as the variant."""
    assert isinstance(spec.params, CslrCentralParams)
    return "Repair: CSLR", f"{spec.params.head} head"


CARD = federated_params.card(
    name="cslr-central",
    title="CSLR, trusted sum",
    summary="Every client matches its texts to public groups and sends one clipped vector. The sum gets noise once and "
    "becomes a mixture of Gaussians. Clients train the head in rounds on their own texts and rehearse generated ones. "
    "Replay and head are accounted for separately, and together.",
    source=f"{federated_params.SOURCE}, repaired: matched on the client, one noise on the joint vector, accounted",
    params=CslrCentralParams,
    matters=("anchors", "list_size", "matcher"),
    module="dpcl_core.methods.federated.cslr_central",
    planned="dpcl_core.methods.federated.cslr_central:planned",
    notes=notes,
    is_for_the_replay=is_for_the_replay,
    needs_anchors=True,
    printed=printed.CENTRAL,
    table_names=table_names,
    reference="CSLR",
)
