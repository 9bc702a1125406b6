"""Tries everything that runs on a graphics card, times it beside Opacus, and writes `assets/reproduction/gpu.json`.

On a machine with a card, at the root of the repository: python -m scripts.check_gpu. It takes at most ten minutes and needs
the installed requirements only; networks that are not on the machine are left out. `--device cpu` tries the script itself
with tiny sizes, and writes nothing.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn
from torch.nn import functional

from dpcl_core import checks, engine
from dpcl_core.backbones import adaptable, catalog, causal, extractor
from dpcl_core.backbones.adaptable import Network
from dpcl_core.data.dataset import Images
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.events import CellFinished
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapters import Directions, Kind
from dpcl_core.methods.features.linear_heads import Prepared, clipped_sums
from dpcl_core.methods.language.gradients import Gradients as OfTexts
from dpcl_core.methods.language.gradients import batch_of
from dpcl_core.methods.language.public_text import ANSWER, TEXT, Prompted
from dpcl_core.methods.language.training import task_loss
from dpcl_core.privacy.noise import Batches, ReleaseNoise

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "assets" / "reproduction" / "gpu.json"
MOST_SECONDS = 600.0
_CLASSES, _RANK, _TOKENS, _WIDTH = 100, 4, 72, 1280
_MODELS_TOGETHER = 5  # Opacus trains as many one after another
_NETWORKS = ("vit-cifar100", "convnext-cifar100", "lite0")
_MODELS = ("lm-tiny", "smollm2")
Step = Callable[[], None]


@dataclass(frozen=True)
class Sizes:
    """`pictures`: features are computed of; `batch`: pictures, `texts`: texts in a step; `seconds`: of timing each step."""

    pictures: int
    batch: int
    texts: int
    seconds: float


FULL, TINY = Sizes(8192, 256, 64, 3.0), Sizes(8, 4, 2, 0.0)


@dataclass(frozen=True)
class Row:
    """One line of the record: `ours` and `other` in `unit`, or the `error` that came instead."""

    part: str
    what: str
    unit: str
    ours: float | None = None
    other: float | None = None
    error: str | None = None


_RUN = {"seeds": [0], "labels": "prior", "scenario": {"kind": "class-incremental", "tasks": 5}}
_PICTURES = {"dataset": "digits", "backbone": "vit-cifar100", "train_per_class": 40, "test_per_class": 20}
_TEXTS = {"dataset": "pii-synthetic-tiny", "backbone": "lm-tiny"}
_ADAPTER = {"epochs": 2, "sample_rate": 0.25}
_LM = {"length": 24, "epochs": 1, "batch_size": 40, "lora_rank": 2}
_ROUNDS = {"rounds": 2, "local_steps": 1, "hidden": 4, "batch_size": 4, "participation": 1.0}
RUNS: Mapping[str, Mapping[str, object]] = {
    "cosine": {"method": "cosine", "data": _PICTURES},
    "last layers": {"method": "peft-ensemble", "data": _PICTURES, "params": _ADAPTER},
    "FiLM": {"method": "peft-ensemble", "data": _PICTURES, "params": {**_ADAPTER, "adapter": "film"}},
    "LoRA": {"method": "peft-ensemble", "data": _PICTURES, "params": {**_ADAPTER, "adapter": "lora"}},
    "DP-A-GEM": {
        "method": "dp-agem",
        "data": {**_PICTURES, "backbone": "pixels"},
        "params": {"epochs": 1, "sample_rate": 0.25, "memory_size": 8, "replay_rate": 0.5},
    },
    "language model": {"method": "lm-seqft", "data": _TEXTS, "params": _LM},
    "PeCL": {"method": "pecl", "data": _TEXTS, "params": {**_LM, "mean_score": "public"}},
    "federated": {
        "method": "dp-fedavg",
        "data": {**_TEXTS, "backbone": "hashed-text"},
        "params": _ROUNDS,
        "scenario": {"kind": "federated", "clients": 3, "tasks": 5},
    },
}


def runs(device: str) -> Iterator[Row]:
    """Whole runs: seconds here and on the processor, with the same seeded noise."""
    for what, raw in RUNS.items():
        yield _row("runs", what, "seconds", partial(_both, partial(_run_seconds, raw), device))


def features(device: str, sizes: Sizes) -> Iterator[Row]:
    """Pictures a second of every network that is here; how far features lie from the processor's."""
    drawn = np.random.default_rng(0).integers(0, 256, (sizes.pictures, 32, 32, 3), dtype=np.uint8)
    few = drawn[: max(4, sizes.pictures // 64)]
    for name in _here(_NETWORKS):
        yield _row("features", name, "pictures a second", partial(_speeds, name, device, drawn, few))
        yield _row("precision", f"features of {name}", "largest relative distance", partial(_distance, name, device, few))


def steps(device: str, sizes: Sizes) -> Iterator[Row]:
    """Steps of DP-SGD with the same network and batch: this project's beside Opacus' own loop, in turns."""
    for name in _here(_NETWORKS):
        for kind, shown in (("film", "FiLM"), ("lora", "LoRA")):
            for n_models, aside in ((1, ""), (_MODELS_TOGETHER, f", {_MODELS_TOGETHER} models side by side")):
                what = f"{shown} on {name}, {sizes.batch} pictures{aside}"
                given = name, cast(Kind, kind), device, sizes, n_models
                yield _row("steps", what, "pictures a second", partial(_picture_steps, *given))
    for name in _here(_MODELS):
        what = f"LoRA on {name}, {sizes.texts} texts of {_TOKENS} tokens"
        yield _row("steps", what, "texts a second", partial(_text_steps, name, device, sizes))


def neighbours(device: str, sizes: Sizes) -> Iterator[Row]:
    """Whether a text's clipped gradient has the same bits whoever is beside it, as its sensitivity assumes."""
    for name in _here(_MODELS):
        yield _row("neighbours", name, "texts whose gradient depends on others", partial(_changed, name, device, sizes))


def exact_sums(device: str, sizes: Sizes) -> Iterator[Row]:
    """Sums of a step of two last layers, and class sums as one product: an upper bound on what a card would gain there."""
    for n in (2 * sizes.batch, 20 * sizes.batch):
        name = f"step of two last layers of {_CLASSES} classes, {n:,} examples of {_WIDTH:,}"
        yield _row("sums", name, "milliseconds", partial(_both, partial(_head_milliseconds, n, sizes), device))
    n = 160 * sizes.batch
    name = f"class sums, {n:,} rows of {_WIDTH:,}"
    yield _row("sums", name, "milliseconds", partial(_both, partial(_product_milliseconds, n, sizes), device))


def _both(measure: Callable[[str], float], device: str) -> tuple[float, float]:
    return measure(device), measure("cpu")


def _run_seconds(raw: Mapping[str, object], device: str) -> float:
    """Seconds of a run in a fresh home, where no features are kept."""
    spec = checks.parse({**_RUN, **raw, "privacy": {"epsilons": [8.0], "delta": 1e-4, "noise": "seeded"}})
    with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, {"DPCL_HOME": home}):
        started = time.perf_counter()
        assert any(isinstance(event, CellFinished) for event in engine.run(spec, device=device))
        return time.perf_counter() - started


def _speeds(name: str, device: str, drawn: NDArray[np.uint8], few: NDArray[np.uint8]) -> tuple[float, float]:
    """Pictures a second on the device and, for fewer pictures, on the processor; kernels are chosen at a batch before."""
    found = []
    for on, pictures in ((device, drawn), ("cpu", few)):
        _features(name, on, few[:4])
        started = time.perf_counter()
        _features(name, on, pictures)
        found.append(len(pictures) / (time.perf_counter() - started))
    return found[0], found[1]


def _distance(name: str, device: str, few: NDArray[np.uint8]) -> tuple[float, None]:
    here, there = (_features(name, on, few) for on in ("cpu", device))
    return float(np.max(np.linalg.norm(there - here, axis=1) / np.linalg.norm(here, axis=1))), None


def _features(name: str, device: str, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.concatenate(list(extractor.load(name, device).batches(Images(pictures, (32, 32, 3)))))


def _picture_steps(name: str, kind: Kind, device: str, sizes: Sizes, n_models: int) -> tuple[float, float]:
    network = adaptable.load(name, device)
    ours, opacus = _timed([_ours(network, kind, sizes, n_models), _opacus(network, kind, sizes)], sizes.batch, sizes)
    return n_models * ours, opacus


def _text_steps(name: str, device: str, sizes: Sizes) -> tuple[float, ...]:
    return _timed([_ours_of_texts(name, device, sizes), _opacus_of_texts(name, device, sizes)], sizes.texts, sizes)


def _changed(name: str, device: str, sizes: Sizes) -> tuple[float, None]:
    """How many texts of a batch have another gradient when they are alone."""
    gradients, texts, loss = OfTexts(_adapted(name, device), 0.5), _texts(sizes), task_loss("full")
    everyone = batch_of(texts, np.arange(len(texts)), device)
    changed = 0
    for rows, together in gradients.each(everyone, loss):
        for row, grad in zip(rows, together, strict=True):
            ((_, alone),) = gradients.each(batch_of(texts, np.array([row]), device), loss)
            changed += not torch.equal(alone[0], grad)
    return float(changed), None


def _head_milliseconds(n: int, sizes: Sizes, device: str) -> float:
    """One step's clipped sums of n examples for two budgets; raises where the card's differ from the processor's."""
    generator = np.random.default_rng(0)
    rows, targets = generator.standard_normal((n, _WIDTH)), generator.integers(0, _CLASSES, n)
    single = np.dtype(np.float32)
    data = Prepared.of(rows, targets, np.ones((2, _CLASSES), bool), n, single)
    weights = 0.01 * generator.standard_normal((2, _CLASSES, _WIDTH + 1), np.float32)
    everyone, clips = np.arange(n), np.ones(2, np.float32)
    there = None if device == "cpu" else Directions.of(data.directions, device)
    expected, found = (clipped_sums(data, everyone, weights, clips, where)[0] for where in (None, there))
    assert np.array_equal(expected, found), "the card's sums are not those of the processor"
    return 1000 / _timed([lambda: clipped_sums(data, everyone, weights, clips, there)], 1, sizes)[0]


def _product_milliseconds(n: int, sizes: Sizes, device: str) -> float:
    """One product of n rows with two budgets' columns, transfers included."""
    generator = np.random.default_rng(0)
    rows, columns = (generator.standard_normal((n, width), np.float32) for width in (_WIDTH, 2 * _CLASSES))

    def product() -> None:
        (torch.from_numpy(columns).to(device).double().T @ torch.from_numpy(rows).to(device).double()).cpu()

    return 1000 / _timed([product], 1, sizes)[0]


def _ours(network: Network, kind: Kind, sizes: Sizes, n_models: int) -> Step:
    """A step of `adapters.train_together`, every picture in every model's batch."""
    start, (drawn, labels) = adapters.fresh(network, kind, _RANK, range(_CLASSES), _CLASSES, 0), _inputs(network, sizes)
    one = adapters.Training(start, drawn, labels, 1.0, Batches(1.0, None), ReleaseNoise())
    steps = adapters.train_together([one] * n_models, Schedule(1.0, sys.maxsize, 1.0, 1e-3, sizes.batch))

    def step() -> None:
        assert len(list(islice(steps, n_models))) == n_models

    return step


def _opacus(network: Network, kind: Kind, sizes: Sizes) -> Step:
    """Hooks and optimiser as Opacus' `make_private` sets them up, with its own noise."""
    module = adapters.fresh(network, kind, _RANK, range(_CLASSES), _CLASSES, 0).module()
    for part in module.modules():
        part.training = any(parameter.requires_grad for parameter in part.parameters(recurse=False))
    wrapped, (drawn, labels) = GradSampleModule(module), _inputs(network, sizes)
    adam = torch.optim.Adam((parameter for _, parameter in module.trainable()), lr=1e-3)
    optimizer = DPOptimizer(adam, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=sizes.batch)

    def step() -> None:
        optimizer.zero_grad()
        logits = wrapped(torch.from_numpy(drawn).to(network.device))
        functional.cross_entropy(logits, torch.from_numpy(labels).to(network.device)).backward()
        optimizer.step()

    return step


def _ours_of_texts(name: str, device: str, sizes: Sizes) -> Step:
    """A step as `training.private_steps` takes it."""
    gradients, texts = OfTexts(_adapted(name, device), 0.5), _texts(sizes)
    adam, loss = torch.optim.AdamW(gradients.parameters, lr=1e-3), task_loss("full")

    def step() -> None:
        sums = gradients.of(batch_of(texts, np.arange(sizes.texts), device), loss)
        means = noisy_means(sums, sizes.texts, 0.5 / sizes.texts, ReleaseNoise())
        for parameter, mean in zip(gradients.parameters, means, strict=True):
            parameter.grad = mean
        adam.step()

    return step


def _opacus_of_texts(name: str, device: str, sizes: Sizes) -> Step:
    """The same model under Opacus' hooks and optimiser; the loss is the mean over texts of the mean over their tokens."""
    net = _adapted(name, device)
    wrapped = GradSampleModule(cast(nn.Module, net.model).train(), strict=False)
    adam = torch.optim.AdamW(net.trainable().values(), lr=1e-3)
    optimizer = DPOptimizer(adam, noise_multiplier=1.0, max_grad_norm=0.5, expected_batch_size=sizes.texts)
    ids = torch.from_numpy(_texts(sizes).ids).to(device)
    positions = torch.arange(ids.shape[1], device=device).expand(ids.shape)

    def step() -> None:
        optimizer.zero_grad()
        logits = wrapped(inputs_embeds=net.embed(ids), position_ids=positions, use_cache=False).logits
        functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()

    return step


def _adapted(name: str, device: str) -> causal.Adapted:
    """Adapters whose B is not zero, so that gradients flow to A."""
    net = causal.adapted(name, device, 8, 16.0, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, second in net.pairs():
            second.copy_(0.05 * torch.randn(second.shape, generator=generator))
    return net


def _texts(sizes: Sizes) -> Prompted:
    """Texts of random tokens, the last four of them the answer."""
    ids = np.random.default_rng(0).integers(2, 1500, (sizes.texts, _TOKENS))
    role = np.full(ids.shape, TEXT, np.int8)
    role[:, -4:] = ANSWER
    return Prompted(ids, role, np.zeros(ids.shape, np.bool_), np.zeros(ids.shape, np.int16))


def _inputs(network: Network, sizes: Sizes) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Random pictures as the network's adapters read them, and labels."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, 256, (sizes.batch, 32, 32, 3), dtype=np.uint8)
    storing = network.features.stored(Images(drawn, (32, 32, 3)))
    while True:
        try:
            next(storing)
        except StopIteration as ended:
            return ended.value, generator.integers(0, _CLASSES, sizes.batch)


def _timed(ways: Sequence[Step], n: int, sizes: Sizes) -> tuple[float, ...]:
    """Examples a second of each way, by the median step; the ways take turns, after one step each to warm up."""
    found: list[list[float]] = [[] for _ in ways]
    for way in ways:
        way()
    while not found[-1] or sum(map(sum, found)) < sizes.seconds * len(ways):
        for way, seconds in zip(ways, found, strict=True):
            _wait()
            started = time.perf_counter()
            way()
            _wait()
            seconds.append(time.perf_counter() - started)
    return tuple(n / statistics.median(seconds) for seconds in found)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _here(names: Sequence[str]) -> list[str]:
    """Those of the networks that the catalog has and that can be used on this machine."""
    found = []
    for name in names:
        try:
            if catalog.available(catalog.card(name)) is None:
                found.append(name)
        except BadInput:
            continue
    return found


def _row(part: str, what: str, unit: str, measure: Callable[[], tuple[float, float | None]]) -> Row:
    """The measurement as a row; what goes wrong is in the row, and the others go on."""
    blank = Row(part, what, unit)
    try:
        ours, other = measure()
        return replace(blank, ours=_short(ours), other=None if other is None else _short(other))
    except (BadInput, DataMissing) as refused:
        return replace(blank, error=str(refused))
    except Exception as error:  # a fault of one path is a result too
        traceback.print_exc()
        return replace(blank, error=f"{type(error).__name__}: {error}".splitlines()[0])


def _short(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}") if math.isfinite(value) else value


def measured(device: str, sizes: Sizes) -> Iterator[Row]:
    """All rows, the quick ones first."""
    yield from neighbours(device, sizes)
    yield from features(device, sizes)
    yield from steps(device, sizes)
    yield from exact_sums(device, sizes)
    yield from runs(device)


def machine(device: str) -> dict[str, str]:
    """The machine in words: card, its memory, versions, processor."""
    about = {"torch": torch.__version__, "python": platform.python_version(), "cores": str(os.cpu_count())}
    if device == "cpu":
        return about
    properties = torch.cuda.get_device_properties(device)
    size = f"{properties.total_memory / 2**30:.0f} GB"
    return {"card": properties.name, "memory": size, "cuda": str(torch.version.cuda), **about}


def commit() -> str:
    """The checked-out commit, marked where files differ from it; "unknown" outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, and on a card writes the record. Exit status 1 where a path failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.check_gpu")
    parser.add_argument("--device", default="cuda:0", help="cuda:N; cpu tries the script and writes nothing")
    parser.add_argument("--commit", default=commit(), help="of this copy, where git cannot tell")
    options = parser.parse_args(arguments)
    is_card = options.device != "cpu"
    if is_card and not torch.cuda.is_available():
        print(f"--device {options.device}: torch finds no graphics card; --device cpu tries the script", file=sys.stderr)
        return 2
    rows, started = [], time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in measured(options.device, FULL if is_card else TINY):
            rows.append(row)
            shown = row.error or " / ".join(f"{value:g}" for value in (row.ours, row.other) if value is not None)
            print(f"{row.part}: {row.what}: {shown} {row.unit}", flush=True)
            if time.monotonic() - started > MOST_SECONDS:
                print("stopped after ten minutes: the rest is not measured", file=sys.stderr)
                break
    if is_card:
        about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": options.commit, "machine": machine(options.device)}
        document = {**about, "seconds": round(time.monotonic() - started), "rows": [asdict(row) for row in rows]}
        DOCUMENT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    else:
        print("nothing is written: figures of a processor say nothing about a card")
    return int(any(row.error for row in rows))


if __name__ == "__main__":
    sys.exit(main())
