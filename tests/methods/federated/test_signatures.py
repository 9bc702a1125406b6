"""Anchor signatures: against scipy's densities, and what the centred one is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, rankdata

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.lists import Element, Signature, log_densities, normalised

M, D, L = 20, 6, 4


def spread(seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((D, D))
    return root @ root.T + 0.1 * np.eye(D)


def elements(full: bool = True) -> list[Element]:
    random = np.random.default_rng(0)
    covariances = [spread(seed) for seed in range(L)]
    return [
        Element(1 / L, random.standard_normal(D), each if full else np.diag(each), np.eye(L)[place])
        for place, each in enumerate(covariances)
    ]


ANCHORS = np.random.default_rng(9).standard_normal((M, D))


@pytest.mark.parametrize("full", [True, False])
def test_log_densities_equal_scipy(full: bool) -> None:
    given = elements(full)
    found = log_densities(ANCHORS, np.array([e.mean for e in given]), np.array([e.covariance for e in given]))
    for row, element in zip(found, given, strict=True):
        covariance = element.covariance if full else np.diag(element.covariance)
        assert row == pytest.approx(multivariate_normal(element.mean, covariance).logpdf(ANCHORS), abs=1e-8)


@pytest.mark.parametrize("covariance", ["shared-spherical", "shared-full", "own"])
def test_raw_signatures_are_densities_of_the_covariance_asked_for(covariance: str) -> None:
    public = spread(7)
    found = Signature(ANCHORS, covariance, "raw", public)(elements())  # type: ignore[arg-type]
    for row, element in zip(found, elements(), strict=True):
        spherical = np.trace(public) / D * np.eye(D)
        used = {"shared-spherical": spherical, "shared-full": public, "own": element.covariance}[covariance]
        assert row == pytest.approx(multivariate_normal(element.mean, used).logpdf(ANCHORS), abs=1e-8)


@pytest.mark.parametrize("full", [True, False])
def test_shrunk_covariances_lie_halfway_to_the_public_one_and_no_variance_is_below_its_mean(full: bool) -> None:
    """A huge own covariance is nowhere floored; a tiny one everywhere that the public one's half is below the mean."""
    public = spread(7)
    least = np.trace(public) / D
    for own in (1e3 * spread(1), 1e-9 * np.eye(D)):
        half = (own + public) / 2
        (element,) = [Element(1.0, np.ones(D), own if full else np.diag(own), np.ones(1))]
        if full:
            values, vectors = np.linalg.eigh(half)
            used = sum(max(value, least) * np.outer(v, v) for value, v in zip(values, vectors.T, strict=True))
        else:
            used = np.diag([max(value, least) for value in np.diag(half)])
        found = Signature(ANCHORS, "own-shrunk", "raw", public)([element])
        assert found[0] == pytest.approx(multivariate_normal(element.mean, used).logpdf(ANCHORS), rel=1e-9)


def test_centred_signatures_of_one_spherical_covariance_are_means_seen_through_anchors() -> None:
    public = spread(3)
    found = Signature(ANCHORS, "shared-spherical", "centred", public)(elements())
    gram = (ANCHORS - ANCHORS.mean(axis=0)) @ np.array([e.mean for e in elements()]).T / (np.trace(public) / D)
    for one in range(L):
        for other in range(L):
            distance = np.linalg.norm(found[one] - found[other])
            assert distance == pytest.approx(np.linalg.norm(gram[:, one] - gram[:, other]), rel=1e-12, abs=1e-14)


def test_a_constant_of_all_anchors_changes_normalised_rows_nowhere() -> None:
    raw = Signature(ANCHORS, "own", "raw")(elements())
    shifted = raw + np.arange(L)[:, None] * 64.0
    for norm in ("centred", "z-scored", "ranked"):
        assert normalised(shifted, norm) == pytest.approx(normalised(raw, norm), abs=1e-10)  # type: ignore[arg-type]
    assert normalised(raw, "z-scored").std(axis=1) == pytest.approx(np.ones(L))
    assert (normalised(raw, "ranked") == np.array([rankdata(row) for row in raw])).all()
    assert not normalised(np.ones((2, 5)), "z-scored").any()


def test_many_lists_at_once_equal_one_by_one() -> None:
    random = np.random.default_rng(1)
    means, spreads = random.standard_normal((3, L, D)), random.uniform(0.1, 1, (3, L, D))
    for covariance in ("own", "own-shrunk", "shared-full"):
        signature = Signature(ANCHORS, covariance, "z-scored", spread(2))  # type: ignore[arg-type]
        found = signature.of(means, spreads)
        assert found.shape == (3, L, M)
        for place in range(3):
            assert found[place] == pytest.approx(signature.of(means[place], spreads[place]), abs=1e-12)


def test_what_cannot_be_a_signature_is_said_in_one_sentence() -> None:
    with pytest.raises(BadInput, match="anchors = 1: must be at least 2"):
        Signature(ANCHORS[:1], public=spread(0))
    with pytest.raises(BadInput, match="needs the covariance of public embeddings"):
        Signature(ANCHORS)
    indefinite = spread(0) - 100 * np.eye(D)
    with pytest.raises(BadInput, match="must be positive definite"):
        log_densities(ANCHORS, np.zeros((1, D)), indefinite[None])
    with pytest.raises(BadInput, match="must be positive definite"):
        log_densities(ANCHORS, np.zeros((1, D)), np.array([[1.0] * (D - 1) + [0.0]]))
