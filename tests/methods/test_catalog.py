"""Rules of the catalogue: the number of public axes, and kinds of data that a method cannot learn on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

import pytest

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

EPSILONS = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, math.inf]


def spec(labels: str = "prior-const", **data: object) -> RunSpec:
    scenario, data = {"kind": "class-incremental", "tasks": 5}, {"dataset": "mnist", "backbone": "lite0", **data}
    return checks.parse(
        {"method": "cosine", "labels": labels, "data": data, "scenario": scenario, "privacy": {"epsilons": EPSILONS}}
    )


def numbers(run: RunSpec, n_people: int) -> Mapping[float, int]:
    return catalog.axes_by_epsilon(run, PublicSizes(n_people=n_people, n_tasks=5, n_classes=10))


@pytest.mark.parametrize("n_people", [100, 1000, 10_000])
def test_more_axes_with_a_larger_budget(n_people: int) -> None:
    found = list(numbers(spec(), n_people).values())
    assert found == sorted(found)
    assert found[-1] == catalog.MOST, "without noise nothing is lost by more"
    assert all(catalog.FEWEST <= number <= catalog.MOST for number in found)


def test_more_axes_with_more_people_in_proportion() -> None:
    few, many = (numbers(spec(), n)[1.0] for n in (1500, 3000))
    assert many == pytest.approx(2 * few, abs=1)


def test_noise_that_adds_up_over_tasks_costs_axes() -> None:
    one_list, lists = (numbers(spec(labels=labels), 1500)[1.0] for labels in ("prior-const", "prior"))
    assert lists == pytest.approx(math.sqrt(5) * one_list, rel=0.02)


def test_setting_decides_where_it_is_given_and_networks_without_axes_have_no_number() -> None:
    assert set(numbers(spec(axes=77), 1000).values()) == {77}
    assert numbers(spec(axes=0), 1000) == {}
    assert numbers(spec(backbone="convnext-cifar100"), 1000) == {}


# A dataset of a kind that a method cannot learn on is refused before anything else, and by what is true of it.


PICTURES, OF_TEXTS = "digits", "must be a dataset of texts, such as pii-synthetic; "


def refused(raw: dict[str, object]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        checks.check_run(checks.parse(raw))
    return caught.value


@pytest.mark.parametrize("name", [card.name for card in catalog.CARDS.values() if card.params().inputs == "text"])
@pytest.mark.parametrize("dataset", [PICTURES, "har-wisdm", "ner-gum"])
def test_what_trains_a_language_model_takes_texts_alone(name: str, dataset: str) -> None:
    said = refused({"method": name, "data": {"dataset": dataset}})
    assert str(said) == f"data.dataset = {dataset}: {OF_TEXTS}{catalog.card(name).title} trains a language model"


@pytest.mark.parametrize(
    ("raw", "allowed"),
    [({"method": "l2dp-ml", "data": {"dataset": "ner-gum", "backbone": "hashed-text"}},
      "must be a dataset of pictures, windows of a sensor, texts, rows of a table or embeddings, such as digits, "
      "har-wisdm, pii-synthetic or photo-features; L2DP-ML claims nothing of the several words of a sentence"),
     ({"method": "naive", "params": {"adapter": "lora"}, "data": {"dataset": "har-wisdm", "backbone": "pixels"}},
      "must be a dataset of pictures or texts, such as digits or pii-synthetic; Naive fine-tuning adapts a network")],
)  # fmt: skip
def test_no_two_refusals_ask_for_what_the_other_forbids(raw: dict[str, object], allowed: str) -> None:
    said = refused(raw)
    assert said.field == "data.dataset"
    assert said.allowed.startswith(allowed)


def test_every_kind_of_data_has_a_dataset_to_name_and_a_method() -> None:
    """The sentence names the first dataset of a kind; and what a method demands, some dataset fulfils."""
    left = {card.kind for card in datasets.CARDS.values()}
    for method in catalog.CARDS.values():
        fitting = set()
        for dataset in datasets.CARDS.values():
            scenario = next((name for name in method.scenarios if scenarios.card(name).has_clients), method.scenarios[0])
            raw = {"method": method.name, "data": {"dataset": dataset.name}, "scenario": {"kind": scenario}}
            with contextlib.suppress(BadInput):
                catalog.check_kinds(checks.parse(raw), dataset)
                fitting.add(dataset.kind)
        assert fitting, method.name
        left -= fitting
    assert not left
