"""Does a surprise score identify private tokens? Public synthetic texts, scored live by the bundled model.

The page Sensitive words takes its examples from here, too. Never use it on private texts: exact scores are a leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.synthetic import corpus
from dpcl_core.data.texts import Texts
from dpcl_core.events import ScoredText
from dpcl_core.explorers import detection, scored_texts, token_layers
from dpcl_core.explorers.detection import DetectionScores, Tokens
from dpcl_core.explorers.token_layers import Dials
from dpcl_core.methods.language import sensitivity

N_TEXTS = 40  # of each source


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Synthetic texts of each source with spans and labels, and Score2 of every token by the counts of all sources."""

    sources: tuple[str, ...]
    texts: tuple[Texts, ...]
    labels: tuple[tuple[str, ...], ...]
    score2: NDArray[np.float64]

    @property
    def strings(self) -> tuple[tuple[str, ...], ...]:
        """The texts of each source, by which Score2 is computed."""
        return tuple(tuple(of.strings) for of in self.texts)

    def some(self, n_texts: int) -> tuple[Texts, tuple[str, ...]]:
        """So many texts with their labels, the first ones of each source in turn."""
        places = [(number, source) for number in range(N_TEXTS) for source in range(len(self.texts))][:n_texts]
        spans = [self.texts[source].spans for _, source in places]
        marked = [of[number] if of is not None else () for of, (number, _) in zip(spans, places, strict=True)]
        strings = [self.texts[source].strings[number] for number, source in places]
        return Texts(strings, marked), tuple(self.labels[source][number] for number, source in places)

    def text(self, source: int, number: int) -> ScoredText:
        """One text, scored."""
        rows = np.array([number])
        return scored_texts.scored(self.texts[source].take(rows), self.score2, [self.labels[source][number]])[0]


@lru_cache(maxsize=1)
def texts() -> Corpus:
    """`N_TEXTS` texts of each source of the synthetic corpus. Raises DataMissing without the bundled model."""
    train, _ = corpus.corpus(round(N_TEXTS / 0.8))
    assert isinstance(train.images, Texts)
    assert train.sources is not None
    names = [label for _, labels in corpus.classes() for label in labels]
    rows = [np.flatnonzero(train.sources == source)[:N_TEXTS] for source in range(len(corpus.classes()))]
    of_sources = tuple(train.images.take(selected) for selected in rows)
    score2 = sensitivity.commonness(scored_texts.counted(of_sources))
    labels = tuple(tuple(names[label] for label in train.labels[selected].tolist()) for selected in rows)
    return Corpus(tuple(name for name, _ in corpus.classes()), of_sources, labels, score2)


@lru_cache(maxsize=1)
def everything() -> tuple[ScoredText, ...]:
    """All of `texts` with scores, by source."""
    all_texts = texts()
    strings = [string for of in all_texts.texts for string in of.strings]
    spans = [marked for of in all_texts.texts for marked in of.spans or ()]
    labels = [label for of_source in all_texts.labels for label in of_source]
    return tuple(scored_texts.scored(Texts(strings, spans), all_texts.score2, labels))


def ranked(of: Sequence[ScoredText], dials: Dials) -> NDArray[np.float64]:
    """Score of every token of all texts in a row."""
    return np.concatenate([token_layers.scores(text, dials) for text in of])


def pattern(tokens: Tokens) -> DetectionScores:
    """How well the plain pattern ranks private tokens."""
    return detection.scores(tokens.has_pattern.astype(np.float64), tokens)


def learned(of: Sequence[ScoredText], share: float, order: int = 2) -> list[ScoredText]:
    """The texts scored by a model that has memorised this share of them: a stand-in for training.

    Its chance of a token is (1 - share) P + share M, M being how often the token followed the `order` tokens before it in
    these very texts: a model mixed with a memory (Kuhn and De Mori 1990; Khandelwal et al. 2020). At share 0 it is the
    frozen model.
    """
    followed: dict[tuple[str, ...], dict[str, int]] = {}
    for text in of:
        for place, token in enumerate(text.tokens):
            after = followed.setdefault(text.tokens[max(0, place - order) : place], {})
            after[token] = after.get(token, 0) + 1
    rescored = []
    for text in of:
        memory = []
        for place, token in enumerate(text.tokens):
            after = followed[text.tokens[max(0, place - order) : place]]
            memory.append(after[token] / sum(after.values()))
        mixed = (1 - share) * np.array(text.probability) + share * np.array(memory)
        chances = tuple(mixed.tolist())
        rescored.append(ScoredText(text.tokens, chances, text.commonness, text.is_stop, text.kinds, text.label))
    return rescored
