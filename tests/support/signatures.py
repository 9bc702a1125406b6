"""Made-up events of a method whose clients send lists: two clients, two groups, one entry wrong, one ambiguous."""

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcl_core.events import AnchorScores, Event, ListEntries, Prototypes, Signatures, TaskLearned
from dpcl_core.spec import Cell

ENTRIES = ListEntries(
    client=(0, 0, 1, 1), weight=(0.75, 0.25, 0.5, 0.5), mean=((0.0, 0.1), (1.0, 0.9), (0.1, 0.0), (0.9, 1.1)),
    signature=((-2.0, 0.0), (2.0, 0.5), (-1.8, 0.2), (1.9, -0.4)), group=(0, 1, 0, 0), margin=(0.9, 0.8, 0.05, 0.3),
    regret=(0.5, 0.25, 0.0, 1.5), mode=(0, 1, 0, 1),
)  # fmt: skip
PROTOTYPES = Prototypes(
    name=("World", "Sports"), mean=((0.0, 0.0), (1.0, 1.0)), signature=((-2.0, 0.1), (2.0, 0.0)),
    mean_spread=((0.01, 0.0, 0.01), (0.0, 0.0, 0.0)), signature_spread=((0.04, 0.01, 0.02), (0.0, 0.0, 0.0)),
)  # fmt: skip
SCORES = AnchorScores(0.5, (10, 50), (0.61, 0.6), (0.2, 0.0), (0.9, 1.3), (57.0, math.inf), (0.7, 0.9))
TOLD = Signatures(
    Cell(4.0, 13), 0, 0, ENTRIES, PROTOTYPES, (0.5, 0.75), "anchors, centred",
    agreement={"random": 0.0, "anchors, centred": 0.5, "public axes": 0.8}, noise_levels=(0.0, 0.1),
    agreement_at={"Hungarian": (1.0, 0.2), "anchors, centred": (1.0, 0.6)}, demanded={"central": 0.03, "local": 0.9},
    signal={"mean": 0.4, "second moment": 0.8}, noise={"mean": 0.15, "second moment": 40.0}, anchors=SCORES,
    mode_names=("World", "Sports"),
)  # fmt: skip


def with_lists(said: Sequence[Event]) -> list[Event]:
    """What a run says, and after each task also what a method with lists would say of it."""
    found: list[Event] = []
    for event in said:
        found.append(event)
        if isinstance(event, TaskLearned):
            found.append(replace(TOLD, cell=event.cell, task=event.task))
    return found
