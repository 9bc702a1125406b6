"""The audit of last layers: one training asks about many persons, in all three methods that train them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpcl_core import checks, presets
from dpcl_core.attacks import catalog, feature_games
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support.tiers import quick

METHODS = ("peft-ensemble", "naive", "non-cl")
TRAINER = "dpcl_core.methods.features.trainer"


def spec(method: str = "peft-ensemble", epsilon: float = 1.0, **changes: Any) -> RunSpec:
    raw = {**presets.raw("digits-peft-head"), "method": method}
    raw["privacy"] = {"epsilons": [epsilon], "delta": 1e-5, **changes.pop("privacy", {})}
    return checks.parse({**raw, **changes})


def worst_case(chosen: RunSpec, n_learners: int = 12) -> Audited:
    epsilon = chosen.privacy.epsilons[0]
    return feature_games.head_worst_case_game(chosen, epsilon).audited(epsilon, n_learners)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("method", quick(1, METHODS))
def test_persons_along_axes_are_found_to_a_part_and_stay_below_the_accounted_epsilon(method: str) -> None:
    """2,700 persons a side: mu, 0.24 when measured at epsilon 1, has a standard error of 0.03; the bound lies two below."""
    result = worst_case(spec(method))
    assert 0.95 < result.accounted < (1.5 if method == "non-cl" else 1.0001), "all data again at every task"
    assert 0 < result.lower_bound <= result.accounted
    assert (result.through, result.bound) == ("learner", "gaussian")


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("changes", [
    {"privacy": {"adjacency": "replace"}}, {"labels": "dp-learned"}, {"scenario": {"kind": "permuted", "tasks": 2}},
])  # fmt: skip
def test_in_other_settings_as_well(changes: dict[str, Any]) -> None:
    result = worst_case(spec(epsilon=8.0, **changes), 4)
    assert 0.5 < result.lower_bound <= result.accounted


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_too_little_noise_and_missing_clipping_are_called_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        mutants.scaled_noise(patch, TRAINER, 0.4)
        result = worst_case(spec(), 6)
        assert result.exceeds
        assert 0.95 < result.accounted < 1.0001
    with monkeypatch.context() as patch:
        mutants.unclipped_heads(patch)
        assert worst_case(spec(), 4).exceeds
    with monkeypatch.context() as patch:
        mutants.noise_of_all_tasks(patch, TRAINER)
        assert worst_case(spec(epsilon=8.0), 4).exceeds


@pytest.mark.usefixtures("fixed_noise")
def test_each_budget_has_a_worst_case_and_a_digit() -> None:
    found = list(catalog.auditor("naive")(spec("naive", math.inf, params={"adapter": "head", "epochs": 2}), 100))
    assert [one.attack.split("(")[1] for one in found] == ["worst-case examples)", "a real digit)"]
    assert all(one.accounted == math.inf for one in found)
    assert found[0].lower_bound > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_ten_audits_prove_point_three_nine_times(method: str) -> None:
    """Measured: 0.76, 0.88 and 0.83 for the ensemble, in 7 CPU seconds each."""
    found = [worst_case(spec(method), math.ceil(catalog.trials(method) / 256)).lower_bound for _ in range(10)]
    print(f"{method}, epsilon 1:", " ".join(f"{one:.2f}" for one in found))
    assert sorted(found)[1] >= 0.3
