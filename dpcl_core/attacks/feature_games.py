"""Membership games on classifiers of features: DP cosine sums, last layers and adapters trained by DP-SGD.

Each method has a worst-case game, with many persons in one training where they do not disturb each other, and a game on a
real digit. Adapters are attacked on the bundled network: noise, clipping and ledger are the same for every network. What
needs torch imports it late: cosine sums and last layers need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.catalog import Audit
from dpcl_core.attacks.play import Floats, Game, Released, Seen, digits
from dpcl_core.backbones.later import adaptable, torch
from dpcl_core.data import catalog as datasets
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.common.stream_noise import remembers
from dpcl_core.methods.features.params import PeftParams
from dpcl_core.privacy.continual import choose
from dpcl_core.privacy.labels import people_to_be_named
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import RunSpec, updated

if TYPE_CHECKING:
    from dpcl_core.methods.features.adapters import Adapted

N_PERSONS = 2048  # planted examples, each along an axis that no other features use
N_PICTURES = 2048  # planted pictures for adapters, each with a label that nobody else has
_N_TASKS, _MOST_KNOWN = 2, 20_000
STEP = 1e-4  # learning rate of a step that is read backwards: so short that all later gradients are as the first ones


def _crowd_labels(spec: RunSpec, epsilon: float, n_tasks: int = _N_TASKS) -> NDArray[np.int64]:
    """Labels 0 and 1 in turn of the examples known to the attacker, enough of each for a learned list to include it."""
    n_known = 20
    if spec.labels == "dp-learned":
        needed = people_to_be_named(spec.privacy, epsilon, n_tasks, _MOST_KNOWN // 4)
        n_known = n_known if needed is None else max(n_known, 4 * needed)
    return np.arange(n_known, dtype=np.int64) % 2


# The DP cosine classifier: one example in the released class sums.


_COSINE_CLASSES, _N_FEATURES, _STREAM = (0, 1, 2), 16, 5  # as many tasks does the attacker watch
_COSINE_ADVERSARY = "sees everything that is released after each task, knows every other example and the example in question"


def cosine_game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """The game on a worst-case example, or on a real digit.

    The neighbours: tasks of known examples, and the same with one more example whose label occurs nowhere else (under
    "replace" its features change sign, or its label is one that the others have). If people recur, the example is in every
    task. The attacker projects each task's released sums, and their difference, on the example's own contribution; if the
    label list is read from the data, he only checks whether the label is in it. A learned list would omit a unique label, so
    there the example shares its label with enough others for it to be listed.
    """
    is_read = spec.labels == "data"
    crowd, pair = _cosine_examples(spec, epsilon, is_natural=is_natural)
    n_people, n_inputs = _STREAM * (len(crowd) + 1), crowd.table.shape[1]
    n_classes = len(_COSINE_CLASSES)
    known = play.context(spec, n_inputs=n_inputs, n_classes=n_classes, n_people=n_people, n_tasks=_STREAM)
    direction, units = np.zeros((n_classes, n_inputs)), unit_rows(pair.table)  # the person's effect on the clean sums
    direction[pair.labels[0]] += units[0]
    if spec.privacy.adjacency == "replace":
        direction[pair.labels[1]] -= units[1]

    def score(seed: int, seen: Released) -> Floats:
        if is_read:
            return np.array([[float(seen[0]["labels"][pair.labels[0]])]])
        return _evidence(spec, [(np.asarray(one["sums"], dtype=np.float64) * direction).sum()[None] for one in seen])

    example = "a real digit" if is_natural else "a worst-case example"
    how = "is its label in the list?" if is_read else "projection of the sums on the example"
    streams = play.one_person(spec, known, crowd, pair)
    raced = 0 if is_read else _STREAM
    return Game(spec, known, streams, score, f"{how} ({example})", _COSINE_ADVERSARY, is_gaussian=not is_read, raced=raced)


def _evidence(spec: RunSpec, running: Sequence[Floats]) -> Floats:
    """Scores (`play.watched`) from the running sums [n] along each person's own effect, after each task.

    Fresh noise: a person is in the first task's release alone, or in each. Remembered noise: she is in every release after
    the first task, too, each of mean the weight of that task in it. A running sum alone is what the newest model shows.
    """
    is_there = np.arange(len(running)) == 0
    weights = np.ones(len(running)) if spec.scenario.recurrence == "every" else is_there.astype(np.float64)
    released = np.diff(np.stack(running), axis=0, prepend=0.0)
    if remembers(spec):
        of = choose(len(running)).factorisation
        weights, released = of.column, np.stack(of.releases(running))
    return play.watched(weights[:, None] * released, released, np.stack(running))


def _cosine_examples(spec: RunSpec, epsilon: float, *, is_natural: bool) -> tuple[Examples, Examples]:
    """The known examples; the person's example and its replacement."""
    labels = _crowd_labels(spec, epsilon, _STREAM)
    target = 0 if spec.labels == "dp-learned" else 2  # the worst-case example has a label that nobody else has
    own = np.array([target, 0 if spec.labels == "data" else target])
    if is_natural:
        pixels, digit = digits()
        pools = [pixels[digit == k].astype(np.float64) for k in _COSINE_CLASSES]
        known = np.stack([pools[label][1 + place // 2 % (len(pools[label]) - 1)] for place, label in enumerate(labels)])
        return Examples(known, labels), Examples(np.stack([pools[target][0], pools[1][0]]), own)
    random = np.random.default_rng(0)
    known, person = random.standard_normal((len(labels), _N_FEATURES)), random.standard_normal(_N_FEATURES)
    return Examples(known, labels), Examples(np.stack([person, -person]), own)


def cosine_axes_game(spec: RunSpec, epsilon: float) -> Game:
    """A game with `N_PERSONS` persons on orthogonal axes, with alternating labels; a coin decides who takes part.

    The sums along a person's axis contain only that person's contribution and noise. Under "replace" a person who does not
    take part has the other label instead.
    """
    n_persons, is_replaced = N_PERSONS, spec.privacy.adjacency == "replace"
    rows, labels = np.eye(n_persons, dtype=np.float32), np.arange(n_persons, dtype=np.int64) % 2
    n_people = n_persons * (1 if spec.scenario.recurrence == "every" else _STREAM)
    known = play.context(spec, n_inputs=n_persons, n_classes=2, n_people=n_people, n_tasks=_STREAM)
    takes_part, places = partial(play.coins, n=n_persons), np.arange(n_persons)

    def score(seed: int, seen: Released) -> Floats:
        after = [np.asarray(one["sums"], dtype=np.float64) for one in seen]
        return _evidence(spec, [sums[labels, places] - (sums[1 - labels, places] if is_replaced else 0) for sums in after])

    streams = play.many_persons(spec, known, Examples(rows, labels), Examples(rows, 1 - labels), takes_part)
    attack, is_gaussian = "sums on the example's own axis (worst-case examples)", spec.labels != "data"
    return Game(
        spec, known, streams, score, attack, _COSINE_ADVERSARY, is_gaussian=is_gaussian, takes_part=takes_part, raced=_STREAM
    )


# Last layers trained by DP-SGD.


_N_ON_AXES = 256  # targets in one training, each along an axis of its own
_AT_ONCE = 16  # trainings in parallel, few enough for one process


def peft_game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """A game with many worst-case persons in one training, or on one real digit, on the last layer or on adapters."""
    params = settings_of(spec, PeftParams)
    if params.adapter == "head":
        return head_real_digit_game(spec, epsilon) if is_natural else head_worst_case_game(spec, epsilon)
    return adapter_real_digit_game(spec) if is_natural else adapter_worst_case_game(spec)


def head_worst_case_game(spec: RunSpec, epsilon: float, n_persons: int = _N_ON_AXES) -> Game:
    """A game with many persons on orthogonal axes. The two sides swap who takes part.

    A worst-case example lies along an axis that no other features use, and is long enough for its gradient to be clipped in
    every step: the weights on its axis carry only its own gradients and noise, except through the bias. So one training
    tests many persons, each of whom takes part by a coin of the audit. Under "replace" a person who does not take part has
    the other label instead. The statistics are the difference of the two classes' weights on the axis, after either task,
    and the difference between tasks.
    """
    # Long enough to be clipped as long as the wrong class has probability above 0.35 / length, short enough for the weights
    # to leave both classes likely.
    rows = max(4.0, 2 * settings_of(spec, PeftParams).clip_norm) * np.eye(n_persons, dtype=np.float32)
    labels, crowd = np.arange(n_persons, dtype=np.int64) % 2, _crowd_labels(spec, epsilon)
    own, others = Examples(rows, labels), Examples(np.zeros((len(crowd), n_persons), dtype=np.float32), crowd)
    known, takes_part = _context(spec, n_persons, 2, n_persons + len(crowd)), partial(play.coins, n=n_persons)
    sign = np.where(labels == 0, 1.0, -1.0)

    def score(seed: int, seen: Released) -> Floats:
        return _two_tasks([sign * _contrast(one)[:-1] if one else np.zeros(n_persons) for one in seen])

    return Game(
        spec, known, play.many_persons(spec, known, own, Examples(rows, 1 - labels), takes_part, others), score,
        "weights on the example's own axis (worst-case examples)",
        "sees the weights after each task, knows every other example and the example in question, which lies along an axis "
        "of its own", takes_part=takes_part, at_once=_AT_ONCE,
    )  # fmt: skip


def head_real_digit_game(spec: RunSpec, epsilon: float) -> Game:
    """A game on one real digit among others; under "replace" a digit of the other class takes its place."""
    pixels, classes = digits()
    pools = [pixels[classes == k] for k in (0, 1)]
    labels = _crowd_labels(spec, epsilon)
    others = np.stack([pools[label][1 + place % (len(pools[label]) - 1)] for place, label in enumerate(labels)])
    crowd, pair = Examples(others, labels), Examples(np.stack([pools[0][0], pools[1][0]]), np.array([0, 1]))
    known = _context(spec, pixels.shape[1], 2, len(crowd) + 1)
    # At zero weights an example's gradient is half its row for one class, and minus that for the other.
    one, other = np.append(pools[0][0], 1.0), np.append(pools[1][0], 1.0)
    towards = one + (other if spec.privacy.adjacency == "replace" else 0)

    def score(seed: int, seen: Released) -> Floats:
        return _two_tasks([np.array([_contrast(one) @ towards if one else 0.0]) for one in seen])

    return Game(
        spec, known, play.one_person(spec, known, crowd, pair), score,
        "projection of the weights on the example's gradient (a real digit)",
        "sees the weights after each task, knows every other example and the digit in question", most=200, at_once=_AT_ONCE,
    )  # fmt: skip


def _context(spec: RunSpec, n_inputs: int, n_classes: int, task_size: int) -> PublicContext:
    n_people = task_size * (1 if spec.scenario.recurrence == "every" else _N_TASKS)
    return play.context(spec, n_inputs=n_inputs, n_classes=n_classes, n_people=n_people, n_tasks=_N_TASKS)


def _contrast(released: Seen) -> Floats:
    """Weights of class 0 minus weights of class 1, by feature [K+1]."""
    weights = np.asarray(released["weights"], dtype=np.float64)
    return np.asarray(weights[0] - weights[1])


def _two_tasks(after: Sequence[Floats]) -> Floats:
    """Four statistics of each person's evidence of both tasks [persons, 4]: first, second, difference and sum."""
    first, second = after
    return np.stack([first, second, first - second, first + second], axis=1)


# FiLM and LoRA adapters trained by DP-SGD.


BACKBONE, OF_TEXTS = "vit-cifar100", "lm-tiny"
MOST = 2000  # most persons on each side: every sixteen need a training
_N_LABELLED = 16  # targets in one training, each with a label of its own
_MOST_NATURAL = 20  # trainings on each side with the digit in question: each has only one target
_N_CROWD, _SIDE = 7, 8
_TOGETHER = 64  # pictures in one forward pass
_HOW = "how far adapter and last layer moved along the example's gradient"


def _on_bundled_network(spec: RunSpec, backbone: str = BACKBONE, **params: float) -> RunSpec:
    """The settings that are played: one pass over the task, on a bundled network."""
    data = replace(spec.data, backbone=backbone)
    return replace(spec, params=updated(spec.params, epochs=1, **params), data=data, labels="prior")


def adapter_worst_case_game(spec: RunSpec) -> Game:
    """A game with many persons of distinct labels. The two sides swap who takes part.

    A task has two steps, each with a sampling rate of one half: the first moves the last layer alone, the second all trained
    weights. Last layers begin at zero, so gradients of examples with distinct labels are nearly orthogonal. The attacker
    projects the change of all weights after either task on an example's clipped gradient at the initial weights. Under
    "replace" a person who does not take part has the same picture with another label. Uses public label lists; learned lists
    are attacked with last layers alone. On data of texts the examples are random states under the bundled network of texts.
    """
    is_of_texts = datasets.card(spec.data.dataset).kind == "text"
    spec = _on_bundled_network(spec, OF_TEXTS if is_of_texts else BACKBONE, sample_rate=0.5)
    pictures, labels = _drawn(spec.data.backbone), np.arange(_N_LABELLED, dtype=np.int64)
    own, instead = Examples(pictures, labels), Examples(pictures, np.roll(labels, 1))
    known, takes_part = _context(spec, 0, _N_LABELLED, _N_LABELLED), partial(play.coins, n=_N_LABELLED)
    directions = _gradients(spec, pictures, labels, _N_LABELLED)
    if spec.privacy.adjacency == "replace":
        directions = directions - _gradients(spec, pictures, instead.labels, _N_LABELLED)
    return Game(
        spec, known, play.many_persons(spec, known, own, instead, takes_part),
        lambda seed, seen: _adapter_statistics(spec, seen, directions, _N_LABELLED),
        f"{_HOW} (worst-case examples)",
        "sees adapter and last layer after each task, knows those before it, every other example and the example in "
        "question, which has a label of its own", takes_part=takes_part, start=play.START, most=MOST // _N_LABELLED,
    )  # fmt: skip


def adapter_real_digit_game(spec: RunSpec) -> Game:
    """A game on one real digit among others; under "replace" a digit of the next class takes its place."""
    spec = _on_bundled_network(spec, sample_rate=0.5)
    pixels, classes = digits()
    n_classes = int(classes.max()) + 1
    other = int(np.flatnonzero(classes == (classes[0] + 1) % n_classes)[-1])
    chosen = np.array([0, other, *range(1, 1 + _N_CROWD)])
    grey = np.rint(255 * pixels[chosen]).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 1)
    pictures, labels = np.repeat(grey, 3, axis=3), classes[chosen]
    crowd, pair = Examples(pictures[2:], labels[2:]), Examples(pictures[:2], labels[:2])
    known = _context(spec, 0, n_classes, _N_CROWD + 1)
    target, replacement = _gradients(spec, pictures[:2], labels[:2], n_classes)
    direction = (target - replacement if spec.privacy.adjacency == "replace" else target)[None]
    return Game(
        spec, known, play.one_person(spec, known, crowd, pair),
        lambda seed, seen: _adapter_statistics(spec, seen, direction, n_classes),
        f"{_HOW} (a real digit)",
        "sees adapter and last layer after each task, knows every other example and the digit in question",
        start=play.START, most=_MOST_NATURAL,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _network(backbone: str) -> adaptable.Network:
    return adaptable.load(backbone)


def _drawn(backbone: str) -> NDArray[np.generic]:
    """Random pictures; for a network of texts random states of as many pieces as it reads, all of which count."""
    random = np.random.default_rng(0)
    if backbone == BACKBONE:
        return random.integers(0, 256, (_N_LABELLED, _SIDE, _SIDE, 3)).astype(np.uint8)
    _, n_pieces, width = _network(backbone).features.blank().shape
    states = random.standard_normal((_N_LABELLED, n_pieces, width)).astype(np.float16)
    states[:, :, -1] = 1
    return states


def initial_network(spec: RunSpec, n_classes: int) -> Adapted:
    """The initial network of every learner."""
    from dpcl_core.methods.features import adapters

    assert isinstance(spec.params, PeftParams)
    assert spec.params.adapter != "head"
    rank, space = spec.params.lora_rank, tuple(range(n_classes))
    return adapters.fresh(_network(spec.data.backbone), spec.params.adapter, rank, space, n_classes, play.START).module()


def _gradients(spec: RunSpec, pictures: NDArray[np.generic], labels: NDArray[np.int64], n_classes: int) -> Floats:
    """Every example's clipped gradient at the initial weights [n, weights]."""
    from dpcl_core.methods.features.side_by_side import Gradients

    clipped = Gradients(initial_network(spec, n_classes), settings_of(spec, PeftParams).clip_norm, 1, "cpu")
    grads = [clipped.of(pictures[[index]], labels[[index]]) for index in range(len(labels))]
    return np.stack([torch.cat([part.flatten() for part in parts]).double().numpy() for parts in grads])


def _adapter_statistics(spec: RunSpec, seen: Released, directions: Floats, n_classes: int) -> Floats:
    """Change of each task's model along each person's gradient [persons, 4]."""
    before = {name: tensor.numpy() for name, tensor in initial_network(spec, n_classes).state().items()}
    changes = [
        np.concatenate([(before[name] - cast("NDArray[np.float32]", one[name])).ravel() for name in before]) for one in seen
    ]
    return _two_tasks([directions @ step.astype(np.float64) for step in changes])


def planted_game(spec: RunSpec, epsilon: float) -> Game:
    """The game of an audit of a last layer or of adapters in one training."""
    params = settings_of(spec, PeftParams)
    if params.adapter != "head":
        return pictures_game(spec, epsilon, N_PICTURES)
    return head_worst_case_game(spec, epsilon, N_PERSONS)


def pictures_game(spec: RunSpec, epsilon: float, n_persons: int) -> Game:
    """The game of random pictures, each with its own label; under "replace" each gets another unique label instead.

    Last layers start at zero, so the first step moves them alone, and each example moves mostly the row of its label.
    Clipped gradients are therefore nearly orthogonal, and the attacker projects the noisy sum on each. The labels are
    public; learned label lists are attacked through last layers alone.

    Where people recur, each is in both of two tasks; training on all data so far reads those of the first task again
    anyway. A task's one step is read off the weights before it: those released last where one network goes on, else the
    first ones. Steps are so short that the first gradients hold in every task. The scores are those of each release and
    their sum, each times how many examples of a person it read: the log-likelihood ratio of all, as all have noise of one
    scale, drawn anew. Elsewhere nothing that is released later reads these people: one task tells all.
    """
    from dpcl_core.attacks.one_run import noisy_sum, one_step_context, one_step_game

    assert isinstance(spec.params, PeftParams)
    clip_norm, is_replaced = spec.params.clip_norm, spec.privacy.adjacency == "replace"
    is_every, card = spec.scenario.recurrence == "every", methods.card(spec.method)
    reads_all = card.trains_on == "all"
    is_once = any(getattr(spec.params, name) == value for name, value in card.at_once.items())
    n_tasks = _N_TASKS if is_every or (reads_all and not is_once) else 1
    played = _on_bundled_network(spec, sample_rate=1.0, learning_rate=STEP)
    drawn = np.random.default_rng(0).integers(0, 256, (n_persons, _SIDE, _SIDE, 3)).astype(np.uint8)
    labels = np.arange(n_persons, dtype=np.int64)
    n_classes = n_persons * (2 if is_replaced else 1)
    known = one_step_context(spec, epsilon, clip_norm, n_classes, n_tasks=n_tasks)

    def of_task(before: Seen, after: Seen, size: float, inputs: Floats) -> Floats:
        noisy = noisy_sum(before, after, size, STEP)
        logits = inputs @ np.column_stack([noisy[:-n_classes].reshape(n_classes, -1), noisy[-n_classes:]]).T
        # The gradient of cross-entropy at zero weights: (1 / n_classes - [own label]) times the last layer's inputs.
        norms = np.sqrt((1 - 1 / n_classes) * np.square(inputs).sum(axis=1))
        along = (logits.mean(axis=1, keepdims=True) - logits) * np.minimum(1, clip_norm / norms)[:, None]
        return np.asarray(along[labels, labels] - (along[labels, n_persons + labels] if is_replaced else 0.0))

    def score(seed: int, seen: Released) -> Floats:
        inputs = np.column_stack([_last_inputs(initial_network(played, n_classes), drawn), np.ones(n_persons)])
        before: Seen = {"head.weight": np.zeros((n_classes, inputs.shape[1] - 1)), "head.bias": np.zeros(n_classes)}
        each = []
        for n_so_far, after in enumerate(seen, start=1):
            n_read = n_so_far if reads_all else 1
            if after:
                copies = n_read if is_every else 1
                each.append(copies * of_task(before, after, n_read * known.task_size, inputs))
            if spec.method == "naive":
                before = {name: after[name] for name in before}
        return np.column_stack([*each, np.sum(each, axis=0)] if len(each) > 1 else each)

    own, instead = Examples(drawn, labels), Examples(drawn, n_persons + labels)
    how = "pictures of random pixels; the first step moves the last layer alone"
    return one_step_game(played, known, own, instead, score, how, "pictures")


def _last_inputs(network: Adapted, drawn: NDArray[np.uint8]) -> Floats:
    """Inputs of the last layer [n, dimensions] for pictures [n, side, side, channels]."""
    with torch.no_grad():
        pieces = [
            network.features(torch.from_numpy(drawn[start : start + _TOGETHER])) for start in range(0, len(drawn), _TOGETHER)
        ]
    return torch.cat(pieces).double().numpy()


_PEFT = Audit({"learner": play.worst_and_natural(peft_game)}, trials=20_000, planted=planted_game)
AUDITS = {
    "cosine": Audit({"learner": play.worst_and_natural(cosine_game)}, trials=12_000, planted=cosine_axes_game),
    **dict.fromkeys(("peft-ensemble", "naive", "non-cl"), _PEFT),
}
