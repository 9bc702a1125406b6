"""Language models in torch: adapters that begin as nothing, and frozen tensors that all copies share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcl_core.backbones import causal, plain_language
from dpcl_core.errors import BadInput
from tests.backbones import language_models


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of weights of one's own."""
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path / "weights"))
    causal._frozen.cache_clear()
    plain_language.load_tokenizer.cache_clear()
    return tmp_path / "weights"


def ids(n: int, length: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(2, size, (n, length)))


def stirred(model: causal.Adapted) -> causal.Adapted:
    """The model with a B that is not zero."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, second in model.pairs():
            second.copy_(torch.randn(second.shape, generator=generator) / 10)
    return model


@pytest.mark.parametrize("name", ["lm-tiny", "hf:somebody/gpt2", "hf:somebody/llama"])
def test_fresh_adapters_change_nothing_and_trained_ones_do(name: str, weights: Path) -> None:
    if name != "lm-tiny":
        language_models.put(weights / name.removeprefix("hf:").replace("/", "--"), name.rpartition("/")[2])
    size = plain_language.load_tokenizer(name).size
    tokens = ids(3, 12, size)
    model, frozen = causal.adapted(name, "cpu", rank=4, alpha=8, seed=0), causal.load(name)
    mask = torch.ones_like(tokens)
    found = model(model.embed(tokens), mask)
    assert found.shape == (3, 12, size)
    torch.testing.assert_close(found, frozen(input_ids=tokens).logits, atol=1e-6, rtol=0)
    changed = stirred(model)(model.embed(tokens), mask)
    assert (changed - found).abs().max() > 1e-3
    torch.testing.assert_close(frozen(input_ids=tokens).logits, found, atol=1e-6, rtol=0)


def test_adapters_add_alpha_over_rank_times_the_product(weights: Path) -> None:
    model = stirred(causal.adapted("lm-tiny", "cpu", rank=4, alpha=12, seed=0))
    assert model.scale == 3
    frozen = causal.load("lm-tiny")
    inputs = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    for (name, layer), (first, second) in zip(model.layers.items(), model.pairs(), strict=True):
        expected = frozen.get_submodule(name)(inputs) + 3 * inputs @ first.T @ second.T
        torch.testing.assert_close(layer(inputs), expected, atol=1e-5, rtol=1e-5)


def test_only_the_factors_are_trained_and_carry_their_layers_name(weights: Path) -> None:
    model = causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0)
    named = model.trainable()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert {id(parameter) for parameter in trained} == {id(parameter) for parameter in named.values()}
    assert len(trained) == len(named) == 2 * len(model.pairs()) == 4
    assert [f"{name}.{factor}" for name in model.layers for factor in "AB"] == list(named)
    for name, layer in model.layers.items():
        assert named[f"{name}.A"].shape == (4, 64)
        assert named[f"{name}.B"].shape == (192, 4)
        assert not named[f"{name}.B"].any()
        assert isinstance(layer, nn.Module)


def test_copies_share_every_frozen_tensor_and_no_trained_one(weights: Path) -> None:
    one, other = (causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=seed) for seed in (0, 1))
    shared = {parameter.data_ptr() for parameter in causal.load("lm-tiny").parameters()}
    for model in (one, other):
        frozen = {parameter.data_ptr() for parameter in model.parameters() if not parameter.requires_grad}
        assert frozen == shared
    assert not {p.data_ptr() for p in one.trainable().values()} & {p.data_ptr() for p in other.trainable().values()}


def test_the_seed_decides_the_start_and_nothing_else_random_is_touched(weights: Path) -> None:
    causal.load("lm-tiny")
    state = torch.random.get_rng_state()
    made = [causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=seed).trainable() for seed in (5, 5, 6)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert not torch.equal(made[0]["transformer.h.0.attn.c_attn.A"], made[2]["transformer.h.0.attn.c_attn.A"])
    assert not torch.equal(made[0]["transformer.h.0.attn.c_attn.A"], made[0]["transformer.h.1.attn.c_attn.A"])


@pytest.mark.parametrize("name", ["lm-tiny", "hf:somebody/gpt2"])
def test_there_is_no_dropout_even_in_training_mode(name: str, weights: Path) -> None:
    language_models.put(weights / "somebody--gpt2")
    model = stirred(causal.adapted(name, "cpu", rank=4, alpha=8, seed=0)).train()
    tokens = ids(2, 9, plain_language.load_tokenizer(name).size)
    results = [model(model.embed(tokens), torch.ones_like(tokens)) for _ in range(2)]
    assert torch.equal(*results)


def test_gradients_reach_the_factors_alone_and_pass_to_the_embeddings(weights: Path) -> None:
    model = stirred(causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0))
    tokens = ids(2, 9, 1000)
    embedded = model.embed(tokens).requires_grad_()
    model(embedded, torch.ones_like(tokens)).logsumexp(-1).sum().backward()
    assert embedded.grad is not None
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.trainable().values())
    assert all(parameter.grad is None for parameter in causal.load("lm-tiny").parameters())


def test_padding_at_the_end_changes_nothing_before_it(weights: Path) -> None:
    model = stirred(causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0))
    tokens = ids(2, 12, 1000)
    tokens[1, 7:] = -1
    mask = (tokens >= 0).long()
    together = model(model.embed(tokens), mask)
    alone = model(model.embed(tokens[1:, :7]), mask[1:, :7])
    torch.testing.assert_close(together[1:, :7], alone, atol=1e-5, rtol=1e-5)


def test_how_far_a_model_looks_back_is_known(weights: Path) -> None:
    assert causal.adapted("lm-tiny", "cpu", rank=1, alpha=1, seed=0).context == 256
    language_models.put(weights / "somebody--llama", "llama")
    assert causal.adapted("hf:somebody/llama", "cpu", rank=1, alpha=1, seed=0).context == 64


def test_texts_longer_than_it_can_look_back_are_refused(weights: Path) -> None:
    model = causal.adapted("lm-tiny", "cpu", rank=1, alpha=1, seed=0)
    assert model.embed(ids(1, 256, 1000)).shape == (1, 256, 64)
    assert model.embed(torch.arange(1536)).shape == (1536, 64)
    with pytest.raises(BadInput, match=r"^data\.backbone = lm-tiny: looks back on 256 tokens, and a text .* has 257: lower"):
        model.embed(ids(1, 257, 1000))


@pytest.mark.parametrize(("family", "named"), [("bert", "BertForMaskedLM"), ("gpt2", "safetensors")])
def test_a_model_that_predicts_no_next_token_and_weights_that_are_pickles_are_refused(
    family: str, named: str, weights: Path
) -> None:
    folder = language_models.put(weights / f"somebody--{family}", family)
    if family == "gpt2":
        (folder / "model.safetensors").unlink()
        torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(BadInput, match=named) as caught:
        causal.load(f"hf:somebody/{family}")
    assert "\n" not in str(caught.value)


def test_an_attention_with_unknown_projections_is_refused(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "PROJECTIONS", ("q_proj",))
    with pytest.raises(BadInput, match="must be a model whose attention has projections called q_proj"):
        causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0)
