"""A tuning: its settings, the examples tuned on, the search, and what follows from the trials."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from dpcl_core import checks, events
from dpcl_core.backbones.extractor import result_of
from dpcl_core.data import catalog as datasets
from dpcl_core.data import load
from dpcl_core.data.dataset import Dataset, Images, Source, Split
from dpcl_core.errors import BadInput, DataMissing, Diverged
from dpcl_core.methods.common.method import of_spec
from dpcl_core.spec import DataSpec, Params, RunSpec
from dpcl_core.tuning import search, settings
from dpcl_core.tuning.settings import Sizes, Trial, TuneSpec
from tests.support import asserting, watching
from tests.support.tuned import SIZES, TOO_FAST, a_tuning, accuracy, prepared_by, preparing

pytestmark = pytest.mark.usefixtures("home")


def a_base(method: str = "peft-ensemble", **raw: object) -> RunSpec:
    return checks.parse({"method": method, "privacy": {"epsilons": [1.0]}, "seeds": [0], **raw})


def test_seventy_per_cent_are_trained_on() -> None:
    assert (settings.n_train_of(5000), settings.n_train_of(267)) == (3500, 187)
    # 10 % of 50,000 to train on and 4.28 % held out, as in the paper: 7,143 examples in all
    wanted = round(settings.COMBINED_SHARE * 50_000)
    assert (settings.n_train_of(wanted), wanted - settings.n_train_of(wanted)) == (5000, 2143)


@pytest.mark.parametrize(("tune", "words"), [
    ({"base": a_base("cosine"), "on": "private"}, ["method = cosine", "peft-ensemble", "non-cl"]),
    ({"base": a_base(privacy={"epsilons": [1, 8]}), "on": "private"}, ["privacy.epsilons = 1, 8", "one budget"]),
    ({"base": a_base(seeds=[3, 4]), "on": "private"}, ["seeds = 3, 4", "one seed"]),
    ({"base": a_base(), "on": "private", "proxy": "mnist"}, ["proxy = mnist", "leave it out"]),
    ({"base": a_base(), "on": "public"}, ["proxy = :", "must name a public dataset"]),
    ({"base": a_base(), "on": "public", "proxy": "digits"}, ["proxy = digits", "shares examples"]),
    ({"base": a_base(), "on": "public", "proxy": "own:mine"}, ["proxy = own:mine", "catalog"]),
    ({"base": a_base(), "on": "public", "proxy": "nowhere"}, ["proxy = nowhere", "catalog"]),
    ({"base": a_base(scenario={"tasks": 11}), "on": "private"}, ["scenario.tasks = 11"]),
])  # fmt: skip
def test_what_cannot_be_tuned_is_one_sentence(tune: dict[str, object], words: list[str]) -> None:
    refused = str(asserting.refusal_of(lambda: settings.check_search(settings.parse(tune))))
    asserting.includes(refused, *words)
    assert "\n" not in refused


@pytest.mark.parametrize("raw", [{"n_trials": 0}, {"n_trials": 501}, {"on": "secret"}, {"base": 3}, {"colour": "blue"}])
def test_a_malformed_tuning_names_its_setting(raw: dict[str, object]) -> None:
    assert asserting.refusal_of(settings.parse, {"base": a_base(), **raw}).field == next(iter(raw))


def test_a_member_of_a_combined_set_is_no_public_stand_in_for_it_nor_the_other_way_round() -> None:
    combined = next(card for card in datasets.CARDS.values() if card.members)
    assert combined.name not in settings.proxies(combined.members[0])
    assert combined.members[0] not in settings.proxies(combined.name)
    assert "mnist" in settings.proxies("digits")


def test_the_same_files_under_another_name_are_no_public_stand_in() -> None:
    assert "har-wisdm-zscored" not in settings.proxies("har-wisdm")
    assert "har-phone50" in settings.proxies("har-wisdm")


def test_the_full_training_of_a_method_that_keeps_everything_is_all_the_data() -> None:
    n = datasets.facts("digits").n_train
    assert settings.final_size(a_base()) == n / 5
    assert settings.final_size(a_base("non-cl")) == n
    again = {"kind": "permuted", "tasks": 3}
    assert settings.final_size(a_base(scenario=again)) == n, "every task has all of them"
    assert settings.final_size(a_base("non-cl", scenario=again)) == 3 * n


def test_trials_on_a_stand_in_have_tasks_of_as_many_classes() -> None:
    tune = TuneSpec(base=a_base(scenario={"tasks": 2}), on="public", proxy="mnist")
    spec = settings.searched(tune)
    assert spec.data.dataset == "mnist"
    assert asdict(spec.scenario) == {"kind": "class-incremental", "tasks": 1, "classes_per_task": 5}
    assert settings.searched(replace(tune, on="private")) == tune.base
    permuted = TuneSpec(base=a_base(scenario={"kind": "permuted", "tasks": 3}), on="public", proxy="mnist")
    assert asdict(settings.searched(permuted).scenario)["classes_per_task"] == 10


def test_fewer_examples_than_a_batch_are_refused() -> None:
    asserting.refuses("examples to tune on = 9: must be at least 10", settings.batch_bounds, 9)


# The examples tuned on: those of one task, 70:30, nothing twice, and none of the test examples.


DIGITS = load.load_dataset(DataSpec(dataset="digits"))


def naive_base(seed: int = 0, tasks: int = 5) -> RunSpec:
    return a_base("naive", seeds=[seed], scenario={"kind": "class-incremental", "tasks": tasks})


def test_the_examples_are_those_of_the_seeds_first_task_split_seventy_to_thirty() -> None:
    priors = set()
    for seed in (0, 7):
        train, held_out, prior = search.tuning_split(TuneSpec(base=naive_base(seed), on="private"), DIGITS)
        both = np.concatenate([train, held_out])
        assert len(set(both.tolist())) == len(both)
        assert len(train) == settings.n_train_of(len(both))
        assert sorted(both) == sorted(np.flatnonzero(np.isin(DIGITS.train.labels, prior)))  # the whole task, nothing else
        assert len(prior) == 2
        assert held_out.min() < train.max(), "drawn, and not the last of the file"
        assert train.min() < held_out.max()
        assert (search.tuning_split(TuneSpec(base=naive_base(seed), on="private"), DIGITS)[0] == train).all()
        priors.add(prior)
    assert len(priors) == 2, "another seed tunes on another task"


def test_a_public_stand_in_gives_no_more_examples_than_a_task_has() -> None:
    """The digits as stand-in for themselves, which `settings.check_search` would refuse: this room does not ask."""
    tune = TuneSpec(base=naive_base(tasks=10), on="public", proxy="digits")
    train, held_out, prior = search.tuning_split(tune, DIGITS)
    assert len(train) + len(held_out) == round(of_spec(tune.base).task_size)
    assert len(prior) == 2  # a task of one class would be no task


def test_of_a_combined_dataset_a_tenth_of_a_task_is_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    n_task = 1000
    combined = SimpleNamespace(members=("first", "second"))
    monkeypatch.setattr(search, "datasets", SimpleNamespace(card=lambda name: combined))
    monkeypatch.setattr(search, "of_spec", lambda spec: SimpleNamespace(task_size=float(n_task)))
    base = a_base("naive", scenario={"kind": "source-incremental"})
    labels = np.repeat(np.arange(4), n_task // 2)
    sources = labels // 2
    split = Split(DIGITS.train.images, labels, sources)
    dataset = Dataset("two", "two", tuple("abcd"), split, split, (Source("first", (0, 1)), Source("second", (2, 3))))
    train, held_out, _ = search.tuning_split(TuneSpec(base=base, on="private"), dataset)
    assert (len(train), len(held_out)) == (100, 43)
    assert len(set(sources[np.concatenate([train, held_out])])) == 1


def test_a_tuning_never_asks_for_a_test_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every image that is computed is one of the training split: the test split's are forbidden to be read."""
    asked: list[tuple[object, ...]] = []
    for name in ("digest", "take"):
        watching.watched(monkeypatch, Images, name, lambda found, given: asked.append(given))
    monkeypatch.setattr(load, "load_dataset", lambda data: DIGITS)
    sizes = result_of(search.prepared(TuneSpec(base=naive_base(), on="private"), "cpu")).sizes
    assert not any(given[0] is DIGITS.test.images for given in asked)
    assert next(len(given[1]) for given in asked if len(given) > 1) == sizes.n_tune + sizes.n_validation


# The search: what is drawn, what a failed trial does, and that a search goes on where it was interrupted.


def trials_of(said: Sequence[object]) -> list[Trial]:
    return [one for one in said if isinstance(one, Trial)]


def raising(error: Exception) -> search.Prepare:
    """Every training ends with this error."""

    def trained(params: Params) -> float:
        raise error

    return prepared_by(trained)


@pytest.fixture(scope="module")
def searched() -> list[object]:
    return list(search.search(a_tuning(), prepare=preparing()))


def test_sizes_come_first_then_what_is_tuned_on_then_every_trial(searched: list[object]) -> None:
    without_progress = [one for one in searched if not isinstance(one, events.Progress)]
    assert without_progress[0] == SIZES
    assert without_progress[1] == events.Started(1, ("tuning",), "Digits (made up)", 200, 86)
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
        tune = replace(tune, base=replace(tune.base, seeds=(seed,)))
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
    later = trials_of(list(search.search(a_tuning(8), earlier=first, earlier_sizes=SIZES, prepare=preparing())))
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
    asserting.refuses("method = cosine", list, search.search(a_tuning(method="cosine")))
    monkeypatch.delenv("DPCL_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asserting.refuses("mnist", list, search.search(a_tuning(on="public", proxy="mnist")), error=DataMissing)


# What follows from the trials: the papers' arithmetic for the full data, and the sentence about privacy.


BASE = a_base()
PRIVATE, PUBLIC = TuneSpec(base=BASE, on="private"), TuneSpec(base=BASE, on="public", proxy="mnist")
FULL_SIZES = Sizes(n_tune=3500, n_validation=1500, n_final=5000)


def a_trial(number: int, accuracy: float | None, **more: float) -> Trial:
    settings = {"learning_rate": 1e-3, "batch_size": 350, "clip_norm": 2.0} | more
    return Trial(number, **settings, accuracy=accuracy, trouble=None if accuracy is not None else "lost it", seconds=1.0)


def test_settings_are_carried_over_as_the_papers_do() -> None:
    found = search.transferred(a_trial(0, 0.5), FULL_SIZES)
    assert found.ratio == pytest.approx(1.429, abs=5e-4)
    assert found.learning_rate_factor == pytest.approx(1.195, abs=5e-4)
    assert found.learning_rate == pytest.approx(1e-3 * math.sqrt(10 / 7))
    assert found.sample_rate == 350 / 3500  # the sampling rate stays, so the accounting does
    assert (found.batch_size, found.clip_norm) == (pytest.approx(500), 2.0)


def test_the_best_trial_is_the_first_of_the_most_accurate_and_never_a_failed_one() -> None:
    assert search.best([a_trial(0, None), a_trial(1, 0.0), a_trial(2, 0.7), a_trial(3, 0.7)]).number == 2  # type: ignore[union-attr]
    assert search.best([a_trial(0, None)]) is None
    assert search.best([]) is None


@pytest.mark.parametrize("tune", [PRIVATE, PUBLIC])
def test_the_run_that_follows_says_on_what_it_was_tuned_and_keeps_the_epochs(tune: TuneSpec) -> None:
    final = search.tuned_spec(tune, search.transferred(a_trial(0, 0.5), FULL_SIZES))
    assert final.tuned == tune.on
    before, after = asdict(BASE.params), asdict(final.params)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"learning_rate", "clip_norm"}  # the sampling rate is 0.1 before and after, the epochs stay
    assert replace(final, params=BASE.params, tuned="no") == BASE


def test_the_document_is_strict_json_with_or_without_trials() -> None:
    trials = [a_trial(0, 0.5), a_trial(1, None)]
    document = json.loads(json.dumps(search.document("ab", "finished", PRIVATE, FULL_SIZES, trials), allow_nan=False))
    assert (document["best"]["number"], document["trials"][1]["trouble"]) == (0, "lost it")
    assert document["transferred"]["sample_rate"] == 0.1
    assert "'tuned=\"private\"'" in document["command"].split()
    empty = search.document("ab", "cancelled", PUBLIC, None, [])
    assert empty["best"] is empty["transferred"] is empty["command"] is None
