"""A model in two parts, and the states between them: kept by content, alike for whoever asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dpcl_core.backbones import kept_states
from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.kept_states import KeptStates
from dpcl_core.backbones.weights import ensure_torchvision


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


def stirred(net: Adapted) -> Adapted:
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
    net = stirred(Adapted(model(kind), 2, 4.0, 0, layers))
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
    net = stirred(Adapted(model(kind), 2, 4.0, 0, 2, every=True))
    assert len(net.pairs()) == 2 * n_maps
    with torch.no_grad():
        found = net.split.above(net.split.below(net.embed(IDS)), EVERY)
        torch.testing.assert_close(found, net.model(input_ids=IDS).logits, rtol=0, atol=1e-5)


def test_gradients_reach_the_adapters_and_nothing_below() -> None:
    net = stirred(Adapted(model("llama"), 2, 4.0, 0, 2))
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
    net, tokens = stirred(Adapted(model(kind), 2, 4.0, 0, 1)), torch.tensor([2, 5, 11])
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
