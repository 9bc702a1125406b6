"""Planted codes: a language model trained on public synthetic mails with known secrets among them, and what it then tells.

The experiment behind what is said of PeCL's unlearning term (Zhan et al., Eqs. 12 and 13). Nothing in it is private, and no
training in it has noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.backbones.language import causal, reader, tokenizer
from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.data.dataset import Split
from dpcl_core.data.synthetic import canaries, corpus
from dpcl_core.data.texts import KIND, KINDS, LOOKALIKE, PADDING, STOP, TOKEN, Canary, Texts
from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.methods.language import evaluation, leaks, losses, sensitivity, token_log_likelihoods
from dpcl_core.methods.language.adapted_model import of_batch
from dpcl_core.methods.language.cards.network_params import Loss
from dpcl_core.methods.language.exposure import Ranked
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.losses import Unlearning
from dpcl_core.methods.language.prompts import prompted
from dpcl_core.methods.language.public_log_likelihoods import log_probabilities
from dpcl_core.methods.language.training import plain_steps

Score = Literal["score", "oracle", "current"]
SOURCE = "mailbox"
NAME = "topic"
N_GROUPS = 3
LEVELS = (0, 1, 4, 16)  # of the repetitions that codes are planted in, those asked for; 0: controls
_IS_PRIVATE = np.array([False, *(not kind.startswith(LOOKALIKE) for kind in KINDS)])


@dataclass(frozen=True, slots=True)
class Settings:
    """How the model is trained: passes, texts in a batch, AdamW's step size at the start, rank of what is trained."""

    backbone: str = "lm-tiny"
    n_texts: int = 160
    n_tests: int = 100
    length: int = 48
    epochs: int = 12
    batch_size: int = 8
    learning_rate: float = 1e-2
    lora_rank: int = 32
    lora_alpha: float = 64.0


NONE = Unlearning()


@dataclass(frozen=True, slots=True)
class Variant:
    """What is minimised. `score` finds sensitive tokens: Eq. 1 by the public model ("score") or by the model as it is
    ("current"), without Score2, or the true spans ("oracle")."""

    loss: Loss
    unlearning: Unlearning = NONE
    score: Score = "score"


@dataclass(frozen=True, slots=True, eq=False)
class Mails:
    """One group of mails, codes among them, and mails of other people to test with. Each seed has its own."""

    train: NDArray[np.int32]
    labels: NDArray[np.int64]
    test: NDArray[np.int32]
    test_labels: NDArray[np.int64]
    classes: tuple[str, ...]
    canaries: tuple[Canary, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a training: where each code stands, held-out nats per token outside marked spans, accuracy of labels."""

    ranks: tuple[Ranked, ...]
    nats: float
    accuracy: float

    def exposure(self, repetitions: int) -> float:
        """Mean bits of the codes planted so often."""
        return float(np.mean([one.exposure for one in self._level(repetitions)]))

    def below(self, repetitions: int) -> float:
        """The same from the least likely end."""
        return float(np.mean([one.below for one in self._level(repetitions)]))

    def first(self, repetitions: int) -> float:
        """Share of them that are the single most likely code."""
        return float(np.mean([one.rank == 1 for one in self._level(repetitions)]))

    def extracted(self, repetitions: int) -> float:
        """Share of them that greedy continuation prints."""
        return float(np.mean([one.extracted for one in self._level(repetitions)]))

    def _level(self, repetitions: int) -> list[Ranked]:
        return [one for one in self.ranks if one.repetitions == repetitions]


def mails(settings: Settings) -> tuple[Mails, ...]:
    """The mails of `N_GROUPS` seeds, each with its own texts, names and codes; tests are the same for all."""
    names = tuple(f"group {group}" for group in range(N_GROUPS))
    n_whole = settings.n_texts * N_GROUPS
    every, held_out = corpus.corpus(-(-5 * n_whole // 4))
    place = [name for name, _ in corpus.classes()].index(SOURCE)
    classes = corpus.classes()[place][1]
    first = sum(len(labels) for _, labels in corpus.classes()[:place])
    train, test = (_part(split, place, first) for split in (every, held_out))
    groups = np.repeat(np.arange(N_GROUPS), settings.n_texts)
    train = train.take(np.arange(n_whole))
    planted, codes = canaries.plant(Split(train.images, train.labels, groups), names)
    tested = test.take(np.arange(min(settings.n_tests, len(test))))
    found = []
    for group, name in enumerate(names):
        own = planted.take(np.flatnonzero(groups == group))
        read = [_read(split, settings) for split in (own, tested)]
        among = tuple(code for code in codes if code.source == name and code.repetitions in LEVELS)
        found.append(Mails(read[0], own.labels, read[1], tested.labels, classes, among))
    return tuple(found)


def n_codes() -> dict[int, int]:
    """How many codes a seed has of each level."""
    return {level: canaries.CODES if level else canaries.CONTROLS for level in LEVELS}


def untrained(settings: Settings, found: Mails) -> Outcome:
    """What the public model tells before any of the mails is read."""
    return _outcome(_adapted(settings, 0), settings, found)


def trained(settings: Settings, variant: Variant, found: Mails, seed: int) -> Outcome:
    """Trains fresh adapters on the mails and asks them. The gradient's length is cut to 1, in every variant.

    `seed` decides the order of the mails and where the adapters start. Raises Diverged.
    """
    net = _adapted(settings, seed)
    n = len(found.train)
    ready = tokenizer.load(settings.backbone)
    texts = prompted(ready, found.train, found.labels, found.classes, NAME)
    n_steps = settings.epochs * -(-n // settings.batch_size)
    plan = Schedule(settings.batch_size / n, n_steps, 1.0, settings.learning_rate, settings.batch_size)
    order = np.random.default_rng([seed, 5])
    loss = _loss(settings, variant, found)
    for _ in plain_steps(net, texts, plan, settings.batch_size, order, loss, device="cpu", change=_cut):
        pass
    return _outcome(net, settings, found)


def _loss(settings: Settings, variant: Variant, found: Mails) -> TextLoss:
    base = log_probabilities(settings.backbone, found.train[:, :, TOKEN], "cpu")
    reference = torch.from_numpy(base)
    by_base = sensitivity.scores(base, np.zeros(base.shape), found.train[:, :, STOP] != 0)
    spans = _IS_PRIVATE[found.train[:, :, KIND]].astype(np.float32)
    fixed = torch.from_numpy(spans if variant.score == "oracle" else by_base)

    def of(log_probs: torch.Tensor, batch: Batch) -> torch.Tensor:
        scores = of_batch(fixed, batch)
        if variant.score == "current":
            now = log_probs.detach().numpy()
            scores = torch.from_numpy(sensitivity.scores(now, np.zeros(now.shape), batch.stop.numpy()))
        return losses.pecl_loss(log_probs, batch, variant.loss, variant.unlearning, scores, of_batch(reference, batch))

    return TextLoss(of)


def _outcome(net: Adapted, settings: Settings, found: Mails) -> Outcome:
    ready = tokenizer.load(settings.backbone)
    ranks = leaks.ranks(net.model, ready, found.canaries)
    nats = -token_log_likelihoods.log_probabilities(net.model, found.test[:, :, TOKEN], ready.bos, "cpu")
    ordinary = (found.test[:, :, TOKEN] != PADDING) & (found.test[:, :, KIND] == 0)
    labels = range(len(found.classes))
    scores = evaluation.ranked(net, ready, found.test, labels, found.classes, NAME, device="cpu")
    right = float((scores.argmax(axis=1) == found.test_labels).mean())
    return Outcome(tuple(ranks), float(nats[ordinary].mean()), right)


def _adapted(settings: Settings, seed: int) -> Adapted:
    return causal.adapted(settings.backbone, "cpu", settings.lora_rank, settings.lora_alpha, seed)


def _part(split: Split, source: int, first: int) -> Split:
    """The texts of one source, its labels counted from 0."""
    assert split.sources is not None
    part = split.take(np.flatnonzero(split.sources == source))
    return Split(part.images, part.labels - first)


def _read(split: Split, settings: Settings) -> NDArray[np.int32]:
    assert isinstance(split.images, Texts)
    return reader.read(split.images, settings.backbone, settings.length)


def _cut(means: list[torch.Tensor]) -> list[torch.Tensor]:
    length = torch.stack([part.square().sum() for part in means]).sum().sqrt()
    return [part * min(1.0, 1.0 / max(float(length), 1e-12)) for part in means]
