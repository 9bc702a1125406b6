"""Events survive JSON, infinity and gaps included; the list is closed."""

from __future__ import annotations

import json
import math

import pytest

from dpcl_core.events import (
    AnchorScores,
    CellFinished,
    FullLists,
    Guarantee,
    Leaks,
    ListEntries,
    Mechanism,
    Note,
    Planned,
    Progress,
    Prototypes,
    PublicPart,
    QuantizedRows,
    References,
    Retained,
    ScoredText,
    Signatures,
    Spending,
    Started,
    TaskLearned,
    TokensScored,
    Written,
    from_json,
    to_json,
)
from dpcl_core.spec import Cell

GUARANTEE = Guarantee(
    epsilon=math.inf,
    delta=1e-5,
    unit="one training example",
    adjacency="add-remove",
    composition="parallel",
    scope="every classifier",
    claimed_epsilon=None,
    noise="release",
    assumptions=("a",),
    not_covered=(),
    caveats=("b", "inf"),
    parts={"task 1": 1.0, "all": math.inf},
)
EVENTS = [
    Started(2, ("one", "two"), "Digits", 100, 10),
    Progress("training", 1, 5, None, "summing"),
    TaskLearned(Cell(math.inf, 3), 1, (0.5, 0.25), 0.4, math.inf),
    CellFinished(Cell(1.0, 0), {"AA": 0.5, "AF": None}, GUARANTEE, 1.5),
    Note("warning", "careful"),
    Planned(
        math.inf, 1e-5, 900, 2, ((Cell(1.0, 0),), (Cell(math.inf, 0),)),
        ((1.0, Written("replace", "once", (Spending("sums", 0, (0, 1), 2, Mechanism("gaussian", 3.0, (0.1, 1.0), 5)),), 3)),
         (math.inf, Written("replace", "once", (Spending("texts", 0, (0, 1), 1, Mechanism("no-bound")),), 3))),
    ),
    References(0.25, None, n_tested=412.5),
    References(0.0, 0.5, n_tested=None, ceiling=0.75),
    TokensScored(
        Cell(10.0, 0),
        2,
        "current",
        (
            ScoredText(
                (" Grace", "\n", " \u05e9\u05dc\u05d5\u05dd", "\U0001f600"),
                (0.25, 1.0, 1e-9, 0.5),
                (-0.154, 0.0, 0.3, 0.1),
                (False, True, False, False),
                ("NAME", "", "D:city", ""),
                "neutral",
            ),
            ScoredText((), (), (), (), (), ""),
        ),
    ),
    Retained(Cell(math.inf, 1), 1, (0.5, -0.1), (None, 2.5)),
    Leaks(
        Cell(8.0, 0),
        -1,
        (0, 1, 16),
        (1.4, 1.5, 13.3),
        (1.4, 1.0, 0.0),
        (0.0, 0.0, 1.0),
        (0.0, 0.0, 0.5),
        (10, 5, 5),
        0.0,
        0.95,
    ),
    Signatures(
        Cell(4.0, 13),
        1,
        0,
        ListEntries(
            (0, 1),
            (0.75, 1.0),
            ((0.1, -0.2), (0.0, 0.0)),
            ((3.0, 1.5), (-2.0, 0.0)),
            (0, -1),
            (0.9, 0.0),
            (0.25, None),
            (2, -1),
        ),
        Prototypes(
            ("World", "Sports"),
            ((0.0, 0.1), (0.2, 0.2)),
            ((1.0, 1.0), (-1.0, 0.0)),
            ((0.1, 0.0, 0.1), (0.0, 0.0, 0.0)),
            ((0.5, -0.2, 0.5), (0.0, 0.0, 0.0)),
        ),
        (0.5, 0.75),
        "anchors, centred",
        {"random": 0.0},
        (0.0, 0.1),
        {"random": (0.0, -0.01)},
        {"central": 0.03, "local": math.inf},
        {"mean": 0.4},
        {"mean": 0.15},
        AnchorScores(0.5, (10, 50), (0.6, 0.6), (0.2, 0.0), (0.9, 1.3), (57.0, math.inf), (0.7, 0.9)),
        lists=FullLists(((1.0, 0.0),), ((2, -1),), QuantizedRows(2, (0.5,), "eJz7DwABAQEA"), None),
        public=PublicPart(
            QuantizedRows(2, (0.1,), ""), QuantizedRows(2, (0.1,), ""), (0.0, 1.0), 0.5, ((0.0, 1.0),) * 3, ((0.0,),) * 3
        ),
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_strict_json(event: object) -> None:
    text = json.dumps(to_json(event), allow_nan=False)  # type: ignore[arg-type]
    back = from_json(json.loads(text))
    assert back == event
    assert type(back) is type(event)


def test_text_that_looks_like_infinity_stays_text() -> None:
    back = from_json(json.loads(json.dumps(to_json(EVENTS[3]))))
    assert isinstance(back, CellFinished)
    assert back.guarantee.caveats == ("b", "inf")


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        from_json({"event": "Telegram"})
