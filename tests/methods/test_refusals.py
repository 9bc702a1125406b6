"""Settings that a method on features or of Lifelong DP cannot work with are refused before anything starts, by field."""

from __future__ import annotations

import math

import pytest

from dpcl_core import checks, engine
from dpcl_core.errors import BadInput
from dpcl_core.events import TaskLearned

FREE = {"epsilons": [math.inf]}
KEPT = {"memory_size": 100}
BASES: dict[str, dict[str, object]] = {
    "peft-ensemble": {},
    "naive": {"labels": "prior-const"},
    "agem": {"privacy": FREE, "scenario": {"tasks": 2}},
    "joint-network": {"privacy": FREE, "scenario": {"kind": "split", "tasks": 2}, "labels": "prior-const"},
    "l2dp-ml": {"data": {"dataset": "digits", "backbone": "pixels"}},
    "dp-agem": {"scenario": {"kind": "split", "tasks": 5}},
    "independent-laplace": {"labels": "prior", "privacy": {"epsilons": [8.0], "adjacency": "replace"}},
}
HETEROGENEOUS = {"variant": "heterogeneous"}


def before_any_task(raw: dict[str, object]) -> None:
    run = checks.parse(raw)
    checks.check_run(run)
    assert not [event for event in engine.run(run) if isinstance(event, TaskLearned)]


@pytest.mark.parametrize(
    ("method", "changes", "field", "named"),
    [
        ("peft-ensemble", {"params": {"sample_rate": 0.0001}}, "params.sample_rate", "0.00371"),
        ("peft-ensemble", {"params": {"sample_rate": 1.5}}, "params.sample_rate", "1"),
        ("peft-ensemble", {"params": {"clip_norm": 0}}, "params.clip_norm", "0.000000001"),
        ("peft-ensemble", {"params": {"adapter": "film"}}, "params.adapter", "head"),
        ("naive", {"params": {"adapter": "lora"}}, "params.adapter", "head"),
        ("agem", {"privacy": {"epsilons": [1.0]}}, "privacy.epsilons", "dp-agem"),
        ("agem", {"params": {"head": "per-task"}}, "params.head", "prior"),
        ("agem", {"params": {"variant": "balanced"}}, "params.steps", "balanced"),
        ("agem", {"params": {**HETEROGENEOUS, "epochs_by_task": [1, 2, 3]}}, "params.epochs_by_task", "2 "),
        ("agem", {"params": HETEROGENEOUS}, "params.epochs_by_task", "2 "),
        ("agem", {"params": {**HETEROGENEOUS, "epochs_by_task": [1, 0]}}, "params.epochs_by_task", "1000"),
        ("joint-network", {"privacy": {"epsilons": [1.0]}}, "privacy.epsilons", "inf"),
        ("joint-network", {"params": {"network": "cnn-32"}}, "params.network", "lifelong"),
        ("joint-network", {"params": {"head": "per-task"}}, "params.head", "prior"),
        ("l2dp-ml", {"params": {"encoder_share": 0}}, "params.encoder_share", "ε1"),
        ("l2dp-ml", {"params": {"encoder_share": 1}}, "params.encoder_share", "ε2"),
        ("dp-agem", {"params": {"sample_rate": 0.001}}, "params.sample_rate", "0.00371"),
        ("dp-agem", {"params": {"memory_size": 500}}, "params.memory_size", "269"),
        ("dp-agem", {"params": {"memory_size": 20, "replay_rate": 0.04}}, "params.replay_rate", "0.05"),
        ("dp-agem", {"params": {**KEPT, "budget": "fixed"}}, "params.noise_multiplier", "fixed"),
        ("dp-agem", {"params": {**KEPT, "budget": "fixed", "noise_multiplier": 2.2}, "privacy": {"epsilons": [1.0]}},
         "privacy.epsilons", "at least 4."),
        ("dp-agem", {"params": {**KEPT, "head": "per-task"}}, "params.head", "prior"),
        ("dp-agem", {"params": {**KEPT, "clip_norm": 0}}, "params.clip_norm", "0.0"),
        ("dp-agem", {"params": {"memory_epsilon_cap": 0}}, "params.memory_epsilon_cap", "0"),
        ("independent-laplace", {"privacy": {"adjacency": "add-remove"}}, "privacy.adjacency", "replace"),
        ("independent-laplace", {"params": {"project_to": 65}}, "params.project_to", "64"),
        ("independent-laplace", {"params": {"project_to": 0}, "data": {"backbone": "vit-cifar100"}},
         "params.project_to", "1"),
        ("independent-laplace", {"params": {"project_to": -1}}, "params.project_to", "0"),
        ("independent-laplace", {"params": {"clip": 0}}, "params.clip", "0"),
        ("independent-laplace", {"params": {"label_share": 1}}, "params.label_share", "0.99"),
        ("dp-agem", {"labels": "data", "public_labels": ["1"]}, "public_labels", "prior"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_any_task(
    method: str, changes: dict[str, object], field: str, named: str
) -> None:
    raw = {"method": method, "data": {"dataset": "digits", "backbone": "pixels"}, "seeds": [0], **BASES[method], **changes}
    with pytest.raises(BadInput) as caught:
        before_any_task(raw)
    assert caught.value.field == field
    assert named in caught.value.allowed
    assert "\n" not in str(caught.value)
