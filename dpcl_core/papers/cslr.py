"""Shihab et al., CSLR: the paper's names of our runs, and how these depart; the rest is in `assets/papers/cslr.toml`.

Its epsilon is claimed for the replay release and not borne out by any accountant; of our runs the repairs keep theirs, by
their ledgers. Comparisons "at equal epsilon" repeat what the paper compares, and say nothing about privacy.
"""

from __future__ import annotations

from dpcl_core import published
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.cards import printed
from dpcl_core.methods.federated.cards.cslr_central import CslrCentralParams
from dpcl_core.methods.federated.cards.cslr_published import CslrPublishedParams
from dpcl_core.methods.federated.cards.federated_params import ReleaseParams, RoundParams
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
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
