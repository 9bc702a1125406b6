"""Which devices there are, asked of a driver without torch, and what a run's process sees of them."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpcl_core.cli import common
from dpcl_core.runs import cuda_driver, process
from tests.support.waiting import python

CARDS, BEFORE = "CUDA_VISIBLE_DEVICES", "DPCL_VISIBLE_DEVICES"


def driver(*names: str, broken: int = 0) -> SimpleNamespace:
    """The functions of CUDA's driver library that matter here, for cards of these names."""

    def count(place: Any) -> int:
        place._obj.value = len(names)
        return 0

    def handle(place: Any, number: int) -> int:
        place._obj.value = 10 + number
        return 0

    def name(place: Any, length: int, of: Any) -> int:
        place.value = names[of.value - 10].encode()[: length - 1]
        return 0

    def size(place: Any, of: Any) -> int:
        place._obj.value = (of.value - 9) * 2**30
        return 0

    functions = {"Get": handle, "GetCount": count, "GetName": name, "TotalMem_v2": size}
    return SimpleNamespace(cuInit=lambda flags: broken, **{f"cuDevice{word}": one for word, one in functions.items()})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable is set, nothing is remembered, and torch counts as built with CUDA."""
    for name in (CARDS, BEFORE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process, "_torch_uses_cuda", lambda: True)
    process._cards.cache_clear()
    yield
    process._cards.cache_clear()


def answers(monkeypatch: pytest.MonkeyPatch, text: str) -> list[dict[str, str]]:
    """Puts this answer in the place of the process that asks the driver; gives the environments it was asked in."""
    asked: list[dict[str, str]] = []

    def run(command: list[str], *, env: dict[str, str], **options: object) -> SimpleNamespace:
        asked.append(env)
        return SimpleNamespace(stdout=text)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_the_drivers_cards_have_names_and_sizes() -> None:
    assert cuda_driver.cards(driver("first", "second")) == [("first", 2**30), ("second", 2**31)]
    assert (cuda_driver.cards(driver()), cuda_driver.cards(driver("first", broken=100))) == ([], [])


def test_a_computer_without_a_driver_has_the_processor_only() -> None:
    """For real: the process that asks finds no library here, or cards that it can count."""
    assert len(process.devices()) == 1 + len(json.loads(python("-I", "-S", cuda_driver.__file__)))


def test_cards_need_no_device_file_and_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, '[["NVIDIA Y", 17179869184], ["NVIDIA Z", 8589934592]]')
    wanted = [("cpu", "Processor"), ("cuda:0", "NVIDIA Y (16 GB)"), ("cuda:1", "NVIDIA Z (8 GB)")]
    for _ in range(2):
        assert [(device.name, device.title) for device in process.devices()] == wanted
    assert (process.default(), len(asked)) == ("cuda:0", 1)


@pytest.mark.parametrize("text", ["", "[]", "no driver"])
def test_without_an_answer_the_device_is_the_processor(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, text)
    assert process.default() == "cpu"


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_cards_are_not_asked_for(hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CARDS, hidden)
    asked = answers(monkeypatch, '[["NVIDIA Y", 1]]')
    assert (process.default(), asked) == ("cpu", [])


@pytest.mark.parametrize(("line", "uses"), [
    ("cuda: Optional[str] = '13.0'", True), ("cuda: Optional[str] = None", False), ("cuda = '12.6'", True)
])
def test_torch_without_cuda_uses_no_card(line: str, uses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "version.py").write_text(f"__all__ = ['cuda']\n{line}\nhip: Optional[str] = 'x'\n", encoding="utf-8")
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(process, "find_spec", lambda name: spec)
    assert process._torch_uses_cuda() is uses


@pytest.mark.parametrize("visible", [None, "0", "1,0", ""])
def test_a_run_on_the_processor_sees_no_card_and_what_it_starts_sees_them_again(visible, monkeypatch):
    if visible is not None:
        monkeypatch.setenv(CARDS, visible)
    assert process.worker_environment("sqlite://", "cuda:0").get(CARDS) == visible
    of_processor = process.worker_environment("sqlite://", "cpu")
    assert of_processor[CARDS] == ""
    monkeypatch.setattr(os, "environ", dict(of_processor))  # in that run's process
    assert process.worker_environment("sqlite://", "cuda:1").get(CARDS) == visible
    assert process.environment("cpu") == {**of_processor, CARDS: ""}


def test_hiding_cards_changes_this_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {CARDS: "3"})
    process.hide_cards()
    assert (os.environ[CARDS], process.environment("cuda:0")) == ("", {CARDS: "3"})


def test_the_command_line_hides_cards_from_what_runs_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, '[["NVIDIA Y", 1]]')
    monkeypatch.setattr(os, "environ", {})
    assert (common.on_device(None), os.environ) == ("cuda:0", {})
    assert (common.on_device("cpu"), os.environ[CARDS]) == ("cpu", "")
    assert common.on_device(None) == "cuda:0"  # what it starts for a card sees it again
