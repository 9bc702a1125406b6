"""The finding above everybody's runs, as the browser says it: only a proved bound is called privacy."""

import re

import pytest

from dpcl_core.elements.element import ROOM, ROOM_WORDS
from dpcl_core.figures import theme
from dpcl_core.methods import catalog as methods
from dpcl_core.paths import assets_dir
from tests.support import javascript

pytestmark = javascript.NEEDED


def _found(*points: tuple[str, object, str, float]) -> str:
    """The finding on points of these runs, budgets, standings and accuracies."""
    sent = {
        "words": ROOM_WORDS,
        "points": [
            {"run_id": run, "epsilon": epsilon, "standing": standing, "accuracy": accuracy, "name": "ibex", "method": "m"}
            for run, epsilon, standing, accuracy in points
        ],
    }
    script = "console.log(JSON.stringify(found(fromPython.points, fromPython.words, (method) => method)));"
    return str(javascript.run(ROOM.module, script, sent=sent))


def test_no_two_methods_of_a_class_have_one_mark() -> None:
    marks = javascript.run(ROOM.module, "console.log(JSON.stringify([...Array(30).keys()].map(mark)));")
    assert len({(mark["d"], mark["fill"]) for mark in marks}) == len(marks) > len(methods.CARDS)


def test_colours_are_those_of_figures() -> None:
    sheet = (assets_dir() / "room/room.css").read_text(encoding="utf-8")
    colours = re.findall(r"--c(\d): light-dark\((#\w+), (#\w+)\);", sheet)
    assert colours == [(str(n), *(theme.colour_of_series(n, dark) for dark in (False, True))) for n in range(8)]


def test_the_best_with_privacy_has_a_bound() -> None:
    said = _found(("a", 1, "bound", 0.7), ("a", "inf", "bound", 0.95), ("b", 0.5, "claimed", 0.9), ("c", 1, "none", 0.8))
    assert said == "3 runs. The best with privacy so far: 70 % at ε = 1, m, by ibex."
    assert _found() == ROOM_WORDS["none"]


@pytest.mark.parametrize(("epsilon", "standing"), [("inf", "bound"), (0.5, "claimed"), (1, "none"), (1, "replay")])
def test_a_run_without_a_bound_is_never_the_best_with_privacy(epsilon: object, standing: str) -> None:
    assert _found(("a", epsilon, standing, 0.9)) == "One run. No result with a bound on ε so far."
