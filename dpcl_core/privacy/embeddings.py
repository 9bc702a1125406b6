"""Noisy token embeddings: one noise level for all tokens (accounted), or PeCL's published levels (no bound)."""

from __future__ import annotations

import math
from collections.abc import Callable

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import finite_rows, row_blocks

# Rows are made this much shorter: rounding to single precision (2^-24) never leaves the ball, and the rest exceeds the
# rounding of the multiplier in the ledger.
_CAUTION = 1 - 2.0**-22


def clipped(rows: NDArray[np.floating], clip_norm: float) -> NDArray[np.float32]:
    """Rows e · min(1, C / ||e||), of length at most C; non-finite rows become zero. Args: rows [..., d]."""
    clean = finite_rows(rows)
    with np.errstate(over="ignore"):  # a row of infinite length becomes zero
        norms = np.linalg.norm(clean, axis=-1, keepdims=True)
    cut: NDArray[np.float32] = (clean * np.minimum(1.0, _CAUTION * clip_norm / np.maximum(norms, 1e-300))).astype(np.float32)
    return cut


def noisy_embeddings(
    table: NDArray[np.floating],
    tokens: NDArray[np.integer],
    ratio: float,
    clip_norm: float,
    noise: Noise,
    ledger: Ledger,
    *,
    task: int,
) -> NDArray[np.float32]:
    """One noisy vector for every token of every text: clipped to length C, plus Gaussian noise of `ratio` · C on each value.

    One call is one release with one ledger entry. Reading the result again is post-processing; a call in every epoch is a
    release in every epoch, and they add up.

    Texts get noise independently, so replacing one changes only the distribution of its own vectors. Two texts may differ in
    all of their L tokens: each row is in a ball of radius C, two of them are at most 2C apart, and L of them stacked
    2C sqrt(L), reached by opposite rows. The noise is the same for stop words and all others; otherwise it would reveal the
    token. The number of texts and their lengths are not hidden: the ledger must use "replace" adjacency.

    Args: table [V, d], public; tokens int [n, L], -1 for padding, whose vectors are zero; ratio: sigma / C, 0 for no noise.
    Returns: [n, L, d].
    """
    if ledger.adjacency != "replace":
        raise BadInput("privacy.adjacency", ledger.adjacency, "must be replace where every token leaves a noisy vector")
    length = tokens.shape[1]
    # The accountant doubles the sensitivity under "replace": recorded for C sqrt(L), accounted as 2C sqrt(L).
    event = dp.GaussianDpEvent(ratio / math.sqrt(length)) if ratio > 0 else dp.NonPrivateDpEvent()
    ledger.spend(event, task=task, what=f"noisy embeddings of every text, {length} tokens at most")
    rows, std = clipped(table, clip_norm), clip_norm * ratio

    def noisy(part: slice) -> NDArray[np.float32]:
        return noise.added32(rows[tokens[part]], std) if ratio > 0 else rows[tokens[part]]

    return _blockwise(tokens, rows.shape[1], noisy)


def published_embeddings(
    table: NDArray[np.floating],
    tokens: NDArray[np.integer],
    ratios: NDArray[np.floating],
    clip_norm: float,
    noise: Noise,
    ledger: Ledger,
    *,
    task: int,
) -> NDArray[np.float32]:
    """The same with a separate noise level for every token, PeCL's Eq. 5: NO bound holds, and the ledger records this.

    The noise level is computed from the text, and one vector reveals its noise level; tokens with a ratio of 0 (stop words)
    are released exactly. Args: ratios [n, L], sigma / C of every token.
    """
    ledger.spend(dp.NonPrivateDpEvent(), task=task, what="embeddings with noise that depends on the text")
    rows = clipped(table, clip_norm)

    def noisy(part: slice) -> NDArray[np.float32]:
        clean, stds = rows[tokens[part]], (clip_norm * ratios[part])[..., None].astype(np.float32)
        units = noise.added32(clean / np.where(stds > 0, stds, 1), 1.0)
        return np.where(stds > 0, stds * units, clean)  # without noise bitwise unchanged

    return _blockwise(tokens, rows.shape[1], noisy)


def _blockwise(
    tokens: NDArray[np.integer], width: int, noisy: Callable[[slice], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The results of `noisy` for block after block of texts [n, L, d], zeros for padding."""
    n_texts, length = tokens.shape
    vectors = np.empty((n_texts, length, width), dtype=np.float32)
    for part in row_blocks(n_texts, length * width):
        vectors[part] = noisy(part)
        vectors[part][tokens[part] < 0] = 0.0
    return vectors
