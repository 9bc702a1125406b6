"""One person taken out: against sums written out plainly, and against the same arithmetic in JavaScript."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from dpcl_core.privacy import gaussian
from scripts import one_person
from tests.support import javascript

ASSETS = Path(__file__).resolve().parents[2] / "assets"
EPSILONS = (0.1, 1.0, 30.0, math.inf)
DATA = one_person.decode(json.loads((ASSETS / "hero" / "digits.json").read_text(encoding="utf-8")))


def test_without_noise_the_difference_is_the_person() -> None:
    for person, levels in enumerate(DATA.people):
        first, second = one_person.releases(DATA, person, math.inf)
        np.testing.assert_allclose(first - second, levels / math.sqrt((levels**2).sum()), atol=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_same_noise_twice_hides_nobody(epsilon: float) -> None:
    first, second = one_person.releases(DATA, 0, epsilon, is_shared=True)
    np.testing.assert_allclose(first - second, one_person.units(DATA.people)[0], atol=1e-9)


@pytest.mark.parametrize("epsilon", [epsilon for epsilon in EPSILONS if math.isfinite(epsilon)])
def test_noise_drawn_twice_has_the_deviation_that_the_budget_requires(epsilon: float) -> None:
    """A two-sided chi-square test of the difference's 640 pixels, one person of each class: a false alarm in 1e6 draws."""
    rows = np.unique(DATA.test_labels, return_index=True)[1]
    data = replace(DATA, people=DATA.tests[rows], labels=DATA.test_labels[rows])
    noise = [np.subtract(*one_person.releases(data, person, epsilon)) - hers
             for person, hers in enumerate(one_person.units(data.people))]  # fmt: skip
    left = np.concatenate(noise) / (math.sqrt(2) * gaussian.sigma(epsilon, DATA.delta))
    low, high = chi2.ppf([5e-7, 1 - 5e-7], left.size) / left.size
    assert low > 1 / 1.2**2  # a deviation wrong by a factor of 1.2 is outside
    assert high < 1.2**2
    assert low < np.mean(left**2) < high


def test_the_sums_hold_unit_rows_of_the_bundled_digits() -> None:
    """The sums, again from the rows of the training part."""
    from dpcl_core.backbones import extractor
    from dpcl_core.data import load
    from dpcl_core.spec import DataSpec

    train = load.load_dataset(DataSpec(dataset="digits", test_per_class=30)).train
    pixels = extractor.features("pixels", train.images).astype(np.float64)
    for label, total in enumerate(DATA.sums):
        rows = pixels[train.labels == label]
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(total, units.sum(axis=0), rtol=1e-6, atol=1e-5)  # sums are kept in single precision


@javascript.NEEDED
def test_the_twin_in_javascript_agrees() -> None:
    sources = [(ASSETS / name).read_text(encoding="utf-8") for name in ("drag/replay.mjs", "hero/one_person.mjs")]
    case = (
        "const data = opened(fromPython.data);"
        "console.log(JSON.stringify(fromPython.budgets.map((e) => { const std = sigma(e ?? Infinity, data.delta); return {"
        "released: [false, true].map((same) => { const r = releases(data, 1, std, same);"
        "return [Array.from(r.with), Array.from(r.without)]; }), accuracy: classifier(data, std).accuracy }; })));"
    )
    data = json.loads((ASSETS / "hero" / "digits.json").read_text(encoding="utf-8"))
    budgets = [e if math.isfinite(e) else None for e in EPSILONS]
    answers = javascript.run(*sources, case, sent={"data": data, "budgets": budgets})
    for epsilon, found in zip(EPSILONS, answers, strict=True):
        ours = [one_person.releases(DATA, 1, epsilon, is_shared=same) for same in (False, True)]
        np.testing.assert_allclose(found["released"], ours, rtol=1e-9, atol=1e-9)
        assert found["accuracy"] == one_person.accuracy(DATA, epsilon)
