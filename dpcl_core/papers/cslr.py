"""Shihab et al., CSLR: experiments, claims, remarks.

Its epsilon is claimed for the replay release and not borne out by any accountant; of our runs the repairs keep theirs, by
their ledgers. Comparisons "at equal epsilon" repeat what the paper compares, and say nothing about privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcl_core import published
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.cards import printed
from dpcl_core.methods.federated.cards.cslr_central import CslrCentralParams
from dpcl_core.methods.federated.cards.cslr_published import CslrPublishedParams
from dpcl_core.methods.federated.cards.federated_params import ReleaseParams, RoundParams
from dpcl_core.papers import cslr_remarks, differences
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Ordering, Side
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import Federated
from dpcl_core.spec import RunSpec

_METHODS = {
    "dp-fedavg": "DP-SGD (no replay)",
    "fedcil-dp": "FedCIL+DP",
    "fedta-lite": "FedTA",
    "cslr-server-head": "Repair: CSLR, head on the server",
    "dp-stat-share": "Repair: DP-Stat-Share",
    "label-means": "Added: class means",
    "local-list": "Added: noisy lists, nobody trusted",
}
_MATCHERS = {
    "signature": "CSLR",
    "random": "CSLR-NoAnchor (Random)",
    "pca-mean": "Added: matched by public axes",
    "target": "Added: matched by targets",
}
_RULES = {"nearest": "CSLR-NearestMean", "hungarian": "CSLR-Hungarian", "ot": "CSLR-OptimalTransport"}
# Under which name a whole method's scores are printed, repairs among them: reference lines for a page.
_SCORED = {
    **dict.fromkeys(("cslr-published", "cslr-central", "cslr-server-head", "local-list"), "CSLR"),
    **{name: _METHODS[name] for name in ("dp-fedavg", "fedcil-dp")},
    "dp-stat-share": "DP-Stat-Share",
}
_STAND_IN = "ner-gum"  # for OntoNotes: other texts, other numbers
_USUAL = ("L = 4", "m = 100")  # what sweeps call the method as it is elsewhere


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant; methods that it does not have are called repairs, or added."""
    params = spec.params
    if isinstance(params, CslrPublishedParams):
        layer = methods.layer(spec)
        return _published(params, is_exact=layer is not None and layer.name == "as printed")
    if spec.method == "cslr-central" and isinstance(params, CslrCentralParams):
        return "Repair: CSLR", f"{params.head} head"
    variant = ""
    if isinstance(params, ReleaseParams) and params.radius is not None:  # else public texts say how long means may be
        variant = f"{params.dimensions} axes, radius {params.radius:g}"
    return _METHODS.get(spec.method, spec.method), variant


def _published(params: CslrPublishedParams, *, is_exact: bool) -> tuple[str, str]:
    if params.list_size == 1:
        return "DP-Stat-Share", ""
    if params.matcher == "mean":
        return _RULES[params.rule], ""
    variant = [f"L = {params.list_size}"] if params.list_size != 4 else []
    if params.matcher == "signature":
        variant += [f"m = {params.anchors}"] if params.anchors != 100 else []
        if not is_exact and (params.signature_covariance, params.signature_norm) != ("shared-spherical", "centred"):
            variant.append(f"{params.signature_norm} log-densities, covariance: {params.signature_covariance}")
    return _MATCHERS[params.matcher], ", ".join(variant)


def named(row: Published) -> tuple[str, str]:
    """The same of a printed number; lists of one entry are DP-Stat-Share, whose numbers they have."""
    if row.variant == "L = 1":
        return "DP-Stat-Share", ""
    return row.method, "" if row.variant in _USUAL else row.variant


def printed_scores(spec: RunSpec, epsilon: float) -> dict[str, list[float]]:
    """What tables 2 to 4 print for a run's dataset, method and budget, in points, by metric; empty where nothing.

    Its budgets are claims for the replay release alone: reference lines, never the same promise.
    """
    if spec.data.dataset == _STAND_IN:
        return {}
    names = printed.BENCHMARKS.get(spec.data.dataset), _SCORED.get(spec.method)
    found: dict[str, list[float]] = {}
    for row in published.read("cslr"):
        is_asked = (row.dataset, row.method, row.epsilon) == (*names, epsilon) and not row.variant
        if is_asked and row.table in ("2", "3", "4") and row.percent is not None and row.shared_metric in ("AA", "BWT"):
            values = found.setdefault(row.shared_metric, [])
            if row.percent not in values:
                values.append(row.percent)
    return found


def departs(run: Measured) -> list[str]:
    """How a run differs from what the paper did, and what it took where the paper says nothing."""
    spec, params, told = run.spec, run.spec.params, differences.of_data(run)
    if isinstance(spec.scenario, Federated):
        told.append(f"Protocol: {spec.scenario.protocol}, the task {_known(spec.scenario)} when tested. {_PROTOCOL}")
    if isinstance(params, RoundParams):
        told.append(
            f"Not given in the paper: how clients are drawn, steps at a client, batches. Ours: each by a coin, "
            f"{params.local_steps} steps on {params.batch_size} texts in each of {params.rounds} rounds a task."
        )
    if isinstance(params, CslrPublishedParams):
        told.append(
            "Not given either: the fit of lists, full or diagonal second moments, how statistics of several entries are "
            f"added up, the weight of replay. Ours: {params.restarts} starts of a fit; {params.second_moments}; by shares; "
            f"{params.replay_weight:g}."
        )
        if params.modes_per_task > 1:
            told.append(f"{params.modes_per_task} groups of a label, since one a task leaves nothing to match.")
        if params.modes_per_task > 1 and params.matcher == "signature":
            told.append(
                "Nor what is done to log-densities, and by which rule entries are clustered. Ours: "
                f"{params.signature_norm}, covariance {params.signature_covariance}; {params.rule}."
            )
    return told


def _known(scenario: Federated) -> str:
    return "known" if scenario.protocol == "one-vs-rest" else "not known"


_PROTOCOL = "The paper's own does not follow from its text."


def _higher(statement: str, first: Side, second: Side, metric: str = "AA") -> Ordering:
    return Ordering(statement, first, second, metric)


def _at(label: str, epsilon: float = 4.0) -> Side:
    return Side(label, epsilon)


_OTHERS = {
    "transport": "optimal transport",
    "hungarian": "Hungarian",
    "nearest-mean": "the nearest mean",
    "random": "matching by lot",
    "stat-share": "DP-Stat-Share",
    "fedcil": "FedCIL with noise",
    "no-replay": "no replay",
}
_WITH_FWT = ("transport", "stat-share", "fedcil", "no-replay")
_MAIN = (
    *(_higher(f"CSLR is above {name}", _at("cslr"), _at(label)) for label, name in _OTHERS.items()),
    *(_higher(f"CSLR forgets less than {name}", _at("cslr"), _at(label), "BWT") for label, name in _OTHERS.items()),
    *(
        _higher(f"CSLR carries more forward than {name}", _at("cslr"), _at(label), "FWT")
        for label, name in _OTHERS.items()
        if label in _WITH_FWT
    ),
    _higher("FedTA without noise is above CSLR", _at("fedta", math.inf), _at("cslr")),
    _higher("DP-Stat-Share is above the nearest mean", _at("stat-share"), _at("nearest-mean")),
    _higher("Even matching by lot is above no replay", _at("random"), _at("no-replay")),
    _higher("Not in the paper: anchors are above a plain projection", _at("cslr"), _at("projection")),
    _higher("Not in the paper: lists are above class means under an accounted ε", _at("server-head"), _at("class-means")),
    _higher("Not in the paper: the repair is above no replay, both accounted", _at("server-head"), _at("no-replay")),
)
_BUDGETS = (
    *(
        _higher(f"CSLR is above {_OTHERS[label]}", _at("cslr", epsilon), _at(label, epsilon))
        for label in ("stat-share", "fedcil", "no-replay")
        for epsilon in (1.0, 4.0, 8.0)
    ),
    *(
        _higher(f"CSLR: ε = {more:g} is better than {less:g}", _at("cslr", more), _at("cslr", less))
        for more, less in ((4.0, 1.0), (8.0, 4.0))
    ),
    _higher("At ε = 8 CSLR is above FedTA without noise", _at("cslr", 8.0), _at("fedta", math.inf)),
)
_LISTS = tuple(
    _higher(f"Lists of {more} are {what} lists of {less}", _at(first), _at(second), metric)
    for (more, first), (less, second) in (
        ((2, "l-2"), (1, "stat-share")),
        ((4, "cslr"), (2, "l-2")),
        ((8, "l-8"), (4, "cslr")),
        ((16, "l-16"), (8, "l-8")),
    )
    for what, metric in (("above", "AA"), ("forgetting less than", "BWT"))
)
_ANCHORS = (
    _higher("50 anchors are above 10", _at("m-50"), _at("m-10")),
    Ordering("Accuracy is the same with 50 anchors and with 100", _at("cslr"), _at("m-50"), kind="alike"),
    Ordering("Accuracy is the same with 100 anchors and with 200", _at("m-200"), _at("cslr"), kind="alike"),
)
_CLAIMED = (
    "ε of CSLR, of its matchers and of DP-Stat-Share is the paper's claim for the replay alone, not verified and not kept: "
    "see the Privacy page. ε of no replay, of FedCIL, of repairs and of what was added comes from their ledgers, head "
    "included."
)
_SMALL = "A part of the data, and fewer rounds and seeds: accuracies of the two cannot be compared, directions with care."
_AMAZON = "The paper does not name its five domains, nor the number of stars. Ours: two classes, in five domains of FDU-MTL."
_MULTIWOZ = (
    "Intents are derived from the dialogue acts of MultiWOZ 2.1, one a turn. With the task not known all seventeen compete."
)
_NER = (
    "OntoNotes asks for a licence and is not here: genres of GUM stand in, with silver tags. Tokens have MiniLM's vectors, "
    "not BERT's; entity-level micro-F1. Each client belongs to one genre, five to each: a release's noise for an accounted "
    "ε = 4 is 0.48 on the share of words that a tag has, and no tag of a name has more than 0.06. F1 near 0 there is that "
    "noise: without it the same settings, shown beside, find names. They were looked for on these data, without noise."
)
_TABLE_8 = (
    "Table 8's p̂ and margins are of lists, not of models: ours of any of these runs are on the Anchors page, and below. "
    "Figure 2's curve of accuracy is printed without numbers."
)


def _of(dataset: str) -> Callable[[Published], bool]:
    """All that is printed of a benchmark's main comparison."""
    return lambda row: row.dataset == dataset and row.table in ("2", "3", "7")


def _in(*tables: str) -> Callable[[Published], bool]:
    return lambda row: row.table in tables


def _experiment(
    name: str,
    title: str,
    question: str,
    table: str,
    prints: Callable[[Published], bool],
    orderings: tuple[Ordering, ...],
    n_classes: int,
    *departures: str,
    has_match_rates: bool = False,
) -> Experiment:
    return Experiment(
        name=f"paper-cslr-{name}",
        title=title,
        question=question,
        table=table,
        prints=prints,
        n_classes=n_classes,
        orderings=orderings,
        departures=(_CLAIMED, *departures),
        small_departures=(_SMALL,),
        has_match_rates=has_match_rates,
    )


_TABLES = "2, 3, 6, 7"
_AG_NEWS = "Split-AG-News"
EXPERIMENTS = (
    _experiment(
        "ag-news", "AG News, one topic after another",
        "Twenty clients, four topics one after another: does it matter how the entries of their lists are matched?",
        _TABLES, _of(_AG_NEWS), _MAIN, 4,
    ),
    _experiment(
        "ag-news-ovr", "AG News, each topic against the rest",
        "The same with a question for each topic, which is known when tested: is it this topic, or another?",
        _TABLES, _of(_AG_NEWS), _MAIN, 4,
    ),
    _experiment(
        "amazon", "Amazon reviews, five domains",
        "Fifty clients, five kinds of products one after another: what is kept of the first kind's reviews?",
        _TABLES, _of("Split-Amazon"), _MAIN, 2, _AMAZON,
    ),
    _experiment(
        "multiwoz", "MultiWOZ, seven domains",
        "Forty clients, intents of seven services of a town one after another: which method keeps them apart?",
        _TABLES, _of("MultiWOZ-Intent"), _MAIN, 17, _MULTIWOZ,
    ),
    _experiment(
        "ner", "Names in six genres",
        "Thirty clients, six genres one after another: what is kept of the names of the first?",
        _TABLES, _of("OntoNotes-Domain"), _MAIN, 37, _NER,
    ),
    _experiment(
        "budgets", "Three claimed budgets", "What does a smaller claimed ε cost, and whose?",
        "4", _in("4"), _BUDGETS, 4,
    ),
    _experiment(
        "lists", "Length of the lists", "One Gaussian a client, or sixteen: what do longer lists buy?",
        "9", _in("9"), _LISTS, 4,
    ),
    _experiment(
        "anchors", "Number of anchors", "Ten public sentences or two hundred: how many are enough to tell entries apart?",
        "8", _in("8"), _ANCHORS, 4, _TABLE_8, has_match_rates=True,
    ),
)  # fmt: skip
PAPER = Paper(
    name="cslr",
    title="Shihab et al. 2026, CSLR",
    source="Canonicalized Stable-List Replay for Private Federated Continual Learning over Language-Model Embeddings, "
    "tables 2 to 4 and 6 to 9",
    experiments=EXPERIMENTS,
    remarks=cslr_remarks.REMARKS,
    printed_as=printed_as,
    departs=departs,
    named=named,
    nominal=("CSLR", *_RULES.values(), _MATCHERS["random"], _MATCHERS["pca-mean"], _MATCHERS["target"], "DP-Stat-Share"),
    metrics=("AA", "BWT", "FWT"),
    is_unpaired=True,
)
