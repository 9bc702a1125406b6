"""Attacks on language models trained by DP-SGD: one-token texts with distinct answers, and a real sentence.

Always uses the bundled small model: noise, clipping and ledger are the same for every network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import copies, play
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import PADDING, PLANES, TOKEN, TextForm
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import public_text
from dpcl_core.methods.language.adapted_model import AdaptedModel
from dpcl_core.methods.language.baseline_costs import BaselineParams
from dpcl_core.methods.language.gradients import Gradients, TextLoss, batch_of
from dpcl_core.methods.language.losses import task_loss
from dpcl_core.methods.language.pecl import PeclParams, Repaired
from dpcl_core.methods.language.public_text import Planes
from dpcl_core.methods.language.sculpting import Scorer
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec

TRIALS = 4800
BACKBONE = "lm-tiny"
_N_PERSONS, _N_CANDIDATES = 16, 128  # targets in one training, and texts from which the least similar ones are chosen
_MOST_NATURAL = 40  # trainings on each side with the sentence in question: each has only one target
_N_CROWD, _LENGTH = 7, 24  # other texts, and tokens per text; the noise depends on neither
NAMES = ("first", "second")  # of the tasks, used in their prompts
_N_NOMINAL = 10_000  # nominal size of a task and of a batch: the divisor of sums
_ADVERSARY = (
    "sees the adapters after each task, knows those before it, every other text and the text in question, which is one "
    "token long and has an answer of its own"
)
_OF_A_SENTENCE = "sees the adapters after each task, knows those before it, every other text and the sentence in question"
_HOW = "how far the adapters moved along the text's gradient"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on many worst-case texts in one training, and on a real sentence.

    The target texts are in the first of two tasks. The second has none, so any change along their gradients in that task
    comes from stored texts. Both tasks take one full-batch step: the whole budget is spent at the initial adapters. Texts
    have similar gradients, so the least similar of many candidates are the targets. The attacker projects the adapters'
    change on a text's clipped gradient at the initial adapters; AdamW keeps little more than each coordinate's sign, which
    costs about a fifth of the signal. Under "replace" a person who does not take part has the same text with another answer.
    Noisy copies have an attack of their own (`attacks.copies`). Args: trials: persons on each side.
    """
    if methods.card(spec.method).noises_embeddings(spec.params):
        return copies.audit(spec, trials)
    played = short(spec)
    n_learners = math.ceil(trials / _N_PERSONS)
    results = []
    for epsilon in spec.privacy.epsilons:
        results.append(play.audited(played, epsilon, n_learners, distinct_answers(played)))
        results.append(play.audited(played, epsilon, min(trials, _MOST_NATURAL), sentence(played)))
    return results


def distinct_answers(spec: RunSpec, n_persons: int = _N_PERSONS) -> Game:
    """A game with many persons who have one-token texts and distinct answers. The two sides swap who takes part."""
    rows, labels, directions = _least_alike(spec, n_persons)
    changed = np.roll(labels, 1)
    known, takes_part = _known(spec, _words(n_persons)), partial(play.coins, n=n_persons)
    if spec.privacy.adjacency == "replace":
        directions = directions - gradients(spec, known, rows, changed)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        targets = play.targets(rows, labels, changed, takes_part(seed) == side, spec)
        return play.stream(targets, Examples(rows[:0], labels[:0]), known, NAMES)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(spec, known, seen, directions)

    attack = f"{_HOW} (worst-case texts)"
    return Game(known, tasks, score, attack, _ADVERSARY, takes_part=takes_part, start=play.START)


def sentence(spec: RunSpec) -> Game:
    """A game on one real sentence among others; under "replace" another sentence with another answer takes its place."""
    planes = public_text.encoded(BACKBONE, _LENGTH)
    known = _known(spec, ("good", "poor"))
    crowd = Examples(planes[2 : 2 + _N_CROWD], np.arange(_N_CROWD, dtype=np.int64) % 2)
    is_replaced = spec.privacy.adjacency == "replace"
    target, replacement = gradients(spec, known, planes[:2], np.array([0, 1]))
    direction = (target - replacement if is_replaced else target)[None]

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        extra = np.array([0] if side else [1] if is_replaced else [], dtype=np.int64)
        train = Examples(np.concatenate([crowd.inputs, planes[extra]]), np.append(crowd.labels, extra))
        return play.stream(train, crowd, known, NAMES)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(spec, known, seen, direction)

    return Game(known, tasks, score, f"{_HOW} (a real sentence)", _OF_A_SENTENCE, start=play.START)


def short(spec: RunSpec) -> RunSpec:
    """The settings that are played: one full-batch step per task, on the bundled model."""
    params = spec.params.model_copy(update={"epochs": 1, "batch_size": _N_NOMINAL, "length": _LENGTH})
    data = spec.data.model_copy(update={"backbone": BACKBONE})
    return spec.model_copy(update={"params": params, "data": data})


def gradients(spec: RunSpec, known: PublicContext, rows: Planes, labels: NDArray[np.int64]) -> Floats:
    """Every text's clipped gradient at the initial adapters [n, weights]."""
    params = spec.params
    assert isinstance(params, BaselineParams | PeclParams)
    adapted = AdaptedModel(spec, Cell(math.inf, play.START), known)
    clipped, texts = Gradients(adapted.net, params.clip_norm), adapted.prompted(rows, labels, NAMES[0])
    loss = _loss(spec, known, rows) if isinstance(params, PeclParams) else task_loss(params.loss)
    found = np.zeros((len(rows), sum(parameter.numel() for parameter in clipped.parameters)))
    for places, own in clipped.each(batch_of(texts, np.arange(len(rows)), "cpu"), loss):
        found[places] = own.numpy()
    return found


def _loss(spec: RunSpec, known: PublicContext, rows: Planes) -> TextLoss:
    """PeCL's loss, with its unlearning term for sensitive tokens."""
    params = spec.params
    assert isinstance(params, PeclParams)
    scorer = Scorer(params, params.score2_scope, BACKBONE, printed=False)
    empty = Examples(rows[:0], np.zeros(0, np.int64))
    scorer.open(Task(0, NAMES[0], empty, empty, known.public), known.classes)
    return Repaired(spec, Cell(math.inf, play.START), known, scorer).loss(rows)


def _least_alike(spec: RunSpec, n_persons: int) -> tuple[Planes, NDArray[np.int64], Floats]:
    """One-token texts [n, length, planes], their answers [n] in order, and their gradients [n, weights].

    Greedy choice: for each answer in turn, the candidate whose gradient overlaps least with those already chosen.
    """
    random, known = np.random.default_rng(0), _known(spec, _words(n_persons))
    rows = np.zeros((_N_CANDIDATES, _LENGTH, PLANES), np.int32)
    rows[:, :, TOKEN] = PADDING
    words = np.arange(3, plain_language.load_tokenizer(BACKBONE).size)
    rows[:, 0, TOKEN] = random.choice(words, _N_CANDIDATES, replace=False)
    labels = np.arange(_N_CANDIDATES, dtype=np.int64) % n_persons
    grads = gradients(spec, known, rows, labels)
    units = grads / np.linalg.norm(grads, axis=1, keepdims=True)
    overlap, chosen = np.abs(units @ units.T), [0]
    for label in range(1, n_persons):
        places = np.flatnonzero(labels == label)
        chosen.append(int(places[overlap[places][:, chosen].max(axis=1).argmin()]))
    return rows[chosen], labels[chosen], grads[chosen]


def words() -> tuple[str, ...]:
    """All words that are one token each, for names of labels."""
    ready = plain_language.load_tokenizer(BACKBONE)
    return tuple(shown[1:] for shown in map(ready.shown, range(ready.size)) if shown[:1] == " " and shown[1:].isalpha())


def _words(n: int) -> tuple[str, ...]:
    """`n` of them, drawn with a fixed seed."""
    return tuple(np.random.default_rng(0).choice(words(), n, replace=False).tolist())


def _known(spec: RunSpec, classes: tuple[str, ...]) -> PublicContext:
    n_people, n_tasks = len(NAMES) * _N_NOMINAL, len(NAMES)
    known = play.context(spec, n_inputs=0, n_classes=len(classes), n_people=n_people, n_tasks=n_tasks)
    return replace(known, classes=classes, texts=TextForm(_LENGTH, may_show=False))


def _statistics(spec: RunSpec, known: PublicContext, seen: Released, directions: Floats) -> Floats:
    """Change of the adapters along each person's gradient: in the first task, in both, and in the second [persons, 3].

    For a method that trains only once, at the end, all three are equal.
    """
    net = AdaptedModel(spec, Cell(math.inf, play.START), known).net
    before = {name: weights.detach().numpy() for name, weights in net.trainable().items()}
    states = [state for state in (before, *seen) if state]
    weights = [np.concatenate([np.asarray(state[name], np.float64).ravel() for name in before]) for state in states]
    first, total, second = weights[1] - weights[0], weights[-1] - weights[0], weights[-1] - weights[-2]
    return np.stack([-(directions @ change) for change in (first, total, second)], axis=1)
