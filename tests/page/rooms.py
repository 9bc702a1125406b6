"""The tests of the rooms that need no torch, under the page's Python in node: 32 bits, no threads, no processes."""

import json
import re
import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dpcl_core.site import build, live

HERE = Path(__file__).resolve().parent
TESTS: Final = HERE.parent
ROOMS: Final = ("privacy", "scenarios", "data", "methods/features", "methods/federated")
# Of this environment, as they are: none of them is compiled. Hypothesis is, so that another stands in for it.
PACKAGES: Final = (
    "_pytest", "absl", "dp_accounting", "iniconfig", "mpmath", "packaging", "pluggy", "py", "pygments", "pytest",
)  # fmt: skip
# What a page does not have, by how Python says it.
_LACKS: Final = {
    r"No module named '(dpcl_core\.[\w]+)": "need {}", r"No module named '(\w+)": "need {}",
    r"cannot import name '(\w+)' from 'dpcl_core'": "need {}", r"DataMissing: data\.dataset = ([\w-]+)": "need {}",
    r"BadInput: method = ([\w-]+): must be one of": "need the method {}",
    r"does not support processes|fork": "start a process", r"start new thread": "start a thread",
}  # fmt: skip
_TOLD = """
import json, os, re, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/tests/packages", "/tests"]
os.chdir("/tests")
import pytest

class Told:
    found = {}
    def note(self, report, what):
        crash = getattr(report.longrepr, "reprcrash", None)
        words = crash.message if crash else str(report.longrepr[-1] if what == "skipped" else report.longrepr)
        self.found.setdefault(report.nodeid, [what, words.strip().splitlines()[-1] if what == "collect" else words[:600]])
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or not report.passed:
            self.note(report, report.outcome)
    def pytest_collectreport(self, report):
        if report.failed:
            self.note(report, "collect")

pytest.main(["-qq", "--capture=sys", "--continue-on-collection-errors", "--import-mode=importlib", "--tb=short", "-m",
    "not slow and not browser",
    *(f"-p no:{name}" for name in "cacheprovider logging faulthandler threadexception".split()),
    *(f"tests/{room}" for room in ROOMS)], plugins=[Told()])
result = json.dumps(Told.found)
"""


def write_live(folder: Path) -> None:
    """Writes the files below `live/` of a site, and the script that opens the engine."""
    for name, content in live.files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "engine.js").write_text(build.scripts()["live/engine.js"], encoding="utf-8")


def in_node(live_folder: Path, file: Path, mounted: Path, *groups: str) -> Any:
    """What a Python file leaves as JSON in `result`, in the page's engine; `mounted` is its folder /tests."""
    command = ["node", str(HERE / "in_node.mjs"), str(live_folder), str(file), str(mounted), *groups]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def tested(live_folder: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """The outcome of every test by its name, and what was said of it: passed, failed, skipped, or collect for a file."""
    left_out = shutil.ignore_patterns("*.so", "__pycache__", "tests")
    for name in PACKAGES:
        source = Path(str(getattr(find_spec(name), "origin", None)))
        if source.name == "__init__.py":
            shutil.copytree(source.parent, folder / "packages" / name, ignore=left_out)
        else:
            shutil.copy(source, folder / "packages" / source.name)
    shutil.copytree(HERE / "stand_in", folder / "packages", dirs_exist_ok=True)
    for name in ("support", "data", "methods", "privacy", "scenarios"):
        shutil.copytree(TESTS / name, folder / "tests" / name, ignore=left_out)
    shutil.copy(TESTS / "conftest.py", folder / "tests")
    shutil.copytree(TESTS.parent / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.ipynb"))
    file = folder / "asked.py"
    file.write_text(f"ROOMS = {ROOMS}\n{_TOLD}", encoding="utf-8")
    return {name: (what, said) for name, (what, said) in in_node(live_folder, file, folder, "scipy", "cluster").items()}


def reason(said: str) -> str:
    """Why a test cannot run in a page, by what was said of it; empty for another failure."""
    found = ((re.search(pattern, said), words) for pattern, words in _LACKS.items())
    return next((words.format(*match.groups()) for match, words in found if match), "")


def failures(outcomes: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Tests that ran and failed, with what was said of each."""
    return {name: said for name, (what, said) in outcomes.items() if what in ("failed", "collect") and not reason(said)}


def sentence(outcomes: dict[str, tuple[str, str]]) -> str:
    """The outcomes in words: how many passed and failed, and why others cannot run there."""
    passed = sum(what == "passed" for what, _ in outcomes.values())
    skipped = Counter(said for what, said in outcomes.values() if what == "skipped")
    of_files = Counter(reason(said) for what, said in outcomes.values() if what == "collect" and reason(said))
    of_tests = Counter(reason(said) for what, said in outcomes.values() if what == "failed" and reason(said))
    others = [f"{count} tests: {said.removeprefix('Skipped: ')}" for said, count in skipped.most_common(3)]
    others += [f"{count} files {why}" for why, count in of_files.most_common()]
    others += [f"{count} tests {why}" for why, count in of_tests.most_common()]
    told = f"{passed:,} tests passed, {len(failures(outcomes))} failed"
    return f"Tests of the torch-free rooms under Pyodide in node, 32 bits: {told}. Not run there: {'; '.join(others)}."
