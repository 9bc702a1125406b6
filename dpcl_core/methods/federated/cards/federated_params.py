"""Shared settings of the federated methods: lists, matchers, the release of a mixture, the head and its rounds."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpcl_core.backbones import catalog as backbones
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.spec import Params, RunSpec

Matcher = Literal["signature", "pca-mean", "mean", "target", "random"]
Rule = Literal["nearest", "hungarian", "ot"]
SignatureCovariance = Literal["shared-spherical", "shared-full", "own-shrunk", "own"]
SignatureNorm = Literal["centred", "z-scored", "ranked", "raw"]
Slots = Literal["weighted", "even"]
Radius = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]

SOURCE = "Shihab et al. 2026 (CSLR)"
SIMULATED = (
    "Clients are simulated in one process: what the server would not see, the simulator does.",
    "Sums are taken as added up by someone trusted, or under secure aggregation: the server sees the noisy sum alone.",
)


class HeadParams(Params):
    """Settings of the head, a small network on frozen embeddings."""

    hidden: int = Field(
        128, ge=0, le=1024, title="Hidden units",
        description="Units of the head's hidden layer; 0: a linear head."
    )
    learning_rate: float = Field(3e-4, gt=0, le=10, allow_inf_nan=False, description="Learning rate of Adam.")
    batch_size: int = Field(32, ge=1, le=1024, description="Rows in each step of the head's training.")


class SamplingParams(Params):
    """Settings of embeddings sampled from the released mixture."""

    unit_length: bool = Field(
        False, title="Unit-length embeddings",
        description="Whether invented embeddings are brought to unit length, as real ones are."
    )


class ServerParams(SamplingParams, HeadParams):
    """Settings of a head that the server retrains on replayed embeddings after every task."""

    learning_rate: float = Field(5e-4, gt=0, le=10, allow_inf_nan=False, description="Learning rate of Adam.")
    batch_size: int = Field(128, ge=1, le=1024, description="Rows in each step of the head's training.")
    steps: int = Field(
        300, ge=1, le=100_000, title="Training steps",
        description="Steps in which the server trains the head after a task."
    )
    samples: int = Field(
        1000, ge=1, le=100_000, title="Texts invented for each group",
        description="Embeddings invented for every label of the mixture."
    )


class RoundParams(HeadParams):
    """Settings of federated rounds: the server sends the head to a sample of clients and averages their updates."""

    rounds: int = Field(50, ge=1, le=1000, description="Rounds of training in every task.")
    participation: float = Field(
        0.3, gt=0, le=1, allow_inf_nan=False,
        title="Share of clients in a round",
        description="Chance that a client is in a round, by a coin of its own; 1: all."
    )
    local_steps: int = Field(10, ge=1, le=1000, description="Steps that a client trains for in a round, a public number.")


class ClippedParams(RoundParams):
    """Settings of rounds with clipped and noised updates."""

    clip_norm: float = Field(
        1.0, ge=1e-9, le=1e6, allow_inf_nan=False,
        title="Clipping norm C",
        description="Longest change of the head that one client contributes."
    )


class RehearsalParams(SamplingParams):
    """Settings of the clients' rehearsal."""

    samples: int = Field(
        500, ge=1, le=100_000, title="Texts invented for each group",
        description="Invented embeddings that a round's clients rehearse."
    )
    replay_weight: float = Field(
        1.0, ge=0, le=1000, allow_inf_nan=False,
        title="Weight of replay",
        description="What the loss on rehearsed rows counts (lambda, Eq. 3)."
    )


class ListParams(Params):
    """Settings of a client's list and of its matching to groups."""

    clusters_together: ClassVar[bool] = False  # clusters all clients' lists, so that one list may leave groups empty
    list_size: int = Field(4, ge=1, le=64, title="List entries", description="Gaussians in a client's list (L).")
    restarts: int = Field(
        3, ge=1, le=20, title="Restarts of clustering",
        description="Starts of the fit of a list; the likeliest is kept."
    )
    modes_per_task: int = Field(
        1, ge=1, le=64,
        title="Groups of a task",
        description="Groups that the lists of a task are matched to, of every label; 1: nothing to match."
    )
    matcher: Matcher = Field(
        "signature",
        title="Matching",
        description="By what entries are matched. signature: log-densities at public sentences. pca-mean: the mean on "
        "public axes. mean: the mean. target: its labels. random: by lot.",
    )
    rule: Rule = Field(
        "nearest",
        title="Decision rule",
        description="nearest: each to its nearest group. hungarian: one to one, at least cost. ot: optimal transport.",
    )
    signature_covariance: SignatureCovariance = Field(
        "shared-spherical",
        title="Covariance of signatures",
        description="Covariance of the densities. shared-spherical: one public number. shared-full: a public matrix. "
        "own: each entry's. own-shrunk: half of it and half of the public one.",
    )
    signature_norm: SignatureNorm = Field(
        "centred", title="Scale of signatures",
        description="What is done to a signature over its anchors."
    )
    anchors: int = Field(100, ge=1, le=1000, title="Public anchors", description="Public sentences in a signature (m).")


class ReleaseParams(Params):
    """Settings of the release: means relative to a public centre, on a few public axes, clipped to a radius."""

    dimensions: int = Field(
        16,
        ge=1,
        le=1024,
        title="Public axes",
        description="Public principal axes on which means are released; 16 below 50 clients, 32 up to 300.",
    )
    axes_of: Literal["sentences", "topics"] = Field(
        "sentences",
        title="Axes fitted to",
        description="What the public axes are principal axes of. sentences: all public sentences. topics: the means of "
        "groups of them, so that fewer axes hold what tells labels apart.",
    )
    radius: Radius | None = Field(
        None,
        title="Norm bound of embeddings",
        description="Longest released mean, from the public centre; empty: what nine of ten public topics keep within."
    )
    slots: Slots = Field(
        "weighted",
        title="Division of ε among tasks",
        description="weighted: a client may lack some labels or groups, and its shares are released too. even: every client "
        "holds each, and only means are released.",
    )


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where clients, lists or anchors do not fit data of these public sizes."""
    params = spec.params
    n_users = facts.n_users or 1
    if isinstance(params, ListParams):
        check_lists(spec, params, facts)
    if isinstance(params, ReleaseParams):
        check_axes(spec, params.dimensions)
    if n_users < 2:
        allowed = "must be at least 2: one client alone cannot hide"
        raise BadInput("scenario.clients", n_users, allowed)
    if facts.recurrence == "once" and n_users < 2 * facts.n_tasks:
        allowed = f"must be at least {2 * facts.n_tasks}: each task has its own clients, and one alone cannot hide"
        raise BadInput("scenario.clients", n_users, allowed, {"scenario.clients": 2 * facts.n_tasks})
    if isinstance(params, RoundParams) and params.participation * n_users < 1:
        allowed = f"must be at least {1 / n_users:.3g}, one of the {n_users} clients in a round on average"
        raise BadInput("params.participation", params.participation, allowed)


def check_axes(spec: RunSpec, n_axes: int) -> None:
    """Raises BadInput for more public axes than the network's embeddings have values, where its card gives their number."""
    most = backbones.card(spec.data.backbone).feature_dim
    if most is not None and n_axes > most:
        allowed = f"must be at most {most}, the numbers in an embedding of {spec.data.backbone}"
        raise BadInput("params.dimensions", n_axes, allowed, {"params.dimensions": most})


def check_lists(spec: RunSpec, params: ListParams, facts: PublicSizes) -> None:
    """Raises BadInput for more entries than rows, more groups than entries, or too few anchors."""
    rows = facts.n_people / (facts.n_users or 1) / (facts.n_tasks if facts.recurrence == "every" else 1)
    if params.list_size > rows:
        allowed = f"must be at most {max(1, math.floor(rows))}, the texts that a client has in a task on average"
        raise BadInput("params.list_size", params.list_size, allowed, {"params.list_size": max(1, math.floor(rows))})
    if params.modes_per_task > params.list_size and not params.clusters_together:
        allowed = f"must be at most params.list_size = {params.list_size}: a list would leave groups empty everywhere"
        raise BadInput("params.modes_per_task", params.modes_per_task, allowed, {"params.modes_per_task": params.list_size})
    if params.matcher == "signature" and params.anchors < 2:
        allowed = "must be at least 2: centred over one anchor, every signature is zero"
        raise BadInput("params.anchors", params.anchors, allowed)


def axes(spec: RunSpec) -> str:
    """The variant's name in tables: axes and radius; "" where public texts determine the radius, or all of it."""
    params = spec.params
    assert isinstance(params, ReleaseParams)
    return "" if params.radius is None or spec.tuned == "public" else f"{params.dimensions} axes, radius {params.radius:g}"


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices where Shihab et al. leave training in rounds open."""
    params = spec.params
    if not isinstance(params, RoundParams):
        return ()
    return (
        "Not given in the paper: how clients are drawn, steps at a client, batches. Ours: each by a coin, "
        f"{params.local_steps} steps on {params.batch_size} texts in each of {params.rounds} rounds a task.",
    )


def derived(params: Params, facts: PublicSizes) -> str:
    """Numbers of rounds and clients that follow from the settings."""
    assert isinstance(params, RoundParams)
    clients = params.participation * (facts.n_users or 1)
    steps = facts.n_tasks * params.rounds
    return f"{steps:,} rounds in all, {clients:g} clients in each on average, {params.local_steps} steps at every one."


# The card of a method on clients' data, unless the method says otherwise.
card = partial(
    MethodCard,
    shares="cell",
    labels=("prior-const", "prior"),
    scenarios=("federated",),
    ceiling="non-cl",
    refuses=check,
    derived=derived,
    assumes=lambda params: SIMULATED,
    differences=differences,
)
