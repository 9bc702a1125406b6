"""Games of one training with many planted records, for methods whose other audits ask about one record at a time."""

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

N_FEATURES = 1024  # of planted examples; the noise does not depend on how many there are
_CLASSES = (0, 1)
_FORM = Form((8, 8), 0.0, 1.0)  # of examples for whole networks: the smallest of these reads it
_N_NOMINAL = 100_000  # sums are divided by a public number: so large a one that weights, and with them gradients, stay
_KNOWS = "sees everything that is released, and knows every planted example"


def coefficients(spec: RunSpec) -> Game:
    """Examples with one value each that is not zero, read off the sums of features, of their products and of classes.

    Under "replace" another example of the other label is there in place of one who does not take part. Where random
    features are made of the values, these overlap: the attacker solves for all examples at once, by least squares.
    """
    is_own, is_in_every = spec.data.backbone == "pixels", spec.scenario.recurrence == "every"
    is_replaced = spec.privacy.adjacency == "replace"
    n_tasks = min(spec.scenario.tasks, TASKS_PLAYED) if is_in_every and isinstance(spec.scenario, Permuted) else 2
    n_persons = N_FEATURES // 2 if is_replaced else N_FEATURES  # there is an axis for each who may be there
    axes, labels = np.eye(N_FEATURES, dtype=np.float32), np.arange(n_persons, dtype=np.int64) % 2
    rows = axes[:n_persons], axes[-n_persons:]
    known = PublicContext(
        n_inputs=N_FEATURES, n_classes=2, public=_CLASSES, n_people=n_persons * (1 if is_in_every else n_tasks),
        n_tasks=n_tasks, form=Form((N_FEATURES,), 0.0, 1.0) if is_own else None, recurrence=spec.scenario.recurrence,
    )  # fmt: skip

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = coins(seed, n_persons) == side
        there = np.arange(n_persons) if is_replaced else np.flatnonzero(present)
        own = Examples(np.where(present[:, None], rows[0], rows[1])[there], np.where(present, labels, 1 - labels)[there])
        nobody = Examples(rows[0][:0], labels[:0])
        train = [own if task == 0 or is_in_every else nobody for task in range(n_tasks)]
        return [Task(task, f"task {task + 1}", part, nobody, _CLASSES) for task, part in enumerate(train)]

    def score(seed: int, seen: Released) -> Floats:
        read = RandomRelu(N_FEATURES, N_FEATURES, seed)
        one, other = (unit_rows(read.of(side) if is_own else side) for side in rows)
        overlap = _kernel(one, one, labels, labels)
        speaks = [_along(told, one, labels) for told in seen]
        if is_replaced:
            turned, across = 1 - labels, _kernel(one, other, labels, 1 - labels)
            inner = _kernel(other, other, turned, turned)
            # What would be there were nobody to take part is known, and taken away.
            speaks = [
                along - _along(told, other, turned) - (across - inner).sum(axis=1)
                for along, told in zip(speaks, seen, strict=True)
            ]
            overlap = overlap - across - across.T + inner
        found = np.linalg.solve(overlap, np.stack(speaks, axis=1))
        first, total = found[:, 0], found.sum(axis=1)
        return np.stack([first, total, first - found[:, 1] if n_tasks > 1 else first], axis=1)

    attack = "least squares on the sums of features and of their products (examples with one value each)"
    return Game(known, tasks, score, attack, _KNOWS, takes_part=lambda seed: coins(seed, n_persons))


def _kernel(one: Floats, other: Floats, labels: NDArray[np.int64], others: NDArray[np.int64]) -> Floats:
    """Inner products [n, m] of what examples move: features, their products as symmetric matrices, and those of a class."""
    inner = one @ other.T
    found: Floats = inner + inner**2 + inner * (labels[:, None] == others)
    return found


def _along(seen: Seen, rows: Floats, labels: NDArray[np.int64]) -> Floats:
    """Inner products [n] of released sums with what each example would move."""
    features, products, by_class = (np.asarray(seen[name], np.float64) for name in ("features", "products", "by_class"))
    found: Floats = rows @ features + ((rows @ products) * rows).sum(axis=1) + (by_class[labels] * rows).sum(axis=1)
    return found


def labels_apart(spec: RunSpec, n_persons: int) -> Game:
    """Examples of labels of their own in one training of a whole network by DP-A-GEM; under "replace" with another label.

    Their clipped gradients are nearly at right angles, mostly in their own rows of the last layer. The attacker projects how
    far the weights have moved on the gradient at the weights before.
    """
    assert isinstance(spec.params, DpAgemParams)
    drawn = np.random.default_rng(0).standard_normal((n_persons, 64)) * 8 * max(1.0, spec.params.clip_norm)
    rows, labels = drawn.astype(np.float32), np.arange(n_persons, dtype=np.int64)
    changed, clip_norm = np.roll(labels, 1), spec.params.clip_norm
    is_replaced = spec.privacy.adjacency == "replace"
    public = tuple(range(n_persons))
    known = PublicContext(n_inputs=64, n_classes=n_persons, public=public, n_people=_N_NOMINAL, n_tasks=1, form=_FORM)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = coins(seed, n_persons) == side
        there = np.arange(n_persons) if is_replaced else np.flatnonzero(present)
        own = Examples(rows, np.where(present, labels, changed)[there], rows=there)
        return [Task(0, "task 1", own, own, public)]

    def score(seed: int, seen: Released) -> Floats:
        start = nets.build(_FORM, n_persons, seed)
        before = nets.released(start)
        ways = [np.asarray(before[name], np.float64) - np.asarray(seen[0][name], np.float64) for name in before]
        moved = torch.from_numpy(np.concatenate([way.ravel() for way in ways]))
        clipped, inputs, columns = Gradients(start, clip_norm), nets.tensor(rows, _FORM), torch.arange(n_persons)

        def along(place: int, label: int) -> float:
            parts = clipped.of(inputs[[place]], torch.tensor([label]), columns)
            return float(torch.cat([part.flatten() for part in parts]).double() @ moved)

        speaks = [along(n, n) - (along(n, int(changed[n])) if is_replaced else 0.0) for n in range(n_persons)]
        return np.array(speaks)[:, None]

    attack = "how far the weights moved along the example's gradient (examples with labels of their own)"
    return Game(known, tasks, score, attack, _KNOWS, takes_part=lambda seed: coins(seed, n_persons))
