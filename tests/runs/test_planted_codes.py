"""The audit of a whole trained model: what it reads off a run's events, and what it refuses in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from dpcl_core import checks
from dpcl_core.cli import main
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Guarantee, Leaks
from dpcl_core.runs import audits
from dpcl_core.spec import Cell, RunSpec

CELLS = (Cell(2.0, 0), Cell(2.0, 1))


def spec(dataset: str = "pii-synthetic") -> RunSpec:
    raw = {
        "method": "lm-seqft",
        "data": {"dataset": dataset, "backbone": "lm-tiny"},
        "scenario": {"kind": "source-incremental"},
        "labels": "prior",
        "privacy": {"epsilons": [2.0]},
        "seeds": [0, 1],
    }
    return checks.parse(raw)


def leaks(cell: Cell, task: int, bound: float) -> Leaks:
    return Leaks(
        cell, task, (0, 1, 16), (1.4, 2.0, 9.0), (1.4, 1.0, 0.1), (0, 0, 0.5), (0, 0, 0.5), (60, 30, 29), bound, 0.95
    )


def finished(cell: Cell, epsilon: float) -> CellFinished:
    bound = Guarantee(epsilon, 1e-5, "a text", "add-remove", "", "", cell.epsilon, "release", (), (), (), {})
    return CellFinished(cell, {}, bound, 1.0)


def events() -> Iterator[Event]:
    """Two models; the first one's codes are asked twice."""
    for cell, bound, epsilon in zip(CELLS, (0.4, 0.0), (1.9, math.inf), strict=True):
        yield leaks(cell, -1, 0.0)
        yield leaks(cell, 5, bound)
        yield finished(cell, epsilon)


def test_the_last_word_on_every_model_counts() -> None:
    first, second = audits.results(spec(), events())
    assert (first.claimed, first.accounted, first.lower_bound, first.trials) == (2.0, 1.9, 0.4, 59)
    assert (second.accounted, second.lower_bound) == (math.inf, 0)
    assert first.sentence().startswith(
        "claimed epsilon 2, accounted 1.9, audited at least 0.40 (95 % confidence, 59 planted codes)"
    )
    assert "accounted no bound, audited at least 0.00" in second.sentence()
    assert first.document()["unit"] == "planted codes"


def test_texts_without_codes_are_refused() -> None:
    with pytest.raises(BadInput, match=r"no codes are planted: try data\.dataset = pii-synthetic"):
        list(audits.results(spec(), iter([finished(CELLS[0], 1.0)])))


def test_a_method_without_a_language_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["audit", "--preset", "digits-cosine", "--attack", audits.NAME]
    assert main(command) != 0
    assert "--attack = planted-codes: must be left out: cosine trains no language model" in capsys.readouterr().err


def test_only_codes_asked_for_by_name_need_a_training() -> None:
    """The attack that runs are audited with stays the one on the mechanism."""
    from dpcl_core.attacks import catalog

    assert audits.is_offered(spec())
    assert audits.NAME not in catalog.names("pecl-published")
