"""What runs are called on screen."""

from __future__ import annotations

import pytest

from dpcl_core.papers import questions
from dpcl_core.papers.questions import run_name


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("cnn-64", "CNN-64"),  # the whole label before its parts
        ("seqft-fn-as-printed", "SeqFT, noise on every token, exactly as printed"),
        ("l2dp-ml-2-epochs-50-20-10-5", "L2DP-ML, 2 epochs, order 50, 20, 10, 5"),
        ("seqft-no-noise", "SeqFT"),  # its ε says so
        ("alpha-0.2", "α = 0.2"),
        ("z=2.2 C=0.01", "Noise 2.2, clipping norm 0.01"),
        ("seqft-unheard-of", "seqft-unheard-of"),
        ("unheard-of", "unheard-of"),
    ],
)
def test_a_label_becomes_words(label: str, name: str) -> None:
    assert run_name(label) == name


def test_every_run_of_every_preset_has_a_name_of_its_own_that_is_not_its_label() -> None:
    presets = [form.name for question in questions.questions() for form in question.forms.values()]
    for preset in presets:
        names = questions.titles(preset)
        assert len(set(names.values())) == len(names), preset
        assert not [label for label, name in names.items() if name == label], preset
