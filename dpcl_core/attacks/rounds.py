"""An attack on models that clients train in rounds: how far did the model go where one client would have moved it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpcl_core.attacks import play
from dpcl_core.attacks.clients import ADVERSARY
from dpcl_core.attacks.play import Floats, Game, Released, Seen
from dpcl_core.methods.base import Known
from dpcl_core.privacy.audit import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 150  # learners on each side: each must train its rounds
_N_TASKS, _N_USERS, _ROWS, _WIDTH = 2, 2, 12, 64


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """For every budget of the spec: is a client in the rounds, or does it send nothing ("replace": the opposite)?

    The attacker trains the model on the client's rows alone, without noise, and looks how far the released one went that
    way. Noise leads the rounds elsewhere, so that this proves little: rather that there is noise than how much.
    Args: trials: learners on each side.
    """
    return [play.audited(spec, epsilon, trials, game(spec)) for epsilon in spec.privacy.epsilons]


def game(spec: RunSpec) -> Game:
    """A client whose rows have every feature, as the only one of the first task or of every one."""
    random = np.random.default_rng(0)
    row = random.choice([-1.0, 1.0], _WIDTH) / math.sqrt(_WIDTH)
    rows = np.broadcast_to(row, (_ROWS, _WIDTH)).astype(np.float32)
    labels, users = np.zeros(_ROWS, np.int64), np.zeros(_ROWS, np.int64)
    nobody = Examples(rows[:0], labels[:0], users[:0])
    others = Examples(-rows, labels, users) if spec.privacy.adjacency == "replace" else nobody
    known = Known(
        n_inputs=_WIDTH,
        n_classes=2,
        public=(0, 1),
        n_people=_N_TASKS * _N_USERS * _ROWS,
        n_tasks=_N_TASKS,
        recurrence=spec.scenario.recurrence,
        n_users=_N_USERS,
    )

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        own = Examples(rows, labels, users) if side else others
        held = [own if task == 0 or known.recurrence == "every" else nobody for task in range(_N_TASKS)]
        return [Task(task, f"task {task + 1}", each, nobody, (0, 1)) for task, each in enumerate(held)]

    @lru_cache(maxsize=4096)
    def clean(seed: int) -> tuple[Floats, Floats]:
        """The model with the client, and without: both begin with the seed's own first weights."""
        with_client, without = (_flat(play.clean(spec, seed, known, tasks(seed, side))[-1]) for side in (True, False))
        return with_client, without

    def score(seed: int, seen: Released) -> Floats:
        with_client, without = clean(seed)
        return np.array([[(_flat(seen[-1]) - without) @ (with_client - without)]])

    said = "projection of the model on what training on the client alone would make of it (a client with the longest rows)"
    return Game(known, tasks, score, said, ADVERSARY)


def _flat(seen: Seen) -> Floats:
    return np.concatenate([part.astype(np.float64).ravel() for part in seen.values()])
