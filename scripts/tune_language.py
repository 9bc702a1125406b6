"""Settings of PeCL and its baselines on SmolLM2, searched on public texts that no experiment uses.

    python -m scripts.tune_language            # about three hours of one core; writes assets/language/tuned.json

The proxy is TREC: questions of six kinds, two tasks of three kinds each, and as many steps of an optimiser in all as the
presets have, for the noise of all steps adds up in the adapters: with a third of them a rate came out best that is far too
high for six tasks. Every row of the comparison gets the same search: each learning rate with one seed, and the one with the
highest accuracy after the last task wins; ties go to the smaller rate. Presets that use these settings say tuned = "public".
"""

import argparse
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dpcl_core import checks, engine
from dpcl_core.events import TaskLearned
from dpcl_core.spec import RunSpec

OUT = Path(__file__).resolve().parent.parent / "assets" / "language" / "tuned.json"
RATES = (1e-3, 3e-3, 1e-2)
DELTA = 1e-6
BASE: Mapping[str, object] = {
    "labels": "prior",
    "seeds": [0],
    "data": {"dataset": "trec", "backbone": "smollm2", "train_per_class": 80, "test_per_class": 60},
    "scenario": {"kind": "class-incremental", "tasks": 2},
}
PARAMS: Mapping[str, object] = {"length": 32, "batch_size": 32, "epochs": 20, "layers": 2, "adapts": "all"}
METHODS = ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl")
# Of every row: its method, its own parameters, epsilon and adjacency.
Row = tuple[str, Mapping[str, object], float, str]


def rows() -> dict[str, Row]:
    """The rows of the comparison by name, as the presets have them."""
    found: dict[str, Row] = {}
    for method in METHODS:
        name = method.removeprefix("lm-")
        found[f"{name}-dpsgd"] = (method, {"budget": "per-task"}, 1.0, "add-remove")
        found[f"{name}-fn"] = (method, {"mechanism": "fn", "budget_per": "token"}, 1.0, "replace")
        found[f"{name}-text-8"] = (method, {}, 8.0, "add-remove")
        found[f"{name}-no-noise"] = (method, {}, math.inf, "add-remove")
    found["pecl"] = ("pecl-published", {}, 10.0, "add-remove")
    found["pecl-no-noise"] = ("pecl-published", {}, math.inf, "add-remove")
    found["repaired-central"] = ("pecl", {"mean_score": "public"}, 1.0, "add-remove")
    found["repaired-central-text-8"] = ("pecl", {"mean_score": "public"}, 8.0, "add-remove")
    found["repaired-local"] = ("pecl", {"mode": "local"}, 1.0, "replace")
    return found


def accuracy(row: Row, rate: float) -> float:
    """Mean accuracy on both tasks at the end, in [0, 1]."""
    method, own, epsilon, adjacency = row
    params = {**PARAMS, **own, "learning_rate": rate}
    privacy = {"epsilons": [epsilon], "delta": DELTA, "adjacency": adjacency}
    spec: RunSpec = checks.parse({**BASE, "method": method, "params": params, "privacy": privacy})
    last = [event for event in engine.run(spec) if isinstance(event, TaskLearned)][-1]
    known = [value for value in last.accuracy if value is not None]
    return sum(known) / len(known)


def main() -> None:
    """Searches all rows that are not in the file yet, or those named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", help="only these rows, again")
    asked = parser.parse_args().rows
    for name in asked or rows():
        if not asked and name in _kept()["rows"]:
            continue
        tried = [{"learning_rate": rate, "accuracy": round(accuracy(rows()[name], rate), 4)} for rate in RATES]
        best = max(tried, key=lambda one: (one["accuracy"], -one["learning_rate"]))
        found = {"best": {"learning_rate": best["learning_rate"]}, "tried": tried}
        today = datetime.now(UTC).date().isoformat()
        kept = {"proxy": "trec", "date": today, "seeds": [0], "fixed": {**PARAMS, "delta": DELTA}}
        kept["rows"] = _kept()["rows"] | {name: found}  # read again: others may search other rows at the same time
        OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(name, found, flush=True)


def _kept() -> dict[str, dict[str, object]]:
    """What has been found so far."""
    return json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {"rows": {}}  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
