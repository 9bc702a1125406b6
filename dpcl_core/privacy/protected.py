"""Units of privacy in the words of the statement: an example, a text, or all that a client contributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpcl_core.spec import Adjacency


@dataclass(frozen=True, slots=True)
class Protected:
    """One unit of privacy. `noun` with its `article`; `one`: whom it represents; `several`: what is counted in public.

    `unit`: what taking part means, as in `Guarantee.unit`; `in_several`: who is protected less than it seems ("": nobody);
    `neighbours`: by adjacency; `beyond`: what is never protected, None where it depends on the dataset.
    """

    noun: str
    article: str
    one: str
    several: str
    unit: str
    in_several: str
    neighbours: Mapping[Adjacency, str]
    beyond: str | None = None


def _single(noun: str, article: str) -> Protected:
    changed: dict[Adjacency, str] = {
        "add-remove": f"one {noun} is present or left out, and the announced number of {noun}s stays the same (zero-out)",
        "replace": f"one {noun} is exchanged for another",
    }
    in_several = f"a person with {noun}s in several tasks"
    return Protected(noun, article, "person", f"training {noun}s", f"one training {noun}", in_several, changed)


PROTECTED: Mapping[str, Protected] = {
    "example": _single("example", "an"),
    "text": _single("text", "a"),
    "person": Protected(
        "person",
        "a",
        "person",
        "people",
        "one person, with all rows under their name that count",
        "",
        {
            "add-remove": "one person's rows are present or left out, and the announced number of rows stays (zero-out)",
            "replace": "one person's rows are exchanged for another's",
        },
    ),
    "user": Protected(
        "client",
        "a",
        "client",
        "clients",
        "one client, with everything that it holds",
        "a client that holds examples of several tasks",
        {
            "add-remove": "one client's contribution counts or is left out, and the announced number stays (zero-out)",
            "replace": "one client's contribution is exchanged for another's",
        },
        "a person about whom several clients hold something: each client is protected, not what they share",
    ),
}


def who(unit: str) -> str:
    """Whom a statement with this `Guarantee.unit` protects: "person" or "client"."""
    return next((one.one for one in PROTECTED.values() if one.unit == unit), "person")
