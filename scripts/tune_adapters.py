"""The step size of LoRA in networks that read texts, searched on public texts that no experiment uses.

    python -m scripts.tune_adapters            # about fifteen minutes of one core; writes assets/tuning/adapters.json

The proxy is TREC: twenty questions of each of six kinds, learned as one task. Every network gets the same search: each rate,
with noise for ε = 8 and without, for two seeds. The rate with the highest mean accuracy is best; ties go to the smaller one.
"""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

from dpcl_core import checks, engine, machine
from dpcl_core.events import CellFinished, of_kind

OUT = Path(__file__).resolve().parent.parent / "assets" / "tuning" / "adapters.json"
NETWORKS = ("minilm", "smollm2")
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
EPSILONS, SEEDS = (8.0, math.inf), (0, 1)
DATA = {"dataset": "trec", "train_per_class": 20, "test_per_class": 20}
PARAMS = {"adapter": "lora", "epochs": 4, "sample_rate": 0.1}


def accuracies(network: str, rate: float) -> dict[str, list[float]]:
    """Final accuracy in [0, 1] of every seed, by ε."""
    spec = checks.parse({
        "method": "non-cl", "labels": "prior", "seeds": list(SEEDS), "data": {**DATA, "backbone": network},
        "scenario": {"kind": "class-incremental", "tasks": 1}, "params": {**PARAMS, "learning_rate": rate},
        "privacy": {"epsilons": list(EPSILONS), "delta": 1e-4},
    })  # fmt: skip
    found: dict[str, list[float]] = {str(epsilon): [] for epsilon in EPSILONS}
    for one in of_kind(engine.run(spec), CellFinished):
        found[str(one.cell.epsilon)].append(round(one.metrics["AA"] or 0.0, 4))
    return found


def main() -> None:
    """Searches for every network that is not in the file yet."""
    known = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    for network in (one for one in NETWORKS if one not in known):
        tried = {rate: accuracies(network, rate) for rate in RATES}
        best = max(RATES, key=lambda rate: (mean(mean(of_budget) for of_budget in tried[rate].values()), -rate))
        known[network] = {
            "best": best, "proxy": DATA, "fixed": PARAMS, "seeds": SEEDS, "date": datetime.now(UTC).date().isoformat(),
            "commit": machine.commit(), "tried": [{"learning_rate": rate, **of_rate} for rate, of_rate in tried.items()],
        }  # fmt: skip
        OUT.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        print(network, known[network], flush=True)


if __name__ == "__main__":
    main()
