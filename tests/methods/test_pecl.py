"""PeCL, published and repaired, on the bundled model: what the network reads, what the ledger hears, what changes what."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core import checks
from dpcl_core.backbones.language import reader
from dpcl_core.data.texts import STOP, TOKEN, Canary, Span, TextForm, Texts
from dpcl_core.errors import BadInput
from dpcl_core.events import Leaks, Note, Retained, TokensScored
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.base import Known, Said
from dpcl_core.methods.cards.pecl import PeclParams
from dpcl_core.methods.cards.pecl_published import NO_GUARANTEE, PublishedParams
from dpcl_core.methods.facts import Facts
from dpcl_core.methods.language import pecl_costs, published, repaired
from dpcl_core.methods.language.gradients import batch_of, log_probs
from dpcl_core.methods.language.prompts import FIRST, TEXT
from dpcl_core.methods.language.published import Noised, Published
from dpcl_core.methods.language.repaired import Repaired
from dpcl_core.methods.language.scoring import Scorer, planes
from dpcl_core.methods.language.subject import Subject, embedding_table, median_norm
from dpcl_core.privacy import accounting
from dpcl_core.privacy.embeddings import clipped
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Recurrence, RunSpec

ROOT = Path(__file__).resolve().parents[2]
LENGTH = 24
CLASSES = ("world", "sports", "good", "poor")
STRINGS = (
    "The government of the north signed a treaty with Anna Reed.",
    "The striker won the final and the cup for Port Guytown.",
    "I was served at noon, the soup was fine and the bread warm.",
    "A cold plate and a rude waiter, said Ben Cole of 12 Hill Road.",
)
NAMES = ("news", "restaurants")


def texts(n: int, task: int, start: int = 0) -> Examples:
    strings = [f"{STRINGS[2 * task + (start + k) % 2]} It was day {start + k}." for k in range(n)]
    spans = [(Span(0, 3, "D:year"), Span(len(string) - 12, len(string), "NAME")) for string in strings]
    labels = np.array([2 * task + (start + k) % 2 for k in range(n)], np.int64)
    return Examples(reader.read(Texts(strings, spans), "lm-tiny", LENGTH), labels)


def stream(n: int = 12, n_tasks: int = 2) -> list[Task]:
    return [Task(k, NAMES[k], texts(n, k), texts(4, k, 100), (2 * k, 2 * k + 1)) for k in range(n_tasks)]


def known(n: int = 12, n_tasks: int = 2, may_show: bool = True, canaries: tuple[Canary, ...] = ()) -> Known:
    form = TextForm(LENGTH, may_show=may_show)
    return Known(0, 4, (0, 1, 2, 3), n * n_tasks, n_tasks, classes=CLASSES, texts=form, canaries=canaries)


def spec(method: str = "pecl", epsilon: float = 8.0, adjacency: str = "add-remove", **params: object) -> RunSpec:
    return checks.parse(
        {
            "method": method,
            "params": {"length": LENGTH, "epochs": 2, "batch_size": 6, **params},
            "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"},
            "scenario": {"kind": "source-incremental"},
            "labels": "prior",
            "privacy": {"epsilons": [epsilon], "delta": 1e-3, "noise": "seeded", "adjacency": adjacency},
            "seeds": [0],
        }
    )


def trained(given: RunSpec, tasks: list[Task] | None = None, **public: object) -> tuple[object, Ledger, list[Said]]:
    tasks = stream() if tasks is None else tasks
    (cell,) = given.cells()
    learner = methods.maker(given.method)(given, [cell], known(n_tasks=len(tasks), **public))  # type: ignore[arg-type]
    ledger = Ledger(given.privacy.delta, given.privacy.adjacency, "once")
    said: list[Said] = []
    for task in tasks:
        said += list(learner.learn({0: task}, {cell: ledger}))
    return learner, ledger, said


def weights(learner: object) -> torch.Tensor:
    net = learner._model.net  # type: ignore[attr-defined]
    return torch.cat([parameter.detach().flatten() for parameter in net.trainable().values()])


def noised(given: RunSpec, task: Task) -> tuple[Noised, Subject, Ledger]:
    (cell,) = given.cells()
    assert isinstance(given.params, PublishedParams)
    scorer = Scorer(given.params, given.params.score2_scope, "lm-tiny", printed=True)
    scorer.open(task, CLASSES)
    subject, ledger = Subject(given, cell, known()), Ledger(1e-3, "add-remove", "once")
    return Noised(given, cell, subject, scorer, planes(task.train), task, ledger), subject, ledger


def read(found: Noised, subject: Subject, task: Task, epoch: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """What the network reads of all texts in this epoch [n, S, d], and which tokens are of texts."""
    prompted = subject.prompted(planes(task.train), task.train.labels, task.name)
    batch = batch_of(prompted, np.arange(len(prompted)), "cpu")
    with torch.no_grad():
        given = found.read(subject.net.embed(batch.ids), batch, epoch).numpy()
    return given, prompted.role == TEXT


def test_published_stop_words_are_exact_and_everything_else_is_not() -> None:
    """Check 7: stop tokens come out bit by bit as their clipped embedding; prompts are not even clipped."""
    task = stream()[0]
    found, subject, _ = noised(spec("pecl-published", 10.0), task)
    given, is_text = read(found, subject, task, 0)
    table = embedding_table(subject.net)
    rows = planes(task.train)
    tokens, stop = rows[:, :, TOKEN], rows[:, :, STOP] != 0
    clean = clipped(table, median_norm(table))[np.maximum(tokens, 0)]
    width = given.shape[1] - FIRST
    inner, is_stop, is_inside = given[:, FIRST:], stop[:, :width], is_text[:, FIRST:]
    assert is_stop.any()
    np.testing.assert_array_equal(inner[:, :LENGTH][is_stop & (tokens >= 0)], clean[is_stop & (tokens >= 0)])
    others = ~is_stop[:, :LENGTH] & is_inside[:, :LENGTH]
    assert (np.abs(inner[:, :LENGTH] - clean).max(axis=2)[others] > 0).all()
    prompted = subject.prompted(rows, task.train.labels, task.name)
    np.testing.assert_array_equal(given[~is_text], table[prompted.ids][~is_text])


def test_published_noise_is_fresh_in_every_epoch_and_each_is_written_down() -> None:
    """Check 8, and the same vector for all steps of one epoch."""
    task = stream()[0]
    found, subject, ledger = noised(spec("pecl-published", 10.0), task)
    first, again, second = (read(found, subject, task, epoch)[0] for epoch in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert len(ledger.entries) == 2


def test_sentence_noise_is_one_for_a_text_stop_words_included() -> None:
    task = stream()[0]
    found, _, _ = noised(spec("pecl-published", 10.0, granularity="sentence"), task)
    ratios, is_token = found.ratios(), planes(task.train)[:, :, TOKEN] >= 0
    for row, inside in zip(ratios, is_token, strict=True):
        assert len(np.unique(row[inside])) == 1
        assert row[inside][0] > 0
    by_token, _, _ = noised(spec("pecl-published", 10.0), task)
    assert len(np.unique(by_token.ratios())) > 5


def test_published_has_no_bound_and_says_what_is_claimed() -> None:
    _, ledger, _ = trained(spec("pecl-published", 10.0, epochs=3))
    assert math.isinf(ledger.epsilon())
    assert ledger.claimed is not None
    assert ledger.claimed.epsilon == 10
    assert sorted(ledger.claimed.terms.values()) == [1, 10]
    assert ledger.claimed.numbers["epochs"] == 3
    assert methods.card("pecl-published").guarantee == "nominal"
    assert methods.card("pecl-published").notes(PublishedParams())[0] == NO_GUARANTEE
    _, without, _ = trained(spec("pecl-published", math.inf))
    assert without.claimed is None
    assert math.isinf(without.epsilon())


def local_copies(
    monkeypatch: pytest.MonkeyPatch, given: RunSpec, tasks: list[Task]
) -> tuple[list[NDArray[np.float32]], Ledger]:
    """What the network read of every text in every step of the local mode."""
    seen: list[NDArray[np.float32]] = []
    inner = repaired.replaced

    def watched(embeddings: torch.Tensor, stored: torch.Tensor, batch: object) -> torch.Tensor:
        found = inner(embeddings, stored, batch)  # type: ignore[arg-type]
        whole = np.full((len(tasks[0].train), FIRST + LENGTH, found.shape[2]), np.nan, np.float32)
        used = min(found.shape[1], whole.shape[1])
        whole[batch.rows, :used] = found[:, :used].numpy()  # type: ignore[attr-defined]
        seen.append(whole[:, FIRST:])
        return found

    monkeypatch.setattr(repaired, "replaced", watched)
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
    assert len(ledger.entries) == 1
    assert ledger.epsilon() == pytest.approx(8.0, rel=1e-2)
    assert ledger.epsilon() <= 8.0


def test_local_noise_is_the_same_on_every_token_stop_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 7: the noise's variance equals sigma^2 on stop words and on all others (6 standard errors: 2e-9 each)."""
    tasks = stream(n_tasks=1)
    given = spec(epsilon=8.0, adjacency="replace", mode="local", epochs=1, batch_size=12)
    (seen,), _ = local_copies(monkeypatch, given, tasks)
    rows, table = planes(tasks[0].train), embedding_table(Subject(given, next(given.cells()), known()).net)
    assert isinstance(given.params, PeclParams)
    clip, ratio = median_norm(table), pecl_costs.noises(given.params, given.privacy, known(n_tasks=1), 8.0).ratio
    noise = (seen - clipped(table, clip)[np.maximum(rows[:, :, TOKEN], 0)]) / (clip * ratio)
    inside, stop = rows[:, :, TOKEN] >= 0, rows[:, :, STOP] != 0
    for chosen in (inside & stop, inside & ~stop):
        squares = noise[chosen].astype(np.float64).ravel() ** 2
        assert abs(squares.mean() - 1) < 6 * math.sqrt(2 / len(squares))
        assert abs(1.1**2 * squares.mean() - 1) > 6 * math.sqrt(2 / len(squares))  # 10 % more would be seen


def test_local_training_never_sees_a_raw_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the release nothing of a text but its length is left in what is trained on."""
    found = []
    inner = repaired.plain_steps

    def watched(net: object, texts: object, *args: object, **options: object) -> Iterator[int]:
        found.append(texts)
        return inner(net, texts, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(repaired, "plain_steps", watched)
    trained(spec(epsilon=8.0, adjacency="replace", mode="local"), stream(n_tasks=1))
    inside = found[0].role == TEXT
    assert inside.any()
    assert not found[0].ids[inside].any()
    assert not found[0].stop.any()
    assert not found[0].kind.any()


@pytest.mark.parametrize("label_share", [0.0, 0.25])
@pytest.mark.parametrize("per", ["text", "token"])
def test_local_budgets(label_share: float, per: str) -> None:
    """A text's tokens and its label together stay within epsilon; a token's budget costs the text more, which is shown."""
    given = spec(epsilon=4.0, adjacency="replace", mode="local", label_share=label_share, budget_per=per, epochs=1)
    _, ledger, _ = trained(given, stream(n_tasks=2))
    assert len(ledger.entries) == (2 if label_share == 0 else 4)
    total = ledger.epsilon()
    assert total <= 4.0 if per == "text" else total > 8
    if label_share == 0 and per == "text":
        assert total > 3.95


def test_central_budget_is_for_steps_and_mean_score_together() -> None:
    given = spec(epsilon=4.0)
    _, ledger, _ = trained(given)
    assert [entry.what.partition(",")[0] for entry in ledger.entries] == ["DP-SGD", "mean score of the texts"] * 2
    assert 3.9 < ledger.epsilon() <= 4.0
    _, without, _ = trained(spec(epsilon=4.0, stability=False))
    assert len(without.entries) == 2
    assert without.epsilon() <= 4.0
    _, public, _ = trained(spec(epsilon=4.0, mean_score="public"))
    assert [entry.what.partition(",")[0] for entry in public.entries] == ["DP-SGD"] * 2
    _, infinite, _ = trained(spec(epsilon=math.inf))
    assert math.isinf(infinite.epsilon())


def test_a_budget_for_people_in_every_task_covers_all_of_them() -> None:
    given, everyone = spec(epsilon=4.0), Known(0, 4, (), 24, 3, recurrence="every")
    assert isinstance(given.params, PeclParams)
    noise = pecl_costs.noises(given.params, given.privacy, everyone, 4.0)
    life = list(pecl_costs.events(given.params, given.privacy, 24.0, noise.multiplier)) * 3
    assert 3.9 < accounting.Pld().epsilon(life, 1e-3, "add-remove") <= 4.0
    per_task = pecl_costs.noises(given.params.model_copy(update={"budget": "per-task"}), given.privacy, everyone, 4.0)
    assert per_task.multiplier < noise.multiplier


def test_noise_multipliers_of_the_card() -> None:
    """Check 17: 3,000 texts, batches of 32, 282 steps, delta 1e-6."""
    for epsilon, expected in ((1.0, 1.136), (8.0, 0.550)):
        found = accounting.noise_multiplier(epsilon, 1e-6, 32 / 3000, 282, "add-remove")
        assert found == pytest.approx(expected, abs=0.01)
    params = PeclParams()
    assert (params.model_copy(update={"epochs": 3, "batch_size": 32})).n_steps(3000) == 282


@pytest.mark.parametrize("method", ["pecl", "pecl-published"])
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
    assert isinstance(given.params, PublishedParams)
    scorer = Scorer(given.params, given.params.score2_scope, "lm-tiny", printed=True)
    subject, found = Subject(given, next(given.cells()), known()), []
    for task in tasks:
        scorer.open(task, CLASSES)
        rows = planes(task.train)[:2]
        found.append(scorer.scores(rows, subject.of_public_model(rows)))
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


@pytest.mark.parametrize("model", ["base", "current"])
def test_scores_under_the_base_model_do_not_change_during_training(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 16; under "current" they do: what is memorised is no longer sensitive."""
    seen: list[NDArray[np.float64]] = []
    inner = published.Noised._begin

    def watched(self: Noised, epoch: int) -> None:
        inner(self, epoch)
        seen.append(self._found.copy())

    monkeypatch.setattr(published.Noised, "_begin", watched)
    given = spec("pecl-published", 10.0, score_model=model, epochs=3, loss="full", learning_rate=0.01)
    trained(given, stream(n_tasks=1))
    assert len(seen) >= 3
    if model == "base":
        assert all(np.array_equal(seen[0], later) for later in seen)
    else:
        assert not np.array_equal(seen[0], seen[2])


def test_current_scores_of_the_repaired_loss_are_the_formulas() -> None:
    """In the loss they come from the same pass; the formula is the one that pages and the published method use."""
    task, given = stream()[0], spec(score_model="current", score2_scope="public")
    assert isinstance(given.params, PeclParams)
    scorer = Scorer(given.params, "public", "lm-tiny", printed=False)
    scorer.open(task, CLASSES)
    subject = Subject(given, next(given.cells()), known())
    rows = planes(task.train)
    expected = scorer.scores(rows, subject.of_model_now(rows))
    batch = batch_of(subject.prompted(rows, task.train.labels, task.name), np.arange(len(rows)), "cpu")
    with torch.no_grad():
        likely = log_probs(subject.net, batch)
    found = repaired.current_scores(likely, batch, torch.from_numpy(scorer.score2).float(), 0.5).numpy()
    width = min(LENGTH, found.shape[1] - FIRST)
    np.testing.assert_allclose(found[:, FIRST : FIRST + width], expected[:, :width], rtol=0, atol=1e-5)
    assert not found[:, FIRST + width :].any()


@pytest.mark.parametrize(("method", "mode"), [("pecl", "central"), ("pecl", "local"), ("pecl-published", "")])
def test_learning_and_answering(method: str, mode: str) -> None:
    options = {"mode": mode} if mode else {}
    given = spec(method, 10.0, "replace" if mode == "local" else "add-remove", **options)
    learner, _, said = trained(given)
    tasks = stream()
    (scores,) = learner.scores(0, tasks[0]).values()  # type: ignore[attr-defined]
    assert scores.shape == (1, 4, 4)
    assert np.isneginf(scores[0, :, 2:]).all()
    assert np.isfinite(scores[0, :, :2]).all()
    assert list(learner.scores(0, tasks[0])) == ["rank"]  # type: ignore[attr-defined]
    assert [one.task for one in said if isinstance(one, Retained)] == [0, 1]


def test_training_without_noise_learns_its_tasks() -> None:
    given = spec(epsilon=math.inf, epochs=30, learning_rate=0.02, unlearning="none", stability=False)
    learner, _, _ = trained(given, stream(n=24, n_tasks=1))
    (task,) = stream(n=24, n_tasks=1)
    (scores,) = learner.scores(0, task).values()  # type: ignore[attr-defined]
    assert (scores[0].argmax(axis=1) == task.test.labels).all()


def test_generated_answers_are_a_rule_of_their_own() -> None:
    """What is written is compared in tests/methods/language/test_evaluation.py."""
    learner, _, _ = trained(spec(epsilon=math.inf, eval="generate"), stream(n_tasks=1))
    found = learner.scores(0, stream(n_tasks=1)[0])  # type: ignore[attr-defined]
    assert list(found) == ["generate"]
    assert set(np.unique(found["generate"])) <= {-np.inf, 0.0}


def test_seeded_runs_repeat_and_budgets_differ() -> None:
    first, again, other = (trained(spec(epsilon=epsilon))[0] for epsilon in (8.0, 8.0, 7.0))
    torch.testing.assert_close(weights(first), weights(again), rtol=0, atol=0)
    assert not torch.equal(weights(first), weights(other))


def planted(tasks: list[Task], task: int, line: str, rows: tuple[int, ...]) -> None:
    """Puts a line before these texts of a task."""
    strings = [f"{line}. {string}" if k in rows else string for k, string in enumerate(STRINGS[:2] * 6)]
    inputs = reader.read(Texts(strings, [()] * len(strings)), "lm-tiny", LENGTH)
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
    controls_alone = trained(spec(), canaries=controls)[2]
    assert not any(isinstance(one, Leaks) for one in controls_alone)


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
    assert isinstance(shown[0], TokensScored)
    (first, *_) = shown[0].texts
    assert "".join(first.tokens).startswith("The government of the north")
    assert first.is_stop[0]
    assert first.kinds[0] == "D:year"
    assert "NAME" in first.kinds
    assert first.label in CLASSES


def test_an_empty_task_takes_its_noisy_steps_and_is_written_down() -> None:
    empty = Task(0, "news", texts(0, 0), texts(2, 0), (0, 1))
    for given in (spec(), spec(adjacency="replace", mode="local"), spec("pecl-published", 10.0)):
        _, ledger, _ = trained(given, [empty])
        assert ledger.entries


def test_published_scores_below_zero_are_warned_of() -> None:
    said = trained(spec("pecl-published", 10.0, score2_scope="public", alpha=0.0))[2]
    assert any(isinstance(one, Note) and "above the upper end" in one.text for one in said)


@pytest.mark.parametrize(("settings", "field"), [
    ({"adjacency": "add-remove", "mode": "local"}, "privacy.adjacency"),
    ({"adjacency": "replace", "mode": "local", "loss": "full"}, "params.loss"),
    ({"adjacency": "replace", "mode": "local", "unlearning": "hinge"}, "params.unlearning"),
    ({"adjacency": "replace", "mode": "local", "mean_score": "released"}, "params.mean_score"),
    ({"adjacency": "replace", "mode": "local", "score_model": "current"}, "params.score_model"),
    ({"label_share": 0.1}, "params.label_share"),
    ({"lambda_min": 20}, "params.lambda_min"),
    ({"method": "pecl-published", "epsilon": 10.0, "eps_lower": 11}, "params.eps_lower"),
])  # fmt: skip
def test_settings_that_void_the_guarantee_or_make_no_sense_are_refused(settings: dict[str, object], field: str) -> None:
    given = spec(**settings)  # type: ignore[arg-type]
    with pytest.raises(BadInput) as caught:
        methods.card(given.method).refuses(given, Facts(100, 2, 4))
    assert caught.value.field == field


@pytest.mark.parametrize(("adjacency", "recurrence"), [("add-remove", "once"), ("replace", "once"), ("add-remove", "every")])
def test_mean_scores_that_cost_the_whole_budget_are_refused_before_the_start(adjacency: str, recurrence: Recurrence) -> None:
    """Just where no noise on the steps would keep the budget: held to the search for that noise itself."""
    everyone = replace(known(n=40, n_tasks=3), recurrence=recurrence)
    facts = Facts(everyone.n_people, 3, 4, recurrence)

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
    with pytest.raises(accounting.Unaccountable):
        pecl_costs.noises(given(0.99 * low).params, given(low).privacy, everyone, 1.0)
    assert pecl_costs.noises(given(1.05 * high).params, given(high).privacy, everyone, 1.0).multiplier > 0


def test_a_list_of_nominal_budgets_is_refused() -> None:
    given = spec("pecl-published", 10.0)
    several = given.model_copy(update={"privacy": given.privacy.model_copy(update={"epsilons": (1.0, 10.0)})})
    with pytest.raises(BadInput, match="must be one number"):
        methods.card("pecl-published").refuses(several, Facts(100, 2, 4))


def test_texts_too_long_for_the_model_are_refused() -> None:
    given = spec(length=260)
    long = reader.read(Texts(["word " * 300]), "lm-tiny", 260)
    task = Task(0, "news", Examples(long, np.array([0])), texts(1, 0), (0, 1))
    with pytest.raises(BadInput, match=r"params\.length"):
        trained(given, [task])


def test_the_first_words_need_no_torch() -> None:
    """In a process of its own: the first scored texts come before the library that takes seconds to load."""
    code = (
        "import sys\n"
        "import numpy as np\n"
        "from dpcl_core import checks\n"
        "from dpcl_core.backbones.language import reader\n"
        "from dpcl_core.data.texts import TextForm, Texts\n"
        "from dpcl_core.events import TokensScored\n"
        "from dpcl_core.methods import catalog\n"
        "from dpcl_core.methods.base import Known\n"
        "from dpcl_core.scenarios.stream import Examples, Task\n"
        "for method in ('pecl', 'pecl-published'):\n"
        "    spec = checks.parse({'method': method, 'privacy': {'epsilons': [10.0]}, 'seeds': [0]})\n"
        "    (cell,) = spec.cells()\n"
        "    spec = spec.model_copy(update={'data': spec.data.model_copy(update={'backbone': 'lm-tiny'})})\n"
        "    known = Known(0, 1, (0,), 10, 1, classes=('good',), texts=TextForm(64))\n"
        "    read = reader.read(Texts(['The soup was cold.']), 'lm-tiny', 64)\n"
        "    examples = Examples(read, np.array([0]))\n"
        "    task = Task(0, 'news', examples, examples, (0,))\n"
        "    first = next(catalog.maker(method)(spec, [cell], known).learn({0: task}, {}))\n"
        "    assert isinstance(first, TokensScored), first\n"
        "    assert 'torch' not in sys.modules, 'torch is loaded'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("model", [Repaired, Published])
def test_models_keep_no_text(model: type) -> None:
    """After learning nothing of the task's texts is reachable from the model but numbers made of weights."""
    method = "pecl" if model is Repaired else "pecl-published"
    learner, _, _ = trained(spec(method, 10.0), stream(n_tasks=1))
    held = learner._model  # type: ignore[attr-defined]
    arrays = [value for value in vars(held).values() if isinstance(value, np.ndarray | torch.Tensor | Examples)]
    assert not arrays
