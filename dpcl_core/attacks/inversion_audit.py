"""Embedding inversion as an audit: the attacker names tokens by the nearest row of the public embedding table.

The bound is of a game between two tokens at one position of a text, the two whose clipped embeddings are farthest apart: the
attacker looks at the place between them, which is the likelihood ratio of Gaussian noise. The noise is that of the run's own
mechanism: as published, with the nominal budget of the least noised token and anew in every epoch; if noise is drawn once,
one release. The table is that of the run's own language model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks.embedding_inversion import nearest
from dpcl_core.attacks.named import CONFIDENCE
from dpcl_core.backbones.language import files, plain
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import PublicSizes, of_spec
from dpcl_core.methods.language.cards.network_params import LanguageParams
from dpcl_core.methods.language.copy_noise import copy_noise
from dpcl_core.privacy.embeddings import clipped, noisy_embeddings, published_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.lower_bound import Audited, lower_bound
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.token_noise import printed_ratio
from dpcl_core.spec import RunSpec

Table = NDArray[np.float32]
Tokens = NDArray[np.int64]
NAME = "inversion"
_MOST_NAMED = 2000  # tokens whose share is measured, a public sample of a larger table
_BLOCK = 1000  # rows compared with all others at once
_ADVERSARY = (
    "sees the noisy embeddings of one token, of every epoch where each has fresh noise, and knows the public table and the "
    "two tokens that it may be"
)


def is_offered(spec: RunSpec) -> bool:
    """Whether the method adds noise to embeddings."""
    return methods.card(spec.method).noises_embeddings(spec.params)


def audited(spec: RunSpec, trials: int) -> list[Audited]:
    """The game at every budget of the spec, and the share of tokens that the nearest row identifies.

    `claimed`: the budget of the spec (as published, the target token's nominal one); `accounted`: the cost of a whole
    text's embeddings. Args: trials: releases on each side. Raises BadInput if the method adds no noise to embeddings, and
    what `causal.load` raises.
    """
    if not is_offered(spec):
        raise BadInput("--attack", NAME, f"must be left out: {spec.method} adds no noise to embeddings with these settings")
    facts = of_spec(spec)
    embeddings = _embeddings(spec.data.backbone)
    table = clipped(embeddings / np.median(np.linalg.norm(embeddings, axis=1)), 1.0)  # in units of C, as runs clip
    budgets, delta = spec.privacy.epsilons, spec.privacy.delta
    return [_played(table, _release(spec, facts, epsilon), epsilon, delta, trials) for epsilon in budgets]


@dataclass(frozen=True, slots=True)
class _Release:
    """The releases of a token: `make` gives one noisy copy of each token [m, d]; the attacker sees `times` of them."""

    make: Callable[[Table, Tokens], Table]
    times: int
    accounted: float


def _release(spec: RunSpec, facts: PublicSizes, epsilon: float) -> _Release:
    params, privacy = spec.params, spec.privacy
    assert isinstance(params, LanguageParams)
    if methods.is_nominal(spec.method):
        ratio = printed_ratio(epsilon, privacy.delta)

        def printed(table: Table, tokens: Tokens) -> Table:
            book, texts = Ledger(privacy.delta, "replace", "once"), tokens[:, None]
            levels = np.full(texts.shape, ratio)
            return published_embeddings(table, texts, levels, 1.0, ReleaseNoise(), book, task=0)[:, 0]

        return _Release(printed, params.epochs, math.inf)
    ratio, _ = copy_noise(spec, facts, epsilon)
    n_texts = facts.n_tasks if facts.recurrence == "every" else 1

    def once(table: Table, texts: Tokens, book: Ledger, task: int = 0) -> Table:
        return noisy_embeddings(table, texts, ratio, 1.0, ReleaseNoise(), book, task=task)

    book = Ledger(privacy.delta, privacy.adjacency, facts.recurrence)
    for task in range(n_texts):
        once(np.zeros((1, 1), np.float32), np.zeros((1, params.length), np.int64), book, task)
    accounted = book.epsilon()
    return _Release(lambda table, tokens: once(table, tokens[:, None], book)[:, 0], n_texts, accounted)


def _played(table: Table, release: _Release, epsilon: float, delta: float, n: int) -> Audited:
    def seen(tokens: Tokens) -> NDArray[np.float64]:
        total = sum(release.make(table, tokens).astype(np.float64) for _ in range(release.times))
        return np.asarray(total) / release.times

    named = np.random.default_rng(0).permutation(len(table))[:_MOST_NAMED]
    share = float((nearest(table, seen(named))[0] == named).mean())
    pair = _farthest(table)
    along = table[pair[0]].astype(np.float64) - table[pair[1]]
    scores = [seen(np.full(n, token)) @ along for token in pair]
    bound = lower_bound(scores[0], scores[1], delta, CONFIDENCE)
    which = "all tokens" if len(named) == len(table) else f"{len(named):,} tokens drawn from them"
    drawn = f"{release.times} noisy embeddings" if release.times > 1 else "one noisy embedding"
    attack = f"embedding inversion: the nearest of {len(table):,} rows names {100 * share:.1f} % of {which} from {drawn}"
    return Audited(epsilon, release.accounted, bound, delta, CONFIDENCE, n, attack, _ADVERSARY)


def _farthest(table: Table) -> tuple[int, int]:
    """The indices of the two rows with the largest distance."""
    squares, best = np.square(table).sum(axis=1), (-1.0, 0, 0)
    for start in range(0, len(table), _BLOCK):
        rows = table[start : start + _BLOCK]
        apart = squares[start : start + _BLOCK, None] + squares[None, :] - 2 * rows @ table.T
        first, second = divmod(int(apart.argmax()), len(table))
        best = max(best, (float(apart[first, second]), start + first, second))
    return best[1], best[2]


def _embeddings(backbone: str) -> Table:
    """The model's public table of embeddings [size, width]."""
    if backbone == files.BUNDLED:
        return plain.load().embeddings
    from dpcl_core.backbones.language import causal  # loads torch

    return causal.embedding_table(causal.load(backbone, single=True))
