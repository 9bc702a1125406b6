"""Pages to touch: one person taken out, the ε slider, the words of a sentence, the lists of twenty clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from dpcl_core import paths
from dpcl_core.elements import anchors, budget_source, calculator, doors, drag, hero, tokens
from dpcl_core.elements.budget_source import SETTINGS, TASKS
from dpcl_core.elements.element import ANCHORS, CALCULATOR, DOOR, DRAG, HERO, LESSON, TOKENS, in_html
from dpcl_core.elements.hero import Door
from dpcl_core.explorers.token_layers import Dials
from dpcl_core.lessons import in_browser, text
from dpcl_core.site.page import Page, paragraph
from dpcl_core.spec import LabelSetting

PANELS = ("accuracy", "matrix", "classes")
START = 1.0  # the budget at which the slider stands first
FIRST: tuple[LabelSetting, int] = ("prior-const", 5)
_BEHIND: dict[Door, str] = {"digits": "budget.html", "words": "words.html", "clients": "clients.html"}
_TEACHING = (
    "Public teaching data, on purpose: a slider needs class sums without noise and the same noise at every ε, and either "
    "voids any guarantee."
)


def index() -> Page:
    """One person taken out, and three doors."""
    cards = "".join(
        f'<li class="card"><p><b>{what}</b> {escape(question)}</p>{DOOR.inline(doors.document(door), name=f"door-{door}")}'
        f'<p><a class="touch" href="{_BEHIND[door]}" aria-label="{what}: {escape(question)}">Open →</a></p></li>'
        for door, (what, question) in hero.DOORS.items()
    )
    shown = f'<div class="card">{HERO.inline(hero.document(), name="hero")}{paragraph(hero.TEACHING, "small")}</div>'
    return Page("index.html", hero.TITLE, hero.QUESTION, f'{shown}<ul class="doors">{cards}</ul>', "Start")


def budget() -> Page:
    """The ε slider, with every list of labels and number of tasks that has a table."""
    labels, n_tasks = FIRST
    first = drag.document(budget_source.digits(labels, n_tasks), START, PANELS)
    body = f'<div class="card">{DRAG.inline(first, name="drag")}</div>{_settings()}{paragraph(_TEACHING, "small")}'
    return Page("budget.html", "Privacy budget", "What does ε cost?", f"{body}{_choices()}", "Budget")


def _settings() -> str:
    def group(name: str, legend: str, options: dict[str, str], chosen: str) -> str:
        inputs = "".join(
            f'<label><input type="radio" name="{name}" value="{value}"{" checked" if value == chosen else ""}>'
            f"{escape(title)}</label>"
            for value, title in options.items()
        )
        return f"<fieldset><legend>{legend}</legend>{inputs}</fieldset>"

    lists = group("labels", "Label list", {name: title for name, (title, _) in SETTINGS.items()}, FIRST[0])
    tasks = group("tasks", "Tasks", {str(n): str(n) for n in TASKS}, str(FIRST[1]))
    meaning = f'<p id="meaning" class="small" role="status">{escape(SETTINGS[FIRST[0]][1])}</p>'
    return f'<form id="settings" class="card" autocomplete="off">{lists}{tasks}{meaning}</form>'


def _choices() -> str:
    """The script that feeds the slider with another table."""
    documents: dict[str, object] = {}
    replays: dict[str, object] = {}
    for labels, (_, meaning) in SETTINGS.items():
        for n_tasks in TASKS:
            data = drag.document(budget_source.digits(labels, n_tasks), START, PANELS)
            replay = f"{'prior' if labels == 'data' else labels}-{n_tasks}"
            replays[replay] = data.pop("replay")
            documents[f"{labels}-{n_tasks}"] = {"data": data, "replay": replay, "meaning": meaning}
    script = (paths.assets_dir() / "site" / "budget.js").read_text(encoding="utf-8")
    for name, value in (("DOCUMENTS", documents), ("REPLAYS", replays)):
        script = script.replace(name, json.dumps(value, allow_nan=False))
    return f"<script>\n{in_html(script)}</script>\n"


def words() -> Page:
    """A sentence to type, whose words the bundled model scores in the browser."""
    data = tokens.document(None, Dials(), tokens.FIRST, "your sentence", tokens.BUDGETS, None)
    shown = f'<div class="card">{TOKENS.inline(data, name="words")}</div>'
    return Page("words.html", "Sensitive words", "PeCL: which words are treated as sensitive?", shown, "Words")


def clients() -> Page:
    """Lists of simulated clients, matched by machine or by hand."""
    data = anchors.document(*anchors.Start())
    shown = f'<div class="card">{ANCHORS.inline(data, name="clients")}</div>'
    return Page("clients.html", "Matching clients", "CSLR: can twenty clients agree without naming?", shown, "Clients")


def calculators() -> Page:
    """How much noise an ε needs, and what several tasks cost one person."""
    shown = f'<div class="card">{CALCULATOR.inline(calculator.document(), name="calculators")}</div>'
    return Page("calculators.html", calculator.TITLE, "How much noise does an ε need?", shown, "Calculators")


def lessons() -> Iterator[Page]:
    """The lessons that are drawn in the browser, each on a page of its own, which leads to the others."""
    files = {name: f"lesson-{number}.html" for number, name in enumerate(text.IN_BROWSER, start=1)}
    first = files[text.IN_BROWSER[0]]
    for name, file in files.items():
        others = "".join(
            f'<a class="touch" href="{other}">{escape(text.load(one).title)} →</a>'
            for one, other in files.items()
            if one != name
        )
        drawn = LESSON.inline(in_browser.document(name), name="lesson")
        shown = f'<div class="card">{drawn}</div><p class="row">{others}</p>'
        menu, under = ("Lessons", "") if file == first else ("", first)
        yield Page(file, text.load(name).title, "Predict, do, see, explain.", shown, menu, under)
