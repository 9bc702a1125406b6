"""Membership attack on models trained in federated rounds: projects the model's change on each client's update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.clients import ADVERSARY
from dpcl_core.attacks.play import Floats, Game, Released, Seen, digits
from dpcl_core.methods.federated.fedcil_dp import FedCilDpParams
from dpcl_core.methods.federated.params import ClippedParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 4000  # target clients on each side
_N_TASKS, _N_TARGETS, _OWN_AXES, _ROWS = 2, 16, 8, 2
_MOST_ALONE = 400  # learners on each side for methods with one target client per learner
_MOST_NATURAL = 60  # learners on each side for the client with real digits: each has only one target
_N_USERS = 3000  # public number of clients: large enough for noise to hardly move the model
_MOST_ROUNDS, _MOST_HIDDEN = 10, 8
_SEED = 0  # of the initial weights, which are public: shared by all learners, so that common parts are computed once


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on many worst-case clients, and on one client with real digits.

    A worst-case client has rows along axes of its own, so that some weights carry only its updates and noise, and steps so
    long that its update is clipped. The attacker projects the model's change in either task on the change of these weights
    by one update. Under "replace" an absent client is there with its rows negated. Uses few rounds and a small head; the
    noise is calibrated for these settings as for any. Args: trials: clients on each side.
    """
    played = short(spec)
    results = []
    for epsilon in spec.privacy.epsilons:
        longest = game(played)
        n_targets = len(longest.takes_part(0))
        n_learners = math.ceil(trials / n_targets) if n_targets > 1 else min(trials, _MOST_ALONE)
        results.append(play.audited(played, epsilon, n_learners, longest))
        results.append(play.audited(played, epsilon, min(trials, _MOST_NATURAL), of_digits(played)))
    return results


def short(spec: RunSpec) -> RunSpec:
    """The settings that are played: one local step per round, long enough to be clipped, and little computation."""
    params = spec.params
    assert isinstance(params, ClippedParams | FedCilDpParams)
    update: dict[str, float] = {
        "rounds": min(params.rounds, _MOST_ROUNDS),
        "local_steps": 1,
        "batch_size": 1,
        "learning_rate": min(10.0, max(1.0, params.clip_norm)),
        "hidden": 0,
    }
    if isinstance(params, FedCilDpParams):
        update |= {"hidden": min(params.hidden, _MOST_HIDDEN), "noise_size": 2, "consolidation_steps": 1}
    return spec.model_copy(update={"params": params.model_copy(update=update)})


def game(spec: RunSpec, n_targets: int = _N_TARGETS) -> Game:
    """A game with many clients on orthogonal axes, in the first task or in every one; a coin decides who is in.

    FedCIL has one target client: clients' synthetic samples move all weights, so no weights belong to one client alone.
    """
    n_targets = 1 if isinstance(spec.params, FedCilDpParams) else n_targets
    rows = np.repeat(np.kron(np.eye(n_targets), np.ones((1, _OWN_AXES))), _ROWS, axis=0).astype(np.float32)
    users = np.repeat(np.arange(n_targets, dtype=np.int64), _ROWS)
    return _game(spec, rows, users, users % 2, is_natural=False)


def of_digits(spec: RunSpec) -> Game:
    """A game on one client with real digits of two classes."""
    pixels, classes = digits()
    rows = np.concatenate([pixels[classes == digit][: _ROWS // 2] for digit in (0, 1)]).astype(np.float32)
    return _game(spec, rows, np.zeros(_ROWS, np.int64), np.arange(_ROWS) % 2, is_natural=True)


def _game(
    spec: RunSpec, rows: NDArray[np.float32], users: NDArray[np.int64], labels: NDArray[np.int64], *, is_natural: bool
) -> Game:
    n_targets = int(users.max()) + 1
    n_people = _N_TASKS * _N_USERS * _ROWS
    known = play.context(spec, n_inputs=rows.shape[1], n_classes=2, n_people=n_people, n_tasks=_N_TASKS)
    known = replace(known, n_users=_N_USERS)
    empty = Examples(rows[:0], labels[:0], users[:0])

    def tasks(present: NDArray[np.bool_], negated: NDArray[np.bool_]) -> Sequence[Task]:
        """Tasks of the clients in `present`, and of those in `negated` with their rows negated."""
        included = (present | negated)[users]
        targets = Examples(np.where(negated[users, None], -rows, rows)[included], labels[included], users[included])
        return play.tasks_of(targets, empty, known)

    def takes_part(seed: int) -> NDArray[np.bool_]:
        return play.coins(seed, n_targets) if n_targets > 1 else np.ones(1, np.bool_)

    def of_trial(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        return tasks(present, ~present & (spec.privacy.adjacency == "replace"))

    one_round = spec.model_copy(update={"params": spec.params.model_copy(update={"rounds": 1, "participation": 1.0})})
    none = np.zeros(n_targets, np.bool_)
    start = _flat(play.clean(one_round, _SEED, known, tasks(none, none))[0])
    models = [play.clean(one_round, _SEED, known, tasks(who, none))[0] for who in np.eye(n_targets, dtype=np.bool_)]
    changes = np.stack([_flat(model) - start for model in models])
    directions = changes - (changes.mean(axis=0) if n_targets > 1 else 0.0)  # the common part identifies no client

    def score(seed: int, seen: Released) -> Floats:
        weights = [start, *map(_flat, seen)]
        first, second = directions @ (weights[1] - weights[0]), directions @ (weights[2] - weights[1])
        return np.stack([first, first + second, first - second], axis=1)

    who = "real digits" if is_natural else "the longest update"
    how = f"how far the model went along the client's update (a client with {who})"
    return Game(known, of_trial, score, how, ADVERSARY, takes_part=takes_part, start=_SEED)


def _flat(seen: Seen) -> Floats:
    """All released weights that depend on rows, as one vector. A generator depends on labels, which many clients share."""
    return np.concatenate([part.astype(np.float64).ravel() for name, part in seen.items() if name != "generator"])
