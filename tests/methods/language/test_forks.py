"""A label as a choice among labels: against every label read whole, with priors and names that begin alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.methods.language import evaluation
from dpcl_core.methods.language.gradients import batch_of, log_probs
from dpcl_core.methods.language.public_text import Prompted, answer_ids, prompted, template
from dpcl_core.methods.language.training import Forks, task_loss
from tests.methods.language import tiny

CLASSES = ("very bad", "bad", "very good", "mixed")
NAME = "pets"
NAMES = [answer_ids(tiny.Letters(), name) for name in CLASSES]  # type: ignore[arg-type]
N = len(tiny.STRINGS)
FIRST, AFTER_VERY = 2, 3  # the two forks of these names; another task's is before them


def forks() -> Forks:
    found = Forks()
    found.add("other", {0: [5, 6], 1: [7, 6]})
    found.add(NAME, dict(enumerate(NAMES)))
    return found


def texts_of(labels: NDArray[np.int64], own: Forks) -> Prompted:
    return prompted(tiny.Letters(), tiny.encoded(tiny.STRINGS), labels, CLASSES, NAME, own.answers(NAME))  # type: ignore[arg-type]


def scores(net: tiny.Adapted, own: Forks, classes: tuple[str, ...] = CLASSES) -> NDArray[np.float32]:
    letters, inputs = tiny.Letters(), tiny.encoded(tiny.STRINGS)
    return evaluation.choice_scores(net, letters, inputs, own, classes, NAME, device="cpu")  # type: ignore[arg-type]


def one_by_one(net: tiny.Adapted, string: str, prior: dict[tuple[int, ...], NDArray[np.float64]]) -> list[float]:
    """Each label's log-likelihood: at every token of its name, among all tokens that continue some name from there."""
    letters = tiny.Letters()
    ids = [letters.bos, *letters.encode(string)[0][:16], *letters.encode(template(NAME))[0]]
    found = []
    for name in NAMES:
        total = 0.0
        for place, token in enumerate(name):
            path = tuple(name[:place])
            following = sorted({other[place] for other in NAMES if tuple(other[:place]) == path and len(other) > place})
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
    prior: dict[tuple[int, ...], NDArray[np.float64]] = {}
    if with_prior:
        prior = {tuple(NAMES[0][:1]): np.array([0.5, -2.0, 1.0]), tuple(NAMES[0][:6]): np.array([-1.0, 3.0])}
        own.set_prior(FIRST, prior[tuple(NAMES[0][:1])])
        own.set_prior(AFTER_VERY, prior[tuple(NAMES[0][:6])])
    found = scores(net, own, (*CLASSES, "x"))
    np.testing.assert_allclose(found[:, :4], [one_by_one(net, string, prior) for string in tiny.STRINGS], rtol=0, atol=1e-4)
    assert np.isneginf(found[:, 4]).all()
    np.testing.assert_allclose(np.exp(found[:, :4]).sum(axis=1), 1, rtol=1e-5)


def test_the_loss_is_the_same_likelihood_as_the_score() -> None:
    net, own = tiny.adapted(), forks()
    own.set_prior(FIRST, np.array([0.5, -2.0, 1.0]))
    labels = np.arange(N) % len(CLASSES)
    batch, loss = batch_of(texts_of(labels, own), np.arange(N), "cpu"), task_loss("answer", own)
    with torch.no_grad():
        losses = loss.of(log_probs(net, batch, answers_only=True, forks=own), batch).numpy()
        everywhere = loss.of(log_probs(net, batch, forks=own), batch).numpy()
    np.testing.assert_allclose(-losses, scores(net, own)[np.arange(N), labels], rtol=0, atol=1e-4)
    np.testing.assert_allclose(everywhere, losses, rtol=0, atol=1e-10)


def test_a_prior_is_what_public_texts_get_from_the_frozen_model() -> None:
    """On the public texts themselves the mean difference between two labels that part at one fork is gone."""
    net, own = tiny.adapted(started=False), forks()
    before = scores(net, own)
    stirred = tiny.adapted()  # the adapters do not count
    evaluation.set_priors(stirred, [texts_of(np.full(N, label), own) for label in own.covering(NAME)], own, "cpu")
    after = scores(net, own)
    for one, other in ((0, 2), (1, 3)):
        gap = before[:, one] - before[:, other]
        np.testing.assert_allclose(after[:, one] - after[:, other], gap - gap.mean(), rtol=0, atol=1e-4)
        assert abs(gap.mean()) > 0.1


def test_answers_end_at_the_last_fork_and_few_labels_pass_all() -> None:
    own = forks()
    answers = own.answers(NAME)
    assert [len(answers[label][0]) for label in range(4)] == [7, 2, 7, 2]
    assert answers[0][1] == [0, FIRST, 0, 0, 0, 0, AFTER_VERY]
    assert set(own.covering(NAME)) in ({0}, {2})
    assert NAME in own
    assert "cats" not in own
