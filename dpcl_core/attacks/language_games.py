"""Membership games on language models: adapters trained by DP-SGD, noisy copies of texts, and PeCL's whole life.

All games use the bundled small model, whose table is public: noise, clipping and ledger are the same for every model.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import catalog, lifelong_games, play, token_noise_games
from dpcl_core.attacks.one_run import least_alike, log_odds, noisy_sum, one_step_context, one_step_game, step_noise
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.backbones import causal, plain_language
from dpcl_core.data.texts import PADDING, PLANES, TOKEN, TextForm
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext, PublicSizes, of_spec, settings_of
from dpcl_core.methods.language import adapted_model, baseline, pecl, public_text, sculpting, training
from dpcl_core.methods.language.gradients import Gradients, batch_of
from dpcl_core.methods.language.pecl import PeclParams, Repaired
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import Pld
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_mean
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.text_mechanisms import Randomiser, clipped, noisy_embeddings, noisy_labels
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec, updated

BACKBONE = "lm-tiny"
N_TEXTS = 4096  # candidate texts for adapters, of which those are planted that differ most
N_RECORDS = 2000  # planted texts if each is noised by itself
_CLASSES = ("good", "poor")


def text_game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """A game on worst-case texts or real sentences: in adapters, or of noisy copies."""
    if methods.card(spec.method).noises_embeddings(spec.params):
        return copy_game(spec, epsilon, is_natural=is_natural)
    return real_sentence_game(spec) if is_natural else distinct_answer_game(spec)


def planted_game(spec: RunSpec, epsilon: float) -> Game:
    """The game of an audit in one training. Noisy copies are made of every text alone; DP-SGD sums over all texts."""
    assert isinstance(spec.params, baseline.BaselineParams | PeclParams)
    if not spec.params.is_local:
        return planted_texts_game(spec, epsilon, N_TEXTS)
    game = copy_game(spec, epsilon, is_natural=False)
    return replace(game, planted="texts", n_learners=math.ceil(N_RECORDS / _N_COPIED))


def _played(spec: RunSpec, **params: float) -> RunSpec:
    """The settings that are played, on the bundled model: one step per task, with these parameters."""
    return replace(spec, params=updated(spec.params, epochs=1, **params), data=replace(spec.data, backbone=BACKBONE))


# Adapters: one-token texts with distinct answers, and a real sentence.


_N_PERSONS, _N_CANDIDATES = 16, 128  # targets in one training, and texts from which the least similar ones are chosen
_MOST_NATURAL = 40  # trainings on each side with the sentence in question: each has only one target
_N_CROWD, _LENGTH = 7, 24  # other texts, and tokens per text; the noise depends on neither
_TASKS = ("first", "second")  # names of the tasks, used in their prompts
_N_NOMINAL = 10_000  # nominal size of a task and of a batch: the divisor of sums
_FULL_BATCH = {"batch_size": _N_NOMINAL, "length": _LENGTH}
_HOW = "how far the adapters moved along the text's gradient"


def distinct_answer_game(spec: RunSpec) -> Game:
    """A game with many persons who have one-token texts and distinct answers. The two sides swap who takes part.

    The target texts are in the first of two tasks. The second has none, so any change along their gradients in that task
    comes from stored texts. Both tasks take one full-batch step: the whole budget is spent at the initial adapters. Texts
    have similar gradients, so the least similar of many candidates are the targets. The attacker projects the adapters'
    change on a text's clipped gradient at the initial adapters; AdamW keeps little more than each coordinate's sign, which
    costs about a fifth of the signal. Under "replace" a person who does not take part has the same text with another answer.
    """
    spec, takes_part = _played(spec, **_FULL_BATCH), partial(play.coins, n=_N_PERSONS)
    drawn = np.random.default_rng(0).choice(_words(), _N_PERSONS, replace=False)
    known = _text_context(spec, tuple(drawn.tolist()))
    rows, labels, directions = _least_alike_texts(spec, known)
    own, instead = Examples(rows, labels), Examples(rows, np.roll(labels, 1))
    if spec.privacy.adjacency == "replace":
        directions = directions - gradients(spec, known, rows, instead.labels)
    return Game(
        spec, known, play.many_persons(spec, known, own, instead, takes_part, names=_TASKS),
        lambda seed, seen: _text_statistics(spec, known, seen, directions),
        f"{_HOW} (worst-case texts)",
        "sees the adapters after each task, knows those before it, every other text and the text in question, which is one "
        "token long and has an answer of its own", takes_part=takes_part, start=play.START,
    )  # fmt: skip


def real_sentence_game(spec: RunSpec) -> Game:
    """A game on one real sentence among others; under "replace" another sentence with another answer takes its place."""
    spec, planes = _played(spec, **_FULL_BATCH), public_text.encoded(BACKBONE, _LENGTH)
    known = _text_context(spec, _CLASSES)
    crowd = Examples(planes[2 : 2 + _N_CROWD], np.arange(_N_CROWD, dtype=np.int64) % 2)
    pair = Examples(planes[:2], np.array([0, 1]))
    target, replacement = gradients(spec, known, planes[:2], pair.labels)
    direction = (target - replacement if spec.privacy.adjacency == "replace" else target)[None]
    return Game(
        spec, known, play.one_person(spec, known, crowd, pair, _TASKS),
        lambda seed, seen: _text_statistics(spec, known, seen, direction),
        f"{_HOW} (a real sentence)",
        "sees the adapters after each task, knows those before it, every other text and the sentence in question",
        start=play.START, most=_MOST_NATURAL,
    )  # fmt: skip


def gradients(spec: RunSpec, known: PublicContext, rows: public_text.Planes, labels: NDArray[np.int64]) -> Floats:
    """Every text's clipped gradient at the initial adapters [n, weights]."""
    params = spec.params
    assert isinstance(params, baseline.BaselineParams | PeclParams)
    adapted = _initial(spec, known)
    clipped, texts = Gradients(adapted.net, params.clip_norm), adapted.prompted(rows, labels, _TASKS[0])
    loss = adapted.loss(rows) if isinstance(adapted, Repaired) else adapted.task_loss()
    found = np.zeros((len(rows), sum(parameter.numel() for parameter in clipped.parameters)))
    for places, own in clipped.each(batch_of(texts, np.arange(len(rows)), "cpu"), loss):
        found[places] = own.numpy()
    return found


def _initial(spec: RunSpec, known: PublicContext) -> adapted_model.AdaptedModel:
    """The model before the first task; PeCL's loss has an unlearning term for sensitive tokens."""
    params, cell = spec.params, Cell(math.inf, play.START)
    if not isinstance(params, PeclParams):
        return adapted_model.AdaptedModel(spec, cell, known)
    scorer = sculpting.Scorer(params, params.score2_scope, BACKBONE, printed=False)
    empty = Examples(np.zeros((0, _LENGTH, PLANES), np.int32), np.zeros(0, np.int64))
    scorer.open(Task(0, _TASKS[0], empty, empty, known.public), known.classes)
    return Repaired(spec, cell, known, scorer)


def _least_alike_texts(spec: RunSpec, known: PublicContext) -> tuple[public_text.Planes, NDArray[np.int64], Floats]:
    """One-token texts [n, length, planes], their answers [n] in order, and their gradients [n, weights].

    Greedy choice: for each answer in turn, the candidate whose gradient overlaps least with those already chosen.
    """
    rows = np.zeros((_N_CANDIDATES, _LENGTH, PLANES), np.int32)
    rows[:, :, TOKEN] = PADDING
    tokens = np.arange(3, plain_language.load_tokenizer(BACKBONE).size)
    rows[:, 0, TOKEN] = np.random.default_rng(0).choice(tokens, _N_CANDIDATES, replace=False)
    labels = np.arange(_N_CANDIDATES, dtype=np.int64) % _N_PERSONS
    grads = gradients(spec, known, rows, labels)
    units = grads / np.linalg.norm(grads, axis=1, keepdims=True)
    overlap, chosen = np.abs(units @ units.T), [0]
    for label in range(1, _N_PERSONS):
        places = np.flatnonzero(labels == label)
        chosen.append(int(places[overlap[places][:, chosen].max(axis=1).argmin()]))
    return rows[chosen], labels[chosen], grads[chosen]


def _words() -> tuple[str, ...]:
    """All words that are one token each, for names of labels."""
    ready = plain_language.load_tokenizer(BACKBONE)
    return tuple(shown[1:] for shown in map(ready.shown, range(ready.size)) if shown[:1] == " " and shown[1:].isalpha())


def _text_context(spec: RunSpec, classes: tuple[str, ...]) -> PublicContext:
    n_people, n_tasks = len(_TASKS) * _N_NOMINAL, len(_TASKS)
    known = play.context(spec, n_inputs=0, n_classes=len(classes), n_people=n_people, n_tasks=n_tasks)
    return replace(known, classes=classes, texts=TextForm(_LENGTH, may_show=False))


def _text_statistics(spec: RunSpec, known: PublicContext, seen: Released, directions: Floats) -> Floats:
    """Change of the adapters along each person's gradient: in the first task, in both, and in the second [persons, 3].

    For a method that trains only once, at the end, all three are equal.
    """
    before = _initial_adapters(spec, known)
    states = [state for state in (before, *seen) if state]
    weights = [np.concatenate([np.asarray(state[name], np.float64).ravel() for name in before]) for state in states]
    first, total, second = weights[1] - weights[0], weights[-1] - weights[0], weights[-1] - weights[-2]
    return np.stack([-(directions @ change) for change in (first, total, second)], axis=1)


def _initial_adapters(spec: RunSpec, known: PublicContext) -> dict[str, NDArray[np.generic]]:
    return {name: weights.detach().numpy() for name, weights in _initial(spec, known).net.trainable().items()}


# Adapters in one training: many planted texts, and one step of Adam that the attacker inverts (`one_run`).


_GAUSSIAN = 1.4826  # standard deviation of a Gaussian divided by its median absolute value
_LONGEST, _RANK = 6, 8  # most tokens of a planted text, largest rank of adapters: the noise depends on neither
_FEWEST = 64  # smallest number of planted texts
_AT_UNIT_NOISE = 1400  # planted texts under noise of one clipping norm; their number grows with the noise variance


def planted_texts_game(spec: RunSpec, epsilon: float, n_candidates: int) -> Game:
    """The game of texts of random tokens with random answers; under "replace" another text instead.

    Their gradients are much alike, so the candidates that differ most are planted, fewer under less noise,
    and the attacker scores all of them jointly (`log_odds`). One of LoRA's two factors starts at zero; the first
    step moves that factor alone. One task: in no stream is a text in two, so later releases read it only where texts are
    kept, and `distinct_answer_game` plays that. Noisy copies are released once.
    """
    params, words = spec.params, _words()
    assert isinstance(params, baseline.BaselineParams | PeclParams)
    clip_norm, is_replaced = params.clip_norm, spec.privacy.adjacency == "replace"
    known = one_step_context(spec, epsilon, clip_norm, len(words), words, _LONGEST)
    rank = min(_RANK, params.lora_rank)
    played = _played(spec, learning_rate=1.0, batch_size=int(known.n_people), length=_LONGEST, lora_rank=rank)
    own, others = (_random_texts(n_candidates, len(words), seed) for seed in (0, 1))
    directions = gradients(played, known, public_text.planes(own), own.labels)
    instead = np.zeros_like(directions)
    if is_replaced:
        instead = gradients(played, known, public_text.planes(others), others.labels)
    directions -= instead
    is_moved = (directions != 0).any(axis=0)
    moved, least = np.flatnonzero(is_moved), 1e-3 * clip_norm
    noise = gaussian.sigma(epsilon, spec.privacy.delta)
    n_there = int(np.clip(_AT_UNIT_NOISE * noise**2, min(_FEWEST, n_candidates), n_candidates))
    expected = max(least, step_noise(spec, epsilon) * clip_norm)
    taken = least_alike(directions[:, moved], n_there, expected) if n_there < n_candidates else np.arange(n_candidates)
    directions = directions[np.ix_(taken, moved)]
    usual = instead[np.ix_(taken, moved)].sum(axis=0) + directions.sum(axis=0) / 2  # with half of them there
    before = _initial_adapters(played, known)

    def score(seed: int, seen: Released) -> Floats:
        noisy = noisy_sum(before, seen[0], known.n_people)
        std = _GAUSSIAN * float(np.median(np.abs(noisy[~is_moved])))  # the other factor holds noise alone
        size = max(1.0, float(noisy[moved] @ usual / (usual @ usual)))  # larger where gradients are not clipped
        return log_odds(directions, noisy[moved] / size, usual, max(least, std / size))[:, None]

    how = "texts of random tokens; their gradients are much alike, so little can be proved at a small budget"
    return one_step_game(played, known, own.take(taken), others.take(taken), score, how, "texts")


def _random_texts(n: int, n_classes: int, seed: int) -> Examples:
    """Random texts [n, length, planes] of one to `_LONGEST` tokens, with random answers [n]."""
    random = np.random.default_rng(seed)
    rows = np.zeros((n, _LONGEST, PLANES), np.int32)
    rows[:, :, TOKEN] = random.integers(3, plain_language.load_tokenizer(BACKBONE).size, (n, _LONGEST))
    rows[:, :, TOKEN][np.arange(_LONGEST) >= random.integers(1, _LONGEST + 1, (n, 1))] = PADDING
    return Examples(rows, random.integers(0, n_classes, n))


# Noisy copies: from which of two texts a stored noisy copy was made.


_N_COPIED = 64  # target texts of one learner: each has noise of its own
_LONGEST_COPY = 64  # most tokens of the texts in the game; noise grows with the allowed length


def copy_game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """The game on two texts: a coin decides which of them a person has on side True; side False has the other.

    Worst-case texts repeat one token each, the two whose clipped embeddings are farthest apart in the public table. Each
    text has noise of its own, so one learner tests many. The attacker uses the likelihood ratio of the copy and, if it is
    noisy, of the label: the most powerful test. Training reads the copies only, so one step suffices.
    """
    params = spec.params
    assert isinstance(params, baseline.BaselineParams | PeclParams)
    length, n = min(params.length, _LONGEST_COPY), _N_COPIED
    spec = _played(spec, batch_size=2 * n, length=length)
    table = training.embedding_table(causal.adapted(BACKBONE, "cpu", 1, 1.0, 0))
    clip = params.embedding_clip or adapted_model.median_norm(table)
    rows = clipped(table, clip)
    if is_natural:
        pair = public_text.encoded(BACKBONE, length)[:2, :, TOKEN].astype(np.int64)
    else:
        pair = np.stack([np.full(length, token) for token in token_noise_games.farthest_rows(rows)])
    one, other = (np.where(text[:, None] < 0, 0.0, rows[text]).astype(np.float64) for text in pair)
    known = play.context(spec, n_inputs=0, n_classes=len(_CLASSES), n_people=n, n_tasks=1)
    known = replace(known, classes=_CLASSES, texts=TextForm(length, may_show=False))
    noise_of_copies = params.copy_noise(spec.privacy, known, epsilon)
    # Scores are log-likelihood ratios; without noise any positive unit gives the same order.
    variance, is_named = (clip * noise_of_copies.ratio) ** 2 or 1.0, params.label_share > 0
    step = play.label_log_odds(Randomiser(0, 0.0, noise_of_copies.epsilon_labels), len(_CLASSES)) if is_named else 0.0
    takes_part, planes = partial(play.coins, n=n), np.zeros((2, n, length, PLANES), np.int32)
    planes[:, :, :, TOKEN] = pair[:, None]
    own, instead = (Examples(texts, np.full(n, label * is_named)) for label, texts in enumerate(planes))

    def score(seed: int, seen: Released) -> Floats:
        centred = np.asarray(seen[0]["copies"], np.float64) - (one + other) / 2
        copy_odds = np.tensordot(centred, one - other, axes=2) / variance
        return (copy_odds + step * (1 - 2 * np.asarray(seen[0]["answers"], np.float64)))[:, None]

    how = f"likelihood ratio of one text's copy ({'real sentences' if is_natural else 'worst-case texts'})"
    return Game(
        spec, known, play.many_persons(spec, known, own, instead, takes_part, names=_TASKS), score, how,
        "sees the stored noisy copies and answers, and knows the two texts that each may have been made from",
        is_gaussian=not is_named, takes_part=takes_part, start=play.START,
    )  # fmt: skip


# The repaired PeCL through its mechanisms alone: all steps and mean scores, or the noisy copy.


_N_ANSWERS = 4


def audit_of_life(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget, by the likelihood ratio of all observations of one text, the most powerful test.

    central: decides whether the text is in the data (under "replace": or one with the opposite gradient). local: decides
    which of two texts that differ in every token it is. Args: trials: simulated trainings on each side. Raises BadInput as
    the method's card does.
    """
    params, facts = settings_of(spec, PeclParams), of_spec(spec)
    pecl.check(spec, facts)
    attacked = _life_of_copy if params.is_local else _life_of_text
    return [attacked(spec, params, facts, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _life_of_text(spec: RunSpec, params: PeclParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    noise = pecl.noises(params, spec.privacy, facts, epsilon)
    n_tasks, size = facts.n_recurring, facts.task_size
    plan, is_replaced = pecl.schedule(params, size), spec.privacy.adjacency == "replace"
    trace = [lifelong_games.StepGroup(plan, noise.multiplier, plan.n_steps)] * n_tasks

    def scores(sign: float) -> Floats:
        ratios = lifelong_games.step_scores(trace, sign, is_replaced, trials)
        if params.releases_mean_score and noise.multiplier > 0:
            for _ in range(n_tasks):
                ratios += _mean_scores(params, size, sign, spec, trials)
        return ratios

    events = [*pecl.events(params, spec.privacy, size, noise.multiplier)] * n_tasks
    accounted = Pld().epsilon(events, spec.privacy.delta, spec.privacy.adjacency)
    return play.of_mechanism(
        epsilon, accounted, scores(1.0), scores(-1.0 * is_replaced), spec.privacy.delta,
        "likelihood ratio of all steps and mean scores",
        "sees every noisy gradient and mean score, and knows all other texts and their coins; the text's gradient is as "
        "long as clipping lets it be, at a right angle to all others",
    )  # fmt: skip


def _mean_scores(params: PeclParams, size: float, sign: float, spec: RunSpec, trials: int) -> Floats:
    """Log-likelihood ratio of a released mean score, with a text of score 1 against without it (or with score 0)."""
    others, book = np.full(int(size) - 1, 0.5), Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")
    values = np.append(others, 1.0) if sign > 0 else others
    shift, std = 1 / size, params.mean_score_std
    means = (noisy_mean(values, size, std, ReleaseNoise(), book, task=0, what="mean score") for _ in range(trials))
    return np.asarray(((np.fromiter(means, np.float64) - others.sum() / size) * shift - shift**2 / 2) / std**2)


def _life_of_copy(spec: RunSpec, params: PeclParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    noise, table = pecl.noises(params, spec.privacy, facts, epsilon), np.array([[1.0], [-1.0]])

    def scores(which: int, book: Ledger) -> Floats:
        ratios = np.zeros(trials)
        for task in range(facts.n_recurring):
            tokens = np.full((trials, params.length), which)
            seen = noisy_embeddings(table, tokens, noise.ratio, 1.0, ReleaseNoise(), book, task=task)
            ratios += 2 * seen.astype(np.float64).sum(axis=(1, 2)) / (noise.ratio**2 if noise.ratio > 0 else 1.0)
            if params.label_share > 0:
                labels = np.full(trials, which, dtype=np.int64)
                answers = noisy_labels(labels, range(_N_ANSWERS), noise.labels, ReleaseNoise(), book, task=task)
                size = play.label_log_odds(Randomiser(0, 0.0, noise.labels), _N_ANSWERS)
                ratios += size * ((answers == 0) * 1.0 - (answers == 1))
        return ratios

    books = [Ledger(spec.privacy.delta, spec.privacy.adjacency, "every") for _ in range(2)]
    one, other = (scores(which, book) for which, book in enumerate(books))
    return play.of_mechanism(
        epsilon, books[0].epsilon(), one, other, spec.privacy.delta, "matched filter on the noisy text, and its label",
        "sees the noisy embeddings and the label of one text, and knows two texts that it may be, opposite in every token",
    )  # fmt: skip


_TRIALS, _LEARNER = 4800, play.worst_and_natural(text_game)
_BASELINE = catalog.Audit({"learner": _LEARNER}, _TRIALS, planted=planted_game)
AUDITS = {
    "pecl": catalog.Audit({"learner": _LEARNER, "life": audit_of_life}, _TRIALS, planted=planted_game),
    **dict.fromkeys(("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl"), _BASELINE),
}
