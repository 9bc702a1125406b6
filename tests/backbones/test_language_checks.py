"""Texts, language models and methods that train them belong together; anything else is one sentence before a run starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcl_core import checks
from dpcl_core.backbones import catalog, packaged
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.language.params import LanguageParams

STAND_IN = "trains-texts"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that reads texts, whatever else the catalog holds."""
    made = replace(methods.card("cosine"), name=STAND_IN, title="Stand-in", params=LanguageParams, refuses=lambda *_: None)
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, STAND_IN: made})


@pytest.mark.parametrize(
    ("method", "dataset", "backbone", "field", "named"),
    [
        ("cosine", "pii-synthetic", "pixels", "data.backbone", "st:NAME"),
        ("cosine", "pii-synthetic", "lm-tiny", "data.backbone", "st:NAME"),
        ("cosine", "digits", "lm-tiny", "data.backbone", "language model"),
        *((STAND_IN, dataset, "lm-tiny", "data.dataset", "Stand-in trains") for dataset in ("digits", "har-wisdm")),
        (STAND_IN, "digits", "pixels", "data.dataset", "texts"),
        (STAND_IN, "pii-synthetic", "pixels", "data.backbone", "lm-tiny, smollm2 or hf:NAME"),
        (STAND_IN, "pii-synthetic", "vit-cifar100", "data.backbone", "language model"),
        (STAND_IN, "pii-synthetic", "hf:no such", "data.backbone", "hf:OWNER/NAME"),
        (STAND_IN, "pii-synthetic", "hf:nobody/nothing", "data.backbone", "nobody--nothing"),
        (STAND_IN, "pii-synthetic", "gpt2", "data.backbone", "hf:NAME"),
    ],
)
def test_what_does_not_belong_together_is_refused(method: str, dataset: str, backbone: str, field: str, named: str) -> None:
    with pytest.raises(BadInput) as caught:
        checks.check_run(checks.parse({"method": method, "data": {"dataset": dataset, "backbone": backbone}}))
    assert caught.value.field == field
    assert named in caught.value.allowed
    assert "\n" not in str(caught.value)


def test_texts_a_language_model_and_a_method_that_trains_it_pass() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}}
    checks.check_run(checks.parse({**raw, "scenario": {"kind": "source-incremental"}}))


def test_texts_longer_than_the_model_can_look_back_are_refused() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}, "params": {"length": 217}}
    with pytest.raises(BadInput, match="at most 216") as caught:
        checks.check_run(checks.parse(raw))
    assert caught.value.field == "params.length"


def test_the_card_says_how_far_the_bundled_model_looks_back() -> None:
    card = catalog.card("lm-tiny")
    assert card.context == packaged.bundled().shape.context
    assert card.size_mb == pytest.approx(packaged.bundled().weights.stat().st_size / 1e6, abs=0.05)


@pytest.mark.parametrize(
    ("backbone", "dataset", "refused"),
    [
        *(("pixels", "pii-synthetic", True), ("convnext-cifar100", "ag_news", True)),
        *(("lm-tiny", "digits", True), ("lm-tiny", "har-wisdm", True)),
        *(("lm-tiny", "pii-synthetic", False), ("lm-tiny", "pecl-six", False)),
    ],
)
def test_a_backbone_refuses_what_it_cannot_read(backbone: str, dataset: str, refused: bool) -> None:
    sentence = catalog.refuses(catalog.card(backbone), dataset)
    assert (sentence is not None) is refused
    assert not refused or "text" in (sentence or "")
