"""Recorded runs: a gallery of questions, and for each question its answer."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from itertools import groupby
from statistics import fmean

import pandas as pd

from dpcl_core import paths
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.elements import element
from dpcl_core.figures import reproduction, svg
from dpcl_core.figures.picture import Picture, counted, epsilon_text, span
from dpcl_core.figures.statistics import interval
from dpcl_core.papers import answers, catalog, claims, comparison, questions, report
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Paper, Size
from dpcl_core.spec import RunSpec

# A page of the site: one HTML file that asks nothing of anyone, and the parts that all pages are made of.


HOME = "index.html"
MARK = "dpcl site"  # in the generator line of every page, by which a folder is known as a site's own
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_NOSCRIPT = "Text and figures work without scripts. To move a slider, allow this page's own script; it sends nothing."
_NUMBER = re.compile(r"[-+−–∞]?[\d.,]*( (±|to) [-+−]?[\d.,]+)?$")


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `file`: its name; `title`: its heading; `question`: what it answers; `body`: HTML below them.

    `menu`: its name in the menu; "" for a page that another one leads to, `under`. `policy`: what it may load and ask for.
    """

    file: str
    title: str
    question: str
    body: str
    menu: str = ""
    under: str = ""
    policy: str = POLICY


def run_page(page: Page, menu: Sequence[Page]) -> str:
    """The whole HTML document. `menu`: the pages in the menu."""
    current = {page.under: ' aria-current="true"', page.file: ' aria-current="page"'}
    marked = ((one, current.get(one.file, "")) for one in menu if one.menu)
    links = "".join(f'<li><a href="{one.file}"{mark}>{escape(one.menu)}</a></li>' for one, mark in marked)
    styles = element.theme() + (paths.assets_dir() / "site" / "site.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{page.policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{MARK}">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)} · private continual learning</title>
<link rel="icon" href="data:,">
<style>
{styles}</style>
</head>
<body>
<a class="skip" href="#main">Skip the menu</a>
<header class="top"><nav aria-label="Pages"><a class="brand" href="{HOME}">dpcl</a><ul>{links}</ul></nav></header>
<main id="main">
<h1>{escape(page.title)}</h1>
<p class="question">{escape(page.question)}</p>
<noscript><p class="small">{_NOSCRIPT}</p></noscript>
{page.body}
</main>
</body>
</html>
"""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text; nothing without text. `kind`: a class of the style sheet."""
    return f"<p{_class(kind)}>{escape(text)}</p>" if text else ""


def html_list(texts: Iterable[str]) -> str:
    """A list of plain texts; nothing without any."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def folded(title: str, inside: str) -> str:
    """What opens when its title is pressed; nothing if it is empty."""
    return f"<details><summary>{escape(title)}</summary>{inside}</details>" if inside else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """A table of plain texts, whose first column names its rows; it scrolls within its own frame. `name`: what it is.

    `rows` has at least one row.
    """
    lines = [tuple(map(str, row)) for row in rows]
    kinds = [_class("number" if all(map(_NUMBER.match, column)) else "") for column in zip(*lines, strict=True)]
    top = "".join(f'<th scope="col"{kind}>{escape(head)}</th>' for head, kind in zip(heads, kinds, strict=True))
    body = ""
    for first, *others in lines:
        cells = "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(others, kinds[1:], strict=True))
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    frame = f'<div class="frame" role="group" tabindex="0" aria-label="{escape(name)}">'
    return f"{frame}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def table_of(lines: Sequence[Mapping[str, str]], name: str) -> str:
    """The same of lines by column, of which a line may lack some; nothing without any."""
    heads = list(dict.fromkeys(column for line in lines for column in line))
    return table(heads, [[line.get(column, "") for column in heads] for line in lines], name) if lines else ""


def figure(draw: Callable[[bool], Picture]) -> str:
    """A figure for both themes and two widths, of which a screen shows one. `draw` gets whether it is dark."""
    drawn = []
    for theme, picture in (("light", draw(False)), ("dark", draw(True))):
        for kind, width in (("wide", 760), ("narrow", 330)):  # pixels: beside other things on a desk, and on a phone of 390
            inside = svg.draw_svg(picture, width=width, dark=theme == "dark")
            drawn.append(f'<div class="drawn {theme} {kind}">{inside}</div>')
    return f"<figure>{''.join(drawn)}</figure>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


FORMS: Mapping[Size, str] = {"small": "Small: part of the data", "bundled": "Larger: more data", "full": "As published"}
_PAPERS: Mapping[str, Paper] = {paper.title: paper for paper in catalog.PAPERS.values()}
_STANDINGS = (
    "A filled circle: ε is accounted, a bound on everything the run releases. A hollow diamond: ε is only claimed by the "
    "paper, or holds for the replay alone."
)


def pages() -> Iterator[Page]:
    """A page for each question with recorded results."""
    for question, forms in recorded():
        back = f'<a class="touch" href="{HOME}#questions">← All questions</a>'
        paper = _PAPERS.get(question.group)
        links = back if paper is None else f"{back}{_to_paper(paper)}"
        body = "".join(_answer(question, form) for form in forms)
        yield Page(file_of(question), question.title, question.text, f'<p class="row">{links}</p>{body}', under=HOME)


@cache
def recorded() -> tuple[tuple[questions.Question, Sequence[answers.Tested]], ...]:
    """The questions with recorded results, and their forms that have some, largest first."""
    forms = ((one.question, [form for form in reversed(one.tests) if form.runs]) for one in answers.recorded().values())
    return tuple(one for one in forms if one[1])


def file_of(question: questions.Question) -> str:
    """The name of its page."""
    return f"run-{question.smallest.name.removeprefix('paper-').removesuffix('-small')}.html"


def gallery() -> str:
    """All questions with recorded results, paper by paper: a card for each, with its verdict."""
    every = recorded()
    n_runs = sum(len(form.runs) for _, forms in every for form in forms)
    shown = paragraph(f"{len(every)} questions, answered by {n_runs} recorded runs.")
    for group, of in groupby(every, key=lambda one: one[0].group):
        cards = "".join(
            f'<li class="card"><h4><a href="{file_of(one)}">{escape(one.title)}</a></h4><p>{escape(one.text)}</p>'
            f"{_verdict(one, forms[0], _PAPERS.get(group))}</li>"
            for one, forms in of
        )
        shown += f'<h3>{escape(group)}</h3><ul class="cards">{cards}</ul>'
    return shown


def _verdict(question: questions.Question, form: answers.Tested, paper: Paper | None) -> str:
    """What came of the paper's claims on a question, as a bar and in words; without any, the beginning of a finding."""
    tests = [] if paper is None else [one for one in claims.recorded_forms(paper) if one.experiment.title == question.title]
    if not (of := claims.claims(tests) or claims.claims(tests, are_ours=True)):
        return paragraph(f"{_finding(question, form).partition(';')[0].removesuffix('.')}.")
    counts = {verdict: n for verdict, n in claims.counts(of).items() if n}
    parts = "".join(f'<i class="{verdict.replace(" ", "-")}" style="flex: {n}"></i>' for verdict, n in counts.items())
    what = f"{counted(len(of), 'comparison')} of our own" if of[0].ordering.is_ours else counted(len(of), "claim")
    said = f"{what}: {', '.join(f'{n} {verdict}' for verdict, n in counts.items())}"
    return f'<div class="claims" aria-hidden="true">{parts}</div>{paragraph(said)}'


def _finding(question: questions.Question, form: answers.Tested) -> str:
    """The finding of a form in a sentence, with its uncertainty."""
    first, asked = next(iter(form.specs.values())), question.forms[form.size].asks_about_forgetting
    return questions.finding(first, form.runs, questions.question_names(form.specs), with_forgetting=asked)


def _answer(question: questions.Question, form: answers.Tested) -> str:
    """One form: its finding, the picture of all runs, and the numbers as a table."""
    preset, first, titles = question.forms[form.size], next(iter(form.specs.values())), questions.question_names(form.specs)
    seconds, with_forgetting = questions.elsewhere(preset, form.specs), preset.asks_about_forgetting
    title = FORMS[form.size] if seconds is None else f"{FORMS[form.size]}, about {span(seconds)}"
    known = questions.recorded_references(preset.name, first, form.runs)
    draw = partial(questions.picture, first, form.runs, titles, known, with_forgetting=with_forgetting)
    score = datasets.score(first.data.dataset)
    numbers = _numbers(questions.scores(form.runs, titles))
    rows_of = partial(questions.rows, with_forgetting=with_forgetting)
    rows = [row for label, run in form.runs.items() for row in rows_of(titles[label], run)]
    heads = questions.heads(with_forgetting=with_forgetting)
    meanings = paragraph(" ".join(f"{word}: {meaning}" for word, meaning in questions.MEANINGS), "small")
    # What the lines in the picture are.
    names = ("chance", "the untrained network", "all tasks at once without noise")
    levels = zip(names, (known.chance, known.untrained, known.ceiling), strict=True)
    lines = ", ".join(f"{name} {100 * level:.1f} %" for name, level in levels if level is not None)
    data = dict.fromkeys(run.dataset_title for run in form.runs.values())
    networks = dict.fromkeys(backbones.card(run.spec.data.backbone).title for run in form.runs.values())
    sources = html_list((f"Data: {'; '.join(data)}", f"Networks: {'; '.join(networks)}"))
    sources += html_list(report.source(titles[label], run) for label, run in form.runs.items())
    parts = [
        "" if len(question.forms) == 1 else f"<h2>{escape(title)}</h2>",
        paragraph(_finding(question, form), "finding"),
        paragraph(_missing(form.specs, form.runs), "small"),
        f'<div class="card">{figure(lambda dark: draw(dark=dark))}{paragraph(f"Lines, {score}: {lines}.", "small")}'
        f"{paragraph(questions.no_ceiling(first), 'small')}"
        f"{paragraph(_STANDINGS, 'small')}</div>",
        folded(f"The numbers: final {score}, %", table(("run", "ε", "mean", "95 % interval", "seeds"), numbers, "Numbers")),
        folded("What each ε is", table(heads, rows, "Budgets") + meanings),
        folded("Data, networks, machines and commits", sources),
    ]
    return f"<section>{''.join(parts)}</section>"


def _missing(specs: Mapping[str, RunSpec], found: Mapping[str, Measured]) -> str:
    """Which runs are not recorded, or how many are where naming the others would fill the page. Both by label."""
    titles = questions.question_names(specs)
    names = [titles[label] for label in specs if label not in found]
    if len(names) > 4:
        return f"{len(found)} of {len(specs)} runs are recorded."
    return f"Not recorded: {'; '.join(names)}." if names else ""


def _numbers(scores: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for (run, epsilon), group in scores.groupby(["run", "epsilon"], sort=False):
        values = (100 * group["value"]).tolist()
        known = interval(values)
        bounds = "–" if known.low is None or known.high is None else f"{max(0, known.low):.1f} to {min(100, known.high):.1f}"
        yield str(run), epsilon_text(float(epsilon)), f"{fmean(values):.1f}", bounds, str(len(values))


# Published numbers: how many claims come out, layer by layer, pictures of both, then the differences and why.


PUBLISHED_FILE = "published.html"


def published_pages() -> Iterator[Page]:
    """The overview, then a page for each paper."""
    # The forms with recorded runs.
    papers = [(paper, [form for form in claims.recorded_forms(paper) if form.runs]) for paper in catalog.PAPERS.values()]
    yield Page(PUBLISHED_FILE, "Published numbers", "Do the papers' results come out here?", _overview(papers), "Published")
    for paper, forms in papers:
        body = paragraph(claims.sentence(claims.of_paper(paper)), "finding") + _layers(forms) + "".join(map(_form, forms))
        yield Page(_published_file(paper), paper.title, paper.source, body, under=PUBLISHED_FILE)


def _published_file(paper: Paper) -> str:
    return f"published-{paper.name}.html"


def _to_paper(paper: Paper) -> str:
    return f'<a class="touch" href="{_published_file(paper)}">{escape(paper.title)}, claim by claim →</a>'


def paper_list() -> str:
    """The papers: where each can be read, and what came of its claims."""
    lines = (
        f'<li class="card"><h3>{escape(paper.source.partition(", table")[0])}</h3>'
        f"{paragraph(claims.sentence(claims.of_paper(paper)), 'small')}"
        f'<p class="row"><a class="touch" href="{escape(paper.link)}">The paper ↗</a>'
        f"{_to_paper(paper)}</p></li>"
        for paper in catalog.PAPERS.values()
    )
    return f'<ul class="cards">{"".join(lines)}</ul>'


def _overview(papers: Sequence[tuple[Paper, Sequence[claims.Form]]]) -> str:
    every = {paper.title: claims.of_paper(paper) for paper, _ in papers}
    heads = ("paper", "claims", *claims.VERDICTS, "found at 5 %", "contradicted at 5 %")
    rows = []
    for title, of in every.items():
        numbers = (len(of), *claims.counts(of).values(), *claims.discoveries(of).values())
        rows.append((title, *map(str, numbers)))
    found = sum(claims.counts(of)["found"] for of in every.values())
    finding = f"Of {sum(map(len, every.values()))} claims in four papers, {found} are found here."
    note = (
        "A claim is one sentence of a paper at one budget. It is found or contradicted where the 95 % interval of our "
        "paired difference says so, mixed where two forms of the experiment disagree. “At 5 %”: with false discoveries held "
        f"at 5 % within a paper. {report.UNDECIDED} Comparisons of our own are not counted."
    )
    return "".join(
        [
            paragraph(finding, "finding"), paragraph(note, "small"),
            f'<div class="card">{table(heads, rows, "Claims by paper")}</div>',
            _layers([form for _, forms in papers for form in forms]),
            "<h2>Differences, and why</h2>", *(_why(paper, forms) for paper, forms in papers),
        ]
    )  # fmt: skip


def _why(paper: Paper, forms: Sequence[claims.Form]) -> str:
    """A paper's claims in a sentence, every reason why our numbers differ, and the way to its experiments."""
    reasons = dict.fromkeys(reason for form in forms for reason in comparison.reasons(form))
    why = folded("Why our numbers differ", html_list(reasons))
    lead = paragraph(claims.sentence(claims.of_paper(paper)))
    return f'<div class="card"><h3>{escape(paper.title)}</h3>{lead}{why}<p>{_to_paper(paper)}</p></div>'


def _layers(forms: Sequence[claims.Form]) -> str:
    """The three layers, with their runs and decided claims over all these forms."""
    lines = map(report.layer, claims.by_layer(forms))
    items = "".join(f"<li><b>{escape(name)}</b>: {escape(what)}</li>" for name, what in lines)
    return f'<div class="card"><h2>Layer by layer</h2><ul>{items}</ul>{paragraph(report.LAYERS_NOTE, "small")}</div>'


def _form(form: claims.Form) -> str:
    """One experiment in one form: its verdict, its claims, its numbers beside ours, and why they differ."""
    of = form.experiment
    tested = [report.claim(form, one) for one in form.judged]
    rows = comparison.comparison_rows(form.paper, of, form.runs)
    note = paragraph(report.claims_note(form.paper, tested), "small")
    parts = [
        f"<h2>{escape(of.title)}: {escape(FORMS[form.size].partition(':')[0].lower())}</h2>",
        paragraph(claims.sentence(claims.claims([form], are_ours=of.is_ours)), "finding"),
        paragraph(of.question),
        paragraph(_missing(form.specs, form.runs), "small"),
        _picture(form, rows),
        folded("Its claims, tested in our runs", table_of(tested, "Claims") + note) if tested else "",
        *(_published_numbers(form, rows, metric) for metric in of.metrics),
        folded("Why our numbers differ", html_list(comparison.reasons(form))),
    ]
    return f"<section>{''.join(parts)}</section>"


def _picture(form: claims.Form, rows: Sequence[comparison.Row]) -> str:
    """Published numbers and ours of the first quantity, as a figure; nothing where there are neither."""
    metric = form.experiment.metrics[0]
    numbers = report.drawn_numbers([row for row in rows if row.metric == metric])
    if numbers[["published", "ours"]].isna().all(axis=None):
        return ""
    what = comparison.quantity(metric, form.specs.values())
    known = comparison.references_beside(form, metric)
    shown = figure(lambda dark: reproduction.published_and_ours(numbers, what=what, references=known, dark=dark))
    return f'<div class="card">{shown}</div>'


def _published_numbers(form: claims.Form, rows: Sequence[comparison.Row], metric: str) -> str:
    lines, notes = report.number_rows([row for row in rows if row.metric == metric])
    if not lines:
        return ""
    what = comparison.quantity(metric, form.specs.values())
    remarks = "".join(paragraph(f"Note {number}: {remark}", "small") for number, remark in enumerate(notes, start=1))
    return folded(f"{what.capitalize()}, published and ours, %", table_of(lines, what) + remarks)
