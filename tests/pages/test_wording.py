"""Refusals on Train speak as its form does."""

from __future__ import annotations

import pytest

from dpcl_core import checks
from dpcl_core.errors import BadInput
from pages.parts.training.wording import in_words


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
    said = in_words(refused.value)
    assert said.startswith(starts)
    assert says in said
    assert "'" not in said


def test_what_the_form_has_no_field_for_stays_as_it_is() -> None:
    refused = BadInput("params.rate", 3, "must be below 1")
    assert in_words(refused) == "params.rate = 3: must be below 1"
