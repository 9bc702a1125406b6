"""Refusals on Train speak as its form does."""

from __future__ import annotations

import pytest

from dpcl_core import checks
from dpcl_core.errors import BadInput
from pages.parts.train_form import in_words


@pytest.mark.parametrize(
    ("raw", "starts", "says"),
    [
        ({"data": {"dataset": "ag_news"}}, "Network for the features = “Pixels, or other values of the exam", "“MiniLM"),
        ({"scenario": {"kind": "federated"}}, "Stream = “Clients, and one task after another”: ", "“New classes in every"),
        ({"data": {"dataset": "nonsense"}}, "Dataset = nonsense: ", "“Handwritten digits”"),
        ({"labels": "mine"}, "Label list = mine: ", "“One public list”"),
        ({"privacy": {"epsilons": [-1]}}, "Privacy budget ε = -1: ", "above 0"),
    ],
)  # fmt: skip
def test_a_refusal_names_fields_and_options_as_the_form_does(raw: dict[str, object], starts: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        checks.check(checks.parse({"method": "cosine", **raw}))
    said = in_words(refused.value, {"method": "cosine", "scenario": "class-incremental"})
    assert said.startswith(starts)
    assert says in said
    assert "'" not in said


CSLR = {"method": "cslr-central", "scenario": "federated"}


def test_a_setting_of_the_method_or_the_stream_has_the_title_of_its_field() -> None:
    with pytest.raises(BadInput) as refused:
        checks.parse({"method": "cslr-central", "params": {"head": "shared"}})
    assert in_words(refused.value, CSLR) == "Output layer = shared: must be “Private” or “Clean”"
    of_stream = BadInput("scenario.clients", 1, "must be at least scenario.tasks = 4")
    assert in_words(of_stream, CSLR) == "Clients = 1: must be at least Tasks = 4"


@pytest.mark.parametrize("place", ["/data/svhn", r"C:\data\svhn", "svhn/train.parquet", "svhn.mat", "own:svhn"])
def test_names_inside_paths_stay_as_they_are(place: str) -> None:
    missing = BadInput("data.dataset", "svhn", f"put it into {place}; or take mnist")
    assert in_words(missing, CSLR) == f"Dataset = “SVHN”: put it into {place}; or take “MNIST”"


def test_what_the_form_has_no_field_for_stays_as_it_is() -> None:
    refused = BadInput("params.rate", 3, "must be below 1")
    assert in_words(refused, CSLR) == "params.rate = 3: must be below 1"
