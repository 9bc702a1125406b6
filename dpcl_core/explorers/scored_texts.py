"""Texts as the bundled model sees them, token by token. NumPy only; nothing is kept of what is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import plain, reader, tokenizer
from dpcl_core.backbones.language.files import BUNDLED
from dpcl_core.data.texts import KINDS, PADDING, Texts
from dpcl_core.events import ScoredText
from dpcl_core.methods.language import sensitivity


def scored(
    texts: Texts, score2: NDArray[np.floating] | None = None, labels: Sequence[str] | None = None
) -> list[ScoredText]:
    """Every text in full. `score2` [size]: Score2 of each token of the vocabulary, None: 0 throughout.

    A character of several tokens is printed with the first of them, so that the tokens joined are the text. Raises
    DataMissing where the bundled model is.
    """
    encoded = tokenizer.load(BUNDLED).encode_all(texts.strings)
    likely = _log_probabilities([ids for ids, _ in encoded])
    found = []
    for row, (ids, offsets) in enumerate(encoded):
        places = np.asarray(offsets, np.int64).reshape(-1, 2)
        marked = reader.kinds(texts.spans[row], places) if texts.spans is not None else np.zeros(len(ids), np.int32)
        found.append(
            ScoredText(
                tokens=_printed(texts.strings[row], offsets),
                probability=tuple(np.exp(np.minimum(likely[row, : len(ids)].astype(np.float64), 0.0)).tolist()),
                commonness=tuple(score2[ids].tolist()) if score2 is not None else (0.0,) * len(ids),
                is_stop=tuple(reader.stops(texts.strings[row], places).tolist()) if len(ids) else (),
                kinds=tuple(KINDS[kind - 1] if kind else "" for kind in marked.tolist()),
                label=labels[row] if labels is not None else "",
            )
        )
    return found


def counted(tasks: Sequence[Texts]) -> NDArray[np.int64]:
    """How often each token occurs in the texts of each task, [N, size]: what Score2 is computed from."""
    ready = tokenizer.load(BUNDLED)
    rows = [np.array([token for ids, _ in ready.encode_all(task.strings) for token in ids], np.int64) for task in tasks]
    return np.stack([sensitivity.counts(row, ready.size) for row in rows])


def _log_probabilities(ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """log P of each token [n, longest]; 0 behind a text's end."""
    tokens = np.full((len(ids), max(map(len, ids), default=0)), PADDING, np.int64)
    for row, text in enumerate(ids):
        tokens[row, : len(text)] = text
    return plain.load().log_probabilities(tokens)


def _printed(string: str, offsets: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """The characters of each token that no token before it had."""
    parts, done = [], 0
    for _, end in offsets:
        parts.append(string[done:end])
        done = max(done, end)
    return tuple(parts)
