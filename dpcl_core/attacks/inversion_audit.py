"""Embedding inversion as an audit: the attacker guesses a token by the nearest row of the public embedding table.

The game is between two tokens at one position of a text, the two whose clipped embeddings are farthest apart, through the
run's own mechanism: as published, with the nominal budget of the least noised token and fresh noise in every epoch; if noise
is drawn once, one release. It always uses the bundled language model's table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks.embedding_inversion import nearest
from dpcl_core.attacks.named import CONFIDENCE
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
from dpcl_core.privacy.token_noise import printed_ratio
from dpcl_core.spec import RunSpec

Table = NDArray[np.float32]
Tokens = NDArray[np.int64]
NAME = "inversion"
_ADVERSARY = (
    "sees the noisy embeddings of one token, of every epoch where each has fresh noise, and knows the public table and the "
    "two tokens that it may be"
)


def is_offered(spec: RunSpec) -> bool:
    """Whether the method adds noise to embeddings."""
    return methods.card(spec.method).noises_embeddings(spec.params)


def audited(spec: RunSpec, trials: int) -> list[Audited]:
    """The game at every budget of the spec, and the share of all tokens that the nearest row identifies.

    `claimed`: the budget of the spec (as published, the target token's nominal one); `accounted`: the cost of a whole
    text's embeddings. Args: trials: releases on each side. Raises BadInput if the method adds no noise to embeddings.
    """
    if not is_offered(spec):
        raise BadInput("--attack", NAME, f"must be left out: {spec.method} adds no noise to embeddings with these settings")
    facts = of_spec(spec)
    embeddings = plain.load().embeddings
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
    def read(tokens: Tokens) -> Tokens:
        seen = sum(release.make(table, tokens).astype(np.float64) for _ in range(release.times)) / release.times
        return nearest(table, np.asarray(seen))[0]

    everyone = np.arange(len(table))
    share = float((read(everyone) == everyone).mean())
    target, other = _farthest(table)
    hits, alarms = (int((read(np.full(n, token)) == target).sum()) for token in (target, other))
    bound = one_way_bound(hits, n, alarms, n, delta, CONFIDENCE)
    drawn = f"{release.times} noisy embeddings" if release.times > 1 else "one noisy embedding"
    attack = f"embedding inversion: the nearest of {len(table):,} rows names {100 * share:.1f} % of all tokens from {drawn}"
    return Audited(epsilon, release.accounted, bound, delta, CONFIDENCE, n, attack, _ADVERSARY)


def _farthest(table: Table) -> tuple[int, int]:
    """The indices of the two rows with the largest distance."""
    squares = np.square(table).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * table @ table.T
    first, second = divmod(int(apart.argmax()), len(table))
    return first, second
