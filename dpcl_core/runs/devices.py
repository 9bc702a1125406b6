"""The devices of this computer that a run can train on, found without loading torch; what a run's process sees of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dpcl_core.runs import cuda_driver

_CARDS = "CUDA_VISIBLE_DEVICES"
_BEFORE = "DPCL_VISIBLE_DEVICES"  # what _CARDS said before a run on the processor hid the cards; _ALL if nothing
_ALL = "all"
_SECONDS = 20.0  # a driver that is just waking up takes a few


@dataclass(frozen=True, slots=True)
class Device:
    """`name`: as runs and torch call it, cpu or cuda:N; `title`: for people."""

    name: str
    title: str


def found() -> tuple[Device, ...]:
    """The processor, then every graphics card that the installed torch can use."""
    visible = _visible()
    return (Device("cpu", "Processor"), *(() if visible in ("", "-1") else _cards(visible)))


def default() -> str:
    """The name of the first graphics card, of the processor if there is none."""
    return found()[:2][-1].name


def environment(device: str) -> Mapping[str, str]:
    """This process's environment variables, for a process that carries out runs on the device.

    A run on the processor sees no card: torch's optimisers and random states would otherwise open one and hold its memory.
    """
    others = {name: value for name, value in os.environ.items() if name not in (_CARDS, _BEFORE)}
    visible = _visible()
    if device == "cpu":
        return {**others, _CARDS: "", _BEFORE: visible}
    return others if visible == _ALL else {**others, _CARDS: visible}


def hide_cards() -> None:
    """Hides all cards from this process, which must not have used one; processes started for a card see them again."""
    os.environ.update(environment("cpu"))


def _visible() -> str:
    return os.environ.get(_BEFORE, os.environ.get(_CARDS, _ALL))


@cache
def _cards(visible: str) -> tuple[Device, ...]:
    """Cards by their number among the visible ones."""
    if not _torch_uses_cuda():
        return ()
    command = [sys.executable, "-I", "-S", cuda_driver.__file__]
    try:
        answer = subprocess.run(command, env=environment("cuda:0"), capture_output=True, timeout=_SECONDS, check=True)
        listed = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()  # a broken driver: torch could not use a card either
    return tuple(Device(f"cuda:{k}", f"{name} ({size / 2**30:.0f} GB)") for k, (name, size) in enumerate(listed))


def _torch_uses_cuda() -> bool:
    """Whether the installed torch was built with CUDA, read from its files."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^cuda\b[^=]*=\s*'", text, re.MULTILINE) is not None
