"""Measures exposure of planted codes under PeCL's unlearning term and its repairs; writes assets/lessons/sign*.json.

    python scripts/record_unlearning.py                  # the bundled model; minutes
    python scripts/record_unlearning.py --model smollm2  # a model that reads; about an hour of one core

The lesson on the sign shows the records. Trains a language model on public synthetic mails with codes planted among them,
once for every loss and seed; `--workers` trainings at a time. The file is written after each, and trainings that it contains
already, of the same model and settings, are left out: delete it to start over.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dpcl_core import paths
from dpcl_core.backbones import catalog, packaged
from dpcl_core.methods.language.params import Loss, UnlearningForm
from dpcl_core.methods.language.training import Unlearning
from scripts import planted_canaries
from scripts.planted_canaries import LEVELS, Outcome, Score, Settings, Variant

COMMAND = "python scripts/record_unlearning.py"
SMOLLM2 = "smollm2"
SETTINGS = {
    packaged.BUNDLED: Settings(),
    SMOLLM2: Settings(SMOLLM2, epochs=6, learning_rate=3e-3, lora_rank=8, lora_alpha=16.0, layers=2, every=True),
}
# Loss, term, weight of the term, detector of sensitive tokens.
VARIANTS: tuple[tuple[Loss, UnlearningForm, float, Score], ...] = (
    ("full", "none", 1.0, "score"),
    ("full", "printed", 10.0, "oracle"),
    ("full", "flipped", 10.0, "oracle"),
    ("full", "hinge", 1.0, "oracle"),
    ("answer", "none", 1.0, "score"),
    ("answer", "printed", 10.0, "oracle"),
    ("full", "printed", 10.0, "score"),
    ("full", "mask", 1.0, "oracle"),
    ("answer", "printed", 1.0, "oracle"),
    ("full", "flipped", 1.0, "oracle"),
    ("full", "unlikelihood", 10.0, "oracle"),
    ("full", "npo", 10.0, "oracle"),
    ("full", "hinge", 1.0, "score"),
)

N_LARGE = 6  # of these, on the larger model: the first ones

Key = tuple[str, str, float, str]
Json = dict[str, object]


def main() -> None:
    """Carries out the missing trainings and writes the record after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time (default 2)")
    parser.add_argument("--model", choices=list(SETTINGS), default=packaged.BUNDLED)
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    chosen, is_bundled = SETTINGS[options.model], options.model == packaged.BUNDLED
    out = options.out or paths.assets_dir() / "lessons" / ("sign.json" if is_bundled else f"sign-{options.model}.json")
    settings: dict[str, object] = {name: value for name, value in asdict(chosen).items() if value is not None}
    settings["model"] = packaged.bundled().weights_sha256[:16] if is_bundled else _packaged_sha256(options.model)[:16]
    known = _known(out, settings)
    done: dict[tuple[Key, int], Json] = dict(known["done"])  # type: ignore[call-overload]
    started, before = time.perf_counter(), float(known["minutes"])  # type: ignore[arg-type]
    base = known["base"] or _levels_of(planted_canaries.untrained(chosen, planted_canaries.mails(chosen)[0]))
    variants = VARIANTS if is_bundled else VARIANTS[:N_LARGE]
    wanted = [(key, seed) for key in variants for seed in range(planted_canaries.N_GROUPS) if (key, seed) not in done]
    print(f"{len(wanted)} trainings, {len(done)} are there already", flush=True)
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        jobs = {pool.submit(measured, chosen, key, seed): (key, seed) for key, seed in wanted}
        for job in as_completed(jobs):
            done[jobs[job]] = job.result()
            minutes = before + (time.perf_counter() - started) / 60
            record = _record(options.model, settings, base, done, minutes)
            out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            print(jobs[job], json.dumps(job.result()["exposure"]), f"{minutes:.1f} min", flush=True)


def measured(chosen: Settings, key: Key, seed: int) -> Json:
    """One training."""
    torch.set_num_threads(1)
    loss, form, strength, score = key
    variant = Variant(loss, Unlearning(form, strength), score)  # type: ignore[arg-type]
    return _levels_of(planted_canaries.trained(chosen, variant, planted_canaries.mails(chosen)[seed], seed))


def _levels_of(outcome: Outcome) -> Json:
    def by_level(mean: object) -> dict[str, float]:
        return {str(level): round(mean(level), 4) for level in LEVELS}  # type: ignore[operator]

    return {
        "exposure": by_level(outcome.exposure),
        "below": by_level(outcome.below),
        "first": by_level(outcome.first),
        "extracted": by_level(outcome.extracted),
        "nats": round(outcome.nats, 4),
        "accuracy": round(outcome.accuracy, 4),
    }


def _packaged_sha256(name: str) -> str:
    package = catalog.card(name).package
    assert package is not None
    return package.sha256


def _record(model: str, settings: Json, base: object, done: Mapping[tuple[Key, int], Json], minutes: float) -> Json:
    """The file's content: variants in the order above, seeds in theirs."""
    variants = []
    for key in VARIANTS:
        seeds = [seed for seed in range(planted_canaries.N_GROUPS) if (key, seed) in done]
        if seeds:
            named = dict(zip(("loss", "form", "strength", "score"), key, strict=True))
            variants.append({**named, "at": seeds, "seeds": [done[key, seed] for seed in seeds]})
    return {
        "date": date.today().isoformat(),
        "command": COMMAND if model == packaged.BUNDLED else f"{COMMAND} --model {model}",
        "minutes": round(minutes, 1),
        "settings": settings,
        "codes": {str(level): count for level, count in planted_canaries.n_codes().items()},
        "base": base,
        "variants": variants,
    }


def _known(path: Path, settings: Json) -> Json:
    """The file's results for this model and these settings; empty ones where there are none."""
    if path.is_file():
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["settings"] == settings:
            done = {
                ((one["loss"], one["form"], one["strength"], one["score"]), seed): result
                for one in record["variants"]
                for seed, result in zip(one["at"], one["seeds"], strict=True)
            }
            return {"done": done, "base": record["base"], "minutes": record["minutes"]}
    return {"done": {}, "base": None, "minutes": 0.0}


if __name__ == "__main__":
    main()
