"""Embedding inversion as an audit: which token was it, to an attacker who takes the nearest row of the public table?

The game is between two tokens in one place of a text, the two whose clipped embeddings lie farthest apart, through the
mechanism that the run trains by: as published, of the nominal budget of the least noised token with fresh noise in every
epoch; where noise is drawn once, one release. The bundled language model's table, whichever the run trains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks.embedding_inversion import nearest
from dpcl_core.backbones.language import plain
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import PublicSizes, of_spec
from dpcl_core.methods.language.cards.network_params import LanguageParams
from dpcl_core.methods.language.copy_noise import copy_noise
from dpcl_core.privacy.embeddings import clipped, noisy_embeddings, published_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.lower_bound import Audited, one_way_bound
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.token_noise import printed_ratios
from dpcl_core.spec import RunSpec

Table = NDArray[np.float32]
Tokens = NDArray[np.int64]
NAME = "inversion"
CONFIDENCE = 0.95
_ADVERSARY = (
    "sees the noisy embeddings of one token, of every epoch where each has fresh noise, and knows the public table and the "
    "two tokens that it may be"
)


def is_offered(spec: RunSpec) -> bool:
    """Whether the method puts its noise on embeddings."""
    return methods.card(spec.method).noises_embeddings(spec.params)


def audited(spec: RunSpec, trials: int) -> list[Audited]:
    """The game at every budget of the spec, and how many of all tokens the nearest row names.

    `claimed`: the budget of the spec (as published the nominal one of the token in question); `accounted`: what a whole
    text's embeddings cost. Args: trials: releases on each side. Raises BadInput where no noise is added to embeddings.
    """
    if not is_offered(spec):
        raise BadInput("--attack", NAME, f"must be left out: {spec.method} adds no noise to embeddings with these settings")
    facts = of_spec(spec)
    whole = plain.load().embeddings
    table = clipped(whole / np.median(np.linalg.norm(whole, axis=1)), 1.0)  # in units of C, as runs clip
    budgets, delta = spec.privacy.epsilons, spec.privacy.delta
    return [_played(table, _release(spec, facts, epsilon), epsilon, delta, trials) for epsilon in budgets]


@dataclass(frozen=True, slots=True)
class _Release:
    """What is released of a token: `make` gives a noisy copy of each of some tokens [m, d], `times` of them are seen."""

    make: Callable[[Table, Tokens], Table]
    times: int
    accounted: float


def _release(spec: RunSpec, facts: PublicSizes, epsilon: float) -> _Release:
    params, privacy = spec.params, spec.privacy
    assert isinstance(params, LanguageParams)
    if methods.is_nominal(spec.method):
        ratio = 0.0 if math.isinf(epsilon) else float(printed_ratios(np.array([epsilon]), privacy.delta)[0])

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
    def read(tokens: Tokens) -> Tokens:
        seen = sum(release.make(table, tokens).astype(np.float64) for _ in range(release.times)) / release.times
        return nearest(table, np.asarray(seen))[0]

    everyone = np.arange(len(table))
    share = float((read(everyone) == everyone).mean())
    own, other = _farthest(table)
    hits, alarms = (int((read(np.full(n, token)) == own).sum()) for token in (own, other))
    bound = one_way_bound(hits, n, alarms, n, delta, CONFIDENCE)
    drawn = f"{release.times} noisy embeddings" if release.times > 1 else "one noisy embedding"
    said = f"embedding inversion: the nearest of {len(table):,} rows names {100 * share:.1f} % of all tokens from {drawn}"
    return Audited(epsilon, release.accounted, bound, delta, CONFIDENCE, n, said, _ADVERSARY)


def _farthest(table: Table) -> tuple[int, int]:
    """The two rows farthest from one another."""
    squares = np.square(table).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * table @ table.T
    first, second = divmod(int(apart.argmax()), len(table))
    return first, second
