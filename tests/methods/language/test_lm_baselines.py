"""PeCL's baselines as learners: on a random model of two layers, whose texts are a few letters."""

import math
from collections.abc import Sequence
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
import torch
from torch import Tensor

from dpcl_core.backbones import causal, plain_language
from dpcl_core.events import Progress, of_kind
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common import dpsgd, method
from dpcl_core.methods.language import adapted_model, baseline, er, gem, gradients, public_text
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.methods.language.training import Descent, private_steps, task_loss
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, noise_of
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec
from tests.methods import pecl_small
from tests.methods.language import tiny
from tests.methods.training import public_context, spreads
from tests.support.tiers import quick

NAMES = ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl")
N, LENGTH, N_TASKS = 24, 8, 3
CLASSES = ("cat", "dog", "bad", "good", "up", "down")
WELL = {"learning_rate": 3e-2}  # enough to learn something of a task in six steps
_WORDS = (("a", "b"), ("c", "d"), ("e", "f"))


@pytest.fixture(autouse=True)
def tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The random model in place of a trained one; adapters start as they do in a run."""

    def adapted(backbone: str, device: str, rank: int, alpha: float, seed: int, *more: object, **named: object) -> object:
        return tiny.adapted(width=16, rank=rank, seed=seed, started=False)

    monkeypatch.setattr(causal, "adapted", adapted)
    monkeypatch.setattr(plain_language, "load_tokenizer", lambda backbone: tiny.Letters())
    for name in ("encoded", "sentences"):
        monkeypatch.setattr(public_text, name, lambda backbone, length: tiny.encoded(["public news", "the ninth"], length))


def task(index: int, n: int = N) -> Task:
    """Texts of one of two letters, repeated; the letter tells the label."""
    labels = np.arange(n, dtype=np.int64) % 2
    inputs = tiny.encoded([_WORDS[index][label] * (2 + place % 5) for place, label in enumerate(labels)], LENGTH)
    examples = Examples(inputs, 2 * index + labels)
    return Task(index, f"t{index}", examples, examples, (2 * index, 2 * index + 1))


def known(n_tasks: int = N_TASKS) -> method.PublicContext:
    return public_context(0, len(CLASSES), N * n_tasks, n_tasks, classes=CLASSES)


def spec(name: str, epsilon: float, **params: object) -> RunSpec:
    given = {"length": LENGTH, "epochs": 2, "batch_size": 8, "lora_rank": 3, "lora_alpha": 6, "eval": "whole", **params}
    return pecl_small.spec(name, epsilon, "replace" if params.get("mechanism") == "fn" else "add-remove", **given)


def trained(name: str, epsilon: float, tasks: Sequence[Task] | None = None, **params: object) -> tuple[LazyLearner, Ledger]:
    """A learner that has been through these tasks (all three), and its ledger."""
    tasks = [task(index) for index in range(N_TASKS)] if tasks is None else tasks
    learner, ledger, _ = pecl_small.trained(spec(name, epsilon, **params), tasks, known(len(tasks)))
    return learner, ledger


def weights(learner: LazyLearner) -> Tensor:
    return tiny.weights(learner._model.net)


def book(adjacency: str = "add-remove") -> Ledger:
    return Ledger(1e-3, adjacency, "once")


def through(model: baseline.Baseline, *tasks: Task, adjacency: str = "add-remove") -> Tensor:
    """The weights of a model that has learned these tasks."""
    for one in tasks:
        list(model.learn(one, book(adjacency)))
    return tiny.weights(model.net)


def fit(learner: LazyLearner, one: Task) -> float:
    """Mean log-likelihood of the task's right labels."""
    found = learner.scores(0, one)["whole"]
    assert found.shape == (1, len(one.test), len(CLASSES))
    assert np.isinf(np.delete(found, list(one.prior), axis=2)).all()
    return float(found[0, np.arange(len(one.test)), one.test.labels].mean())


@pytest.mark.parametrize("name", quick(1, NAMES))
def test_a_task_is_learned_and_the_same_seed_gives_the_same_model(name: str) -> None:
    learner, _ = trained(name, math.inf, **WELL, **({"strength": 0.01} if name == "lm-ewc" else {}))
    assert fit(learner, task(2)) > fit(trained(name, math.inf, learning_rate=1e-9)[0], task(2)) + 1
    assert torch.equal(weights(trained(name, 8.0)[0]), weights(trained(name, 8.0)[0]))


@pytest.mark.parametrize("name", quick(2, NAMES))
def test_noisy_copies_are_released_once_whatever_is_done_with_them(name: str) -> None:
    _, ledger = trained(name, 8.0, mechanism="fn")
    assert [(entry.task, entry.people_of) for entry in ledger.entries] == [(0, (0,)), (1, (1,)), (2, (2,))]
    assert 7.99 < ledger.epsilon() <= 8.0
    _, ledger = trained(name, 8.0, mechanism="fn", label_share=0.25)
    assert len(ledger.entries) == 2 * N_TASKS
    assert 6.0 < ledger.epsilon() <= 8.0
    _, ledger = trained(name, math.inf, mechanism="fn")
    assert {type(entry.event) for entry in ledger.entries} == {dp.NonPrivateDpEvent}


@pytest.mark.parametrize("name", quick(2, NAMES))
@pytest.mark.parametrize("mechanism", ["dp-sgd", "fn"])
def test_a_task_without_texts_is_learned_like_any_other(name: str, mechanism: str) -> None:
    learner, ledger = trained(name, 8.0, [task(0), task(1, 0), task(2)], mechanism=mechanism)
    assert {entry.task for entry in ledger.entries} == ({2} if (name, mechanism) == ("lm-mtl", "dp-sgd") else {0, 1, 2})
    assert torch.isfinite(weights(learner)).all()


def test_fine_tuning_is_plain_dp_sgd() -> None:
    """Against the loop that PeCL's central repair is trained by, with the same coins and noise."""
    learner, _ = trained("lm-seqft", 8.0, [task(0)])
    model = baseline.Baseline(spec("lm-seqft", 8.0), Cell(8.0, 0), known(1))
    plan = dpsgd.Schedule(8 / N, 6, 1.0, model.params.learning_rate, 8.0)
    texts = model.open_task(task(0), book()).texts
    coins, noise = Batches(8 / N, 0, "task 0 at epsilon 8.0"), noise_of("seeded", Cell(8.0, 0), "task 0")
    list(private_steps(model.net, texts, plan, model.noises.steps, coins, noise, task_loss("answer"), device="cpu"))
    torch.testing.assert_close(weights(learner), tiny.weights(model.net), rtol=0, atol=0)


def test_all_tasks_together_are_one_training_on_all_of_them() -> None:
    learner, _ = trained("lm-mtl", math.inf, **WELL)
    untrained, _ = trained("lm-mtl", math.inf, learning_rate=1e-9)
    assert all(fit(learner, task(index)) > fit(untrained, task(index)) + 1 for index in range(N_TASKS))
    alone, _ = trained("lm-mtl", math.inf, [task(0)])
    torch.testing.assert_close(weights(alone), weights(trained("lm-seqft", math.inf, [task(0)])[0]), rtol=0, atol=0)


def test_before_the_last_task_there_is_no_model() -> None:
    cell, ledger = Cell(math.inf, 0), book()
    learner = methods.maker("lm-mtl")(spec("lm-mtl", math.inf), [cell], known(2))
    said = list(learner.learn({0: task(0)}, {cell: ledger}))
    assert learner.scores(0, task(0)) == {}
    assert ledger.entries == []
    assert {one.phase for one in said} == {"backbone"}  # type: ignore[union-attr]
    list(learner.learn({0: task(1)}, {cell: ledger}))
    assert set(learner.scores(0, task(0))) == {"whole"}


def steps_by_hand(model: baseline.Baseline, inputs: adapted_model.TrainingInputs, divisor: float) -> None:
    """Three steps along the mean gradient of all these texts."""
    descent = Descent(list(model.net.trainable().values()), dpsgd.Schedule(1.0, 3, 1.0, 2e-3, 1.0))
    for _ in range(3):
        descent.step(mean_gradient(model.net, inputs, divisor))


def mean_gradient(net: causal.Adapted, inputs: adapted_model.TrainingInputs, divisor: float) -> list[Tensor]:
    """Of the answers' loss, summed over all texts, over this divisor."""
    batch = gradients.batch_of(inputs.texts, np.arange(len(inputs)), "cpu")
    return [part / divisor for part in gradients.Gradients(net, math.inf).of(batch, task_loss("answer"))]


def inputs_of(model: baseline.Baseline, index: int) -> adapted_model.TrainingInputs:
    return model.open_task(task(index), book())


def test_replayed_texts_join_the_sum_of_every_step() -> None:
    """Everything is kept and every text is in every batch: a step is along the gradient of both tasks together."""
    given = {"batch_size": N, "buffer_share": 1.0, "replay_size": N, "epochs": 3}
    learner, _ = trained("lm-er", math.inf, [task(0), task(1)], **given)
    model = er.Er(spec("lm-er", math.inf, **given), Cell(math.inf, 0), known(2))
    first, second = inputs_of(model, 0), inputs_of(model, 1)

    for inputs in (first, adapted_model.join_texts([second, first])):
        steps_by_hand(model, inputs, len(inputs))
    torch.testing.assert_close(weights(learner), tiny.weights(model.net), rtol=0, atol=1e-12)


def test_kept_texts_are_chosen_by_coins_of_their_own() -> None:
    """A tenth of 4,000 on average, within five standard deviations; one text less leaves the others' coins as they are."""
    model = er.Er(spec("lm-er", math.inf), Cell(math.inf, 0), known())
    many = model.open_task(task(0, 4000), book())
    for inputs in (many, many.take(np.arange(3999))):
        model.keep_some(inputs, 0.1, task(0))
    kept = model.kept
    assert len(kept[0]) == pytest.approx(400, abs=5 * math.sqrt(4000 * 0.09))
    np.testing.assert_array_equal(kept[0].texts.ids[: len(kept[1])], kept[1].texts.ids)
    assert len(kept[0]) - len(kept[1]) in (0, 1)


def test_what_gem_turns_by_has_the_noise_that_is_charged_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's texts are kept, so that references are noise alone. Chi-square, false alarm 1e-6; 10 % less would be seen."""
    drawn: list[Tensor] = []

    def report(grads: Sequence[Tensor], references: Sequence[Sequence[Tensor]], margin: float) -> list[Tensor]:
        drawn.extend(tiny.row(list(reference)) for reference in references)
        return list(grads)

    monkeypatch.setattr(gem, "projected_gradient", report)
    asked = spec("lm-gem", 8.0, epochs=4)
    model = gem.Gem(asked, Cell(8.0, 0), known(2))
    through(model, *(replace(one, train=one.train.take(np.zeros(0, np.int64))) for one in (task(0), task(1))))
    noise = baseline.Plan(asked.params, asked.privacy, method.PublicSizes(N * 2, 2, len(CLASSES))).noises(8.0).references
    std = noise * asked.params.clip_norm * (1 + dpsgd.ROUNDING) / asked.params.kept(N)
    everything = torch.cat(drawn).numpy()
    assert [spreads(0.9**power * everything, std) for power in (0, 1)] == [True, False]
    assert len({reference.numpy().tobytes() for reference in drawn}) == len(drawn) > 1  # fresh for every step


def test_gem_steps_along_what_its_references_turn_the_gradient_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is kept: each step hands over its own gradient and that on the first task, and goes where it is told.

    Told to go along the reference, it goes on with the first task, as steps by hand do. That turned gradients point against
    no reference is tested where they are computed.
    """
    given = {"batch_size": N, "memory_size": N, "epochs": 3}
    model = gem.Gem(spec("lm-gem", math.inf, **given), Cell(math.inf, 0), known(2))
    first, second = inputs_of(model, 0), inputs_of(model, 1)
    n_references: list[int] = []

    def report(grads: Sequence[Tensor], references: Sequence[Sequence[Tensor]], margin: float) -> list[Tensor]:
        n_references.append(len(references))
        for found, inputs in zip([grads, *references], (second, first) if references else (first,), strict=True):
            torch.testing.assert_close(tiny.row(found), tiny.row(mean_gradient(model.net, inputs, N)), rtol=0, atol=1e-12)
        return list(references[0] if references else grads)

    monkeypatch.setattr(gem, "projected_gradient", report)
    found = through(model, task(0), task(1))
    assert n_references == [0, 0, 0, 1, 1, 1]
    hand = gem.Gem(spec("lm-gem", math.inf, **given), Cell(math.inf, 0), known(2))
    for _ in range(2):
        steps_by_hand(hand, first, N)
    torch.testing.assert_close(found, tiny.weights(hand.net), rtol=0, atol=1e-12)


def test_penalties_of_no_strength_leave_fine_tuning() -> None:
    plain = weights(trained("lm-seqft", 8.0)[0])
    for source in ("gradients", "public"):
        assert torch.equal(weights(trained("lm-ewc", 8.0, strength=0.0, fisher=source)[0]), plain)


@pytest.mark.parametrize("source", ["released", "gradients", "public"])
def test_consolidation_holds_the_weights(source: str) -> None:
    """The stronger it is, the nearer to the first task's weights the second leaves them."""
    anchor = weights(trained("lm-seqft", math.inf, [task(0)])[0])

    def moved(strength: float) -> float:
        learner, _ = trained("lm-ewc", math.inf, [task(0), task(1)], strength=strength, fisher=source)
        return float((weights(learner) - anchor).norm())

    assert moved(1e6) < 0.7 * moved(0.0)


def test_earlier_adapters_stay_and_all_are_asked() -> None:
    learner, _ = trained("lm-olora", math.inf, [task(0), task(1)], **WELL)
    first, _ = trained("lm-olora", math.inf, [task(0)], **WELL)
    below = [part for layer in learner._model._stack.frozen for pair in layer.pairs for part in pair]  # type: ignore[attr-defined]
    torch.testing.assert_close(tiny.row(below), weights(first), rtol=0, atol=0)
    assert fit(learner, task(1)) > fit(first, task(1)) + 1


@pytest.mark.parametrize(("mechanism", "steps"), [("fn", [2 * 1, 2 * 5]), ("dp-sgd", [2 * 3, 2 * 3])])
def test_steps_on_copies_are_passes_over_the_task_itself(mechanism: str, steps: list[int]) -> None:
    """From public nominal sizes, 8 and 40 texts in batches of 8; under DP-SGD every task has those of one of mean size."""
    sizes = replace(known(2), source_sizes={"t0": 8, "t1": 40})
    _, _, said = pecl_small.trained(spec("lm-seqft", 8.0, mechanism=mechanism), [task(0), task(1)], sizes)
    ended = [one.total for one in of_kind(said, Progress) if one.done == one.total and one.phase == "training"]
    assert ended == steps


def test_copies_alone_are_trained_on() -> None:
    """Other texts with the same copies give the same model: nothing but the copies, lengths and labels is read."""

    def model_of(swap: bool) -> Tensor:
        model = er.Er(spec("lm-er", 8.0, mechanism="fn"), Cell(8.0, 0), known())
        opened = model.open_task

        def instead(one: Task, ledger: Ledger) -> adapted_model.TrainingInputs:
            found = opened(one, ledger)
            assert not found.texts.ids[found.texts.role == 2].any()
            inputs = one.train.inputs.copy()
            used = inputs[:, :, 0] >= 0
            inputs[:, :, 0][used] = 5 if swap else inputs[:, :, 0][used]
            again = opened(replace(one, train=Examples(inputs, one.train.labels)), book("replace"))
            return adapted_model.TrainingInputs(again.texts, found.copies)

        model.open_task = instead  # type: ignore[method-assign]
        return through(model, task(0), task(1), adjacency="replace")

    assert torch.equal(model_of(False), model_of(True))
