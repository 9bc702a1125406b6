"""The exercise of ten lines: what is wrong with the learner as it is given, what mends it, and what else goes wrong."""

from __future__ import annotations

import pytest

from dpcl_core import page, paths

HEAD = "def learn(rows, labels, n_classes, sigma, noise):\n"
GIVEN = paths.asset_table("live/exercises.toml")["learner"]["code"]
CLIPPED = GIVEN.replace("+= row", "+= row / max(1, np.linalg.norm(row))")
MENDED = CLIPPED.replace("set(labels)", "range(n_classes)")


def test_the_given_learner_fails_two_tests_and_the_mended_one_none() -> None:
    assert page.tested(GIVEN)["passed"] == [False, False, True]
    assert page.tested(CLIPPED)["passed"] == [True, False, True]
    assert page.tested(MENDED)["passed"] == [True, True, True]


@pytest.mark.parametrize(("wrong", "passed"), [
    (MENDED.replace("sigma * noise(rows.shape[1])", "sigma * noise(1)[0]"), [True, False, True]),  # shared: subtracted
    (MENDED.replace("sigma * noise", "sigma / 2 * noise"), [True, False, True]),  # too little
    (MENDED.replace("max(1,", "min(1,"), [False, True, True]),  # lengthens short rows, and leaves long ones
    (MENDED.replace("return sums", "return 0 * sums + sigma * noise(sums.shape)"), [True, True, False]),  # knows nothing
], ids=["shared", "too-little", "long-rows", "noise-alone"])
def test_each_fault_fails_its_own_test(wrong: str, passed: list[bool]) -> None:
    assert wrong != MENDED
    assert page.tested(wrong)["passed"] == passed


@pytest.mark.parametrize(("code", "said"), [
    ("def learn(:", "Line 1: invalid syntax."),
    ("x = 1", "There is no function learn(rows, labels, n_classes, sigma, noise)."),
    (f"{HEAD}    return rows", "learn gave numbers of shape [12, 6]"),
    (f"{HEAD}    x = 1\n    return summs", "Line 3: name 'summs' is not defined."),
    (f"{HEAD}    return np.full((n_classes, rows.shape[1]), np.nan)", "not finite"),
])
def test_code_that_cannot_be_tested_gets_one_sentence(code: str, said: str) -> None:
    found = page.tested(code)
    assert found["passed"] == [False]
    assert said in found["said"][0]
