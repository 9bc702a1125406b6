"""The private ensemble of last layers for scikit-learn: trained by DP-SGD, charged before its first step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

from dpcl_core import estimators
from dpcl_core.estimators import DPCosineClassifier, DPHeadEnsemble
from dpcl_core.privacy.sums import unit_rows
from tests.support.asserting import refuses
from tests.test_estimators import DIGITS, QUICK, X, Y, n_releases, of, verdicts

pytestmark = pytest.mark.usefixtures("home")


def test_members_of_all_calls_vote() -> None:
    model = DPHeadEnsemble(epsilon=math.inf, disjoint_people=True, **QUICK)
    for first in (0, 5):
        task = of(*range(first, first + 5))
        model.partial_fit(unit_rows(X)[task], Y[task], classes=range(first, first + 5))
    assert [labels.tolist() for labels, _ in model.members_] == [DIGITS[:5], DIGITS[5:]]
    assert model.classes_.tolist() == DIGITS
    logits = np.hstack([np.hstack([unit_rows(X), np.ones((len(X), 1))]) @ weights.T for _, weights in model.members_])
    assert (model.predict(unit_rows(X)) == logits.argmax(axis=1)).mean() > 0.999
    assert model.score(unit_rows(X), Y) > 0.6


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_training_costs_what_is_asked_and_stands_on_its_card(is_apart: bool) -> None:
    from dp_accounting.pld import PLDAccountant

    model = DPHeadEnsemble(classes=DIGITS, disjoint_people=is_apart, data_id="trained", **QUICK)
    model.partial_fit(unit_rows(X), Y).partial_fit(unit_rows(X), Y)
    assert (0.9 < model.privacy_.epsilon <= 1.0) is is_apart
    assert model.privacy_.epsilon_of_all == pytest.approx(model.privacy_.epsilon, rel=1e-6)
    assert verdicts(model) == ["matches"]
    accountant = PLDAccountant().compose(model.card_.to_dp_events())
    assert accountant.get_epsilon(1e-5) == pytest.approx(model.privacy_.epsilon, rel=1e-2)
    DPCosineClassifier(classes=DIGITS, data_id="trained").fit(X, Y)
    assert model.privacy_.epsilon_of_all > model.privacy_.epsilon
    assert n_releases("trained") == (2 if is_apart else 3)


def test_a_training_is_charged_before_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(estimators.Job, "trained", crash)
    with pytest.raises(MemoryError):
        DPHeadEnsemble(classes=DIGITS, **QUICK).fit(X, Y)
    assert n_releases() == 1


def test_rows_that_show_nothing_leave_a_training_as_it_was() -> None:
    plain = DPHeadEnsemble(epsilon=math.inf, classes=DIGITS, random_state=0, sample_rate=1.0, epochs=3).fit(X[:100], Y[:100])
    odd = clone(plain).fit(np.vstack([X[:100], X[:1]]), [*Y[:100], "seven"])
    scaled = plain.members_[0][1] @ np.ones(65), odd.members_[0][1] @ np.ones(65)
    np.testing.assert_allclose(*scaled, rtol=1e-3, atol=1e-4)  # a step is divided by the public number of rows


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("sample_rate", 2.0), ("clip_norm", 0.0), ("rule", "majority")])
def test_settings_of_a_training_are_checked_before_it_is_charged(name: str, value: object) -> None:
    refuses(name, lambda: DPHeadEnsemble(classes=DIGITS, **{**QUICK, name: value}).fit(X, Y))
    assert n_releases() == 0
