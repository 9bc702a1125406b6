"""Zhan et al., PeCL: experiments, claims, remarks.

The budgets of its tokens, 1 to 10, are nominal numbers: no bound stands behind them (see the claim beside every such run).
Its rows stand at 10, the budget of the least noised token; the baselines' 1 is for a text, or for a token, never for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpcl_core.data import catalog as datasets
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.cards.network_params import LanguageParams
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.papers import differences, pecl_remarks
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Ordering, Side
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.spec import RunSpec

UPPER, BASELINE = 10.0, 1.0
_METHODS = {
    "pecl-published": "PeCL",
    "lm-seqft": "SeqFT",
    "lm-er": "ER",
    "lm-ewc": "EWC",
    "lm-gem": "GEM",
    "lm-olora": "O-LoRA",
    "lm-mtl": "MTL",
}
_MECHANISMS = {"dp-sgd": "DPSGD", "fn": "FN"}
_ORDERS: Mapping[tuple[int, ...], str] = {(5, 4, 3, 2, 1, 0): "order 2", (3, 4, 0, 2, 5, 1): "order 3"}  # places in order 1
_BASE = "meta-llama/Llama-2-7b-hf"
_UNLEARNING = "w/o Unlearning"
_FULL = ("alpha 0.5", "lambda 1", "theta 0.6")  # what sweeps call the method as it is elsewhere


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant, with the order of the tasks where it is not the first one."""
    method, variant = _METHODS.get(spec.method, spec.method), ""
    if isinstance(spec.params, PeclParams):
        method, variant = "Repair: PeCL", spec.params.mode
    elif isinstance(spec.params, BaselineParams):
        variant = _MECHANISMS[spec.params.mechanism]
    elif isinstance(spec.params, PublishedParams):
        variant = _variant(spec.params)
    return method, ", ".join(part for part in (variant, _order(spec)) if part)


def _variant(params: PublishedParams) -> str:
    """What is left out, or what differs from the settings of table 1."""
    unlearns = params.unlearning != "none" and params.lambda_unlearn > 0
    parts = ["w/o TDP"] if params.granularity == "sentence" else []
    if not params.stability:
        parts.append("w/o MemReg" if unlearns else "w/o PMS")
    elif not unlearns:
        parts.append(_UNLEARNING)
    swept = (("alpha", params.alpha, 0.5), ("theta", params.theta, 0.6))
    parts += [f"{name} {value:g}" for name, value, usual in swept if value != usual]
    if unlearns and params.lambda_unlearn != 1:
        parts.append(f"lambda {params.lambda_unlearn:g}")
    return ", ".join(parts)


def _order(spec: RunSpec) -> str:
    scenario, sources = spec.scenario, _sources(spec)
    if not isinstance(scenario, SourceIncremental) or scenario.order is None or len(scenario.order) != len(sources):
        return ""
    return _ORDERS.get(tuple(sources.index(name) for name in scenario.order), "")


def _sources(spec: RunSpec) -> tuple[str, ...]:
    """The parts of a dataset in the order in which the paper numbers the tasks that they stand for."""
    card = datasets.CARDS.get(spec.data.dataset)
    return () if card is None else card.members or tuple(name for name, _ in card.sources)


def named(row: Published) -> tuple[str, str]:
    """The same of a printed number."""
    variant = row.variant if row.variant not in _FULL else ""
    if variant == "lambda 0":
        variant = _UNLEARNING
    order = {"order2": "order 2", "order3": "order 3"}.get(row.dataset, "")
    return row.method, ", ".join(part for part in (variant, order) if part)


def departs(run: Measured) -> list[str]:
    """How a run differs from what the paper did, and what it took where the paper says nothing."""
    spec, params, told = run.spec, run.spec.params, differences.of_data(run)
    if (kept := spec.data.train_per_class or spec.data.train_per_source) is not None:
        of_what = "task" if spec.data.train_per_class is None else "class"
        told.append(f"Sizes: about {kept:,} texts of a {of_what}. The paper draws 3,000 of every task; FOMC has fewer.")
    if spec.data.backbone != f"hf:{_BASE}":
        told.append(f"Model: {differences.backbone_title(spec.data.backbone)}, instead of LLaMA-2 with 7 billion weights.")
    if isinstance(params, LanguageParams):
        told.append(
            "Not given in the paper: prompts and how an answer is read, LoRA's rank and layers, the length of texts, how "
            f"data were split, repetitions. Ours: labels ranked by their likelihood, rank {params.lora_rank} on the "
            f"attention's projections, {params.length} tokens, {len(spec.seeds)} seed{'s' if len(spec.seeds) != 1 else ''}."
        )
    if isinstance(params, PublishedParams):
        told.append(
            "Not given either: the clipping norm C of embeddings, which model scores a token, whether noise is drawn anew. "
            f"Ours: the median embedding's length, the {'public' if params.score_model == 'base' else 'trained'} model, and "
            "noise drawn anew in every pass; tokens of prompts and answers are neither clipped nor noised."
        )
    if isinstance(params, BaselineParams):
        told.append(
            "Not given of the baselines: clipping norms, sizes of buffers, weights of penalties, and what ε = 1 is for. "
            "Ours: for the training of one task under DPSGD, more in all where texts are read again; for one token in one "
            "place under FN, more for a text. Each ledger tells the total."
        )
    if isinstance(params, BaselineParams) and params.mechanism == "fn":
        told.append(
            "FN: the paper's noise for ε = 1 holds for half the distance between two clipped embeddings, and is that of "
            "ε = 1.6574 here, which holds for all of it; ours is drawn once."
        )
    return told


def _higher(statement: str, first: Side, second: Side, metric: str = "AA") -> Ordering:
    return Ordering(statement, first, second, metric)


def _in(*tables: str) -> Callable[[Published], bool]:
    return lambda row: row.table in tables


def _pecl(label: str = "pecl") -> Side:
    return Side(label, UPPER)


def _base(label: str) -> Side:
    return Side(label, BASELINE)


_NAMES = {"seqft": "SeqFT", "er": "ER", "ewc": "EWC", "gem": "GEM", "olora": "O-LoRA"}
_RUNS = {f"{name}-{how}": f"{title}+{how.upper()}" for how in ("dpsgd", "fn") for name, title in _NAMES.items()}
_MAIN = (
    *(_higher(f"PeCL is above {title}", _pecl(), _base(label)) for label, title in _RUNS.items()),
    *(_higher(f"PeCL forgets less than {title}", _pecl(), _base(label), "BWT") for label, title in _RUNS.items()),
    _higher("PeCL is above MTL+DPSGD, called an upper bound", _pecl(), _base("mtl-dpsgd")),
    _higher("PeCL is above MTL+FN, called an upper bound", _pecl(), _base("mtl-fn")),
    *(
        _higher(f"SeqFT is worst: {title}+{how.upper()} is above it", _base(f"{name}-{how}"), _base(f"seqft-{how}"))
        for how in ("dpsgd", "fn")
        for name, title in _NAMES.items()
        if name != "seqft"
    ),
)
_PLACES = ("", "-order2", "-order3")
_BY_ORDER = tuple(
    _higher(f"{what} {_RUNS[label]} in order {place + 1}", _pecl(f"pecl{end}"), _base(f"{label}{end}"), metric)
    for place, end in enumerate(_PLACES)
    for label in ("er-dpsgd", "er-fn", "ewc-dpsgd", "ewc-fn")
    for what, metric in (("PeCL is above", "AA"), ("PeCL forgets less than", "BWT"))
)
_PARTS = (
    ("no-tdp", "noise for each token (TDP)"),
    ("no-pms", "sculpting the memory (PMS)"),
    ("no-memreg", "holding the adapters (MemReg)"),
    ("no-unlearning", "unlearning"),
)
_ABLATIONS = tuple(
    _higher(f"{title[0].upper()}{title[1:]} {what}", _pecl(), _pecl(label), metric)
    for label, title in _PARTS
    for what, metric in (("raises accuracy", "AA"), ("lessens forgetting", "BWT"))
)


def _best(run: str, others: tuple[str, ...], name: str) -> tuple[Ordering, ...]:
    """The paper's choice is said to be the best of a sweep, in accuracy and in forgetting."""
    return tuple(
        _higher(f"{run} {what} {name} {value}", _pecl(), _pecl(f"{name}-{value}"), metric)
        for value in others
        for what, metric in (("is above", "Avg"), ("forgets less than", "BWT"))
    )


_NOMINAL = (
    "ε = 10 of PeCL is the paper's nominal budget of its least noised token, no guarantee: noise chosen by the text itself, "
    "stop words without any, losses that read the text. ε = 1 of the baselines and of the repairs comes from their ledgers."
)
_UNLIKE = (
    "The comparison is not like with like, in the paper or here: DPSGD protects a text, FN one token, and PeCL's budgets "
    "range over tokens."
)
_SIX = (
    "The posts on mental illness and the Yahoo topics could not be found or ask for an agreement: Dreaddit and DBpedia "
    "stand in. The paper's Amazon is used with two classes by others, ours has five. So no difference is formed."
)
_SMALL = (
    "A small model, a handful of texts and a few steps: accuracies of the two cannot be compared, and with so little to "
    "learn from even directions seldom can."
)
_COLUMNS = "Accuracies of single tasks are by place in the order, as the printed columns are far better explained."


def _experiment(
    name: str, title: str, question: str, table: str, orderings: tuple[Ordering, ...], *departures: str
) -> Experiment:
    return Experiment(
        name=f"paper-pecl-{name}",
        title=title,
        question=question,
        table=table,
        prints=_in(table),
        n_classes=41,
        orderings=orderings,
        departures=(_NOMINAL, *departures, _SIX),
        small_departures=(_SMALL,),
    )


EXPERIMENTS = (
    _experiment(
        "main", "PeCL and its baselines",
        "Six text tasks one after another: which method still knows the first after the last?", "1", _MAIN, _UNLIKE,
    ),
    _experiment(
        "orders", "Three orders of the tasks", "Does the ranking of the methods depend on which task comes first?",
        "3", _BY_ORDER, _UNLIKE, _COLUMNS,
    ),
    _experiment(
        "ablations", "PeCL without its parts", "What is lost without noise for each token, or without sculpting the memory?",
        "2", _ABLATIONS,
    ),
    _experiment(
        "alpha", "Weight of surprise in the score", "How much should a token's surprise count beside how common it is?",
        "4", _best("alpha = 0.5", ("0.2", "0.3", "0.7", "0.8"), "alpha"),
    ),
    _experiment(
        "lambda", "Weight of unlearning", "How strongly should surprising tokens be unlearned?",
        "5", _best("lambda = 1", ("0", "3", "5", "7", "10"), "lambda"),
    ),
    _experiment(
        "theta", "Threshold of unlearning", "From which score on should a token be unlearned?",
        "figure 5b", _best("theta = 0.6", ("0.3", "0.9"), "theta"),
    ),
)  # fmt: skip
PAPER = Paper(
    name="pecl",
    title="Zhan et al., PeCL",
    source="Forget What's Sensitive, Remember What Matters, tables 1 to 5 and figure 5b",
    experiments=EXPERIMENTS,
    remarks=pecl_remarks.REMARKS,
    printed_as=printed_as,
    departs=departs,
    named=named,
    nominal=(_METHODS["pecl-published"],),
    metrics=("AA", "BWT", "Avg", *(f"task{k}" for k in range(1, 7))),
)
