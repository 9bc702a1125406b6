"""Games against noise on tokens: five against PeCL's as published (Zhan et al., Eqs. 4 to 6), and embedding inversion.

Eq. 6 claims, for two texts that differ in token i alone, Pr[M(x) in S] <= e^eps_i Pr[M(x') in S] + delta, with eps_i of the
token in x. In every game x has a token with the most noise, for which the paper's claim is strongest; the attacker guesses
"x" by a rule that is fixed before the counted releases. Sizes are public or those of the bundled language model; C cancels.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcl_core.attacks import catalog, play
from dpcl_core.attacks.play import CONFIDENCE, Attack, Floats, Guesses
from dpcl_core.backbones import packaged, plain_language
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicSizes, of_spec, settings_of
from dpcl_core.methods.language import pecl_published, sensitivity
from dpcl_core.methods.language.params import LanguageParams
from dpcl_core.privacy import audit_bounds, statement, text_mechanisms
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.privacy.text_mechanisms import clipped, noisy_embeddings, printed_ratios, published_embeddings
from dpcl_core.spec import RunSpec

_WIDTH = 64  # of the embeddings, where the game can choose: small; wider ones reveal more
_TEXTS = (
    "The committee said that inflation was below target and that rates would stay low for longer.",
    "The food was good and the staff were friendly, so we will come back soon.",
    "Please send the bill to my new address and call me before you come.",
)
_N_CANDIDATES = 64  # variants of each of these texts that differ in one token
_CUTS = np.linspace(0, 6, 121)  # candidate thresholds in standard deviations; one is chosen before any release


@dataclass(frozen=True, slots=True)
class Setting:
    """The attacked noise: the nominal range of Eq. 4, delta of Eq. 5, and the number of releases with fresh noise.

    `upper` inf: no noise. `is_sentence`: one noise level for a text of `n_tokens`, by its mean score, stop words included.
    """

    lower: float
    upper: float
    delta: float
    n_epochs: int
    n_tokens: int = 64
    is_sentence: bool = False

    def ratios(self, nominal: Floats | list[float]) -> Floats:
        """sigma / C of tokens with these nominal budgets."""
        budgets = np.asarray(nominal, np.float64)
        return np.zeros(budgets.shape) if math.isinf(self.upper) else printed_ratios(budgets, self.delta)


def audited(setting: Setting, attack: str, trials: int) -> audit_bounds.Audited:
    """The result of one of the `ATTACKS` on this noise, from `trials` releases on each side, times the attack's `times`.

    `claimed`: the nominal budget of the token in question. Without noise, every attack is the one on exact vectors.
    """
    chosen = ATTACKS[attack]
    if math.isinf(setting.upper):
        chosen = replace(chosen, play=_exact, times=1)
    return chosen.audited(setting, setting.lower, trials, setting.delta)


def _about(guesses: Guesses, nominal: float) -> Guesses:
    """The guesses about a token with this nominal budget; Eq. 6 claims it of x against x' alone."""
    remark = f"; nominal ε of the token: {statement.shown_number(nominal)}"
    return replace(guesses, claimed=nominal, remark=remark, is_one_way=True)


def _released(setting: Setting, table: Floats, tokens: list[int], ratios: Floats, noise: Noise, n: int) -> Floats:
    """n fresh releases of one text: [n, L, d], in units of C."""
    book = Ledger(setting.delta, "replace", "once")
    texts = np.tile(np.array(tokens), (n, 1))
    return published_embeddings(table, texts, np.tile(ratios, (n, 1)), 1.0, noise, book, task=0).astype(np.float64)


def _level(setting: Setting, noise: Noise, n: int) -> Guesses:
    """Two tokens with the same embedding: one with the most noise, one with twice its nominal budget (or the largest).

    With one noise level per text: half of the tokens have score 1, the others 0, and the target has 1 or 0.
    """
    table, nominal, n_tokens = np.full((1, _WIDTH), _WIDTH**-0.5), np.array([setting.lower, 2 * setting.lower]), 1
    if setting.is_sentence:
        n_tokens = setting.n_tokens
        nominal = sensitivity.nominal_epsilon(0.5 + np.array([0.5, -0.5]) / n_tokens, setting.lower, setting.upper)
    levels = setting.ratios(np.minimum(nominal, setting.upper))

    def lengths(level: float, count: int) -> Floats:
        released = _released(setting, table, [0] * n_tokens, np.full(n_tokens, level), noise, count)
        return np.asarray(np.square(released - clipped(table, 1.0)[0]).sum(axis=(1, 2)))

    return _about(play.guessed_by_score(lengths, levels, n, setting.delta, is_one_way=True), float(nominal[0]))


def _exact(setting: Setting, noise: Noise, n: int) -> Guesses:
    """The token with the most noise, or a stop word instead. Guesses "stop word" only for its exact vector."""
    table = np.eye(2, _WIDTH)
    stop_word = clipped(table, 1.0)[1]
    levels = setting.ratios([setting.lower, setting.lower]) * np.array([1.0, float(setting.is_sentence)])

    def guesses(token: int) -> int:
        seen = _released(setting, table, [token], levels[token : token + 1], noise, n)[:, 0]
        return int((seen != stop_word).any(axis=1).sum())

    return _about(Guesses(guesses(0), guesses(1), n), setting.lower)


def _opposite(setting: Setting, noise: Noise, n: int, n_releases: int) -> Guesses:
    """Two tokens with the most noise and opposite embeddings, 2C apart, from the mean of n_releases with fresh noise.

    One coordinate is enough: the others contain only noise. The threshold is the one that would prove most if the counts
    were exactly as expected.
    """
    table, ratio = np.array([[1.0], [-1.0]]), setting.ratios([setting.lower])
    std = float(ratio[0]) / math.sqrt(n_releases)
    expected = [
        audit_bounds.one_way_bound(int(hits * n), n, math.ceil(alarms * n), n, setting.delta)
        for hits, alarms in zip(ndtr(2 / std - _CUTS), ndtr(-_CUTS), strict=True)
    ]
    cut = -1 + std * _CUTS[int(np.argmax(expected))]

    def guesses(token: int) -> int:
        seen = sum(_released(setting, table, [token], ratio, noise, n)[:, 0, 0] for _ in range(n_releases)) / n_releases
        return int((seen > cut).sum())

    return _about(Guesses(guesses(0), guesses(1), n), setting.lower)


def _context(setting: Setting, noise: Noise, n: int) -> Guesses:
    """One token changes, and the attacker sees only the later ones: their probabilities change, and so does their noise.

    Uses the bundled model's probabilities, without Score2. The attacker uses the likelihood ratio of the later vectors'
    noise.
    """
    texts, log_p, place = _neighbours()
    scores = sensitivity.scores(log_p, np.zeros(log_p.shape), np.zeros(log_p.shape, bool))
    if setting.is_sentence:
        scores = sensitivity.sentence_scores(scores, np.ones(log_p.shape, bool))
    nominal = sensitivity.nominal_epsilon(scores, setting.lower, setting.upper)
    table = plain_language.load().embeddings.astype(np.float64)
    table /= np.median(np.linalg.norm(table, axis=1))
    levels, later = setting.ratios(nominal[:, place + 1 :]), texts[0, place + 1 :].tolist()
    weights = (1 / levels[1] ** 2 - 1 / levels[0] ** 2) / 2

    def odds(level: Floats, count: int) -> Floats:
        released = _released(setting, table, later, level, noise, count)
        return np.asarray(np.square(released - clipped(table, 1.0)[later]).sum(axis=2) @ weights)

    return _about(play.guessed_by_score(odds, levels, n, setting.delta, is_one_way=True), float(nominal[0, place]))


@lru_cache(maxsize=1)
def _neighbours() -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
    """Two texts [2, L] that differ in one token, log P of their tokens, and its index; the first's token has more noise.

    Chosen from a few texts and candidate tokens at one position: the pair that changes the later tokens' noise most.
    """
    model, words = plain_language.load(), plain_language.load_tokenizer("lm-tiny")
    pairs: list[tuple[float, NDArray[np.int64], NDArray[np.float32], int]] = []
    for string in _TEXTS:
        ids = np.array(words.encode(string)[0], np.int64)
        place = len(ids) // 3
        texts = np.tile(ids, (_N_CANDIDATES + 1, 1))
        texts[1:, place] = np.linspace(0, words.size - 1, _N_CANDIDATES).astype(np.int64)
        log_p = model.log_probabilities(texts)
        nominal = np.log1p(9 * np.exp(log_p[:, place + 1 :]))
        distances = np.square(nominal - nominal[0]).sum(axis=1)
        rows = [0, int(distances.argmax())]
        rows.sort(key=lambda row: float(log_p[row, place]))
        pairs.append((float(distances.max()), texts[rows], log_p[rows], place))
    _, texts, log_p, place = max(pairs, key=lambda one: one[0])
    return texts, log_p, place


ATTACKS: Mapping[str, Attack[Setting]] = {
    "level": Attack(
        "The noise level alone",
        "length of one noisy vector: the noise level tells the token",
        "sees one noisy embedding, and knows two tokens that it may belong to; both have the same embedding",
        _level,
    ),
    "exact": Attack(
        "Stop words come out exactly",
        "exact vectors: a stop word has no noise",
        "sees one released embedding, and knows the stop word that may have been there",
        _exact,
    ),
    "context": Attack(
        "The noise of later tokens",
        "noise of later tokens: they follow from the one that changed",
        "sees the noisy embeddings after a token, not the token's own, and knows the two texts and the language model",
        _context,
        times=5,
    ),
    "distance": Attack(
        "Twice the distance",
        "threshold on one coordinate: two embeddings are 2C apart, the noise is made for C",
        "sees one noisy embedding, and knows the two opposite ones that it may belong to",
        lambda setting, noise, n: _opposite(setting, noise, n, 1),
        times=4000,
    ),
    "epochs": Attack(
        "Fresh noise in every epoch",
        "mean over the epochs: fresh noise averages out",
        "sees one token's noisy embedding of every epoch, and knows the two opposite ones that it may belong to",
        lambda setting, noise, n: _opposite(setting, noise, n, setting.n_epochs),
        times=100,
    ),
}


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise of a run in which the least noised token has nominal budget `epsilon`."""
    params = settings_of(spec, pecl_published.PublishedParams)
    is_sentence = params.granularity == "sentence"
    return Setting(params.eps_lower, epsilon, spec.privacy.delta, params.epochs, params.length, is_sentence)


# Embedding inversion: names tokens by the nearest row of the public embedding table. NumPy only, for pages.
#
# The bound is of a game between two tokens at one position of a text, the two whose clipped embeddings are farthest apart.
# The attacker looks at the place between them, which is the likelihood ratio of Gaussian noise. The noise is that of the
# run's own mechanism: as published, with the nominal budget of the least noised token and anew in every epoch; if noise is
# drawn once, one release. The table is that of the run's own language model. Fresh noise in every epoch averages out: n
# releases of a token equal one release with noise smaller by sqrt(n).


Rows = NDArray[np.floating]
Table = NDArray[np.float32]
Tokens = NDArray[np.int64]
INVERSION = "inversion"
_COMPARED = 2_000_000  # numbers compared at once
_MOST_NAMED = 2000  # tokens whose share is measured, a public sample of a larger table
_BLOCK = 1000  # rows compared with all others at once


def noisy_mean_rows(rows: Rows, noise_std: Rows, n_releases: int, noise: Noise) -> Floats:
    """The mean of `n_releases` noisy copies of clipped rows [m, d], each with fresh noise of standard deviation [m].

    One draw is enough: the mean's noise is Gaussian, smaller by sqrt(n_releases). A deviation of 0 adds no noise.
    """
    return rows + np.asarray(noise_std, np.float64)[:, None] / math.sqrt(n_releases) * noise.normal(rows.shape)


def nearest_rows(table: Rows, vectors: Rows) -> tuple[Tokens, Floats]:
    """Index of the nearest table row [N, d] for each vector [m, d], and its distance; the first one of ties.

    The table must be clipped like the rows that the vectors were made from (`text_mechanisms.clipped`).
    """
    places, distances = [np.zeros(0, np.int64)], [np.zeros(0)]
    rows = np.asarray(table, np.float64)
    squares = (rows**2).sum(axis=1)
    step = max(1, _COMPARED // len(rows))
    for start in range(0, len(vectors), step):
        part = np.asarray(vectors[start : start + step], np.float64)
        place = (squares[None, :] - 2 * part @ rows.T).argmin(axis=1)
        places.append(place)
        distances.append(np.linalg.norm(part - rows[place], axis=1))  # not from squares: an exact row has distance 0
    return np.concatenate(places), np.concatenate(distances)


def inversion_audited(spec: RunSpec, trials: int) -> list[audit_bounds.Audited]:
    """The game at every budget of the spec, and the share of tokens that the nearest row identifies.

    `claimed`: the budget of the spec (as published, the target token's nominal one); `accounted`: the cost of a whole
    text's embeddings. Args: trials: releases on each side. Raises BadInput if the method adds no noise to embeddings, and
    what `causal.load` raises.
    """
    if not methods.card(spec.method).noises_embeddings(spec.params):
        allowed = f"must be left out: {spec.method} adds no noise to embeddings with these settings"
        raise BadInput("--attack", INVERSION, allowed)
    facts = of_spec(spec)
    embeddings = _embeddings(spec.data.backbone)
    table = clipped(embeddings / np.median(np.linalg.norm(embeddings, axis=1)), 1.0)  # in units of C, as runs clip
    return [_inverted(spec, facts, table, epsilon, trials) for epsilon in spec.privacy.epsilons]


Copies = Callable[[Table, Tokens], Table]  # one noisy copy of each token [m, d]


def _copies_of(spec: RunSpec, facts: PublicSizes, epsilon: float) -> tuple[Copies, int, float]:
    """The releases of a token: what makes one noisy copy, how many of them the attacker sees, and the accounted epsilon."""
    params, privacy = settings_of(spec, LanguageParams), spec.privacy
    if methods.is_nominal(spec.method):
        level = text_mechanisms.printed_ratio(epsilon, privacy.delta)

        def printed(table: Table, tokens: Tokens) -> Table:
            book, levels = Ledger(privacy.delta, "replace", "once"), np.full((len(tokens), 1), level)
            return published_embeddings(table, tokens[:, None], levels, 1.0, ReleaseNoise(), book, task=0)[:, 0]

        return printed, params.epochs, math.inf
    ratio = params.copy_noise(privacy, facts, epsilon).ratio
    book = Ledger(privacy.delta, privacy.adjacency, facts.recurrence)

    def once(table: Table, texts: Tokens, task: int = 0) -> Table:
        return noisy_embeddings(table, texts, ratio, 1.0, ReleaseNoise(), book, task=task)

    for task in range(facts.n_recurring):
        once(np.zeros((1, 1), np.float32), np.zeros((1, params.length), np.int64), task)
    return lambda table, tokens: once(table, tokens[:, None])[:, 0], facts.n_recurring, book.epsilon()


def _inverted(spec: RunSpec, facts: PublicSizes, table: Table, epsilon: float, n: int) -> audit_bounds.Audited:
    copies, times, accounted = _copies_of(spec, facts, epsilon)

    def seen(tokens: Tokens) -> Floats:
        return np.asarray(sum(copies(table, tokens).astype(np.float64) for _ in range(times))) / times

    named = np.random.default_rng(0).permutation(len(table))[:_MOST_NAMED]
    share = float((nearest_rows(table, seen(named))[0] == named).mean())
    pair, delta = farthest_rows(table), spec.privacy.delta
    along = table[pair[0]].astype(np.float64) - table[pair[1]]
    scores = [seen(np.full(n, token)) @ along for token in pair]
    which = "all tokens" if len(named) == len(table) else f"{len(named):,} tokens drawn from them"
    drawn = f"{times} noisy embeddings" if times > 1 else "one noisy embedding"
    attack = f"embedding inversion: the nearest of {len(table):,} rows names {100 * share:.1f} % of {which} from {drawn}"
    bound = audit_bounds.lower_bound(scores[0], scores[1], delta, CONFIDENCE)
    return audit_bounds.Audited(
        epsilon, accounted, bound, delta, CONFIDENCE, n, attack,
        "sees the noisy embeddings of one token, of every epoch where each has fresh noise, and knows the public table and "
        "the two tokens that it may be",
    )  # fmt: skip


def farthest_rows(table: Table) -> tuple[int, int]:
    """The indices of the two rows with the largest distance."""
    squares, best = np.square(table).sum(axis=1), (-1.0, 0, 0)
    for start in range(0, len(table), _BLOCK):
        apart = squares[start : start + _BLOCK, None] + squares[None, :] - 2 * table[start : start + _BLOCK] @ table.T
        first, second = divmod(int(apart.argmax()), len(table))
        best = max(best, (float(apart[first, second]), start + first, second))
    return best[1], best[2]


def _embeddings(backbone: str) -> Table:
    """The model's public table of embeddings [size, width]."""
    if backbone == packaged.BUNDLED:
        return plain_language.load().embeddings
    from dpcl_core.backbones import causal  # loads torch

    return causal.embedding_table(causal.load(backbone, single=True))


def _run_audited(spec: RunSpec, epsilon: float, attack: str, trials: int) -> audit_bounds.Audited:
    return audited(setting(spec, epsilon), attack, trials)


AUDITS = {"pecl-published": catalog.Audit(play.of_claim(ATTACKS, _run_audited))}
