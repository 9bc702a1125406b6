"""Attacks on language models trained by DP-SGD: texts of one token, each with an answer of its own, and a real sentence.

Played on the bundled small model, whatever network a run has: noise, clipping and ledger are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import copies, play
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.backbones.language import tokenizer
from dpcl_core.data.texts import PADDING, PLANES, TOKEN, TextForm
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import public_text
from dpcl_core.methods.language.adapted_model import AdaptedModel
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.gradients import Gradients, TextLoss, batch_of
from dpcl_core.methods.language.losses import task_loss
from dpcl_core.methods.language.pecl_training import Repaired
from dpcl_core.methods.language.scoring import Planes, Scorer
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec

TRIALS = 4800
BACKBONE = "lm-tiny"
_N_PERSONS, _N_CANDIDATES = 16, 128  # in one training, and of how many the least alike are taken
_MOST_NATURAL = 40  # trainings on each side with the sentence in question, each of which asks about one person alone
_N_CROWD, _LENGTH = 7, 24  # of texts in tokens: steps have the same noise whatever it is
NAMES = ("first", "second")  # of the tasks, which stand in their prompts
_N_NOMINAL = 10_000  # of a task: sums are divided by it, and all of it is in every step
_ADVERSARY = (
    "sees the adapters after each task, knows those before it, every other text and the text in question, which is one "
    "token long and has an answer of its own"
)
_OF_A_SENTENCE = "sees the adapters after each task, knows those before it, every other text and the sentence in question"
_HOW = "how far the adapters moved along the text's gradient"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """For every budget of the spec, two attacks: who of many worst-case texts took part in a training; and a real sentence?

    The texts in question are in the first of two tasks, the second has none, so that whatever it moves along their gradients
    comes from what was kept of them. Both tasks take one step on everybody, which is the least that a budget can be spent
    on: all of it speaks of the first adapters. Gradients of texts are much alike; taken are those of many that are least so.
    The attacker projects how far the adapters have moved on a text's clipped gradient at the first adapters; AdamW leaves
    little but the sign of each coordinate, which costs him a fifth. Under "replace" the same text with another answer is
    there in place of one who does not take part. Noisy copies are attacked as such (`attacks.copies`).
    Args: trials: persons on each side.
    """
    if methods.card(spec.method).noises_embeddings(spec.params):
        return copies.audit(spec, trials)
    played = short(spec)
    n_learners = math.ceil(trials / _N_PERSONS)
    found = []
    for epsilon in spec.privacy.epsilons:
        found.append(play.audited(played, epsilon, n_learners, answers_of_their_own(played)))
        found.append(play.audited(played, epsilon, min(trials, _MOST_NATURAL), sentence(played)))
    return found


def answers_of_their_own(spec: RunSpec, n_persons: int = _N_PERSONS) -> Game:
    """Persons with texts of one token and answers of their own. On side False those take part who do not on side True."""
    rows, labels, directions = _least_alike(spec, n_persons)
    changed = np.roll(labels, 1)
    is_replaced = spec.privacy.adjacency == "replace"
    known = _known(spec, _words(n_persons))
    if is_replaced:
        directions = directions - gradients(spec, known, rows, changed)

    def takes_part(seed: int) -> NDArray[np.bool_]:
        return play.coins(seed, n_persons)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        there = np.arange(n_persons) if is_replaced else np.flatnonzero(present)
        own = Examples(rows[there], np.where(present, labels, changed)[there])
        return play.stream(own, Examples(rows[:0], labels[:0]), known, NAMES)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(spec, known, seen, directions)

    attack = f"{_HOW} (worst-case texts)"
    return Game(known, tasks, score, attack, _ADVERSARY, takes_part=takes_part, start=play.START)


def sentence(spec: RunSpec) -> Game:
    """A real sentence among others, or not; under "replace" another one with another answer in its place."""
    planes = public_text.encoded(BACKBONE, _LENGTH)
    known = _known(spec, ("good", "poor"))
    crowd = Examples(planes[2 : 2 + _N_CROWD], np.arange(_N_CROWD, dtype=np.int64) % 2)
    is_replaced = spec.privacy.adjacency == "replace"
    own, other = gradients(spec, known, planes[:2], np.array([0, 1]))
    direction = (own - other if is_replaced else own)[None]

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        extra = np.array([0] if side else [1] if is_replaced else [], dtype=np.int64)
        held = Examples(np.concatenate([crowd.inputs, planes[extra]]), np.append(crowd.labels, extra))
        return play.stream(held, crowd, known, NAMES)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(spec, known, seen, direction)

    return Game(known, tasks, score, f"{_HOW} (a real sentence)", _OF_A_SENTENCE, start=play.START)


def short(spec: RunSpec) -> RunSpec:
    """The settings that are played: one step a task on everybody, on the bundled model."""
    params = spec.params.model_copy(update={"epochs": 1, "batch_size": _N_NOMINAL, "length": _LENGTH})
    data = spec.data.model_copy(update={"backbone": BACKBONE})
    return spec.model_copy(update={"params": params, "data": data})


def gradients(spec: RunSpec, known: PublicContext, rows: Planes, labels: NDArray[np.int64]) -> Floats:
    """Every text's clipped gradient at the adapters that a learner begins with [n, weights]."""
    params = spec.params
    assert isinstance(params, BaselineParams | PeclParams)
    subject = AdaptedModel(spec, Cell(math.inf, play.START), known)
    clipped, texts = Gradients(subject.net, params.clip_norm), subject.prompted(rows, labels, NAMES[0])
    loss = _loss(spec, known, rows) if isinstance(params, PeclParams) else task_loss(params.loss)
    found = np.zeros((len(rows), sum(parameter.numel() for parameter in clipped.parameters)))
    for places, own in clipped.each(batch_of(texts, np.arange(len(rows)), "cpu"), loss):
        found[places] = own.numpy()
    return found


def _loss(spec: RunSpec, known: PublicContext, rows: Planes) -> TextLoss:
    """PeCL's own, with its term for sensitive tokens."""
    params = spec.params
    assert isinstance(params, PeclParams)
    scorer = Scorer(params, params.score2_scope, BACKBONE, printed=False)
    nobody = Examples(rows[:0], np.zeros(0, np.int64))
    scorer.open(Task(0, NAMES[0], nobody, nobody, known.public), known.classes)
    return Repaired(spec, Cell(math.inf, play.START), known, scorer).loss(rows)


def _least_alike(spec: RunSpec, n_persons: int) -> tuple[Planes, NDArray[np.int64], Floats]:
    """Texts [n, length, planes] of one token, their answers [n] in order, and their gradients [n, weights].

    Of many texts one after the other is taken for each answer: the one whose gradient overlaps least with those taken.
    """
    random, known = np.random.default_rng(0), _known(spec, _words(n_persons))
    rows = np.zeros((_N_CANDIDATES, _LENGTH, PLANES), np.int32)
    rows[:, :, TOKEN] = PADDING
    rows[:, 0, TOKEN] = random.choice(np.arange(3, tokenizer.load(BACKBONE).size), _N_CANDIDATES, replace=False)
    labels = np.arange(_N_CANDIDATES, dtype=np.int64) % n_persons
    found = gradients(spec, known, rows, labels)
    units = found / np.linalg.norm(found, axis=1, keepdims=True)
    overlap, taken = np.abs(units @ units.T), [0]
    for label in range(1, n_persons):
        places = np.flatnonzero(labels == label)
        taken.append(int(places[overlap[places][:, taken].max(axis=1).argmin()]))
    return rows[taken], labels[taken], found[taken]


def words() -> tuple[str, ...]:
    """All words that are one token each, for names of labels."""
    ready = tokenizer.load(BACKBONE)
    return tuple(shown[1:] for shown in map(ready.shown, range(ready.size)) if shown[:1] == " " and shown[1:].isalpha())


def _words(n: int) -> tuple[str, ...]:
    """So many of them."""
    return tuple(np.random.default_rng(0).choice(words(), n, replace=False).tolist())


def _known(spec: RunSpec, classes: tuple[str, ...]) -> PublicContext:
    return PublicContext(
        n_inputs=0,
        n_classes=len(classes),
        public=tuple(range(len(classes))),
        n_people=len(NAMES) * _N_NOMINAL,
        n_tasks=len(NAMES),
        recurrence=spec.scenario.recurrence,
        classes=classes,
        texts=TextForm(_LENGTH, may_show=False),
    )


def _statistics(spec: RunSpec, known: PublicContext, seen: Released, directions: Floats) -> Floats:
    """How far the first task moved the adapters, both did, and the second, along each person's gradient [persons, 3].

    A method that trains once, in the end, shows nothing before: all three are the same then.
    """
    net = AdaptedModel(spec, Cell(math.inf, play.START), known).net
    before = {name: weights.detach().numpy() for name, weights in net.trainable().items()}
    at = [np.concatenate([np.asarray(one[name], np.float64).ravel() for name in before]) for one in (before, *seen) if one]
    first, both, second = at[1] - at[0], at[-1] - at[0], at[-1] - at[-2]
    return np.stack([-(directions @ moved) for moved in (first, both, second)], axis=1)
