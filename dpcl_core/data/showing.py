"""Decides whether the texts of a dataset may be shown word by word."""

from __future__ import annotations

from dpcl_core.data import files
from dpcl_core.data.card import DatasetCard

MARKS = ("public.txt", "synthetic.txt")  # an empty file of this name declares the texts beside it public or synthetic


def is_marked(card: DatasetCard) -> bool:
    """Whether the owner has declared these texts public or synthetic. Raises as `files.find` does."""
    folder = files.find(card).train[0].parent
    return any((folder / mark).is_file() for mark in MARKS)


def refusal(card: DatasetCard) -> str | None:
    """The reason why texts of this dataset are not shown, in one sentence; None where they may be."""
    if card.may_show:
        return None
    if card.is_own:
        folder = files.roots(card)[0] / card.folder
        return (
            f"{card.name} may hold private texts, so none is shown: a page with the words of one is a release without any "
            f"protection; if they are public or synthetic, say so with an empty file {MARKS[0]} or {MARKS[1]} in {folder}"
        )
    return f"{card.title} holds accounts of distress that people wrote under no name: none of them is shown"
