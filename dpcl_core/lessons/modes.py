"""Lesson "Which list entry is which?" and Matching clients on Explore without a run: lists of clients with public digits.

Digits 0 to 3 are the modes that clients hold; all others are public and give anchors, axes and first prototypes. Pictures
replace texts, because the content of an entry is visible. Rows are drawn with replacement, so that there are enough for
any number of clients.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import synthetic
from dpcl_core.data.rows import digits
from dpcl_core.data.texts import Texts
from dpcl_core.events import ScoredText
from dpcl_core.explorers import matching, tokens
from dpcl_core.explorers.projection_maps import Matched
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.client_release import EvenSlots, by_matching, release_vectors
from dpcl_core.methods.federated.lists import Element, ListLearner, Lists, Signature
from dpcl_core.methods.language import sensitivity
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell

Kind = Literal["exact", "fitted"]
N_MODES, N_AXES = 4, 8
SHORT, LONG = 32, 384  # vector lengths: the informative coordinates alone, and that of a sentence embedding
N_CLIENTS, N_ROWS, N_ANCHORS = 20, 60, 200
N_ROUNDS, DELTA = 4, 1e-5
RADIUS = 0.5  # nine of ten groups of public digits lie within it
_LEAST = 5  # rows of every mode that a client with exact lists has, so that each has all of them
_MIX = 0.5  # of the Dirichlet that deals rows to clients
_RIDGE = 1e-3
_GROUPS = tuple(f"group {group + 1}" for group in range(N_MODES))


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Clients with lists of `N_MODES` entries, and what is public.

    `public` [p, d]: digits 4 to 9 on their own 32 principal axes, unit length before; with d = 384 the other numbers are 0
    in every digit, and only noise reaches them. `anchors` [200, d] are drawn from the public ones;
    `lists`: exact ones hold each mode once, fitted ones what EM finds; `modes` int64 [n, L]: an entry's true mode, the most
    frequent digit among its rows.
    """

    names: tuple[str, ...]
    public: NDArray[np.float64]
    anchors: NDArray[np.float64]
    view: matchers.PublicView
    lists: Lists
    modes: NDArray[np.int64]
    kind: Kind

    def signature(self, m: int) -> Signature:
        """The feature map of the first m anchors."""
        return Signature(self.anchors[:m], "shared-spherical", "centred", self.view.covariance)

    @property
    def n_clients(self) -> int:
        return len(self.lists)

    @property
    def rule(self) -> matchers.Rule:
        """One to one where every client holds every mode; many to one where it may lack one and split another."""
        return "hungarian" if self.kind == "exact" else "nearest"

    def by_name(self, n_anchors: int) -> dict[str, matchers.EntryMatcher]:
        """The available matchers, with the first `n_anchors` anchors."""
        return matching.usual(self.view, self.anchors[:n_anchors], self.rule)


@lru_cache(maxsize=12)
def world(kind: Kind = "exact", n_inputs: int = SHORT, n_clients: int = N_CLIENTS, draw: int = 0) -> World:
    """Clients and their shuffled lists, fixed by the arguments; `draw` seeds the allocation and the choice of anchors."""
    features, labels, _ = _digits()
    features = np.pad(features, ((0, 0), (0, n_inputs - SHORT)))
    public = features[labels >= N_MODES]
    generator = np.random.default_rng([draw, n_clients])
    pools = [features[labels == mode] for mode in range(N_MODES)]
    anchors = public[generator.choice(len(public), N_ANCHORS, replace=False)]
    all_lists, modes = [], np.zeros((n_clients, N_MODES), dtype=np.int64)
    for client in range(n_clients):
        counts = generator.multinomial(N_ROWS, generator.dirichlet(np.full(N_MODES, _MIX)))
        counts = np.maximum(counts, _LEAST) if kind == "exact" else counts
        rows = [pool[generator.integers(len(pool), size=count)] for pool, count in zip(pools, counts, strict=True)]
        entries = _exact(rows) if kind == "exact" else _fitted(rows, generator)
        order = generator.permutation(len(entries))  # a list is unordered: positions carry no information
        all_lists.append([entries[place] for place in order])
        modes[client] = [int(entries[place].target.argmax()) for place in order]
    view = matchers.PublicView.of(public, N_AXES, RADIUS)
    return World(tuple(f"digit {mode}" for mode in range(N_MODES)), public, anchors, view, Lists.of(all_lists), modes, kind)


def picture(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The grey levels [8, 8] in [0, 1] of a mean [d] of digits, reconstructed from its principal axes."""
    drawn = np.clip(pixels(mean).reshape(8, 8), 0.0, None)
    return drawn / max(float(drawn.max()), 1e-9)


def pixels(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means [..., d] as pixels [..., 64], an affine map; negative where noise or the axes left out say so."""
    _, _, (centre, axes) = _digits()
    return centre + means[..., :SHORT] @ axes.T


def server_side(of: World, matcher: str, n_anchors: int, level: float, draw: int = 0) -> Matched:
    """The server groups all lists, each with noise of this level on every coordinate: local trust."""
    chosen = of.by_name(n_anchors)[matcher]
    lists = matching.noised(of.lists, level, np.random.default_rng(draw)) if level else of.lists
    compared, pooled = matching.grouped(lists, chosen, N_MODES, of.view, np.random.default_rng(draw))
    prototypes = np.stack([_mean_of(lists, pooled.ids == group) for group in range(N_MODES)])
    return Matched(
        lists, np.arange(of.n_clients), pooled.ids, compared, pooled.prototypes, prototypes, _GROUPS, of.modes, matcher,
        chosen.rule == "hungarian", mode_names=of.names,
    )  # fmt: skip


def client_side(of: World, matcher: str, n_anchors: int, epsilon: float, n_rounds: int, draw: int = 0) -> Matched:
    """Every client matches its own exact entries to the prototypes, which start as public modes and then are released
    `n_rounds` times, each time as the noisy average of all clients' slots. Epsilon is that of all `N_ROUNDS` rounds.
    """
    chosen = of.by_name(n_anchors)[matcher]
    cell = Cell(epsilon, draw)
    layout = EvenSlots(of.view, N_MODES)
    ledger = Ledger(DELTA, "add-remove", "every")
    multiplier = noise_multiplier(epsilon)
    prototypes = matchers.public_modes(of.public, N_MODES)
    compared = matchers.list_features(of.lists, chosen.features)
    n_classes = of.lists.targets.shape[2]
    ids, wanted = _assigned(of, chosen, compared, prototypes, draw)
    for number in range(n_rounds):
        noise = SeededNoise(cell, f"anchors round {number}")
        (replay,) = release_vectors(
            layout.vectors(by_matching(of.lists, ids, N_MODES)), layout, np.eye(N_MODES, n_classes), [multiplier], [noise],
            [ledger], task=0, n_clients=of.n_clients,
        )  # fmt: skip
        prototypes = replay.means
        ids, wanted = _assigned(of, chosen, compared, prototypes, draw)
    return Matched(
        of.lists, np.arange(of.n_clients), ids, compared, wanted, prototypes, _GROUPS, of.modes, matcher,
        chosen.rule == "hungarian", std_of_released(of, epsilon) if n_rounds else 0.0, of.view.axes, of.names,
    )  # fmt: skip


def noise_multiplier(epsilon: float) -> float:
    """Noise multiplier of each of `N_ROUNDS` releases that together cost epsilon; Gaussian rounds compose exactly."""
    return math.sqrt(N_ROUNDS) * gaussian.sigma(epsilon, DELTA)


def std_of_released(of: World, epsilon: float) -> float:
    """Noise on a coordinate of a released prototype: the sum's noise over the public number of clients."""
    return noise_multiplier(epsilon) * EvenSlots(of.view, N_MODES).sensitivity / of.n_clients


def std_of_lists(of: World, epsilon: float) -> float:
    """Noise on a coordinate of a mean under local noise on every client's list, its means clipped together."""
    return noise_multiplier(epsilon) * EvenSlots(of.view, N_MODES).sensitivity


def lengths(of: World, std: float) -> tuple[dict[str, float], dict[str, float]]:
    """Signal and noise by statistic when each coordinate of a released mean has this noise: the mean of a mode on the axes
    that are released, and the second moments that a full release would add under the same noise.
    """
    n_inputs = of.lists.means.shape[2]
    released = {
        f"mean on {N_AXES} axes": (of.view.residuals(of.lists.means), N_AXES),
        f"mean on all {n_inputs}": (of.lists.means, n_inputs),
        f"second moments of {n_inputs}": (of.lists.second_moments, n_inputs),
    }
    signal = {name: float(np.linalg.norm(vectors, axis=-1).mean()) for name, (vectors, _) in released.items()}
    return signal, {name: std * math.sqrt(n) for name, (_, n) in released.items()}


def by_place(of: World) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Averages [L, d]: of entries at the same position of every list, and of entries of the same mode."""
    places = of.lists.means.mean(axis=0)
    return places, np.stack([_mean_of(of.lists, of.modes == mode) for mode in range(N_MODES)])


def _assigned(
    of: World, chosen: matchers.EntryMatcher, compared: NDArray[np.float64], prototypes: NDArray[np.float64], draw: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every client's slots [n, L] against the prototypes [K, d], and the prototypes as the matcher sees them [K, f]."""
    middle = of.lists.covariances.mean(axis=(0, 1))
    no_target = np.zeros(of.lists.targets.shape[2])
    wanted = chosen.features([Element(1 / len(prototypes), mean, middle, no_target) for mean in prototypes])
    generator = np.random.default_rng(draw)
    ids = [
        matchers.assign(chosen.rule, rows, wanted, weights, generator)
        for rows, weights in zip(compared, of.lists.weights, strict=True)
    ]
    return np.stack(ids), wanted


def _mean_of(lists: Lists, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Mean [d] of the chosen entries; zero where none is."""
    return np.asarray(lists.means[chosen].sum(axis=0) / max(int(chosen.sum()), 1), np.float64)


def _exact(rows: list[NDArray[np.float64]]) -> list[Element]:
    """One entry per mode: share, mean and variances of its rows."""
    total = sum(map(len, rows))
    kinds = zip(np.eye(N_MODES), rows, strict=True)
    return [Element(len(z) / total, z.mean(axis=0), z.var(axis=0) + _RIDGE, kind) for kind, z in kinds]


def _fitted(rows: list[NDArray[np.float64]], generator: np.random.Generator) -> list[Element]:
    """The entries that EM fits to all rows together."""
    labels = np.repeat(np.arange(N_MODES), [len(z) for z in rows])
    return ListLearner(N_MODES, ridge=_RIDGE).fit(np.concatenate(rows), np.eye(N_MODES)[labels], generator)


@lru_cache(maxsize=1)
def _digits() -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """All digits [1797, d] on the principal axes of the public ones, their labels, and the axes' middle [64] and [64, d]."""
    images, labels = digits()
    assert isinstance(images.content, np.ndarray)
    pixels = images.content.reshape(len(labels), -1).astype(np.float64)
    pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
    public = pixels[labels >= N_MODES]
    centre = public.mean(axis=0)
    axes = np.linalg.svd(public - centre, full_matrices=False)[2][:SHORT].T
    return (pixels - centre) @ axes, labels, (centre, axes)


# Does a surprise score identify private tokens? Public synthetic texts, scored live by the bundled model.
#
# Sensitive words on Explore takes its examples from here, too. Never use it on private texts: exact scores are a leak.


N_TEXTS = 40  # of each source


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """`N_TEXTS` synthetic texts of each source in turn, with spans and labels, and Score2 of every token by all counts."""

    sources: tuple[str, ...]
    texts: Texts
    labels: tuple[str, ...]
    score2: NDArray[np.float64]

    @property
    def strings(self) -> list[Sequence[str]]:
        """The texts of each source, by which Score2 is computed."""
        return [self.texts.strings[start : start + N_TEXTS] for start in range(0, len(self.texts), N_TEXTS)]

    def some(self, n_texts: int) -> tuple[Texts, tuple[str, ...]]:
        """So many texts with their labels, the first ones of each source in turn."""
        rows = np.arange(len(self.texts)).reshape(-1, N_TEXTS).T.ravel()[:n_texts]
        return self.texts.take(rows), tuple(self.labels[row] for row in rows)

    def one(self, source: int, number: int) -> tuple[Texts, tuple[str]]:
        """One text of a source with its label."""
        row = source * N_TEXTS + number
        return self.texts.take(np.array([row])), (self.labels[row],)

    def text(self, source: int, number: int) -> ScoredText:
        """The same, scored."""
        text, label = self.one(source, number)
        return tokens.scored(text, self.score2, label)[0]


@lru_cache(maxsize=1)
def texts() -> Corpus:
    """`N_TEXTS` texts of each source of the synthetic corpus. Raises DataMissing without the bundled model."""
    train, _ = synthetic.corpus(round(N_TEXTS / 0.8))
    assert isinstance(train.images, Texts)
    assert train.sources is not None
    names = [label for _, labels in synthetic.classes() for label in labels]
    rows = [np.flatnonzero(train.sources == source)[:N_TEXTS] for source in range(len(synthetic.classes()))]
    score2 = sensitivity.commonness(tokens.counted([train.images.take(selected) for selected in rows]))
    every = np.concatenate(rows)
    labels = tuple(names[label] for label in train.labels[every].tolist())
    return Corpus(tuple(name for name, _ in synthetic.classes()), train.images.take(every), labels, score2)


@lru_cache(maxsize=1)
def everything() -> tuple[ScoredText, ...]:
    """All of `texts` with scores, by source."""
    corpus = texts()
    return tuple(tokens.scored(corpus.texts, corpus.score2, corpus.labels))


def ranked(of: Sequence[ScoredText], dials: tokens.Dials) -> NDArray[np.float64]:
    """Score of every token of all texts in a row."""
    return np.concatenate([tokens.token_scores(text, dials) for text in of])


def memorised_share(of: Sequence[ScoredText], share: float) -> list[ScoredText]:
    """The texts scored by a model that has memorised this share of them: a stand-in for training.

    Its chance of a token is (1 - share) P + share M, M being how often the token followed the two tokens before it in
    these very texts: a model mixed with a memory (Kuhn and De Mori 1990; Khandelwal et al. 2020). At share 0 it is the
    frozen model.
    """
    pairs = [[(text.tokens[max(0, place - 2) : place], token) for place, token in enumerate(text.tokens)] for text in of]
    followed: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for before, token in chain.from_iterable(pairs):
        followed[before][token] += 1
    rescored = []
    for text, own in zip(of, pairs, strict=True):
        memory = [followed[before][token] / followed[before].total() for before, token in own]
        mixed = (1 - share) * np.array(text.probability) + share * np.array(memory)
        rescored.append(replace(text, probability=tuple(mixed.tolist())))
    return rescored
