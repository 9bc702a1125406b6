"""The search: what is drawn, what a failed trial does, and that a search goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from dpcl_core.errors import BadInput, DataMissing, Diverged
from dpcl_core.events import Progress, Started
from dpcl_core.spec import Params
from dpcl_core.tuning import search
from dpcl_core.tuning.search import Prepare
from dpcl_core.tuning.settings import Sizes, Trial
from tests.support.tuned import SIZES, TOO_FAST, a_tuning, accuracy, prepared_by, preparing

pytestmark = pytest.mark.usefixtures("home")


def trials_of(said: Sequence[object]) -> list[Trial]:
    return [one for one in said if isinstance(one, Trial)]


def raising(error: Exception) -> Prepare:
    """Every training ends with this error."""

    def trained(params: Params) -> float:
        raise error

    return prepared_by(trained)


@pytest.fixture(scope="module")
def searched() -> list[object]:
    return list(search.search(a_tuning(), prepare=preparing()))


def test_sizes_come_first_then_what_is_tuned_on_then_every_trial(searched: list[object]) -> None:
    without_progress = [one for one in searched if not isinstance(one, Progress)]
    assert without_progress[0] == SIZES
    assert without_progress[1] == Started(1, ("tuning",), "Digits (made up)", 200, 86)
    assert [trial.number for trial in trials_of(without_progress[2:])] == list(range(20))


def test_trials_are_measured_with_the_settings_they_name(searched: list[object]) -> None:
    base = a_tuning().base.params
    for trial in trials_of(searched):
        if trial.accuracy is not None:
            drawn = {"learning_rate": trial.learning_rate, "clip_norm": trial.clip_norm}
            assert trial.accuracy == accuracy(replace(base, **drawn))


def test_the_sampling_rate_is_the_batch_over_the_examples_trained_on_and_the_epochs_stay() -> None:
    seen: list[dict[str, float]] = []

    def trained(params: Params) -> float:
        seen.append(asdict(params))
        return 0.5

    trials = trials_of(list(search.search(a_tuning(3), prepare=prepared_by(trained))))
    assert [params["sample_rate"] for params in seen] == [trial.batch_size / 200 for trial in trials]
    assert {params["epochs"] for params in seen} == {asdict(a_tuning().base.params)["epochs"]}


def test_draws_keep_table_a2s_ranges_rates_and_norms_even_in_logarithm_batches_even_in_number() -> None:
    """The first ten draws of a search are random: 400 of 40 searches against uniform laws.

    False alarms: 3 tests at 1e-4 each. The other scale is told apart at 1e-9.
    """
    trials: list[Trial] = []
    for seed in range(40):
        tune = a_tuning(10)
        tune = tune.model_copy(update={"base": replace(tune.base, seeds=(seed,))})
        trials += trials_of(list(search.search(tune, prepare=preparing())))
    rates, norms = (np.log10([getattr(t, name) for t in trials]) for name in ("learning_rate", "clip_norm"))
    batches = np.array([trial.batch_size for trial in trials])
    assert -7 <= rates.min() <= rates.max() <= -2
    assert np.log10(0.2) <= norms.min() <= norms.max() <= 1
    assert 10 <= batches.min() <= batches.max() <= 200
    assert stats.kstest(rates, stats.uniform(-7, 5).cdf).pvalue > 1e-4
    assert stats.kstest(norms, stats.uniform(np.log10(0.2), 1 - np.log10(0.2)).cdf).pvalue > 1e-4
    assert stats.kstest(batches + np.random.default_rng(0).random(400), stats.uniform(10, 191).cdf).pvalue > 1e-4
    assert stats.kstest(10**rates, stats.uniform(1e-7, 1e-2).cdf).pvalue < 1e-9
    assert stats.kstest(np.log10(batches), stats.uniform(1, np.log10(20)).cdf).pvalue < 1e-9


def test_a_diverged_trial_has_its_reason_and_is_not_the_end(searched: list[object]) -> None:
    failed = [trial for trial in trials_of(searched) if trial.accuracy is None]
    assert failed, "none was drawn above the learning rate that diverges: lower it"
    for trial in failed:
        assert trial.learning_rate > TOO_FAST
        assert "not finite at step 7" in str(trial.trouble)
    assert failed[0].number < 19


@pytest.mark.parametrize(
    ("error", "says"),
    [(Diverged("at step 3"), "at step 3"), (BadInput("a", 1, "must be 2"), "a = 1"), (MemoryError(), "out of memory")],
)
def test_a_tuning_in_which_nothing_ends_well_says_why(error: Exception, says: str) -> None:
    with pytest.raises(Diverged, match=f"none of the 2 trials ended well; the last one: .*{says}"):
        list(search.search(a_tuning(2), prepare=raising(error)))


def test_a_programs_own_error_is_no_failed_trial() -> None:
    with pytest.raises(ZeroDivisionError):
        list(search.search(a_tuning(2), prepare=raising(ZeroDivisionError())))


def test_a_resumed_search_goes_on_after_its_trials_with_draws_of_its_own() -> None:
    first = trials_of(list(search.search(a_tuning(4), prepare=preparing())))
    said = list(search.search(a_tuning(8), earlier=first, earlier_sizes=SIZES, prepare=preparing()))
    later = trials_of(said)
    assert [trial.number for trial in later] == [4, 5, 6, 7]
    assert not {trial.learning_rate for trial in first} & {trial.learning_rate for trial in later}


def test_a_resumed_search_learns_from_the_trials_that_were_kept() -> None:
    """Ten trials after fifteen: at random, one of them would come so near to the optimum in 11 % of cases."""
    kept = trials_of(list(search.search(a_tuning(15), prepare=preparing())))
    later = trials_of(list(search.search(a_tuning(25), earlier=kept, earlier_sizes=SIZES, prepare=preparing())))
    assert max(trial.accuracy or 0.0 for trial in later) > 0.97


@pytest.mark.slow
def test_settings_that_failed_are_not_asked_for_again_and_again() -> None:
    """A model that is not told of failures asks for the largest learning rate in every later trial here."""
    trials = trials_of(list(search.search(a_tuning(30), prepare=preparing())))
    assert sum(trial.accuracy is None for trial in trials[15:]) <= 3


def test_other_data_than_those_of_the_kept_trials_are_refused() -> None:
    with pytest.raises(BadInput, match="has changed since the stored trials"):
        list(search.search(a_tuning(), earlier_sizes=Sizes(201, 86, 287), prepare=preparing()))


def test_a_true_search_on_the_digits_ends_well() -> None:
    said = list(search.search(a_tuning(2)))
    sizes = next(one for one in said if isinstance(one, Sizes))
    assert (sizes.n_tune, sizes.n_validation) == (189, 81)
    assert sizes.n_final == pytest.approx(1347 / 5)
    for trial in trials_of(said):
        assert trial.accuracy is not None
        assert trial.accuracy * 81 == pytest.approx(round(trial.accuracy * 81))  # measured on the 81 held-out examples


def test_a_tuning_that_cannot_be_is_refused_before_data_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcl_core.data.load.load_dataset", lambda data: pytest.fail("data were read"))
    with pytest.raises(BadInput, match="method = cosine"):
        list(search.search(a_tuning(method="cosine")))
    monkeypatch.delenv("DPCL_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataMissing, match="mnist"):
        list(search.search(a_tuning(on="public", proxy="mnist")))
