"""The audit of L2DP-ML as runs and the terminal call it: the run's own noise, every attack by name, in under a second."""

from __future__ import annotations

import math
import time

import pytest

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods import l2dp_audit
from dpcl_core.methods.cards import l2dp_ml
from dpcl_core.methods.cards.l2dp_ml import L2dpMlParams
from dpcl_core.methods.lifelong import audits
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell, DataSpec, PrivacySpec, RunSpec


def spec(dataset: str = "mnist", epsilons: tuple[float, ...] = (0.5, 2.0, math.inf), **params: object) -> RunSpec:
    scenario = checks.parse({}).scenario.model_copy(update={"tasks": 5})
    return RunSpec(
        method="l2dp-ml", params=L2dpMlParams.model_validate(params), data=DataSpec(dataset=dataset), scenario=scenario,
        privacy=PrivacySpec(epsilons=epsilons),
    )  # fmt: skip


def test_a_run_is_audited_at_every_budget_in_under_a_second_and_every_claim_is_exceeded() -> None:
    l2dp_audit.audit(spec(), 10)  # opens the digits
    started = time.process_time()
    found = l2dp_audit.audit(spec(), 1000)
    assert time.process_time() - started < 1
    assert [one.claimed for one in found] == [0.5, 2.0, math.inf]
    assert all(one.lower_bound == pytest.approx(5.6006, abs=1e-4) for one in found), "no error in 1,000 releases a side"
    assert all(one.accounted == math.inf for one in found)


@pytest.mark.parametrize("attack", ["differencing", "rank-one", "labels", "likelihood"])
def test_every_attack_can_be_called_by_name_and_fires(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "ReleaseNoise", lambda: SeededNoise(Cell(0.5, 0), attack))  # a search may miss by chance
    (found,) = l2dp_audit.audited(spec(epsilons=(0.5,)), 20, attack)
    assert found.lower_bound > 0.5
    assert found.trials == 20


@pytest.mark.parametrize(
    ("params", "scale"),
    [  # section 10.4 of the specification for the norm of 0.53; the norm of first weights moves the witness numbers
        ({"batch_size": 100}, 196_800), ({"batch_size": 500}, 39_400), ({"delta_r": "witness", "batch_size": 100}, 203),
    ],
)  # fmt: skip
def test_the_attacked_noise_is_the_runs_own(params: dict[str, object], scale: float) -> None:
    found = l2dp_audit.setting(spec(theta_norm="singular", **params), 0.5)
    assert found.input_scale == pytest.approx(scale, rel=0.03)
    assert found.output_scale == pytest.approx(2 * 512 / 0.25)
    assert l2dp_audit.setting(spec(), math.inf).input_scale == 0


def test_under_algorithm_one_the_noise_is_divided_by_a_whole_task() -> None:
    n_task = datasets.facts("mnist").n_train // 5
    found = l2dp_audit.setting(spec(theta_norm="singular", algorithm="whole-task"), 0.5)
    assert found.input_scale == pytest.approx(4_918_816 / 0.25 / n_task, rel=0.01)


def test_the_norm_of_first_weights_is_that_of_a_network() -> None:
    from dpcl_core.data.dataset import Form
    from dpcl_core.methods.lifelong import claim, nets

    rules: tuple[claim.ThetaNorm, ...] = ("rows", "columns", "singular")
    for form in (Form((28, 28, 1), 0.0, 1.0), Form((32, 32, 3), 0.0, 1.0), Form((100, 3), -1.0, 1.0)):
        weight = nets.build(form, 10, 0).first.weight.detach().numpy()
        for rule in rules:
            drawn = l2dp_audit.first_norm(claim.sizes(form, 10), (*form.shape, 1)[2], rule)
            assert drawn == pytest.approx(claim.theta_norm(weight, rule), rel=0.35), (form, rule)


def test_the_catalog_names_the_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.CARDS, "l2dp-ml", l2dp_ml.CARD)  # type: ignore[arg-type]
    assert methods.attacks("l2dp-ml") == ("differencing", "rank-one", "labels", "likelihood")
    assert methods.auditor("l2dp-ml", "labels")(spec(epsilons=(0.5,)), 40)[0].attack.startswith("labels from two steps")
    with pytest.raises(BadInput, match="must be one of differencing, rank-one, labels, likelihood"):
        methods.auditor("l2dp-ml", "guess")


def test_the_card_says_why_it_is_no_bound_and_where_the_noise_is() -> None:
    first, second = l2dp_ml.CARD.notes(L2dpMlParams())
    assert first == "One noise vector is shared by all records. Subtracting two noisy records removes it."
    assert second.startswith("The noise is inside the model file")
    assert l2dp_ml.CARD.notes(L2dpMlParams(test_noise="none")) == (first,)
    assert l2dp_ml.CARD.guarantee == "nominal"
