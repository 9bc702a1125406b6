"""The data of Start's doors come from where the pages behind them have theirs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

import numpy as np

from dpcl_core.elements import calculator, element
from dpcl_core.explorers.tokens import Dials


def _of(door: element.Door) -> dict[str, Any]:
    return cast("dict[str, Any]", element.doors_document(door))


def test_the_curve_is_the_sliders() -> None:
    source = calculator.digits("prior-const", 5)
    for epsilon, share in _of("digits")["points"]:
        assert abs(share - np.mean(source.finals[epsilon])) <= 5e-5  # stored with four digits


def test_a_sentence_is_scored_and_shaded_as_on_its_page() -> None:
    door, page = _of("words"), element.document(None, Dials(), "score", "", (1.0,), None)
    assert door["model"] == page["model"]
    assert door["dials"] == asdict(Dials()) == page["dials"]
    layers = cast("list[dict[str, Any]]", page["layers"])
    assert door["edges"] == next(layer["edges"] for layer in layers if layer["name"] == door["layer"])


def test_clients_are_matched_as_on_their_page() -> None:
    door, start = _of("clients"), element.Start()
    lists = cast("dict[str, Any]", element.anchors_document(*start)["lists"])
    place = lists["counts"].index(start.m)
    assert door["noises"][door["start"]] == start.noise
    assert door["lists"]["groups"] == lists["groups"][element.MATCHERS[start.matcher]][place]
    assert len(door["lists"]["groups"]) == len(door["noises"])
