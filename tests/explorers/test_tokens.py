"""Scores of tokens: texts and layers, detection of private ones, and the twin in JavaScript."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from dpcl_core import events, paths
from dpcl_core.attacks import token_noise_games
from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import KIND, KINDS, STOP, TOKEN, Span, Texts
from dpcl_core.explorers import tokens
from dpcl_core.explorers.token_reader import ReaderEnded, TokenReader
from dpcl_core.explorers.tokens import AGAINST, EVERY, SHOWN, Dials, Layer, auroc, average_precision, gathered, scores
from dpcl_core.methods.language import sensitivity
from dpcl_core.privacy import text_mechanisms
from tests.support import asserting, javascript
from tests.support.texts import SCORED

STRINGS = (
    "Dear team, this is Grace Okafor from Tartu.", "x", "", "שלום עולם, مرحبا", "a 😀 and 👩‍👩‍👧 end",
    "two\n\nlines \t and   blanks ",
)  # fmt: skip


@pytest.mark.parametrize("string", STRINGS)
def test_tokens_joined_are_the_text(string: str) -> None:
    (found,) = tokens.scored(Texts([string]))
    assert "".join(found.tokens) == string
    assert len(found.tokens) == len(found.probability) == len(found.commonness) == len(found.is_stop) == len(found.kinds)
    assert all(0 < p <= 1 for p in found.probability)


def test_a_text_is_scored_as_the_methods_read_it() -> None:
    """The reader's planes and the model itself, asked one text at a time, give the same."""
    texts = Texts(list(STRINGS[:2]), [(Span(19, 31, "NAME"),), ()])
    planes = plain_language.read(texts, "lm-tiny", 40)
    score2 = np.linspace(-0.1, 0.3, plain_language.load_tokenizer("lm-tiny").size)
    for row, one in zip(planes, tokens.scored(texts, score2, ["calm", "other"]), strict=True):
        n = len(one.tokens)
        ids = row[:n, TOKEN]
        assert (one.commonness, one.is_stop) == (tuple(score2[ids].tolist()), tuple((row[:n, STOP] != 0).tolist()))
        assert one.kinds == tuple(KINDS[kind - 1] if kind else "" for kind in row[:n, KIND].tolist())
        alone = plain_language.load().log_probabilities(ids[None, :])[0]
        assert np.log(one.probability) == pytest.approx(alone, abs=1e-4)
    assert (tokens.scored(texts, score2, ["calm", "other"])[0].label, tokens.scored(Texts([]))) == ("calm", [])


@pytest.mark.parametrize(("words", "whole"), [
    (("The", " par"), ("The",)),
    (("The", " par", "agr"), ("The",)),
    (("The", " end", "."), ("The", " end", ".")),
    (("par",), ("par",)),
    ((), ()),
])  # fmt: skip
def test_a_text_that_was_cut_stops_before_the_word_that_was_cut(words: tuple[str, ...], whole: tuple[str, ...]) -> None:
    n = len(words)
    text = tokens.whole_words(events.ScoredText(words, (0.5,) * n, (0.1,) * n, (False,) * n, ("",) * n, "calm"))
    assert (text.tokens, len(text.probability), len(text.kinds)) == (whole, len(whole), len(whole))


# Every layer against its printed formula, token by token; shades agree with their edges; what has no number has none.


USUAL = Dials()


def by_hand(layer: Layer, p: float, score2: float, is_stop: bool, dials: Dials) -> float:
    """One token, from the formulas as they are printed."""
    score = 0.0 if is_stop else 1 - math.exp(-(dials.alpha * -math.log(p) + (1 - dials.alpha) * score2))
    nominal = dials.lower + (dials.upper - dials.lower) * (1 - score) ** 2
    ratio = math.sqrt(2 * math.log(1.25 / dials.delta)) / nominal
    weight = dials.strength * max(score - dials.threshold, 0.0)
    plain = 1.0 if dials.loss == "full" else 0.0
    found: dict[Layer, float] = {
        "p": p, "score1": -math.log(p), "score2": score2, "score": score, "nominal": nominal, "sigma": ratio,
        "true": text_mechanisms.true_epsilon(ratio, dials.delta), "printed": plain + weight, "flipped": plain - weight,
        "hinge": -weight if weight > 0 else plain,
    }  # fmt: skip
    return math.nan if is_stop and layer in tokens.NOISE else found[layer]


@pytest.mark.parametrize("layer", tokens.LAYERS)
@pytest.mark.parametrize("dials", [USUAL, Dials(0.2, 0.3, 0.5, 40.0, 1e-5, 10.0, "full")])
def test_a_layer_is_its_formula(layer: Layer, dials: Dials) -> None:
    found = tokens.values(SCORED, layer, dials)
    rows = zip(SCORED.probability, SCORED.commonness, SCORED.is_stop, strict=True)
    assert found == pytest.approx([by_hand(layer, *row, dials) for row in rows], rel=1e-9, nan_ok=True)


def shades_of(layer: Layer, values: np.ndarray, dials: Dials) -> np.ndarray:
    """The shade of every value [m] as the browser gives it, from 0 to 4, darker for more sensitive tokens; -1 for NaN."""
    measured = np.abs(values - tokens.base(dials)) if layer in tokens.WEIGHTS else values
    steps = np.searchsorted(np.array(tokens.edges(layer, dials)), measured, side="right")
    return np.where(np.isnan(values), -1, 4 - steps if layer in tokens.FALLING else steps)


@pytest.mark.parametrize("layer", tokens.LAYERS)
def test_a_shade_holds_what_its_edges_say(layer: Layer) -> None:
    """Card's numbers 0.2, 0.6 and so on lie on an edge themselves, and belong to the side above it."""
    edges = tokens.edges(layer, USUAL)
    assert (list(edges), len(edges)) == (sorted(edges), 4)
    middle = [edges[0] - 0.1, *(sum(pair) / 2 for pair in pairwise(edges)), edges[-1] + 0.1]
    origin = tokens.base(USUAL) if layer in tokens.WEIGHTS else 0.0
    middle[0] = max(middle[0], 0.0) if layer in tokens.WEIGHTS else middle[0]
    shades = shades_of(layer, np.array(middle) + origin, USUAL).tolist()
    assert shades == ([4, 3, 2, 1, 0] if layer in tokens.FALLING else [0, 1, 2, 3, 4])
    assert shades_of(layer, np.array([math.nan]), USUAL).tolist() == [-1]


def test_a_text_adds_up_the_noise_of_its_noised_tokens_alone() -> None:
    ratios = [value for value in tokens.values(SCORED, "sigma", USUAL).tolist() if not math.isnan(value)]
    assert len(ratios) == len(SCORED.tokens) - sum(SCORED.is_stop)
    assert tokens.text_epsilon(SCORED, USUAL) == text_mechanisms.text_epsilon(ratios, USUAL.delta)


def test_a_score_below_0_is_told_of() -> None:
    common = events.ScoredText((".",), (1.0,), (-0.154,), (False,), ("",), "")
    assert "above the upper end of its range, 10" in tokens.warning([common], USUAL)
    assert float(tokens.values(common, "nominal", USUAL)[0]) > 10
    assert tokens.warning([SCORED], USUAL) is None
    assert tokens.warning([], USUAL) is None


# Ranking measures against scikit-learn and loops; the plain pattern word by word.


@pytest.mark.parametrize("digits", [1, 6])
def test_measures_equal_those_of_scikit_learn_ties_included(digits: int) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        is_hit = random.random(200) < 0.3
        score = np.round(random.random(200) + 0.3 * is_hit, digits)
        assert auroc(score, is_hit) == pytest.approx(roc_auc_score(is_hit, score), abs=1e-12)
        assert average_precision(score, is_hit) == pytest.approx(average_precision_score(is_hit, score), abs=1e-12)


def test_nothing_to_tell_apart_is_no_number() -> None:
    none = np.zeros(3, np.bool_)
    assert math.isnan(auroc(np.arange(3.0), none))
    assert math.isnan(auroc(np.arange(3.0), ~none))
    assert math.isnan(average_precision(np.arange(3.0), none))
    assert math.isnan(tokens.recall(np.arange(3.0), none, 0.5))
    empty = gathered([])
    assert not empty.is_private.any()
    assert math.isnan(scores(np.zeros(0), empty).auroc[EVERY])


def test_an_oracle_has_1_everywhere_and_a_constant_a_half() -> None:
    tokens = gathered([SCORED, SCORED])
    oracle = scores(tokens.is_private.astype(np.float64), tokens)
    assert {*oracle.auroc.values(), *oracle.precision.values()} == {1.0}
    flat = scores(np.zeros(len(tokens.kinds)), tokens)
    assert (set(flat.auroc.values()), flat.precision) == ({0.5}, pytest.approx(flat.share))


def test_look_alikes_are_not_private_and_are_a_group_of_their_own() -> None:
    marked = gathered([SCORED, SCORED])
    assert marked.is_private.tolist() == [kind == "NAME" for kind in SCORED.kinds] * 2
    assert marked.is_lookalike.tolist() == [kind == "D:city" for kind in SCORED.kinds] * 2
    assert marked.is_stop.tolist() == [*SCORED.is_stop] * 2
    assert marked.has_pattern.tolist() == tokens.patterns(SCORED.tokens) * 2
    score = np.where(marked.is_lookalike, 2.0, np.where(marked.is_private, 1.0, 0.0))
    found = scores(score, marked)
    assert (found.auroc[AGAINST], found.auroc[EVERY]) == (0.0, pytest.approx(6 / 7))
    assert tokens.by_kind(score, marked) == {"D:city": 1.0, "NAME": 1.0}


@pytest.mark.parametrize(("words", "expected"), [
    ((" plain", " words"), [False, False]),
    ((" O", "kafor", " said"), [True, True, False]),  # the capital letter marks the whole word
    ((" grace", ".o", "@", "example.org", " x"), [True, True, True, True, False]),
    ((" 5", "5", " 7", "th"), [True, True, False, False]),  # one digit is not two
    ((" ", "\n", ""), [False, False, False]),
    (("É", "t", "é", " été"), [True, True, True, False]),
    ((), []),
])  # fmt: skip
def test_the_pattern_word_by_word(words: tuple[str, ...], expected: list[bool]) -> None:
    assert tokens.patterns(words) == expected


# The language model and PeCL's score in JavaScript against Python: tokens, probabilities, noise, nearest token.


TEXTS = [
    "Grace Okafor's flat in Tartu isn't far from 4711 Basel.", "x", "  two  blanks \n\n and\ttabs ", "😀👩‍👩‍👧 and 🏳️‍🌈",
    "שלום עולם, زهرة في الحديقة", '<script>alert(1)</script> & "quotes"', "½ Ⅳ ٣ year-long; she'll e-mail a@b.example",
    "The quick brown fox jumps over the lazy dog 1234567890. " * 14,  # beyond the context of 256
]  # fmt: skip
DIALS = (Dials(), Dials(0.2, 0.3, 0.5, 500.0, 1e-5, 10.0, "full"))
TRIAL = """
const { model: doc, texts, dials, layers, edges, noisy } = fromPython;
const model = opened(doc);
const scored = texts.map((text) => {
  const read = encoded(model, text), likely = logProbabilities(model, read.ids);
  const rows = read.ids.map((id, i) => (
    { p: Math.exp(likely[i]), commonness: model.commonness[id], isStop: read.isStop[i] }));
  const by = dials.map((one, k) => rows.map((row) => {
    const found = measured(row, one);
    return [found, layers.map((layer, l) => shade(layer, found, edges[k][l], one))];
  }));
  return { ids: read.ids, tokens: read.tokens, isStop: read.isStop, likely, by };
});
const near = noisy.map(([id, ratio, draws]) => nearest(model, id, ratio, draws));
return { scored, near, printed: [...Array(doc.shape.size).keys()].map((id) => printed(model, id)) };
"""


def test_the_browser_scores_as_python_does() -> None:
    """Both sum in single precision in another order: 2e-4 nats is a hundred times its rounding, a wrong term far more."""
    ready, model = plain_language.load_tokenizer("lm-tiny"), plain_language.load()
    commonness = np.random.default_rng(1).normal(0, 0.1, ready.size)
    texts = tokens.scored(Texts(TEXTS), commonness)
    draws = np.random.default_rng(2).normal(size=(60, model.shape.width))
    ids, ratios = np.arange(60) * 20 + 5, np.repeat([0.0, 0.1, 0.3], 20)
    layers: tuple[Layer, ...] = SHOWN
    request = {
        "model": tokens.document(commonness), "texts": TEXTS, "layers": layers,
        "dials": [{name: getattr(one, name) for name in Dials.__slots__} for one in DIALS],
        "edges": [[tokens.edges(layer, one) for layer in layers] for one in DIALS],
        "noisy": [[int(token), ratio, row.tolist()] for token, ratio, row in zip(ids, ratios, draws, strict=True)],
    }  # fmt: skip
    scripts = ("drag/replay.mjs", "tokens/language.mjs", "tokens/sensitivity.mjs")
    sources = [(paths.assets_dir() / name).read_text(encoding="utf-8") for name in scripts]
    found = javascript.run(*sources, TRIAL, sent=request)
    for string, text, ours in zip(TEXTS, texts, found["scored"], strict=True):
        assert ours["ids"] == ready.encode(string)[0]
        assert (tuple(ours["tokens"]), tuple(ours["isStop"])) == (text.tokens, text.is_stop)
        np.testing.assert_allclose(ours["likely"], np.log(text.probability), atol=2e-4)
        for dials, rows in zip(DIALS, ours["by"], strict=True):
            for place, layer in enumerate(layers):
                name = {"score1": "surprise", "hinge": "weight"}.get(layer, layer)
                got = np.array([math.nan if row[0][name] is None else row[0][name] for row in rows])
                wanted = tokens.values(text, layer, dials)
                np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-3)
                edges = np.array(tokens.edges(layer, dials))
                shades = shades_of(layer, wanted, dials)
                origin = tokens.base(dials) if layer == "hinge" else 0.0
                is_clear = (np.abs(np.abs(wanted - origin)[:, None] - edges) > 5e-3 * edges + 1e-3).all(axis=1)
                is_clear |= np.isnan(wanted) | (wanted == origin)
                assert np.array_equal(np.array([row[1][place] for row in rows])[is_clear], shades[is_clear])
    rows = text_mechanisms.clipped(model.embeddings, bound := float(np.median(np.linalg.norm(model.embeddings, axis=1))))
    nearest, _ = token_noise_games.nearest_rows(rows, rows[ids] + ratios[:, None] * bound * draws)
    # Two rows may tie within the rounding of `clipped`: one in sixty could differ, a wrong formula many.
    assert (np.array(found["near"]) == nearest).mean() > 0.95
    assert 0.3 < (nearest == ids).mean() < 1
    assert found["printed"][2:] == [ready.shown(token) for token in range(2, ready.size)]


# The process that reads for a page: same scores as here, another question after it died, no torch here.


READ = Texts(["Ann paid 40 dollars.", "The the the.", ""], [(Span(0, 3, "NAME"),), (), ()])
TASKS = (("Ann paid.", "Bob paid."), ("The end of it.",))


@pytest.fixture
def reader() -> Iterator[TokenReader]:
    """With the bundled model, which needs no torch: the process and its protocol are the same."""
    made = TokenReader("lm-tiny")
    yield made
    made.close()


def test_it_scores_as_this_process_does(reader: TokenReader) -> None:
    found = reader.scored(READ, ("a", "b", "c"), TASKS)
    counts = tokens.counted([Texts(list(task)) for task in TASKS])
    for one, other in zip(found, tokens.scored(READ, sensitivity.commonness(counts), ["a", "b", "c"]), strict=True):
        assert (one.tokens, one.is_stop, one.kinds, one.label) == (other.tokens, other.is_stop, other.kinds, other.label)
        np.testing.assert_allclose(one.probability, other.probability, rtol=1e-5)
        np.testing.assert_allclose(one.commonness, other.commonness, rtol=1e-12)


@pytest.mark.slow
def test_without_noise_all_is_read_and_another_tokenization_is_refused(reader: TokenReader) -> None:
    n_tokens = len(reader.scored(READ.take(np.array([0])), ("",))[0].tokens)
    read = reader.read(READ.strings[0], [0.0] * n_tokens, 1)
    assert "".join(read[0]) == READ.strings[0]
    assert all(read[1])
    assert sum(reader.read(READ.strings[0], [1000.0] * n_tokens, 1)[1]) < n_tokens
    assert reader.read(READ.strings[0], [0.0], 1) is None


def test_a_dead_process_is_told_and_the_next_question_starts_another(reader: TokenReader) -> None:
    reader.scored(READ, ("", "", ""))
    process = reader._process
    process.kill()
    process.wait()
    assert reader.scored(READ, ("", "", ""))[0].tokens
    with pytest.raises(ReaderEnded, match="ended by itself"):
        reader.read("x", [0.0], -1)  # no such number of releases: the process fails


def test_a_model_that_is_missing_is_told_with_its_repair(reader: TokenReader) -> None:
    other = TokenReader("hf:nobody/nothing")
    asserting.refuses(r"data\.backbone", other.scored, READ, ("", "", ""), error=ReaderEnded)
    other.close()
