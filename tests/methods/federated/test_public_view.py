"""The public view: principal axes, a radius, and first prototypes from public embeddings alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.matchers import PublicView, public_modes
from tests.methods.federated import toy

PUBLIC = toy.toy(n_users=2).public


def test_axes_are_principal_ones() -> None:
    view = PublicView.of(PUBLIC, 5)
    theirs = PCA(5).fit(PUBLIC)
    assert view.centre == pytest.approx(theirs.mean_)
    assert view.axes.T @ view.axes == pytest.approx(np.eye(5), abs=1e-12)
    assert np.abs(np.diag(theirs.components_ @ view.axes)) == pytest.approx(np.ones(5), abs=1e-9)
    assert (view.axes[np.abs(view.axes).argmax(axis=0), np.arange(5)] > 0).all()
    assert np.trace(view.covariance) == pytest.approx(np.trace(np.cov(PUBLIC, rowvar=False)))


def test_residuals_and_back() -> None:
    view = PublicView.of(PUBLIC, 5)
    means = PUBLIC[:6].reshape(2, 3, -1)
    again = view.restored(view.residuals(means))
    assert view.residuals(again) == pytest.approx(view.residuals(means))
    full = PublicView.of(PUBLIC, toy.D)
    assert full.restored(full.residuals(means)) == pytest.approx(means)


def test_the_radius_holds_most_public_topics_unless_it_is_given() -> None:
    view = PublicView.of(PUBLIC, 8)
    topics = PUBLIC.reshape(toy.N_PUBLIC, -1, toy.D).mean(axis=1)  # as they were made
    lengths = np.linalg.norm(view.residuals(topics), axis=1)
    assert 0.5 < (lengths <= view.radius).mean() <= 1
    assert view.radius < 2 * lengths.max()
    assert PublicView.of(PUBLIC, 8, 0.35).radius == 0.35


def test_fewer_sentences_than_dimensions_still_give_an_invertible_covariance() -> None:
    view = PublicView.of(PUBLIC[:10], 4)
    assert np.linalg.eigvalsh(view.covariance).min() > 0


def test_first_prototypes_are_the_same_every_time_and_in_order() -> None:
    modes = public_modes(PUBLIC, 4)
    assert (modes == public_modes(PUBLIC, 4)).all()
    first = PublicView.of(PUBLIC, 1).residuals(modes)[:, 0]
    assert (np.diff(first) > 0).all()
    assert public_modes(PUBLIC, 1)[0] == pytest.approx(PUBLIC.mean(axis=0))


def test_axes_of_topics_hold_more_of_what_lies_between_topics_and_go_on_with_sentences() -> None:
    """Every length and direction within a topic is noise to them; beyond the topics, sentences decide."""
    random = np.random.default_rng(7)
    topics = 0.2 * random.standard_normal((6, 3)) @ np.eye(toy.D)[:3]
    rows = np.repeat(topics, 60, axis=0) + random.standard_normal((360, toy.D)) * np.where(np.arange(toy.D) < 3, 0.01, 0.5)
    held = {
        of: np.linalg.norm(PublicView.of(rows, 3, 1.0, of).residuals(topics + rows.mean(axis=0) - topics.mean(axis=0)))
        for of in ("sentences", "topics")
    }
    assert held["topics"] > 2 * held["sentences"]
    every = PublicView.of(rows, toy.D, 1.0, "topics").axes
    assert every.T @ every == pytest.approx(np.eye(toy.D), abs=1e-9)
    assert PublicView.of(rows, 3, None, "topics").radius > 0


@pytest.mark.parametrize("n_axes", [0, toy.D + 1])
def test_axes_that_there_are_not(n_axes: int) -> None:
    with pytest.raises(BadInput, match=f"axes = {n_axes}: must lie between 1 and 32"):
        PublicView.of(PUBLIC, n_axes)


def test_too_few_public_sentences() -> None:
    with pytest.raises(BadInput, match="axes = 4: must lie between 1 and 3, with 4 public sentences"):
        PublicView.of(PUBLIC[:4], 4)
    with pytest.raises(BadInput, match="modes = 3: must lie between 1 and the number of public sentences, 2"):
        public_modes(PUBLIC[:2], 3)
