"""Settings that Shihab et al. 2026 (CSLR) print for their method and its baselines."""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.data import catalog as datasets
from dpcl_core.layers import Departure, Print, Printed, Values, setting
from dpcl_core.privacy import cslr_accounting
from dpcl_core.scenarios.catalog import Federated
from dpcl_core.spec import RunSpec

SOURCE = "Shihab et al. 2026"
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
    if _is_of_task(spec):
        return (n_tasks,)
    return (n_tasks // n_labels,) if n_tasks % n_labels == 0 else ()


def _list_sizes(spec: RunSpec) -> Values:
    """The printed list covers all of a client's texts of a task; with one label per task, a list per label is the same."""
    sizes = _tasks_and_labels(spec)
    return () if sizes is not None and sizes[1] > 1 and not _is_of_task(spec) else (1, 2, 4, 8, 16)


def _is_of_task(spec: RunSpec) -> bool:
    return setting(spec, "params.lists") == "task"


def _lists(spec: RunSpec) -> Values:
    """One list per task, as printed; with one label per task, lists per label are the same."""
    sizes = _tasks_and_labels(spec)
    return ("task",) if sizes is None or sizes[1] > 1 else ("label", "task")


def _matched_by_signature(*values: object) -> Printed:
    def matched(spec: RunSpec) -> Values | None:
        is_used = setting(spec, "params.matcher") == "signature" and setting(spec, "params.modes_per_task") != 1
        return values if is_used else None

    return Printed(matched, "Noisy covariances swamp the densities; a shared one leaves what tells entries apart.")


_OF_ALL: dict[str, Printed] = {
    "privacy.delta": Printed((1e-5,), "δ has to stay below one over the number of clients.", is_of_scale=True),
    "data.backbone": Printed(
        lambda spec: () if spec.data.dataset == "ner-gum" else ("minilm",),
        "Another public encoder stands for the paper's.",
        words="BERT-base for names, all-MiniLM-L6-v2 else",
        is_of_scale=True,
    ),
    "data.dataset": Printed(
        tuple(name for name in BENCHMARKS if name != "ner-gum"),
        "Other data are not the paper's.",
        words=", ".join(BENCHMARKS.values()),
        is_of_scale=True,
    ),
    "data.train_per_class": Printed((None,), "A part of the texts takes minutes.", is_of_scale=True),
    "data.train_per_source": Printed((None,), "A part of the texts takes minutes.", is_of_scale=True),
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
    "scenario.clients": Printed(_clients, "Another number of clients.", is_of_scale=True),
    "scenario.alpha": Printed(_alpha, "Examples are dealt out more or less evenly.", is_of_scale=True),
}
_OPEN: dict[str, str] = {
    "privacy.adjacency": "Neighbours differ in all that one client contributes; left out or replaced is not said.",
    "scenario.protocol": "The tasks as described do not fit the numbers printed; both readings are offered.",
}
_HEAD: dict[str, Printed] = {
    "params.hidden": Printed((128,), "Another size of the head."),
    "params.learning_rate": Printed((3e-4,), "In few rounds Adam at the printed rate hardly moves."),
}
_HEAD_OPEN: dict[str, str] = {"params.batch_size": "The batch size is not given."}
_ROUNDS: dict[str, Printed] = _HEAD | {
    "params.rounds": Printed((50,), "Fewer rounds show the same in minutes.", is_of_scale=True),
    "params.participation": Printed((0.3,), "Another share of clients in a round."),
}
_ROUNDS_OPEN = _HEAD_OPEN | {"params.local_steps": "How long a client trains in a round is not given."}
_INVENTED: dict[str, Printed] = {
    "params.samples": Printed((500,), "Another number of invented embeddings."),
    "params.unit_length": Printed((False,), "Real embeddings have length 1, samples of the printed mixture do not."),
}
_REPLAY_OPEN: dict[str, str] = {"params.replay_weight": "λ of Eq. 3 is not given, nor the form of its loss."}
_LISTS: dict[str, Printed] = {
    "params.list_size": Printed(
        _list_sizes,
        "Where lists are of each label, an entry has one label, and one group a label needs no matching.",
        words="1, 2, 4, 8 or 16 entries for all labels of a task together",
    ),
    "params.anchors": Printed((10, 25, 50, 100, 200), "The paper tries 10, 25, 50, 100 and 200 anchors."),
    "params.matcher": Printed(("signature", "mean", "random"), "A matcher that the paper does not try."),
    "params.signature_covariance": _matched_by_signature("own"),
    "params.signature_norm": _matched_by_signature("raw"),
    "params.modes_per_task": Printed(
        _groups,
        "Groups are of one label each; several of every label leave something to match.",
        words="as many groups a round as there are tasks",
    ),
}
_LISTS_OPEN: dict[str, str] = {
    "params.restarts": "How lists are fitted is not given.",
    "params.rule": "“A deterministic stable rule” or assignment at least cost; Eq. 22 defines optimal transport.",
}
PUBLISHED = Print(
    SOURCE,
    _OF_ALL
    | _LISTS
    | _INVENTED
    | _ROUNDS
    | {
        "privacy.epsilons": Printed((1.0, 4.0, 8.0), "Without noise, to see what the noise costs."),
        "params.second_moments": Printed(("full",), "Diagonals take a 384th of the numbers and of the time."),
        "params.dimensions": Printed((None,), "On a few public axes the noise is shorter."),
        "params.lists": Printed(
            _lists,
            "An entry of one label names its group; an entry of a mixture is named only by its target.",
            words="one list of all that a client has of a task",
        ),
        "params.noisy_lists": Printed((True,), "Noise on every list leaves nothing to match with these numbers of clients."),
        "params.aggregation": Printed(
            ("entries",), "How many clients came is private, and one without a group would draw its mean to zero."
        ),
        "params.averaging": Printed((0.0,), "An average over rounds has less noise, and costs nothing more."),
        "params.targets": Printed(("raw",), "Noisy targets are no distribution."),
    },
    _OPEN | _LISTS_OPEN | _ROUNDS_OPEN | _REPLAY_OPEN,
)
_MATCHED_AT_HOME = Departure(
    "",
    "clustered by the server, all clients' together",
    "entries are matched by each client, to public groups and earlier releases",
    "Clustered together, one client moves what others are counted as, and no bound follows.",
)
_ONE_VECTOR = Departure(
    "",
    "four statistics of each group, each with noise of its own",
    "one clipped vector a client, of means and shares, under one noise",
    "A released covariance is all noise with fifty clients; a public one takes its place.",
)
_ONCE: dict[str, Printed] = {
    "params.dimensions": Printed(
        (), "In 384 dimensions the noise is longer than every mean.", words="all numbers of an embedding"
    ),
    "params.radius": Printed((1.0,), "Means lie near a public centre: a shorter clip takes less noise."),
}
_ONCE_OPEN: dict[str, str] = {
    "params.slots": "How a client without a group is counted is not said.",
    "params.axes_of": "Nothing is released on axes there.",
}
_SERVER = {"params.steps": "In the paper clients train the head; the server's steps are ours."}
_CENTRAL = (
    _OF_ALL
    | _LISTS
    | _ONCE
    | _INVENTED
    | _ROUNDS
    | {
        "params.head": Printed(("clean",), "Updates of the head are made from people's data, too; here they are noised."),
        "params.releases": Printed(("round",), "One release of everybody costs less than one a round of a few."),
    }
)
_CENTRAL_OPEN = (
    _OPEN
    | _LISTS_OPEN
    | _ONCE_OPEN
    | _ROUNDS_OPEN
    | _REPLAY_OPEN
    | {
        "params.clip_norm": "The printed head is not clipped.",
        "params.replay_share": "The printed head has no part of the budget.",
    }
)
CENTRAL = Print(SOURCE, _CENTRAL, _CENTRAL_OPEN, (_MATCHED_AT_HOME, _ONE_VECTOR), kind="repair")
SERVER_HEAD = Print(
    SOURCE,
    _OF_ALL | _LISTS | _ONCE | _INVENTED | _HEAD,
    _OPEN | _LISTS_OPEN | _ONCE_OPEN | _HEAD_OPEN | _SERVER,
    (
        _MATCHED_AT_HOME,
        _ONE_VECTOR,
        Departure(
            "",
            "by clients, in rounds without noise",
            "the head is trained by the server, on invented embeddings alone",
            "Whatever is made from the release alone costs nothing more.",
        ),
    ),
    kind="repair",
)
_CLIPPED_OPEN = _ROUNDS_OPEN | {"params.clip_norm": "Where updates are clipped is not given."}
FED_AVG = Print(
    SOURCE,
    _OF_ALL | _ROUNDS,
    _OPEN | _CLIPPED_OPEN,
    (
        Departure(
            "",
            "“the optimizer's” ε",
            "noise on the clipped sum of clients' changes, sized for every round that a client may be in",
            "Whose budget the printed one is, and for how many steps, is not said.",
        ),
    ),
)
FED_CIL = Print(
    SOURCE,
    _OF_ALL | _ROUNDS,
    _OPEN
    | _CLIPPED_OPEN
    | {
        "params.noise_size": "The size of the generator's input is not given.",
        "params.consolidation_steps": "How long the server consolidates is not given.",
        "params.consistency": "The weight of consistency is not given.",
    },
    (
        Departure(
            "",
            "every client's generator",
            "the server consolidates from the noised global generator alone",
            "Clients' own generators would hand it what each of them holds.",
        ),
    ),
)
FED_TA = Print(
    SOURCE,
    _OF_ALL | _ROUNDS,
    _OPEN | _ROUNDS_OPEN | {"params.mixing": "Its mixing equations were not at hand."},
    (Departure("", "FedTA by Yu et al. 2025", "a simplified reading of FedTA", "Its mixing equations were not at hand."),),
)
