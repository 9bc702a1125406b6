"""The notebooks of `examples/`: they run offline, and nothing of a run is committed with them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiers import quick
from tests.support.waiting import PATIENCE_SECONDS, python

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# As a kernel does it: cells in order, in one namespace; `%%writefile` is the one magic that they use.
KERNEL = """
import json, pathlib, sys
names = {"__name__": "__main__"}
for number, cell in enumerate(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]):
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        continue
    if source.startswith("%%writefile "):
        first, _, text = source.partition("\\n")
        pathlib.Path(first.removeprefix("%%writefile ").strip()).write_text(text, encoding="utf-8")
    else:
        exec(compile(source, f"cell {number}", "exec"), names)
"""


def executed(notebook: Path, folder: Path) -> str:
    """What all code cells of a notebook print, in order, in a fresh process in `folder`, without a network."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DPCL_")}
    environment |= {"DPCL_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return python("-c", KERNEL, str(notebook), cwd=folder, env=environment)


@pytest.mark.parametrize("notebook", quick(1, NOTEBOOKS), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    executed(notebook, tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_output(notebook: Path) -> None:
    code = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_a_method_of_another_place_needs_a_name_of_its_own(tmp_path: Path) -> None:
    """One sentence and exit status 2, as for any other input; for a module without a card see `test_unforeseen.py`."""
    (tmp_path / "taken.py").write_text("from dpcl_core.methods.features.cosine import CARD\n", encoding="utf-8")
    environment = {**os.environ, "DPCL_METHODS": "taken", "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-m", "dpcl_core", "list", "methods"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("DPCL_METHODS = taken: ")
    assert "cosine" in done.stderr
