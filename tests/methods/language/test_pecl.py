"""PeCL, published and repaired: what the network reads, what is shown, and what it and its baselines cost whom."""

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.backbones import causal, plain_language
from dpcl_core.data.texts import STOP, TOKEN, Canary, Texts
from dpcl_core.errors import BadInput
from dpcl_core.events import Leaks, Note, Progress, Retained, TokensScored
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.language import adapted_model, mtl, olora, pecl, sculpting, training
from dpcl_core.methods.language.adapted_model import AdaptedModel, median_norm
from dpcl_core.methods.language.baseline import BaselineParams, Noises, Plan
from dpcl_core.methods.language.er import ErParams
from dpcl_core.methods.language.ewc import EwcParams
from dpcl_core.methods.language.gem import GemParams
from dpcl_core.methods.language.gradients import batch_of, clean, log_probs
from dpcl_core.methods.language.pecl_published import NoisyInputs, Published
from dpcl_core.methods.language.public_text import FIRST, TEXT, Prompted, answer_ids, planes, template
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.text_mechanisms import clipped
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import PrivacySpec, Recurrence, RunSpec
from tests.methods.language import tiny
from tests.methods.pecl_small import CLASSES, LENGTH, NAMES, STRINGS, known, spec, stream, texts, trained
from tests.support.asserting import refusal_of, refuses
from tests.support.tiers import quick
from tests.support.waiting import python
from tests.support.watching import watched


def weights(learner: object) -> torch.Tensor:
    return tiny.weights(learner._model.net)


def scorer_of_run(given: RunSpec) -> sculpting.Scorer:
    return sculpting.Scorer(given.params, given.params.score2_scope, "lm-tiny", printed=True)


def noised(given: RunSpec, task: Task) -> tuple[NoisyInputs, AdaptedModel, Ledger]:
    (cell,) = given.cells()
    scorer = scorer_of_run(given)
    scorer.open(task, CLASSES)
    subject, ledger = Published(given, cell, known(), scorer), Ledger(1e-3, "add-remove", "once")
    return NoisyInputs(subject, planes(task.train), task, ledger), subject, ledger


def read(found: NoisyInputs, subject: AdaptedModel, task: Task, epoch: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """What the network reads of all texts in this epoch [n, S, d], and which tokens are of texts."""
    prompted = subject.prompted(planes(task.train), task.train.labels, task.name)
    batch = batch_of(prompted, np.arange(len(prompted)), "cpu")
    with torch.no_grad():
        given = found.reading(subject.net.embed(batch.ids), batch, epoch).numpy()
    return given, prompted.role == TEXT


def test_published_stop_words_are_exact_and_everything_else_is_not() -> None:
    """Check 7: stop tokens come out bit by bit as their clipped embedding; prompts are not even clipped."""
    task = stream()[0]
    found, subject, _ = noised(spec("pecl-published", 10.0), task)
    given, is_text = read(found, subject, task, 0)
    table, rows = training.embedding_table(subject.net), planes(task.train)
    tokens, stop = rows[:, :, TOKEN], rows[:, :, STOP] != 0
    clean = clipped(table, median_norm(table))[np.maximum(tokens, 0)]
    inner, is_stop, is_inside = given[:, FIRST:], stop[:, : given.shape[1] - FIRST], is_text[:, FIRST:]
    assert is_stop.any()
    np.testing.assert_array_equal(inner[:, :LENGTH][is_stop & (tokens >= 0)], clean[is_stop & (tokens >= 0)])
    assert (np.abs(inner[:, :LENGTH] - clean).max(axis=2)[~is_stop[:, :LENGTH] & is_inside[:, :LENGTH]] > 0).all()
    prompted = subject.prompted(rows, task.train.labels, task.name)
    np.testing.assert_array_equal(given[~is_text], table[prompted.ids][~is_text])


def test_without_noise_frozen_blocks_read_a_text_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    task, counts = stream()[0], Counter[bool]()
    watched(monkeypatch, causal.Split, "below", lambda found, given: counts.update({bool(given[0].cut): len(given[1])}))
    read_by_epochs = []
    for epochs in (1, 3):
        counts.clear()
        trained(spec("pecl-published", math.inf, epochs=epochs, layers=1), [task])
        read_by_epochs.append(counts[True])
    assert read_by_epochs[0] > 0
    assert read_by_epochs[1] == 0  # kept since the first training


def test_a_moving_score_is_computed_anew_in_every_epoch_without_noise_too() -> None:
    task = stream()[0]
    found, subject, _ = noised(spec("pecl-published", math.inf, score_model="current"), task)
    assert found.reading is not clean
    before = found.scores
    read(found, subject, task, 1)
    assert found.scores is not before


def test_published_noise_is_fresh_in_every_epoch_and_each_is_written_down() -> None:
    """Check 8, and the same vector for all steps of one epoch."""
    task = stream()[0]
    found, subject, ledger = noised(spec("pecl-published", 10.0), task)
    first, again, second = (read(found, subject, task, epoch)[0] for epoch in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("omega", ["before", "own"])
def test_published_copies_are_as_many_as_the_claim_counts(omega: str) -> None:
    """One fresh copy of every token a pass: what the memory reads of a task draws none of its own."""
    _, ledger, _ = trained(spec("pecl-published", 10.0, omega=omega), stream(n_tasks=1))
    assert sum("embeddings" in entry.what for entry in ledger.entries) == ledger.claimed.numbers["epochs"] == 2


def test_sentence_noise_is_one_for_a_text_stop_words_included() -> None:
    task = stream()[0]
    found, _, _ = noised(spec("pecl-published", 10.0, granularity="sentence"), task)
    ratios, is_token = found.ratios(), planes(task.train)[:, :, TOKEN] >= 0
    for row, inside in zip(ratios, is_token, strict=True):
        assert len(np.unique(row[inside])) == 1
        assert row[inside][0] > 0
    by_token, _, _ = noised(spec("pecl-published", 10.0), task)
    assert len(np.unique(by_token.ratios())) > 5


def local_copies(
    monkeypatch: pytest.MonkeyPatch, given: RunSpec, tasks: list[Task]
) -> tuple[list[NDArray[np.float32]], Ledger]:
    """What the network read of every text in every step of the local mode."""
    seen: list[NDArray[np.float32]] = []

    def note(found: torch.Tensor, given: tuple[Any, ...]) -> None:
        whole = np.full((len(tasks[0].train), FIRST + LENGTH, found.shape[2]), np.nan, np.float32)
        used = min(found.shape[1], whole.shape[1])
        whole[given[2].rows, :used] = found[:, :used].numpy()
        seen.append(whole[:, FIRST:])

    watched(monkeypatch, training, "replace_text_embeddings", note)
    _, ledger, _ = trained(given, tasks)
    return seen, ledger


def test_local_copies_are_drawn_once_and_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 8: the same vector for (text, place) in all epochs, one release in the ledger, whatever the epochs."""
    tasks = stream(n_tasks=1)
    seen, ledger = local_copies(monkeypatch, spec(epsilon=8.0, adjacency="replace", mode="local", epochs=3), tasks)
    assert len(seen) == 6  # steps of 6 texts
    inside = planes(tasks[0].train)[:, :, TOKEN] >= 0
    whole = np.stack(seen)
    spread = np.nanmax(whole, axis=0)[inside] - np.nanmin(whole, axis=0)[inside]
    assert (~np.isnan(whole)).any(axis=3).sum(axis=0)[inside].min() == 3  # every token was read in each epoch
    assert not spread.any()
    assert (len(ledger.entries), ledger.epsilon()) == (1, pytest.approx(8.0, rel=1e-2))
    assert ledger.epsilon() <= 8.0


def test_local_noise_is_the_same_on_every_token_stop_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 7: the noise's variance equals sigma^2 on stop words and on all others (6 standard errors: 2e-9 each)."""
    tasks = stream(n_tasks=1)
    given = spec(epsilon=8.0, adjacency="replace", mode="local", epochs=1, batch_size=12)
    (seen,), _ = local_copies(monkeypatch, given, tasks)
    rows, table = planes(tasks[0].train), training.embedding_table(AdaptedModel(given, next(given.cells()), known()).net)
    clip, ratio = median_norm(table), pecl.noises(given.params, given.privacy, known(n_tasks=1), 8.0).ratio
    noise = (seen - clipped(table, clip)[np.maximum(rows[:, :, TOKEN], 0)]) / (clip * ratio)
    inside, stop = rows[:, :, TOKEN] >= 0, rows[:, :, STOP] != 0
    for chosen in (inside & stop, inside & ~stop):
        squares = noise[chosen].astype(np.float64).ravel() ** 2
        assert abs(squares.mean() - 1) < 6 * math.sqrt(2 / len(squares))
        assert abs(1.1**2 * squares.mean() - 1) > 6 * math.sqrt(2 / len(squares))  # 10 % more would be seen


def test_local_training_never_sees_a_raw_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the release nothing of a text but its length is left in what is trained on."""
    found: list[Prompted] = []
    watched(monkeypatch, training, "plain_steps", lambda steps, given: found.append(given[1]))
    trained(spec(epsilon=8.0, adjacency="replace", mode="local"), stream(n_tasks=1))
    inside = found[0].role == TEXT
    assert inside.any()
    assert not found[0].ids[inside].any()
    assert not found[0].stop.any()


@pytest.mark.parametrize("method", quick(1, ["pecl", "pecl-published"]))
def test_without_unlearning_and_weight_zero_are_the_same_model(method: str) -> None:
    """Check 13."""
    first, _, _ = trained(spec(method, 10.0, unlearning="none"))
    second, _, _ = trained(spec(method, 10.0, lambda_unlearn=0))
    third, _, _ = trained(spec(method, 10.0, lambda_unlearn=5, theta=0.2))
    torch.testing.assert_close(weights(first), weights(second), rtol=0, atol=0)
    assert not torch.equal(weights(first), weights(third))


def scorer_of(scope: str, tasks: list[Task], model: str = "base") -> list[NDArray[np.float64]]:
    """Scores of the first two texts of each task, as they are when it is learned."""
    given = spec("pecl-published", 10.0, score2_scope=scope, score_model=model)
    scorer, subject, found = scorer_of_run(given), AdaptedModel(given, next(given.cells()), known()), []
    for task in tasks:
        scorer.open(task, CLASSES)
        rows = planes(task.train)[:2]
        found.append(scorer.scores(rows, subject.public_log_probs(rows)))
    return found


def test_scores_of_a_task_know_nothing_of_later_ones() -> None:
    """Check 16: under "seen" later tasks change nothing, under "public" and "off" no private text does."""
    first, second = stream()
    changed = Task(1, second.name, texts(12, 0, 50), second.test, second.prior)
    np.testing.assert_array_equal(scorer_of("seen", [first, second])[0], scorer_of("seen", [first, changed])[0])
    own = Examples(np.concatenate([planes(second.train)[:2], planes(changed.train)[:10]]), second.train.labels)
    mixed = Task(1, second.name, own, second.test, second.prior)
    assert not np.array_equal(scorer_of("seen", [first, second])[1], scorer_of("seen", [first, mixed])[1])
    for scope in ("public", "off"):
        np.testing.assert_array_equal(scorer_of(scope, [first, second])[1], scorer_of(scope, [first, mixed])[1])
    assert not np.array_equal(scorer_of("public", [first])[0], scorer_of("off", [first])[0])


def test_scope_all_is_equation_3_over_every_task_of_the_stream_unclipped() -> None:
    """As printed: counts of later tasks too, the logarithm negative for a token of all of them; all of it in the ledger."""
    tasks, given, ledger = stream(), spec("pecl-published", 10.0, score2_scope="all"), Ledger(1e-3, "add-remove", "once")
    (cell,) = given.cells()
    learner = methods.maker(given.method)(given, [cell], known())
    learner.survey({0: tasks}, {cell: ledger})
    assert [(entry.people_of, entry.what.split(" of")[0]) for entry in ledger.entries] == [((0, 1), "counts")]
    assert ledger.epsilon() == math.inf
    ready, shares = plain_language.load_tokenizer("lm-tiny"), []
    for task in tasks:
        counted = Counter[int]()
        for row, label in zip(planes(task.train)[:, :, TOKEN].tolist(), task.train.labels.tolist(), strict=True):
            counted.update(token for token in row if token >= 0)
            counted.update([*ready.encode(template(task.name))[0], *answer_ids(ready, CLASSES[label])])
        shares.append([counted[token] / max(counted.values()) for token in range(ready.size)])
    expected = np.mean(shares, axis=0) * np.log(2 / (1 + (np.array(shares) >= 0.2).sum(axis=0)))
    for task in tasks:
        learner._scorer.open(task, CLASSES)
        np.testing.assert_allclose(learner._scorer.score2, expected, rtol=1e-12)
    assert expected.min() < 0 <= scorer_of("seen", tasks)[1].min()


def test_published_epochs_are_passes_over_the_task_itself() -> None:
    """Three passes over each task, from its public nominal size: 5 and 12 texts make 1 and 2 batches of 6 a pass."""
    tasks, given = stream(), spec("pecl-published", 10.0, epochs=3)
    for sizes, steps in (({NAMES[0]: 5, NAMES[1]: 12}, [3 * 1, 3 * 2]), ({}, [3 * 2, 3 * 2])):  # none: as many for each
        _, _, said = trained(given, tasks, source_sizes=sizes)
        done = [one for one in said if isinstance(one, Progress) and one.done == one.total and "steps" in one.text]
        assert [one.total for one in done] == steps


@pytest.mark.parametrize("method", ["pecl-published", "pecl"])
def test_a_task_is_held_as_strongly_as_its_own_mean_score_says(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 11 has s-bar of the task being learned: known before its first step, with the adapters as they were left."""
    opened: list[tuple[float, bool]] = []

    def note(_: None, given: tuple[Any, ...]) -> None:
        memory, mean_score, *_ = given
        opened.append((mean_score, all(map(torch.equal, memory._products(), memory._snapshots))))

    watched(monkeypatch, training.Memory, "open", note)
    given = spec(method, math.inf if method == "pecl" else 10.0, **({} if method == "pecl" else {"score2_scope": "off"}))
    trained(given)
    expected = []
    for task in stream():
        rows = planes(task.train)
        is_token = rows[:, :, TOKEN] >= 0
        likely = np.where(is_token, adapted_model.log_probabilities("lm-tiny", rows[:, :, TOKEN], "cpu"), 0.0)
        scores = np.where(rows[:, :, STOP] != 0, 0.0, 1 - np.exp(0.5 * likely.astype(np.float64)))
        by_text = scores.sum(axis=1) / is_token.sum(axis=1)
        expected.append(scores.sum() / is_token.sum() if method == "pecl-published" else by_text.mean())
    assert [score for score, _ in opened] == pytest.approx(expected, rel=1e-5)
    assert abs(expected[0] - expected[1]) > 0.01
    assert all(is_before for _, is_before in opened)


@pytest.mark.parametrize("model", ["base", "current"])
def test_scores_under_the_base_model_do_not_change_during_training(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 16; under "current" they do: what is memorised is no longer sensitive."""
    seen: list[NDArray[np.float64]] = []
    watched(monkeypatch, NoisyInputs, "_begin", lambda found, given: seen.append(given[0]._scores.copy()))
    trained(spec("pecl-published", 10.0, score_model=model, epochs=3, loss="full", learning_rate=0.01), stream(n_tasks=1))
    assert len(seen) >= 3
    if model == "base":
        assert all(np.array_equal(seen[0], later) for later in seen)
    else:
        assert not np.array_equal(seen[0], seen[2])


def test_current_scores_of_the_repaired_loss_are_the_formulas() -> None:
    """In the loss they come from the same pass; the formula is the one that pages and the published method use."""
    task, given = stream()[0], spec(score_model="current", score2_scope="public")
    scorer = sculpting.Scorer(given.params, "public", "lm-tiny", printed=False)
    scorer.open(task, CLASSES)
    subject = AdaptedModel(given, next(given.cells()), known())
    rows = planes(task.train)
    expected = scorer.scores(rows, subject.current_log_probs(rows))
    batch = batch_of(subject.prompted(rows, task.train.labels, task.name), np.arange(len(rows)), "cpu")
    with torch.no_grad():
        likely = log_probs(subject.net, batch)
    found = pecl.current_scores(likely, batch, torch.from_numpy(scorer.score2).float(), 0.5).numpy()
    width = min(LENGTH, found.shape[1] - FIRST)
    np.testing.assert_allclose(found[:, FIRST : FIRST + width], expected[:, :width], rtol=0, atol=1e-5)
    assert not found[:, FIRST + width :].any()


@pytest.mark.parametrize(
    "given", [spec("pecl", 10.0), spec("pecl", 10.0, "replace", mode="local"), spec("pecl-published", 10.0)],
)  # fmt: skip
def test_learning_and_answering(given: RunSpec) -> None:
    learner, _, said = trained(given)
    ((rule, scores),) = learner.scores(0, stream()[0]).items()
    assert rule == "rank"
    assert scores.shape == (1, 4, 4)
    assert np.isneginf(scores[0, :, 2:]).all()
    assert np.isfinite(scores[0, :, :2]).all()
    assert [one.task for one in said if isinstance(one, Retained)] == [0, 1]


def test_training_without_noise_learns_its_tasks() -> None:
    given = spec(epsilon=math.inf, epochs=30, learning_rate=0.02, unlearning="none", stability=False)
    (task,) = stream(n=24, n_tasks=1)
    (scores,) = trained(given, [task])[0].scores(0, task).values()
    assert (scores[0].argmax(axis=1) == task.test.labels).all()


def test_generated_answers_are_a_rule_of_their_own() -> None:
    """What is written is compared in tests/methods/language/test_evaluation.py."""
    learner, _, _ = trained(spec(epsilon=math.inf, eval="generate"), stream(n_tasks=1))
    found = learner.scores(0, stream(n_tasks=1)[0])
    assert list(found) == ["generate"]
    assert set(np.unique(found["generate"])) <= {-np.inf, 0.0}


def planted(tasks: list[Task], task: int, line: str, rows: tuple[int, ...]) -> None:
    """Puts a line before these texts of a task."""
    strings = [f"{line}. {string}" if k in rows else string for k, string in enumerate(STRINGS[:2] * 6)]
    inputs = plain_language.read(Texts(strings, [()] * len(strings)), "lm-tiny", LENGTH)
    tasks[task] = replace(tasks[task], train=replace(tasks[task].train, table=inputs))


def test_codes_are_asked_for_once_all_their_texts_have_been_read() -> None:
    """Before the first task and after each: of those planted, only what really stands in the texts read so far."""
    news, later = Canary("The code of Ann is ", "12", 2, "news"), Canary("The code of Ben is ", "34", 3, "restaurants")
    never_read = Canary("The code of Cleo is ", "56", 1, "policy")
    controls = tuple(Canary(f"The code of {name} is ", "78", 0, "news") for name in ("Dan", "Eve", "Fay", "Gus", "Hal"))
    tasks = stream()
    planted(tasks, 0, news.prefix + news.code, (0, 5))
    planted(tasks, 1, later.prefix + later.code, (1, 2, 3))
    said = trained(spec(), tasks, canaries=(*controls, news, later, never_read))[2]
    leaks = {one.task: (one.levels, one.codes) for one in said if isinstance(one, Leaks)}
    assert leaks == {-1: ((0, 1, 2, 3), (3, 1, 1, 1)), 0: ((0, 2), (3, 1)), 1: ((0, 2, 3), (5, 1, 1))}
    assert not any(isinstance(one, Leaks) for one in trained(spec(), canaries=controls)[2])


def test_texts_that_may_not_be_shown_are_not() -> None:
    canaries = (Canary("The code is ", "12", 0, "news"), Canary("My code is ", "34", 1, "news"))
    tasks = stream()
    planted(tasks, 0, "My code is 34", (0,))
    said = trained(spec(), tasks, may_show=False, canaries=canaries)[2]
    assert not any(isinstance(one, TokensScored | Retained | Leaks) for one in said)
    shown = trained(spec(), canaries=canaries)[2]
    scored = [(one.task, one.model) for one in shown if isinstance(one, TokensScored)]
    assert scored == [(0, "base"), (0, "current"), (1, "base"), (1, "current")]
    assert [one.task for one in shown if isinstance(one, Leaks)] == [-1]  # none of these texts holds a code
    (first, *_) = shown[0].texts
    assert "".join(first.tokens).startswith("The government of the north")
    assert first.is_stop[0]
    assert first.kinds[0] == "D:year"
    assert "NAME" in first.kinds
    assert first.label in CLASSES


def test_published_scores_below_zero_are_warned_of() -> None:
    said = trained(spec("pecl-published", 10.0, score2_scope="public", alpha=0.0))[2]
    assert any(isinstance(one, Note) and "above the upper end" in one.text for one in said)


def test_the_first_words_need_no_torch() -> None:
    """In a process of its own: the first scored texts come before the library that takes seconds to load."""
    code = (
        "import sys\n"
        "from dpcl_core.events import TokensScored\n"
        "from dpcl_core.methods import catalog\n"
        "from tests.methods import pecl_small\n"
        "for method in ('pecl', 'pecl-published'):\n"
        "    spec = pecl_small.spec(method, 10.0)\n"
        "    learner = catalog.maker(method)(spec, list(spec.cells()), pecl_small.known())\n"
        "    first = next(learner.learn({0: pecl_small.stream()[0]}, {}))\n"
        "    assert isinstance(first, TokensScored), first\n"
        "    assert 'torch' not in sys.modules, 'torch is loaded'\n"
    )
    python("-c", code)


@pytest.mark.parametrize("method", ["pecl", "pecl-published"])
def test_models_keep_no_text(method: str) -> None:
    """After learning nothing of the task's texts is reachable from the model but numbers made of weights."""
    learner, _, _ = trained(spec(method, 10.0), stream(n_tasks=1))
    assert not [value for value in vars(learner._model).values() if isinstance(value, np.ndarray | torch.Tensor | Examples)]


# What PeCL and its baselines cost whom, by closed forms and our notes, and that nobody pays more than is said.


DELTA = 1e-6
ALL_PARAMS = (BaselineParams(), ErParams(), EwcParams(), GemParams(), olora.OloraParams(), mtl.MtlParams())
FACTS = PublicSizes(n_people=18_000, n_tasks=6, n_classes=30)  # 3,000 texts in each of six tasks
EVERY = PublicSizes(n_people=3_000, n_tasks=6, n_classes=30, recurrence="every")
PRIVACY, REPLACED = PrivacySpec(epsilons=(1.0, 8.0), delta=DELTA), PrivacySpec(delta=DELTA, adjacency="replace")
SMALL = PublicSizes(n_people=750, n_tasks=3, n_classes=9)
SEQFT = BaselineParams(budget="per-task")
EVERYONE = PublicSizes(n_people=24, n_tasks=3, n_classes=4, recurrence="every")


def total(params: BaselineParams, multiplier: float, facts: PublicSizes = FACTS) -> float:
    """Epsilon of the whole stream with one multiplier for everything."""
    return Plan(params, PRIVACY, facts).ledger(Noises(multiplier, multiplier)).epsilon()


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 1.136), (8.0, 0.550)])
def test_the_noise_of_one_task(epsilon: float, multiplier: float) -> None:
    """Check 17: 3,000 texts, batches of 32, 282 steps."""
    plan = Plan(SEQFT, PRIVACY, FACTS)
    assert (plan.n_steps, plan.noises(epsilon).steps) == (282, pytest.approx(multiplier, abs=0.01))


@pytest.mark.parametrize(("params", "at_one", "at_eight"), quick(2, [
    (SEQFT, 1.0, 8.0), (ErParams(buffer_share=0.05), 31.95, 146.5), (ErParams(), 14.05, 68.45),
    (ErParams(buffer_share=1.0), 1.47, 10.46), (EwcParams(), 1.019, 8.004), (EwcParams(fisher="gradients"), 1.0, 8.0),
    (olora.OloraParams(), 1.0, 8.0), (GemParams(), 702.5, 2655.8),
]))  # fmt: skip
def test_totals_with_the_noise_of_one_task(params: BaselineParams, at_one: float, at_eight: float) -> None:
    """Check 18 and the table of section 8.2: the same noise multiplier in all tasks, everything added up."""
    assert total(params, 1.1364) == pytest.approx(at_one, rel=2e-3)
    assert total(params, 0.5501) == pytest.approx(at_eight, rel=2e-3)


def test_fisher_information_adds_a_fiftieth_and_low_rank_pairs_add_nothing() -> None:
    assert total(EwcParams(), 1.1364) - total(SEQFT, 1.1364) == pytest.approx(0.019, abs=1e-3)
    assert total(olora.OloraParams(), 1.1364) == total(SEQFT, 1.1364)


def test_references_of_gem_are_plain_gaussians_in_sequence() -> None:
    """Five later tasks of 282 steps: their closed form alone is nearly all of the total."""
    references = gaussian.epsilon(1.1364 / math.sqrt(5 * 282), DELTA)
    assert references < total(GemParams(), 1.1364) < references + 1


@pytest.mark.parametrize(
    ("share", "epsilon", "multiplier"), quick(1, [(0.1, 1.0, 9.305), (0.1, 8.0, 1.624), (0.05, 8.0, 2.960)])
)
def test_noise_with_which_replay_stays_within_the_total(share: float, epsilon: float, multiplier: float) -> None:
    plan = Plan(ErParams(buffer_share=share), PRIVACY, FACTS)
    found = plan.noises(epsilon)
    assert found.steps == pytest.approx(multiplier, abs=0.01)
    assert plan.ledger(found).epsilon() <= epsilon


@pytest.mark.parametrize(("params", "facts"), quick(2, [
    *((params, SMALL) for params in ALL_PARAMS),
    *((params, PublicSizes(250, 3, 9, "every")) for params in (EwcParams(), GemParams())),
]))  # fmt: skip
def test_a_budget_for_the_total_is_kept_and_used_up(params: BaselineParams, facts: PublicSizes) -> None:
    plan = Plan(params, PRIVACY, facts)
    found = plan.ledger(plan.noises(8.0))
    assert 7.9 < found.epsilon() <= 8.0
    assert found.epsilon() == max(found.by_people().values())  # nobody pays more than those it was searched for


@pytest.mark.parametrize("params", [ErParams(budget="per-task"), GemParams(budget="per-task")])
def test_a_budget_for_each_task_shows_a_larger_total(params: BaselineParams) -> None:
    plan = Plan(params, PRIVACY, SMALL)
    found = plan.noises(8.0)
    assert found.steps == plan.noises(8.0).steps
    assert plan.ledger(found).epsilon() > 16.0


def test_replay_and_own_texts_share_one_noise() -> None:
    """Someone in every task has a text of each in one sum: that costs more than two sums with a noise each."""
    params = ErParams(buffer_share=1.0, replay_size=100, batch_size=100)
    found = Plan(params, PRIVACY, PublicSizes(100, 2, 4, "every")).ledger(Noises(30.0))
    # three steps of the first task with one text, three of the second with two texts, none of them drawn by lot
    assert found.epsilon() == pytest.approx(gaussian.epsilon(30 / math.sqrt(3 * 1 + 3 * 4), DELTA), rel=1e-3)


def test_a_task_charges_those_whose_texts_it_reads() -> None:
    def people_of(params: BaselineParams, task: int) -> list[tuple[int, ...]]:
        return [charge.people_of for charge in params.charges(Plan(params, PRIVACY, FACTS), Noises(1.0, 1.0), task)]

    assert (people_of(GemParams(), 2), people_of(ErParams(), 2)) == ([(2,), (0,), (1,)], [(0, 1, 2)])
    assert len(people_of(EwcParams(), 5)) == 1  # nothing comes after it: what held it would be measured for nothing
    assert [people_of(mtl.MtlParams(), task) for task in range(6)] == [*[[]] * 5, [(0, 1, 2, 3, 4, 5)]]


@pytest.mark.parametrize("params", ALL_PARAMS)
def test_without_noise_there_is_no_bound(params: BaselineParams) -> None:
    plan = Plan(params, PRIVACY, FACTS)
    found = plan.ledger(plan.noises(math.inf))
    assert found.epsilon() == math.inf
    assert {type(entry.event) for entry in found.entries} == {dp.NonPrivateDpEvent}


@pytest.mark.parametrize("facts", [FACTS, EVERY], ids=["once", "every"])
@pytest.mark.parametrize("label_share", [0.0, 0.25])
def test_noisy_copies_of_texts_stay_within_the_total(facts: PublicSizes, label_share: float) -> None:
    plan = Plan(BaselineParams(mechanism="fn", label_share=label_share), REPLACED, facts)
    for epsilon in (1.0, 8.0):
        found = plan.copies_ledger(plan.copy_noise(epsilon)).epsilon()
        assert found <= epsilon * (1 + 1e-6)
        assert label_share or found > 0.999 * epsilon


@pytest.mark.parametrize("facts", [FACTS, EVERY], ids=["once", "every"])
@pytest.mark.parametrize("per", ["text", "token"])
@pytest.mark.parametrize("budget", ["total", "per-task"])
def test_copies_of_pecl_and_of_baselines_have_the_same_noise(facts: PublicSizes, per: str, budget: str) -> None:
    """At one budget they are compared; a token of a person who comes in every task once had less of it in baselines."""
    asked = {"budget_per": per, "budget": budget, "label_share": 0.25, "length": 32}
    ours, theirs = pecl.PeclParams(mode="local", **asked), BaselineParams(mechanism="fn", **asked)  # type: ignore[arg-type]
    noise = ours.copy_noise(REPLACED, facts, 8.0)
    assert noise == theirs.copy_noise(REPLACED, facts, 8.0)
    n_uses = facts.n_tasks if budget == "total" and facts is EVERY else 1
    found = gaussian.epsilon(noise.ratio / (2 * math.sqrt((32 if per == "text" else 1) * n_uses)), REPLACED.delta)
    assert 5.999 < found <= 6.0, "the noise is rounded up to some digits"
    assert noise.epsilon_labels == 2.0 / n_uses


def test_the_noise_of_copies_is_that_of_all_tokens_of_a_text() -> None:
    """Sixty-four tokens: sigma over the clip 67.6 for 1, 10.45 for 8; for one token 8.449 and 1.306."""
    for per, one, eight in (("text", 67.6, 10.45), ("token", 8.449, 1.306)):
        plan = Plan(BaselineParams(mechanism="fn", budget_per=per), REPLACED, FACTS)
        ratios = [plan.copy_noise(epsilon).ratio for epsilon in (1.0, 8.0)]
        assert ratios == [pytest.approx(one, rel=2e-3), pytest.approx(eight, rel=2e-3)]
    per_token = plan.copies_ledger(plan.copy_noise(1.0))
    assert per_token.epsilon() > 8.0  # a whole text costs far more than one of its tokens


def test_what_the_form_says() -> None:
    assert re.findall(r"[\d.]+\d", Plan(GemParams(budget="per-task"), PRIVACY, FACTS).sentence(1.0)) == ["1.1364", "703"]
    assert Plan(BaselineParams(mechanism="fn"), REPLACED, FACTS).sentence(1.0).endswith("ε 1 for a text of 64 tokens.")


def test_accounting_under_replace_costs_more() -> None:
    found = Plan(ErParams(), REPLACED, SMALL).ledger(Noises(4.0))
    assert total(ErParams(), 4.0, SMALL) < found.epsilon() < found.if_in_every_task()


def test_the_accountant_of_the_table_is_the_librarys_own() -> None:
    """Replay written out by hand: own steps, then five tasks at the kept texts' chance."""
    step = dp.GaussianDpEvent(1.1364)
    events = [dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(32 / 3000, step), 282)]
    events += [dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(32 / (300 * past), step), 282) for past in range(1, 6)]
    assert total(ErParams(), 1.1364) == pytest.approx(accounting.Pld().epsilon(events, DELTA, "add-remove"), rel=1e-9)


# PeCL, published and repaired: what its ledger adds up to, and what is refused before anything is spent.


def spent(*given: Any, **params: Any) -> Ledger:
    return trained(spec(*given, **params))[1]


def test_published_has_no_bound_and_says_what_is_claimed() -> None:
    ledger = spent("pecl-published", 10.0, epochs=3)
    claim, without = ledger.claimed, spent("pecl-published", math.inf)
    assert (claim.epsilon, sorted(claim.terms.values()), claim.numbers["epochs"]) == (10, [1, 10], 3)
    assert ledger.epsilon() == without.epsilon() == math.inf
    assert without.claimed is None


@pytest.mark.parametrize("label_share", [0.0, 0.25])
@pytest.mark.parametrize("per", ["text", "token"])
def test_local_budgets(label_share: float, per: str) -> None:
    """A text's tokens and its label together stay within epsilon; a token's budget costs the text more, which is shown."""
    ledger = spent(epsilon=4.0, adjacency="replace", mode="local", label_share=label_share, budget_per=per, epochs=1)
    assert len(ledger.entries) == (2 if label_share == 0 else 4)
    total = ledger.epsilon()
    assert total <= 4.0 if per == "text" else total > 8
    if label_share == 0 and per == "text":
        assert total > 3.95


def test_central_budget_is_for_steps_and_mean_score_together() -> None:
    ledger = spent(epsilon=4.0)
    assert [entry.what.partition(",")[0] for entry in ledger.entries] == ["DP-SGD", "mean score of the texts"] * 2
    assert 3.9 < ledger.epsilon() <= 4.0
    without = spent(epsilon=4.0, stability=False)
    assert len(without.entries) == 2
    assert without.epsilon() <= 4.0
    assert [entry.what.partition(",")[0] for entry in spent(epsilon=4.0, mean_score="public").entries] == ["DP-SGD"] * 2
    assert math.isinf(spent(epsilon=math.inf).epsilon())


def test_a_budget_for_people_in_every_task_covers_all_of_them() -> None:
    given = spec(epsilon=4.0)
    noise = pecl.noises(given.params, given.privacy, EVERYONE, 4.0)
    life = list(pecl.events(given.params, given.privacy, 24.0, noise.multiplier)) * 3
    assert 3.9 < accounting.Pld().epsilon(life, 1e-3, "add-remove") <= 4.0
    assert pecl.noises(replace(given.params, budget="per-task"), given.privacy, EVERYONE, 4.0).multiplier < noise.multiplier


def test_local_copies_of_people_in_every_task_and_their_labels_keep_one_budget() -> None:
    given = spec(epsilon=4.0, adjacency="replace", mode="local", label_share=0.25)
    noise = pecl.noises(given.params, given.privacy, EVERYONE, 4.0)
    assert 3 * noise.labels == pytest.approx(1.0)
    life = [dp.GaussianDpEvent(noise.ratio / math.sqrt(given.params.length)), accounting.LocalDpEvent(noise.labels)] * 3
    assert 3.0 < accounting.Pld().epsilon(life, given.privacy.delta, "replace") <= 4.0


def test_an_empty_task_takes_its_noisy_steps_and_is_written_down() -> None:
    empty = Task(0, "news", texts(0, 0), texts(2, 0), (0, 1))
    for given in (spec(), spec(adjacency="replace", mode="local"), spec("pecl-published", 10.0)):
        assert trained(given, [empty])[1].entries


@pytest.mark.parametrize(("settings", "field"), [
    ({"adjacency": "add-remove", "mode": "local"}, "privacy.adjacency"),
    ({"adjacency": "replace", "mode": "local", "loss": "full"}, "params.loss"),
    ({"adjacency": "replace", "mode": "local", "unlearning": "hinge"}, "params.unlearning"),
    ({"adjacency": "replace", "mode": "local", "mean_score": "released"}, "params.mean_score"),
    ({"adjacency": "replace", "mode": "local", "score_model": "current"}, "params.score_model"),
    ({"label_share": 0.1}, "params.label_share"),
    ({"lambda_min": 20}, "params.lambda_min"),
    ({"method": "pecl-published", "epsilon": 10.0, "eps_lower": 11}, "params.eps_lower"),
    ({"method": "lm-seqft", "mechanism": "fn"}, "privacy.adjacency"),
    ({"method": "lm-seqft", "adjacency": "replace", "mechanism": "fn", "loss": "full"}, "params.loss"),
])  # fmt: skip
def test_settings_that_void_the_guarantee_or_make_no_sense_are_refused(settings: dict[str, object], field: str) -> None:
    given = spec(**settings)  # type: ignore[arg-type]
    assert refusal_of(methods.card(given.method).refuses, given, PublicSizes(100, 2, 4)).field == field


@pytest.mark.parametrize(("adjacency", "recurrence"), [("add-remove", "once"), ("replace", "once"), ("add-remove", "every")])
def test_mean_scores_that_cost_the_whole_budget_are_refused_before_the_start(adjacency: str, recurrence: Recurrence) -> None:
    """Just where no noise on the steps would keep the budget: held to the search for that noise itself."""
    facts = PublicSizes(120, 3, 4, recurrence)

    def given(std: float) -> RunSpec:
        return spec(epsilon=1.0, adjacency=adjacency, mean_score_std=std)

    def is_refused(std: float) -> bool:
        try:
            methods.card("pecl").refuses(given(std), facts)
        except BadInput as error:
            return error.field == "params.mean_score_std"
        return False

    low, high = 1e-3, 10.0
    assert is_refused(low)
    assert not is_refused(high)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_refused(middle) else (low, middle)
    refuses(r"epsilon = 1\.0: must be larger", pecl.noises, given(0.99 * low).params, given(low).privacy, facts, 1.0)
    assert pecl.noises(given(1.05 * high).params, given(high).privacy, facts, 1.0).multiplier > 0


def test_a_list_of_nominal_budgets_is_refused() -> None:
    given = spec("pecl-published", 10.0)
    several = replace(given, privacy=replace(given.privacy, epsilons=(1.0, 10.0)))
    refuses("must be one number", methods.card("pecl-published").refuses, several, PublicSizes(100, 2, 4))


def test_texts_too_long_for_the_model_are_refused() -> None:
    long = plain_language.read(Texts(["word " * 300]), "lm-tiny", 260)
    task = Task(0, "news", Examples(long, np.array([0])), texts(1, 0), (0, 1))
    refuses(r"params\.length", trained, spec(length=260), [task])
