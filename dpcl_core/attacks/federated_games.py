"""Membership games on federated methods: a client's contribution to released sums, lists and models.

The attacker knows what a client would send: he runs the learner without noise himself. One run has many target clients, each
with rows of a label, or on axes, that no other client has.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import catalog, play
from dpcl_core.attacks.play import Floats, Game, Released, Seen, digits
from dpcl_core.methods.common.method import settings_of
from dpcl_core.methods.common.stream_noise import remembers
from dpcl_core.methods.federated import fedcil_dp, matchers
from dpcl_core.methods.federated.params import ClippedParams, RehearsalParams, ReleaseParams, RoundParams, ServerParams
from dpcl_core.privacy.continual import choose
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec, updated

N_CLIENTS = 1000  # planted clients, each with a label that no other client has
N_IN_ROUNDS = 200  # planted clients in rounds of training
_N_TASKS = 2
_STREAM = 5  # as many tasks does the attacker watch where one costs little
_ADVERSARY = (
    "sees all that is released after each task, and knows what every other client sends and what the one in question would"
)

# Released sums and lists.


_N_TARGETS, _ROWS, _N_PUBLIC = 100, 12, 300


def _cheaper(spec: RunSpec, anchors: NDArray[np.float32]) -> RunSpec:
    """The settings with minimal training of the head and without the simulator's view of lists.

    Neither matters for the audit: a server's head reads released numbers only, and client updates are clipped and noised
    whatever their training. Sets the radius that follows from the public points, which every learner would otherwise
    compute again.
    """
    params = settings_of(spec, ReleaseParams)
    radius = matchers.PublicEmbeddings.of(anchors, 0, params.dimensions, params.radius).view.radius
    update: dict[str, float | int] = {"radius": radius}
    if isinstance(params, ServerParams):
        update |= {"steps": 1, "samples": 1, "hidden": 0}
    if isinstance(params, RoundParams):
        update |= {"local_steps": 1, "batch_size": 1, "hidden": 0}
    if isinstance(params, RehearsalParams):
        update |= {"samples": 1}
    return replace(spec, params=updated(params, **update), data=replace(spec.data, dataset="own:audit"))


def release_game(spec: RunSpec, epsilon: float, *, is_natural: bool, n_targets: int = _N_TARGETS) -> Game:
    """The game on clients' vectors or lists: their statistics reach the clipping norm, or their rows are real digits.

    A fair coin decides whether each is in, or under "replace" sends the opposite.
    Each target client has rows of one label of its own. For lists that clients noise themselves all have the same label,
    because each list is a separate release.
    """
    params, is_own = settings_of(spec, ReleaseParams), spec.method == "local-list"
    n_targets = 10 if is_natural else 1 if params.slots == "even" and not is_own else n_targets
    n_labels = 1 if is_own else n_targets
    rows, other, anchors = _digits() if is_natural else _extreme(n_targets, max(24, params.dimensions + 1))
    spec, width = _cheaper(spec, anchors), anchors.shape[1]
    n_tasks = _STREAM if spec.method == "label-means" else _N_TASKS
    n_people, takes_part = n_tasks * n_targets * _ROWS, partial(play.coins, n=n_targets)
    known = play.context(spec, n_inputs=width, n_classes=n_labels, n_people=n_people, n_tasks=n_tasks)
    known = replace(known, n_users=2 * n_targets, anchors=anchors)
    empty = Examples(np.zeros((0, width), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def tasks(present: NDArray[np.bool_]) -> Sequence[Task]:
        """Tasks of the clients that are present and of the replacements, if any, of the others; client i has label i."""
        sent = np.where(present[:, None, None], rows, other)
        included = np.arange(n_targets) if spec.privacy.adjacency == "replace" else np.flatnonzero(present)
        users = np.repeat(included, rows.shape[1])
        return play.stream(Examples(sent[included].reshape(-1, width), users % n_labels, users), empty, known)

    @lru_cache(maxsize=4096)
    def directions(seed: int) -> list[Floats]:
        """Effect of each target client on the releases, task by task [targets, D]: all clients minus none, without noise."""
        clean = [play.clean(spec, seed, known, tasks(np.full(n_targets, present, np.bool_))) for present in (True, False)]
        return [_parts(one, n_targets) - _parts(other, n_targets) for one, other in zip(*clean, strict=True)]

    def score(seed: int, seen: Released) -> Floats:
        effects, parts = np.stack(directions(seed)), np.stack([_parts(one, n_targets) for one in seen])
        newest = (parts * effects).sum(axis=2)
        if remembers(spec):  # what is seen is running sums, of which the releases are read off
            of = choose(n_tasks).factorisation
            parts, effects = np.stack(of.releases(list(parts))), np.stack(of.releases(list(effects)))
        # Without a person in it a release tells nothing, but it might reuse the first one's noise.
        along = np.where(effects.any(axis=2, keepdims=True), effects, effects[0])
        return play.watched((parts * effects).sum(axis=2), (parts * along).sum(axis=2), newest)

    who, sent = "real digits" if is_natural else "the longest vector", "list" if is_own else "vector"
    attack = f"projection of what was released on the client's own {sent} (a client with {who})"
    streams = lambda seed, side: tasks(takes_part(seed) == side)  # noqa: E731
    return Game(spec, known, streams, score, attack, _ADVERSARY, takes_part=takes_part, planted="clients", raced=n_tasks)


def _parts(seen: Seen, n_targets: int) -> Floats:
    """Each target client's part of a release [targets, D]: its label's entries in the sums, or its own list."""
    return (seen["sums"] if "sums" in seen else seen["means"][:n_targets]).astype(np.float64).reshape(n_targets, -1)


def _extreme(n: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Rows [n, rows, width] of clients at one end of the first public axis, of clients at the other, and public points."""
    public = np.random.default_rng(0).standard_normal((_N_PUBLIC, width)) * np.where(np.arange(width) == 0, 0.3, 0.1)
    public[:, -1] += 1.0  # all near one point of the sphere, the first axis the widest
    rows = np.broadcast_to(np.eye(width)[0], (n, _ROWS, width)).astype(np.float32)
    return rows, -rows, public.astype(np.float32)


@lru_cache(maxsize=1)
def _digits() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Rows [10, rows, 64] of clients with one digit each, of clients with the next digit, and public rows of all digits."""
    pixels, label = digits()
    rows = np.stack([pixels[label == digit][:_ROWS] for digit in range(10)])
    public = np.concatenate([pixels[label == digit][_ROWS : _ROWS + _N_PUBLIC // 10] for digit in range(10)])
    return rows, np.roll(rows, 1, axis=0), public


# Models trained in rounds.


_N_IN_MODEL, _OWN_AXES, _OWN_ROWS = 16, 8, 2
_MOST_ALONE = 400  # learners on each side for methods with one target client per learner
_MOST_NATURAL = 60  # learners on each side for the client with real digits: each has only one target
_N_USERS = 3000  # public number of clients: large enough for noise to hardly move the model
_MOST_ROUNDS, _MOST_HIDDEN = 10, 8


def natural_round_game(spec: RunSpec, epsilon: float) -> Game:
    """A game on one client with real digits."""
    pixels, classes = digits()
    rows = np.concatenate([pixels[classes == digit][: _OWN_ROWS // 2] for digit in (0, 1)])
    return replace(_round_game(spec, rows, np.arange(_OWN_ROWS) % 2, 1, "real digits"), most=_MOST_NATURAL)


def round_game(spec: RunSpec, epsilon: float, n_targets: int = _N_IN_MODEL) -> Game:
    """A game with many clients on orthogonal axes, in the first task or in every one; a coin decides who is in.

    A worst-case client has rows along axes of its own, so that some weights carry only its updates and noise, and steps so
    long that its update is clipped. The attacker projects the model's change in either task on the change of these weights
    by one update. Under "replace" an absent client is there with its rows negated. Uses few rounds and a small head; the
    noise is calibrated for these settings as for any.
    FedCIL has one target client: clients' synthetic samples move all weights, so no weights belong to one client alone.
    """
    n_targets = 1 if isinstance(spec.params, fedcil_dp.FedCilDpParams) else n_targets
    rows = np.repeat(np.kron(np.eye(n_targets), np.ones((1, _OWN_AXES))), _OWN_ROWS, axis=0)
    return _round_game(spec, rows, np.repeat(np.arange(n_targets), _OWN_ROWS) % 2, n_targets, "the longest update")


def _short(spec: RunSpec) -> RunSpec:
    """The settings that are played: one local step per round, long enough to be clipped, and little computation."""
    params = spec.params
    assert isinstance(params, ClippedParams | fedcil_dp.FedCilDpParams)
    update: dict[str, float] = {
        "rounds": min(params.rounds, _MOST_ROUNDS),
        "local_steps": 1,
        "batch_size": 1,
        "learning_rate": min(10.0, max(1.0, params.clip_norm)),
        "hidden": 0,
    }
    if isinstance(params, fedcil_dp.FedCilDpParams):
        update |= {"hidden": min(params.hidden, _MOST_HIDDEN), "noise_size": 2, "consolidation_steps": 1}
    return replace(spec, params=updated(params, **update))


def _round_game(spec: RunSpec, values: NDArray[np.floating], labels: NDArray[np.int64], n_targets: int, who: str) -> Game:
    """The game on clients with two of these rows each."""
    spec, rows, users = _short(spec), values.astype(np.float32), np.repeat(np.arange(n_targets), _OWN_ROWS)
    n_people = _N_TASKS * _N_USERS * _OWN_ROWS
    known = play.context(spec, n_inputs=rows.shape[1], n_classes=2, n_people=n_people, n_tasks=_N_TASKS)
    known = replace(known, n_users=_N_USERS)
    empty = Examples(rows[:0], labels[:0], users[:0])

    def tasks(present: NDArray[np.bool_], negated: NDArray[np.bool_]) -> Sequence[Task]:
        """Tasks of the clients in `present`, and of those in `negated` with their rows negated."""
        included = (present | negated)[users]
        targets = Examples(np.where(negated[users, None], -rows, rows)[included], labels[included], users[included])
        return play.stream(targets, empty, known)

    def takes_part(seed: int) -> NDArray[np.bool_]:
        return play.coins(seed, n_targets) if n_targets > 1 else np.ones(1, np.bool_)

    def streams(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        return tasks(present, ~present & (spec.privacy.adjacency == "replace"))

    one_round = replace(spec, params=updated(spec.params, rounds=1, participation=1.0))
    none = np.zeros(n_targets, np.bool_)
    start = _flat(play.clean(one_round, play.START, known, tasks(none, none))[0])
    models = [play.clean(one_round, play.START, known, tasks(who, none))[0] for who in np.eye(n_targets, dtype=np.bool_)]
    changes = np.stack([_flat(model) - start for model in models])
    directions = changes - (changes.mean(axis=0) if n_targets > 1 else 0.0)  # the common part identifies no client

    def score(seed: int, seen: Released) -> Floats:
        weights = [start, *map(_flat, seen)]
        first, second = directions @ (weights[1] - weights[0]), directions @ (weights[2] - weights[1])
        return np.stack([first, first + second, first - second], axis=1)

    return Game(
        spec, known, streams, score, f"how far the model went along the client's update (a client with {who})", _ADVERSARY,
        takes_part=takes_part, start=play.START, most=_MOST_ALONE if n_targets == 1 else None, planted="clients",
    )  # fmt: skip


def _flat(seen: Seen) -> Floats:
    """All released weights that depend on rows, as one vector. A generator depends on labels, which many clients share."""
    return np.concatenate([part.astype(np.float64).ravel() for name, part in seen.items() if name != "generator"])


_PLANTED = partial(release_game, is_natural=False, n_targets=N_CLIENTS)
_RELEASES = catalog.Audit({"learner": play.worst_and_natural(release_game)}, trials=6000, planted=_PLANTED)
_ROUNDS = catalog.Audit({"learner": play.through_learner(round_game, natural_round_game)}, trials=4000)
AUDITS = {
    **dict.fromkeys(("cslr-server-head", "cslr-central", "dp-stat-share", "label-means", "local-list"), _RELEASES),
    "dp-fedavg": replace(_ROUNDS, planted=lambda spec, epsilon: round_game(spec, epsilon, N_IN_ROUNDS)),
    "fedcil-dp": _ROUNDS,
}
