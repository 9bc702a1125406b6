"""Five games against noise on tokens as PeCL publishes it (Zhan et al., Eqs. 4 to 6), each through the mechanism itself.

Eq. 6 claims, for two texts that differ in token i alone, Pr[M(x) in S] <= e^eps_i Pr[M(x') in S] + delta, with eps_i of the
token in x. In every game x has a token that is noised most, so that this claim is the strongest one of the paper; the
attacker cries "x", by a rule fixed before the releases that count. Sizes are public or the bundled language model's; C drops
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcl_core.attacks.shared_noise_games import Game
from dpcl_core.backbones.language import plain, tokenizer
from dpcl_core.methods.language import sensitivity
from dpcl_core.privacy.embeddings import clipped, published_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.lower_bound import Audited, one_way_bound
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.privacy.statement import shown
from dpcl_core.privacy.token_noise import printed_ratios

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
_WIDTH = 64  # of the embeddings where the game has a choice: small, and wider ones tell more
_TEXTS = (
    "The committee said that inflation was below target and that rates would stay low for longer.",
    "The food was good and the staff were friendly, so we will come back soon.",
    "Please send the bill to my new address and call me before you come.",
)
_N_CANDIDATES = 64  # texts that differ in one token, of each of these
_CUTS = np.linspace(0, 6, 121)  # standard deviations among which a rule is chosen, before anything is drawn


@dataclass(frozen=True, slots=True)
class Setting:
    """What the attacked noise follows from: the nominal range of Eq. 4, delta of Eq. 5, releases with fresh noise.

    `upper` inf: no noise at all. `is_sentence`: one noise for a text of `n_tokens`, by its mean score, stop words included.
    """

    lower: float
    upper: float
    delta: float
    n_epochs: int
    n_tokens: int = 64
    is_sentence: bool = False

    def ratios(self, nominal: Floats | list[float]) -> Floats:
        """sigma / C of tokens with these nominal budgets."""
        given = np.asarray(nominal, np.float64)
        return np.zeros(given.shape) if math.isinf(self.upper) else printed_ratios(given, self.delta)


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to attack, and what its attacker is taken to see and to know.

    `play` takes a setting, noise and the number of releases on each side, and gives the game and the budget that is claimed
    for the token in question. `times`: rounds for each that is asked for, where one is cheap and shows little.
    """

    title: str
    attack: str
    adversary: str
    play: Callable[[Setting, Noise, int], tuple[Game, float]]
    times: int = 1


def audited(setting: Setting, attack: str, trials: int) -> Audited:
    """What one of the `ATTACKS` proves about this noise, from so many releases on each side, times the attack's `times`.

    `claimed`: the nominal budget of the token in question. Without noise every attack is the one on exact vectors.
    """
    chosen = ATTACKS[attack]
    is_noisy = math.isfinite(setting.upper)
    n = trials * chosen.times if is_noisy else trials
    game, claimed = (chosen.play if is_noisy else _exact)(setting, ReleaseNoise(), n)
    bound = one_way_bound(game.hits, n, game.false_alarms, n, setting.delta, CONFIDENCE)
    said = f"{chosen.attack}; nominal ε of the token: {shown(claimed)}"
    return Audited(claimed, math.inf, bound, setting.delta, CONFIDENCE, n, said, chosen.adversary)


def _released(setting: Setting, table: Floats, tokens: list[int], ratios: Floats, noise: Noise, n: int) -> Floats:
    """The mechanism, n times anew on one text: [n, L, d], in units of C."""
    book = Ledger(setting.delta, "replace", "once")
    texts = np.tile(np.array(tokens), (n, 1))
    levels = np.tile(ratios, (n, 1))
    return published_embeddings(table, texts, levels, 1.0, noise, book, task=0).astype(np.float64)


def _level(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    """Two tokens of the same embedding, the most noised one and one whose nominal budget is twice that (or the top).

    Under one noise a text: half of the tokens have score 1, the others 0, and the one in question has 1 or 0.
    """
    table, nominal, n_tokens = np.full((1, _WIDTH), _WIDTH**-0.5), np.array([setting.lower, 2 * setting.lower]), 1
    if setting.is_sentence:
        n_tokens = setting.n_tokens
        means = 0.5 + np.array([0.5, -0.5]) / n_tokens
        nominal = sensitivity.nominal_epsilon(means, setting.lower, setting.upper)
    levels = setting.ratios(np.minimum(nominal, setting.upper))

    def lengths(level: float, count: int) -> Floats:
        released = _released(setting, table, [0] * n_tokens, np.full(n_tokens, level), noise, count)
        found: Floats = np.square(released - clipped(table, 1.0)[0]).sum(axis=(1, 2))
        return found

    game = _game(setting, n, lambda count: lengths(levels[0], count), lambda count: lengths(levels[1], count))
    return game, float(nominal[0])


def _exact(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    """The most noised token, or a stop word in its place? The cry: it is not exactly the stop word's own vector."""
    table = np.eye(2, _WIDTH)
    stop_word = clipped(table, 1.0)[1]

    levels = setting.ratios([setting.lower, setting.lower]) * np.array([1.0, float(setting.is_sentence)])

    def cries(token: int) -> int:
        seen = _released(setting, table, [token], levels[token : token + 1], noise, n)[:, 0]
        return int((seen != stop_word).any(axis=1).sum())

    return Game(cries(0), cries(1), n), setting.lower


def _distance(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    return _opposite(setting, noise, n, 1)


def _epochs(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    return _opposite(setting, noise, n, setting.n_epochs)


def _opposite(setting: Setting, noise: Noise, n: int, n_releases: int) -> tuple[Game, float]:
    """Two most noised tokens of opposite embeddings, 2C apart, from the mean of some releases with fresh noise.

    One coordinate is enough: the others have noise alone. The cut is the one that would prove most were the counts exactly
    as expected.
    """
    table, ratio = np.array([[1.0], [-1.0]]), setting.ratios([setting.lower])
    std = float(ratio[0]) / math.sqrt(n_releases)
    shares = ndtr(2 / std - _CUTS), ndtr(-_CUTS)
    expected = [
        one_way_bound(int(hits * n), n, math.ceil(alarms * n), n, setting.delta)
        for hits, alarms in zip(*shares, strict=True)
    ]
    cut = -1 + std * _CUTS[int(np.argmax(expected))]

    def cries(token: int) -> int:
        seen = sum(_released(setting, table, [token], ratio, noise, n)[:, 0, 0] for _ in range(n_releases)) / n_releases
        return int((seen > cut).sum())

    return Game(cries(0), cries(1), n), setting.lower


def _context(setting: Setting, noise: Noise, n: int) -> tuple[Game, float]:
    """One token changed, and only those after it are looked at: their own probabilities follow, and so does their noise.

    The bundled model's, with Score2 left out. The attacker takes the likelihood ratio of the later vectors' noise.
    """
    texts, log_p, place = _neighbours()
    scores = sensitivity.scores(log_p, np.zeros(log_p.shape), np.zeros(log_p.shape, bool))
    if setting.is_sentence:
        scores = sensitivity.sentence_scores(scores, np.ones(log_p.shape, bool))
    nominal = sensitivity.nominal_epsilon(scores, setting.lower, setting.upper)
    table = plain.load().embeddings.astype(np.float64)
    table /= np.median(np.linalg.norm(table, axis=1))
    levels, later = setting.ratios(nominal[:, place + 1 :]), texts[0, place + 1 :].tolist()
    weights = (1 / levels[1] ** 2 - 1 / levels[0] ** 2) / 2

    def odds(level: Floats, count: int) -> Floats:
        released = _released(setting, table, later, level, noise, count)
        found: Floats = np.square(released - clipped(table, 1.0)[later]).sum(axis=2) @ weights
        return found

    game = _game(setting, n, lambda count: odds(levels[0], count), lambda count: odds(levels[1], count))
    return game, float(nominal[0, place])


def _game(setting: Setting, n: int, first: Callable[[int], Floats], second: Callable[[int], Floats]) -> Game:
    """Cries where a score is at least a cut, which the attacker chooses by as many releases of his own making."""
    with_first, without = np.sort(first(n)), np.sort(second(n))
    seen = np.concatenate([with_first, without])
    cuts = np.union1d(np.quantile(seen, np.linspace(0, 1, 201)), np.linspace(seen.min(), seen.max(), 201))
    hits, alarms = (n - np.searchsorted(found, cuts) for found in (with_first, without))
    proved = np.array([one_way_bound(int(a), n, int(b), n, setting.delta) for a, b in zip(hits, alarms, strict=True)])
    best = cuts[proved == proved.max()]
    cut = best[len(best) // 2]  # amid equals: far from both sides where nothing lies between them
    return Game(int((first(n) >= cut).sum()), int((second(n) >= cut).sum()), n)


@lru_cache(maxsize=1)
def _neighbours() -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
    """Two texts [2, L] that differ in one token, log P of their tokens, and where: the first one's token is noised more.

    Of a few texts and of tokens put in one place of them, those after which other tokens' noise changes most.
    """
    model, words = plain.load(), tokenizer.load("lm-tiny")
    found: list[tuple[float, NDArray[np.int64], NDArray[np.float32], int]] = []
    for string in _TEXTS:
        ids = np.array(words.encode(string)[0], np.int64)
        place = len(ids) // 3
        texts = np.tile(ids, (_N_CANDIDATES + 1, 1))
        texts[1:, place] = np.linspace(0, words.size - 1, _N_CANDIDATES).astype(np.int64)
        log_p = model.log_probabilities(texts)
        nominal = np.log1p(9 * np.exp(log_p[:, place + 1 :]))
        apart = np.square(nominal - nominal[0]).sum(axis=1)
        rows = [0, int(apart.argmax())]
        rows.sort(key=lambda row: float(log_p[row, place]))
        found.append((float(apart.max()), texts[rows], log_p[rows], place))
    _, texts, log_p, place = max(found, key=lambda one: one[0])
    return texts, log_p, place


ATTACKS: Mapping[str, Attack] = {
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
        _distance,
        times=4000,
    ),
    "epochs": Attack(
        "Fresh noise in every epoch",
        "mean over the epochs: fresh noise averages out",
        "sees one token's noisy embedding of every epoch, and knows the two opposite ones that it may belong to",
        _epochs,
        times=100,
    ),
}
