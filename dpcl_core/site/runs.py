"""Recorded runs: a gallery of questions, and for each question its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from statistics import fmean

import pandas as pd

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.events import References
from dpcl_core.figures.picture import counted, epsilon_text, span
from dpcl_core.figures.statistics import interval
from dpcl_core.papers import answers, questions, tables
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Size
from dpcl_core.papers.questions import Question
from dpcl_core.presets import Preset
from dpcl_core.site.page import Page, figure, folded, listed, paragraph, table
from dpcl_core.spec import RunSpec

FILE = "runs.html"
FORMS: Mapping[Size, str] = {"small": "Small: part of the data", "bundled": "Larger: more data", "full": "As published"}
MOST_NAMES = 4
_STANDINGS = (
    "A filled circle: ε is accounted, a bound on everything the run releases. A hollow diamond: ε is only claimed by the "
    "paper, or holds for the replay alone."
)


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of a question with recorded results. `specs` and `found` by label."""

    size: Size
    preset: Preset
    specs: Mapping[str, RunSpec]
    found: Mapping[str, Measured]

    @property
    def titles(self) -> Mapping[str, str]:
        """The readers' names of its runs, by label."""
        return questions.named(self.specs)

    @property
    def finding(self) -> str:
        """Its finding in a sentence, with its uncertainty."""
        return answers.finding(self.first, self.found, self.titles, with_forgetting=self.preset.asks_about_forgetting)

    @property
    def title(self) -> str:
        """Its size in words, with how long its runs took where that was measured."""
        seconds = questions.elsewhere(self.preset, self.specs)
        return FORMS[self.size] if seconds is None else f"{FORMS[self.size]}, about {span(seconds)}"

    @property
    def first(self) -> RunSpec:
        """The settings of its first run."""
        return next(iter(self.specs.values()))


def pages() -> Iterator[Page]:
    """The gallery, then a page for each question with recorded results."""
    recorded = [(question, forms) for question in questions.questions() if (forms := _recorded(question))]
    yield Page(FILE, "Recorded runs", "Which questions have an answer here?", _gallery(recorded), "Runs")
    for question, forms in recorded:
        body = _about(question) + "".join(_answer(form, is_alone=len(question.forms) == 1) for form in forms)
        yield Page(_file(question), question.title, question.text, body, under=FILE)


def _recorded(question: Question) -> list[_Form]:
    """Its forms with recorded results, largest first; settings are as the preset says, whatever networks are here."""
    forms = []
    for size, preset in reversed(list(question.forms.items())):
        specs = presets.variants(preset.name)
        if found := questions.recorded(specs):
            forms.append(_Form(size, preset, specs, found))
    return forms


def _file(question: Question) -> str:
    return f"run-{question.smallest.name.removeprefix('paper-').removesuffix('-small')}.html"


def _gallery(recorded: Sequence[tuple[Question, list[_Form]]]) -> str:
    n_runs = sum(len(form.found) for _, forms in recorded for form in forms)
    text = paragraph(f"{len(recorded)} questions, {n_runs} recorded runs. Each opens on its answer.")
    groups: dict[str, list[str]] = {}
    for question, forms in recorded:
        runs = ", ".join(f"{FORMS[form.size].partition(':')[0].lower()}: {_count(form)}" for form in forms)
        card = (
            f'<li class="card"><h3>{escape(question.title)}</h3><p>{escape(question.text)}</p>'
            f"{paragraph(forms[0].finding, 'small')}"
            f'<p><a class="touch" href="{_file(question)}" aria-label="Answer: {escape(question.title)}">Answer →</a></p>'
            f"{paragraph(runs, 'small')}</li>"
        )
        groups.setdefault(question.group, []).append(card)
    return text + "".join(
        f'<h2>{escape(name)}</h2><ul class="cards">{"".join(cards)}</ul>' for name, cards in groups.items()
    )


def _count(form: _Form) -> str:
    n, of = len(form.found), len(form.specs)
    return counted(n, "run") if n == of else f"{n} of {of} runs"


def _about(question: Question) -> str:
    back = f'<a class="touch" href="{FILE}">← All questions</a>'
    return f'<p class="row">{back}<span class="small">{escape(question.group)}</span></p>'


def _answer(form: _Form, *, is_alone: bool) -> str:
    """One form: its finding, the picture of all runs, and the numbers as a table."""
    titles = form.titles
    known = answers.recorded_references(form.preset.name, form.first, form.found)
    with_forgetting = form.preset.asks_about_forgetting
    draw = partial(answers.picture, form.first, form.found, titles, known, with_forgetting=with_forgetting)
    score = datasets.score(form.first.data.dataset)
    numbers = _numbers(answers.scores(form.found, titles))
    rows_of = partial(answers.rows, with_forgetting=with_forgetting)
    rows = [row for label, run in form.found.items() for row in rows_of(titles[label], run)]
    heads = answers.heads(with_forgetting=with_forgetting)
    meanings = paragraph(" ".join(f"{word}: {meaning}" for word, meaning in answers.MEANINGS), "small")
    parts = [
        "" if is_alone else f"<h2>{escape(form.title)}</h2>",
        paragraph(form.finding, "finding"),
        paragraph(missing(form.specs, form.found), "small"),
        f'<div class="card">{figure(lambda dark: draw(dark=dark))}{paragraph(_levels(known, score), "small")}'
        f"{paragraph(answers.no_ceiling(form.first), 'small')}"
        f"{paragraph(_STANDINGS, 'small')}</div>",
        folded(f"The numbers: final {score}, %", table(("run", "ε", "mean", "95 % interval", "seeds"), numbers, "Numbers")),
        folded("What each ε is", table(heads, rows, "Budgets") + meanings),
        folded("Data, networks, machines and commits", _sources(form, titles)),
    ]
    return f"<section>{''.join(parts)}</section>"


def missing(specs: Mapping[str, RunSpec], found: Mapping[str, Measured]) -> str:
    """Which runs are not recorded, or how many are where naming the others would fill the page. Both by label."""
    titles = questions.named(specs)
    names = [titles[label] for label in specs if label not in found]
    if len(names) > MOST_NAMES:
        return f"{len(found)} of {len(specs)} runs are recorded."
    return f"Not recorded: {'; '.join(names)}." if names else ""


def _levels(known: References, score: str) -> str:
    """What the lines in the picture are."""
    names = ("chance", "the untrained network", "all tasks at once without noise")
    levels = zip(names, (known.chance, known.untrained, known.ceiling), strict=True)
    shown = [f"{name} {100 * level:.1f} %" for name, level in levels if level is not None]
    return f"Lines, {score}: {', '.join(shown)}."


def _numbers(scores: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for (run, epsilon), group in scores.groupby(["run", "epsilon"], sort=False):
        values = (100 * group["value"]).tolist()
        known = interval(values)
        bounds = "–" if known.low is None or known.high is None else f"{max(0, known.low):.1f} to {min(100, known.high):.1f}"
        yield str(run), epsilon_text(float(epsilon)), f"{fmean(values):.1f}", bounds, str(len(values))


def _sources(form: _Form, titles: Mapping[str, str]) -> str:
    runs = form.found.values()
    data = dict.fromkeys(run.dataset_title for run in runs)
    networks = dict.fromkeys(backbones.card(run.spec.data.backbone).title for run in runs)
    head = listed((f"Data: {'; '.join(data)}", f"Networks: {'; '.join(networks)}"))
    return head + listed(tables.source(titles[label], run) for label, run in form.found.items())
