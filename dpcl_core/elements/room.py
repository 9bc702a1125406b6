"""A classroom in the browser: what the elements in `assets/room/` and `assets/ballot/` need to ask for the room."""

from __future__ import annotations

from dpcl_core.methods import catalog as methods

_GONE = "The server does not answer. This page goes on by itself when it is back."
WORDS = {
    "gone": _GONE,
    "wait": "No question yet. {people} people are in the room.",
    "wait_one": "No question yet. One person is in the room.",
    "choose": "Choose an answer. {n} of {people} have answered; you see the others' answers when you have given yours.",
    "open": "{n} of {people} have answered. An answer can still be changed.",
    "over": "Over: {n} of {people} answered.",
    "count": "{n} answers",
    "count_one": "1 answer",
    "right": ", the right answer",
    "axis": "privacy budget ε: to the left, more privacy",
    "point": "{name}: {method}, {budget}, {accuracy}",
    "none": "No run has finished yet. Runs that are started in this room appear here as points.",
    "many": "{runs} runs.",
    "one": "One run.",
    "best": "The best with privacy so far: {accuracy} at {budget}, {method}, by {name}.",
    "unbounded": "No result with a bound on ε so far.",
    "hollow": "hollow: ε is no bound",
    "bound": "ε = {epsilon}",
    "claimed": "claimed ε = {epsilon}",
    "replay": "replay ε = {epsilon}, total ∞",
    "asked": "asked ε = {epsilon}, total ∞",
    "noiseless": "no noise",
    "curve": "The run of {name} ({budget}): {first} after the first task, {last} after the last",
    "tasks": "tasks learned so far; accuracy on all of them",
}


_OF_BALLOT = {
    "gone": _GONE,
    "none": "You are in the classroom “{title}”. When a lesson's question is asked there, your prediction is your answer.",
    "other": "There is a question in the classroom “{title}”.",
    "asked": "Asked in the classroom “{title}”: your prediction is your answer. {n} of {people} have answered.",
    "counted": "Your prediction counts in the classroom “{title}”. {n} of {people} have answered.",
}


def document(code: str, *, is_poll_alone: bool = False) -> dict[str, object]:
    """The data of the element for one room. `is_poll_alone`: without everybody's runs."""
    titles = {name: card.title for name, card in methods.CARDS.items()}
    return {"code": code, "words": WORDS, "methods": titles, "is_poll_alone": is_poll_alone}


def ballot(code: str) -> dict[str, object]:
    """The data of the element that carries a lesson's predictions into a room."""
    return {"code": code, "words": _OF_BALLOT}
