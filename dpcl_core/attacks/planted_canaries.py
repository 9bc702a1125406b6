"""Canary experiment: trains a language model on synthetic mails with planted codes and measures their exposure.

It supports our statements on PeCL's unlearning term (Zhan et al., Eqs. 12 and 13). Its data are public, and no training in
it has noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import networks, play, texts
from dpcl_core.attacks.networks import StepGroup
from dpcl_core.backbones import causal, plain_language
from dpcl_core.backbones.causal import Adapted
from dpcl_core.data import synthetic
from dpcl_core.data.dataset import Split
from dpcl_core.data.texts import KIND, KINDS, LOOKALIKE, PADDING, STOP, TOKEN, Canary, Texts
from dpcl_core.methods.common.dpsgd import PublicSizes, Schedule, of_spec
from dpcl_core.methods.language import evaluation, losses, pecl, sensitivity
from dpcl_core.methods.language.adapted_model import log_probabilities
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.losses import Unlearning
from dpcl_core.methods.language.params import Loss
from dpcl_core.methods.language.pecl import PeclParams, check
from dpcl_core.methods.language.public_text import Ranked, prompted
from dpcl_core.methods.language.training import gather_batch, plain_steps
from dpcl_core.privacy.accounting import Pld
from dpcl_core.privacy.audit_bounds import Audited, lower_bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_mean
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.text_mechanisms import Randomiser, noisy_embeddings, noisy_labels
from dpcl_core.spec import RunSpec

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
        return losses.pecl_loss(log_probs, batch, variant.loss, variant.unlearning, scores, gather_batch(reference, batch))

    return TextLoss(of)


def _outcome(net: Adapted, settings: Settings, group: Mails) -> Outcome:
    ready = plain_language.load_tokenizer(settings.backbone)
    ranks = evaluation.ranks(net.model, ready, group.canaries)
    nats = -losses.log_probabilities(net.model, group.test[:, :, TOKEN], ready.bos, "cpu")
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


# Attacks on the repaired PeCL: on its learner, like its baselines, or on all steps through the mechanisms alone.


ATTACKS = ("learner", "life")
TRIALS = texts.TRIALS
_CENTRAL = (
    "sees every noisy gradient and mean score, and knows all other texts and their coins; the text's gradient is as long as "
    "clipping lets it be, at a right angle to all others"
)
_LOCAL = "sees the noisy embeddings and the label of one text, and knows two texts that it may be, opposite in every token"
_SPACE = tuple(range(4))


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """The first of the `ATTACKS`. Args: trials: texts on each side."""
    return texts.audit(spec, trials)


def audited(spec: RunSpec, trials: int, attack: str) -> list[Audited]:
    """One of the `ATTACKS`: on the learner itself, or ("life") on all steps and mean scores through its mechanisms.

    "life" makes one attack per budget, by the likelihood ratio of all observations of one text, the most powerful test.
    central: decides whether the text is in the data (under "replace": or one with the opposite gradient). local: decides
    which of two texts that differ in every token it is. Args: trials: simulated trainings on each side. Raises BadInput as
    the method's card does.
    """
    if attack == "learner":
        return audit(spec, trials)
    params, facts = spec.params, of_spec(spec)
    assert isinstance(params, PeclParams)
    check(spec, facts)
    attacked = _noisy_copy if params.is_local else _canary
    return [attacked(spec, params, facts, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _canary(spec: RunSpec, params: PeclParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    noise = pecl.noises(params, spec.privacy, facts, epsilon)
    n_tasks, size = _n_tasks(facts), facts.task_size
    plan, is_replaced = pecl.schedule(params, size), spec.privacy.adjacency == "replace"
    trace = [StepGroup(plan, noise.multiplier, plan.n_steps)] * n_tasks

    def scores(sign: float) -> NDArray[np.float64]:
        ratios = networks.scores(trace, sign, is_replaced, trials)
        if params.releases_mean_score and noise.multiplier > 0:
            for _ in range(n_tasks):
                ratios += _mean_scores(params, size, sign, spec, trials)
        return ratios

    events = pecl.events(params, spec.privacy, size, noise.multiplier) if noise.multiplier > 0 else []
    accounted = Pld().epsilon([*events] * n_tasks, spec.privacy.delta, spec.privacy.adjacency) if events else math.inf
    first, second = scores(1.0), scores(-1.0 * is_replaced)
    return _audited(spec, epsilon, accounted, first, second, "likelihood ratio of all steps and mean scores", _CENTRAL)


def _mean_scores(params: PeclParams, size: float, sign: float, spec: RunSpec, trials: int) -> NDArray[np.float64]:
    """Log-likelihood ratio of a released mean score, with a text of score 1 against without it (or with score 0)."""
    others, book = np.full(int(size) - 1, 0.5), Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")
    values = np.append(others, 1.0) if sign > 0 else others
    shift, std = 1 / size, params.mean_score_std
    means = (noisy_mean(values, size, std, ReleaseNoise(), book, task=0, what="mean score") for _ in range(trials))
    seen = np.fromiter(means, np.float64)
    ratio: NDArray[np.float64] = ((seen - others.sum() / size) * shift - shift**2 / 2) / std**2
    return ratio


def _noisy_copy(spec: RunSpec, params: PeclParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    noise, table = pecl.noises(params, spec.privacy, facts, epsilon), np.array([[1.0], [-1.0]])
    book = Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")

    def scores(which: int) -> NDArray[np.float64]:
        ratios = np.zeros(trials)
        for task in range(_n_tasks(facts)):
            tokens = np.full((trials, params.length), which)
            seen = noisy_embeddings(table, tokens, noise.ratio, 1.0, ReleaseNoise(), book, task=task)
            ratios += 2 * seen.astype(np.float64).sum(axis=(1, 2)) / (noise.ratio**2 if noise.ratio > 0 else 1.0)
            if params.label_share > 0:
                labels = np.full(trials, which, dtype=np.int64)
                answers = noisy_labels(labels, _SPACE, noise.labels, ReleaseNoise(), book, task=task)
                size = play.label_log_odds(Randomiser(0, 0.0, noise.labels), len(_SPACE))
                ratios += size * ((answers == 0) * 1.0 - (answers == 1))
        return ratios

    first = scores(0)
    accounted = book.epsilon()
    return _audited(spec, epsilon, accounted, first, scores(1), "matched filter on the noisy text, and its label", _LOCAL)


def _n_tasks(facts: PublicSizes) -> int:
    """Number of tasks that one person's texts are in."""
    return facts.n_tasks if facts.recurrence == "every" else 1


def _audited(
    spec: RunSpec,
    epsilon: float,
    accounted: float,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    attack: str,
    adversary: str,
) -> Audited:
    delta, n = spec.privacy.delta, len(first) - len(first) // 2
    return Audited(epsilon, accounted, lower_bound(first, second, delta), delta, 0.95, n, attack, adversary)
