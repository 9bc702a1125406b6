"""L2DP-ML as a whole: one noise for everything, gradients against plain formulas, memory of perturbed batches, its claim."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dpcl_core import checks, cli
from dpcl_core.data.dataset import Form
from dpcl_core.errors import Diverged
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.lifelong import agem, claim, l2dp_ml, nets
from dpcl_core.methods.lifelong.agem import Agem
from dpcl_core.methods.lifelong.l2dp_ml import L2dpMl
from dpcl_core.methods.lifelong.nets import Batch
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec
from tests.methods.training import public_context, taught

FORM = Form((8, 8, 1), 0.0, 1.0)
N_CLASSES, SIZE = 4, 64
AS_PRINTED = {
    "projection": "always", "scope": "joint", "recon_objective": "taylor1-linear", "label_objective": "eq-12",
    "encoder_weight": 1.0, "encoder_divisor": "none", "theta_norm": "columns", "first_layer": "plain",
    "output_norm_cap": 0.0, "output_noise": "shared",
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("home")


def spec(method: str = "l2dp-ml", epsilon: float = 0.5, labels: str = "prior-const", **params: object) -> RunSpec:
    raw = {"method": method, "params": {"batch_size": 10, **params}, "data": {"backbone": "pixels"}, "labels": labels}
    privacy, scenario = {"epsilons": [epsilon], "noise": "seeded"}, {"kind": "permuted", "tasks": 3}
    return checks.parse({**raw, "privacy": privacy, "seeds": [0], "scenario": scenario})


def stream(n_tasks: int = 3, n: int = 34) -> list[Task]:
    """Pictures with a bright row for each class, their pixels in another order in each task."""
    generator = np.random.default_rng(5)
    labels = np.arange(n) % N_CLASSES
    pictures = generator.random((n, 8, 8), dtype=np.float32) / 2
    pictures[np.arange(n), 2 * labels] += 0.5
    orders = [generator.permutation(SIZE) for _ in range(n_tasks)]
    table = pictures.reshape(n, SIZE)
    tasks = [Examples(table, labels, columns=order) for order in orders]
    return [Task(i, f"task {i + 1}", each, each, tuple(range(N_CLASSES))) for i, each in enumerate(tasks)]


def made(run: RunSpec) -> L2dpMl:
    (cell,) = run.cells()
    known = public_context(SIZE, N_CLASSES, 34, 3, form=FORM, recurrence="every")
    learner = methods.maker(run.method)(run, [cell], known)
    assert isinstance(learner, Agem)
    return learner  # type: ignore[return-value]


def learned(run: RunSpec, tasks: Sequence[Task] | None = None, learner: L2dpMl | None = None) -> tuple[L2dpMl, Ledger]:
    learner = made(run) if learner is None else learner
    (ledger,) = taught(learner, run, stream() if tasks is None else tasks, "every").values()
    return learner, ledger


def weights(learner: Agem) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in learner._net.parameters()]


def batch(learner: L2dpMl, n: int = 10) -> Batch:
    return learner._batches(stream()[0], tuple(range(N_CLASSES)))[0]


# One noise for all.


def test_three_draws_are_made_in_a_run_whatever_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []

    class Counted(SeededNoise):
        def laplace(self, shape: tuple[int, ...]) -> np.ndarray:
            shapes.append(shape)
            return super().laplace(shape)

    monkeypatch.setattr(l2dp_ml, "noise_of", lambda source, cell, purpose: Counted(cell, purpose))
    learned(spec(epochs=2))
    assert shapes == [(1, 8, 8), (32, 4, 4), (N_CLASSES, 512)]


@pytest.mark.parametrize("delta_r", ["literal", "witness"])
def test_memory_holds_one_fixed_batch_of_each_task_perturbed_by_the_same_noise(delta_r: str) -> None:
    """Subtracting two stored records gives the difference of two pictures: the noise is gone, whatever its size."""
    tasks, learner = stream(), made(spec(delta_r=delta_r))
    seen: list[list[Batch]] = []
    cut = learner._batches
    learner._batches = lambda *given: seen.append(cut(*given)) or seen[-1]  # type: ignore[method-assign]
    learned(spec(delta_r=delta_r), tasks, learner)
    stored = learner._memory
    assert len(stored) == len(tasks)
    scale = learner._plan.input_scale
    assert scale > 3
    for task, own, kept in zip(tasks, seen, stored, strict=True):
        assert [len(one.targets) for one in own] == [10, 10, 10]  # 4 of 34 are left over
        assert sum(torch.equal(one.inputs, kept.inputs) for one in own) == 1
        assert kept.inputs.untyped_storage().nbytes() == 10 * SIZE * 8, "and nothing else of the task"
        plain = nets.tensor(task.train.inputs, FORM).double()
        shift = learner._draws.inputs / 10
        rows = torch.cat([(one.inputs - shift).flatten(1) for one in own])
        places = (rows[:, None] - plain.flatten(1)).abs().amax(2)
        assert sorted(places.argmin(1).tolist()) == sorted(set(places.argmin(1).tolist()))  # disjoint
        assert places.amin(1).max() < 1e-10 * max(1, scale)
        assert (kept.inputs - plain[0]).abs().mean() > scale / 10
        number = next(i for i, one in enumerate(own) if torch.equal(one.inputs, kept.inputs))
        chosen = places[10 * number :][:10].argmin(1)
        differences = kept.inputs[1:] - kept.inputs[:1]
        torch.testing.assert_close(differences, plain[chosen[1:]] - plain[chosen[:1]], rtol=0, atol=1e-10 * max(1, scale))


def test_batches_are_the_same_in_every_epoch_and_references_come_from_tasks_before(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = made(spec(epochs=2))
    used: list[Tensor] = []
    gradients = learner._gradients

    def noted(given: Batch) -> list[Tensor]:
        used.append(given.inputs)
        return gradients(given)

    monkeypatch.setattr(learner, "_gradients", noted)
    learned(spec(epochs=2), stream(), learner)
    first, later = used[:6], used[6:]  # six steps, and no reference in the first task
    assert all(torch.equal(a, b) for a, b in zip(first[:3], first[3:], strict=True))
    assert len(later) == 2 * 2 * 6
    stored = [one.inputs for one in learner._memory]
    for number, given in enumerate(later[1::2]):
        allowed = stored[: 1 + number // 6]
        assert sum(torch.equal(given, one) for one in allowed) == 1


def test_a_seed_gives_the_same_run_and_a_release_another(monkeypatch: pytest.MonkeyPatch) -> None:
    run = spec()
    first, again = (weights(learned(run, stream(1))[0]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    release = replace(run, privacy=replace(run.privacy, noise="release"))
    one, other = (made(release)._draws for _ in range(2))
    assert not torch.equal(one.inputs, other.inputs)


# Gradients.


def formula(learner: L2dpMl, given: Batch) -> list[Tensor]:
    """What the published losses give, by autograd in double precision, noise added to the very inputs and units."""
    net, n, draws = copy.deepcopy(learner._net).double(), len(given.targets), learner._draws
    x, y = given.inputs, functional.one_hot(given.targets, N_CLASSES).double()
    kernel = net.first.weight
    units = functional.conv2d(x, kernel, stride=2, padding=2)
    shared = (units.clamp(-1, 1) + 2 * draws.hidden / n).detach()
    larger = functional.pad(functional.interpolate(shared, scale_factor=2, mode="nearest"), (2, 2, 2, 2))
    z = functional.conv2d(larger, kernel.transpose(2, 3).transpose(0, 1)).relu()
    rebuilt = (math.log(2) + (0.5 - x) * z).abs().sum() / n
    of_noise = functional.conv2d(draws.inputs[None] / n, kernel, stride=2, padding=2) + 2 * draws.hidden / n
    read = (units + 2 * draws.hidden / n).relu() - of_noise.relu()
    last = net.rest[1:](read.detach()).clamp(-1, 1)
    z = last @ net.head.weight.T
    loss = (z / 2 + z.square() / 8 - y * z).sum() / n - (draws.output / n * net.head.weight).sum()
    (of_encoder,) = torch.autograd.grad(rebuilt, kernel)
    rest = torch.autograd.grad(loss, [*net.rest.parameters(), net.head.weight])
    plan = learner._plan
    scales = (1 + plan.input_scale) * (1 + plan.hidden_scale) * SIZE
    return [of_encoder * learner._chosen.encoder_weight / scales, *rest, torch.zeros(N_CLASSES).double()]


@pytest.mark.parametrize("delta_r", ["literal", "witness"])
def test_gradients_are_those_of_the_published_losses(delta_r: str) -> None:
    learner = made(spec(delta_r=delta_r))
    given = batch(learner)
    with torch.no_grad():
        learner._net.rest[-2].weight.mul_(5)  # so that the last hidden layer's clip is reached
    ours, theirs = learner._gradients(given), formula(learner, given)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-4 * max(1e-6, expected.abs().max().item()))


def test_gradients_as_printed_are_those_of_equations_12_and_13() -> None:
    """Σ h̄ (1/2 - x̄) over the batch's size for the encoder, no divisor, no ReLU; Eq. 12 with its signs; one χ3 for all."""
    learner = made(spec(delta_r="witness", **AS_PRINTED))
    given = batch(learner)
    net, n, draws = copy.deepcopy(learner._net).double(), len(given.targets), learner._draws
    kernel = net.first.weight
    units = functional.conv2d(given.inputs, kernel, stride=2, padding=2)
    hidden = (units.clamp(-1, 1) + 2 * draws.hidden / n).detach()
    # θ1 stands once in Σ (1/2 - x̄)ᵀ θ1 h̄: the encoder applied to the one, against the other.
    loss = (functional.conv2d(0.5 - given.inputs, kernel, stride=2, padding=2) * hidden).sum()
    (of_encoder,) = torch.autograd.grad(loss, kernel)
    last = net.rest[1:]((units + 2 * draws.hidden / n).relu().detach()).clamp(0, 1)
    y, z = functional.one_hot(given.targets, N_CLASSES), last @ net.head.weight.T
    loss = (z - z * y).sum() - (z.abs() / 2 + z.square() / 8).sum()
    *of_between, of_output = torch.autograd.grad(loss / n, [*net.rest.parameters(), net.head.weight])
    ours = learner._gradients(given)
    for found, expected in zip(ours[:-1], [of_encoder / n, *of_between, of_output - draws.output[:1] / n], strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-4 * expected.abs().max().item())


@pytest.mark.parametrize("form", [Form((32, 32, 3), 0.0, 1.0), Form((100, 3), -1.0, 1.0), Form((9, 11, 1), 0.0, 1.0)])
def test_every_kind_of_example_has_its_gradients(form: Form) -> None:
    run, n_values = spec(batch_size=4), math.prod(form.shape)
    known = public_context(n_values, N_CLASSES, 4, 1, form=form)
    learner = L2dpMl(run, list(run.cells()), known)
    rows = np.random.default_rng(0).uniform(form.low, form.high, (4, n_values)).astype(np.float32)
    examples = Examples(rows, np.arange(4))
    (given,) = learner._batches(Task(0, "task 1", examples, examples, (0, 1, 2, 3)), (0, 1, 2, 3))
    found = learner._gradients(given)
    for part, parameter in zip(found[:-1], list(learner._net.parameters())[:-1], strict=True):
        assert part.shape == parameter.shape
        assert part.isfinite().all()
    assert found[0].any()
    assert found[-2].any()
    assert learner._logits(rows).shape == (4, N_CLASSES)


def test_gradients_do_not_depend_on_the_size_of_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = made(spec())
    given = batch(learner)
    whole = learner._gradients(given)
    monkeypatch.setitem(agem.AT_ONCE, "cpu", 3)
    for found, expected in zip(learner._gradients(given), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_noise_on_labels_is_in_the_output_layer_alone() -> None:
    """Whatever it is, all layers below read the labels without it: a known failure of the published argument."""
    learner = made(spec())
    given = batch(learner)
    before = learner._gradients(given)
    learner._draws.output.mul_(-3)
    after = learner._gradients(given)
    assert all(torch.equal(a, b) for a, b in zip(before[:-2], after[:-2], strict=True))
    moved = -4 / 3 * learner._draws.output / 10  # from -χ3/λ to 3 χ3/λ
    torch.testing.assert_close((after[-2] - before[-2]).double(), moved, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("projection", ["if-violated", "always", "never"])
def test_without_noise_and_with_its_loss_it_is_agem(projection: str) -> None:
    same = {"projection": projection, "learning_rate": 0.1, "scope": "joint", "epochs": 2}
    ours, ledger = learned(spec(epsilon=math.inf, losses="softmax", output_norm_cap=0.0, **same))
    assert ledger.claimed is None, "without noise nothing is claimed"
    theirs = learned(spec("agem", math.inf, **same))[0]
    for found, expected in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    test = stream()[1]
    np.testing.assert_allclose(ours.scores(0, test)["argmax"], theirs.scores(0, test)["argmax"], rtol=1e-4, atol=1e-5)


def test_without_noise_the_polynomials_are_all_that_differs_from_agem() -> None:
    """A-GEM's own loop, its gradients those of the formulas."""
    run = spec(epsilon=math.inf, output_norm_cap=0.0)
    ours = learned(run)[0]
    other = made(run)
    other._gradients = lambda given: [part.float() for part in formula(other, given)]  # type: ignore[method-assign]
    for found, expected in zip(weights(ours), weights(learned(run, stream(), other)[0]), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_it_learns_under_noise_of_thousands_of_times_the_range_of_a_pixel() -> None:
    """Noise that all examples share is no noise for a learner. Chance is 0.25."""
    run, task = spec(epochs=10, learning_rate=0.05), stream(1, n=120)[0]
    learner, _ = learned(run, [task])
    right = learner.scores(0, task)["argmax"][0].argmax(1) == task.test.labels
    assert learner._plan.input_scale > 1000
    assert right.mean() > 0.6


# Settings.


@pytest.mark.parametrize("delta_r", ["literal", "witness"])
def test_as_printed_it_runs_to_its_end_and_claims_what_its_encoder_says(delta_r: str) -> None:
    """Weights of any size: nothing as printed holds them. Scores are numbers all the same."""
    learner, ledger = learned(spec(delta_r=delta_r, **AS_PRINTED))
    assert np.isfinite(learner.scores(0, stream()[0])["argmax"]).all()
    assert ledger.claimed is not None
    norm = learner._net.first.weight.detach().abs().sum(dim=(1, 2, 3)).max().item()
    assert ledger.claimed.numbers["‖θ1‖"] == pytest.approx(norm, rel=1e-6)


def test_algorithm_1_takes_and_keeps_whole_tasks_and_scales_noise_by_them() -> None:
    sizes = [30, 17, 24]
    tasks = [
        Task(task.index, task.name, task.train.take(np.arange(n)), task.test, task.prior)
        for task, n in zip(stream(), sizes, strict=True)
    ]
    learner, ledger = learned(spec(algorithm="whole-task"), tasks)
    assert [len(one.targets) for one in learner._memory] == sizes
    for one, task in zip(learner._memory, tasks, strict=True):
        mean = nets.tensor(task.train.inputs, FORM).double().mean(0) + learner._draws.inputs / len(task.train)
        torch.testing.assert_close(one.inputs.mean(0), mean, rtol=1e-6, atol=1e-4)
    assert ledger.claimed is not None
    assert ledger.claimed.numbers["λ"] == 30  # the largest of the tasks claims most
    assert ledger.entries[0].what.endswith(", 1 steps")


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, [3, 3, 3]),
        ({"epochs": 3}, [9, 9, 9]),
        ({"variant": "balanced", "steps": 4}, [4, 4, 4]),
        ({"variant": "heterogeneous", "epochs_by_task": [1, 2, 1]}, [3, 6, 3]),
    ],
)
def test_variants_take_their_steps(changes: dict[str, object], steps: list[int]) -> None:
    learner, counted = made(spec(**changes)), []
    for task in stream():
        ledger = {Cell(0.5, 0): Ledger(1e-5, "add-remove", "every")}
        counted.append(sum(1 for _ in learner.learn({0: task}, ledger)))
    assert counted == steps


def test_norms_stay_below_what_they_are_allowed() -> None:
    learner, _ = learned(spec(output_norm_cap=0.5, theta1_norm_cap=3.0, encoder_weight=1000.0, learning_rate=0.5))
    assert learner._net.head.weight.norm(dim=1).max() <= 0.5 + 1e-6
    assert learner._theta_norm() <= 3.0 + 1e-5


@pytest.mark.parametrize("first_layer", ["plain", "batch-norm", "recentred"])
@pytest.mark.parametrize("losses", ["taylor", "softmax"])
def test_every_form_of_the_first_layer_learns_something_finite(first_layer: str, losses: str) -> None:
    run = spec(epsilon=50.0, first_layer=first_layer, losses=losses, delta_r="witness", recon_objective="taylor1-linear")
    learner, _ = learned(run)
    scores = learner.scores(0, stream()[0])["argmax"]
    assert scores.shape == (1, 34, N_CLASSES)
    assert np.isfinite(scores).all()
    if losses == "softmax":
        assert not torch.equal(learner._net.first.weight, made(run)._net.first.weight)


def test_noise_in_testing_is_that_of_training_or_none() -> None:
    task = stream()[0]
    same, none = (learned(spec(test_noise=which), [task])[0] for which in ("same", "none"))
    assert all(torch.equal(a, b) for a, b in zip(weights(same), weights(none), strict=True))
    x = task.test.inputs
    clean = same._net.head(same._net.rest(same._net.first(nets.tensor(x, FORM))).clamp(max=1)).detach().numpy()
    np.testing.assert_allclose(none._logits(x), clean, rtol=1e-4, atol=1e-5)
    assert np.abs(same._logits(x) - clean).max() > 1e-2


def test_last_layers_of_tasks_answer_with_their_own_classes_and_learn_no_others() -> None:
    tasks = [
        Task(task.index, task.name, task.train.take(rows), task.test, classes)
        for task, classes in zip(stream(2, n=60), [(0, 2), (1, 3)], strict=True)
        for rows in [np.flatnonzero(np.isin(task.train.labels, classes))]
    ]
    run = spec(labels="prior", head="per-task", output_norm_cap=0.0)
    learner, _ = learned(run, tasks[:1])
    others = [1, 3]
    assert torch.equal(learner._net.head.weight[others], made(run)._net.head.weight[others])
    assert not torch.equal(learner._net.head.weight[[0, 2]], made(run)._net.head.weight[[0, 2]])
    learned(run, tasks[1:], learner)
    for task, classes in zip(tasks, [(0, 2), (1, 3)], strict=True):
        found = learner.scores(0, task)["argmax"][0]
        assert np.isfinite(found[:, classes]).all()
        assert np.isneginf(np.delete(found, classes, axis=1)).all()


# What it claims, and what the ledger says.


def test_the_ledger_has_no_bound_and_says_why_and_the_claim_stands_beside_it() -> None:
    learner, ledger = learned(spec(encoder_weight=0.0))
    assert ledger.epsilon() == math.inf
    assert all("one noise for all records" in entry.what for entry in ledger.entries)
    assert {entry.people_of for entry in ledger.entries} == {(0,), (1,), (2,), (0, 1)}  # stored batches are read again
    assert ledger.claimed is not None
    assert ledger.claimed.source == claim.SOURCE
    assert ledger.claimed.epsilon == pytest.approx(0.5, abs=1e-12)  # the encoder is as it was when the budget was split
    assert ledger.claimed.terms == learner._plan.terms(learner._theta_norm())


def test_the_claim_follows_the_encoder() -> None:
    learner, ledger = learned(spec(delta_r="witness", encoder_weight=100.0, learning_rate=0.05))
    assert ledger.claimed is not None
    assert ledger.claimed.numbers["‖θ1‖"] == learner._theta_norm()
    assert ledger.claimed.epsilon == pytest.approx(sum(ledger.claimed.terms.values()))
    assert abs(ledger.claimed.epsilon - 0.5) > 1e-4


# Bad input.


def test_steps_too_large_stop_at_once() -> None:
    with pytest.raises(Diverged, match=r"step \d+ of \d+ with params.learning_rate = 100"):
        learned(spec(learning_rate=100.0, epochs=200, output_norm_cap=0.0))


def test_a_batch_larger_than_the_smallest_task_is_refused_before_anything_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "spec.toml"
    written.write_text('method = "l2dp-ml"\n[scenario]\nkind = "split"\ntasks = 5\n[params]\nbatch_size = 5000\n')
    status = cli.main(["run", str(written)])
    said = capsys.readouterr().err.strip().splitlines()
    assert status == 2
    assert len(said) == 1
    assert "params.batch_size = 5000: must be at most" in said[0]
    assert "the number of training examples of" in said[0]

