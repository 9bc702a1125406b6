"""Which machines share a store, and which of them a run may use."""

import pytest
from sqlalchemy import update

from dpcl_core.runs import executor, process, worker
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.tables import machines as table
from tests.support import replay
from tests.support.asserting import refuses


def test_machines_that_look_after_the_queue_are_present_until_they_fall_silent(store, monkeypatch):
    cards = (process.Device("cpu", "Processor"), process.Device("cuda:0", "A card"))
    for name, found in (("lab1", cards[:1]), ("lab2", cards), ("lab2", cards)):
        monkeypatch.setenv("DPCL_MACHINE", name)
        monkeypatch.setattr(process, "devices", lambda found=found: found)
        executor.announce(store)
    assert executor.present_machines(store) == {"lab1": ["cpu"], "lab2": ["cpu", "cuda:0"]}
    assert [executor.n_devices("local", device, store) for device in ("cpu", "cuda")] == [2, 1]
    store.change(update(table).where(table.c.name == "lab1").values(seen=table.c.seen - 61))
    assert list(executor.present_machines(store)) == ["lab2"]


def test_a_store_in_a_file_is_not_written_to_for_machines_that_cannot_reach_it(store):
    LocalExecutor(store).schedule()
    assert not executor.can_share(store)
    assert executor.present_machines(store) == {}


@pytest.mark.parametrize(("asked", "device", "fits"), [
    ("cpu", "lab1/cpu", True), ("lab1/cpu", "lab1/cpu", True), ("lab2/cpu", "lab1/cpu", False),
    ("cuda", "lab1/cuda:3", True), ("cuda:0", "lab1/cuda:3", False), ("lab1/cuda", "lab1/cuda:3", True),
    ("cuda", "lab1/cpu", False), ("cpu", "lab1/cuda:0", False),
])
def test_a_run_gets_a_device_that_it_asked_for(asked, device, fits):
    assert process.fits(asked, device) is fits


@pytest.mark.parametrize("wrong", ["", "gpu", "/cpu", "a b/cpu", "lab/cpu/1", "cuda:", "cuda:1000", "x" * 49 + "/cpu"])
def test_a_malformed_device_is_refused(wrong, store):
    refuses("device = ", store.create, replay.a_spec(), device=wrong)


def test_a_free_machine_takes_the_next_run_that_it_can_serve(store, monkeypatch):
    """One run for each device of a machine, in the order of the queue; none for a card that the machine has not."""
    started = list[str]()
    monkeypatch.setattr(LocalExecutor, "_start", lambda self, run: started.append(run.id))
    monkeypatch.setattr(process, "devices", lambda: (process.Device("cpu", "Processor"),))
    ids = [store.create(replay.a_spec(), device=device) for device in ("cuda", "lab2/cpu", "cpu", "cpu", "cpu")]
    for name, wanted in (("lab1", [ids[2]]), ("lab2", [ids[1]]), ("lab3", [ids[3]]), ("lab1", [])):
        monkeypatch.setenv("DPCL_MACHINE", name)
        LocalExecutor(store).schedule()
        assert started == wanted
        started.clear()


def test_a_terminal_leaves_a_run_that_asks_for_another_machine_to_that_machine(store, monkeypatch):
    """If it waited for the run, as for one of its own, no other machine would take it."""
    monkeypatch.setenv("DPCL_MACHINE", "lab1")
    run_id = store.create(replay.a_spec(), device="lab2/cpu")
    assert not worker.wait_for_device(store, run_id)
    assert store.get(run_id).process is None
