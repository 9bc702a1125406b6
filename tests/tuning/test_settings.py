"""What a tuning is: Table A2's ranges, what it refuses in one sentence, and on which data it may be done."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import TuneSpec
from tests.support.asserting import includes, refusal_of

pytestmark = pytest.mark.usefixtures("home")


def a_base(method: str = "peft-ensemble", **raw: object) -> RunSpec:
    return checks.parse({"method": method, "privacy": {"epsilons": [1.0]}, "seeds": [0], **raw})


def test_the_ranges_are_those_of_table_a2() -> None:
    assert settings.LEARNING_RATES == (1e-7, 1e-2)
    assert settings.CLIP_NORMS == (0.2, 10.0)
    assert settings.batch_bounds(3500) == (10, 3500)
    assert TuneSpec(base=a_base()).n_trials == 20


def test_seventy_per_cent_are_trained_on() -> None:
    assert settings.n_train_of(5000) == 3500
    assert settings.n_train_of(267) == 187
    # 10 % of 50,000 to train on and 4.28 % held out, as in the paper: 7,143 examples in all
    wanted = round(settings.COMBINED_SHARE * 50_000)
    assert (settings.n_train_of(wanted), wanted - settings.n_train_of(wanted)) == (5000, 2143)


@pytest.mark.parametrize(
    ("tune", "words"),
    [
        ({"base": a_base("cosine"), "on": "private"}, ["method = cosine", "peft-ensemble", "non-cl"]),
        ({"base": a_base(privacy={"epsilons": [1, 8]}), "on": "private"}, ["privacy.epsilons = 1, 8", "one budget"]),
        ({"base": a_base(seeds=[3, 4]), "on": "private"}, ["seeds = 3, 4", "one seed"]),
        ({"base": a_base(), "on": "private", "proxy": "mnist"}, ["proxy = mnist", "leave it out"]),
        ({"base": a_base(), "on": "public"}, ["proxy = :", "must name a public dataset"]),
        ({"base": a_base(), "on": "public", "proxy": "digits"}, ["proxy = digits", "shares examples"]),
        ({"base": a_base(), "on": "public", "proxy": "own:mine"}, ["proxy = own:mine", "catalog"]),
        ({"base": a_base(), "on": "public", "proxy": "nowhere"}, ["proxy = nowhere", "catalog"]),
        ({"base": a_base(scenario={"tasks": 11}), "on": "private"}, ["scenario.tasks = 11"]),
    ],
)
def test_what_cannot_be_tuned_is_one_sentence(tune: dict[str, object], words: list[str]) -> None:
    refused = str(refusal_of(lambda: settings.check_search(settings.parse(tune))))
    includes(refused, *words)
    assert "\n" not in refused


@pytest.mark.parametrize("raw", [{"n_trials": 0}, {"n_trials": 501}, {"on": "secret"}, {"base": 3}, {"colour": "blue"}])
def test_a_malformed_tuning_names_its_setting(raw: dict[str, object]) -> None:
    assert refusal_of(settings.parse, {"base": a_base(), **raw}).field == next(iter(raw))


def test_a_member_of_a_combined_set_is_no_public_stand_in_for_it_nor_the_other_way_round() -> None:
    combined = next(card for card in datasets.CARDS.values() if card.members)
    assert combined.name not in settings.proxies(combined.members[0])
    assert combined.members[0] not in settings.proxies(combined.name)
    assert "mnist" in settings.proxies("digits")


def test_the_same_files_under_another_name_are_no_public_stand_in() -> None:
    assert "har-wisdm-zscored" not in settings.proxies("har-wisdm")
    assert "har-phone50" in settings.proxies("har-wisdm")


def test_a_tuning_survives_its_json() -> None:
    tune = TuneSpec(base=a_base(privacy={"epsilons": ["inf"]}), on="public", proxy="mnist", n_trials=7)
    assert settings.parse(tune.model_dump(mode="json")) == tune


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
    assert settings.searched(tune.model_copy(update={"on": "private"})) == tune.base
    permuted = TuneSpec(base=a_base(scenario={"kind": "permuted", "tasks": 3}), on="public", proxy="mnist")
    assert asdict(settings.searched(permuted).scenario)["classes_per_task"] == 10


def test_fewer_examples_than_a_batch_are_refused() -> None:
    with pytest.raises(BadInput, match="examples to tune on = 9: must be at least 10"):
        settings.batch_bounds(9)
