"""The training scripts: a short run learns, is written whole and opens, and goes on where it was stopped."""

import hashlib
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dpcl_core import paths
from dpcl_core.backbones import causal, packaged, plain_language
from dpcl_core.data import synthetic
from scripts import pretrain_backbone as pretrain
from scripts import pretrain_language_model as script
from tests.backbones import language_models
from tests.support.asserting import in_turn


def split(n_images: int = 256) -> object:
    """Two classes of noise, one darker than the other."""
    rng = np.random.default_rng(0)
    labels = torch.arange(n_images) % 2
    images = torch.from_numpy(rng.integers(0, 128, (n_images, 32, 32, 3), dtype=np.uint8))
    images += 100 * labels.byte()[:, None, None, None]
    return pretrain.Split(images, labels, ("0" * 64,))


def trained(folder: Path, epochs: float) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shape = pretrain.Shape((8, 8, 8), (1, 1, 1), 2)
    network, averaged = pretrain.build(shape), pretrain.build(shape)
    averaged.load_state_dict(network.state_dict())
    pretrain.train(split(), network, averaged, pretrain.Clock(None, epochs, 256), folder, seed=0)
    state: dict[str, torch.Tensor] = network.state_dict()
    return state


def test_same_seed_gives_the_same_weights_and_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(tmp_path / "whole", 4)
    again = trained(tmp_path / "again", 4)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    stopped = in_turn([None, None, None, KeyboardInterrupt()], pretrain.Optimizer.step)
    monkeypatch.setattr(pretrain, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(pretrain.Optimizer, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "stopped", 4)
    resumed = trained(tmp_path / "stopped", 4)
    for name in whole:
        torch.testing.assert_close(resumed[name], whole[name], rtol=1e-5, atol=1e-6)


def test_the_transformer_trains_by_the_same_script_with_mixed_pictures(tmp_path: Path) -> None:
    networks = [pretrain.build(pretrain.ViTShape(16, 1, 2, 2)) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    before = {name: tensor.clone() for name, tensor in networks[0].named_parameters()}
    pretrain.train(split(), *networks, pretrain.Clock(None, 3, 256), tmp_path, seed=0, mixes=True)
    for network in networks:
        moved = [name for name, tensor in network.named_parameters() if not torch.equal(tensor, before[name])]
        assert len(moved) == len(before)
        assert all(bool(tensor.isfinite().all()) for tensor in network.parameters())


def test_export_writes_weights_and_a_card_that_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrain, "PROBES", ())
    network = pretrain.build(pretrain.Shape((8, 8, 8), (1, 1, 1), 2))
    data, out = split(), tmp_path / "out" / "tiny"
    pretrain.export(network, "two", (data, data), pretrain.Clock(None, 1, 256), out, 0)
    card = json.loads(out.with_suffix(".json").read_text())
    assert card["sha256"] == hashlib.sha256(out.with_suffix(".safetensors").read_bytes()).hexdigest()
    assert card["saw"] == {"dataset": "two", "split": "train", "rows": 256, "sha256": ["0" * 64]}
    assert {tensor.dtype for tensor in load_file(out.with_suffix(".safetensors")).values()} == {torch.float16}
    assert np.array(card["example_features"]).shape == (4, 8)


# The script that trains the bundled language model: rows that begin with texts, and a bundle that opens.


def test_rows_begin_with_the_start_of_a_text_and_hold_whole_texts_but_the_last() -> None:
    ready = plain_language.load_tokenizer("lm-tiny")
    encoded = [[10 + place] * (3 + place) for place in range(20)]
    table = script.rows(encoded, ready, 32, random.Random(0))
    assert table.shape[1] == 33
    assert (table[:, 0] == ready.bos).all()
    for row in table:
        for text in np.split(row, np.flatnonzero(row == ready.bos))[1:-1]:
            assert text[1:-1].tolist() in encoded
            assert text[-1] == ready.eos


def test_a_short_training_writes_a_bundle_that_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    language_models.forget()
    try:
        tokens = np.array([plain_language.load_tokenizer("lm-tiny").encode("The city lies by the sea")[0]])[:, :20]
        assert plain_language.load().log_probabilities(tokens).shape == tokens.shape
        assert causal.load("lm-tiny").config.n_embd == 16
    finally:
        language_models.forget()

