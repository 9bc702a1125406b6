"""A process is known by more than its number."""

from dataclasses import replace

import pytest

from dpcl_core.runs import process
from tests.data.making import put
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.skipif(process.me().ticks is None, reason="this system does not tell when a process started")


def test_this_process_is_alive_and_the_same_at_each_look():
    assert process.is_alive(process.me()) is True
    assert process.me() == process.process_of(process.me().pid)


def test_a_later_process_with_the_same_number_is_neither_taken_for_it_nor_ended(stranger):
    earlier = replace(process.process_of(stranger.pid), ticks=1)
    assert process.is_alive(earlier) is False
    process.end(earlier)
    assert stranger.answers()


def test_the_very_process_is_ended_and_a_zombie_is_not_alive(stranger):
    its = process.process_of(stranger.pid)
    process.end(its)
    until(lambda: not process.is_alive(its))  # nobody has collected it: it stays in the table as a zombie
    assert process.is_alive(its) is False
    assert stranger.wait(PATIENCE_SECONDS) == -9
    process.end(its)  # ending it again does nothing


def test_nothing_is_known_and_nothing_done_about_another_machine(stranger):
    elsewhere = replace(process.process_of(stranger.pid), machine="elsewhere")
    assert process.is_alive(elsewhere) is None
    process.end(elsewhere)
    assert stranger.answers()


def test_nothing_is_known_about_another_container_with_the_same_host_name(stranger, tmp_path, monkeypatch):
    """Its processes have numbers of their own, so that one of them looks dead from here; its heartbeat decides."""
    (tmp_path / "self/ns").mkdir(parents=True)
    for name in ("sys/kernel/random/boot_id", f"{stranger.pid}/stat"):
        put(tmp_path / name, (process._PROC / name).read_text())
    (tmp_path / "self/ns/pid").symlink_to("pid:[1]")
    process._machine.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(process, "_PROC", tmp_path)
        there = process.process_of(stranger.pid)
        assert process.is_alive(there) is True
        process._machine.cache_clear()
    assert process.is_alive(there) is None
    process.end(there)
    assert stranger.answers()


def test_another_system_is_asked_in_another_way(stranger, monkeypatch):
    """Where there is no /proc and no handle of a process: macOS and Windows."""
    monkeypatch.setattr(process, "_PROC", process._PROC / "absent")
    monkeypatch.delattr(process.os, "pidfd_open", raising=False)
    process._machine.cache_clear()
    its = process.process_of(stranger.pid)
    assert its.ticks
    assert process.is_alive(its) is True
    assert process.is_alive(replace(its, ticks=its.ticks + 1)) is False
    process.end(its)
    until(lambda: process.is_alive(its) is False)
    assert stranger.wait(PATIENCE_SECONDS) == -9
    process._machine.cache_clear()
