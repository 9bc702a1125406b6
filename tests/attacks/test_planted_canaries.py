"""Unlearning terms on the bundled model, with planted codes: what is printed memorises, what is bounded does not.

The quick tests read five codes sixty times; the long one repeats the recorded trainings (checks 11 and 12 of the
specification).
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import PADDING, TOKEN, Canary
from dpcl_core.methods.language.training import Unlearning
from scripts import planted_canaries
from scripts.planted_canaries import Mails, Outcome, Settings, Variant

FEW = Settings(length=24, epochs=60, batch_size=5)
NONE, PRINTED = Variant("full"), Variant("full", Unlearning("printed", 10.0), "oracle")
HINGE, MASK = (Variant("full", Unlearning(form, 1.0), "oracle") for form in ("hinge", "mask"))
ANSWER, ANSWER_PRINTED = Variant("answer"), Variant("answer", Unlearning("printed", 10.0), "oracle")


@cache
def every() -> tuple[Mails, ...]:
    return planted_canaries.mails(Settings())


def few(found: Mails) -> Mails:
    """One mail of each code that is planted 16 times, and these codes beside the controls; three mails to test with."""
    codes = tuple(code for code in found.canaries if code.repetitions == 16)
    rows = [int(np.flatnonzero(holding(found, code))[0]) for code in codes]
    return Mails(
        found.train[rows][:, : FEW.length], found.labels[rows], found.test[:3, : FEW.length], found.test_labels[:3],
        found.classes, tuple(code for code in found.canaries if code.repetitions in (0, 16)),
    )  # fmt: skip


def holding(found: Mails, code: Canary) -> NDArray[np.bool_]:
    """Which mails begin with the code."""
    ids = plain_language.load_tokenizer("lm-tiny").encode(code.prefix + code.code)[0]
    return np.asarray((found.train[:, : len(ids), TOKEN] == ids).all(axis=1))


@cache
def short(variant: Variant) -> Outcome:
    return planted_canaries.trained(FEW, variant, few(every()[0]), 0)


def test_mails_hold_their_codes_so_often_and_controls_never() -> None:
    for found in every():
        for code in found.canaries:
            assert holding(found, code).sum() == code.repetitions
        counts = {level: sum(code.repetitions == level for code in found.canaries) for level in planted_canaries.LEVELS}
        assert counts == planted_canaries.n_codes()
    first, second, _ = every()
    assert not {code.code for code in first.canaries} & {code.code for code in second.canaries}
    assert (first.train[:, 0, TOKEN] != PADDING).all()


@pytest.mark.slow
def test_a_printed_term_remembers_more_than_none_and_a_bounded_one_less() -> None:
    found = {
        name: short(variant) for name, variant in (("none", NONE), ("printed", PRINTED), ("hinge", HINGE), ("mask", MASK))
    }
    bits = {name: one.exposure(16) for name, one in found.items()}
    assert bits["printed"] > bits["none"] > bits["hinge"] + 1, bits
    assert bits["none"] > bits["mask"] + 1, bits
    controls = [one.exposure(0) for one in found.values()]
    assert all(0 < bits < 3.5 for bits in controls), controls


def test_with_the_answer_alone_the_term_is_what_memorises() -> None:
    none, printed = short(ANSWER), short(ANSWER_PRINTED)
    assert abs(none.exposure(16) - none.exposure(0)) < 2.5
    assert printed.exposure(16) > none.exposure(16) + 1


def test_without_weight_the_term_changes_nothing() -> None:
    """Check 13: λ = 0 and no term at all end with the same numbers."""
    settings = replace(FEW, epochs=5)
    plain, zero = (
        planted_canaries.trained(settings, Variant("full", unlearning, "oracle"), few(every()[0]), 0)
        for unlearning in (Unlearning(), Unlearning("printed", 0.0))
    )
    assert plain == zero


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_seeds_of_the_recorded_trainings() -> None:
    def mean(variant: Variant) -> tuple[float, float, float]:
        """Of codes planted 16 times, of controls, and of the first from the least likely end."""
        told = [planted_canaries.trained(Settings(), variant, found, seed) for seed, found in enumerate(every())]
        one, two, three = np.mean([(one.exposure(16), one.exposure(0), one.below(16)) for one in told], axis=0).tolist()
        return one, two, three

    none, printed, hinge, mask, answer, answer_printed = map(mean, (NONE, PRINTED, HINGE, MASK, ANSWER, ANSWER_PRINTED))
    assert printed[0] > none[0]
    assert abs(hinge[0] - hinge[1]) < 2
    assert abs(mask[0] - mask[1]) < 2
    assert hinge[2] < 3.5
    assert all(0 < controls < 3.5 for _, controls, _ in (none, printed, hinge, mask, answer, answer_printed))
    assert abs(answer[0] - answer[1]) < 2
    assert answer_printed[0] > answer[0]
