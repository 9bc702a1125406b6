"""Truthful titles of datasets: a subset, a stand-in or own data is never shown as a published set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.card import UNCAPPED, Caps, DatasetCard, Kind

if TYPE_CHECKING:
    from dpcl_core.data.outline import Outline


_WHAT: Mapping[Kind, str] = {
    "image": "images", "sensor": "windows", "text": "texts", "tagged": "words", "table": "rows", "embedding": "embeddings",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Nominal numbers of training examples and numbers of test examples of each class: int64 [classes]."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def of(cls, outline: Outline, caps: Caps = UNCAPPED) -> Sizes:
        """Sizes of an outline or of its subset; nothing of the training part is counted."""
        test = np.bincount(outline.thinned_test(caps).labels, minlength=len(outline.classes))
        return cls(_evenly(outline.n_kept(caps), len(outline.classes)), test)

    @classmethod
    def published(cls, card: DatasetCard, caps: Caps = UNCAPPED) -> Sizes:
        """The card's sizes or those of a subset, as even over sources and classes as integers allow."""
        n_train = int(_capped(_evenly(card.n_train, max(1, len(card.sources))), caps.train_per_source).sum())
        train, test = _evenly(n_train, card.n_classes), _evenly(card.n_test, card.n_classes)
        return cls(_capped(train, caps.train_per_class), _capped(test, caps.test_per_class))

    @property
    def totals(self) -> tuple[int, int]:
        return int(self.train.sum()), int(self.test.sum())


def title(card: DatasetCard, members: Sequence[DatasetCard], subset: Sequence[Sizes], full: Sequence[Sizes]) -> str:
    """The card's title with its difference from the published set: of each member the `subset` was read out of `full`.

    For instance "CIFAR-100 (subset: 300 of 500 training and 40 of 100 test images a class)".
    """
    read = [sizes.totals for sizes in subset]
    published = [
        sizes.totals if member.is_own else (member.n_train, member.n_test)
        for member, sizes in zip(members, full, strict=True)
    ]
    notes = ["own data"] if card.is_own else []
    if card.stands_in_for:
        notes.append(f"stands in for {card.stands_in_for}")
    if any(_differs(*member) for member in zip(members, read, published, strict=True)):
        notes.append(_difference(card, subset, _sum(read), _sum(published)))
    return f"{card.title} ({'; '.join(notes)})" if notes else card.title


def _differs(card: DatasetCard, read: tuple[int, int], published: tuple[int, int]) -> bool:
    """Whether the sizes read differ from the published ones; for a set divided here only the sum is published."""
    return read != published if card.held_out is None else sum(read) != sum(published)


def _difference(card: DatasetCard, subset: Sequence[Sizes], read: tuple[int, int], published: tuple[int, int]) -> str:
    what = _WHAT[card.kind]
    if sum(read) > sum(published) or (card.held_out is None and (read[0] > published[0] or read[1] > published[1])):
        instead = f"{published[0]:,} and {published[1]:,}"
        return f"not as published: {read[0]:,} training and {read[1]:,} test {what} instead of {instead}"
    if card.held_out is not None:
        return f"subset: {read[0]:,} training and {read[1]:,} test {what} of {sum(published):,}"
    unit = " a class" if card.is_balanced and all(np.ptp(sizes) == 0 for sizes in (subset[0].train, subset[0].test)) else ""
    per = card.n_classes if unit else 1
    train, test = (_share(n // per, of // per) for n, of in zip(read, published, strict=True))
    return f"subset: {train} training and {test} test {what}{unit}"


def _share(n: int, of: int) -> str:
    return f"all {of:,}" if n == of else f"{n:,} of {of:,}"


def _sum(totals: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(train for train, _ in totals), sum(test for _, test in totals)


def _evenly(n: int, n_classes: int) -> NDArray[np.int64]:
    return (n + np.arange(n_classes)) // n_classes


def _capped(sizes: NDArray[np.int64], cap: int | None) -> NDArray[np.int64]:
    return sizes if cap is None else np.minimum(sizes, cap)
