"""Detection of private tokens by a score, against true spans, harmless look-alikes and a simple pattern baseline."""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from dpcl_core import arrays
from dpcl_core.backbones import packaged, plain_language
from dpcl_core.data.texts import KINDS, LOOKALIKE, PADDING, Texts
from dpcl_core.events import ScoredText
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.adapted_model import log_probabilities
from dpcl_core.methods.language.pecl_published import Dials as Dials
from dpcl_core.methods.language.pecl_published import dials_of as dials_of
from dpcl_core.privacy import text_mechanisms

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Concatenated tokens of many texts, [m] each: kind ("" outside spans), stop word, word with a suspicious pattern."""

    kinds: NDArray[np.str_]
    is_stop: Bools
    has_pattern: Bools

    @property
    def is_private(self) -> Bools:
        """Inside a span of a private kind."""
        is_private: Bools = (self.kinds != "") & ~self.is_lookalike
        return is_private

    @property
    def is_lookalike(self) -> Bools:
        """Inside a span that looks private and is harmless."""
        return np.char.startswith(self.kinds, LOOKALIKE)


def whole_words(text: ScoredText) -> ScoredText:
    """The text up to its last blank, where the greatest length that a run reads may have cut it inside a word."""
    if not text.tokens or text.tokens[-1].rstrip()[-1:] in (".", "!", "?", "…", ""):
        return text
    n = max((place for place, token in enumerate(text.tokens) if token.startswith(" ")), default=0)
    parts = ("tokens", "probability", "commonness", "is_stop", "kinds")
    return replace(text, **{name: getattr(text, name)[:n] for name in parts}) if n else text


def gathered(texts: Sequence[ScoredText]) -> Tokens:
    """The tokens of all texts, in order."""
    kinds = [kind for text in texts for kind in text.kinds]
    stops = [stop for text in texts for stop in text.is_stop]
    marks = [mark for text in texts for mark in patterns(text.tokens)]
    return Tokens(np.array(kinds, dtype=np.str_), np.array(stops, np.bool_), np.array(marks, np.bool_))


def patterns(tokens: Sequence[str]) -> list[bool]:
    """Whether each token's word has a capital letter, an @ or two digits: a baseline detector, not a proposed one.

    A token outside any word (blanks only) has none; a token that spans two words counts as part of the last.
    """
    text, ends = "".join(tokens), np.cumsum([len(token) for token in tokens]).tolist()
    inside = np.zeros(len(text) + 1, np.bool_)
    for found in _WORD.finditer(text):
        word = found.group()
        is_marked = "@" in word or any(map(str.isupper, word)) or sum(map(str.isdigit, word)) >= 2
        inside[found.start() : found.end()] = is_marked
    return [bool(inside[max(end - 1, 0)]) for end in ends]


def auroc(score: Floats, is_hit: Bools) -> float:
    """Chance that a hit scores above a non-hit, ties counted half; NaN if either is missing. Args: both [m]."""
    n_hits = int(is_hit.sum())
    n_others = len(is_hit) - n_hits
    if not n_hits or not n_others:
        return float("nan")
    from scipy.stats import rankdata  # takes long to load, and every run loads this module

    return float((rankdata(score)[is_hit].sum() - n_hits * (n_hits + 1) / 2) / (n_hits * n_others))


def average_precision(score: Floats, is_hit: Bools) -> float:
    """Mean over hits of the precision at their score; NaN if there are no hits. Args: both [m]."""
    if not is_hit.any():
        return float("nan")
    order = np.argsort(-score, kind="stable")
    ranked, hits = score[order], is_hit[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # tied scores are taken together
    n_hits = np.cumsum(hits)[last]
    return float((np.diff(n_hits, prepend=0) * n_hits / (last + 1)).sum() / hits.sum())


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """AUROC, average precision and share of private tokens, by group of tokens."""

    auroc: Mapping[str, float]
    precision: Mapping[str, float]
    share: Mapping[str, float]


EVERY, NO_STOPS, AGAINST = "all tokens", "without stop words", "against look-alikes"


def scores(score: Floats, tokens: Tokens) -> DetectionScores:
    """Evaluates a score [m] against true spans: on all tokens, without stop words, and on private tokens and look-alikes."""
    groups = {
        EVERY: np.ones(len(score), np.bool_),
        NO_STOPS: ~tokens.is_stop,
        AGAINST: tokens.is_private | tokens.is_lookalike,
    }
    private = tokens.is_private
    return DetectionScores(
        {name: auroc(score[rows], private[rows]) for name, rows in groups.items()},
        {name: average_precision(score[rows], private[rows]) for name, rows in groups.items()},
        {name: float(private[rows].mean()) if rows.any() else float("nan") for name, rows in groups.items()},
    )


def recall(score: Floats, rows: Bools, threshold: float) -> float:
    """Share of the tokens in `rows` [m] with a score above the threshold; NaN if there are none."""
    return float((score[rows] > threshold).mean()) if rows.any() else float("nan")


def by_kind(score: Floats, tokens: Tokens) -> dict[str, float]:
    """AUROC of each kind's tokens, look-alikes included, against tokens outside any span; sorted by kind."""
    outside = tokens.kinds == ""
    kinds = [str(kind) for kind in np.unique(tokens.kinds) if kind]
    rows = {kind: outside | (tokens.kinds == kind) for kind in kinds}
    return {kind: auroc(score[rows[kind]], tokens.kinds[rows[kind]] == kind) for kind in kinds}


# The bundled language model as a document for the browser, which scores typed sentences by itself (`assets/tokens/`).


def document(commonness: NDArray[np.floating]) -> dict[str, object]:
    """Weights (half precision, as bundled; base64), vocabulary, merges, stop words; `commonness` [size]: Score2 of tokens.

    Raises DataMissing where the model's files are missing.
    """
    return {**_model(), "commonness": _encoded(np.asarray(commonness, np.float64))}


@lru_cache(maxsize=1)
def _model() -> dict[str, object]:
    bundle = packaged.bundled()
    inner = json.loads(bundle.read_tokenizer())["model"]
    weights = arrays.load(bundle.read_weights())
    assert all(values.dtype == np.float16 for values in weights.values())
    return {
        "shape": asdict(bundle.shape),
        "bos": plain_language.load_tokenizer(packaged.BUNDLED).bos,
        "weights": {name: _encoded(values) for name, values in sorted(weights.items())},
        "vocabulary": sorted(inner["vocab"], key=inner["vocab"].__getitem__),
        "merges": [" ".join(pair) if isinstance(pair, list) else pair for pair in inner["merges"]],
        "stop_words": sorted(plain_language.STOP_WORDS),
    }


def _encoded(values: NDArray[np.generic]) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


# Layers of a text's heat map: every quantity derived from PeCL's score, computed from one scored text.


# re-exported: pages import nothing from methods

Layer = Literal["p", "score1", "score2", "score", "nominal", "true", "sigma", "printed", "flipped", "hinge"]
LAYERS: tuple[Layer, ...] = get_args(Layer)  # all are in the CSV
SHOWN: tuple[Layer, ...] = ("score1", "score", "nominal", "true", "hinge")  # from surprise to what it does to the model
NOISE: tuple[Layer, ...] = ("nominal", "true", "sigma")  # no value for stop words, which get no noise
WEIGHTS: tuple[Layer, ...] = ("printed", "flipped", "hinge")
FALLING: tuple[Layer, ...] = ("p", "nominal", "true")  # small for sensitive tokens
_NOMINAL_EDGES = (1.5, 3.0, 5.0, 8.0)  # the same for every setting, so that shades move when a setting does
_HINGE_GAP = -1.0  # nats: the model finds the token likelier than the public model does, so that the hinge is active


def token_scores(text: ScoredText, dials: Dials) -> NDArray[np.float64]:
    """Score (Eq. 1) of every token of a text, [m]; 0 for stop words; the printed formula can give negative values."""
    log_p = np.log(np.asarray(text.probability, np.float64))
    score2 = np.asarray(text.commonness, np.float64)
    return sensitivity.scores(log_p, score2, np.asarray(text.is_stop, np.bool_), alpha=dials.alpha)


def values(text: ScoredText, layer: Layer, dials: Dials) -> NDArray[np.float64]:
    """A layer's value for every token, [m]; NaN for stop words in the layers of `NOISE`.

    "hinge": the weight while the model finds the token likelier than the public model does; afterwards it is 0.
    """
    if layer == "score2":
        return np.asarray(text.commonness, np.float64)
    if layer in ("p", "score1"):
        p = np.asarray(text.probability, np.float64)
        return p if layer == "p" else -np.log(p)
    score = token_scores(text, dials)
    if layer == "score":
        return score
    if layer in NOISE:
        nominal = sensitivity.nominal_epsilon(score, dials.lower, dials.upper)
        return np.where(np.asarray(text.is_stop, np.bool_), np.nan, of_nominal(nominal, layer, dials))
    form = cast(sensitivity.Unlearning, layer)
    gap = np.full(score.shape, _HINGE_GAP)
    return sensitivity.loss_weights(score, form, dials.loss, strength=dials.strength, threshold=dials.threshold, gap=gap)


def of_nominal(nominal: NDArray[np.float64], layer: Layer, dials: Dials) -> NDArray[np.float64]:
    """Nominal budgets [m] as a layer of `NOISE`: unchanged, as the exact epsilon of their noise at its true sensitivity, or
    as that noise's sigma / C (Eq. 5)."""
    if layer == "nominal":
        return nominal
    ratios = text_mechanisms.printed_ratios(nominal, dials.delta)
    return ratios if layer == "sigma" else text_mechanisms.true_epsilons(ratios, dials.delta)


@lru_cache(maxsize=256)
def edges(layer: Layer, dials: Dials) -> tuple[float, ...]:
    """Four ascending thresholds between the five shades of a layer, rounded for display; no slider of the score moves them.

    For a loss weight they measure the distance from the weight of a token that is not sensitive.
    """
    fixed: dict[Layer, tuple[float, ...]] = {
        "p": (0.01, 0.05, 0.16, 0.5),
        "score1": (1.0, 2.0, 4.0, 7.0),
        "score2": (0.0, 0.02, 0.05, 0.15),
        "score": (0.2, 0.4, 0.6, 0.8),
    }
    if layer in fixed:
        return fixed[layer]
    if layer in NOISE:
        thresholds = np.sort(of_nominal(np.array(_NOMINAL_EDGES), layer, dials))
    else:
        thresholds = max(dials.strength, 1e-6) * np.array([1e-6, 0.1, 0.2, 0.3])
    return tuple(float(f"{edge:.3g}") for edge in thresholds.tolist())


def base(dials: Dials) -> float:
    """The loss weight of a token that is not sensitive."""
    return 1.0 if dials.loss == "full" else 0.0


def text_epsilon(text: ScoredText, dials: Dials) -> float:
    """Exact epsilon of the whole text for one release of its noised tokens, without stop words, which are sent in the clear.

    It treats each token's noise as fixed; since the noise depends on the token, the true epsilon is larger still.
    """
    ratios = values(text, "sigma", dials)
    return text_mechanisms.text_epsilon(ratios[~np.isnan(ratios)].tolist(), dials.delta)


def warning(texts: Sequence[ScoredText], dials: Dials) -> str | None:
    """A warning if a score is outside [0, 1], which puts a nominal budget outside its range; None otherwise."""
    if not any(text.tokens for text in texts):
        return None
    text_scores = np.concatenate([token_scores(text, dials) for text in texts])
    return sensitivity.out_of_range(text_scores, dials.lower, dials.upper)


# Token scores of texts under a public model; NumPy only for the bundled one. No text is kept.


_AT_ONCE = 8  # texts in a batch of a model that is not bundled


def scored(
    texts: Texts, score2: NDArray[np.floating] | None = None, labels: Sequence[str] | None = None, *,
    backbone: str = packaged.BUNDLED, done: Callable[[int], object] = lambda n_texts: None,
) -> list[ScoredText]:  # fmt: skip
    """Every text with its token scores. `score2` [size]: Score2 of each token of the vocabulary; None: all 0.

    A character made of several tokens is shown with the first, so that the tokens joined are the text. `done` hears how many
    texts have been read so far. Raises DataMissing where the model is missing.
    """
    encoded = plain_language.load_tokenizer(backbone).encode_all(texts.strings)
    likely = _log_probabilities([ids for ids, _ in encoded], backbone, done)
    rows = []
    for number, (ids, offsets) in enumerate(encoded):
        places, spans = np.asarray(offsets, np.int64).reshape(-1, 2), () if texts.spans is None else texts.spans[number]
        marked = plain_language.kinds(spans, places)
        rows.append(
            ScoredText(
                tokens=_printed(texts.strings[number], offsets),
                probability=tuple(np.exp(np.minimum(likely[number, : len(ids)].astype(np.float64), 0.0)).tolist()),
                commonness=tuple(score2[ids].tolist()) if score2 is not None else (0.0,) * len(ids),
                is_stop=tuple(plain_language.stops(texts.strings[number], places).tolist()) if len(ids) else (),
                kinds=tuple(KINDS[kind - 1] if kind else "" for kind in marked.tolist()),
                label=labels[number] if labels is not None else "",
            )
        )
    return rows


def counted(tasks: Sequence[Texts], backbone: str = packaged.BUNDLED) -> NDArray[np.int64]:
    """Token counts of each task's texts [N, size], from which Score2 is computed."""
    ready = plain_language.load_tokenizer(backbone)
    rows = [np.array([token for ids, _ in ready.encode_all(task.strings) for token in ids], np.int64) for task in tasks]
    return np.stack([sensitivity.counts(row, ready.size) for row in rows])


def _log_probabilities(ids: Sequence[Sequence[int]], backbone: str, done: Callable[[int], object]) -> NDArray[np.float32]:
    """log P of each token [n, longest]; 0 after a text's end. Texts of like length are read together."""
    tokens = np.full((len(ids), max(map(len, ids), default=0)), PADDING, np.int64)
    for row, text in enumerate(ids):
        tokens[row, : len(text)] = text
    if backbone == packaged.BUNDLED:
        return plain_language.load().log_probabilities(tokens)
    likely, by_length = np.zeros(tokens.shape, np.float32), np.argsort([len(text) for text in ids], kind="stable")
    for start in range(0, len(ids), _AT_ONCE):
        rows = by_length[start : start + _AT_ONCE]
        width = max(len(ids[row]) for row in rows)
        likely[rows, :width] = log_probabilities(backbone, tokens[rows, :width], "cpu", is_shown=True)
        done(start + len(rows))
    return likely


def _printed(string: str, offsets: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Each token's characters that no earlier token covers."""
    parts, done = [], 0
    for _, end in offsets:
        parts.append(string[done:end])
        done = max(done, end)
    return tuple(parts)
