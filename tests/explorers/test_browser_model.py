"""The language model and PeCL's score in JavaScript against Python: tokens, probabilities, noise, nearest token."""

from __future__ import annotations

import math

import numpy as np

from dpcl_core import paths
from dpcl_core.attacks import token_noise_games
from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import Texts
from dpcl_core.explorers import tokens
from dpcl_core.explorers.tokens import SHOWN, Dials, Layer
from dpcl_core.privacy.text_mechanisms import clipped
from tests.support import javascript

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
console.log(JSON.stringify({ scored, near, printed: [...Array(doc.shape.size).keys()].map((id) => printed(model, id)) }));
"""


@javascript.NEEDED
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
        assert tuple(ours["tokens"]) == text.tokens
        assert tuple(ours["isStop"]) == text.is_stop
        np.testing.assert_allclose(ours["likely"], np.log(text.probability), atol=2e-4)
        for dials, rows in zip(DIALS, ours["by"], strict=True):
            for place, layer in enumerate(layers):
                name = {"score1": "surprise", "hinge": "weight"}.get(layer, layer)
                got = np.array([math.nan if row[0][name] is None else row[0][name] for row in rows])
                wanted = tokens.values(text, layer, dials)
                np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-3)
                edges = np.array(tokens.edges(layer, dials))
                shades = tokens.shades(layer, wanted, dials)
                origin = tokens.base(dials) if layer == "hinge" else 0.0
                is_clear = (np.abs(np.abs(wanted - origin)[:, None] - edges) > 5e-3 * edges + 1e-3).all(axis=1)
                is_clear |= np.isnan(wanted) | (wanted == origin)
                assert np.array_equal(np.array([row[1][place] for row in rows])[is_clear], shades[is_clear])
    rows = clipped(model.embeddings, bound := float(np.median(np.linalg.norm(model.embeddings, axis=1))))
    nearest, _ = token_noise_games.nearest_rows(rows, rows[ids] + ratios[:, None] * bound * draws)
    # Two rows may tie within the rounding of `clipped`: one in sixty could differ, a wrong formula many.
    assert (np.array(found["near"]) == nearest).mean() > 0.95
    assert 0.3 < (nearest == ids).mean() < 1
    assert found["printed"][2:] == [ready.shown(token) for token in range(2, ready.size)]
