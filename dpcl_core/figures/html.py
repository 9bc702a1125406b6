"""Figures as standalone pages with findings and provenance, which open without a server or network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dpcl_core.figures import svg
from dpcl_core.figures.picture import Picture, Provenance

_HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
_BODY = '<body style="font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem">'


def page(picture: Picture, provenance: Provenance | None) -> str:
    """The whole HTML document of an interactive figure (about 5 MB, including the drawing library)."""
    source = escape(provenance.line()) if provenance is not None else ""
    head = _HEAD.format(title=escape(picture.finding))
    drawn = picture.figure.to_html(full_html=False, include_plotlyjs=True)
    body = f'<div role="img" aria-label="{escape(picture.finding, quote=True)}">{drawn}</div>{_finding(picture)}'
    return f"{head}{_BODY}{body}<p>{source}</p></body></html>"


def report(title: str, pictures: Sequence[Picture], provenance: Provenance, statement: str, said: Sequence[str] = ()) -> str:
    """A page of several figures, drawn as SVG, and a plain-text privacy statement.

    `said`: sentences above the figures; empty ones are left out.
    """
    drawn = "".join(f"{svg.drawn(picture)}{_finding(picture)}" for picture in pictures)
    protection = f'<pre style="white-space:pre-wrap">{escape(statement)}</pre>'
    head = f"{_HEAD.format(title=escape(title))}{_BODY}<h1>{escape(title)}</h1><p>{escape(provenance.line())}</p>"
    above = "".join(f"<p><b>{escape(one)}</b></p>" for one in said if one)
    return f"{head}{above}{drawn}<h2>What is protected</h2>{protection}</body></html>"


def _finding(picture: Picture) -> str:
    return f"<p><b>{escape(picture.finding)}</b></p>"
