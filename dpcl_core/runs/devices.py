"""The devices of this computer that a run can train on, found without loading torch; what a run's process sees of them.

A device of one machine is MACHINE/cpu or MACHINE/cuda:0. A run may also ask for cpu, cuda:0 or cuda (any card) of whichever
machine is free first.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dpcl_core.errors import BadInput
from dpcl_core.runs import cuda_driver

_CARDS = "CUDA_VISIBLE_DEVICES"
_BEFORE = "DPCL_VISIBLE_DEVICES"  # what _CARDS said before a run on the processor hid the cards; _ALL if nothing
_ALL = "all"
MACHINE = "DPCL_MACHINE"  # this computer's name among machines that share a store, if not the network's
_ASKED = re.compile(r"(?:(?P<machine>[\w.-]{1,48})/)?(?P<device>cpu|cuda(?::[0-9]{1,2})?)")
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


def machine() -> str:
    """The name of this computer among machines that share a store."""
    return as_machine(os.environ.get(MACHINE) or socket.gethostname().partition(".")[0])


def as_machine(name: str) -> str:
    """A name as part of a device's."""
    return re.sub(r"[^\w.-]", "-", name)[:48] or "machine"


def checked(asked: str) -> str:
    """The device that a run asks for. Raises BadInput if it is malformed."""
    if not _ASKED.fullmatch(asked):
        raise BadInput("device", asked, "must be cpu, cuda:N or cuda, if need be of one machine, such as NAME/cpu")
    return asked


def bare(device: str) -> str:
    """A device without its machine, as torch calls it: the first card where any would do."""
    name = device.rpartition("/")[2]
    return "cuda:0" if name == "cuda" else name


def here(asked: str) -> str:
    """The device of this computer that serves a run which asks for this device: MACHINE/cpu, MACHINE/cuda:0."""
    return f"{machine()}/{bare(asked)}"


def fits(asked: str, device: str) -> bool:
    """Whether a run that asks for one device can be carried out on another, named with its machine."""
    of, name = (asked.rpartition("/")[part] for part in (0, 2))
    machine_of, offered = (device.rpartition("/")[part] for part in (0, 2))
    return of in ("", machine_of) and (offered == name or (name == "cuda" and offered.startswith("cuda:")))


def of_this_machine(asked: str) -> tuple[str, ...]:
    """The devices of this computer, named with it; cards are looked for only where a run asks for one."""
    names = ("cpu",) if bare(asked) == "cpu" else tuple(device.name for device in found())
    return tuple(f"{machine()}/{name}" for name in names)


def environment(device: str) -> Mapping[str, str]:
    """This process's environment variables, for a process that carries out runs on the device.

    A run on the processor sees no card: torch's optimisers and random states would otherwise open one and hold its memory.
    """
    device = bare(device)
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
