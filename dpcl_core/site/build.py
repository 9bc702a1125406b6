"""All pages of the site, and their files in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from dpcl_core.errors import BadInput
from dpcl_core.site import explorables, published, runs
from dpcl_core.site.page import MARK, Page, contents, written

# In the menu's order; one line each. A function gives a page, or several of which the first is in the menu.
PAGES: tuple[Callable[[], Page | Iterable[Page]], ...] = (
    explorables.index,
    explorables.budget,
    explorables.words,
    explorables.clients,
    explorables.lessons,
    explorables.calculators,
    runs.pages,
    published.pages,
)


def pages() -> list[Page]:
    """Every page of the site."""
    made: list[Page] = []
    for make in PAGES:
        one = make()
        made += [one] if isinstance(one, Page) else one
    start, *others = made
    return [replace(start, body=start.body + contents(others)), *others]


def build(folder: Path) -> list[Path]:
    """Writes the site into the folder, in place of an earlier site there; returns its files.

    Raises BadInput, and writes nothing, where the folder holds anything else or cannot be written.
    """
    unwritable = "must be a folder that can be written"
    try:
        _check(folder)
        folder.mkdir(parents=True, exist_ok=True)  # before the pages are made, which takes half a minute
    except OSError as error:
        raise BadInput("--to", str(folder), f"{unwritable}: {error.strerror}") from error
    every = pages()
    files = {folder / page.file: written(page, every) for page in every}
    try:
        for old in folder.glob("*.html"):
            if old not in files:
                old.unlink()
        for path, text in files.items():
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadInput("--to", str(folder), f"{unwritable}: {error.strerror}") from error
    return sorted(files)


def _check(folder: Path) -> None:
    """Raises BadInput unless the folder is new, empty, or holds the files of a site alone."""
    allowed = "must be a new or empty folder, or one that holds a site alone"
    if folder.exists() and not folder.is_dir():
        raise BadInput("--to", str(folder), f"{allowed}; this is a file")
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        if not _is_of_a_site(path):
            raise BadInput("--to", str(folder), f"{allowed}; {path.name} is no page of one: name another folder, or move it")


def _is_of_a_site(path: Path) -> bool:
    if path.suffix != ".html" or not path.is_file():
        return False
    with path.open("rb") as opened:
        return f'content="{MARK}"'.encode() in opened.read(2000)
