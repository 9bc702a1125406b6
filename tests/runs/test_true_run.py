"""The real engine in a real worker process, on the bundled digits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcl_core.events import CellFinished, Progress, Started, TaskLearned
from dpcl_core.runs import frames, process, worker
from dpcl_core.runs.executor import WORKER, LocalExecutor
from dpcl_core.runs.process import WarmWorker, log_file
from dpcl_core.runs.run import work_of
from tests.support import replay
from tests.support.waiting import until


@pytest.mark.parametrize("is_warm", [False, True], ids=["fresh", "warm"])
def test_a_true_run_says_in_its_process_what_the_engine_says_here_and_plays_back_the_same(
    store, is_warm, monkeypatch, tmp_path
):
    monkeypatch.setattr(process, "PROGRAM", tmp_path)  # so that nobody who edits the program meanwhile is noticed
    spec = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0, 1), tasks=2)
    seeded = replace(spec, privacy=replace(spec.privacy, noise="seeded"))
    app = LocalExecutor(store, warm=WarmWorker(WORKER))
    if is_warm:
        app.warm.expect(store.url, "dpcl_core.methods.features.cosine")
        app.warm.keep(store.url, is_idle=True)
        ready = app.warm.waiting.process.pid
        until(lambda: app.warm.waiting.here.is_set())
    run_id = store.create(seeded)
    app.submit(run_id)
    assert not is_warm or store.get(run_id).process.pid == ready
    until(lambda: store.get(run_id).is_over)
    run = store.get(run_id)
    assert run.status == "finished", (run.error, run.error_log, log_file(run_id).read_text())
    kept = [event for _, event in store.events_after(run_id)]
    here = list(worker.real_engine(seeded, "cpu"))
    said = (Started, TaskLearned)
    assert [event for event in kept if isinstance(event, said)] == [event for event in here if isinstance(event, said)]
    assert [event.guarantee for event in kept if isinstance(event, CellFinished)] == [
        event.guarantee for event in here if isinstance(event, CellFinished)
    ]
    assert any(isinstance(event, Progress) for event in kept)
    played = replay.fill(store, seeded, kept)
    again = [event for _, event in store.events_after(played)]
    for table in (frames.accuracy, frames.metrics, frames.spent):
        assert table(again).equals(table(kept))
        assert len(table(kept)) > 0
    assert store.estimates([work_of(seeded)])[0] is not None
