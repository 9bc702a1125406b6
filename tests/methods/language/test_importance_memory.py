"""What holds earlier tasks: Omega and its mean by hand, L_reg by closed form, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpcl_core.methods.language.gradients import Memory, batch_of, input_norms
from dpcl_core.methods.language.sensitivity import penalty_strength
from tests.methods.language import tiny


def moved(net: tiny.Adapted, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.trainable().values():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def products(net: tiny.Adapted) -> list[torch.Tensor]:
    return [(second @ first).detach().clone() for first, second in net.pairs()]


def test_strength_of_the_penalty() -> None:
    """Check 14."""
    for score, expected in ((0.0, 10.0), (0.4, 6.4), (1.0, 1.0)):
        assert penalty_strength(score, 1.0, 10.0) == pytest.approx(expected, abs=1e-12)


def test_nothing_is_held_in_the_first_task_or_where_nothing_has_changed() -> None:
    net = tiny.adapted()
    memory = Memory(net, 1.0, 10.0)
    moved(net, 1)
    memory.open(0.5)
    assert float(memory.penalty()) == 0
    memory.remember([2.0] * len(net.pairs()))
    assert float(memory.penalty().detach()) == 0
    moved(net, 2)
    assert float(memory.penalty().detach()) > 0


def test_penalty_equals_the_formula_after_two_tasks() -> None:
    net = tiny.adapted()
    memory, norms = Memory(net, 1.0, 10.0), ([2.0, 3.0], [5.0, 1.0])
    omegas, then = [], products(net)
    for task, own in enumerate(norms):
        memory.open(0.9)
        moved(net, task)
        changes = [now - before for now, before in zip(products(net), then, strict=True)]
        omegas.append([float(change.norm()) * norm for change, norm in zip(changes, own, strict=True)])
        memory.remember(own)
        then = products(net)
    assert memory.omega_bar == pytest.approx(np.mean(omegas, axis=0))
    memory.open(0.4)  # of the task that is learned now, not of those before
    moved(net, 7)
    expected = sum(
        6.4 * omega * float((now - before).square().sum())
        for omega, now, before in zip(memory.omega_bar, products(net), then, strict=True)
    )
    assert float(memory.penalty().detach()) == pytest.approx(expected, rel=1e-12)


def test_as_printed_omega_bar_counts_the_task_that_is_learned() -> None:
    """Eqs. 9 and 10 with i <= k: in the first task, too, as the adapters are at that step, and without a gradient."""
    net = tiny.adapted()
    memory, start = Memory(net, 1.0, 10.0), products(net)
    memory.open(0.4, [2.0, 3.0])
    moved(net, 1)
    changes = [now - before for now, before in zip(products(net), start, strict=True)]
    first = [norm * float(change.norm()) for norm, change in zip((2.0, 3.0), changes, strict=True)]
    expected = sum(6.4 * omega * float(change.square().sum()) for omega, change in zip(first, changes, strict=True))
    assert float(memory.penalty().detach()) == pytest.approx(expected, rel=1e-12)
    memory.remember([2.0, 3.0])
    middle = products(net)
    memory.open(1.0, [5.0, 1.0])
    moved(net, 2)
    changes = [now - before for now, before in zip(products(net), middle, strict=True)]
    second = [norm * float(change.norm()) for norm, change in zip((5.0, 1.0), changes, strict=True)]
    assert memory.omega_bar == pytest.approx(np.mean([first, second], axis=0))
    found = memory.penalty()
    slopes = torch.autograd.grad(found, list(net.trainable().values()))
    held = zip(memory._products(), middle, memory.omega_bar, strict=True)
    alone = torch.stack([omega * (now - then).square().sum() for now, then, omega in held]).sum()
    for slope, constant in zip(slopes, torch.autograd.grad(alone, list(net.trainable().values())), strict=True):
        torch.testing.assert_close(slope, constant)


@pytest.mark.parametrize("score", [-0.08, 1.3])
def test_a_mean_score_outside_its_range_counts_as_its_end(score: float) -> None:
    net = tiny.adapted()
    found, moves = [], Memory(net, 1.0, 10.0)
    moved(net, 0)
    moves.remember([1.0, 1.0])
    moved(net, 1)
    for given in (score, 0.0 if score < 0 else 1.0):
        moves.open(given)
        found.append(float(moves.penalty().detach()))
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0] > 0


def test_slope_of_the_penalty_pulls_back_and_leaves_omega_alone() -> None:
    net = tiny.adapted()
    memory = Memory(net, 1.0, 10.0)
    memory.open(0.0)
    moved(net, 2)
    memory.remember([1.0, 1.0])
    moved(net, 3)
    parameters = list(net.trainable().values())
    slopes = torch.autograd.grad(memory.penalty(), parameters)
    before = float(memory.penalty().detach())
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter -= 1e-4 * slope
    assert float(memory.penalty().detach()) < before


def test_input_norms_are_means_over_tokens_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    net, texts = tiny.adapted(), tiny.texts()
    whole = input_norms(net, texts, "cpu")
    seen: dict[str, list[float]] = {name: [] for name in net.layers}
    hooks = [
        layer.register_forward_hook(lambda layer, args, out, name=name: seen[name].extend(args[0][0].norm(dim=1).tolist()))
        for name, layer in net.layers.items()
    ]
    for row in range(len(texts)):
        alone = batch_of(texts, np.array([row]), "cpu")
        with torch.no_grad():
            net(net.embed(alone.ids), alone.mask)
    for hook in hooks:
        hook.remove()
    assert whole == pytest.approx([float(np.mean(norms)) for norms in seen.values()], rel=1e-9)
    monkeypatch.setattr("dpcl_core.methods.language.gradients.AT_ONCE", 3)
    assert input_norms(net, texts, "cpu") == pytest.approx(whole, rel=1e-12)
    none = tiny.prompted(tiny.Letters(), tiny.encoded(()), np.zeros(0, np.int64), tiny.CLASSES, "pets")  # type: ignore[arg-type]
    assert input_norms(net, none, "cpu") == [0.0, 0.0]
