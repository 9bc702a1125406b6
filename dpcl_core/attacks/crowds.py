"""Games with many planted records in one training, for methods whose other audits test one record at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks.coefficients import TASKS_PLAYED
from dpcl_core.attacks.play import Floats, Game, Released, Seen, coins
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.per_example_gradients import Gradients
from dpcl_core.methods.lifelong import nets
from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.methods.lifelong.public_features import RandomRelu
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

N_FEATURES = 1024  # of planted examples; the noise does not depend on the number of features
_CLASSES = (0, 1)
_FORM = Form((8, 8), 0.0, 1.0)  # of examples for whole networks: the smallest network's input
_N_NOMINAL = 100_000  # public divisor of sums: large enough for the weights, and so the gradients, to hardly change
_KNOWS = "sees everything that is released, and knows every planted example"


def coefficients(spec: RunSpec) -> Game:
    """A game on the coefficient memory with one-hot examples, read off the sums of features, products and classes.

    Under "replace" an example of the other label takes the place of one that does not take part. If the learner computes
    random features of the values, these overlap: the attacker solves for all examples at once, by least squares.
    """
    is_own, is_in_every = spec.data.backbone == "pixels", spec.scenario.recurrence == "every"
    is_replaced = spec.privacy.adjacency == "replace"
    n_tasks = min(spec.scenario.tasks, TASKS_PLAYED) if is_in_every and isinstance(spec.scenario, Permuted) else 2
    n_persons = N_FEATURES // 2 if is_replaced else N_FEATURES  # an axis for each person and each replacement
    axes, labels = np.eye(N_FEATURES, dtype=np.float32), np.arange(n_persons, dtype=np.int64) % 2
    rows = axes[:n_persons], axes[-n_persons:]
    known = PublicContext(
        n_inputs=N_FEATURES, n_classes=2, public=_CLASSES, n_people=n_persons * (1 if is_in_every else n_tasks),
        n_tasks=n_tasks, form=Form((N_FEATURES,), 0.0, 1.0) if is_own else None, recurrence=spec.scenario.recurrence,
    )  # fmt: skip

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = coins(seed, n_persons) == side
        kept = np.arange(n_persons) if is_replaced else np.flatnonzero(present)
        targets = Examples(np.where(present[:, None], rows[0], rows[1])[kept], np.where(present, labels, 1 - labels)[kept])
        empty = Examples(rows[0][:0], labels[:0])
        train = [targets if task == 0 or is_in_every else empty for task in range(n_tasks)]
        return [Task(task, f"task {task + 1}", part, empty, _CLASSES) for task, part in enumerate(train)]

    def score(seed: int, seen: Released) -> Floats:
        read = RandomRelu(N_FEATURES, N_FEATURES, seed)
        one, other = (unit_rows(read.of(side) if is_own else side) for side in rows)
        overlap = _kernel(one, one, labels, labels)
        evidence = [_projections(release, one, labels) for release in seen]
        if is_replaced:
            swapped, across = 1 - labels, _kernel(one, other, labels, 1 - labels)
            inner = _kernel(other, other, swapped, swapped)
            # Subtracts the sums of all replacements, which the attacker knows.
            evidence = [
                projection - _projections(release, other, swapped) - (across - inner).sum(axis=1)
                for projection, release in zip(evidence, seen, strict=True)
            ]
            overlap = overlap - across - across.T + inner
        solved = np.linalg.solve(overlap, np.stack(evidence, axis=1))
        first, total = solved[:, 0], solved.sum(axis=1)
        return np.stack([first, total, first - solved[:, 1] if n_tasks > 1 else first], axis=1)

    attack = "least squares on the sums of features and of their products (examples with one value each)"
    return Game(known, tasks, score, attack, _KNOWS, takes_part=lambda seed: coins(seed, n_persons))


def _kernel(one: Floats, other: Floats, labels: NDArray[np.int64], others: NDArray[np.int64]) -> Floats:
    """Inner products [n, m] of the examples' contributions to the sums of features, products (symmetric) and classes."""
    inner = one @ other.T
    kernel: Floats = inner + inner**2 + inner * (labels[:, None] == others)
    return kernel


def _projections(seen: Seen, rows: Floats, labels: NDArray[np.int64]) -> Floats:
    """Inner products [n] of released sums with each example's contribution."""
    features, products, by_class = (np.asarray(seen[name], np.float64) for name in ("features", "products", "by_class"))
    projections: Floats = rows @ features + ((rows @ products) * rows).sum(axis=1) + (by_class[labels] * rows).sum(axis=1)
    return projections


def distinct_labels(spec: RunSpec, n_persons: int) -> Game:
    """A game on one DP-A-GEM training with many examples of distinct labels; under "replace" absent ones get another label.

    Their clipped gradients are nearly orthogonal, mostly in their own rows of the last layer. The attacker projects the
    change of the weights on the gradient at the initial weights.
    """
    assert isinstance(spec.params, DpAgemParams)
    features = np.random.default_rng(0).standard_normal((n_persons, 64)) * 8 * max(1.0, spec.params.clip_norm)
    rows, labels = features.astype(np.float32), np.arange(n_persons, dtype=np.int64)
    changed, clip_norm = np.roll(labels, 1), spec.params.clip_norm
    is_replaced = spec.privacy.adjacency == "replace"
    public = tuple(range(n_persons))
    known = PublicContext(n_inputs=64, n_classes=n_persons, public=public, n_people=_N_NOMINAL, n_tasks=1, form=_FORM)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = coins(seed, n_persons) == side
        included = np.arange(n_persons) if is_replaced else np.flatnonzero(present)
        targets = Examples(rows, np.where(present, labels, changed)[included], rows=included)
        return [Task(0, "task 1", targets, targets, public)]

    def score(seed: int, seen: Released) -> Floats:
        start = nets.build(_FORM, n_persons, seed)
        before = nets.released(start)
        changes = [np.asarray(before[name], np.float64) - np.asarray(seen[0][name], np.float64) for name in before]
        flat_change = torch.from_numpy(np.concatenate([change.ravel() for change in changes]))
        clipped, inputs, columns = Gradients(start, clip_norm), nets.tensor(rows, _FORM), torch.arange(n_persons)

        def projection(place: int, label: int) -> float:
            parts = clipped.of(inputs[[place]], torch.tensor([label]), columns)
            return float(torch.cat([part.flatten() for part in parts]).double() @ flat_change)

        evidence = [projection(n, n) - (projection(n, int(changed[n])) if is_replaced else 0.0) for n in range(n_persons)]
        return np.array(evidence)[:, None]

    attack = "how far the weights moved along the example's gradient (examples with labels of their own)"
    return Game(known, tasks, score, attack, _KNOWS, takes_part=lambda seed: coins(seed, n_persons))
