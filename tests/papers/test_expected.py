"""What to expect of a run, from public numbers: held against recorded runs on data that the forecast has not seen."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from dpcl_core import checks
from dpcl_core.papers import expected
from dpcl_core.papers.expected import Known, Sizes
from tests.support import replay

SIZES = Sizes(3000, 10, 5, "lite0", 1280, "dp-learned", 1e-5)


def test_the_interval_holds_the_recorded_runs_of_each_dataset_that_was_left_out() -> None:
    known = expected.known()
    assert len({one.dataset for one in known}) >= 5
    assert {one.method for one in known} == set(expected.METHODS)
    for dataset in {one.dataset for one in known}:
        rest = tuple(one for one in known if one.dataset != dataset)
        within, held = expected.error(rest), []
        for one in known:
            gain = expected.carried_over(one, rest)
            if one.dataset == dataset and gain is not None:
                held.append(abs(gain - one.gain) <= within)
        assert sum(held) >= expected.SHARE * len(held), dataset
        assert within < 0.4, "an interval that holds everything says nothing"


def test_a_run_that_was_recorded_is_forecast_by_itself() -> None:
    one = Known("cosine", "mine", "lite0", 0.5, 10, 5, 0.6)
    assert expected.carried_over(one, [one]) == pytest.approx(0.6)
    assert expected.carried_over(replace(one, method="naive"), [one]) is None
    more_noise = expected.carried_over(replace(one, ratio=4.0), [one])
    assert more_noise is not None
    assert more_noise == pytest.approx(0.6 * 0.08 / 0.78, rel=0.1), "the measured share that such noise leaves"


def test_the_runs_that_are_nearest_count_most() -> None:
    asked = Known("cosine", "mine", "lite0", 0.5, 10, 5, 0.0)
    near, far = (replace(asked, dataset=f"of {n}", n_classes=n, gain=gain) for n, gain in ((10, 0.9), (1000, 0.1)))
    assert (expected.carried_over(asked, [near, far]) or 0.0) > 0.85
    other = replace(near, dataset="other", network="pixels", gain=0.3)
    assert (expected.carried_over(asked, [near, other]) or 0.0) > 0.6


def test_more_people_and_larger_budgets_give_more() -> None:
    few, many = (expected.expected(replace(SIZES, n_people=n)) for n in (300, 30_000))
    assert {*few} == {(method, epsilon) for method in expected.METHODS for epsilon in expected.BUDGETS}
    for place, one in few.items():
        assert 0.1 <= one.low <= one.accuracy <= one.high <= 1.0
        assert place[0] != "cosine" or one.accuracy < many[place].accuracy
    levels = [few["cosine", epsilon].accuracy for epsilon in expected.BUDGETS]
    assert levels == sorted(levels)


def test_too_few_is_said_plainly_with_how_many_would_do() -> None:
    assert expected.advice(replace(SIZES, n_people=100_000)) == "Enough for ε = 0.5 and more."
    said = expected.advice(replace(SIZES, n_people=40))
    assert said.startswith("Too few for ε = ")
    assert "expect little more than guessing" in said
    hopeless = expected.advice(replace(SIZES, n_people=12, n_classes=12, network="minilm", n_features=384))
    assert "Too few for ε = 8 or less" in hopeless
    assert "Enough" not in hopeless


@pytest.mark.parametrize(("network", "n_features"), [("lite0", 1280), ("minilm", 384)])
def test_with_as_many_as_it_says_noise_is_below_the_signal_and_with_fewer_it_is_not(network: str, n_features: int) -> None:
    few = replace(SIZES, n_people=60, network=network, n_features=n_features)
    (epsilon, wanted), *_ = re.findall(r"ew for ε = (\d\.?\d*).*?about ([\d,]+) examples", expected.advice(few))
    n = int(wanted.replace(",", ""))
    assert replace(few, n_people=n).ratio(float(epsilon)) <= 1.0
    assert replace(few, n_people=int(0.8 * n)).ratio(float(epsilon)) >= 1.0


def test_numbers_of_a_run_are_public_and_unknown_ones_are_not_made_up() -> None:
    spec = replay.a_spec()
    found = expected.sizes_of(spec)
    assert found is not None
    assert (found.n_classes, found.n_tasks, found.network, found.n_features) == (10, 5, "pixels", 64)
    permuted = checks.parse(checks.changed(spec.jsonable(), {"scenario": {"kind": "permuted", "tasks": 3}}))
    assert expected.sizes_of(permuted) is None, "everybody is in every task"
    unknown = checks.parse(checks.changed(spec.jsonable(), {"data.dataset": "own:nowhere"}))
    assert expected.sizes_of(unknown) is None


def test_it_needs_no_torch() -> None:
    code = (
        "import sys\nfrom dpcl_core.papers import expected\n"
        "expected.expected(expected.Sizes(300, 4, 2, 'minilm', 384, 'dp-learned', 1e-5))\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
