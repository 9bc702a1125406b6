"""The simulated clients' lists to play with: what the element in `assets/anchors/` is drawn from."""

from __future__ import annotations

from typing import NamedTuple

from dpcl_core.explorers import anchor_play

MATCHERS = {
    "centred": "anchors, centred", "ranked": "anchors, ranked", "raw": "anchors, raw", "axes": "public axes",
    "hungarian": "Hungarian", "nearest": "nearest mean", "transport": "optimal transport", "random": "random",
}  # fmt: skip


class Start(NamedTuple):
    """What is shown first, as `document` takes it."""

    length: int = 384
    m: int = 50
    noise: float = 0.1
    matcher: str = "centred"


WORDS = {
    "legend": "Place: signature (edge: beyond). Colour: group. Shape: digit ● 0, ■ 1, ▲ 2, ◆ 3. Outline: wrong group.",
    "found": "“{matcher}” puts {n} of {of} entries in their group, agreement {agreement}.",
    "better": " Best: “{best}”, {most}.",
    "none_better": " No matcher does better.",
    "hand": "Which entries are of the same digit? Match them before the machine does.",
    "ask": "Press an entry until it has the number of its like in list 1, or type 1 to 4. Less noise makes it easier.",
    "left": "{left} of {of} entries left.",
    "compared": "You: {n} of {of} right, agreement {mine}. The machine, “{matcher}”: {machine} of {of}, {theirs}.",
}


def document(length: int, m: int, noise: float, matcher: str) -> dict[str, object]:
    """The data of the element: lists of vectors with `length` numbers and their groups, where to start, and its words.

    `m`: anchors; `noise`: standard deviation on every coordinate; `matcher`: a key of `MATCHERS`. Raises DataMissing.
    """
    start = {"m": m, "noise": noise, "matcher": MATCHERS[matcher]}
    return {"lists": anchor_play.read(length), "start": start, "words": WORDS}
