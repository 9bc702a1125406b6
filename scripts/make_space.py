"""Writes a folder that is a Hugging Face Space: the checkout without its tests, with the hub's lines at the top.

    python -m scripts.make_space [DIR]     usually space/; then push the folder to a Space of the kind Docker
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LEFT_OUT = (".ci/", ".github/", "tests/")
_HEAD = """---
title: DP continual learning
sdk: docker
app_port: 8501
license: apache-2.0
short_description: What privacy costs a model that keeps learning
---

"""


def main(folder: Path) -> None:
    """Writes every file that git keeps into a new folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    folder.mkdir(parents=True)  # new, so that nothing else is pushed with it
    for name in listed.split("\0"):
        if name and not name.startswith(_LEFT_OUT):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    readme = folder / "README.md"
    readme.write_text(_HEAD + readme.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "space"))
