"""All pages of the site, and their files in a folder."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Final

from dpcl_core import paths
from dpcl_core.elements import calculator, element
from dpcl_core.elements.element import ANCHORS, CALCULATOR, DRAG, HERO, LESSON, TOKENS, Door, Element, in_html
from dpcl_core.errors import BadInput
from dpcl_core.explorers.tokens import Dials
from dpcl_core.figures.statistics import interval_factor
from dpcl_core.lessons import in_browser, text
from dpcl_core.privacy import statement
from dpcl_core.site import live as live_files
from dpcl_core.site import runs
from dpcl_core.site.runs import MARK, Page, folded, html_list, paragraph, run_page
from dpcl_core.spec import LabelSetting

# Pages to touch: Start, the ε slider, the words of a sentence, the lists of twenty clients.


PANELS = ("accuracy", "matrix", "classes")
START = 1.0  # the budget at which the slider stands first
LESSON_FILES: Final[Mapping[str, str]] = {
    name: f"lesson-{number}.html" for number, name in enumerate(text.IN_BROWSER, start=1)
}
FIRST: tuple[LabelSetting, int] = ("prior-const", 5)
_BEHIND: Final[Mapping[Door, str]] = {"Learn": "#lessons", "Ask": "#questions", "Use my data": "#install"}
_WHAT = (
    "dpcl is an app and a Python package. It trains models on one task after another under differential privacy, and shows "
    "what they learn, what they forget, and what they give away."
)
_NEEDS = "Python 3.11 or newer. Once it is installed the app works offline, and your data stay on your computer."
_INSTALL: Final[Mapping[str, str]] = {"In a checkout:": "make app", "Or as a package:": "pip install '.[all]'\ndpcl app"}
_TEACHING = (
    "Public teaching data, on purpose: a slider needs class sums without noise and the same noise at every ε, and either "
    "voids any guarantee."
)


def index() -> Iterator[Page]:
    """What this is, Start's hero, and everything else by headings: questions, lessons, how to install, the papers."""
    hero = _card(HERO, element.hero_document(), "hero", paragraph(element.TEACHING, "small"))
    doors = "".join(
        f'<li><a class="touch" href="{_BEHIND[door]}"><b>{door}</b>&nbsp;{escape(what)}</a></li>'
        for door, what in element.DOORS.items()
    )
    install = "".join(f"{paragraph(where)}<pre>{escape(commands)}</pre>" for where, commands in _INSTALL.items())
    # Those that run here as cards, and the titles of the others.
    cards = "".join(
        f'<li class="card"><h3><a href="{file}">{escape(text.load(name).title)}</a></h3>'
        f"{paragraph(text.load(name).question)}</li>"
        for name, file in LESSON_FILES.items()
    )
    others = [name for name in text.NAMES if name not in LESSON_FILES]
    said = f"{len(LESSON_FILES)} of {len(text.NAMES)} lessons run here, without a server. The app has them all."
    rest = folded(f"The other {len(others)}", html_list(text.load(name).title for name in others))
    parts = (
        ("questions", "Questions", runs.gallery()),
        ("lessons", "Lessons", f'{paragraph(said)}<ul class="cards">{cards}</ul>{rest}'),
        ("install", "Install", paragraph(_NEEDS) + install),
        ("papers", "Papers", runs.paper_list()),
    )
    body = "".join(f'<section id="{name}"><h2>{title}</h2>{inside}</section>' for name, title, inside in parts)
    lead = f'{paragraph(element.QUESTION, "lead")}{hero}<ul class="doors">{doors}</ul>'
    yield Page(runs.HOME, element.TITLE, _WHAT, lead + body, "Start")


def _card(of: Element, data: object, name: str, below: str = "") -> str:
    """An element drawn in a card, with HTML below it."""
    return f'<div class="card">{of.inline(data, name=name)}{below}</div>'


def budget() -> Iterator[Page]:
    """The ε slider, with every list of labels and number of tasks that has a table."""
    labels, n_tasks = FIRST
    first = element.drag_document(calculator.digits(labels, n_tasks), START, PANELS)
    body = f"{_card(DRAG, first, 'drag')}{_settings()}{paragraph(_TEACHING, 'small')}{_choices()}"
    yield Page("budget.html", "Privacy budget", "What does ε cost?", body, "Budget")


def _settings() -> str:
    def group(name: str, legend: str, options: dict[str, str], chosen: str) -> str:
        inputs = "".join(
            f'<label><input type="radio" name="{name}" value="{value}"{" checked" if value == chosen else ""}>'
            f"{escape(title)}</label>"
            for value, title in options.items()
        )
        return f"<fieldset><legend>{legend}</legend>{inputs}</fieldset>"

    lists = group("labels", "Label list", {name: title for name, (title, _) in calculator.SETTINGS.items()}, FIRST[0])
    tasks = group("tasks", "Tasks", {str(n): str(n) for n in calculator.TASKS}, str(FIRST[1]))
    meaning = f'<p id="meaning" class="small" role="status">{escape(calculator.SETTINGS[FIRST[0]][1])}</p>'
    return f'<form id="settings" class="card" autocomplete="off">{lists}{tasks}{meaning}</form>'


def _choices() -> str:
    """The script that feeds the slider with another table."""
    documents: dict[str, object] = {}
    replays: dict[str, object] = {}
    for labels, (_, meaning) in calculator.SETTINGS.items():
        for n_tasks in calculator.TASKS:
            data = element.drag_document(calculator.digits(labels, n_tasks), START, PANELS)
            replay = f"{'prior' if labels == 'data' else labels}-{n_tasks}"
            replays[replay] = data.pop("replay")
            documents[f"{labels}-{n_tasks}"] = {"data": data, "replay": replay, "meaning": meaning}
    script = (paths.assets_dir() / "site" / "budget.js").read_text(encoding="utf-8")
    for name, value in (("DOCUMENTS", documents), ("REPLAYS", replays)):
        script = script.replace(name, json.dumps(value, allow_nan=False))
    return f"<script>\n{in_html(script)}</script>\n"


def explored() -> Iterator[Page]:
    """A sentence whose words the bundled model scores, and lists of simulated clients, matched by machine or by hand."""
    sentence = element.document(None, Dials(), element.FIRST, "your sentence", element.BUDGETS, None)
    question = "Which words does the method think are private?"
    yield Page("words.html", "Sensitive words", question, _card(TOKENS, sentence, "words"), "Words")
    lists, question = element.anchors_document(*element.Start()), "Can 20 phones line up what they learned without labels?"
    yield Page("clients.html", "Matching clients", question, _card(ANCHORS, lists, "clients"), "Clients")


def calculators() -> Iterator[Page]:
    """How much noise an ε needs, and what several tasks cost one person."""
    shown = _card(CALCULATOR, calculator.document(), "calculators")
    yield Page("calculators.html", calculator.TITLE, "How much noise does an ε need?", shown, "Calculators")


def lessons() -> Iterator[Page]:
    """The lessons that are drawn in the browser, each on a page of its own, which leads to the others."""
    first = LESSON_FILES[text.IN_BROWSER[0]]
    for name, file in LESSON_FILES.items():
        others = "".join(
            f'<a class="touch" href="{other}">{escape(text.load(one).title)} →</a>'
            for one, other in LESSON_FILES.items()
            if one != name
        )
        shown = f'{_card(LESSON, in_browser.document(name), "lesson")}<p class="row">{others}</p>'
        menu, under = ("Lessons", "") if file == first else ("", first)
        yield Page(file, text.load(name).title, text.PUBLIC, shown, menu, under)


# The page "Train in this page": its markup, what its scripts start from, and the files that it needs beside it.


FILE: Final = "train-here.html"
CACHE: Final = "live-cache.js"
QUESTION: Final = "The app's own engine, in your browser: no install, no server, and your rows stay here."
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


def live_page() -> Page:
    """The page. Its choices come from `live/manifest.json`, and its figure is the ε slider of the app."""
    first = element.drag_document(calculator.digits(*FIRST), START, ("accuracy", "matrix"))
    # What the scripts start from: words of the slider, half widths of intervals by number of seeds, budgets, exercises.
    data = {
        "words": calculator.words("test examples", "trained here", _BADGE_HELP, odds=""),
        "odds": {"later": _LATER, "below": _BELOW, "bound": statement.ODDS, "none": statement.NO_ODDS},
        "intervals": [interval_factor(n) for n in range(MOST_SEEDS + 1)],
        "budgets": [*calculator.BUDGETS, "inf"],
        "exercises": paths.asset_table("live/exercises.toml"),
    }
    marks = {
        "FIRST": DRAG.inline(first, name="first"),
        "REPLAYED": escape(_REPLAYED),
        "LEAVES": escape(_LEAVES),
        "DATA": element.in_html(json.dumps(data, allow_nan=False)),
        "DOOR": element.in_html(_read("door.js")),
    }
    body = _read("page.html")
    for mark, inside in marks.items():
        body = body.replace(f"{{{{{mark}}}}}", inside)
    return Page(FILE, "Train in this page", QUESTION, f"<style>{_read('live.css')}</style>{body}", "Train", policy=POLICY)


def with_doors(pages: Iterable[Page]) -> Iterator[Page]:
    """The pages; Start and every answer whose run this page can repeat lead to it."""
    links = {}
    for question, forms in runs.recorded():
        if link := live_files.link_here(spec for form in reversed(forms) for spec in form.specs.values()):  # smallest first
            links[runs.file_of(question)] = link
    for one in pages:
        mark, is_start = '<p class="row">', one.file == runs.HOME
        if is_start or one.file in links:
            label = f"{_DOOR}: train here, nothing to install" if is_start else _DOOR
            door = f'<a class="touch" href="{FILE}{escape(links.get(one.file, ""))}">{label}</a>'
            mark, door = ('<ul class="doors">', f"<li>{door}</li>") if is_start else (mark, door)
            yield replace(one, body=one.body.replace(mark, mark + door, 1))
        else:
            yield one


def scripts() -> Mapping[str, str]:
    """The page's scripts by their path in the site's folder. They end in .js: some hosts do not know .mjs for a script."""
    folder = paths.assets_dir()
    modules = [*(folder / "live").glob("*.mjs"), folder / "shared" / "dom.mjs"]
    found = {f"live/{path.stem}.js": path.read_text(encoding="utf-8") for path in sorted(modules)}
    return {**found, CACHE: _read(CACHE)}  # what keeps pages must lie in their folder


def _read(name: str) -> str:
    return (paths.assets_dir() / "live" / name).read_text(encoding="utf-8")


# In the menu's order. A function gives a page, or several of which the first is in the menu.
Makes = Callable[[], Iterable[Page]]
PAGES: tuple[Makes, ...] = (index, budget, explored, lessons, calculators, runs.pages, runs.published_pages)


def pages() -> list[Page]:
    """Every page of the site."""
    return [page for make in PAGES for page in make()]


def build(folder: Path, *, live: bool = False) -> list[Path]:
    """Writes the site into the folder, in place of an earlier site there; returns its files.

    `live`: also a page that trains, with what it needs. Raises BadInput, and writes nothing, where the folder holds anything
    else or cannot be written; DataMissing where the browser's Python was never fetched.
    """
    with paths.writing_to(folder):
        _check(folder)
        folder.mkdir(parents=True, exist_ok=True)  # before the pages are made, which takes half a minute
    files = {folder / live_files.FOLDER / name: content for name, content in live_files.files().items()} if live else {}
    every = [*with_doors(pages()), live_page()] if live else pages()
    files |= {folder / name: words.encode() for name, words in scripts().items()} if live else {}
    files |= {folder / page.file: run_page(page, every).encode() for page in every}
    with paths.writing_to(folder):
        for old in folder.rglob("*"):
            if old.is_file() and old not in files:
                old.unlink()
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
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
    if path.name == live_files.FOLDER and path.is_dir():
        return (path / live_files.MANIFEST).is_file()
    if path.name == CACHE:
        return path.is_file()
    if path.suffix != ".html" or not path.is_file():
        return False
    with path.open("rb") as opened:
        return f'content="{MARK}"'.encode() in opened.read(2000)
