"""Results in the tracker that a team has already: MLflow or TensorBoard, with the task as the step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcl_core.errors import DataMissing, unknown
from dpcl_core.privacy.card_events import Card


@dataclass(frozen=True, slots=True)
class Tracked:
    """One model as a tracker shows it: settings by name, numbers by step (tasks learned, from 1) and name, the statement."""

    name: str
    settings: Mapping[str, str | float]
    steps: Mapping[int, Mapping[str, float]]
    statement: str


def log(tracker: str, models: Sequence[Tracked], card: Card, folder: str | Path) -> None:
    """Writes every model as a run of its own. Raises BadInput for another tracker, DataMissing where it is not installed."""
    trackers = {"mlflow": _to_mlflow, "tensorboard": _to_tensorboard}
    if tracker not in trackers:
        raise unknown("tracker", tracker, trackers)
    trackers[tracker](models, card, Path(folder))


def _to_mlflow(models: Sequence[Tracked], card: Card, _: Path) -> None:
    mlflow: Any
    try:
        import mlflow  # no requirement
    except ImportError as error:
        raise DataMissing("tracker", "mlflow", "is not installed: pip install mlflow") from error
    for model in models:
        with mlflow.start_run(run_name=model.name, nested=mlflow.active_run() is not None):
            mlflow.log_params(dict(model.settings))
            for step, numbers in model.steps.items():
                mlflow.log_metrics(dict(numbers), step=step)
            mlflow.log_text(model.statement, "privacy.txt")
            mlflow.log_dict(dict(card), "privacy_card.json")


def _to_tensorboard(models: Sequence[Tracked], _: Card, folder: Path) -> None:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise DataMissing("tracker", "tensorboard", "is not installed: pip install torch tensorboard") from error
    for model in models:
        with SummaryWriter(log_dir=str(folder / re.sub(r"[^\w.]+", "-", model.name).lstrip("."))) as writer:
            listed = "\n".join(f"    {name} = {value}" for name, value in model.settings.items())
            writer.add_text("settings", listed)
            writer.add_text("privacy", model.statement)
            for step, numbers in model.steps.items():
                for name, number in numbers.items():
                    writer.add_scalar(name, number, global_step=step)
