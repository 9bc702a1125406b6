"""A figure as a page of its own, with its finding and its provenance, that opens without a server or a network."""

from __future__ import annotations

from html import escape

from dpcl_core.figures.picture import Picture, Provenance


def page(picture: Picture, provenance: Provenance | None) -> str:
    """The whole HTML document (about 5 MB: the drawing library is inside)."""
    body = picture.figure.to_html(full_html=False, include_plotlyjs=True)
    source = escape(provenance.line()) if provenance is not None else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(picture.finding)}</title>'
        f'<body style="font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem">'
        f'<div role="img" aria-label="{escape(picture.alt, quote=True)}">{body}</div>'
        f"<p><b>{escape(picture.finding)}</b></p><p>{source}</p></body></html>"
    )
