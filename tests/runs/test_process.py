"""A process is known by more than its number."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from dpcl_core.runs import process
from tests.support.waiting import NEVER_SECONDS, PATIENCE_SECONDS, until

pytestmark = pytest.mark.skipif(process.me().ticks is None, reason="this system does not tell when a process started")


@pytest.fixture
def child():
    started = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({NEVER_SECONDS})"])
    yield started
    started.kill()
    started.wait()


def test_this_process_is_alive_and_the_same_at_each_look():
    assert process.is_alive(process.me()) is True
    assert process.me() == process.of(process.me().pid)


def test_a_later_process_with_the_same_number_is_neither_taken_for_it_nor_ended(child):
    earlier = replace(process.of(child.pid), ticks=1)
    assert process.is_alive(earlier) is False
    process.end(earlier)
    time.sleep(0.2)
    assert child.poll() is None


def test_the_very_process_is_ended_and_a_zombie_is_not_alive(child):
    its = process.of(child.pid)
    process.end(its)
    until(lambda: not process.is_alive(its))  # nobody has collected it: it stays in the table as a zombie
    assert process.is_alive(its) is False
    assert child.wait(PATIENCE_SECONDS) == -9
    process.end(its)  # ending it again does nothing


def test_nothing_is_known_and_nothing_done_about_another_machine(child):
    elsewhere = replace(process.of(child.pid), machine="elsewhere")
    assert process.is_alive(elsewhere) is None
    process.end(elsewhere)
    time.sleep(0.2)
    assert child.poll() is None


def test_nothing_is_known_about_another_container_with_the_same_host_name(child, tmp_path, monkeypatch):
    """Its processes have numbers of their own, so that one of them looks dead from here; its heartbeat decides."""
    for name in ("sys/kernel/random", "self/ns", str(child.pid)):
        (tmp_path / name).mkdir(parents=True)
    for name in ("sys/kernel/random/boot_id", f"{child.pid}/stat"):
        (tmp_path / name).write_text((process._PROC / name).read_text())
    (tmp_path / "self/ns/pid").symlink_to("pid:[1]")
    process._machine.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(process, "_PROC", tmp_path)
        there = process.of(child.pid)
        assert process.is_alive(there) is True
        process._machine.cache_clear()
    assert process.is_alive(there) is None
    process.end(there)
    time.sleep(0.2)
    assert child.poll() is None


def test_another_system_is_asked_in_another_way(child, monkeypatch):
    """Where there is no /proc and no handle of a process: macOS and Windows."""
    monkeypatch.setattr(process, "_PROC", process._PROC / "absent")
    monkeypatch.delattr(process.os, "pidfd_open", raising=False)
    process._machine.cache_clear()
    its = process.of(child.pid)
    assert its.ticks
    assert process.is_alive(its) is True
    assert process.is_alive(replace(its, ticks=its.ticks + 1)) is False
    process.end(its)
    until(lambda: process.is_alive(its) is False)
    assert child.wait(PATIENCE_SECONDS) == -9
    process._machine.cache_clear()
