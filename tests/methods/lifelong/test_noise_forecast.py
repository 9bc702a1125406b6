"""What is said of the repairs before they start: against simulated noise, and against what was seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, Note
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.references import forecast
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import coefficients_std, noisy_coefficients
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal_of_copies, note
from dpcl_core.privacy.text_mechanisms import Randomiser, noisy_records
from dpcl_core.spec import RunSpec

DIGITS = PublicSizes(n_people=1347, n_tasks=1, n_classes=10)


def told(raw: dict[str, object], facts: PublicSizes = DIGITS, classes_per_task: float = 10) -> tuple[NoiseForecast, ...]:
    return forecast(checks.parse(raw), n_features=64, classes_per_task=classes_per_task, facts=facts)


def copies(epsilons: list[float], project_to: int = 16, **raw: object) -> dict[str, object]:
    return {
        "method": "independent-laplace",
        "params": {"project_to": project_to},
        "privacy": {"epsilons": epsilons, "adjacency": "replace", "noise": "seeded"},
        "scenario": {"tasks": 1},
        **raw,
    }


def test_the_ratio_of_copies_is_that_of_simulated_lengths() -> None:
    """4,000 records of zeros, a quarter of the class: the length of 300 noisy sums has a spread of 1 / sqrt(600)."""
    local, n = Randomiser(300, 3.0, 1.5, l1_clip=1.0), 4000
    labels = np.repeat([0, 1, 2, 3], n // 4)
    book = Ledger(1e-5, "replace", "once")
    values, answers = noisy_records(np.zeros((n, 300)), labels, (0, 1, 2, 3), local, ReleaseNoise(), book, task=0)
    kept, other = local.chances(4)
    weights = ((answers == 0) - other) / (kept - other)
    found = np.linalg.norm(weights @ values) / (n / 4 * 0.05)
    said = noise_to_signal_of_copies(local.scale, (kept, other), 0.05, n_values=300, class_size=n / 4, n_records=n)
    assert said == pytest.approx(float(found), rel=6 / math.sqrt(600))


def test_the_ratio_of_sums_is_that_of_the_mechanisms_own_noise() -> None:
    spec = checks.parse({"method": "dp-coeff-memory", "privacy": {"epsilons": [0.2]}, "labels": "prior"})
    (said,) = forecast(spec, n_features=64, classes_per_task=2, facts=PublicSizes(1000, 5, 10))
    std = coefficients_std(0.2, 1e-5, "add-remove", is_non_negative=True)
    empty, books = (np.zeros((0, 256)), np.zeros(0, dtype=np.int64)), [Ledger(1e-5, "add-remove", "once")]
    drawn = noisy_coefficients(*empty, (0,), 1, [std], [ReleaseNoise()], books, task=0, is_non_negative=True)
    assert said.ratio == pytest.approx(np.linalg.norm(drawn.by_class) / 100, rel=6 / math.sqrt(512))
    with_one_list = replace(spec, labels="prior-const")
    (more,) = forecast(with_one_list, n_features=64, classes_per_task=2, facts=PublicSizes(1000, 5, 10))
    assert more.ratio == pytest.approx(said.ratio * math.sqrt(5))
    assert more.has_one_list


def test_the_digits_are_warned_of_where_copies_were_seen_to_fail() -> None:
    """Measured in one task: 16 directions keep 10 % at epsilon 4, 28 % at 8, 65 % at 16; all 64 values 12 % at 16."""
    assert [one.epsilon for one in told(copies([4.0, 8.0, 16.0, math.inf]))] == [4.0]
    (projected,) = told(copies([4.0]))
    assert projected.ratio == pytest.approx(3.8, rel=0.02)
    assert "usual signal" in projected.sentence
    assert "project_to" not in projected.sentence
    (everything,) = told(copies([16.0], 0))
    assert everything.ratio == pytest.approx(1.96, rel=0.02)
    assert "a projection to a few directions (params.project_to)" in everything.sentence


def test_the_digits_are_warned_of_where_sums_were_seen_to_fail() -> None:
    """Measured with a list a task: epsilon 0.2 keeps 2 %, 0.5 keeps 11 %, 1 keeps 39 %, 2 keeps 83 %."""
    raw = {"method": "dp-coeff-memory", "labels": "prior", "privacy": {"epsilons": [0.2, 0.5, 1.0, 2.0]}}
    assert [one.epsilon for one in told(raw, PublicSizes(1347, 5, 10), 2)] == [0.2, 0.5]


def test_releases_of_an_example_in_all_tasks_share_the_budget_here_too() -> None:
    every = PublicSizes(1347, 5, 10, "every")
    sums = {"method": "dp-coeff-memory", "scenario": {"kind": "permuted"}, "privacy": {"epsilons": [0.1]}}
    assert told(sums, every)[0].ratio == pytest.approx(told(sums)[0].ratio * math.sqrt(5), rel=1e-3)
    (more,) = told(copies([4.0], scenario={"kind": "permuted"}), every)
    assert more.ratio > 5 * told(copies([4.0]))[0].ratio


def test_as_many_people_as_the_note_asks_for_make_it_even() -> None:
    for raw in (copies([2.0]), copies([8.0], 0)):
        (short,) = told(raw)
        assert short.needed is not None
        (even,) = told(raw, PublicSizes(math.ceil(short.needed) * 10 - 10, 1, 10))
        assert even.ratio == pytest.approx(1.0, abs=0.02)


def test_a_run_that_cannot_succeed_says_so_first_and_then_fails_as_told() -> None:
    spec: RunSpec = checks.parse({**copies([2.0], 0), "seeds": [0, 1]})
    said = list(engine.run(spec))
    notes = [event.text for event in said if isinstance(event, Note) and event.level == "warning"]
    assert len(notes) == 1
    assert "accuracy will be near chance" in notes[0]
    assert "e+" not in notes[0]
    assert (note(told(copies([0.5], 0))) or "").count("times") == 1
    reached = [event.metrics["AA"] or 0.0 for event in said if isinstance(event, CellFinished)]
    assert max(reached) < 0.3
