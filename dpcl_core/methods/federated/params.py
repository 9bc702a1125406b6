"""What the federated methods share: settings, their checks, and what their paper prints of them (Shihab et al. 2026)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from annotated_types import Interval

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput, at_most
from dpcl_core.methods.common.method import MethodCard, PublicSizes, printed_by, settings_of
from dpcl_core.privacy import cslr_accounting
from dpcl_core.published import Departure, Printed, PrintedPart, Values, setting
from dpcl_core.scenarios.catalog import WITHOUT_CLIENTS, Federated
from dpcl_core.spec import Params, RunSpec, parameter

Matcher = Literal["signature", "pca-mean", "mean", "target", "random"]
Rule = Literal["nearest", "hungarian", "ot"]
SignatureCovariance = Literal["shared-spherical", "shared-full", "own-shrunk", "own"]
SignatureNorm = Literal["centred", "z-scored", "ranked", "raw"]
PAPER = "Shihab et al. 2026"
SOURCE = f"{PAPER} (CSLR)"
SIMULATED = (
    "Clients are simulated in one process: what the server would not see, the simulator does.",
    "Sums are taken as added up by someone trusted, or under secure aggregation: the server sees the noisy sum alone.",
)


@dataclass(frozen=True, kw_only=True)
class HeadParams(Params):
    """Settings of the head, a small network on frozen embeddings."""

    hidden: int = parameter(128, "Hidden units", "Units of the head's hidden layer; 0: a linear head.", ge=0, le=1024)
    learning_rate: float = parameter(3e-4, "", "Learning rate of Adam.", gt=0, le=10)
    batch_size: int = parameter(32, "", "Rows in each step of the head's training.", ge=1, le=1024)


@dataclass(frozen=True, kw_only=True)
class SamplingParams(Params):
    """Settings of embeddings sampled from the released mixture."""

    unit_length: bool = parameter(
        False, "Unit-length embeddings", "Whether invented embeddings are brought to unit length, as real ones are.")


@dataclass(frozen=True, kw_only=True)
class ServerParams(SamplingParams, HeadParams):
    """Settings of a head that the server retrains on replayed embeddings after every task."""

    learning_rate: float = parameter(5e-4, "", "Learning rate of Adam.", gt=0, le=10)
    batch_size: int = parameter(128, "", "Rows in each step of the head's training.", ge=1, le=1024)
    steps: int = parameter(
        300, "Training steps", "Steps in which the server trains the head after a task.", ge=1, le=100_000)
    samples: int = parameter(
        1000, "Texts invented for each group", "Embeddings invented for every label of the mixture.", ge=1, le=100_000)


@dataclass(frozen=True, kw_only=True)
class RoundParams(HeadParams):
    """Settings of federated rounds: the server sends the head to a sample of clients and averages their updates."""

    rounds: int = parameter(50, "", "Rounds of training in every task.", ge=1, le=1000)
    participation: float = parameter(
        0.3, "Share of clients in a round",
        "Chance that a client is in a round, by a coin of its own; 1: all.", gt=0, le=1)
    local_steps: int = parameter(10, "", "Steps that a client trains for in a round, a public number.", ge=1, le=1000)


@dataclass(frozen=True, kw_only=True)
class ClippedParams(RoundParams):
    """Settings of rounds with clipped and noised updates."""

    clip_norm: float = parameter(
        1.0, "Clipping norm C", "Longest change of the head that one client contributes.", ge=1e-9, le=1e6)


@dataclass(frozen=True, kw_only=True)
class RehearsalParams(SamplingParams):
    """Settings of the clients' rehearsal."""

    samples: int = parameter(
        500, "Texts invented for each group", "Invented embeddings that a round's clients rehearse.", ge=1, le=100_000)
    replay_weight: float = parameter(
        1.0, "Weight of replay", "What the loss on rehearsed rows counts (lambda, Eq. 3).", ge=0, le=1000)


@dataclass(frozen=True, kw_only=True)
class ListParams(Params):
    """Settings of a client's list and of its matching to groups."""

    clusters_together: ClassVar[bool] = False  # clusters all clients' lists, so that one list may leave groups empty
    list_size: int = parameter(4, "List entries", "Gaussians in a client's list (L).", ge=1, le=64)
    restarts: int = parameter(
        3, "Restarts of clustering", "Starts of the fit of a list; the likeliest is kept.", ge=1, le=20)
    modes_per_task: int = parameter(
        1, "Groups of a task",
        "Groups that the lists of a task are matched to, of every label; 1: nothing to match.", ge=1, le=64)
    matcher: Matcher = parameter(
        "signature", "Matching",
        "By what entries are matched. signature: log-densities at public sentences. pca-mean: the mean on public axes. "
        "mean: the mean. target: its labels. random: by lot.")
    rule: Rule = parameter(
        "nearest", "Decision rule",
        "nearest: each to its nearest group. hungarian: one to one, at least cost. ot: optimal transport.")
    signature_covariance: SignatureCovariance = parameter(
        "shared-spherical", "Covariance of signatures",
        "Covariance of the densities. shared-spherical: one public number. shared-full: a public matrix. own: each "
        "entry's. own-shrunk: half of it and half of the public one.")
    signature_norm: SignatureNorm = parameter(
        "centred", "Scale of signatures", "What is done to a signature over its anchors.")
    anchors: int = parameter(
        100, "Public anchors", "Public examples in a signature (m): sentences, or cut-outs, or made-up rows.", ge=1, le=1000)


@dataclass(frozen=True, kw_only=True)
class ReleaseParams(Params):
    """Settings of the release: means relative to a public centre, on a few public axes, clipped to a radius."""

    dimensions: int = parameter(
        16, "Public axes",
        "Public principal axes on which means are released; 16 below 50 clients, 32 up to 300.", ge=1, le=1024)
    axes_of: Literal["sentences", "topics"] = parameter(
        "sentences", "Axes fitted to",
        "What the public axes are principal axes of. sentences: all public sentences. topics: the means of groups of "
        "them, so that fewer axes hold what tells labels apart.")
    radius: Annotated[float, Interval(gt=0, le=100)] | None = parameter(
        None, "Norm bound of embeddings",
        "Longest released mean, from the public centre; empty: what nine of ten public topics keep within.")
    slots: Literal["weighted", "even"] = parameter(
        "weighted", "Division of ε among tasks",
        "weighted: a client may lack some labels or groups, and its shares are released too. even: every client holds "
        "each, and only means are released.")


def check_federated(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where clients, lists or anchors do not fit data of these public sizes."""
    params = spec.params
    n_users = facts.n_users or 1
    if isinstance(params, ListParams):
        rows = facts.n_people / n_users / (facts.n_tasks if facts.recurrence == "every" else 1)
        if params.list_size > rows:
            most = max(1, math.floor(rows))
            allowed = f"must be at most {most}, the texts that a client has in a task on average"
            raise BadInput("params.list_size", params.list_size, allowed, {"params.list_size": most})
        if params.modes_per_task > params.list_size and not params.clusters_together:
            allowed = f"must be at most params.list_size = {params.list_size}: a list would leave groups empty everywhere"
            fix: dict[str, object] = {"params.modes_per_task": params.list_size}
            raise BadInput("params.modes_per_task", params.modes_per_task, allowed, fix)
        if params.matcher == "signature" and params.anchors < 2:
            allowed = "must be at least 2: centred over one anchor, every signature is zero"
            raise BadInput("params.anchors", params.anchors, allowed)
    if isinstance(params, ReleaseParams):
        check_axes(spec, params.dimensions)
    if n_users < 2:
        raise BadInput("scenario.clients", n_users, "must be at least 2: one client alone cannot hide")
    if facts.recurrence == "once" and n_users < 2 * facts.n_tasks:
        allowed = f"must be at least {2 * facts.n_tasks}: each task has its own clients, and one alone cannot hide"
        raise BadInput("scenario.clients", n_users, allowed, {"scenario.clients": 2 * facts.n_tasks})
    if isinstance(params, RoundParams) and params.participation * n_users < 1:
        allowed = f"must be at least {1 / n_users:.3g}, one of the {n_users} clients in a round on average"
        raise BadInput("params.participation", params.participation, allowed)


def check_axes(spec: RunSpec, n_axes: int) -> None:
    """Raises BadInput for more public axes than the network's embeddings have values, where its card gives their number."""
    most = backbones.card(spec.data.backbone).feature_dim
    if most is not None:
        at_most("params.dimensions", n_axes, most, f", the numbers in an embedding of {spec.data.backbone}")


def axes(spec: RunSpec) -> str:
    """The variant's name in tables: axes and radius; "" where public texts determine the radius, or all of it."""
    params = settings_of(spec, ReleaseParams)
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


def derived(params: RoundParams, facts: PublicSizes) -> str:
    """Numbers of rounds and clients that follow from the settings."""
    clients = params.participation * (facts.n_users or 1)
    steps = facts.n_tasks * params.rounds
    return f"{steps:,} rounds in all, {clients:g} clients in each on average, {params.local_steps} steps at every one."


# What the paper prints of each group of settings, and why it leaves others open.

# Our datasets for the paper's benchmarks; GUM only stands in for OntoNotes.
BENCHMARKS: Mapping[str, str] = {
    "ag_news": "Split-AG-News",
    "amazon-domains": "Split-Amazon",
    "ner-gum": "OntoNotes-Domain",
    "multiwoz-intent": "MultiWOZ-Intent",
}


def _benchmark(spec: RunSpec) -> cslr_accounting.Benchmark | None:
    return cslr_accounting.BENCHMARKS.get(BENCHMARKS.get(spec.data.dataset, ""))


def _clients(spec: RunSpec) -> Values | None:
    benchmark = _benchmark(spec)
    return None if benchmark is None else (benchmark.n_clients,)


def _alpha(spec: RunSpec) -> Values | None:
    """The Dirichlet concentration printed for the data; None where clients get their examples otherwise."""
    benchmark = _benchmark(spec)
    is_dealt = setting(spec, "scenario.partition") == "dirichlet"
    return (benchmark.alpha,) if is_dealt and benchmark is not None and benchmark.alpha is not None else None


def _tasks_and_labels(spec: RunSpec) -> tuple[int, int] | None:
    """Number of tasks in the stream and of labels in each; None where they depend on the data."""
    scenario, card = spec.scenario, datasets.card(spec.data.dataset)
    if not isinstance(scenario, Federated) or (names := card.n_classes) is None:
        return None
    named = len(scenario.order or ())
    if scenario.protocol == "domain-incremental":
        n_domains = scenario.tasks or named or len(card.sources)
        return (n_domains, names) if n_domains else None
    n_tasks = scenario.tasks or named or names
    return n_tasks, 2 if scenario.protocol == "one-vs-rest" else max(1, (named or names) // n_tasks)


def _groups(spec: RunSpec) -> Values | None:
    """The printed K, the number of tasks. With lists per label it is divided among the labels; empty if not evenly.

    None where lists have one entry, since nothing is grouped then.
    """
    sizes = _tasks_and_labels(spec)
    if sizes is None or setting(spec, "params.list_size") == 1:
        return None
    n_tasks, n_labels = sizes
    if setting(spec, "params.lists") == "task":
        return (n_tasks,)
    return (n_tasks // n_labels,) if n_tasks % n_labels == 0 else ()


def _list_sizes(spec: RunSpec) -> Values:
    """The printed list covers all of a client's texts of a task; with one label per task, a list per label is the same."""
    sizes = _tasks_and_labels(spec)
    is_of_labels = sizes is not None and sizes[1] > 1 and setting(spec, "params.lists") != "task"
    return () if is_of_labels else (1, 2, 4, 8, 16)


def lists_of_task(spec: RunSpec) -> Values:
    """One list per task, as printed; with one label per task, lists per label are the same."""
    sizes = _tasks_and_labels(spec)
    return ("task",) if sizes is None or sizes[1] > 1 else ("label", "task")


def _matched_by_signature(*values: object) -> Printed:
    def matched(spec: RunSpec) -> Values | None:
        is_used = setting(spec, "params.matcher") == "signature" and setting(spec, "params.modes_per_task") != 1
        return values if is_used else None

    return Printed(matched, "Noisy covariances swamp the densities; a shared one leaves what tells entries apart.")


OF_ALL: PrintedPart = {
    "privacy.delta": Printed((1e-5,), "δ has to stay below one over the number of clients.", is_of_scale=True),
    "data.backbone": Printed(
        lambda spec: () if spec.data.dataset == "ner-gum" else ("minilm",),
        "Another public encoder stands for the paper's.", words="BERT-base for names, all-MiniLM-L6-v2 else",
        is_of_scale=True
    ),
    "data.dataset": Printed(
        tuple(name for name in BENCHMARKS if name != "ner-gum"), "Other data are not the paper's.",
        words=", ".join(BENCHMARKS.values()), is_of_scale=True
    ),
    "data.train_per_class": Printed((None,), "A part of the texts takes minutes.", is_of_scale=True),
    "data.train_per_source": Printed((None,), "A part of the texts takes minutes.", is_of_scale=True),
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
    "scenario.clients": Printed(_clients, "Another number of clients.", is_of_scale=True),
    "scenario.alpha": Printed(_alpha, "Examples are dealt out more or less evenly.", is_of_scale=True),
    "privacy.adjacency": "Neighbours differ in all that one client contributes; left out or replaced is not said.",
    "scenario.protocol": "The tasks as described do not fit the numbers printed; both readings are offered.",
}
HEAD: PrintedPart = {
    "params.hidden": Printed((128,), "Another size of the head."),
    "params.learning_rate": Printed((3e-4,), "In few rounds Adam at the printed rate hardly moves."),
    "params.batch_size": "The batch size is not given.",
}
ROUNDS: PrintedPart = HEAD | {
    "params.rounds": Printed((50,), "Fewer rounds show the same in minutes.", is_of_scale=True),
    "params.participation": Printed((0.3,), "Another share of clients in a round."),
    "params.local_steps": "How long a client trains in a round is not given.",
}
INVENTED: PrintedPart = {
    "params.samples": Printed((500,), "Another number of invented embeddings."),
    "params.unit_length": Printed((False,), "Real embeddings have length 1, samples of the printed mixture do not."),
}
REPLAY: PrintedPart = {"params.replay_weight": "λ of Eq. 3 is not given, nor the form of its loss."}
LISTS: PrintedPart = {
    "params.list_size": Printed(
        _list_sizes, "Where lists are of each label, an entry has one label, and one group a label needs no matching.",
        words="1, 2, 4, 8 or 16 entries for all labels of a task together"
    ),
    "params.anchors": Printed((10, 25, 50, 100, 200), "The paper tries 10, 25, 50, 100 and 200 anchors."),
    "params.matcher": Printed(("signature", "mean", "random"), "A matcher that the paper does not try."),
    "params.signature_covariance": _matched_by_signature("own"),
    "params.signature_norm": _matched_by_signature("raw"),
    "params.modes_per_task": Printed(
        _groups, "Groups are of one label each; several of every label leave something to match.",
        words="as many groups a round as there are tasks"
    ),
    "params.restarts": "How lists are fitted is not given.",
    "params.rule": "“A deterministic stable rule” or assignment at least cost; Eq. 22 defines optimal transport.",
}
ONCE: PrintedPart = {
    "params.dimensions": Printed(
        (), "In 384 dimensions the noise is longer than every mean.", words="all numbers of an embedding"
    ),
    "params.radius": Printed((1.0,), "Means lie near a public centre: a shorter clip takes less noise."),
    "params.slots": "How a client without a group is counted is not said.",
    "params.axes_of": "Nothing is released on axes there.",
}
MATCHED_AT_HOME = Departure(
    "", "clustered by the server, all clients' together",
    "entries are matched by each client, to public groups and earlier releases",
    "Clustered together, one client moves what others are counted as, and no bound follows."
)
ONE_VECTOR = Departure(
    "", "four statistics of each group, each with noise of its own",
    "one clipped vector a client, of means and shares, under one noise",
    "A released covariance is all noise with fifty clients; a public one takes its place."
)
CLIP_OPEN: PrintedPart = {"params.clip_norm": "Where updates are clipped is not given."}


# What the paper prints of one method: that of further groups of settings, too.
printed_settings = partial(printed_by, PAPER, OF_ALL)
# The card of a method on clients' data, unless the method says otherwise.
card = partial(
    MethodCard,
    cells_per_learner="cell",
    scenarios=("federated", *WITHOUT_CLIENTS),
    ceiling="non-cl",
    audit="dpcl_core.attacks.federated_games",
    refuses=check_federated,
    derived=derived,
    assumes=lambda params: SIMULATED,
    differences=differences,
)
