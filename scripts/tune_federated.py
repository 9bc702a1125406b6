"""Searches the settings of the federated rows on public texts that stand in for a benchmark, with the same budget for each.

    python -m scripts.tune_federated [--experiment NAME]      adds to assets/tuning/federated.json the rows that are missing
    python -m scripts.tune_federated --row LABEL              searches a row again

Every row of a paper's experiment (small form) draws as many settings from the same table, the first being the values its
card has by default. What scores best on the proxy is chosen; nobody looks at the benchmark. Presets then hold the chosen
settings and `tuned = "public"`. Rows "as printed" have nothing to choose, and rows without noise take those of their method.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core import checks, machine, presets
from dpcl_core.backbones import extractor as features
from dpcl_core.data import load
from dpcl_core.data.texts import Sentences
from dpcl_core.errors import BadInput, Diverged
from dpcl_core.events import plain_number
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.classifier import evaluated
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, Table, generator
from dpcl_core.spec import Cell, DataSpec, RunSpec, fields_of

FILE = Path(__file__).resolve().parent.parent / "assets" / "tuning" / "federated.json"
N_TRIALS, N_FINALISTS = 12, 3  # settings that a row tries, and those that are tried again with further seeds
SEEDS, MORE_SEEDS = (1009, 1013), (1019, 1021, 1031)  # of clients, weights and noise; no record uses them
# What may be tried, by setting: a row draws those that its method has. `steps` are the rounds of a head on the server,
# `clip_norm` is the radius of the head's updates; what it cuts off depends on the learning rate, so both are drawn.
SPACE: Mapping[str, tuple[object, ...]] = {
    "hidden": (0, 32, 128),
    "rounds": (2, 5, 10),
    "steps": (100, 300, 1000),
    "participation": (0.3, 1.0),
    "dimensions": (8, 16, 32),
    "axes_of": ("sentences", "topics"),
    "radius": (0.1, 0.2, 0.4),
    "clip_norm": (0.1, 0.3, 1.0),
    "learning_rate": (3e-4, 3e-3, 3e-2),
}
NOT_TUNED = ("as-printed", "literal", "without-noise", "server-head-32")


@dataclass(frozen=True)
class Proxy:
    """Public texts in place of an experiment's, and the changes that make a stream of them."""

    dataset: str
    changes: Mapping[str, object]


_ARTICLES = {
    "data.train_per_class": 250,
    "data.test_per_class": 100,
    "scenario.order": ["Company", "Educational Institution", "Artist", "Athlete"],
}
PROXIES: Mapping[str, Proxy] = {
    "paper-cslr-ag-news": Proxy("dbpedia14", _ARTICLES),
    "paper-cslr-ag-news-ovr": Proxy("dbpedia14", _ARTICLES),
    "paper-cslr-amazon": Proxy(
        # Has no domains: five questions on the stars of reviews, two answers each. For fifty clients its texts are too few.
        "yelp",
        {
            "scenario.clients": 20,
            "data.train_per_class": 400,
            "data.test_per_class": 100,
            "scenario.protocol": "one-vs-rest",
            "scenario.order": None,
        },
    ),
    "paper-cslr-multiwoz": Proxy(
        "sgd-intent", {"scenario.order": ["banks", "buses", "events", "flights", "hotels", "media", "movies"]}
    ),
    "paper-cslr-ner": Proxy("ner-wnut17", {"scenario.order": None}),
}


def searched(spec: RunSpec, proxy: Proxy) -> RunSpec:
    """The run on the proxy, at its finite budgets if it has any: the benchmark's data are out of reach from here on."""
    epsilons = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)] or [math.inf]
    changes = {"data.dataset": proxy.dataset, "privacy.epsilons": epsilons, "tuned": "public", **proxy.changes}
    return checks.parse(checks.changed(asdict(spec), changes))


def settings(spec: RunSpec, label: str) -> list[dict[str, object]]:
    """The settings that a row tries: its card's defaults first, then draws without repetition that depend on its label."""
    fields = set(fields_of(type(spec.params)))
    fields -= set() if "clip_norm" in fields else {"learning_rate"}
    own = {name: values for name, values in SPACE.items() if name in fields}
    usual = type(spec.params)()
    first = {name: getattr(usual, name) for name in own}
    grid = [dict(zip(own, values, strict=True)) for values in product(*own.values())]
    order = generator(0, f"settings of {label}").permutation(len(grid))
    return [first, *(grid[place] for place in order if grid[place] != first)][:N_TRIALS]


def accuracies(spec: RunSpec, seeds: Sequence[int]) -> list[float]:
    """Final average accuracy (entity F1 for tags) in [0, 1] of every seed and budget, by the method's own learner."""
    table, public = _table(spec.data), _anchors(spec.data) if methods.card(spec.method).needs_anchors else None
    scores: list[float] = []
    for seed in seeds:
        stream = scenarios.open_stream(spec.scenario, table, seed)
        context = PublicContext(
            n_people=table.n_people,
            n_tasks=len(stream.tasks),
            n_classes=len(stream.classes),
            recurrence=stream.recurrence,
            n_users=spec.scenario.n_users,
            n_inputs=table.train.table.shape[1],
            public=checks.public_classes(spec, stream.classes),
            classes=stream.classes,
            anchors=public,
        )
        for cell in (Cell(epsilon, seed) for epsilon in spec.privacy.epsilons):
            learner = methods.maker(spec.method)(spec, [cell], context)
            ledger = Ledger(spec.privacy.delta, spec.privacy.adjacency, stream.recurrence)
            for task in stream.tasks:
                for _ in learner.learn({seed: task}, {cell: ledger}):
                    pass
            (result,) = evaluated(learner, seed, stream, len(stream.tasks) - 1, 1)
            scores.append(mean(value or 0.0 for value in result.by_task))
    return scores


@cache
def _table(data: DataSpec) -> Table:
    dataset = load.load_dataset(data)
    train, test = (
        Examples(
            features.features(data.backbone, part.images),
            part.labels,
            sentences=part.images.sentence_of if isinstance(part.images, Sentences) else None,
            keys=part.keys,
        )
        for part in (dataset.train, dataset.test)
    )
    return Table(
        train=train,
        test=test,
        classes=dataset.classes,
        train_sources=dataset.train.sources,
        test_sources=dataset.test.sources,
        sources=dataset.sources,
        n_people=dataset.n_people,
    )


@cache
def _anchors(data: DataSpec) -> NDArray[np.float32]:
    sentences = load.public_sentences(is_tagged=_table(data).train.sentences is not None)
    return features.features(data.backbone, sentences.content)[sentences.rows]


def tuned(experiment: str, label: str, spec: RunSpec) -> dict[str, Any]:
    """One row's record: what was tried and how it scored, in the order of the trials, and what was chosen."""
    proxy, started = PROXIES[experiment], time.process_time()  # a halt, or another program, does not count
    base = searched(spec, proxy)
    trials: list[dict[str, Any]] = [{"settings": values, "scores": [], "trouble": None} for values in settings(base, label)]
    for trial in trials:
        _try(trial, base, SEEDS)
    finalists = sorted(trials, key=_score, reverse=True)[:N_FINALISTS]
    for trial in finalists:
        _try(trial, base, MORE_SEEDS)
    return {
        "experiment": experiment,
        "row": label,
        "method": spec.method,
        "dataset": spec.data.dataset,
        "proxy": proxy.dataset,
        "network": spec.data.backbone,
        "epsilons": [plain_number(epsilon) for epsilon in base.privacy.epsilons],
        "seeds": [*SEEDS, *MORE_SEEDS],
        "machine": machine.machine(),
        "commit": machine.commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seconds": round(time.process_time() - started, 1),
        "chosen": max(finalists, key=_score)["settings"],
        "trials": trials,
    }


def _try(trial: dict[str, Any], base: RunSpec, seeds: Sequence[int]) -> None:
    """Adds the scores of these seeds to a trial, or the reason why there are none."""
    try:
        spec = checks.parse(checks.changed(asdict(base), {f"params.{k}": v for k, v in trial["settings"].items()}))
        checks.check_run(spec)
        trial["scores"] += [round(score, 4) for score in accuracies(spec, seeds)]
    except (BadInput, Diverged) as error:
        trial["trouble"] = str(error)


def _score(trial: Mapping[str, Any]) -> float:
    return mean(trial["scores"]) if trial["scores"] and not trial["trouble"] else 0.0


def read() -> list[dict[str, Any]]:
    """The records of all rows tuned so far."""
    return list(json.loads(FILE.read_text(encoding="utf-8"))["rows"]) if FILE.exists() else []


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiment", choices=tuple(PROXIES), help="one experiment (default: all)")
    parser.add_argument("--row", help="one row by its label, even if it is there (default: those that are missing)")
    options = parser.parse_args(arguments)
    for experiment in [options.experiment] if options.experiment else PROXIES:
        for label, spec in presets.variants(f"{experiment}-small").items():
            is_there = any((one["experiment"], one["row"]) == (experiment, label) for one in read())
            if label in NOT_TUNED or (is_there if options.row is None else options.row != label):
                continue
            row = tuned(experiment, label, spec)
            others = [one for one in read() if (one["experiment"], one["row"]) != (experiment, label)]
            lines = ",\n".join(json.dumps(one) for one in [*others, row])
            FILE.write_text(f'{{"rows": [\n{lines}\n]}}\n', encoding="utf-8")
            scores = [round(100 * _score(trial)) for trial in row["trials"]]
            print(experiment, label, scores, row["chosen"], f"{row['seconds']:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
