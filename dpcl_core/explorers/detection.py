"""Whether a score finds private tokens: against true spans, against harmless look-alikes, and beside a plain pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpcl_core.data.texts import LOOKALIKE
from dpcl_core.events import ScoredText

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of many texts in a row, [m] each: kinds ("" outside spans), stop words, and words with a telling pattern."""

    kinds: NDArray[np.str_]
    is_stop: Bools
    has_pattern: Bools

    @property
    def is_private(self) -> Bools:
        """Inside a span of a private kind."""
        found: Bools = (self.kinds != "") & ~self.is_lookalike
        return found

    @property
    def is_lookalike(self) -> Bools:
        """Inside a span that looks private and is harmless."""
        found: Bools = np.char.startswith(self.kinds, LOOKALIKE)
        return found


def gathered(texts: Sequence[ScoredText]) -> Tokens:
    """The tokens of all texts, in order."""
    kinds = [kind for text in texts for kind in text.kinds]
    stops = [stop for text in texts for stop in text.is_stop]
    marks = [mark for text in texts for mark in patterns(text.tokens)]
    return Tokens(np.array(kinds, dtype=np.str_), np.array(stops, np.bool_), np.array(marks, np.bool_))


def patterns(tokens: Sequence[str]) -> list[bool]:
    """Of each token, whether the word it lies in has a capital letter, an @ or two digits: a floor, not a proposal.

    A token that lies in no word (blanks alone) has none; one that reaches into two counts for the last.
    """
    text, ends = "".join(tokens), np.cumsum([len(token) for token in tokens]).tolist()
    inside = np.zeros(len(text) + 1, np.bool_)
    for word in _WORD.finditer(text):
        inside[word.start() : word.end()] = _is_marked(word.group())
    return [bool(inside[max(end - 1, 0)]) for end in ends]


def _is_marked(word: str) -> bool:
    return "@" in word or any(map(str.isupper, word)) or sum(map(str.isdigit, word)) >= 2


def auroc(score: Floats, is_hit: Bools) -> float:
    """Chance that a hit scores above another, ties counted half; NaN where there are none of either. Args: both [m]."""
    n_hits = int(is_hit.sum())
    n_others = len(is_hit) - n_hits
    if not n_hits or not n_others:
        return float("nan")
    ranks = rankdata(score)
    return float((ranks[is_hit].sum() - n_hits * (n_hits + 1) / 2) / (n_hits * n_others))


def average_precision(score: Floats, is_hit: Bools) -> float:
    """Mean over hits of the share of hits among what scores at least as high; NaN where there are none. Args: both [m]."""
    if not is_hit.any():
        return float("nan")
    order = np.argsort(-score, kind="stable")
    ranked, hits = score[order], is_hit[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # tied scores are taken together
    found = np.cumsum(hits)[last]
    return float((np.diff(found, prepend=0) * found / (last + 1)).sum() / hits.sum())


@dataclass(frozen=True, slots=True)
class Found:
    """How well a score ranks private tokens above others: AUROC and average precision, and the share of hits, by name."""

    auroc: Mapping[str, float]
    precision: Mapping[str, float]
    share: Mapping[str, float]


EVERY, NO_STOPS, AGAINST = "all tokens", "without stop words", "against look-alikes"


def found(score: Floats, tokens: Tokens) -> Found:
    """The score [m] against true spans: all tokens, without stop words, and private ones against look-alikes alone."""
    groups = {
        EVERY: np.ones(len(score), np.bool_),
        NO_STOPS: ~tokens.is_stop,
        AGAINST: tokens.is_private | tokens.is_lookalike,
    }
    private = tokens.is_private
    return Found(
        {name: auroc(score[rows], private[rows]) for name, rows in groups.items()},
        {name: average_precision(score[rows], private[rows]) for name, rows in groups.items()},
        {name: float(private[rows].mean()) if rows.any() else float("nan") for name, rows in groups.items()},
    )


def recall(score: Floats, rows: Bools, threshold: float) -> float:
    """Share of these tokens above the threshold; NaN where there are none."""
    return float((score[rows] > threshold).mean()) if rows.any() else float("nan")


def by_kind(score: Floats, tokens: Tokens) -> dict[str, float]:
    """AUROC of each kind's tokens, look-alikes too, against tokens outside any span. In the order of their names."""
    outside = tokens.kinds == ""
    kinds = [str(kind) for kind in np.unique(tokens.kinds) if kind]
    rows = {kind: outside | (tokens.kinds == kind) for kind in kinds}
    return {kind: auroc(score[rows[kind]], tokens.kinds[rows[kind]] == kind) for kind in kinds}
