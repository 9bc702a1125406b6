"""The doors of Start, small pictures that a hand moves: what they are drawn from, mostly in `assets/doors/`."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import Any

import numpy as np

from dpcl_core import paths
from dpcl_core.elements.hero import Door
from dpcl_core.explorers import anchor_play, browser_model

_MATCHER, _N_ANCHORS, _NOISE = "anchors, centred", 50, 0.1
_LENGTH, _REACH = 384, 1.5  # numbers of a vector; half the width of the map, in its own units


@lru_cache(maxsize=3)
def document(door: Door) -> dict[str, object]:
    """The data of one door, which never change. Raises DataMissing where the model's or the lists' files are missing."""
    return {"kind": door, **{"digits": _digits, "words": _words, "clients": _clients}[door]()}


def _digits() -> dict[str, object]:
    """[ε, accuracy] of the Playground's slider."""
    words = {"dial": "ε on the curve", "said": "ε = {epsilon}: {percent} % after five tasks"}
    return {"points": _read()["digits"], "words": words}


def _words() -> dict[str, object]:
    """The bundled model, and how a score is shaded."""
    words = {"typed": "Your sentence", "start": "Anna flew to Paris.", "score": "score {score}"}
    known = _read()["words"]
    model = browser_model.document(np.frombuffer(base64.b64decode(known["commonness"])))
    return {"model": model, "dials": known["dials"], "layer": known["layer"], "edges": known["edges"], "words": words}


def _clients() -> dict[str, object]:
    """Twenty clients' lists with one number of anchors, and how one matcher groups their entries at every noise."""
    every = anchor_play.read(_LENGTH)
    place = every["counts"].index(_N_ANCHORS)
    lists = {"modes": every["modes"], "places": [every["places"][place]], "groups": every["groups"][_MATCHER][place]}
    words = {"dial": "noise on every list", "said": "{n} of {of} match"}
    return {
        "lists": lists, "reach": _REACH, "noises": every["noises"], "start": every["noises"].index(_NOISE), "words": words,
    }  # fmt: skip


@lru_cache(maxsize=1)
def _read() -> Any:
    return json.loads((paths.assets_dir() / "doors" / "doors.json").read_text(encoding="utf-8"))
