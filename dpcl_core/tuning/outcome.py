"""Result of a tuning: the best trial, its settings transferred to the full data, and the privacy cost."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dpcl_core import checks
from dpcl_core.events import JsonValue
from dpcl_core.spec import RunSpec
from dpcl_core.tuning.settings import Sizes, Trial, TuneSpec


@dataclass(frozen=True, slots=True)
class Transferred:
    """Settings scaled to the full data (Tobaben et al., appendix on tuning), with r = N_final / N_tune.

    The batch grows by r, so the sampling rate stays; Adam's learning rate grows by the square root of r; clipping norm and
    epochs stay. `batch_size` is the expected one.
    """

    learning_rate: float
    sample_rate: float
    clip_norm: float
    batch_size: float
    ratio: float
    learning_rate_factor: float


def best(trials: Sequence[Trial]) -> Trial | None:
    """The trial of highest accuracy, the first of equals; None where none has succeeded."""
    done = [trial for trial in trials if trial.accuracy is not None]
    return max(done, key=lambda trial: (trial.accuracy or 0.0, -trial.number), default=None)


def transferred(trial: Trial, sizes: Sizes) -> Transferred:
    """The settings of a trial, scaled from the examples it was tuned on to the full data."""
    factor = math.sqrt(sizes.ratio)
    return Transferred(
        learning_rate=trial.learning_rate * factor,
        sample_rate=trial.batch_size / sizes.n_tune,
        clip_norm=trial.clip_norm,
        batch_size=trial.batch_size * sizes.ratio,
        ratio=sizes.ratio,
        learning_rate_factor=factor,
    )


def tuned_spec(tune: TuneSpec, tuned: Transferred, *, base: RunSpec | None = None) -> RunSpec:
    """The run with the tuned settings, marked as tuned; `base`: another run of the same method (None: the tuning's own)."""
    raw = (base or tune.base).model_dump()
    raw["params"] |= {name: getattr(tuned, name) for name in ("learning_rate", "sample_rate", "clip_norm")}
    raw["params"]["epochs"] = tune.base.params.model_dump()["epochs"]
    return checks.parse({**raw, "tuned": tune.on})


def privacy_sentence(tune: TuneSpec) -> str:
    """The privacy cost of this tuning, in one sentence."""
    if tune.on == "public":
        return (
            f"Tuned on {tune.proxy}, by declaration public: the private data were not touched, so tuning costs no privacy "
            "as long as no one of them is in it, which nothing checks."
        )
    uses = tune.n_trials + 1
    return (
        f"Tuned on the private data, which is not accounted: {uses} uses of the same data, {tune.n_trials} for the trials "
        "and one for the final run, of which the statement counts the last alone."
    )


def document(
    study_id: str, status: str, tune: TuneSpec, sizes: Sizes | None, trials: Sequence[Trial]
) -> dict[str, JsonValue]:
    """A tuning as one JSON document; `best` and what depends on it are null until a trial has succeeded."""
    best_trial = best(trials)
    settings = transferred(best_trial, sizes) if best_trial is not None and sizes is not None else None
    final = tuned_spec(tune, settings) if settings is not None else None
    return {
        "study_id": study_id,
        "status": status,
        **json.loads(tune.model_dump_json()),
        "sizes": asdict(sizes) if sizes is not None else None,
        "trials": [asdict(trial) for trial in trials],
        "best": asdict(best_trial) if best_trial is not None else None,
        "transferred": asdict(settings) if settings is not None else None,
        "command": checks.command_line(final) if final is not None else None,
        "privacy": privacy_sentence(tune),
    }


def text(tune: TuneSpec, sizes: Sizes | None, trials: Sequence[Trial]) -> str:
    """A tuning for a terminal: its trials, the best one, its settings for the full data, and the sentence on privacy."""
    lines = ["trial  accuracy  learning rate  batch  clipping norm"]
    for trial in trials:
        accuracy = "  failed" if trial.accuracy is None else f"{100 * trial.accuracy:6.1f} %"
        drawn = f"{trial.learning_rate:13.3g}  {trial.batch_size:5d}  {trial.clip_norm:13.3g}"
        lines.append(f"{trial.number + 1:5d}  {accuracy}  {drawn}" + (f"  {trial.trouble}" if trial.trouble else ""))
    best_trial = best(trials)
    if best_trial is not None and sizes is not None:
        settings = transferred(best_trial, sizes)
        lines += [
            f"best: trial {best_trial.number + 1}, measured on {sizes.n_validation} held-out examples",
            f"for the full data (r = {settings.ratio:.4g}): learning_rate = {settings.learning_rate:.4g}, "
            f"sample_rate = {settings.sample_rate:.4g}, clip_norm = {settings.clip_norm:.4g}",
            checks.command_line(tuned_spec(tune, settings)),
        ]
    return "\n".join([*lines, privacy_sentence(tune)]) + "\n"
