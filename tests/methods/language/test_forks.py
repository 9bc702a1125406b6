"""A label as a choice among labels: against every label read whole, with priors and names that begin alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpcl_core.methods.language import evaluation
from dpcl_core.methods.language.forks import Forks
from dpcl_core.methods.language.gradients import batch_of, log_probs
from dpcl_core.methods.language.losses import task_loss
from dpcl_core.methods.language.prompts import answer_ids, prompted, template
from tests.methods.language import tiny

CLASSES = ("very bad", "bad", "very good", "mixed")
NAME = "pets"


def forks() -> Forks:
    found = Forks()
    found.add("other", {0: [5, 6], 1: [7, 6]})  # numbers of forks are shared by all tasks
    found.add(NAME, {label: answer_ids(tiny.Letters(), name) for label, name in enumerate(CLASSES)})  # type: ignore[arg-type]
    return found


def one_by_one(net: tiny.Adapted, string: str, prior: dict[tuple[int, ...], np.ndarray]) -> list[float]:
    """Each label's log-likelihood: at every token of its name, among all tokens that continue some name from there."""
    letters = tiny.Letters()
    names = [answer_ids(letters, name) for name in CLASSES]  # type: ignore[arg-type]
    ids = [letters.bos, *letters.encode(string)[0][:16], *letters.encode(template(NAME))[0]]
    found = []
    for name in names:
        total = 0.0
        for place, token in enumerate(name):
            path = tuple(name[:place])
            following = sorted({other[place] for other in names if tuple(other[:place]) == path and len(other) > place})
            with torch.no_grad():
                logits = net.model(input_ids=torch.tensor([ids + name[:place]])).logits[0, -1, following].numpy()
            logits = logits - prior.get(path, np.zeros(len(following)))
            chances = np.exp(logits - logits.max())
            total += float(np.log(chances / chances.sum())[following.index(token)])
        found.append(total)
    return found


@pytest.mark.parametrize("with_prior", [False, True])
def test_scores_equal_reading_every_name_token_by_token(with_prior: bool) -> None:
    net, own = tiny.adapted(), forks()
    prior: dict[tuple[int, ...], np.ndarray] = {}
    if with_prior:
        first = answer_ids(tiny.Letters(), "very bad")[:1]  # type: ignore[arg-type]
        after_very = tuple(answer_ids(tiny.Letters(), "very bad")[:6])  # type: ignore[arg-type]
        prior = {tuple(first): np.array([0.5, -2.0, 1.0]), after_very: np.array([-1.0, 3.0])}
        numbers = own.answers(NAME)[0][1]
        own.set_prior(numbers[1], prior[tuple(first)])
        own.set_prior(numbers[6], prior[after_very])
    found = evaluation.choice_scores(
        net, tiny.Letters(), tiny.encoded(tiny.STRINGS), own, (*CLASSES, "x"), NAME, device="cpu"
    )  # type: ignore[arg-type]
    expected = [one_by_one(net, string, prior) for string in tiny.STRINGS]
    np.testing.assert_allclose(found[:, :4], expected, rtol=0, atol=1e-4)
    assert np.isneginf(found[:, 4]).all()
    np.testing.assert_allclose(np.exp(found[:, :4]).sum(axis=1), 1, rtol=1e-5)


def test_the_loss_is_the_same_likelihood_as_the_score() -> None:
    net, own = tiny.adapted(), forks()
    own.set_prior(own.answers(NAME)[0][1][1], np.array([0.5, -2.0, 1.0]))
    labels = np.arange(len(tiny.STRINGS)) % len(CLASSES)
    texts = prompted(tiny.Letters(), tiny.encoded(tiny.STRINGS), labels, CLASSES, NAME, own.answers(NAME))  # type: ignore[arg-type]
    batch, loss = batch_of(texts, np.arange(len(texts)), "cpu"), task_loss("answer", own)
    with torch.no_grad():
        losses = loss.of(log_probs(net, batch, answers_only=True, forks=own), batch).numpy()
        everywhere = loss.of(log_probs(net, batch, forks=own), batch).numpy()
    scores = evaluation.choice_scores(net, tiny.Letters(), tiny.encoded(tiny.STRINGS), own, CLASSES, NAME, device="cpu")  # type: ignore[arg-type]
    np.testing.assert_allclose(-losses, scores[np.arange(len(labels)), labels], rtol=0, atol=1e-4)
    np.testing.assert_allclose(everywhere, losses, rtol=0, atol=1e-10)


def test_a_prior_is_what_public_texts_get_from_the_frozen_model() -> None:
    """On the public texts themselves the mean difference between two labels that part at one fork is gone."""
    net, own = tiny.adapted(started=False), forks()
    texts = [
        prompted(
            tiny.Letters(), tiny.encoded(tiny.STRINGS), np.full(len(tiny.STRINGS), label), CLASSES, NAME, own.answers(NAME)
        )  # type: ignore[arg-type]
        for label in own.covering(NAME)
    ]
    before = evaluation.choice_scores(net, tiny.Letters(), tiny.encoded(tiny.STRINGS), own, CLASSES, NAME, device="cpu")  # type: ignore[arg-type]
    evaluation.set_priors(net, texts, own, "cpu")
    after = evaluation.choice_scores(net, tiny.Letters(), tiny.encoded(tiny.STRINGS), own, CLASSES, NAME, device="cpu")  # type: ignore[arg-type]
    for one, other in ((0, 2), (1, 3)):
        gap = before[:, one] - before[:, other]
        np.testing.assert_allclose(after[:, one] - after[:, other], gap - gap.mean(), rtol=0, atol=1e-4)
        assert abs(gap.mean()) > 0.1


def test_answers_end_at_the_last_fork_and_few_labels_pass_all() -> None:
    own = forks()
    answers = own.answers(NAME)
    assert all(answer[1][-1] for answer in answers.values())
    assert len(answers[1][0]) < len(answers[0][0])  # "bad" parts from "mixed" at its first letter
    assert set(own.covering(NAME)) == {0} or set(own.covering(NAME)) == {2}
    assert NAME in own
    assert "cats" not in own
