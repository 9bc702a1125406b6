"""FedCIL's losses: slopes against differences of the losses written out in float64, and what their parts come to alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.methods.federated.acgan import AcGan, Invented
from dpcl_core.methods.federated.networks import apart_slopes
from tests.support import clients

GAN = AcGan(n_inputs=5, n_classes=3, noise_size=2, hidden=6)
RANDOM = np.random.default_rng(0)
TELLS, MAKES, SERVER_MAKES = GAN.tells.initial(RANDOM), GAN.makes.initial(RANDOM), GAN.makes.initial(RANDOM)
OWN = (RANDOM.standard_normal((4, 5)).astype(np.float32), np.array([0, 2, 1, 2]))


def one(makes: np.ndarray, labels: np.ndarray) -> Invented:
    """What one generator invents of labels [b]."""
    found = GAN.invent(makes, labels[None], [RANDOM])
    return Invented(found.x[0], found.labels[0], found.asked[0], found.hidden[0])


REPLAYED = one(SERVER_MAKES, np.array([1, 0, 0, 1]))
INVENTED = one(MAKES, np.concatenate([OWN[1], REPLAYED.labels]))
SERVER = one(SERVER_MAKES, INVENTED.labels)
CONSISTENCY = 0.7


def forward(params: np.ndarray, x: np.ndarray, inputs: int, hidden: int, outputs: int) -> np.ndarray:
    sizes = np.cumsum([inputs * hidden, hidden, hidden * outputs])
    first, bias, second, out_bias = np.split(params.astype(np.float64), sizes)
    return np.maximum(x @ first.reshape(inputs, hidden) + bias, 0) @ second.reshape(hidden, outputs) + out_bias


def told(tells: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chance of being real [b], and log-probabilities of labels [b, C]."""
    out = forward(tells, x, 5, 6, 4)
    return 1 / (1 + np.exp(-out[:, 0])), out[:, 1:] - np.log(np.exp(out[:, 1:]).sum(axis=1, keepdims=True))


def counted_as(real: bool, tells: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
    chance, log_p = told(tells, x)
    return float(np.mean(-np.log(chance if real else 1 - chance) - log_p[np.arange(len(x)), labels]))


def divergence(tells: np.ndarray, toward: np.ndarray, found: np.ndarray) -> float:
    """Mean of KL(p(toward) || p(found))."""
    (_, log_p), (_, log_q) = told(tells, toward), told(tells, found)
    return float(np.mean((np.exp(log_p) * (log_p - log_q)).sum(axis=1)))


def teller_loss(tells: np.ndarray, *, replayed: bool, server: bool) -> float:
    share, of = (0.5, INVENTED) if replayed else (1.0, first_rows(INVENTED))
    found = share * counted_as(True, tells, *OWN) + counted_as(False, tells, of.x, of.labels)
    if replayed:
        found += share * counted_as(True, tells, REPLAYED.x, REPLAYED.labels)
    if server:
        by_server = SERVER if replayed else first_rows(SERVER)
        _, log_p = told(tells, by_server.x)
        own = divergence(tells, SERVER.x[:4], OWN[0])
        invented = divergence(tells, by_server.x, of.x)
        label = -log_p[np.arange(len(by_server.x)), by_server.labels].mean()
        found += CONSISTENCY * (own + invented + label)
    return found


def first_rows(batch: Invented) -> Invented:
    return replace(batch, x=batch.x[:4], labels=batch.labels[:4], asked=batch.asked[:4], hidden=batch.hidden[:4])


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("server", [True, False])
def test_the_classifier_s_slopes_are_those_of_its_loss(replayed: bool, server: bool) -> None:
    invented, by_server = (INVENTED, SERVER) if replayed else (first_rows(INVENTED), first_rows(SERVER))
    slopes = GAN.teller_slopes(
        TELLS, OWN, invented, REPLAYED if replayed else None, by_server if server else None, CONSISTENCY
    )
    step = 1e-5
    for place in range(GAN.tells.n_parameters):
        moved = np.eye(GAN.tells.n_parameters)[place] * step
        losses = [teller_loss(TELLS + sign * moved, replayed=replayed, server=server) for sign in (1, -1)]
        assert slopes[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-5)


def test_the_generator_s_slopes_are_those_of_its_loss() -> None:
    slopes, step = GAN.maker_slopes(MAKES, TELLS, INVENTED), 1e-5
    for place in range(0, GAN.makes.n_parameters, 97):
        moved = np.eye(GAN.makes.n_parameters)[place] * step
        losses = [
            counted_as(True, TELLS, forward(MAKES + sign * moved, INVENTED.asked, 5, 256, 5), INVENTED.labels)
            for sign in (1, -1)
        ]
        assert slopes[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-5)


def test_consistency_that_counts_nothing_is_none_and_it_counts_in_proportion() -> None:
    def slopes(server: Invented | None, weight: float) -> np.ndarray:
        return GAN.teller_slopes(TELLS, OWN, INVENTED, REPLAYED, server, weight)

    without = slopes(None, 1.0)
    assert slopes(SERVER, 0.0) == pytest.approx(without, abs=1e-7)
    assert slopes(SERVER, 2.0) - without == pytest.approx(2 * (slopes(SERVER, 1.0) - without), abs=1e-6)
    assert np.abs(slopes(SERVER, 1.0) - without).max() > 1e-3


def test_equal_answers_are_no_distance_apart() -> None:
    """Divergence has slope zero where both sides agree, whatever is added to all logits, and none is ever infinite."""
    logits = RANDOM.standard_normal((3, 4)).astype(np.float32)
    for slopes in apart_slopes(logits, logits + 5):
        assert slopes == pytest.approx(0, abs=1e-6)
    for slopes in apart_slopes(100 * logits, -100 * logits):
        assert np.isfinite(slopes).all()


def test_clients_side_by_side_are_clients_one_by_one() -> None:
    tells = np.stack([TELLS, -TELLS])
    own = (np.stack([OWN[0], 2 * OWN[0]]), np.stack([OWN[1], OWN[1][::-1]]))
    asked = np.concatenate([own[1], np.stack([REPLAYED.labels] * 2)], axis=1)
    invented = GAN.invent(np.stack([MAKES, SERVER_MAKES]), asked, [RANDOM] * 2)
    server = GAN.invent(MAKES, asked, [RANDOM] * 2)
    again = GAN.invent(SERVER_MAKES, np.stack([REPLAYED.labels] * 2), [RANDOM] * 2)
    together = GAN.teller_slopes(tells, own, invented, again, server, 1.0)
    for place in range(2):
        first, second, third = (Invented(batch.x[place], batch.labels[place], batch.asked[place], batch.hidden[place])
                           for batch in (invented, again, server))  # fmt: skip
        found = GAN.teller_slopes(tells[place], (own[0][place], own[1][place]), first, second, third, 1.0)
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
