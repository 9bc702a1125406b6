"""Writes locks/: every package that requirements.txt needs, with the SHA-256 of its files, for pip's --require-hashes.

    python -m scripts.lock        needs uv; PIP_FIND_LINKS or TORCH_INDEX: where the CPU-only wheel of torch is

common.txt has all packages but torch; cpu.txt adds torch without CUDA, cuda.txt torch as PyPI has it, with CUDA's libraries.
Platform: Linux on x86-64 (glibc 2.28 or newer), Python 3.11, as the image has them. No file names the host of an index.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "locks"
_OPTIONS = (
    "--generate-hashes", "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28", "--no-header",
    "--no-annotate", "--no-config",
)  # fmt: skip
_HEAD = "# Written by `make locks`: {what}; Linux on x86-64, Python 3.11.\n"
_CUDA = re.compile(r"(torch|triton|cuda|nvidia)(-[\w-]+)?==")  # torch, and what it needs on a graphics card


def main() -> None:
    """Resolves the requirements and writes the three files."""
    packages = _resolved()
    common = [one for one in packages if not _CUDA.match(one)]
    cuda = [one for one in packages if _CUDA.match(one)]
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    (pinned,) = (line for line in lines if line.startswith("torch=="))
    cpu = f"{pinned}+cpu \\\n    --hash=sha256:{_digest(f'{pinned}+cpu')}"
    _write("common", "all packages but torch", common)
    _write("cpu", "torch without CUDA, and all else", ["-r common.txt", cpu])
    _write("cuda", "torch with CUDA's libraries, and all else", ["-r common.txt", *cuda])


def _resolved() -> list[str]:
    """Each package that is needed where torch comes from PyPI, with its hashes."""
    command = ["uv", "pip", "compile", "requirements.txt", *_OPTIONS]
    environment = {name: value for name, value in os.environ.items() if name != "UV_FIND_LINKS"}
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment).stdout
    return re.split(r"\n(?=\S)", text.strip())


def _digest(requirement: str) -> str:
    """SHA-256 of the one wheel of a requirement, which pip finds where PIP_FIND_LINKS or TORCH_INDEX says."""
    index = ["--index-url", os.environ["TORCH_INDEX"]] if os.environ.get("TORCH_INDEX") else []
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *index, requirement]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return sha256(wheel.read_bytes()).hexdigest()


def _write(name: str, what: str, lines: Sequence[str]) -> None:
    LOCKS.mkdir(exist_ok=True)
    (LOCKS / f"{name}.txt").write_text("\n".join([_HEAD.format(what=what) + lines[0], *lines[1:]]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
