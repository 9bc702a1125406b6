"""What a worker does when its run is a turn of a tuning: searches on, and keeps each trial the moment it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dpcl_core.events import Event
from dpcl_core.runs.store import Store
from dpcl_core.runs.studies import Studies
from dpcl_core.spec import RunSpec
from dpcl_core.tuning.settings import Sizes, Trial

if TYPE_CHECKING:
    from dpcl_core.tuning.search import Prepare

Engine = Callable[[RunSpec, str], Iterator[Event]]


def engine_of(store: Store, run_id: str, *, prepare: Prepare | None = None) -> Engine | None:
    """What carries out the run if it is a turn of a tuning; None for a run of its own.

    `prepare` opens the tuning data (None: for real; tests put a stand-in here).
    """
    studies = Studies(store)
    study_id = studies.of_run(run_id)
    if study_id is None:
        return None

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        from dpcl_core.tuning import search  # brings Optuna and the engine along

        study = studies.get(study_id)
        opened = prepare or search.prepared
        for said in search.search(study.tune, device, kept=study.trials, kept_sizes=study.sizes, prepare=opened):
            if isinstance(said, Trial):
                studies.add_trial(study_id, said)
            elif isinstance(said, Sizes):
                studies.add_sizes(study_id, said)
            else:
                yield said

    return engine
