"""The papers by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache

from dpcl_core import paths, published
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import unknown
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.params import BENCHMARKS
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Paper, backbone_title, load, of_data
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import Federated, SourceIncremental
from dpcl_core.spec import RunSpec

# Shihab et al., CSLR: the paper's names of our runs, and their differences; the rest is in `assets/papers/cslr.toml`.
#
# Its epsilon is claimed for the replay release and supported by no accountant; of our runs, the repairs keep theirs by
# their ledgers. Comparisons "at equal epsilon" repeat what the paper compares, and say nothing about privacy.


_STAND_IN = "ner-gum"  # for OntoNotes: other texts, other numbers
_USUAL = ("L = 4", "m = 100")  # what sweeps call the method as it is elsewhere


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant; methods that are not in the paper are named repairs, or added."""
    return methods.card(spec.method).table_names(spec)


def named(row: Published) -> tuple[str, str]:
    """The same names for a printed number; lists of one entry (L = 1) are DP-Stat-Share, with the same numbers."""
    if row.variant == "L = 1":
        return "DP-Stat-Share", ""
    return row.method, "" if row.variant in _USUAL else row.variant


def printed_scores(spec: RunSpec, epsilon: float) -> dict[str, list[float]]:
    """The values of Tables 2 to 4 for a run's dataset, method and budget, in points, by metric; empty where none.

    Its budgets are claims for the replay release alone: reference lines, never the same promise.
    """
    if spec.data.dataset == _STAND_IN:
        return {}
    names = BENCHMARKS.get(spec.data.dataset), methods.card(spec.method).reference
    by_metric: dict[str, list[float]] = {}
    for row in published.read("cslr"):
        is_same = (row.dataset, row.method, row.epsilon) == (*names, epsilon) and not row.variant
        if is_same and row.table in ("2", "3", "4") and row.percent is not None and row.shared_metric in ("AA", "BWT"):
            values = by_metric.setdefault(row.shared_metric, [])
            if row.percent not in values:
                values.append(row.percent)
    return by_metric


@cache
def proxies(dataset: str, method: str) -> tuple[tuple[str, int], ...]:
    """The public datasets on which `scripts/tune_federated.py` chose a method's settings, each with the trials of a row.

    Raises FileNotFoundError without its record, which is part of the project.
    """
    rows = json.loads((paths.assets_dir() / "tuning" / "federated.json").read_text(encoding="utf-8"))["rows"]
    found = [row for row in rows if (row["dataset"], row["method"]) == (dataset, method)]
    return tuple(dict.fromkeys((row["proxy"], len(row["trials"])) for row in found))


def departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, and its choices where the paper specifies none; one sentence each."""
    spec, sentences = run.spec, of_data(run)
    if isinstance(spec.scenario, Federated):
        protocol = spec.scenario.protocol
        known = "known" if protocol == "one-vs-rest" else "not known"
        paper = "The paper's own does not follow from its text."
        sentences.append(f"Protocol: {protocol}, the task {known} when tested. {paper}")
    if spec.tuned == "public":
        for proxy, n_trials in proxies(spec.data.dataset, spec.method):
            sentences.append(
                f"Head size, rounds, share of clients, axes and radius: the best of {n_trials} settings on public texts "
                f"({datasets.card(proxy).title}), as many for every row that has them."
            )
    return [*sentences, *methods.card(spec.method).differences(spec)]


# Zhan et al., PeCL: the paper's names of our runs, and their differences; the rest is in `assets/papers/pecl.toml`.
#
# The budgets of its tokens, 1 to 10, are nominal numbers without a bound (see the claim beside every such run). Its rows
# are listed at 10, the budget of the least noised token; the baselines' 1 is for a text, or for a token, never for both.


_ORDERS: Mapping[tuple[int, ...], str] = {(5, 4, 3, 2, 1, 0): "order 2", (3, 4, 0, 2, 5, 1): "order 3"}  # places in order 1
_BASE = "meta-llama/Llama-2-7b-hf"
_UNLEARNING = "w/o Unlearning"
_FULL = ("alpha 0.5", "lambda 1", "theta 0.6")  # what sweeps call the method as it is elsewhere


def pecl_printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant, with the order of the tasks where it is not the first one."""
    method, variant = methods.card(spec.method).table_names(spec)
    return method, ", ".join(part for part in (variant, _order(spec)) if part)


def _order(spec: RunSpec) -> str:
    scenario, sources = spec.scenario, _sources(spec)
    if not isinstance(scenario, SourceIncremental) or scenario.order is None or len(scenario.order) != len(sources):
        return ""
    return _ORDERS.get(tuple(sources.index(name) for name in scenario.order), "")


def _sources(spec: RunSpec) -> tuple[str, ...]:
    """The parts of a dataset, in the order of the paper's task numbers."""
    card = datasets.CARDS.get(spec.data.dataset)
    return () if card is None else card.members or tuple(name for name, _ in card.sources)


def pecl_named(row: Published) -> tuple[str, str]:
    """The same names for a printed number."""
    variant = row.variant if row.variant not in _FULL else ""
    if variant == "lambda 0":
        variant = _UNLEARNING
    order = {"order2": "order 2", "order3": "order 3"}.get(row.dataset, "")
    return row.method, ", ".join(part for part in (variant, order) if part)


def pecl_departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, and its choices where the paper specifies none; one sentence each."""
    spec, lines = run.spec, of_data(run)
    if (n_texts := spec.data.train_per_class or spec.data.train_per_source) is not None:
        of_what = "task" if spec.data.train_per_class is None else "class"
        lines.append(f"Sizes: about {n_texts:,} texts of a {of_what}. The paper draws 3,000 of every task; FOMC has fewer.")
    if spec.data.backbone != f"hf:{_BASE}":
        lines.append(f"Model: {backbone_title(spec.data.backbone)}, instead of LLaMA-2 with 7 billion weights.")
    return [*lines, *methods.card(spec.method).differences(spec)]


# Tobaben et al. 2025: the paper's names of our runs, and their differences; the rest is in `assets/papers/tobaben.toml`.


_BACKBONE = "timm:vit_base_patch16_224.augreg_in21k"


def tobaben_printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and trained part; the paper does not specify the latter for Naive."""
    return methods.card(spec.method).table_names(spec)


def tobaben_departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, one sentence each."""
    spec, sentences = run.spec, list[str]()
    if spec.data.backbone != _BACKBONE:
        ours = backbone_title(spec.data.backbone)
        sentences.append(f"Network: {ours}, instead of a ViT-B/16 trained on ImageNet-21k.")
    sentences += of_data(run)
    card = methods.card(spec.method)
    otherwise = {one.parameter: one for one in card.printed.layer(spec).departures}
    if (epochs := otherwise.get("params.epochs")) is not None:
        sentences.append(f"Epochs: {epochs.here} for {card.title}, instead of {epochs.printed}.")
    if "tuned" in otherwise:
        how = "none" if spec.tuned == "no" else "the learning rate alone, on public data"
        sentences.append(
            f"Tuning: {how}, the same for all budgets. The paper tried 20 settings for each budget and seed, at no "
            "accounted cost."
        )
    sentences.append("Noise: calibrated exactly to ε, and sums divided by a public constant, so that ε holds as stated.")
    return sentences


def tobaben_named(row: Published) -> tuple[str, str]:
    """The same names for a printed number."""
    return row.method, row.variant


# BibTeX of this project and of the papers that a run's method comes from.


_ENTRY = re.compile(r"@\w+\{.*?^\}", re.DOTALL | re.MULTILINE)
_AUTHOR = re.compile(r"author = \{(\w+),")


def of(spec: RunSpec) -> str:
    """The entries of `assets/citations.bib` for a run: the project's own, and those whose first author its method names."""
    card = methods.CARDS.get(spec.method)
    layer = methods.layer(spec)
    named = f"{'' if card is None else card.source} {'' if layer is None else layer.source}"
    entries = _ENTRY.findall((paths.assets_dir() / "citations.bib").read_text(encoding="utf-8"))
    chosen = [one for one in entries if (author := _AUTHOR.search(one)) is None or author[1] in named]
    return "\n\n".join(chosen) + "\n"


PAPERS: Mapping[str, Paper] = {name: load(name) for name in ("tobaben", "lifelong", "pecl", "cslr")}


def paper(name: str) -> Paper:
    """A paper. Raises BadInput naming the known ones."""
    if name not in PAPERS:
        raise unknown("paper", name, PAPERS)
    return PAPERS[name]


def experiment(of: Paper, name: str) -> Experiment:
    """An experiment of a paper. Raises BadInput naming the known ones."""
    by_name = {experiment.name: experiment for experiment in of.experiments}
    if name not in by_name:
        raise unknown("--experiment", name, by_name)
    return by_name[name]


# Lai et al. 2022: the paper's names of our runs, and their differences; the rest is in `assets/papers/lifelong.toml`.
#
# Its epsilon for L2DP-ML is a nominal number (see the claim beside every such run): comparisons "at equal epsilon" repeat
# what the paper compares, and say nothing about privacy.


_HARW = "harw_"
_SELECTED = "selected by the paper"


def lifelong_printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant; for activity recordings, with the order of the sampling rates."""
    method, variant = methods.card(spec.method).table_names(spec)
    order = "" if methods.card(spec.method).trains_on == "all" else _lifelong_order(spec)
    return method, ", ".join(part for part in (variant, order) if part)


def _lifelong_order(spec: RunSpec) -> str:
    if not isinstance(spec.scenario, SourceIncremental) or spec.scenario.order is None:
        return ""
    return "-".join(name.removesuffix(" Hz") for name in spec.scenario.order) + " Hz"


def lifelong_named(row: Published) -> tuple[str, str]:
    """The same names for a printed number, without the settings of the paper's baseline that it selected from a grid."""
    variant = "" if row.note == _SELECTED else row.variant
    rates = row.dataset.removeprefix(_HARW)
    order = f"{rates} Hz" if rates != row.dataset and rates[0].isdigit() else ""
    return row.method, ", ".join(part for part in (variant, order) if part)


def lifelong_departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, and its choices where the paper specifies none; one sentence each."""
    return [*of_data(run), *methods.card(run.spec.method).differences(run.spec)]
