"""Trains a bundled image network on public images and writes it with its card into assets/backbones/.

    python scripts/pretrain_backbone.py --data cifar100 --out assets/backbones/convnext-cifar100 --minutes 75
    python scripts/pretrain_backbone.py --network vit --data cifar100 --out assets/backbones/vit-cifar100 --minutes 45

The dataset is searched for like any other: in the folder DPCL_DATA, the download cache, the hub. A stopped run
continues from its last checkpoint in --scratch. With --minutes learning rate and image size follow the share of the time
used, so that training ends annealed on a busy or slow machine too; with --epochs they follow the images seen, and one seed
gives the same weights again on the same machine.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dpcl_core.backbones import weights
from dpcl_core.backbones.networks import PREPROCESSING, SIZE, Shape, ViTShape, Whitened, build, normalised
from dpcl_core.data import catalog, files, load, rows
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec

BATCH = 128
PADDING = 4
CUTOUT = 8  # side of the square blanked in every training image
SMALL, SMALL_UNTIL = 24, 0.6  # image side in the first part of training: four ninths of the work are saved there
WARM_UP = 0.1
MUON_RATE, ADAM_RATE, DECAY = 0.02, 3e-3, 0.05
AVERAGING = 0.998  # per step, of the weights that are tested and exported
SMOOTHING = 0.1
MIXING = 0.4  # both parameters of the Beta distribution of mixup (Zhang et al. 2018)
CHECKPOINT_SECONDS = 120
RECIPE = (
    f"Muon and Adam, one cycle, averaged weights; shift, mirror, jitter, cutout; label smoothing {SMOOTHING}; "
    f"{SMALL} then {SIZE} pixels"
)
PROBES = ("cifar10", "cifar100", "mnist", "fashion-mnist", "notmnist", "mnist-m")


@dataclass(frozen=True)
class Split:
    """Decoded images uint8 [n, 32, 32, 3] and labels int64 [n] of one split; SHA-256 of each file they came from."""

    images: Tensor
    labels: Tensor
    sha256: tuple[str, ...]


def read(dataset: str) -> tuple[Split, Split]:
    """Training and test part, decoded. Raises BadInput or DataMissing as the loader does."""
    loaded, data_files = load.load_dataset(DataSpec(dataset=dataset)), files.find(catalog.card(dataset))
    train, test = (
        Split(
            torch.from_numpy(np.concatenate(list(split.images.batches(SIZE, 3, 1000)))),
            torch.from_numpy(split.labels),
            tuple(weights.digest(path) for path in paths if path.is_file()),
        )
        for split, paths in ((loaded.train, data_files.train), (loaded.test, data_files.test or data_files.train))
    )
    return train, test


def is_here(dataset: str) -> bool:
    """Whether the dataset is on this computer: probes are not worth a download."""
    try:
        files.find(catalog.card(dataset))
    except BadInput:
        return False
    return True


class Optimizer:
    """Muon (Jordan et al. 2024) for the weight matrices inside the network, Adam for stem, norms, biases and head.

    Muon orthogonalises the momentum of a matrix, so that all its directions learn at one pace. After two CPU minutes on
    CIFAR-100 it reached 15.1 %, Adam alone 9.7 % (both untuned, one seed each). Both decay weights of two and more
    dimensions.
    """

    def __init__(self, network: nn.Module) -> None:
        named = dict(network.named_parameters())
        self.parameters = named
        self.by_muon = {n for n, p in named.items() if p.ndim > 1 and p.shape[1] > 3 and not n.startswith("head")}
        self.state: dict[str, Tensor] = {}
        for name, parameter in named.items():
            self.state[f"first.{name}"] = torch.zeros_like(parameter)
            if name not in self.by_muon:
                self.state[f"second.{name}"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, pace: float, n_steps: int) -> None:
        """One update at `pace` times the peak rates; `n_steps` counts from 1."""
        for name, parameter in self.parameters.items():
            gradient, first = parameter.grad, self.state[f"first.{name}"]
            assert gradient is not None
            if name in self.by_muon:
                first.mul_(0.9).add_(gradient)
                direction = orthogonal((gradient + 0.9 * first).reshape(len(gradient), -1))
                rate = MUON_RATE * pace
                step = -rate * max(1.0, direction.shape[0] / direction.shape[1]) ** 0.5
                parameter.mul_(1 - rate * DECAY).add_(direction.reshape(parameter.shape), alpha=step)
            else:
                second = self.state[f"second.{name}"]
                first.lerp_(gradient, 0.1)
                second.lerp_(gradient.square(), 0.01)
                rate = ADAM_RATE * pace
                if parameter.ndim > 1:
                    parameter.mul_(1 - rate * DECAY)
                spread = (second / (1 - 0.99**n_steps)).sqrt_().add_(1e-8)
                parameter.addcdiv_(first, spread, value=-rate / (1 - 0.9**n_steps))


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with its singular values pushed towards one, by three Newton-Schulz steps of degree five."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = (matrix.T if tall else matrix) / matrix.norm().clamp(min=1e-7)
    for _ in range(3):
        gram = x @ x.T
        x = 3.4445 * x + (2.0315 * gram @ gram - 4.7750 * gram) @ x
    return x.T if tall else x


class Augmented:
    """Training batches: shifted by up to 4 pixels, mirrored, brightness and contrast jittered, one square blanked."""

    def __init__(self, split: Split, seed: int) -> None:
        padded = np.pad(split.images.numpy(), ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)), mode="reflect")
        self.padded, self.labels = torch.from_numpy(padded), split.labels
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.position = torch.randperm(len(self.labels), generator=self.generator), 0

    def batch(self, side: int) -> tuple[Tensor, Tensor]:
        """Float images [128, 3, side, side] in channels-last memory, and labels [128]."""
        if self.position + BATCH > len(self.order):
            self.order, self.position = torch.randperm(len(self.labels), generator=self.generator), 0
        rows = self.order[self.position : self.position + BATCH]
        self.position += BATCH
        g, cells = self.generator, torch.arange(SIZE)
        down = torch.randint(2 * PADDING + 1, (BATCH, 1), generator=g) + cells
        across = torch.randint(2 * PADDING + 1, (BATCH, 1), generator=g) + cells
        across = torch.where(torch.rand(BATCH, 1, generator=g) < 0.5, across.flip(1), across)
        images = normalised(self.padded[rows[:, None, None], down[:, :, None], across[:, None, :]])
        contrast, brightness = 0.4 * torch.rand(2, BATCH, 1, 1, 1, generator=g) - 0.2
        images = images * (1 + contrast) + brightness
        corner = torch.randint(-CUTOUT // 2, SIZE - CUTOUT // 2, (2, BATCH, 1), generator=g)
        inside = (cells >= corner) & (cells < corner + CUTOUT)
        images = images.masked_fill((inside[0][:, :, None] & inside[1][:, None, :])[:, None], 0)
        if side < SIZE:
            images = functional.interpolate(images, size=side, mode="bilinear", antialias=True)
        return images.contiguous(memory_format=torch.channels_last), self.labels[rows]

    def mixing(self) -> float:
        """Share of a picture that stays itself under mixup: Beta(MIXING, MIXING), drawn as a ratio of Gamma variables."""
        gammas = torch._standard_gamma(torch.full((2,), MIXING), generator=self.generator)
        return float(gammas[0] / gammas.sum())


def pace_at(progress: float) -> float:
    """Share of the peak learning rate: up over the first tenth, then down to zero in a straight line."""
    return min(progress / WARM_UP, (1 - progress) / (1 - WARM_UP))


@dataclass
class Clock:
    """The progress of training, across interruptions. Exactly one of the budgets is set."""

    minutes: float | None
    epochs: float | None
    n_images: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    n_steps: int = 0

    def progress(self) -> float:
        if self.minutes is not None:
            return min(1.0, self.seconds / (60 * self.minutes))
        assert self.epochs is not None
        return min(1.0, self.n_epochs() / self.epochs)

    def n_epochs(self) -> float:
        return self.n_steps * BATCH / self.n_images

    def resume(self, checkpoint: dict[str, Tensor]) -> None:
        """Continues with the time and steps that an earlier run has used."""
        self.seconds, self.cpu_seconds = checkpoint["clock"].tolist()
        self.n_steps = int(checkpoint["counts"][0])


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors named `prefix.…`, without the prefix."""
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def save_atomically(tensors: dict[str, Tensor], path: Path) -> None:
    """A reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary)
    temporary.chmod(0o644)  # the library makes the file readable by its owner only
    temporary.replace(path)


def train(
    train_split: Split, network: Whitened, averaged: Whitened, clock: Clock, scratch: Path, seed: int, mixes: bool = False
) -> None:
    """Trains until the time is up; `averaged` gets the weights to export. Continues the run in `scratch`, if any.

    `mixes`: every picture is blended with another one of its batch, and so are their labels (mixup).
    """
    data, optimizer = Augmented(train_split, seed), Optimizer(network)
    checkpoint, last = scratch / "checkpoint.safetensors", 0.0

    def save() -> None:
        tensors = {f"network.{n}": t for n, t in network.state_dict().items()}
        tensors |= {f"averaged.{n}": t for n, t in averaged.state_dict().items()}
        tensors |= {f"optimizer.{n}": t for n, t in optimizer.state.items()}
        tensors |= {"order": data.order, "generator": data.generator.get_state()}
        tensors |= {"clock": torch.tensor([clock.seconds, clock.cpu_seconds], dtype=torch.float64)}
        tensors |= {"counts": torch.tensor([clock.n_steps, data.position])}
        save_atomically(tensors, checkpoint)

    if checkpoint.is_file():
        tensors = load_file(checkpoint)
        network.load_state_dict(part(tensors, "network"))
        averaged.load_state_dict(part(tensors, "averaged"))
        optimizer.state = part(tensors, "optimizer")
        data.order, data.position = tensors["order"], int(tensors["counts"][1])
        data.generator.set_state(tensors["generator"])
        clock.resume(tensors)
        last = clock.seconds
    wall, cpu, smoothed = time.monotonic() - clock.seconds, time.process_time() - clock.cpu_seconds, float("nan")
    while (progress := clock.progress()) < 1:
        images, labels = data.batch(SMALL if progress < SMALL_UNTIL else SIZE)
        network.zero_grad(set_to_none=True)
        share = data.mixing() if mixes else 1.0
        scores = network(images.lerp(images.roll(1, 0), 1 - share) if mixes else images)
        loss = share * functional.cross_entropy(scores, labels, label_smoothing=SMOOTHING)
        if mixes:
            loss = loss + (1 - share) * functional.cross_entropy(scores, labels.roll(1), label_smoothing=SMOOTHING)
        loss.backward()  # type: ignore[no-untyped-call]
        clock.n_steps += 1
        optimizer.step(pace_at(progress), clock.n_steps)
        with torch.no_grad():
            keep = min(AVERAGING, clock.n_steps / (clock.n_steps + 10))  # young averages forget the random start
            for mean, new in zip(averaged.parameters(), network.parameters(), strict=True):
                mean.lerp_(new, 1 - keep)
        clock.seconds, clock.cpu_seconds = time.monotonic() - wall, time.process_time() - cpu
        smoothed = loss.item() if np.isnan(smoothed) else 0.98 * smoothed + 0.02 * loss.item()
        if clock.n_steps % 100 == 0:
            print(f"{progress:6.1%} epoch {clock.n_epochs():6.2f} loss {smoothed:.3f} {clock.seconds:.0f} s", flush=True)
        if clock.seconds - last > CHECKPOINT_SECONDS:
            save()
            last = clock.seconds
    save()


@torch.no_grad()
def outputs(compute: Callable[[Tensor], Tensor], images: Tensor) -> NDArray[np.float32]:
    """The results of `compute` for undistorted images, in batches of 250."""
    return np.concatenate([compute(normalised(part)).numpy() for part in torch.split(images, 250)])


def probe(network: Whitened, dataset: str) -> float:
    """Test accuracy of a linear softmax classifier fitted by L-BFGS on standardised features."""
    fit, test = read(dataset)
    features = torch.from_numpy(outputs(network.frozen, fit.images))
    mean, spread = features.mean(0), features.std(0) + 1e-6
    features, labels = (features - mean) / spread, fit.labels
    linear = nn.Linear(features.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(linear.weight)
    search = torch.optim.LBFGS(linear.parameters(), max_iter=150, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = functional.cross_entropy(linear(features), labels) + 5e-4 * linear.weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(closure)  # type: ignore[no-untyped-call]
    unseen = (torch.from_numpy(outputs(network.frozen, test.images)) - mean) / spread
    return float((linear(unseen).argmax(1) == test.labels).float().mean())


def export(
    network: Whitened, dataset: str, splits: tuple[Split, Split], clock: Clock, out: Path, seed: int, mixes: bool = False
) -> None:
    """Writes fp16 weights and the JSON card; its numbers are measured on the weights as written."""
    fitted, unseen = splits
    network.eval()
    network.whiten(torch.from_numpy(outputs(network.pooled, fitted.images)))
    halved = {name: tensor.half() for name, tensor in network.state_dict().items()}
    network.load_state_dict({name: tensor.float() for name, tensor in halved.items()})
    scores = outputs(network, unseen.images)
    probes = {name: round(probe(network, name), 4) for name in PROBES if name != dataset and is_here(name)}
    save_atomically(halved, out.with_suffix(".safetensors"))
    digits = example_digits()
    card = {
        "name": out.name,
        "architecture": type(network).__name__,
        "shape": asdict(network.shape),
        "feature_dim": network.feature_dim,
        "n_parameters": sum(p.numel() for p in network.parameters()),
        "preprocessing": PREPROCESSING,
        "saw": {"dataset": dataset, "split": "train", "rows": len(fitted.labels), "sha256": fitted.sha256},
        "tested_on": {"dataset": dataset, "split": "test", "rows": len(unseen.labels), "sha256": unseen.sha256},
        "test_accuracy": round(float((scores.argmax(1) == unseen.labels.numpy()).mean()), 4),
        "linear_probe_accuracy": probes,
        "recipe": f"{RECIPE}; mixup {MIXING}" if mixes else RECIPE,
        "seed": seed,
        "epochs": round(clock.n_epochs(), 2),
        "wall_seconds": round(clock.seconds),
        "cpu_seconds": round(clock.cpu_seconds),
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "sha256": hashlib.sha256(out.with_suffix(".safetensors").read_bytes()).hexdigest(),
        "example_features": outputs(network.frozen, digits)[:, :8].astype(float).round(4).tolist(),
    }
    out.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n")
    print(json.dumps({key: card[key] for key in ("test_accuracy", "linear_probe_accuracy", "epochs", "cpu_seconds")}))


def example_digits() -> Tensor:
    """The first four bundled handwritten digits, uint8 [4, 32, 32, 3]; a test recomputes their features and compares."""
    images, _ = rows.digits()
    return torch.from_numpy(next(images.batches(SIZE, 3, 4)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--network", choices=("convnext", "vit"), default="convnext", help="which network to train")
    parser.add_argument("--data", required=True, help="name of the dataset to train on")
    parser.add_argument("--out", type=Path, required=True, help="path of the two files to write, without ending")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--minutes", type=float, help="train this long (default 75)")
    budget.add_argument("--epochs", type=float, help="train for this many passes instead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    scratch = Path(tempfile.gettempdir()) / "pretrain"
    parser.add_argument("--scratch", type=Path, default=scratch, help="where checkpoints go")
    parser.add_argument("--export-only", action="store_true", help="export the averaged weights of the last checkpoint")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    splits = read(arguments.data)
    mixes = arguments.network == "vit"  # without a convolution's notion of nearness it needs more variety to learn from
    n_classes = int(splits[0].labels.max()) + 1
    network, averaged = (
        build(ViTShape(n_classes=n_classes) if mixes else Shape(n_classes=n_classes)) for _ in range(2)
    )
    averaged.load_state_dict(network.state_dict())
    clock = Clock(None if arguments.epochs else arguments.minutes or 75.0, arguments.epochs, len(splits[0].labels))
    if arguments.export_only:
        tensors = load_file(arguments.scratch / arguments.out.name / "checkpoint.safetensors")
        averaged.load_state_dict(part(tensors, "averaged"))
        clock.resume(tensors)
    else:
        train(splits[0], network, averaged, clock, arguments.scratch / arguments.out.name, arguments.seed, mixes)
    export(averaged, arguments.data, splits, clock, arguments.out, arguments.seed, mixes)


if __name__ == "__main__":
    main()
