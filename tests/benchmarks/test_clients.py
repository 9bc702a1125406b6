"""Methods of clients (`make bench`), bounds for two idle cores: the published rounds, and what a live demo waits for."""

from __future__ import annotations

import time

from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.events import Signatures
from dpcl_core.explorers.matching_log import Observer
from dpcl_core.methods import catalog
from dpcl_core.privacy.ledger import Ledger
from tests.support import clients

N_CLIENTS = 20
OF, PUBLIC = clients.stream(per_class=1000, n_clients=N_CLIENTS, width=384)


def test_two_hundred_rounds_of_twenty_clients_take_less_than_a_minute(benchmark: BenchmarkFixture) -> None:
    """Four tasks of 50 rounds, one seed, embeddings at hand: replay and a private head."""
    asked = clients.spec("cslr-central")
    benchmark.pedantic(clients.run, (asked, OF, PUBLIC, N_CLIENTS), rounds=1)
    assert benchmark.stats["max"] < 60


def test_first_signatures_come_within_three_seconds_and_all_of_it_within_thirty(benchmark: BenchmarkFixture) -> None:
    """From the first task's rows to the first lists on their map; the process has loaded its libraries."""
    asked = clients.spec("cslr-server-head")
    (cell,) = asked.cells()

    def run() -> tuple[float, float]:
        started, first = time.perf_counter(), None
        learner = catalog.maker(asked.method)(asked, [cell], clients.known(OF, PUBLIC, N_CLIENTS))
        observer = Observer(asked, [cell], clients.known(OF, PUBLIC, N_CLIENTS))
        ledgers = {cell: Ledger(1e-5, "add-remove", "every")}
        for task in OF.tasks:
            for event in observer.events(learner.learn({0: task}, ledgers)):
                if first is None and isinstance(event, Signatures):
                    first = time.perf_counter() - started
        assert first is not None
        return first, time.perf_counter() - started

    first, whole = benchmark.pedantic(run, rounds=1)
    assert first < 3
    assert whole < 30
