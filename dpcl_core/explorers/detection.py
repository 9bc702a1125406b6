"""Detection of private tokens by a score, against true spans, harmless look-alikes and a simple pattern baseline."""

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
    """Concatenated tokens of many texts, [m] each: kind ("" outside spans), stop word, word with a suspicious pattern."""

    kinds: NDArray[np.str_]
    is_stop: Bools
    has_pattern: Bools

    @property
    def is_private(self) -> Bools:
        """Inside a span of a private kind."""
        is_private: Bools = (self.kinds != "") & ~self.is_lookalike
        return is_private

    @property
    def is_lookalike(self) -> Bools:
        """Inside a span that looks private and is harmless."""
        is_lookalike: Bools = np.char.startswith(self.kinds, LOOKALIKE)
        return is_lookalike


def gathered(texts: Sequence[ScoredText]) -> Tokens:
    """The tokens of all texts, in order."""
    kinds = [kind for text in texts for kind in text.kinds]
    stops = [stop for text in texts for stop in text.is_stop]
    marks = [mark for text in texts for mark in patterns(text.tokens)]
    return Tokens(np.array(kinds, dtype=np.str_), np.array(stops, np.bool_), np.array(marks, np.bool_))


def patterns(tokens: Sequence[str]) -> list[bool]:
    """Whether each token's word has a capital letter, an @ or two digits: a baseline detector, not a proposed one.

    A token outside any word (blanks only) has none; a token that spans two words counts as part of the last.
    """
    text, ends = "".join(tokens), np.cumsum([len(token) for token in tokens]).tolist()
    inside = np.zeros(len(text) + 1, np.bool_)
    for word in _WORD.finditer(text):
        inside[word.start() : word.end()] = _is_marked(word.group())
    return [bool(inside[max(end - 1, 0)]) for end in ends]


def _is_marked(word: str) -> bool:
    return "@" in word or any(map(str.isupper, word)) or sum(map(str.isdigit, word)) >= 2


def auroc(score: Floats, is_hit: Bools) -> float:
    """Chance that a hit scores above a non-hit, ties counted half; NaN if either is missing. Args: both [m]."""
    n_hits = int(is_hit.sum())
    n_others = len(is_hit) - n_hits
    if not n_hits or not n_others:
        return float("nan")
    ranks = rankdata(score)
    return float((ranks[is_hit].sum() - n_hits * (n_hits + 1) / 2) / (n_hits * n_others))


def average_precision(score: Floats, is_hit: Bools) -> float:
    """Mean over hits of the precision at their score; NaN if there are no hits. Args: both [m]."""
    if not is_hit.any():
        return float("nan")
    order = np.argsort(-score, kind="stable")
    ranked, hits = score[order], is_hit[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # tied scores are taken together
    n_hits = np.cumsum(hits)[last]
    return float((np.diff(n_hits, prepend=0) * n_hits / (last + 1)).sum() / hits.sum())


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """AUROC, average precision and share of private tokens, by group of tokens."""

    auroc: Mapping[str, float]
    precision: Mapping[str, float]
    share: Mapping[str, float]


EVERY, NO_STOPS, AGAINST = "all tokens", "without stop words", "against look-alikes"


def scores(score: Floats, tokens: Tokens) -> DetectionScores:
    """Evaluates a score [m] against true spans: on all tokens, without stop words, and on private tokens and look-alikes."""
    groups = {
        EVERY: np.ones(len(score), np.bool_),
        NO_STOPS: ~tokens.is_stop,
        AGAINST: tokens.is_private | tokens.is_lookalike,
    }
    private = tokens.is_private
    return DetectionScores(
        {name: auroc(score[rows], private[rows]) for name, rows in groups.items()},
        {name: average_precision(score[rows], private[rows]) for name, rows in groups.items()},
        {name: float(private[rows].mean()) if rows.any() else float("nan") for name, rows in groups.items()},
    )


def recall(score: Floats, rows: Bools, threshold: float) -> float:
    """Share of the tokens in `rows` [m] with a score above the threshold; NaN if there are none."""
    return float((score[rows] > threshold).mean()) if rows.any() else float("nan")


def by_kind(score: Floats, tokens: Tokens) -> dict[str, float]:
    """AUROC of each kind's tokens, look-alikes included, against tokens outside any span; sorted by kind."""
    outside = tokens.kinds == ""
    kinds = [str(kind) for kind in np.unique(tokens.kinds) if kind]
    rows = {kind: outside | (tokens.kinds == kind) for kind in kinds}
    return {kind: auroc(score[rows[kind]], tokens.kinds[rows[kind]] == kind) for kind in kinds}
