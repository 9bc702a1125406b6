"""Events survive JSON, infinity and gaps included; the list is closed."""

import json
import math

import pytest

from dpcl_core import events
from dpcl_core.events import from_json, to_json
from dpcl_core.spec import Cell

GUARANTEE = events.Guarantee(
    math.inf, 1e-5, "one training example", "add-remove", "parallel", "every classifier", None, "release", ("a",), (),
    ("b", "inf"), {"task 1": 1.0, "all": math.inf},
)  # fmt: skip
SUMS = events.Spending("sums", 0, (0, 1), 2, events.Mechanism("gaussian", 3.0, (0.1, 1.0), 5))
TEXTS = events.Spending("texts", 0, (0, 1), 1, events.Mechanism("no-bound"))
SCORED = events.ScoredText(
    (" Grace", "\n", " \u05e9\u05dc\u05d5\u05dd", "\U0001f600"), (0.25, 1.0, 1e-9, 0.5), (-0.154, 0.0, 0.3, 0.1),
    (False, True, False, False), ("NAME", "", "D:city", ""), "neutral",
)  # fmt: skip
ENTRIES = events.ListEntries(
    (0, 1), (0.75, 1.0), ((0.1, -0.2), (0.0, 0.0)), ((3.0, 1.5), (-2.0, 0.0)), (0, -1), (0.9, 0.0), (0.25, None), (2, -1)
)
GROUPS = events.Prototypes(
    ("World", "Sports"), ((0.0, 0.1), (0.2, 0.2)), ((1.0, 1.0), (-1.0, 0.0)), ((0.1, 0.0, 0.1), (0.0, 0.0, 0.0)),
    ((0.5, -0.2, 0.5), (0.0, 0.0, 0.0)),
)  # fmt: skip
ROWS = events.QuantizedRows(2, (0.5,), "eJz7DwABAQEA")
EVENTS = [
    events.Started(2, ("one", "two"), "Digits", 100, 10),
    events.Progress("training", 1, 5, None, "summing"),
    events.TaskLearned(Cell(math.inf, 3), 1, (0.5, 0.25), 0.4, math.inf),
    events.CellFinished(Cell(1.0, 0), {"AA": 0.5, "AF": None}, GUARANTEE, 1.5),
    events.Note("warning", "careful"),
    events.Planned(
        math.inf, 1e-5, 900, 2, ((Cell(1.0, 0),), (Cell(math.inf, 0),)),
        ((1.0, events.Written("replace", "once", (SUMS,), 3)), (math.inf, events.Written("replace", "once", (TEXTS,), 3))),
    ),
    events.References(0.25, None, n_tested=412.5),
    events.References(0.0, 0.5, n_tested=None, ceiling=0.75),
    events.TokensScored(Cell(10.0, 0), 2, "current", (SCORED, events.ScoredText((), (), (), (), (), ""))),
    events.Retained(Cell(math.inf, 1), 1, (0.5, -0.1), (None, 2.5)),
    events.Leaks(
        Cell(8.0, 0), -1, (0, 1, 16), (1.4, 1.5, 13.3), (1.4, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.5), (10, 5, 5),
        0.0, 0.95,
    ),
    events.Signatures(
        Cell(4.0, 13), 1, 0, ENTRIES, GROUPS, (0.5, 0.75), "anchors, centred", {"random": 0.0}, (0.0, 0.1),
        {"random": (0.0, -0.01)}, {"central": 0.03, "local": math.inf}, {"mean": 0.4}, {"mean": 0.15},
        events.AnchorScores(0.5, (10, 50), (0.6, 0.6), (0.2, 0.0), (0.9, 1.3), (57.0, math.inf), (0.7, 0.9)),
        lists=events.FullLists(((1.0, 0.0),), ((2, -1),), ROWS, None),
        public=events.PublicPart(ROWS, ROWS, (0.0, 1.0), 0.5, ((0.0, 1.0),) * 3, ((0.0,),) * 3),
    ),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_strict_json(event: object) -> None:
    text = json.dumps(to_json(event), allow_nan=False)  # type: ignore[arg-type]
    back = from_json(json.loads(text))
    assert back == event
    assert type(back) is type(event)


def test_text_that_looks_like_infinity_stays_text() -> None:
    back = from_json(json.loads(json.dumps(to_json(EVENTS[3]))))
    assert isinstance(back, events.CellFinished)
    assert back.guarantee.caveats == ("b", "inf")


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        from_json({"event": "Telegram"})
