"""FedCIL's losses: slopes against differences of the losses written out in float64, and what their parts come to alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.methods.federated.fedcil_dp import AcGan, Generated, kl_gradients
from tests.support import clients

GAN = AcGan(n_inputs=5, n_classes=3, noise_size=2, hidden=6)
RANDOM = np.random.default_rng(0)
CLASSIFIER = GAN.classifier.initial(RANDOM)
GENERATOR, SERVER_GENERATOR = GAN.generator.initial(RANDOM), GAN.generator.initial(RANDOM)
LOCAL = (RANDOM.standard_normal((4, 5)).astype(np.float32), np.array([0, 2, 1, 2]))


def one(generator: np.ndarray, labels: np.ndarray) -> Generated:
    """Rows from one generator for labels [b]."""
    found = GAN.generate(generator, labels[None], [RANDOM])
    return Generated(found.x[0], found.labels[0], [values[0] for values in found.inputs])


REPLAYED = one(SERVER_GENERATOR, np.array([1, 0, 0, 1]))
GENERATED = one(GENERATOR, np.concatenate([LOCAL[1], REPLAYED.labels]))
SERVER = one(SERVER_GENERATOR, GENERATED.labels)
CONSISTENCY = 0.7


def forward(params: np.ndarray, x: np.ndarray, inputs: int, hidden: int, outputs: int) -> np.ndarray:
    sizes = np.cumsum([inputs * hidden, hidden, hidden * outputs])
    first, bias, second, out_bias = np.split(params.astype(np.float64), sizes)
    return np.maximum(x @ first.reshape(inputs, hidden) + bias, 0) @ second.reshape(hidden, outputs) + out_bias


def class_log_probabilities(classifier: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chance of being real [b], and log-probabilities of labels [b, C]."""
    out = forward(classifier, x, 5, 6, 4)
    return 1 / (1 + np.exp(-out[:, 0])), out[:, 1:] - np.log(np.exp(out[:, 1:]).sum(axis=1, keepdims=True))


def counted_as(real: bool, classifier: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
    chance, log_p = class_log_probabilities(classifier, x)
    return float(np.mean(-np.log(chance if real else 1 - chance) - log_p[np.arange(len(x)), labels]))


def divergence(classifier: np.ndarray, toward: np.ndarray, found: np.ndarray) -> float:
    """Mean of KL(p(toward) || p(found))."""
    (_, log_p), (_, log_q) = class_log_probabilities(classifier, toward), class_log_probabilities(classifier, found)
    return float(np.mean((np.exp(log_p) * (log_p - log_q)).sum(axis=1)))


def classifier_loss(classifier: np.ndarray, *, replayed: bool, server: bool) -> float:
    share, of = (0.5, GENERATED) if replayed else (1.0, first_rows(GENERATED))
    found = share * counted_as(True, classifier, *LOCAL) + counted_as(False, classifier, of.x, of.labels)
    if replayed:
        found += share * counted_as(True, classifier, REPLAYED.x, REPLAYED.labels)
    if server:
        by_server = SERVER if replayed else first_rows(SERVER)
        _, log_p = class_log_probabilities(classifier, by_server.x)
        own = divergence(classifier, SERVER.x[:4], LOCAL[0])
        generated = divergence(classifier, by_server.x, of.x)
        label = -log_p[np.arange(len(by_server.x)), by_server.labels].mean()
        found += CONSISTENCY * (own + generated + label)
    return found


def first_rows(batch: Generated) -> Generated:
    return replace(batch, x=batch.x[:4], labels=batch.labels[:4], inputs=[values[:4] for values in batch.inputs])


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("server", [True, False])
def test_the_classifier_s_slopes_are_those_of_its_loss(replayed: bool, server: bool) -> None:
    generated, by_server = (GENERATED, SERVER) if replayed else (first_rows(GENERATED), first_rows(SERVER))
    slopes = GAN.classifier_gradient(
        CLASSIFIER, LOCAL, generated, REPLAYED if replayed else None, by_server if server else None, CONSISTENCY
    )
    step = 1e-5
    for place in range(len(CLASSIFIER)):
        moved = np.eye(len(CLASSIFIER))[place] * step
        losses = [classifier_loss(CLASSIFIER + sign * moved, replayed=replayed, server=server) for sign in (1, -1)]
        assert slopes[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-5)


def test_the_generator_s_slopes_are_those_of_its_loss() -> None:
    slopes, step = GAN.generator_gradient(GENERATOR, CLASSIFIER, GENERATED), 1e-5
    for place in range(0, len(GENERATOR), 97):
        moved = np.eye(len(GENERATOR))[place] * step
        losses = [
            counted_as(True, CLASSIFIER, forward(GENERATOR + sign * moved, GENERATED.inputs[0], 5, 256, 5), GENERATED.labels)
            for sign in (1, -1)
        ]
        assert slopes[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-5)


def test_consistency_that_counts_nothing_is_none_and_it_counts_in_proportion() -> None:
    def slopes(server: Generated | None, weight: float) -> np.ndarray:
        return GAN.classifier_gradient(CLASSIFIER, LOCAL, GENERATED, REPLAYED, server, weight)

    without = slopes(None, 1.0)
    assert slopes(SERVER, 0.0) == pytest.approx(without, abs=1e-7)
    assert slopes(SERVER, 2.0) - without == pytest.approx(2 * (slopes(SERVER, 1.0) - without), abs=1e-6)
    assert np.abs(slopes(SERVER, 1.0) - without).max() > 1e-3


def test_equal_answers_are_no_distance_apart() -> None:
    """Divergence has slope zero where both sides agree, whatever is added to all logits, and none is ever infinite."""
    logits = RANDOM.standard_normal((3, 4)).astype(np.float32)
    for slopes in kl_gradients(logits, logits + 5):
        assert slopes == pytest.approx(0, abs=1e-6)
    for slopes in kl_gradients(100 * logits, -100 * logits):
        assert np.isfinite(slopes).all()


def test_clients_side_by_side_are_clients_one_by_one() -> None:
    classifier = np.stack([CLASSIFIER, -CLASSIFIER])
    own = (np.stack([LOCAL[0], 2 * LOCAL[0]]), np.stack([LOCAL[1], LOCAL[1][::-1]]))
    asked = np.concatenate([own[1], np.stack([REPLAYED.labels] * 2)], axis=1)
    generated = GAN.generate(np.stack([GENERATOR, SERVER_GENERATOR]), asked, [RANDOM] * 2)
    server = GAN.generate(GENERATOR, asked, [RANDOM] * 2)
    again = GAN.generate(SERVER_GENERATOR, np.stack([REPLAYED.labels] * 2), [RANDOM] * 2)
    together = GAN.classifier_gradient(classifier, own, generated, again, server, 1.0)
    for place in range(2):
        first, second, third = (Generated(batch.x[place], batch.labels[place], [values[place] for values in batch.inputs])
                           for batch in (generated, again, server))  # fmt: skip
        found = GAN.classifier_gradient(classifier[place], (own[0][place], own[1][place]), first, second, third, 1.0)
        assert together[place] == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize(("rounds", "differs"), [(1, False), (2, True)])
def test_consistency_starts_in_a_task_s_second_round(rounds: int, differs: bool) -> None:
    """The published code skips the first: the server's generator has not met the task's labels then."""
    of, public = clients.stream(per_class=10)
    params = {"rounds": rounds, "local_steps": 2, "hidden": 8, "participation": 1.0}
    scores = []
    for weight in (0.0, 50.0):
        asked = clients.spec("fedcil-dp", params={**params, "consistency": weight})
        _, _, _, (learner,) = clients.run(asked, of, public)
        scores.append(learner.scores(0, of.tasks[0])["argmax"])
    assert np.array_equal(scores[0], scores[1]) != differs
