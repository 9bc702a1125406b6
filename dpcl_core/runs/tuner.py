"""The engine of a tuning's run: continues the search and stores each trial as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from dpcl_core.events import Event
from dpcl_core.runs.patience import Patience
from dpcl_core.runs.store import Store
from dpcl_core.runs.studies import Studies
from dpcl_core.spec import RunSpec
from dpcl_core.tuning.settings import Sizes, Trial

if TYPE_CHECKING:
    from dpcl_core.tuning.search import Prepare

Engine = Callable[[RunSpec, str], Iterator[Event]]


def engine_of(store: Store, run_id: str, *, prepare: Prepare | None = None) -> Engine | None:
    """The engine that carries out the run if it belongs to a tuning; None for any other.

    `prepare` opens the tuning data (None: `search.prepared`; tests put a stand-in here).
    """
    studies = Studies(store)
    study_id = studies.of_run(run_id)
    if study_id is None:
        return None

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        from dpcl_core.tuning import search  # loads Optuna and the engine

        patience = Patience()
        study = patience.outlast(partial(studies.get, study_id))
        open_data = prepare or search.prepared
        for item in search.search(study.tune, device, earlier=study.trials, earlier_sizes=study.sizes, prepare=open_data):
            if isinstance(item, Trial):
                patience.outlast(partial(studies.add_trial, study_id, item))
            elif isinstance(item, Sizes):
                patience.outlast(partial(studies.add_sizes, study_id, item))
            else:
                yield item

    return engine
