"""A dataset of a kind that a method cannot learn on is refused before anything else, and by what is true of it."""

from __future__ import annotations

import pytest

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios

PICTURES, OF_TEXTS = "digits", "must be a dataset of texts, such as pii-synthetic; "


def refused(raw: dict[str, object]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        checks.check_run(checks.parse(raw))
    return caught.value


@pytest.mark.parametrize("name", [card.name for card in methods.CARDS.values() if card.params().inputs == "text"])
@pytest.mark.parametrize("dataset", [PICTURES, "har-wisdm", "ner-gum"])
def test_what_trains_a_language_model_takes_texts_alone(name: str, dataset: str) -> None:
    said = refused({"method": name, "data": {"dataset": dataset}})
    assert str(said) == f"data.dataset = {dataset}: {OF_TEXTS}{methods.card(name).title} trains a language model"


@pytest.mark.parametrize(
    ("raw", "allowed"),
    [
        (
            {"method": "l2dp-ml", "data": {"dataset": "ner-gum", "backbone": "hashed-text"}},
            "must be a dataset of pictures, windows of a sensor, texts, rows of a table or embeddings, such as digits, "
            "har-wisdm, pii-synthetic or photo-features; L2DP-ML claims nothing of the several words of a sentence",
        ),
        (
            {"method": "naive", "params": {"adapter": "lora"}, "data": {"dataset": "har-wisdm", "backbone": "pixels"}},
            "must be a dataset of pictures or texts, such as digits or pii-synthetic; Naive fine-tuning adapts a network",
        ),
    ],
)
def test_no_two_refusals_ask_for_what_the_other_forbids(raw: dict[str, object], allowed: str) -> None:
    said = refused(raw)
    assert said.field == "data.dataset"
    assert said.allowed.startswith(allowed)


def test_every_kind_of_data_has_a_dataset_to_name_and_a_method() -> None:
    """The sentence names the first dataset of a kind; and what a method demands, some dataset fulfils."""
    left = {card.kind for card in datasets.CARDS.values()}
    for method in methods.CARDS.values():
        fitting = set()
        for dataset in datasets.CARDS.values():
            scenario = next((name for name in method.scenarios if scenarios.card(name).has_clients), method.scenarios[0])
            try:
                catalog.check_kinds(
                    checks.parse({"method": method.name, "data": {"dataset": dataset.name}, "scenario": {"kind": scenario}}),
                    dataset,
                )
            except BadInput:
                continue
            fitting.add(dataset.kind)
        assert fitting, method.name
        left -= fitting
    assert not left
