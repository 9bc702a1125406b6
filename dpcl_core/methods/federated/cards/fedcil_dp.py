"""Card of generative replay with clipped, noised updates."""

from __future__ import annotations

from pydantic import Field

from dpcl_core.methods.federated.cards import federated_params, printed


class FedCilDpParams(federated_params.ClippedParams):
    """A generator and a discriminator, averaged over clients."""

    noise_size: int = Field(
        64, ge=1, le=1024, title="Noise dimensions",
        description="Random numbers that the generator starts from."
    )
    consolidation_steps: int = Field(
        20, ge=0, le=1000, description="Steps on embeddings of the noised generator alone, by the server, after a round."
    )
    consistency: float = Field(
        1.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        title="Consistency weight",
        description="What agreeing with the server's generated embeddings counts for a client.",
    )


CARD = federated_params.card(
    name="fedcil-dp",
    title="FedCIL with noise",
    summary="Clients train a generator of embeddings and a classifier that tells real from generated ones; their joint "
    "update is clipped, and the sum gets noise. The generator of the last round replays earlier classes. Unlike in the "
    "original, clients' own generators never reach the server.",
    source="Qi, Zhao and Li 2023 (FedCIL), on embeddings and under user-level privacy",
    params=FedCilDpParams,
    matters=("rounds", "participation", "clip_norm"),
    module="dpcl_core.methods.federated.fedcil_dp",
    planned="dpcl_core.methods.federated.release_schedule:rounds",
    printed=printed.FED_CIL,
    table_names=lambda spec: ("FedCIL+DP", ""),
    reference="FedCIL+DP",
)
