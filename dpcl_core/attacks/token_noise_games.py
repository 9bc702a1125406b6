"""Five games against PeCL's token noise as published (Zhan et al., Eqs. 4 to 6), each through the mechanism itself.

Eq. 6 claims, for two texts that differ in token i alone, Pr[M(x) in S] <= e^eps_i Pr[M(x') in S] + delta, with eps_i of the
token in x. In every game x has a token with the most noise, for which the paper's claim is strongest; the attacker guesses
"x" by a rule that is fixed before the counted releases. Sizes are public or those of the bundled language model; C cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcl_core.attacks.l2dp_games import Game
from dpcl_core.attacks.play import CONFIDENCE, Attack
from dpcl_core.backbones import plain_language
from dpcl_core.methods.language import sensitivity
from dpcl_core.privacy.audit_bounds import Audited, one_way_bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.privacy.statement import shown
from dpcl_core.privacy.text_mechanisms import clipped, printed_ratios, published_embeddings

Floats = NDArray[np.float64]
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


Play = Callable[[Setting, Noise, int], tuple[Game, float]]  # the game and the claimed budget of the token in question


def audited(setting: Setting, attack: str, trials: int) -> Audited:
    """The result of one of the `ATTACKS` on this noise, from `trials` releases on each side, times the attack's `times`.

    `claimed`: the nominal budget of the token in question. Without noise, every attack is the one on exact vectors.
    """
    chosen = ATTACKS[attack]
    is_noisy = math.isfinite(setting.upper)
    n = chosen.n_releases(trials) if is_noisy else trials
    game, claimed = (chosen.play if is_noisy else _exact)(setting, ReleaseNoise(), n)
    bound = one_way_bound(game.hits, n, game.false_alarms, n, setting.delta, CONFIDENCE)
    description = f"{chosen.attack}; nominal ε of the token: {shown(claimed)}"
    return Audited(claimed, math.inf, bound, setting.delta, CONFIDENCE, n, description, chosen.adversary)


def _released(setting: Setting, table: Floats, tokens: list[int], ratios: Floats, noise: Noise, n: int) -> Floats:
    """n fresh releases of one text: [n, L, d], in units of C."""
    book = Ledger(setting.delta, "replace", "once")
    texts = np.tile(np.array(tokens), (n, 1))
    levels = np.tile(ratios, (n, 1))
    return published_embeddings(table, texts, levels, 1.0, noise, book, task=0).astype(np.float64)


def _level(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    """Two tokens with the same embedding: one with the most noise, one with twice its nominal budget (or the largest).

    With one noise level per text: half of the tokens have score 1, the others 0, and the target has 1 or 0.
    """
    table, nominal, n_tokens = np.full((1, _WIDTH), _WIDTH**-0.5), np.array([setting.lower, 2 * setting.lower]), 1
    if setting.is_sentence:
        n_tokens = setting.n_tokens
        means = 0.5 + np.array([0.5, -0.5]) / n_tokens
        nominal = sensitivity.nominal_epsilon(means, setting.lower, setting.upper)
    levels = setting.ratios(np.minimum(nominal, setting.upper))

    def lengths(level: float, count: int) -> Floats:
        released = _released(setting, table, [0] * n_tokens, np.full(n_tokens, level), noise, count)
        squares: Floats = np.square(released - clipped(table, 1.0)[0]).sum(axis=(1, 2))
        return squares

    game = _game(setting, n, lambda count: lengths(levels[0], count), lambda count: lengths(levels[1], count))
    return game, float(nominal[0])


def _exact(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    """The token with the most noise, or a stop word instead. Guesses "stop word" only for its exact vector."""
    table = np.eye(2, _WIDTH)
    stop_word = clipped(table, 1.0)[1]

    levels = setting.ratios([setting.lower, setting.lower]) * np.array([1.0, float(setting.is_sentence)])

    def guesses(token: int) -> int:
        seen = _released(setting, table, [token], levels[token : token + 1], noise, n)[:, 0]
        return int((seen != stop_word).any(axis=1).sum())

    return Game(guesses(0), guesses(1), n), setting.lower


def _opposite(setting: Setting, noise: Noise, n: int, n_releases: int) -> tuple[Game, float]:
    """Two tokens with the most noise and opposite embeddings, 2C apart, from the mean of n_releases with fresh noise.

    One coordinate is enough: the others contain only noise. The threshold is the one that would prove most if the counts
    were exactly as expected.
    """
    table, ratio = np.array([[1.0], [-1.0]]), setting.ratios([setting.lower])
    std = float(ratio[0]) / math.sqrt(n_releases)
    shares = ndtr(2 / std - _CUTS), ndtr(-_CUTS)
    expected = [
        one_way_bound(int(hits * n), n, math.ceil(alarms * n), n, setting.delta)
        for hits, alarms in zip(*shares, strict=True)
    ]
    cut = -1 + std * _CUTS[int(np.argmax(expected))]

    def guesses(token: int) -> int:
        seen = sum(_released(setting, table, [token], ratio, noise, n)[:, 0, 0] for _ in range(n_releases)) / n_releases
        return int((seen > cut).sum())

    return Game(guesses(0), guesses(1), n), setting.lower


def _context(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
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
        ratios: Floats = np.square(released - clipped(table, 1.0)[later]).sum(axis=2) @ weights
        return ratios

    game = _game(setting, n, lambda count: odds(levels[0], count), lambda count: odds(levels[1], count))
    return game, float(nominal[0, place])


def _game(setting: Setting, n: int, first: Callable[[int], Floats], second: Callable[[int], Floats]) -> Game:
    """The game with a score threshold that the attacker chooses on n simulated releases of each side."""
    with_first, without = np.sort(first(n)), np.sort(second(n))
    seen = np.concatenate([with_first, without])
    cuts = np.union1d(np.quantile(seen, np.linspace(0, 1, 201)), np.linspace(seen.min(), seen.max(), 201))
    hits, alarms = (n - np.searchsorted(sample, cuts) for sample in (with_first, without))
    proved = np.array([one_way_bound(int(a), n, int(b), n, setting.delta) for a, b in zip(hits, alarms, strict=True)])
    best = cuts[proved == proved.max()]
    cut = best[len(best) // 2]  # the middle of equally good cuts: far from both samples if they are separated
    return Game(int((first(n) >= cut).sum()), int((second(n) >= cut).sum()), n)


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


ATTACKS: Mapping[str, Attack[Play]] = {
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
