"""Figures as standalone pages with findings and provenance, which open without a server or network."""

from collections.abc import Mapping, Sequence
from html import escape

from dpcl_core.figures import svg
from dpcl_core.figures.picture import Picture, Provenance

_HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
_STYLE = (
    '<meta name="viewport" content="width=device-width"><style>pre{white-space:pre-wrap;overflow-wrap:anywhere;'
    "padding:1rem;background:#f4f4f4}figure{margin:2rem 0}summary{padding:1rem 0}</style>"
)
_BODY = '<body style="font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem">'


def page(picture: Picture, provenance: Provenance | None) -> str:
    """The whole HTML document of an interactive figure (about 5 MB, including the drawing library)."""
    source = escape(provenance.line()) if provenance is not None else ""
    head = _HEAD.format(title=escape(picture.finding))
    drawn = picture.figure.to_html(full_html=False, include_plotlyjs=True)
    body = f'<div role="img" aria-label="{escape(picture.finding, quote=True)}">{drawn}</div>{_finding(picture)}'
    return f"{head}{_BODY}{body}<p>{source}</p></body></html>"


def report(
    title: str, question: str, said: Sequence[str], pictures: Sequence[Picture], source: str, parts: Mapping[str, str]
) -> str:
    """A page of several figures, drawn as SVG, and of plain text: it needs no other file.

    `said`: sentences above the figures, which follow from results, as the figures do. `parts`: texts below the figures by
    heading. Empty ones are left out.
    """
    found = "".join(f"<p><b>{escape(one)}</b></p>" for one in said if one)
    figures = ((svg.draw_svg(picture), _finding(picture)) for picture in pictures)
    drawn = "".join(f"<figure>{figure}<figcaption>{finding}</figcaption></figure>" for figure, finding in figures)
    below = "".join(f"<h2>{escape(name)}</h2>{_text(text)}" for name, text in parts.items() if text)
    head = f"{_HEAD.format(title=escape(title))}{_STYLE}{_BODY}<h1>{escape(title)}</h1><p>{escape(question)}</p>"
    return f"{head}<section>{found}{drawn}</section><p>{escape(source)}</p>{below}</body></html>"


def cell(title: str, picture: Picture | None, said: Sequence[str], source: str) -> str:
    """What a notebook shows of a result, at most 60 kB. Without room for the drawing its finding remains."""
    below = "".join(f"<p>{escape(one)}</p>" for one in said[:8])
    head = f"<p><b>{escape(title)}</b></p>" if title else ""
    shown = "" if picture is None else picture._repr_html_()
    return f"<div>{head}{shown}{below}<p><small>{escape(source)}</small></p></div>"


def _text(text: str) -> str:
    """A text as it is written; one of more than 6,000 characters folds."""
    body = f"<pre>{escape(text)}</pre>"
    if len(text) <= 6000:
        return body
    return f"<details><summary>Show all {len(text.splitlines()):,} lines</summary>{body}</details>"


def _finding(picture: Picture) -> str:
    return f"<p><b>{escape(picture.finding)}</b></p>"
