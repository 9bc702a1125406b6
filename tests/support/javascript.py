"""The browser's scripts run by Node.js, so that Python can be compared with them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.waiting import PATIENCE_SECONDS

WRITTEN = "process.stdout.write(JSON.stringify(answer()));"


def printed(script: str, folder: Path | None = None, kind: Literal["module", "commonjs"] = "module") -> str:
    """What a script prints; skips the test where there is no Node.js. `folder`: where its imports are looked for."""
    if shutil.which("node") is None:
        pytest.skip("needs Node.js")
    done = subprocess.run(
        ["node", f"--input-type={kind}", "-"], input=script, capture_output=True, text=True, encoding="utf-8", cwd=folder,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*sources: str, sent: object = None) -> Any:
    """What the last of these sources, the body of a function, returns after the others. It finds `sent` as `fromPython`."""
    *before, body = sources
    given = f"const fromPython = JSON.parse({json.dumps(json.dumps(sent, allow_nan=False))});"
    return json.loads(printed("\n".join([*before, given, "const answer = () => {", body, "};", WRITTEN])))
