"""Token scores of texts under a public model; NumPy only for the bundled one. No text is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import plain, reader, tokenizer
from dpcl_core.backbones.language.files import BUNDLED
from dpcl_core.data.texts import KINDS, PADDING, Texts
from dpcl_core.events import ScoredText
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.public_log_likelihoods import log_probabilities

_AT_ONCE = 8  # texts in a batch of a model that is not bundled


def scored(
    texts: Texts,
    score2: NDArray[np.floating] | None = None,
    labels: Sequence[str] | None = None,
    *,
    backbone: str = BUNDLED,
    done: Callable[[int], object] = lambda n_texts: None,
) -> list[ScoredText]:
    """Every text with its token scores. `score2` [size]: Score2 of each token of the vocabulary; None: all 0.

    A character made of several tokens is shown with the first, so that the tokens joined are the text. `done` hears how many
    texts have been read so far. Raises DataMissing where the model is missing.
    """
    encoded = tokenizer.load(backbone).encode_all(texts.strings)
    likely = _log_probabilities([ids for ids, _ in encoded], backbone, done)
    rows = []
    for number, (ids, offsets) in enumerate(encoded):
        places = np.asarray(offsets, np.int64).reshape(-1, 2)
        marked = reader.kinds(texts.spans[number], places) if texts.spans is not None else np.zeros(len(ids), np.int32)
        rows.append(
            ScoredText(
                tokens=_printed(texts.strings[number], offsets),
                probability=tuple(np.exp(np.minimum(likely[number, : len(ids)].astype(np.float64), 0.0)).tolist()),
                commonness=tuple(score2[ids].tolist()) if score2 is not None else (0.0,) * len(ids),
                is_stop=tuple(reader.stops(texts.strings[number], places).tolist()) if len(ids) else (),
                kinds=tuple(KINDS[kind - 1] if kind else "" for kind in marked.tolist()),
                label=labels[number] if labels is not None else "",
            )
        )
    return rows


def counted(tasks: Sequence[Texts], backbone: str = BUNDLED) -> NDArray[np.int64]:
    """Token counts of each task's texts [N, size], from which Score2 is computed."""
    ready = tokenizer.load(backbone)
    rows = [np.array([token for ids, _ in ready.encode_all(task.strings) for token in ids], np.int64) for task in tasks]
    return np.stack([sensitivity.counts(row, ready.size) for row in rows])


def _log_probabilities(ids: Sequence[Sequence[int]], backbone: str, done: Callable[[int], object]) -> NDArray[np.float32]:
    """log P of each token [n, longest]; 0 after a text's end. Texts of like length are read together."""
    tokens = np.full((len(ids), max(map(len, ids), default=0)), PADDING, np.int64)
    for row, text in enumerate(ids):
        tokens[row, : len(text)] = text
    if backbone == BUNDLED:
        return plain.load().log_probabilities(tokens)
    likely, by_length = np.zeros(tokens.shape, np.float32), np.argsort([len(text) for text in ids], kind="stable")
    for start in range(0, len(ids), _AT_ONCE):
        rows = by_length[start : start + _AT_ONCE]
        width = max(len(ids[row]) for row in rows)
        likely[rows, :width] = log_probabilities(backbone, tokens[rows, :width], "cpu", single=True, is_filled=False)
        done(start + len(rows))
    return likely


def _printed(string: str, offsets: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Each token's characters that no earlier token covers."""
    parts, done = [], 0
    for _, end in offsets:
        parts.append(string[done:end])
        done = max(done, end)
    return tuple(parts)
