"""Trains large public networks on what any method may learn from any data, and writes docs/combinations.json.

    python -m scripts.record_combinations [NAME ...]

Needs `DPCL_DATA` and the weights of MiniLM, EfficientNet-Lite0 and SmolLM2. Without names it carries out what is not
recorded. Each training is small, for one seed, at ε = 8 and without noise; without noise it must beat chance by `MARGIN`,
which was set before the first was run. `scripts/docs_pages.py` shows the figures.
"""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dpcl_core import checks, engine, machine
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.events import CellFinished, References, of_kind
from scripts.docs_pages import COMBINATIONS, ROOT

MARGIN = 0.1
EPSILONS = (8.0, math.inf)
_LORA = {"adapter": "lora", "epochs": 4, "sample_rate": 0.1, "learning_rate": 0.005}
_LM = {"length": 32, "epochs": 1, "batch_size": 16}
_CLASSES, _CLIENTS = {"kind": "class-incremental", "tasks": 2}, {"clients": 20, "alpha": 5.0}
_REPLAYED = {"epochs": 10, "sample_rate": 0.2, "memory_size": 40}
_LISTS = {"dimensions": 32, "anchors": 200, "restarts": 1}
# By what is new: method, data, network, stream, settings, examples of a class.
ROWS: Mapping[str, tuple[str, str, str, Mapping[str, object], Mapping[str, object], int]] = {
    "clients with photographs": ("label-means", "cifar10", "lite0", {**_CLASSES, **_CLIENTS}, {}, 60),
    "clients with photographs, blurred": (
        "cslr-server-head", "cifar10", "lite0", {"kind": "si-blurry", "tasks": 2, **_CLIENTS}, _LISTS, 120),
    "clients with photographs, by source": (
        "dp-fedavg", "pacs", "lite0", {"kind": "source-incremental", **_CLIENTS}, {"rounds": 20}, 40),
    "a head network on photographs": (
        "dp-agem", "cifar10", "lite0", {"kind": "split", "tasks": 5}, _REPLAYED, 60),
    "a head network on texts": (
        "dp-agem", "ag_news", "minilm", {"kind": "split", "tasks": 2}, _REPLAYED, 100),
    "sums of texts, by source": ("dp-coeff-memory", "amazon-domains", "minilm", {"kind": "source-incremental"}, {}, 20),
    "clients with texts, blurred": (
        "label-means", "ag_news", "minilm", {"kind": "i-blurry", "tasks": 2, **_CLIENTS}, {}, 100),
    "LoRA on texts": ("peft-ensemble", "ag_news", "minilm", _CLASSES, _LORA, 30),
    "LoRA on a language model's blocks": ("peft-ensemble", "ag_news", "smollm2", _CLASSES, _LORA, 30),
    "a language model on a blurred stream": (
        "lm-seqft", "ag_news", "smollm2", {"kind": "i-blurry", "tasks": 2}, _LM, 40),
    "one class against the rest in photographs": ("cosine", "cifar10", "lite0", {"kind": "one-vs-rest"}, {}, 60),
}  # fmt: skip


def settings(name: str) -> dict[str, Any]:
    """The run of this name, as it is checked."""
    method, dataset, network, stream, params, n = ROWS[name]
    per = "train_per_source" if dataset in ("pacs", "amazon-domains") else "train_per_class"
    data: dict[str, object] = {"dataset": dataset, "backbone": network, per: n if per.endswith("class") else 8 * n}
    data |= {"test_per_class": 15} | ({"resolution": 96} if network == "lite0" else {})
    privacy = {"epsilons": list(EPSILONS), "delta": 1e-4}
    return {"method": method, "data": data, "scenario": stream, "params": params, "privacy": privacy, "seeds": [0],
            "labels": "prior-const"}  # fmt: skip


def carried_out(name: str) -> dict[str, object]:
    """One training: its minutes, its scores by ε, and chance. Raises ValueError where it learns too little without noise."""
    began = time.monotonic()
    events = list(engine.run(checks.parse(settings(name))))
    known, *_ = of_kind(events, References)
    scores = {str(one.cell.epsilon): one.metrics["AA"] for one in of_kind(events, CellFinished)}
    if (scores["inf"] or 0.0) < known.chance + MARGIN:
        raise ValueError(f"{scores['inf']} without noise, and chance is {known.chance}")
    method, dataset, network, stream, *_ = ROWS[name]
    return {
        "method": method, "dataset": dataset, "network": network, "stream": stream["kind"], "scores": scores,
        "chance": known.chance, "minutes": round((time.monotonic() - began) / 60, 1), "commit": machine.commit(),
    }  # fmt: skip


def main(named: Sequence[str]) -> int:
    """Carries out and records; exit status 1 where something could not start, or learned too little."""
    path = ROOT / COMBINATIONS
    record: dict[str, object] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    status = 0
    for name in named or [name for name in ROWS if name not in record]:
        try:
            record[name] = carried_out(name)
        except (BadInput, DataMissing, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        print(name, record[name], flush=True)
        kept = {one: record[one] for one in ROWS if one in record}
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
