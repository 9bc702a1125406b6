"""Canary experiment: trains a language model on synthetic mails with planted codes and measures their exposure.

It supports our statements on PeCL's unlearning term (Zhan et al., Eqs. 12 and 13). Its data are public, and no training in
it has noise.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.backbones import causal, plain_language
from dpcl_core.backbones.causal import Adapted
from dpcl_core.data import synthetic
from dpcl_core.data.dataset import Split
from dpcl_core.data.texts import KIND, KINDS, LOOKALIKE, PADDING, STOP, TOKEN, Canary, Texts
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.language import evaluation, sensitivity, training
from dpcl_core.methods.language.adapted_model import log_probabilities
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.params import Loss
from dpcl_core.methods.language.public_text import Ranked, prompted
from dpcl_core.methods.language.training import Unlearning, gather_batch, plain_steps

Score = Literal["score", "oracle", "current"]
SOURCE = "mailbox"
NAME = "topic"
N_GROUPS = 3
LEVELS = (0, 1, 4, 16)  # numbers of repetitions whose codes are measured; 0: controls
_IS_PRIVATE = np.array([False, *(not kind.startswith(LOOKALIKE) for kind in KINDS)])


@dataclass(frozen=True, slots=True)
class Settings:
    """Model, data sizes and training settings; `learning_rate` is AdamW's initial rate.

    `layers`: how many last blocks are adapted; None: all. `every`: every linear map of them, not only attention's inputs.
    """

    backbone: str = "lm-tiny"
    n_texts: int = 160
    n_tests: int = 100
    length: int = 48
    epochs: int = 12
    batch_size: int = 8
    learning_rate: float = 1e-2
    lora_rank: int = 32
    lora_alpha: float = 64.0
    layers: int | None = None
    every: bool = False


NONE = Unlearning()


@dataclass(frozen=True, slots=True)
class Variant:
    """The minimised loss. `score` finds sensitive tokens: Eq. 1 without Score2 under the public model ("score") or the
    current one ("current"), or the true spans ("oracle")."""

    loss: Loss
    unlearning: Unlearning = NONE
    score: Score = "score"


@dataclass(frozen=True, slots=True, eq=False)
class Mails:
    """One group of mails with planted codes, and test mails of other people. Each seed has its own group."""

    train: NDArray[np.int32]
    labels: NDArray[np.int64]
    test: NDArray[np.int32]
    test_labels: NDArray[np.int64]
    classes: tuple[str, ...]
    canaries: tuple[Canary, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a training: ranks of the codes, held-out nats per token outside marked spans, label accuracy."""

    ranks: tuple[Ranked, ...]
    nats: float
    accuracy: float

    def exposure(self, repetitions: int) -> float:
        """Mean exposure in bits of the codes planted `repetitions` times."""
        return float(np.mean([one.exposure for one in self._level(repetitions)]))

    def below(self, repetitions: int) -> float:
        """Mean exposure of these codes, counted from the least likely end."""
        return float(np.mean([one.below for one in self._level(repetitions)]))

    def first(self, repetitions: int) -> float:
        """Share of these codes that are the most likely one."""
        return float(np.mean([one.rank == 1 for one in self._level(repetitions)]))

    def extracted(self, repetitions: int) -> float:
        """Share of these codes that greedy decoding prints."""
        return float(np.mean([one.extracted for one in self._level(repetitions)]))

    def _level(self, repetitions: int) -> list[Ranked]:
        return [one for one in self.ranks if one.repetitions == repetitions]


def mails(settings: Settings) -> tuple[Mails, ...]:
    """The mails of `N_GROUPS` seeds, each with its own texts, names and codes; all share the test mails."""
    names = tuple(f"group {group}" for group in range(N_GROUPS))
    n_whole = settings.n_texts * N_GROUPS
    every, held_out = synthetic.corpus(-(-5 * n_whole // 4))
    place = [name for name, _ in synthetic.classes()].index(SOURCE)
    classes = synthetic.classes()[place][1]
    first = sum(len(labels) for _, labels in synthetic.classes()[:place])
    train, test = (_part(split, place, first) for split in (every, held_out))
    groups = np.repeat(np.arange(N_GROUPS), settings.n_texts)
    train = train.take(np.arange(n_whole))
    planted, codes = synthetic.plant(Split(train.images, train.labels, groups), names)
    tested = test.take(np.arange(min(settings.n_tests, len(test))))
    result = []
    for group, name in enumerate(names):
        trained_on = planted.take(np.flatnonzero(groups == group))
        encoded = [_read(split, settings) for split in (trained_on, tested)]
        measured = tuple(code for code in codes if code.source == name and code.repetitions in LEVELS)
        result.append(Mails(encoded[0], trained_on.labels, encoded[1], tested.labels, classes, measured))
    return tuple(result)


def n_codes() -> dict[int, int]:
    """Number of codes of each level in one seed's mails."""
    return {level: synthetic.CODES if level else synthetic.CONTROLS for level in LEVELS}


def untrained(settings: Settings, group: Mails) -> Outcome:
    """Result of the public model, before any training."""
    return _outcome(_adapted(settings, 0), settings, group)


def trained(settings: Settings, variant: Variant, group: Mails, seed: int) -> Outcome:
    """Trains fresh adapters on the mails and measures the result. Every variant clips the mean gradient to norm 1.

    `seed` sets the order of the mails and the adapters' initial weights. Raises Diverged.
    """
    net = _adapted(settings, seed)
    n = len(group.train)
    ready = plain_language.load_tokenizer(settings.backbone)
    texts = prompted(ready, group.train, group.labels, group.classes, NAME)
    n_steps = settings.epochs * -(-n // settings.batch_size)
    plan = Schedule(settings.batch_size / n, n_steps, 1.0, settings.learning_rate, settings.batch_size)
    order = np.random.default_rng([seed, 5])
    loss = _loss(settings, variant, group)
    for _ in plain_steps(net, texts, plan, settings.batch_size, order, loss, device="cpu", change=_cut):
        pass
    return _outcome(net, settings, group)


def _loss(settings: Settings, variant: Variant, group: Mails) -> TextLoss:
    base = log_probabilities(settings.backbone, group.train[:, :, TOKEN], "cpu")
    reference = torch.from_numpy(base)
    by_base = sensitivity.scores(base, np.zeros(base.shape), group.train[:, :, STOP] != 0)
    spans = _IS_PRIVATE[group.train[:, :, KIND]].astype(np.float32)
    fixed = torch.from_numpy(spans if variant.score == "oracle" else by_base)

    def of(log_probs: torch.Tensor, batch: Batch) -> torch.Tensor:
        scores = gather_batch(fixed, batch)
        if variant.score == "current":
            now = log_probs.detach().numpy()
            scores = torch.from_numpy(sensitivity.scores(now, np.zeros(now.shape), batch.stop.numpy()))
        return training.pecl_loss(log_probs, batch, variant.loss, variant.unlearning, scores, gather_batch(reference, batch))

    return TextLoss(of)


def _outcome(net: Adapted, settings: Settings, group: Mails) -> Outcome:
    ready = plain_language.load_tokenizer(settings.backbone)
    ranks = evaluation.ranks(net.model, ready, group.canaries)
    nats = -training.log_probabilities(net.model, group.test[:, :, TOKEN], ready.bos, "cpu")
    ordinary = (group.test[:, :, TOKEN] != PADDING) & (group.test[:, :, KIND] == 0)
    labels = range(len(group.classes))
    scores = evaluation.label_scores(net, ready, group.test, labels, group.classes, NAME, device="cpu")
    right = float((scores.argmax(axis=1) == group.test_labels).mean())
    return Outcome(tuple(ranks), float(nats[ordinary].mean()), right)


def _adapted(settings: Settings, seed: int) -> Adapted:
    rank, alpha, layers = settings.lora_rank, settings.lora_alpha, settings.layers
    return causal.adapted(settings.backbone, "cpu", rank, alpha, seed, layers, every=settings.every)


def _part(split: Split, source: int, first: int) -> Split:
    """The texts of one source, its labels counted from 0."""
    assert split.sources is not None
    part = split.take(np.flatnonzero(split.sources == source))
    return Split(part.images, part.labels - first)


def _read(split: Split, settings: Settings) -> NDArray[np.int32]:
    assert isinstance(split.images, Texts)
    return plain_language.read(split.images, settings.backbone, settings.length)


def _cut(means: list[torch.Tensor]) -> list[torch.Tensor]:
    length = torch.stack([part.square().sum() for part in means]).sum().sqrt()
    return [part * min(1.0, 1.0 / max(float(length), 1e-12)) for part in means]
