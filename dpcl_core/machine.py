"""Where and with which code a figure was made: for records that are kept. Names no host and no user."""

import math
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def machine(device: str = "cpu") -> str:
    """Processor and number of cores, as the system names them; before them the card, for a device such as "cuda:0"."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    processor = f"{name}, {os.cpu_count()} cores"
    if not device.startswith("cuda"):
        return processor
    import torch  # loaded already by whatever ran on the card

    return f"{torch.cuda.get_device_name(device)}, {processor}"


def memory_bytes() -> float:
    """The memory of this computer, or of the container that this is; infinite where the system does not say."""
    found = math.inf
    with suppress(AttributeError, ValueError, OSError):  # Windows
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(ValueError, OSError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return found


def commit() -> str:
    """The short hash of the checked-out commit, with "+" where the code differs from it; empty outside a repository."""
    found = _git("rev-parse", "--short", "HEAD")
    return f"{found}+" if found and _git("status", "--porcelain", "--untracked-files=no", "--", "dpcl_core") else found


def bare(commit: str) -> str:
    """A record's commit without the mark of further changes: "+" of `commit`, "-dirty" of `git describe`."""
    return commit.removesuffix("+").removesuffix("-dirty")


def commit_words(commit: str) -> str:
    """A record's commit for readers, who may not find that very code under this name."""
    name = bare(commit)
    return name if name == commit else f"{name} with further changes in the tree"


def _git(*arguments: str) -> str:
    import subprocess  # not everywhere is there a process to start

    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    except OSError:  # no git on this computer
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# Optional Python packages, and the extra of this project that installs each.


_EXTRAS = {
    "torch": ("torch", "opacus"),
    "vision": ("timm", "torchvision"),
    "text": ("transformers", "peft", "gguf", "sentence_transformers"),
    "tune": ("optuna",),
    "postgres": ("psycopg",),
    "flower": ("flwr",),
    "ray": ("ray",),
    "login": ("authlib",),
    "excel": ("openpyxl",),
    "onnx": ("onnx",),
}
EXTRAS = {package: extra for extra, packages in _EXTRAS.items() for package in packages}


def lacking(packages: Iterable[str]) -> str | None:
    """The end of a sentence that says what to install; None if all packages are installed. Imports none of them."""
    absent = [package for package in packages if find_spec(package) is None]
    if not absent:
        return None
    extras = ",".join(dict.fromkeys(EXTRAS[package] for package in absent))
    return f"needs {' and '.join(absent)}: pip install 'dpcl[{extras}]'"
