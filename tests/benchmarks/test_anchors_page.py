"""Matching clients (`make bench`): a run's lists matched anew while a slider moves. The bound is that of two idle cores."""

from __future__ import annotations

from itertools import cycle

import pandas as pd
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.events import Signatures
from dpcl_core.explorers.matching_log import Rematch
from dpcl_core.figures import matching as matchers
from dpcl_core.figures.matching import margins, on_map
from dpcl_core.methods.federated.params import ListParams
from dpcl_core.runs import frames
from tests.support import clients

N_CLIENTS = 20
NOISE = 1.5


def test_other_anchors_and_noise_are_drawn_within_200_ms(benchmark: BenchmarkFixture) -> None:
    """All entries of 20 clients after four tasks, 384 numbers each: matched, on their map, how sure, and every matcher."""
    of, public = clients.stream(per_class=200, n_clients=N_CLIENTS, width=384)
    asked = clients.spec("cslr-server-head")
    assert isinstance(asked.params, ListParams)
    told = [event for event in clients.run(asked, of, public, N_CLIENTS)[2] if isinstance(event, Signatures)]
    source = Rematch.of(told, told[-1], asked.params)
    assert source is not None
    moves = cycle([(50, 0.1), (25, 0.1), (25, 0.0), (100, 0.05), (10, 0.4)])

    def redraw() -> None:
        m, noise = next(moves)
        event = source.event(m, noise)
        entries, prototypes = frames.entries([event]), frames.prototypes([event])
        on_map(entries, prototypes, space="signature")
        margins(entries)
        rows = [(name, name == event.matcher, value) for name, value in source.agreement(m, noise).items()]
        matchers.bars(pd.DataFrame(rows, columns=["matcher", "is_own", "agreement"]))

    benchmark.pedantic(redraw, rounds=10, warmup_rounds=2)
    assert benchmark.stats.stats.median < 0.2 * NOISE
