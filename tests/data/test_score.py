"""What accuracy on a dataset is called: the same as what its stream measures."""

from __future__ import annotations

import pytest

from dpcl_core.data import catalog


@pytest.mark.parametrize("name", list(catalog.CARDS))
def test_tagged_words_have_entity_f1_and_everything_else_accuracy(name: str) -> None:
    assert catalog.score(name) == ("entity F1" if catalog.CARDS[name].kind == "tagged" else "accuracy")


def test_some_dataset_is_tagged_and_lost_ones_are_not_called_so() -> None:
    assert any(catalog.score(name) == "entity F1" for name in catalog.CARDS)
    assert catalog.score("own:gone") == catalog.score("nobody knows this one") == "accuracy"
