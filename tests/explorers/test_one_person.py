"""Start's model and its attacker: against sums written out plainly, and against the same arithmetic in JavaScript."""

import json
import math
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dpcl_core.elements import element
from dpcl_core.privacy import gaussian
from scripts import one_person
from tests.support import javascript

ASSETS = Path(__file__).resolve().parents[2] / "assets"
DOCUMENT = json.loads((ASSETS / "hero" / "digits.json").read_text(encoding="utf-8"))
DATA = one_person.decode(DOCUMENT)
FINITE = [epsilon for epsilon in element.STOPS if math.isfinite(epsilon)]


@pytest.mark.parametrize("epsilon", [0.1, 8.0, math.inf])
def test_the_same_noise_twice_hides_nobody(epsilon: float) -> None:
    hers = one_person.units(DATA.people)[DATA.you]
    np.testing.assert_allclose(one_person.trace(DATA, epsilon, is_leaked=True), hers, atol=1e-9)
    np.testing.assert_allclose(one_person.trace(DATA, math.inf), hers, atol=1e-12)


def test_the_trace_and_the_accuracy_fall_with_the_budget() -> None:
    """What the slider must show, on one grey scale and one axis: less of the person, and less of the digits."""
    most = one_person.units(DATA.people)[DATA.you].max()
    inks = [one_person.trace(DATA, epsilon).max() / most for epsilon in FINITE]
    assert all(first < second for first, second in pairwise(inks))
    assert inks[-1] > 0.5
    assert inks[0] < 0.02
    known = [one_person.knowledge(DATA, epsilon)[-1].mean() for epsilon in FINITE]
    assert all(first < second for first, second in pairwise(known))
    assert known[-1] > 0.85
    assert known[0] < 0.2
    at_one = one_person.knowledge(DATA, 1)
    assert (at_one[-1, :-1] < np.diag(at_one)[:-1] - 0.01).all(), "every older pair is forgotten in part"


def test_the_attackers_chance_is_that_of_the_best_test_of_two_gaussians() -> None:
    """From even odds, half the integral of the larger density."""
    for epsilon in FINITE:
        shift = 1 / gaussian.sigma(epsilon, DATA.delta)
        at = np.linspace(-12, 12 + shift, 200_001)
        best = np.trapezoid(np.maximum(norm.pdf(at), norm.pdf(at - shift)), at) / 2
        assert one_person.chance(DATA, epsilon) == pytest.approx(best, abs=1e-8)


def test_the_noise_of_the_seed_is_standard_normal() -> None:
    """Chi-square tests of its variance and of 100 equally likely bins, each with a false alarm in a million."""
    drawn = np.fromiter(islice(one_person.seeded(DATA.seed), 16_000), dtype=np.float64)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], drawn.size)
    assert low < (drawn**2).sum() < high
    assert ((np.histogram(norm.cdf(drawn), bins=100, range=(0, 1))[0] - 160) ** 2 / 160).sum() < chi2.ppf(1 - 1e-6, 99)


def test_knowledge_is_what_the_noisy_sums_classify() -> None:
    """Written out: the class whose released sum has the largest cosine, of the first draw's five models."""
    labels, tests = DATA.labels, one_person.units(DATA.tests)
    first = one_person.OnePerson(DATA.delta, DATA.seed, 1, DATA.you, DATA.people, DATA.tests, labels, DATA.sums)
    known = one_person.knowledge(first, 0.5)
    for after in range(5):
        sums = np.stack([one_person.released(first, label, after, 0.5) for label in range(10)])
        right = (tests @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T).argmax(axis=1) == labels
        found = [right[labels // one_person.PER_TASK == on].mean() for on in range(after + 1)]
        np.testing.assert_allclose(known[after, : after + 1], found, atol=1e-12)


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
        "released: [0, 2, 4].map((task) => Array.from(released(data, 2, task, std))), chance: chance(std),"
        "traces: [false, true].map((leaked) => Array.from(trace(data, std, leaked))),"
        "known: knowledge(data, e ?? Infinity) }; })));"
    )
    budgets = [e if math.isfinite(e) else None for e in element.STOPS]
    answers = javascript.run(*sources, case, sent={"data": DOCUMENT, "budgets": budgets})
    for epsilon, found in zip(element.STOPS, answers, strict=True):
        sums = [one_person.released(DATA, 2, task, epsilon) for task in (0, 2, 4)]
        np.testing.assert_allclose(found["released"], sums, rtol=1e-9, atol=1e-9)
        traces = [one_person.trace(DATA, epsilon, is_leaked=leaked) for leaked in (False, True)]
        np.testing.assert_allclose(found["traces"], traces, rtol=1e-9, atol=1e-9)
        # The engine rounds the noise up, by 6e-11 of it at most; the page does not.
        assert found["chance"] == pytest.approx(one_person.chance(DATA, epsilon), abs=1e-10)
        known = one_person.knowledge(DATA, epsilon)
        for after, row in enumerate(found["known"]):
            np.testing.assert_allclose(row, known[after, : after + 1], atol=1e-12)
