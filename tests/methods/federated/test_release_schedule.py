"""One client's part of a release: bounded, and moved by nobody else, with the matching that it does for itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.methods.federated.client_release import SeenLabels, TaskRows
from dpcl_core.methods.federated.matchers import PublicEmbeddings
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.spec import RunSpec
from tests.support import clients

OF, PUBLIC = clients.stream(per_class=30, classes_per_task=2)
MATCHERS = [("signature", "nearest"), ("signature", "hungarian"), ("pca-mean", "hungarian"), ("mean", "ot"),
            ("target", "nearest"), ("random", "nearest")]  # fmt: skip


def opened(**params: object) -> tuple[RunSpec, ReleaseSchedule, TaskRows]:
    asked = clients.spec("cslr-server-head", params={"anchors": 20, "restarts": 1, "dimensions": 4, **params})
    known = clients.known(OF, PUBLIC)
    releases = ReleaseSchedule(asked, list(asked.cells()), known, [1.0])
    return asked, releases, SeenLabels(asked, known).rows(OF.tasks[0])


def vectors(releases: ReleaseSchedule, rows: TaskRows) -> np.ndarray:
    lists = releases.lists(rows, 0)
    return releases.layout(rows).vectors(releases.slotted(rows, lists, releases.prototypes(0, rows.space), 0))


@pytest.mark.parametrize(("matcher", "rule"), MATCHERS)
@pytest.mark.parametrize("slots", ["weighted", "even"])
def test_a_client_moves_the_sum_by_its_own_vector_alone(matcher: str, rule: str, slots: str) -> None:
    """Check 3, matching included: without a client the others' vectors are bit-identical, and every one is bounded."""
    _, releases, rows = opened(matcher=matcher, rule=rule, slots=slots, modes_per_task=3)
    every, bound = vectors(releases, rows), releases.layout(rows).sensitivity
    assert (np.linalg.norm(every, axis=1) <= bound * (1 + 1e-12)).all()
    for gone in (0, 4):
        kept = np.flatnonzero(rows.users != gone)
        without = vectors(releases, replace(rows, z=rows.z[kept], labels=rows.labels[kept], users=rows.users[kept]))
        others = np.arange(len(every)) != gone
        assert np.array_equal(without[others], every[others])
        assert not without[gone].any()
        assert np.linalg.norm(every.sum(axis=0) - without.sum(axis=0)) <= bound * (1 + 1e-12)


def test_clients_that_do_their_worst_stay_within_the_bound() -> None:
    """All rows alike, one row, rows far outside: aligned unit vectors, lists with a single entry."""
    _, releases, rows = opened(modes_per_task=3)
    z = rows.z.copy()
    z[rows.users == 1] = z[0]
    first = np.flatnonzero(rows.users == 2)
    users = np.where((rows.users == 2) & (np.arange(len(z)) != first[0]), 3, rows.users)
    bad = replace(rows, z=np.where(rows.users[:, None] == 4, 1e6 * z, z).astype(np.float32), users=users)
    found = vectors(releases, bad)
    assert np.isfinite(found).all()
    assert (np.linalg.norm(found, axis=1) <= releases.layout(rows).sensitivity * (1 + 1e-12)).all()


def test_groups_of_a_label_are_matched_among_themselves() -> None:
    """With two labels and three groups each, a client's weight in a label's slots is its share of rows with that label."""
    _, releases, rows = opened(modes_per_task=3)
    slotted = releases.slotted(rows, releases.lists(rows, 0), releases.prototypes(0, rows.space), 0)
    shares = slotted.weights.reshape(clients.N_CLIENTS, 2, 3).sum(axis=2)
    for client in range(clients.N_CLIENTS):
        own = rows.labels[rows.users == client]
        assert shares[client] == pytest.approx([(own == label).mean() for label in rows.space])


def test_anchors_are_one_draw_a_seed_whatever_else_is_set() -> None:
    """Check 16: nested draws, the same for every matcher and number of axes."""
    few, many = PublicEmbeddings.of(PUBLIC, 3, 4, None, 10), PublicEmbeddings.of(PUBLIC, 3, 8, 0.3, 25)
    assert np.array_equal(few.anchors, many.anchors[:10])
    other = PublicEmbeddings.of(PUBLIC, 4, 4, None, 10)
    assert not np.array_equal(few.anchors, other.anchors)
    assert len(few.anchors) + len(few.others) == len(PUBLIC)
