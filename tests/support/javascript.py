"""The browser's scripts run by Node.js, so that Python can be compared with them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.waiting import PATIENCE_SECONDS

NEEDED = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def printed(script: str, folder: Path | None = None, kind: Literal["module", "commonjs"] = "module") -> str:
    """What a script prints. `folder`: where its imports are looked for."""
    done = subprocess.run(
        ["node", f"--input-type={kind}", "-"], input=script, capture_output=True, text=True, encoding="utf-8", cwd=folder,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*sources: str, sent: object = None) -> Any:
    """What these sources, one after another, print as JSON. They find `sent` under the name `fromPython`."""
    document = json.dumps(json.dumps(sent, allow_nan=False))
    return json.loads(printed("\n".join([*sources[:-1], f"const fromPython = JSON.parse({document});", sources[-1]])))
