"""Membership attacks on federated methods: detects a client's contribution in the learner's releases.

The attacker knows what a client would send: he runs the learner without noise himself. One run has many target clients, each
with rows of a label that no other client has, so that each has its own entries in the sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released, digits
from dpcl_core.methods.federated.matchers import PublicEmbeddings
from dpcl_core.methods.federated.params import RehearsalParams, ReleaseParams, RoundParams, ServerParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 6000  # target clients on each side
_N_TASKS, _N_TARGETS, _ROWS, _N_PUBLIC = 2, 100, 12, 300
ADVERSARY = (
    "sees all that is released after each task, and knows what every other client sends and what the one in question would"
)


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two attacks for every budget of the spec: on clients whose statistics reach the clipping norm, and on clients with
    real digits.

    Args: trials: target clients on each side; a fair coin decides whether each is in, or under "replace" sends the opposite.
    """
    results = []
    for epsilon in spec.privacy.epsilons:
        for is_natural in (False, True):
            played, chosen = game(spec, is_natural=is_natural)
            n_learners = math.ceil(trials / len(chosen.takes_part(0)))
            results.append(play.audited(played, epsilon, n_learners, chosen))
    return results


def _cheaper(spec: RunSpec, anchors: NDArray[np.float32]) -> RunSpec:
    """The same settings with minimal training of the head and without the simulator's view of lists.

    Neither matters for the audit: a server's head reads released numbers only, and client updates are clipped and noised
    whatever their training. Sets the radius that follows from the public points, which every learner would otherwise
    compute again.
    """
    params = spec.params
    assert isinstance(params, ReleaseParams)
    radius = PublicEmbeddings.of(anchors, 0, params.dimensions, params.radius).view.radius
    update: dict[str, float | int] = {"radius": radius}
    if isinstance(params, ServerParams):
        update |= {"steps": 1, "samples": 1, "hidden": 0}
    if isinstance(params, RoundParams):
        update |= {"local_steps": 1, "batch_size": 1, "hidden": 0}
    if isinstance(params, RehearsalParams):
        update |= {"samples": 1}
    unseen = spec.data.model_copy(update={"dataset": "own:audit"})
    return spec.model_copy(update={"params": params.model_copy(update=update), "data": unseen})


def game(spec: RunSpec, *, is_natural: bool, n_targets: int = _N_TARGETS) -> tuple[RunSpec, Game]:
    """The settings that are played, and the game on clients' vectors or lists.

    Each target client has rows of one label of its own. For lists that clients noise themselves all have the same label,
    because each list is a separate release.
    """
    params = spec.params
    assert isinstance(params, ReleaseParams)
    is_own = spec.method == "local-list"
    n_targets = 10 if is_natural else 1 if params.slots == "even" and not is_own else n_targets
    n_labels = 1 if is_own else n_targets
    rows, other, anchors = _digits() if is_natural else _extreme(n_targets, max(24, params.dimensions + 1))
    played = _cheaper(spec, anchors)
    sides = {True: rows, False: other if spec.privacy.adjacency == "replace" else None}
    n_inputs, n_people, coins = anchors.shape[1], _N_TASKS * n_targets * _ROWS, partial(play.coins, n=n_targets)
    known = play.context(spec, n_inputs=n_inputs, n_classes=n_labels, n_people=n_people, n_tasks=_N_TASKS)
    known = replace(known, n_users=2 * n_targets, anchors=anchors)

    def tasks(present: NDArray[np.bool_]) -> Sequence[Task]:
        empty = Examples(np.zeros((0, known.n_inputs)), np.zeros(0, np.int64), np.zeros(0, np.int64))
        return play.tasks_of(_held(sides, present, n_labels), empty, known)

    @lru_cache(maxsize=4096)
    def directions(seed: int) -> list[Floats]:
        """Effect of each target client on the releases, task by task [targets, D]: all clients minus none, without noise."""
        clean = [play.clean(played, seed, known, tasks(np.full(n_targets, present, np.bool_))) for present in (True, False)]
        return [_parts(one, n_targets) - _parts(other, n_targets) for one, other in zip(*clean, strict=True)]

    def score(seed: int, seen: Released) -> Floats:
        effects = directions(seed)
        if spec.scenario.recurrence == "once":  # the second task has no targets, but it might reuse the first's noise
            effects[1] = effects[0]
        first, second = ((_parts(one, n_targets) * v).sum(axis=1) for one, v in zip(seen, effects, strict=True))
        return np.stack([first, first + second, first - second], axis=1)

    who = "real digits" if is_natural else "the longest vector"
    sent = "list" if is_own else "vector"
    return played, Game(
        known,
        lambda seed, side: tasks(coins(seed) == side),
        score,
        f"projection of what was released on the client's own {sent} (a client with {who})",
        ADVERSARY,
        takes_part=coins,
    )


def _held(sides: dict[bool, NDArray[np.float32] | None], present: NDArray[np.bool_], n_labels: int) -> Examples:
    """Rows of the clients that are present and of the replacements, if any, of the others; client i has label i."""
    chosen = [(client, sides[bool(is_present)]) for client, is_present in enumerate(present)]
    held = [(client, rows[client]) for client, rows in chosen if rows is not None]
    width = next(rows.shape[2] for rows in sides.values() if rows is not None)
    table = np.concatenate([np.zeros((0, width), np.float32), *(rows for _, rows in held)])
    users = np.repeat(np.array([client for client, _ in held], dtype=np.int64), [len(rows) for _, rows in held])
    return Examples(table, users % n_labels, users)


def _parts(seen: play.Seen, n_targets: int) -> Floats:
    """Each target client's part of a release [targets, D]: its label's entries in the sums, or its own list."""
    if "sums" in seen:
        return seen["sums"].astype(np.float64).reshape(n_targets, -1)
    return seen["means"][:n_targets].astype(np.float64).reshape(n_targets, -1)


def _extreme(n: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Rows [n, rows, width] of clients at one end of the first public axis, of clients at the other, and public points."""
    random = np.random.default_rng(0)
    public = random.standard_normal((_N_PUBLIC, width)) * np.where(np.arange(width) == 0, 0.3, 0.1)
    public[:, -1] += 1.0  # all near one point of the sphere, the first axis the widest
    end = np.zeros(width)
    end[0] = 1.0
    rows = np.broadcast_to(end, (n, _ROWS, width)).astype(np.float32)
    return rows, -rows, public.astype(np.float32)


@lru_cache(maxsize=1)
def _digits() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Rows [10, rows, 64] of clients with one digit each, of clients with the next digit, and public rows of all digits."""
    pixels, label = digits()
    rows = np.stack([pixels[label == digit][:_ROWS] for digit in range(10)])
    public = np.concatenate([pixels[label == digit][_ROWS : _ROWS + _N_PUBLIC // 10] for digit in range(10)])
    return rows, np.roll(rows, 1, axis=0), public
