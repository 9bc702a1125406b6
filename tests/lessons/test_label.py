"""Lesson 1 with the real mechanisms: the list from the data always tells, the public list never more than the noise lets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.lessons import label as lesson
from dpcl_core.lessons import noise
from dpcl_core.lessons.label import Neighbours
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features.cosine import CosineClassifier, CosineParams
from dpcl_core.privacy import gaussian, statement
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, PrivacySpec, RunSpec
from tests.lessons import reference
from tests.support.tiers import quick

DELTA = lesson.DELTA


def test_neighbours_differ_by_one_record_with_a_new_label(told: Neighbours) -> None:
    (features_out, labels_out), (features_in, labels_in) = (told.data(is_in) for is_in in (False, True))
    assert len(labels_in) == len(labels_out) + 1
    assert np.array_equal(features_in[:-1], features_out)
    assert labels_in[-1] == 9
    assert set(labels_out.tolist()) == set(range(9))
    assert (lesson.neighbours(n_others=4).labels == 9).sum() == 4


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_list_from_the_data_tells_always_and_never_wrongly(told: Neighbours, epsilon: float) -> None:
    played = reference.play(told, "data", epsilon, 600)
    assert (played.hits, played.false_alarms) == (600, 0)
    assert not reference.is_held(played, gaussian.sigma(epsilon, DELTA))


def test_the_proof_passes_the_advertised_epsilon_while_the_public_list_stays_below(told: Neighbours) -> None:
    """A bound holds with 95 % confidence; above ε = 1 it would need an attack six times stronger than the exact one."""
    free, held = (reference.play(told, listing, 1.0, 2000) for listing in ("data", "prior-const"))
    assert noise.proven(free, [2000], DELTA)[0] >= 6.29
    assert noise.proven(held, [2000], DELTA)[0] < 1.0


@pytest.mark.parametrize("epsilon", quick(1, [0.5, 1.0, 4.0, 8.0]))
def test_attack_exact_promise(told: Neighbours, epsilon: float) -> None:
    """The best attack on the public list: on the exact curve up to chance (false alarm 2e-6), which is under the promise."""
    sigma = gaussian.sigma(epsilon, DELTA)
    played = reference.play(told, "prior-const", epsilon, 5000)
    assert reference.is_held(played, sigma)
    best = statement.gaussian_odds_bound(sigma)
    assert best <= statement.odds_bound(epsilon, DELTA)
    # Two-sided, so that an attack which is too weak is noticed too: five standard errors, 6e-7.
    assert abs(played.share_right - best) < 5 * math.sqrt(best * (1 - best) / played.n_rounds)
    alarms, hits = reference.curve(played)
    reached = hits[np.searchsorted(alarms, 0.1)]
    assert reached > reference.exact_hits(np.array([0.1]), sigma)[0] - 2 * reference.allowance(5000)


def test_the_evidence_is_the_likelihood_ratio_of_the_whole_release() -> None:
    """Written out over every number released, for a label that others have too."""
    told = lesson.neighbours(n_others=3)
    epsilon, std = 2.0, gaussian.sigma(2.0, DELTA)
    seen = reference.release(told, True, "prior-const", epsilon, 5)
    means = []
    for is_in in (True, False):
        features, labels = told.data(is_in)
        means.append(np.stack([unit_rows(features[labels == label]).sum(axis=0) for label in range(10)]))
    plain = [(((one - means[1]) ** 2).sum() - ((one - means[0]) ** 2).sum()) / (2 * std**2) for one in seen.sums]
    assert reference.evidence(told, seen, "prior-const", epsilon) == pytest.approx(plain)


def test_every_release_has_noise_of_its_own(told: Neighbours) -> None:
    first, second = (reference.release(told, False, "prior-const", 1.0, 3).sums for _ in range(2))
    stacked = np.concatenate([first, second]).reshape(6, -1)
    assert len(np.unique(stacked, axis=0)) == 6
    apart = (stacked[:3] - stacked[3:]) / (gaussian.sigma(1.0, DELTA) * math.sqrt(2))
    assert apart.std() == pytest.approx(1, abs=5 / math.sqrt(2 * apart.size))


@pytest.mark.parametrize("listing", ["data", "prior-const"])
@pytest.mark.parametrize("has_person", [False, True])
def test_what_the_lesson_releases_is_what_the_learner_releases(
    told: Neighbours, listing: lesson.Listing, has_person: bool
) -> None:
    """The classifier itself on the same data: it scores exactly the labels on the lesson's list, and spends the same."""
    features, labels = told.data(has_person)
    spec = RunSpec(
        method="cosine", params=CosineParams(), scenario=ClassIncremental(tasks=1), labels=listing,
        privacy=PrivacySpec(epsilons=(1.0,), delta=DELTA), seeds=(0,),
    )  # fmt: skip
    cell, book = Cell(1.0, 0), Ledger(DELTA, "add-remove", "once")
    known = PublicContext(n_inputs=64, n_classes=10, public=tuple(range(10)), n_people=len(labels), n_tasks=1)
    learner = CosineClassifier(spec, [cell], known)
    train = Examples(features, labels)
    list(learner.learn({0: Task(0, "task 1", train, train, tuple(range(10)))}, {cell: book}))
    scored = np.isfinite(learner.cosines(0, features[:1])[0, 0])
    seen = reference.release(told, has_person, listing, 1.0)
    assert tuple(np.flatnonzero(scored)) == seen.labels
    assert [entry.event for entry in seen.ledger.entries] == [entry.event for entry in book.entries]


def test_the_promise_comes_from_the_ledger(told: Neighbours) -> None:
    for listing, expected in (("data", math.inf), ("prior-const", 1.0)):
        ledger = reference.release(told, True, listing, 1.0).ledger  # type: ignore[arg-type]
        given = reference.promise(told, listing, 1.0, ledger)  # type: ignore[arg-type]
        assert given.epsilon == pytest.approx(expected, rel=1e-5)
        assert given.noise == "release"


def test_doors_tell_under_the_list_from_the_data_alone(told: Neighbours) -> None:
    data, public = (lesson.doors(told, listing, 1.0) for listing in ("data", "prior-const"))
    assert all(door.tells for door in data)
    assert not any(door.tells for door in public)
    outputs, file, legend, work = data
    assert (outputs.without, outputs.with_person) == ("9", "10")
    assert (work.without, work.with_person) == ("576", "640")  # 9 and 10 sums of 64 numbers
    assert int(file.with_person.split()[0].replace(",", "")) - int(file.without.split()[0].replace(",", "")) == 64 * 8
    assert legend.with_person.endswith(" 9")


def test_a_minimum_count_moves_the_leak_and_does_not_close_it() -> None:
    told = lesson.neighbours(n_others=4)
    played = reference.play(told, "data", 1.0, 300, at_least=5)
    assert (played.hits, played.false_alarms) == (300, 0)
    safe_side = reference.release(told, True, "data", 1.0, at_least=6)
    assert 9 not in safe_side.labels  # above the flip nothing shows: the leak sits where one person decides


def test_an_empty_task_tells_unless_the_same_steps_run(told: Neighbours) -> None:
    """Five standard errors of the share that the noise allows: 6e-7 to fail by chance."""
    for rule in ("none", "untrained"):
        assert reference.play_empty(told, rule, 1.0, 300).share_right == 1.0  # type: ignore[arg-type]
    same = reference.play_empty(told, "same", 1.0, 4000)
    best = statement.gaussian_odds_bound(gaussian.sigma(1.0, DELTA))
    assert abs(same.share_right - best) < 5 * math.sqrt(best * (1 - best) / same.n_rounds)
    assert reference.is_held(same, gaussian.sigma(1.0, DELTA))
