"""Caps on the size of a dataset, from the settings."""

from __future__ import annotations

from typing import NamedTuple

from dpcl_core.spec import DataSpec


class Caps(NamedTuple):
    """Largest numbers of examples kept: training and test examples per class, training examples per source (None: all)."""

    train_per_class: int | None = None
    test_per_class: int | None = None
    train_per_source: int | None = None

    @classmethod
    def of(cls, data: DataSpec) -> Caps:
        """The caps in the settings."""
        return cls(data.train_per_class, data.test_per_class, data.train_per_source)

    @property
    def train(self) -> tuple[int | None, bool]:
        """The training cap, and whether it is one per source; settings allow one of the two."""
        per_source = self.train_per_source
        return (self.train_per_class, False) if per_source is None else (per_source, True)


UNCAPPED = Caps()
