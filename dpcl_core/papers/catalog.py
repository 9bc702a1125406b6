"""The papers by name: what each calls our runs, and how these differ from it. The rest is in `assets/papers/NAME.toml`.

Epsilons of Lai et al. and of Shihab et al. are claims that no accountant supports, those of Zhan et al. nominal numbers
without a bound; of our runs, the repairs keep theirs by their ledgers. Comparisons "at equal epsilon" repeat what a paper
compares, and say nothing about privacy.
"""

import json
import re
from collections.abc import Mapping
from functools import cache

from dpcl_core import paths
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import entry
from dpcl_core.methods import catalog as methods
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Paper, backbone_title, load, of_data
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import Federated, SourceIncremental
from dpcl_core.spec import RunSpec

_USUAL = ("L = 4", "m = 100", "alpha 0.5", "lambda 1", "theta 0.6")  # what sweeps call a method as it is elsewhere
# Of PeCL's tasks: places in order 1.
_ORDERS: Mapping[tuple[int, ...], str] = {(5, 4, 3, 2, 1, 0): "order 2", (3, 4, 0, 2, 5, 1): "order 3"}


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """A paper's names of a run's method and variant; a method that is not in it is named a repair, or added."""
    return methods.card(spec.method).table_names(spec)


def printed_names(row: Published) -> tuple[str, str]:
    """The same two names for a printed number."""
    return row.method, row.variant


def differences(run: Measured) -> list[str]:
    """How a run differs from its paper, and its choices where the paper specifies none; one sentence each."""
    return [*of_data(run), *methods.card(run.spec.method).differences(run.spec)]


def _cslr_named(row: Published) -> tuple[str, str]:
    """Lists of one entry (L = 1) are DP-Stat-Share, with the same numbers."""
    return ("DP-Stat-Share", "") if row.variant == "L = 1" else (row.method, "" if row.variant in _USUAL else row.variant)


@cache
def proxies(dataset: str, method: str) -> tuple[tuple[str, int], ...]:
    """The public datasets on which `scripts/tune_federated.py` chose a method's settings, each with the trials of a row.

    Raises FileNotFoundError without its record, which is part of the project.
    """
    rows = json.loads((paths.assets_dir() / "tuning" / "federated.json").read_text(encoding="utf-8"))["rows"]
    found = [row for row in rows if (row["dataset"], row["method"]) == (dataset, method)]
    return tuple(dict.fromkeys((row["proxy"], len(row["trials"])) for row in found))


def _cslr_differences(run: Measured) -> list[str]:
    spec, found = run.spec, of_data(run)
    if isinstance(spec.scenario, Federated):
        protocol = spec.scenario.protocol
        known = "known" if protocol == "one-vs-rest" else "not known"
        paper = "The paper's own does not follow from its text."
        found.append(f"Protocol: {protocol}, the task {known} when tested. {paper}")
    if spec.tuned == "public":
        for proxy, n_trials in proxies(spec.data.dataset, spec.method):
            found.append(
                f"Head size, rounds, share of clients, axes and radius: the best of {n_trials} settings on public texts "
                f"({datasets.card(proxy).title}), as many for every row that has them."
            )
    return [*found, *methods.card(spec.method).differences(spec)]


def _joined(method: str, *parts: str) -> tuple[str, str]:
    """A method, and its variant with the order of the tasks where that is named."""
    return method, ", ".join(filter(None, parts))


def _order(spec: RunSpec) -> tuple[str, ...]:
    """The sources in the order of the tasks, where the run names one."""
    return (spec.scenario.order or ()) if isinstance(spec.scenario, SourceIncremental) else ()


def _pecl_printed_as(spec: RunSpec) -> tuple[str, str]:
    """Orders 2 and 3 of the tasks are named; places are those in the order of the paper's task numbers."""
    card, order = datasets.CARDS.get(spec.data.dataset), _order(spec)
    sources = () if card is None else card.members or tuple(name for name, _ in card.sources)
    places = tuple(map(sources.index, order)) if len(order) == len(sources) else ()
    return _joined(*printed_as(spec), _ORDERS.get(places, ""))


def _pecl_named(row: Published) -> tuple[str, str]:
    variant = "w/o Unlearning" if row.variant == "lambda 0" else "" if row.variant in _USUAL else row.variant
    return _joined(row.method, variant, {"order2": "order 2", "order3": "order 3"}.get(row.dataset, ""))


def _pecl_differences(run: Measured) -> list[str]:
    spec, found = run.spec, of_data(run)
    if (n_texts := spec.data.train_per_class or spec.data.train_per_source) is not None:
        of_what = "task" if spec.data.train_per_class is None else "class"
        found.append(f"Sizes: about {n_texts:,} texts of a {of_what}. The paper draws 3,000 of every task; FOMC has fewer.")
    if spec.data.backbone != "hf:meta-llama/Llama-2-7b-hf":
        found.append(f"Model: {backbone_title(spec.data.backbone)}, instead of LLaMA-2 with 7 billion weights.")
    return [*found, *methods.card(spec.method).differences(spec)]


def _tobaben_differences(run: Measured) -> list[str]:
    spec, found = run.spec, list[str]()
    if spec.data.backbone != "timm:vit_base_patch16_224.augreg_in21k":
        found.append(f"Network: {backbone_title(spec.data.backbone)}, instead of a ViT-B/16 trained on ImageNet-21k.")
    found += of_data(run)
    card = methods.card(spec.method)
    otherwise = {one.parameter: one for one in card.printed.layer(spec).departures}
    if (epochs := otherwise.get("params.epochs")) is not None:
        found.append(f"Epochs: {epochs.here} for {card.title}, instead of {epochs.printed}.")
    if "tuned" in otherwise:
        how = "none" if spec.tuned == "no" else "the learning rate alone, on public data"
        found.append(
            f"Tuning: {how}, the same for all budgets. The paper tried 20 settings for each budget and seed, at no "
            "accounted cost."
        )
    return [*found, "Noise: calibrated exactly to ε, and sums divided by a public constant, so that ε holds as stated."]


def _lifelong_printed_as(spec: RunSpec) -> tuple[str, str]:
    """For activity recordings, with the order of the sampling rates."""
    order = () if methods.card(spec.method).trains_on == "all" else _order(spec)
    return _joined(*printed_as(spec), f"{'-'.join(name.removesuffix(' Hz') for name in order)} Hz" if order else "")


def _lifelong_named(row: Published) -> tuple[str, str]:
    """Without the settings of the paper's baseline that it selected from a grid."""
    rates = row.dataset.removeprefix("harw_")
    order = f"{rates} Hz" if rates != row.dataset and rates[0].isdigit() else ""
    return _joined(row.method, "" if row.note == "selected by the paper" else row.variant, order)


# BibTeX of this project and of the papers that a run's method comes from.


def citations(spec: RunSpec) -> str:
    """The entries of `assets/citations.bib` for a run: the project's own, and those whose first author its method names."""
    card = methods.CARDS.get(spec.method)
    layer = methods.layer(spec)
    named = f"{'' if card is None else card.source} {'' if layer is None else layer.source}"
    known = (paths.assets_dir() / "citations.bib").read_text(encoding="utf-8")
    entries = re.findall(r"@\w+\{.*?^\}", known, re.DOTALL | re.MULTILINE)
    chosen = [one for one in entries if (author := re.search(r"author = \{(\w+),", one)) is None or author[1] in named]
    return "\n\n".join(chosen) + "\n"


PAPERS: Mapping[str, Paper] = {
    "tobaben": load("tobaben", printed_as, printed_names, _tobaben_differences),
    "lifelong": load("lifelong", _lifelong_printed_as, _lifelong_named, differences),
    "pecl": load("pecl", _pecl_printed_as, _pecl_named, _pecl_differences),
    "cslr": load("cslr", printed_as, _cslr_named, _cslr_differences),
}


def paper(name: str) -> Paper:
    """A paper. Raises BadInput naming the known ones."""
    return entry("paper", name, PAPERS)


def experiment(of: Paper, name: str) -> Experiment:
    """An experiment of a paper. Raises BadInput naming the known ones."""
    return entry("--experiment", name, {experiment.name: experiment for experiment in of.experiments})
