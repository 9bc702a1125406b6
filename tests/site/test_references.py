"""Recorded chance and untrained scores, which a site without data draws: of every recorded question, and true."""

from __future__ import annotations

import pytest

from dpcl_core import checks, presets
from dpcl_core.errors import DataMissing
from dpcl_core.methods.references import of_labels
from dpcl_core.papers import answers, questions
from tests.support.tiers import quick

RECORDED = [
    form.name
    for question in questions.questions()
    for form in question.forms.values()
    if questions.recorded(presets.variants(form.name))
]


@pytest.mark.parametrize("name", quick(12, RECORDED))
def test_a_recorded_question_has_references_and_they_follow_from_the_labels(name: str) -> None:
    """`python -m scripts.record_references` writes them, with five decimals."""
    spec = next(iter(presets.variants(name).values()))
    recorded = answers.recorded_references(name, spec, {})
    try:
        checks.check(spec)
    except DataMissing as error:
        pytest.skip(str(error))
    known = of_labels(spec)
    assert recorded.chance == pytest.approx(known.chance, abs=6e-6)
    assert recorded.untrained == (None if known.untrained is None else pytest.approx(known.untrained, abs=6e-6))
