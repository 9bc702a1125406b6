"""Embedding inversion as an audit: the attacker names tokens by the nearest row of the public embedding table.

The bound is of a game between two tokens at one position of a text, the two whose clipped embeddings are farthest apart: the
attacker looks at the place between them, which is the likelihood ratio of Gaussian noise. The noise is that of the run's own
mechanism: as published, with the nominal budget of the least noised token and anew in every epoch; if noise is drawn once,
one release. The table is that of the run's own language model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import CONFIDENCE, Game, Released, digits
from dpcl_core.attacks.play import Floats as play_Floats
from dpcl_core.backbones import packaged, plain_language
from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.dpsgd import PublicSizes, of_spec
from dpcl_core.methods.language.params import LanguageParams
from dpcl_core.methods.lifelong.independent_laplace import IndependentLaplaceParams, check, randomiser
from dpcl_core.methods.lifelong.quadratic import RandomProjection
from dpcl_core.privacy.audit_bounds import Audited, lower_bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.privacy.text_mechanisms import (
    Randomiser,
    clipped,
    epsilon_of_each,
    noisy_embeddings,
    printed_ratio,
    published_embeddings,
)
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

# Attack on per-record noise: decides from which of two records a stored noisy copy was made.


TRIALS = 6000
_N_CLASSES, _MOST_TASKS = 10, 4
_RECORDS_ADVERSARY = "sees the stored noisy copies of one record and knows the two records that it may have been made from"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two attacks for every budget of the spec: on two worst-case records, and on two digits.

    The worst-case records differ as much as possible, in values and in label. The attacker uses the likelihood ratio of the
    copy, the most powerful test; if a record is in every task, he has a copy from each. A learner whose tasks have one
    record each keeps sums over that one copy, which reveal it. Training reads the copies only, so one step suffices.
    Args: trials: learners on each side. Raises BadInput as the method's card does.
    """
    check(spec, PublicSizes(n_people=trials, n_tasks=1, n_classes=_N_CLASSES))
    assert isinstance(spec.params, IndependentLaplaceParams)
    short = spec.model_copy(update={"params": spec.params.model_copy(update={"steps": 1})})
    return [
        play.audited(short, epsilon, trials, game(short, spec.params, epsilon, is_natural=is_natural))
        for epsilon in spec.privacy.epsilons
        for is_natural in (False, True)
    ]


def game(spec: RunSpec, params: IndependentLaplaceParams, epsilon: float, *, is_natural: bool) -> Game:
    """The game on two records."""
    is_in_every = spec.scenario.recurrence == "every"
    n_tasks = min(spec.scenario.tasks, _MOST_TASKS) if is_in_every and isinstance(spec.scenario, Permuted) else 1
    pixels, classes = digits()
    n_values = pixels.shape[1]
    local = randomiser(params, n_values, epsilon_of_each(epsilon, spec.privacy.delta, n_tasks))
    unit = 1 / math.sqrt(n_values) if params.project_to == 0 else math.sqrt(params.project_to) / params.clip
    labels = (0, 1) if not is_natural else (int(classes[0]), int(classes[1]))

    @lru_cache(maxsize=1)
    def pair(seed: int) -> tuple[play_Floats, play_Floats]:
        """The values of both records: in [0, 1], or any if they are projected."""
        if is_natural:
            return pixels[0].astype(np.float64), pixels[1].astype(np.float64)
        one = np.ones(n_values) if params.project_to == 0 else _longest(_projection(params, n_values, seed), n_values)
        return one, 1 - one

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        values, label = (pair(seed)[0], labels[0]) if side else (pair(seed)[1], labels[1])
        record = Examples(values[None].astype(np.float32), np.array([label]))
        return play.tasks_of(record, record, known)

    def noised(seed: int, values: play_Floats) -> play_Floats:
        """The representation of a record to which noise is added."""
        if params.project_to == 0:
            return 2 * values - 1
        projected = _projection(params, n_values, seed).of(values[None])[0].astype(np.float64)
        clipped: play_Floats = projected * min(1.0, params.clip / max(float(np.abs(projected).sum()), 1e-300))
        return clipped

    def score(seed: int, seen: Released) -> play_Floats:
        one, other = (noised(seed, values) for values in pair(seed))
        total = 0.0
        for release in seen:
            copy = np.asarray(release["features"], dtype=np.float64)[:-1] / unit
            answer = int(np.argmax(np.asarray(release["by_class"], dtype=np.float64)[:, -1]))
            total += _log_ratio(local, copy, one, other)
            total += play.label_log_odds(local, _N_CLASSES) * ((answer == labels[0]) - (answer == labels[1]))
        return np.array([[total]])

    known = play.context(spec, n_inputs=n_values, n_classes=_N_CLASSES, n_people=1, n_tasks=n_tasks)
    known = replace(known, form=Form((n_values,), 0.0, 1.0))
    examples = "two real digits" if is_natural else "worst-case records"
    return Game(
        known, tasks, score, f"likelihood ratio of one record's copy ({examples})", _RECORDS_ADVERSARY, is_gaussian=False
    )


def _projection(params: IndependentLaplaceParams, n_values: int, seed: int) -> RandomProjection:
    return RandomProjection(n_values, params.project_to, seed)


def _longest(projection: RandomProjection, n_values: int) -> play_Floats:
    """Values whose projection has a nearly maximal L1 norm: the best of 64 random draws."""
    drawn = np.random.default_rng(0).standard_normal((64, n_values))
    lengths = np.abs(projection.of(drawn)).sum(axis=1)
    best: play_Floats = drawn[int(lengths.argmax())]
    return best


def _log_ratio(local: Randomiser, copy: play_Floats, one: play_Floats, other: play_Floats) -> float:
    """Log-likelihood ratio of a copy's values, for `one` against `other`."""
    away, near = np.abs(copy - other).sum(), np.abs(copy - one).sum()
    return float((away - near) / local.scale) if local.scale > 0 else float(away - near)


# Embedding inversion: identifies tokens from noisy embeddings. NumPy only, for pages.
#
# The embedding table is public, so the attacker compares a noisy vector with each of its rows. Fresh noise in every epoch
# averages out: n releases of a token equal one release with noise smaller by sqrt(n).


Floats = NDArray[np.floating]
_EMBEDDING_INVERSION_BLOCK = 2_000_000  # numbers compared at once


def seen(rows: Floats, noise_std: Floats, n_releases: int, noise: Noise) -> NDArray[np.float64]:
    """The mean of `n_releases` noisy copies of clipped rows [m, d], each with fresh noise of standard deviation [m].

    One draw is enough: the mean's noise is Gaussian, smaller by sqrt(n_releases). A deviation of 0 adds no noise.
    """
    std = np.asarray(noise_std, np.float64)[:, None] / math.sqrt(n_releases)
    return rows + std * noise.normal(rows.shape)


def nearest(table: Floats, vectors: Floats) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index of the nearest table row [N, d] for each vector [m, d], and its distance; the first one of ties.

    The table must be clipped like the rows that the vectors were made from (`privacy.embeddings.clipped`).
    """
    places, distances = [np.zeros(0, np.int64)], [np.zeros(0)]
    rows = np.asarray(table, np.float64)
    squares = (rows**2).sum(axis=1)
    step = max(1, _EMBEDDING_INVERSION_BLOCK // len(rows))
    for start in range(0, len(vectors), step):
        part = np.asarray(vectors[start : start + step], np.float64)
        place = (squares[None, :] - 2 * part @ rows.T).argmin(axis=1)
        places.append(place)
        distances.append(np.linalg.norm(part - rows[place], axis=1))  # not from squares: an exact row has distance 0
    return np.concatenate(places), np.concatenate(distances)


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
    ratio = params.copy_noise(spec.privacy, facts, epsilon).ratio
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
    if backbone == packaged.BUNDLED:
        return plain_language.load().embeddings
    from dpcl_core.backbones import causal  # loads torch

    return causal.embedding_table(causal.load(backbone, single=True))
