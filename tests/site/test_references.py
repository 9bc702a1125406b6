"""Recorded chance and untrained scores, which a site without data draws: of every recorded question, and true."""

from dataclasses import replace

import pytest

from dpcl_core import checks, engine, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import DataMissing
from dpcl_core.events import References
from dpcl_core.methods.references import of_labels
from dpcl_core.papers import catalog, claims, comparison, measured, questions
from dpcl_core.spec import RunSpec
from scripts import record_references
from tests.support.tiers import quick

RECORDED = [
    form.name
    for question in questions.questions()
    for form in question.forms.values()
    if questions.recorded(presets.variants(form.name))
]


def reads_texts(spec: RunSpec) -> bool:
    """Whether an encoder finds the labels of texts: its score follows from the texts, not from the labels alone."""
    is_text = datasets.card(spec.data.dataset).kind == "text"
    return is_text and not backbones.card(spec.data.backbone).is_language_model


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_question_has_its_ceiling_and_an_encoder_of_texts_its_score(name: str) -> None:
    specs = presets.variants(name)
    first = next(iter(specs.values()))
    recorded = questions.recorded_references(name, first, {})
    assert recorded.ceiling == measured.known(first)
    assert recorded.n_tested is None, "the record does not say how many examples were tested"
    known = questions.recorded_references(name, first, questions.recorded(specs))
    assert known.untrained is not None or not reads_texts(first)


def test_the_figures_of_a_recorded_question_draw_its_ceiling() -> None:
    """The site and the page of published numbers both write its name beside its line."""
    paper = catalog.paper("tobaben")
    form = claims.form(paper, catalog.experiment(paper, "paper-split-cifar-100"), "small")
    first = next(iter(form.specs.values()))
    known = questions.recorded_references("paper-split-cifar-100-small", first, form.runs)
    drawn = questions.picture(first, form.runs, questions.question_names(form.specs), known).figure
    assert f"at once, no noise {100 * known.ceiling:.0f} %" in [note.text for note in drawn.layout.annotations]
    assert comparison.references_beside(form, "AA") == known


@pytest.mark.parametrize("name", quick(12, RECORDED))
def test_a_recorded_question_has_references_and_they_follow_from_the_labels(name: str) -> None:
    """`python -m scripts.record_references` writes them, with five decimals."""
    spec = next(iter(presets.variants(name).values()))
    recorded = questions.recorded_references(name, spec, {})
    try:
        checks.check_run(spec)
    except DataMissing as error:
        pytest.skip(str(error))
    known = of_labels(spec)
    assert recorded.chance == pytest.approx(known.chance, abs=6e-6)
    if not reads_texts(spec):
        assert recorded.untrained == (None if known.untrained is None else pytest.approx(known.untrained, abs=6e-6))


@pytest.mark.parametrize("protocol", ["class-incremental", "one-vs-rest"])
def test_what_is_recorded_of_texts_is_what_a_run_begins_with(protocol: str) -> None:
    data = {"dataset": "pii-synthetic", "backbone": "hashed-text", "train_per_class": 20, "test_per_class": 10}
    scenario = {"kind": "federated", "protocol": protocol, "clients": 3}
    asked = {"method": "label-means", "data": data, "scenario": scenario, "privacy": {"delta": 1e-5}, "seeds": [0, 1]}
    spec = checks.parse(asked)
    begun = next(event for event in engine.open_run(checks.check_run(spec)) if isinstance(event, References))
    assert record_references.known(spec) == begun
    assert begun.untrained is not None


def test_chance_is_of_the_runs_that_are_tested_as_the_first_one_is() -> None:
    """Whatever the order of tasks and the texts trained on; not with another head, or on another stream."""
    orders = presets.variants("paper-pecl-orders-small")
    assert questions.recorded_chances("paper-pecl-orders-small", orders).keys() == orders.keys()
    mains = presets.variants("paper-pecl-main-small")  # "as printed" trains on other texts
    assert questions.recorded_chances("paper-pecl-main-small", mains).keys() == mains.keys()
    heads = presets.variants("paper-split-mnist-small")
    assert heads.keys() - questions.recorded_chances("paper-split-mnist-small", heads).keys() == {"l2dp-ml-shared-head"}
    streams = questions.recorded_chances("paper-blurry-small", presets.variants("paper-blurry-small"))
    assert streams.keys() == {"ensemble", "cosine"}
    first = next(iter(orders.values()))
    fewer = replace(first, data=replace(first.data, test_per_class=2))
    assert questions.recorded_chances("paper-pecl-orders-small", {"changed": fewer}) == {}
    assert questions.recorded_chances("of-nobody", orders) == {}
