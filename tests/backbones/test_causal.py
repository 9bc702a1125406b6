"""Language models in torch: adapters that begin as nothing, frozen tensors shared by copies, and a model in two parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcl_core.backbones import causal, kept_states, plain_language
from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.kept_states import KeptStates
from dpcl_core.backbones.weights import ensure_torchvision
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


# A model in two parts, and the states between them: kept by content, alike for whoever asks.


def model(kind: str, seed: int = 0) -> torch.nn.Module:
    ensure_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2}
    if kind == "gpt2":
        made = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=64, n_embd=16, n_layer=4, n_head=2))
    elif kind == "neox":
        made = GPTNeoXForCausalLM(GPTNeoXConfig(**sizes))
    else:
        made = LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=1))
    return made.eval().requires_grad_(False)


def drawn_anew(net: Adapted) -> Adapted:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.trainable().values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return net


EVERY = torch.arange(21).expand(3, -1)
IDS = torch.from_numpy(np.random.default_rng(0).integers(0, 40, (3, 21)))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "neox"])
@pytest.mark.parametrize("layers", [1, 2, 4, 9])
def test_the_two_parts_together_are_the_model(kind: str, layers: int) -> None:
    net = drawn_anew(Adapted(model(kind), 2, 4.0, 0, layers))
    assert net.split.cut == max(0, 4 - layers)
    assert len(net.pairs()) == min(layers, 4) * len(Adapted(model(kind), 2, 4.0, 0).pairs()) // 4
    with torch.no_grad():
        states = net.split.below(net.embed(IDS))
        for part, whole in ((net.split, net.model), (net.public, model(kind))):
            logits = whole(input_ids=IDS).logits
            torch.testing.assert_close(part.above(states, EVERY), logits, rtol=0, atol=1e-5)
            some = torch.tensor([[3, 20], [0, 1], [7, 7]])
            expected = logits[torch.arange(3)[:, None], some]
            torch.testing.assert_close(part.above(states, some), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "n_maps"), [("gpt2", 4), ("llama", 7), ("neox", 4)])
def test_every_linear_map_of_the_last_blocks_can_be_adapted(kind: str, n_maps: int) -> None:
    net = drawn_anew(Adapted(model(kind), 2, 4.0, 0, 2, every=True))
    assert len(net.pairs()) == 2 * n_maps
    with torch.no_grad():
        found = net.split.above(net.split.below(net.embed(IDS)), EVERY)
        torch.testing.assert_close(found, net.model(input_ids=IDS).logits, rtol=0, atol=1e-5)


def test_gradients_reach_the_adapters_and_nothing_below() -> None:
    net = drawn_anew(Adapted(model("llama"), 2, 4.0, 0, 2))
    states = net.split.below(net.embed(IDS))
    assert not states.requires_grad
    found = torch.autograd.grad(net.split.above(states, EVERY).square().sum(), list(net.trainable().values()))
    assert all(part.abs().sum() > 0 for part in found)
    some = torch.tensor([[3, 20, 3], [0, 1, 0], [7, 7, 7]])  # a column that is asked for twice counts twice, not more
    ways = []
    for logits in (net.split.above(states, some), net.model(input_ids=IDS).logits[torch.arange(3)[:, None], some]):
        ways.append(torch.autograd.grad(logits.square().sum(), list(net.trainable().values())))
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_logits_of_some_tokens_are_those_among_all(kind: str) -> None:
    net, tokens = drawn_anew(Adapted(model(kind), 2, 4.0, 0, 1)), torch.tensor([2, 5, 11])
    head = net.model.get_output_embeddings()  # type: ignore[operator]
    whole = head.weight  # type: ignore[union-attr]
    states = net.split.below(net.embed(IDS))
    ways = []
    for logits in (net.split.above(states, EVERY, tokens=tokens), net.split.above(states, EVERY)[..., tokens]):
        ways.append((logits, *torch.autograd.grad(logits.square().sum(), list(net.trainable().values()))))
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)  # products of other shapes add in another order
    assert head.weight is whole  # type: ignore[union-attr]


def kept(net: Adapted, folder: Path) -> KeptStates:
    return KeptStates(net._below, net.public.identity, 16, folder)


def test_kept_states_are_the_fresh_ones_to_the_bit(tmp_path: Path) -> None:
    net = Adapted(model("llama"), 2, 4.0, 0, 2)
    mask = torch.arange(21) < torch.tensor([[21], [4], [17]])
    fresh = kept(net, tmp_path).of(IDS, mask)
    assert len(list(tmp_path.iterdir())) == 3
    torch.testing.assert_close(kept(net, tmp_path).of(IDS, mask), fresh, rtol=0, atol=0)
    with torch.no_grad():
        expected = net.split.below(net.embed(IDS)).where(mask[..., None], 0)
    torch.testing.assert_close(fresh.float(), expected, rtol=2.0**-10, atol=1e-5)


def test_a_text_has_the_same_states_whoever_is_beside_it(tmp_path: Path) -> None:
    net = Adapted(model("llama"), 2, 4.0, 0, 2)
    ids, mask = IDS.repeat(7, 1), torch.arange(21) < torch.tensor([3 + k for k in range(18)] + [21] * 3)[:, None]
    together = kept(net, tmp_path / "a").of(ids, mask)
    for row in range(len(ids)):
        n = int(mask[row].sum())
        alone = kept(net, tmp_path / f"b{row}").of(ids[row : row + 1, :n], mask[row : row + 1, :n])
        assert torch.equal(together[row, :n], alone[0])


def test_a_damaged_file_is_computed_again_and_another_network_has_its_own(tmp_path: Path) -> None:
    net, mask = Adapted(model("llama"), 2, 4.0, 0, 2), torch.ones((1, 21), dtype=torch.bool)
    fresh = kept(net, tmp_path).of(IDS[:1], mask)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"0" + file.read_bytes()[1:])
    assert torch.equal(kept(net, tmp_path).of(IDS[:1], mask), fresh)
    others = [Adapted(model("llama", seed=1), 2, 4.0, 0, 2), Adapted(model("llama"), 2, 4.0, 0, 1)]
    for other in others:
        assert not torch.equal(kept(other, tmp_path).of(IDS[:1], mask), fresh)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_oldest_files_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_states, "MOST_BYTES", 10 * (2 * 21 * 16 + 16))
    net, mask = Adapted(model("llama"), 2, 4.0, 0, 2), torch.ones((1, 21), dtype=torch.bool)
    store, rows = kept(net, tmp_path), [(IDS[:1] + k) % 40 for k in range(14)]
    for row in rows:
        store.of(row, mask)
    left = {path.name for path in tmp_path.iterdir()}
    names = [store._key(row[0].numpy()) for row in rows]
    assert len(left) <= 10
    assert left == set(names[-len(left) :])
