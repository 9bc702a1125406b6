"""The script that trains the bundled language model: rows that begin with texts, and a bundle that opens."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from dpcl_core import paths
from dpcl_core.backbones import causal, packaged, plain_language
from dpcl_core.data import synthetic
from scripts import pretrain_language_model as script


def test_rows_begin_with_the_start_of_a_text_and_hold_whole_texts_but_the_last() -> None:
    ready = plain_language.load_tokenizer("lm-tiny")
    encoded = [[10 + place] * (3 + place) for place in range(20)]
    table = script.rows(encoded, ready, 32, random.Random(0))
    assert table.shape[1] == 33
    assert (table[:, 0] == ready.bos).all()
    for row in table:
        texts = np.split(row, np.flatnonzero(row == ready.bos))[1:]
        for text in texts[:-1]:
            assert text[1:-1].tolist() in encoded
            assert text[-1] == ready.eos


def test_a_short_training_writes_a_bundle_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"companion": [*synthetic.companion(300, 0).strings], "wikipedia": ["The city lies by the sea, 12 km off."] * 20}
    monkeypatch.setattr(script, "public_texts", lambda: texts)
    monkeypatch.setattr(script, "SHAPE", packaged.Shape(n_blocks=1, n_heads=2, width=16, context=32, size=300))
    folder = tmp_path / "assets" / "language"
    monkeypatch.setattr(sys, "argv", ["script", "--minutes", "0.02", "--out", str(folder)])
    script.main()
    facts = json.loads((folder / "lm-tiny.json").read_text())
    assert facts["saw"]["wikipedia"]["texts"] == 19
    assert facts["held_out_texts"] == {"companion": 15, "wikipedia": 1}
    assert facts["held_out_nats_per_token"]["companion"] < np.log(300)
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path / "assets")
    for cached in (causal._frozen, plain_language.load_tokenizer, plain_language.load):
        cached.cache_clear()
    try:
        tokens = np.array([plain_language.load_tokenizer("lm-tiny").encode("The city lies by the sea")[0]])[:, :20]
        assert plain_language.load().log_probabilities(tokens).shape == tokens.shape
        assert causal.load("lm-tiny").config.n_embd == 16
    finally:
        for cached in (causal._frozen, plain_language.load_tokenizer, plain_language.load):
            cached.cache_clear()


def test_the_rate_rises_and_falls() -> None:
    shares = np.linspace(0, 1, 101)
    rates = [script.rate(share) for share in shares]
    assert rates[0] == 0
    assert max(rates) <= script.RATE
    assert rates[-1] == pytest.approx(0.01 * script.RATE)
    assert np.diff(rates)[4:].max() < 0
