"""The page that trains, with its engine and without the other pages of the site, which take half a minute."""

from pathlib import Path

import pytest

from dpcl_core.site import build, live
from dpcl_core.site.runs import run_page
from tests.data.making import put


def built(folder: Path) -> None:
    """Writes the page with its engine into this folder; skips where the browser's Python was never fetched."""
    if live.python_folder() is None:
        pytest.skip("needs the browser's Python: `dpcl fetch pyodide`")
    page = build.live_page()
    texts = {**build.scripts(), page.file: run_page(page, [page])}
    files = {name: text.encode() for name, text in texts.items()}
    files |= {f"{live.FOLDER}/{name}": content for name, content in live.files().items()}
    for name, content in files.items():
        put(folder / name, content)
