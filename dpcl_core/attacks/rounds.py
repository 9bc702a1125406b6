"""An attack on models that clients train in rounds: how far did the model go where each of many clients moves it?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.clients import ADVERSARY
from dpcl_core.attacks.play import Floats, Game, Released, Seen
from dpcl_core.attacks.public import digits
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.cards.fedcil_dp import FedCilDpParams
from dpcl_core.methods.federated.cards.federated_params import ClippedParams
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 4000  # clients asked about, on each side
_N_TASKS, _N_ASKED, _OWN_AXES, _ROWS = 2, 16, 8, 2
_MOST_ALONE = 400  # learners on each side where each can be asked about one client alone
_MOST_NATURAL = 60  # learners on each side with the client of real digits in question, of whom each asks about one alone
_N_USERS = 3000  # the public number of clients: so large a one that noise leads a model nowhere else
_MOST_ROUNDS, _MOST_HIDDEN = 10, 8
_SEED = 0  # of the first weights, which are public: what is the same for all learners is worked out once


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """For every budget of the spec, two attacks: which of many worst-case clients are in the rounds; and one of real digits?

    A worst-case client has rows along axes of its own, so that weights of its own carry its updates and noise, and nobody
    else's; and steps so long that its update is clipped. The attacker projects the way that the model went in either task on
    what one update changes of these weights. Under "replace" the same client is there with its rows turned round. Played
    with few rounds and a small head, for which the noise is worked out as for any. Args: trials: clients on each side.
    """
    played = short(spec)
    found = []
    for epsilon in spec.privacy.epsilons:
        longest = game(played)
        n_asked = len(longest.takes_part(0))
        n_learners = math.ceil(trials / n_asked) if n_asked > 1 else min(trials, _MOST_ALONE)
        found.append(play.audited(played, epsilon, n_learners, longest))
        found.append(play.audited(played, epsilon, min(trials, _MOST_NATURAL), of_digits(played)))
    return found


def short(spec: RunSpec) -> RunSpec:
    """The settings that are played: one local step a round, as long as it may be, and little to compute."""
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


def game(spec: RunSpec, n_asked: int = _N_ASKED) -> Game:
    """Clients along axes of their own, in the first task or in every one; who is there is tossed. Of FedCIL there is one:
    what clients invent moves all weights of all of them, so that no weights are a client's own.
    """
    n_asked = 1 if isinstance(spec.params, FedCilDpParams) else n_asked
    rows = np.repeat(np.kron(np.eye(n_asked), np.ones((1, _OWN_AXES))), _ROWS, axis=0).astype(np.float32)
    users = np.repeat(np.arange(n_asked, dtype=np.int64), _ROWS)
    return _game(spec, rows, users, users % 2, is_natural=False)


def of_digits(spec: RunSpec) -> Game:
    """A client who holds real digits of two classes, alone."""
    pixels, named = digits()
    rows = np.concatenate([pixels[named == digit][: _ROWS // 2] for digit in (0, 1)]).astype(np.float32)
    return _game(spec, rows, np.zeros(_ROWS, np.int64), np.arange(_ROWS) % 2, is_natural=True)


def _game(
    spec: RunSpec, rows: NDArray[np.float32], users: NDArray[np.int64], labels: NDArray[np.int64], *, is_natural: bool
) -> Game:
    n_asked = int(users.max()) + 1
    known = PublicContext(
        n_inputs=rows.shape[1],
        n_classes=2,
        public=(0, 1),
        n_people=_N_TASKS * _N_USERS * _ROWS,
        n_tasks=_N_TASKS,
        recurrence=spec.scenario.recurrence,
        n_users=_N_USERS,
    )
    nobody = Examples(rows[:0], labels[:0], users[:0])

    def tasks(present: NDArray[np.bool_], turned: NDArray[np.bool_]) -> Sequence[Task]:
        """Of clients who are there, some with their rows turned round."""
        there = (present | turned)[users]
        own = Examples(np.where(turned[users, None], -rows, rows)[there], labels[there], users[there])
        held = [own if task == 0 or known.recurrence == "every" else nobody for task in range(_N_TASKS)]
        return [Task(task, f"task {task + 1}", each, nobody, (0, 1)) for task, each in enumerate(held)]

    def takes_part(seed: int) -> NDArray[np.bool_]:
        return play.coins(seed, n_asked) if n_asked > 1 else np.ones(1, np.bool_)

    def of_trial(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        return tasks(present, ~present & (spec.privacy.adjacency == "replace"))

    one_round = spec.model_copy(update={"params": spec.params.model_copy(update={"rounds": 1, "participation": 1.0})})
    none = np.zeros(n_asked, np.bool_)
    start = _flat(play.clean(one_round, _SEED, known, tasks(none, none))[0])
    alone = [play.clean(one_round, _SEED, known, tasks(who, none))[0] for who in np.eye(n_asked, dtype=np.bool_)]
    moved = np.stack([_flat(model) - start for model in alone])
    directions = moved - (moved.mean(axis=0) if n_asked > 1 else 0.0)  # what all of them do tells of nobody

    def score(seed: int, seen: Released) -> Floats:
        at = [start, *map(_flat, seen)]
        first, second = directions @ (at[1] - at[0]), directions @ (at[2] - at[1])
        return np.stack([first, first + second, first - second], axis=1)

    who = "real digits" if is_natural else "the longest update"
    how = f"how far the model went along the client's update (a client with {who})"
    return Game(known, of_trial, score, how, ADVERSARY, takes_part=takes_part, start=_SEED)


def _flat(seen: Seen) -> Floats:
    """What tells rows from one another, in one row. A generator learns of labels, which many clients share."""
    return np.concatenate([part.astype(np.float64).ravel() for name, part in seen.items() if name != "generator"])
