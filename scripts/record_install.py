"""Writes docs/install.md: what a stranger gets with `pip install dpcl`, measured in an empty environment.

    python -m scripts.record_install     builds the wheel, installs it, opens the app; needs an index of packages
"""

import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from dpcl_core import __version__, machine

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "install.md"
AIM_MB = 450
_PAGE = """# What an installation takes

`python -m scripts.record_install` wrote this page: it builds the wheel, installs it elsewhere, and opens the app.

    pip install dpcl      # into an environment of yours; then: dpcl app
    pipx run dpcl app     # or uvx dpcl app: neither an environment nor a checkout

| measured | |
| --- | --- |
| version, commit | {version}, {commit} |
| date | {date} |
| system | {system} |
| the wheel | {wheel:.1f} MB |
| packages | {packages} |
| **all of them on the disk** | **{total:,.0f} MB**, and {compiled:,.0f} MB of bytecode that Python writes |
| `pip install`, downloads included | {install:.0f} s |
| `dpcl app` for the first time, until it answers | {first:.0f} s |
| and again | {again:.0f} s |
| torch among them | {torch} |

{verdict} The largest packages, in MB: {largest}.

Extras, for `pip install 'dpcl[torch,…]'`: {extras}. Where one is missing, the sentence that says
so ends with the command that brings it.
"""


def main() -> None:
    """Measures, and writes the page."""
    with tempfile.TemporaryDirectory(prefix="dpcl-install-") as place:
        folder = Path(place)
        quiet = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
        subprocess.run([*quiet, str(ROOT)], check=True)
        (wheel,) = folder.glob("*.whl")
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python = programs / "python"
        before = {one.metadata["Name"] for one in metadata.distributions(path=_site_packages(python))}
        start = time.monotonic()
        subprocess.run([str(python), "-m", "pip", "install", "-q", str(wheel)], check=True)
        install = time.monotonic() - start
        found = [one for one in metadata.distributions(path=_site_packages(python)) if one.metadata["Name"] not in before]
        sizes = {one.metadata["Name"]: sum(_sizes(one, compiled=False)) for one in found}
        total = sum(sizes.values())
        first, again = (_seconds_to_answer(programs / "dpcl", folder / "home") for _ in range(2))
        largest = sorted(sizes, key=lambda name: -sizes[name])[:8]
        verdict = f"The aim was {AIM_MB} MB: " + ("it is reached." if total <= AIM_MB else "it is missed.")
        page = _PAGE.format(
            version=__version__, commit=machine.commit() or "unknown", date=f"{datetime.now(UTC):%Y-%m-%d}", total=total,
            system=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {machine.machine()}",
            wheel=wheel.stat().st_size / 1e6, packages=len(found), first=first, again=again, install=install,
            compiled=sum(sum(_sizes(one, compiled=True)) for one in found), verdict=verdict,
            extras=", ".join(dict.fromkeys(machine.EXTRAS.values())),
            torch="yes" if "torch" in sizes else "no", largest=", ".join(f"{name} {sizes[name]:.0f}" for name in largest),
        )  # fmt: skip
    DOCUMENT.write_text(page, encoding="utf-8")


def _site_packages(python: Path) -> list[str]:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return [subprocess.check_output([str(python), "-c", code], text=True).strip()]


def _sizes(of: metadata.Distribution, *, compiled: bool) -> Iterator[float]:
    """The MB of each file of a package, either of those that it brings or of those that Python made of them."""
    for file in of.files or ():
        if (file.suffix == ".pyc") == compiled:
            with suppress(OSError):
                yield Path(str(file.locate())).stat().st_size / 1e6


def _seconds_to_answer(program: Path, home: Path) -> float:
    """How long it takes until the app, started as a user starts it, says that it is healthy."""
    port, start = "8599", time.monotonic()
    command = [str(program), "app", "--no-browser", "--port", port]
    with subprocess.Popen(command, env={**os.environ, "DPCL_HOME": str(home)}, stdout=subprocess.DEVNULL) as server:
        try:
            while server.poll() is None:
                with suppress(OSError), urllib.request.urlopen(f"http://localhost:{port}/_stcore/health") as answer:
                    if answer.status == 200:
                        return time.monotonic() - start
                time.sleep(0.05)
            raise SystemExit("the app ended before it answered")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
