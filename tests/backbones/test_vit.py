"""The bundled Vision Transformer: made of plain modules, against its formulas, and each picture by itself."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dpcl_core.backbones.networks import Attention, Block, ViT, build, normalised, positions
from dpcl_core.backbones.networks import ViTShape as Shape


def scrambled(network: nn.Module) -> nn.Module:
    """The same with random weights everywhere: blocks that start as the identity would hide what they compute."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return network


def test_network_is_small_and_made_of_modules_that_allow_per_example_gradients() -> None:
    network = build(Shape())
    leaves = [module for module in network.modules() if not list(module.children())]
    assert {type(module) for module in leaves} == {nn.Conv2d, nn.Linear, nn.LayerNorm, nn.GELU}
    held = sum(parameter.numel() for module in leaves for parameter in module.parameters())
    assert held == sum(parameter.numel() for parameter in network.parameters())  # none outside a plain module
    assert held <= 1_500_000  # 3 MB in half precision
    assert {name for name, _ in network.named_buffers()} == {"centre", "whitening"}


@pytest.mark.parametrize("side", [24, 32])
def test_shapes(side: int) -> None:
    network = build(Shape(n_classes=7))
    images = normalised(torch.zeros(3, side, side, 3, dtype=torch.uint8))
    assert network(images).shape == (3, 7)
    assert network.features(images).shape == network.pooled(images).shape == network.frozen(images).shape == (3, 128)
    assert network.patches(images).shape == (3, 128, side // 8, side // 8)


def test_attention_equals_its_formula_head_by_head() -> None:
    layer = scrambled(Attention(12, 3)).double()
    assert isinstance(layer, Attention)
    tokens = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1)).double()
    queries, keys, values = layer.qkv(tokens).split(12, dim=2)
    heads = []
    for part in (slice(0, 4), slice(4, 8), slice(8, 12)):
        shares = (queries[..., part] @ keys[..., part].transpose(1, 2) / math.sqrt(4)).softmax(2)
        heads.append(shares @ values[..., part])
    torch.testing.assert_close(layer(tokens), layer.out(torch.cat(heads, 2)), rtol=0, atol=1e-12)


def test_block_adds_to_what_it_reads_and_starts_as_the_identity() -> None:
    tokens = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    assert torch.equal(Block(12, 3)(tokens), tokens)
    block = scrambled(Block(12, 3))
    assert isinstance(block, Block)
    between = tokens + block.attention(block.before(tokens))
    expected = between + block.out(nn.functional.gelu(block.up(block.norm(between))))
    torch.testing.assert_close(block(tokens), expected)


def test_places_have_codes_of_their_own_whose_products_tell_the_distance() -> None:
    codes = positions(16, 3, 4).double()
    assert codes.shape == (12, 16)
    assert torch.cdist(codes, codes).add(torch.eye(12) * 9).min() > 0.5
    products = codes @ codes.T
    torch.testing.assert_close(products[0, 5], products[6, 11])  # one down and one across, from two places
    torch.testing.assert_close(products.diagonal(), torch.full((12,), 8.0, dtype=torch.float64), rtol=0, atol=1e-6)


def test_order_of_patches_matters() -> None:
    network = scrambled(build(Shape(16, 1, 2, 3)))
    assert isinstance(network, ViT)
    images = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    swapped = torch.cat([images[..., 16:], images[..., :16]], dim=3)
    assert not torch.allclose(network(images), network(swapped), atol=1e-3)


def test_examples_do_not_influence_one_another() -> None:
    network = scrambled(build(Shape(16, 2, 2, 3))).double()
    images = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
    alone = torch.cat([network(image[None]) for image in images])
    torch.testing.assert_close(network(images), alone, rtol=0, atol=1e-11)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_opacus_takes_the_network_with_every_parameter_trainable() -> None:
    from opacus.grad_sample import GradSampleModule

    network = GradSampleModule(build(Shape(16, 1, 2, 3)))
    network(normalised(torch.randint(256, (3, 32, 32, 3), dtype=torch.uint8))).square().sum().backward()
    missing = [name for name, parameter in network.named_parameters() if parameter.grad_sample.shape[0] != 3]
    assert not missing
