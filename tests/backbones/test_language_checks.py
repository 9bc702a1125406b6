"""Texts, language models and methods that train them belong together; anything else is one sentence before a run starts."""

from __future__ import annotations

import re
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


def refused(method: str, dataset: str, backbone: str) -> BadInput:
    with pytest.raises(BadInput) as caught:
        checks.check(checks.parse({"method": method, "data": {"dataset": dataset, "backbone": backbone}}))
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("method", "dataset", "backbone", "field", "allowed"),
    [
        ("cosine", "pii-synthetic", "pixels", "data.backbone", "must be an encoder of texts for .* or st:NAME"),
        ("cosine", "pii-synthetic", "lm-tiny", "data.backbone", "must be an encoder of texts"),
        ("cosine", "digits", "lm-tiny", "data.backbone", "is a language model, which .* does not train"),
        (STAND_IN, "digits", "lm-tiny", "data.dataset", "must be a dataset of texts, such as .*; Stand-in trains"),
        (STAND_IN, "digits", "pixels", "data.dataset", "must be a dataset of texts"),
        (STAND_IN, "har-wisdm", "lm-tiny", "data.dataset", "must be a dataset of texts"),
        (STAND_IN, "pii-synthetic", "pixels", "data.backbone", "must be .* Stand-in trains: lm-tiny, smollm2 or hf:NAME"),
        (STAND_IN, "pii-synthetic", "vit-cifar100", "data.backbone", "must be a language model, which Stand-in trains"),
        (STAND_IN, "pii-synthetic", "hf:no such", "data.backbone", "must be hf:OWNER/NAME"),
        (
            STAND_IN,
            "pii-synthetic",
            "hf:nobody/nothing",
            "data.backbone",
            "put a folder nobody--nothing .* cannot be reached",
        ),
        (STAND_IN, "pii-synthetic", "gpt2", "data.backbone", "must be one of .*, st:NAME for .*, or hf:NAME for a causal"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    method: str, dataset: str, backbone: str, field: str, allowed: str
) -> None:
    error = refused(method, dataset, backbone)
    assert error.field == field
    assert re.match(allowed, error.allowed), error.allowed


def test_texts_a_language_model_and_a_method_that_trains_it_pass() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}}
    checks.check(checks.parse({**raw, "scenario": {"kind": "source-incremental"}}))


def test_texts_longer_than_the_model_can_look_back_are_refused() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}, "params": {"length": 217}}
    with pytest.raises(BadInput, match=r"^params\.length = 217: must be at most 216: lm-tiny reads 256 tokens"):
        checks.check(checks.parse(raw))


def test_the_card_says_how_far_the_bundled_model_looks_back() -> None:
    card = catalog.card("lm-tiny")
    assert card.context == packaged.bundled().shape.context
    assert card.size_mb == pytest.approx(packaged.bundled().weights.stat().st_size / 1e6, abs=0.05)


@pytest.mark.parametrize(
    ("backbone", "dataset", "allowed"),
    [
        ("pixels", "pii-synthetic", "reads no texts; take an encoder of texts (minilm, hashed-text or st:NAME), or"),
        ("convnext-cifar100", "ag_news", "reads no texts"),
        ("lm-tiny", "digits", "is a language model, which reads texts only"),
        ("lm-tiny", "har-wisdm", "is a language model, which reads texts only"),
        ("lm-tiny", "pii-synthetic", None),
        ("lm-tiny", "pecl-six", None),
    ],
)
def test_a_backbone_refuses_what_it_cannot_read(backbone: str, dataset: str, allowed: str | None) -> None:
    sentence = catalog.refuses(catalog.card(backbone), dataset)
    assert sentence == allowed if allowed is None or sentence is None else sentence.startswith(allowed)
