"""The page "Train in this page": its markup, what its scripts start from, and the files that it needs beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from typing import Final

from dpcl_core import page as page_engine
from dpcl_core import paths
from dpcl_core.elements import calculator, element
from dpcl_core.elements.element import DRAG
from dpcl_core.figures.statistics import interval_factor
from dpcl_core.privacy import statement
from dpcl_core.site import live, runs
from dpcl_core.site.runs import Page

FILE: Final = "train-here.html"
CACHE: Final = "live-cache.js"
QUESTION: Final = "The app's own engine, in your browser: no install, no server, and your rows stay here."
FIRST_BUDGET: Final = 1.0
MOST_SEEDS: Final = 100  # that settings take
# Only this site's own files may be asked for; blob: are the page's own bytes, which it checks.
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self' blob:; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
_DOOR = "Open in your browser"
_REPLAYED = "Until you train: the bundled digits with fixed noise, recorded. A demonstration that protects nobody."
_LEAVES = (
    "Nothing but requests for this site's own files, and these only until Start is enabled. A file of yours goes from this "
    "page into the engine's memory: never into a link, a log, or the browser's storage. Noise comes from the browser's own "
    "generator."
)
_LATER = "What is protected stands below, once the run has ended."
_BELOW = "What is protected stands below."
_BADGE_HELP = "Results of the run in this page. The slider has the trained budgets; nothing is interpolated between them."


def page() -> Page:
    """The page. Its choices come from `live/manifest.json`, and its figure is the ε slider of the app."""
    marks = {
        "FIRST": DRAG.inline(_first(), name="first"),
        "REPLAYED": escape(_REPLAYED),
        "LEAVES": escape(_LEAVES),
        "DATA": element.in_html(json.dumps(_data(), allow_nan=False)),
        "DOOR": element.in_html(_read("door.js")),
    }
    body = _read("page.html")
    for mark, text in marks.items():
        body = body.replace(f"{{{{{mark}}}}}", text)
    return Page(FILE, "Train in this page", QUESTION, f"<style>{_read('live.css')}</style>{body}", "Train", policy=POLICY)


def with_doors(pages: Iterable[Page]) -> Iterator[Page]:
    """The pages; Start and every answer whose run this page can repeat lead to it."""
    links = {runs.file_of(question): link for question, forms in runs.recorded() if (link := _repeated(forms))}
    for one in pages:
        mark, is_start = '<p class="row">', one.file == runs.HOME
        if is_start or one.file in links:
            label = f"{_DOOR}: train here, nothing to install" if is_start else _DOOR
            door = f'<a class="touch" href="{FILE}{escape(links.get(one.file, ""))}">{label}</a>'
            mark, door = ('<ul class="doors">', f"<li>{door}</li>") if is_start else (mark, door)
            yield replace(one, body=one.body.replace(mark, mark + door, 1))
        else:
            yield one


def _repeated(forms: Iterable[runs.RecordedForm]) -> str:
    """The end of the link to the first run of these forms that a page can repeat, the smallest first; empty without one."""
    specs = (spec for form in reversed([*forms]) for spec in form.specs.values())
    return next((page_engine.link(spec) for spec in specs if live.runs_here(spec)), "")


def scripts() -> Mapping[str, str]:
    """The page's scripts by their path in the site's folder. They end in .js: some hosts do not know .mjs for a script."""
    folder = paths.assets_dir()
    modules = [*(folder / "live").glob("*.mjs"), folder / "shared" / "dom.mjs"]
    found = {f"live/{path.stem}.js": path.read_text(encoding="utf-8") for path in sorted(modules)}
    return {**found, CACHE: _read(CACHE)}  # what keeps pages must lie in their folder


def _first() -> dict[str, object]:
    return element.drag_document(calculator.digits("prior-const", 5), FIRST_BUDGET, ("accuracy", "matrix"))


def _data() -> dict[str, object]:
    """What the scripts start from: words of the slider, half widths of intervals by number of seeds, budgets, exercises."""
    return {
        "words": calculator.words("test examples", "trained here", _BADGE_HELP, odds=""),
        "odds": {"later": _LATER, "below": _BELOW, "bound": statement.ODDS, "none": statement.NO_ODDS},
        "intervals": [interval_factor(n) for n in range(MOST_SEEDS + 1)],
        "budgets": [*calculator.BUDGETS, "inf"],
        "exercises": paths.asset_table("live/exercises.toml"),
    }


def _read(name: str) -> str:
    return (paths.assets_dir() / "live" / name).read_text(encoding="utf-8")
