"""A page of the site: one HTML file that asks nothing of anyone, and the parts that all pages are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from dpcl_core import paths
from dpcl_core.elements import element
from dpcl_core.figures import svg
from dpcl_core.figures.picture import Picture

MARK = "dpcl site"  # in the generator line of every page, by which a folder is known as a site's own
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_NOSCRIPT = "Text and figures work without scripts. To move a slider, allow this page's own script; it sends nothing."
_WIDTHS = {"wide": 760, "narrow": 330}  # pixels: beside other things on a desk, and on a phone of 390
_NUMBER = re.compile(r"[-+−–∞]?[\d.,]*( (±|to) [-+−]?[\d.,]+)?$")


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `file`: its name; `title`: its heading; `question`: what it answers; `body`: HTML below them.

    `menu`: its name in the menu; "" for a page that another one leads to, `under`.
    """

    file: str
    title: str
    question: str
    body: str
    menu: str = ""
    under: str = ""


def written(page: Page, menu: Sequence[Page]) -> str:
    """The whole HTML document. `menu`: the pages in the menu."""
    links = "".join(
        f'<li><a href="{one.file}"{_current(one, page)}>{escape(one.menu)}</a></li>' for one in menu if one.menu
    )
    styles = element.theme() + (paths.assets_dir() / "site" / "site.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
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
<header class="top"><nav aria-label="Pages"><ul>{links}</ul></nav></header>
<main id="main">
<h1>{escape(page.title)}</h1>
<p class="question">{escape(page.question)}</p>
<noscript><p class="small">{_NOSCRIPT}</p></noscript>
{page.body}
</main>
</body>
</html>
"""


def contents(pages: Sequence[Page]) -> str:
    """Links to all pages that the menu lacks, in one fold: below each page of the menu those that are under it."""
    lists = []
    for one in pages:
        below = [each for each in pages if each.under == one.file]
        links = "".join(f'<li><a class="touch" href="{each.file}">{escape(each.title)}</a></li>' for each in (one, *below))
        lists += [f'<h2>{escape(one.menu)}</h2><ul class="row">{links}</ul>'] if below else []
    return f'<nav aria-label="Contents">{folded("All pages", "".join(lists))}</nav>'


def _current(one: Page, page: Page) -> str:
    return ' aria-current="page"' if one.file == page.file else ' aria-current="true"' if one.file == page.under else ""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text; nothing without text. `kind`: a class of the style sheet."""
    return f"<p{_class(kind)}>{escape(text)}</p>" if text else ""


def listed(texts: Iterable[str]) -> str:
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
    body = "".join(f"<tr>{_cells(line, kinds)}</tr>" for line in lines)
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
        for kind, width in _WIDTHS.items():
            inside = svg.drawn(picture, width=width, dark=theme == "dark")
            drawn.append(f'<div class="drawn {theme} {kind}">{inside}</div>')
    return f"<figure>{''.join(drawn)}</figure>"


def _cells(line: Sequence[str], kinds: Sequence[str]) -> str:
    first, *others = (escape(cell) for cell in line)
    cells = (f"<td{kind}>{cell}</td>" for cell, kind in zip(others, kinds[1:], strict=True))
    return f'<th scope="row">{first}</th>{"".join(cells)}'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
