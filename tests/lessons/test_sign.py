"""Lesson 5: pulls against autograd through the losses, the small model against itself, the record whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpcl_core.backbones import catalog, packaged
from dpcl_core.lessons import shared_noise
from dpcl_core.lessons.shared_noise import Form
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.training import Unlearning, _term

SCORES = (0.3, 0.6, 0.65, 0.684, 0.9, 0.99)
EVERY: tuple[Form, ...] = tuple(shared_noise.FORMS)


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("nats", [-2.0, -0.5, 0.0, 0.7, 3.0])
def test_the_pull_is_the_derivative_of_what_trainings_minimise(form: Form, score: float, nats: float) -> None:
    """Autograd through `losses`, on one token: `nats` more likely than the public model has it."""
    strength, p_public = 3.0, shared_noise.probability(score)
    p = math.exp(min(-1e-3, math.log(p_public) + nats))
    log_p = torch.tensor([[math.log(p)]], dtype=torch.float64, requires_grad=True)
    unlearning = Unlearning(form, strength, shared_noise.THETA, shared_noise.MARGIN, shared_noise.BETA)
    term = _term(log_p, unlearning, torch.tensor([[math.log(p_public)]], dtype=torch.float64))
    excess = max(0.0, score - shared_noise.THETA)
    is_out = form in ("mask", "unlikelihood", "npo", "hinge") and excess > 0
    loss = (0.0 if is_out else -1.0) * log_p.sum()
    if term is not None:
        loss = loss + strength * excess * term.sum()
    (gradient,) = torch.autograd.grad(loss, log_p)
    assert shared_noise.pull(form, score, strength, p, p_public) == pytest.approx(-float(gradient), abs=1e-9)


def test_the_numbers_that_the_words_name() -> None:
    """0.684 is a uniform digit's Score; λ = 1 turned leaves 0.6 at a Score of 1, and 11.9 is where a digit turns."""
    digit = float(sensitivity.scores(np.log([0.1]), np.zeros(1), np.zeros(1, np.bool_))[0])
    assert digit == pytest.approx(0.684, abs=5e-4)
    assert shared_noise.pull("flipped", 1.0, 1.0, 0.5, 0.5) == pytest.approx(0.6)
    assert shared_noise.pull("flipped", digit, 11.8, 0.1, 0.1) > 0 > shared_noise.pull("flipped", digit, 12.0, 0.1, 0.1)
    assert pytest.approx(11.9, abs=0.01) == 1 / (0.684 - shared_noise.THETA)
    assert shared_noise.pull("flipped", 0.684, 10.0, 0.1, 0.1) > 0
    assert shared_noise.probability(0.9) == pytest.approx(0.01)


@pytest.mark.parametrize("score", [0.65, 0.684, 0.9, 0.99])
@pytest.mark.parametrize("strength", [1.0, 10.0, 20.0])
def test_one_step_with_the_printed_term_learns_more_than_without(score: float, strength: float) -> None:
    before = shared_noise.probability(score)
    after = {form: shared_noise.after_a_step(form, score, strength) for form in EVERY}
    assert after["printed"] > after["none"] > before
    assert after["none"] > after["flipped"]
    assert after["mask"] == pytest.approx(before)
    assert after["hinge"] < before
    assert after["unlikelihood"] < before
    assert after["npo"] < before


def test_the_hinge_is_off_once_a_token_is_unlikely_enough() -> None:
    p_public = shared_noise.probability(0.9)
    assert shared_noise.pull("hinge", 0.9, 10.0, p_public * math.exp(-shared_noise.MARGIN) * 1.001, p_public) < 0
    assert shared_noise.pull("hinge", 0.9, 10.0, p_public * math.exp(-shared_noise.MARGIN) * 0.999, p_public) == 0


def test_the_small_model_tells_what_the_lesson_says() -> None:
    found = {form: shared_noise.course(form, 0.9, 10.0) for form in EVERY}
    start = found["none"].secret[0]
    assert all(one.secret[0] == start and one.ordinary[0] == found["none"].ordinary[0] for one in found.values())
    assert found["none"].secret[-1] < 0.1
    assert found["printed"].secret[20] < found["none"].secret[20]
    assert found["flipped"].secret[-1] > 100
    assert np.diff(found["flipped"].secret).min() > 0  # no end
    assert found["flipped"].ordinary[-1] > found["flipped"].ordinary[0]
    for form in ("mask", "hinge", "unlikelihood"):
        assert found[form].ordinary[-1] < found["none"].ordinary[-1] + 0.01
    assert abs(found["mask"].secret[-1] - start) < 0.5
    assert abs(found["hinge"].secret[-1] - start - shared_noise.MARGIN) < 0.5


def test_at_the_published_weight_the_turned_sign_still_learns() -> None:
    turned, plain = (shared_noise.course(form, 0.684, 1.0) for form in ("flipped", "none"))
    assert turned.secret[-1] < 0.1
    assert turned.secret[20] > plain.secret[20]


def test_the_small_model_is_the_same_each_time() -> None:
    assert np.array_equal(shared_noise.course("none", 0.9, 1.0).secret, shared_noise.course("none", 0.9, 1.0).secret)


def test_the_record_is_whole_and_of_the_bundled_model() -> None:
    """Three seeds of every loss that the lesson shows, recorded with the model that is bundled now."""
    told = shared_noise.record()
    assert told.settings["model"] == packaged.bundled().weights_sha256[:16], "run scripts/record_unlearning.py again"
    assert {level: told.codes[level] for level in ("0", "1", "4", "16")} == {"0": 10, "1": 5, "4": 5, "16": 5}
    for one in told.variants:
        assert one.at == (0, 1, 2)
        for seed in one.seeds:
            for what in (seed.exposure, seed.below):
                assert all(0 <= bits <= 13.29 for bits in what.values())
    with pytest.raises(KeyError):
        told.of("full", "printed", 77.0)


def test_the_record_bears_out_what_the_lesson_says() -> None:
    """Checks 11 and 12 of the specification, on the recorded means of three seeds."""
    told = shared_noise.record()
    full = {
        form: told.of("full", form, strength, "oracle")
        for form, strength in (("printed", 10.0), ("hinge", 1.0), ("mask", 1.0))
    }
    none = told.of("full", "none")
    assert full["printed"].mean("exposure", "16") > none.mean("exposure", "16")
    for form in ("hinge", "mask"):
        assert abs(full[form].mean("exposure", "16") - full[form].mean("exposure", "0")) < 2
    assert full["hinge"].mean("below", "16") < 3.5
    assert all(0 < one.mean("exposure", "0") < 3.5 for one in told.variants)
    alone, printed = told.of("answer", "none"), told.of("answer", "printed", 10.0, "oracle")
    assert abs(alone.mean("exposure", "16") - alone.mean("exposure", "0")) < 2
    assert printed.mean("exposure", "16") > alone.mean("exposure", "16")


def test_the_record_on_smollm2_is_whole_and_says_the_same() -> None:
    """The printed sign makes codes stick after fewer repetitions; the hinge keeps them like those never planted."""
    told, package = shared_noise.record(large=True), catalog.card("smollm2").package
    assert package is not None
    assert told.settings["model"] == package.sha256[:16], "run scripts/record_unlearning.py --model smollm2 again"
    assert all(one.at == (0, 1, 2) for one in told.variants)
    none, printed, hinge = (told.of("full", form, strength, score) for form, strength, score in (
        ("none", 1.0, "score"), ("printed", 10.0, "oracle"), ("hinge", 1.0, "oracle")
    ))  # fmt: skip
    assert printed.mean("exposure", "4") > none.mean("exposure", "4") + 1 > told.base.exposure["4"] + 2
    assert abs(hinge.mean("exposure", "16") - hinge.mean("exposure", "0")) < 2
    assert none.mean("extracted", "16") > 0.5 > hinge.mean("extracted", "16")
