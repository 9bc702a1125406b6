"""Attack on noisy copies of texts: decides from which of two texts a stored noisy copy was made.

Uses the bundled small model, whose embedding table is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.backbones import causal
from dpcl_core.data.texts import PLANES, TOKEN, TextForm
from dpcl_core.methods.language import public_text
from dpcl_core.methods.language.adapted_model import median_norm
from dpcl_core.methods.language.baseline_costs import BaselineParams
from dpcl_core.methods.language.pecl import PeclParams
from dpcl_core.methods.language.training import embedding_table
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.text_mechanisms import Randomiser, clipped
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

BACKBONE = "lm-tiny"
N_PERSONS = 64  # target texts of one learner: each has noise of its own
_LONGEST = 64  # most tokens of the texts in the game; noise grows with the allowed length
_CLASSES = ("good", "poor")
_ADVERSARY = "sees the stored noisy copies and answers, and knows the two texts that each may have been made from"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two attacks for every budget of the spec: on two worst-case texts, and on two real sentences.

    Worst-case texts repeat one token each, the two whose clipped embeddings are farthest apart in the public table. Each
    text has noise of its own, so one learner tests many. The attacker uses the likelihood ratio of the copy and, if it is
    noisy, of the label: the most powerful test. Training reads the copies only, so one step suffices.
    Args: trials: texts on each side.
    """
    played = short(spec)
    n_learners = math.ceil(trials / N_PERSONS)
    return [
        play.audited(played, epsilon, n_learners, game(played, epsilon, is_natural=is_natural))
        for epsilon in spec.privacy.epsilons
        for is_natural in (False, True)
    ]


def short(spec: RunSpec) -> RunSpec:
    """The settings that are played: one step, short texts, on the bundled model."""
    params = spec.params
    assert isinstance(params, BaselineParams | PeclParams)
    cut = {"epochs": 1, "batch_size": 2 * N_PERSONS, "length": min(params.length, _LONGEST)}
    data = spec.data.model_copy(update={"backbone": BACKBONE})
    return spec.model_copy(update={"params": params.model_copy(update=cut), "data": data})


def game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """The game on two texts: a coin decides which of them a person has on side True; side False has the other."""
    params = spec.params
    assert isinstance(params, BaselineParams | PeclParams)
    table = embedding_table(causal.adapted(BACKBONE, "cpu", 1, 1.0, 0))
    clip = params.embedding_clip or median_norm(table)
    rows = clipped(table, clip)
    pair = _sentences(params.length) if is_natural else _farthest(rows, params.length)
    one, other = (np.where(text[:, None] < 0, 0.0, rows[text]).astype(np.float64) for text in pair)
    known = play.context(spec, n_inputs=0, n_classes=len(_CLASSES), n_people=N_PERSONS, n_tasks=1)
    known = replace(known, classes=_CLASSES, texts=TextForm(params.length, may_show=False))
    noise_of_copies = params.copy_noise(spec.privacy, known, epsilon)
    ratio, epsilon_label = noise_of_copies.ratio, noise_of_copies.epsilon_labels
    # Scores are log-likelihood ratios; without noise any positive unit gives the same order.
    variance, is_named = (clip * ratio) ** 2 or 1.0, params.label_share > 0
    step = play.label_log_odds(Randomiser(0, 0.0, epsilon_label), len(_CLASSES)) if is_named else 0.0

    takes_part = partial(play.coins, n=N_PERSONS)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        which = (takes_part(seed) != side).astype(np.int64)
        planes = np.zeros((N_PERSONS, params.length, PLANES), np.int32)
        planes[:, :, TOKEN] = np.stack(pair)[which]
        targets = Examples(planes, which if is_named else np.zeros(N_PERSONS, np.int64))
        return [Task(0, "first", targets, Examples(planes[:0], which[:0]), (0, 1))]

    def score(seed: int, seen: Released) -> Floats:
        centred = np.asarray(seen[0]["copies"], np.float64) - (one + other) / 2
        copy_odds = np.tensordot(centred, one - other, axes=2) / variance
        return (copy_odds + step * (1 - 2 * np.asarray(seen[0]["answers"], np.float64)))[:, None]

    texts = "real sentences" if is_natural else "worst-case texts"
    how = f"likelihood ratio of one text's copy ({texts})"
    return Game(known, tasks, score, how, _ADVERSARY, is_gaussian=not is_named, takes_part=takes_part, start=0)


def _farthest(rows: NDArray[np.float32], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two texts that repeat one token each: the two tokens with the largest distance between clipped embeddings [V, d]."""
    products = rows @ rows.T
    squares = np.diag(products)
    one, other = np.unravel_index((squares[:, None] + squares - 2 * products).argmax(), products.shape)
    return np.full(length, one), np.full(length, other)


def _sentences(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first two public sentences, token by token."""
    one, other = public_text.encoded(BACKBONE, length)[:2, :, TOKEN].astype(np.int64)
    return one, other
