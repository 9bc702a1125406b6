"""A figure with its finding, provenance, downloads and link."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.figures import html, large, png, svg
from dpcl_core.figures.picture import Picture, Provenance
from dpcl_core.lessons import glossary
from pages.parts.shell import address, presenter, style
from pages.parts.shell.text import plain

if TYPE_CHECKING:
    import pandas as pd

CONFIG = {"displayModeBar": False, "responsive": True, "scrollZoom": False}


def show(
    picture: Picture, provenance: Provenance | None, *, key: str, title: str = "", note: str = "",
    table: pd.DataFrame | None = None, linked: bool = False, live: bool = False, caption: str = "",
) -> None:  # fmt: skip
    """Draws a card with title, figure, caption, finding and footer, or the reason if there is nothing to draw. The title's
    help mark explains its glossary words.

    `key` must be stable: zoom and live updates depend on it. `table`: the drawn numbers, offered as CSV. `linked`:
    offers the link to this view. `live`: the run is active, so downloads are left out (each update would rebuild them).
    """
    with st.container(key=f"card-{key}", gap="small"):
        if title:
            st.markdown(f"**{title}**" + (f" :small[{note}]" if note else ""), help=glossary.explained(title) or None)
        if picture.figure.data:
            figure = large.enlarged(picture.figure, presenter.FACTOR) if presenter.is_on() else picture.figure
            st.plotly_chart(
                figure, theme=None, width="stretch", key=f"chart-{key}", config=CONFIG, alt=picture.finding
            )
        else:  # text that wraps, as high as the later figure
            height = f"{picture.figure.layout.height or 200:g}px"
            st.html(f'<p class="nothing-yet" style="height: {height}">{escape(picture.finding)}</p>')
        if caption:
            st.caption(caption)
        footer(picture, provenance, key=key, table=table, linked=linked, live=live or not picture.figure.data)


def footer(
    picture: Picture, provenance: Provenance | None, *, key: str, table: pd.DataFrame | None = None,
    linked: bool = False, live: bool = False,
) -> None:  # fmt: skip
    """Draws only the lines below a figure, for figures not drawn by plotly."""
    line = plain(provenance.line()) if provenance is not None else ""
    if picture.figure.data:
        st.markdown(f"**{plain(picture.finding)}**")
    if live:
        st.caption(line)
        return
    with st.container(key=f"strip-{key}", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(line, width="stretch")
        with st.container(key=f"files-{key}", horizontal=True, width="content", gap="small"):
            _files(picture, provenance, key, table, linked)


def _files(
    picture: Picture, provenance: Provenance | None, key: str, table: pd.DataFrame | None, linked: bool
) -> None:
    """Draws the buttons for the numbers, the figure as a file, and the link to this view."""
    if table is not None:
        st.download_button(
            "CSV", lambda: table.to_csv(index=False), f"{key}.csv", "text/csv",
            key=f"csv-{key}", type="tertiary", on_click="ignore", help="The numbers of this figure as a table",
        )  # fmt: skip
    st.download_button(
        "HTML", lambda: html.page(picture, provenance), f"{key}.html", "text/html",
        key=f"html-{key}", type="tertiary", on_click="ignore", help="This figure as a file that opens without the app",
    )  # fmt: skip
    dark = style.is_dark()  # asked now: a download is built outside of the page's run
    source = provenance.line() if provenance is not None else ""
    st.download_button(
        "SVG", lambda: svg.drawn(picture, dark=dark, source=source), f"{key}.svg", "image/svg+xml", key=f"svg-{key}",
        type="tertiary", on_click="ignore", help="This figure as a drawing that stays sharp at every size",
    )  # fmt: skip
    st.download_button(
        "PNG", lambda: png.drawn(picture, dark=dark, source=source), f"{key}.png", "image/png", key=f"png-{key}",
        type="tertiary", on_click="ignore", help="This figure as a picture for documents and slides",
    )  # fmt: skip
    if linked:
        address.offer()
