"""A figure with its finding, provenance, downloads and link."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dpcl_core.elements.element import PICTURE
from dpcl_core.figures import html, large, png, svg
from dpcl_core.figures.picture import Picture, Provenance
from dpcl_core.lessons import glossary
from pages.parts.shell import address, layout, presenter, style
from pages.parts.shell.mount import mounted, written
from pages.parts.shell.text import plain

if TYPE_CHECKING:
    import pandas as pd

_SAVE = "The numbers as a table, the figure as a file, the link to this view"
_WIDTHS = "widths-of-pictures"
_USUAL, _NARROWEST, _WIDEST = 720, 200, 4000  # pixels
CONFIG = {"displayModeBar": False, "responsive": True, "scrollZoom": False}


def show(
    picture: Picture, provenance: Provenance | None, *, key: str, title: str = "", note: str = "",
    table: pd.DataFrame | None = None, linked: bool = False, live: bool = False, caption: str = "", moved: bool = False,
) -> None:  # fmt: skip
    """Draws a card with title, figure, caption, finding and footer, or the reason if there is nothing to draw. The title's
    help mark explains its glossary words.

    `key` must be stable: zoom and live updates depend on it. `table`: the drawn numbers, offered as CSV. `linked`:
    offers the link to this view. `live`: the run is active, so downloads are left out (each update would rebuild them).
    `moved`: a slider changes the figure, so it is drawn as SVG, at once.
    """
    with st.container(key=f"card-{key}", gap="small"):
        if title:
            st.markdown(f"**{title}**" + (f" :small[{note}]" if note else ""), help=glossary.explained(title) or None)
        if not picture.is_empty:
            if moved:
                drawing(picture, key)
            else:
                _chart(picture=picture, key=key, is_large=presenter.is_on())
            layout.await_paint()
        else:  # text that wraps, as high as the later figure
            height = f"{picture.parts.layout.get('height', 200):g}px"
            st.html(f'<p class="nothing-yet" style="height: {height}">{escape(picture.finding)}</p>')
        if caption:
            st.caption(caption)
        footer(picture, provenance, key=key, table=table, linked=linked, live=live or picture.is_empty)


# The message is kept for all visitors, as the figure is: writing it takes as long as the rest of a card. A picture is known
# by its identity, and returned, so that it stays alive as long as its message: no other one can get the same identity.
@st.cache_resource(max_entries=200, show_spinner=False, hash_funcs={Picture: id})
def _chart(picture: Picture, key: str, *, is_large: bool) -> Picture:
    figure = large.enlarged(picture.figure, presenter.FACTOR) if is_large else picture.figure
    st.plotly_chart(figure, theme=None, width="stretch", key=f"chart-{key}", config=CONFIG, alt=picture.finding)
    return picture


def drawing(picture: Picture, key: str) -> None:
    """Draws a figure as SVG, as wide as the browser has said that its place is; by Plotly where the element cannot load."""
    name = f"chart-{key}"
    widths: dict[str, int] = st.session_state.setdefault(_WIDTHS, {})

    def fit() -> None:
        width = st.session_state[name].get("width")
        if isinstance(width, int) and _NARROWEST <= width <= _WIDEST:
            widths[name] = width

    place = widths.get(name, _USUAL)
    data = _drawing(picture=picture, place=place, is_large=presenter.is_on(), dark=style.is_dark())[1]
    try:
        mounted(PICTURE)(key=name, data=data, on_width_change=fit)
    except (OSError, StreamlitAPIException):
        _chart(picture=picture, key=key, is_large=presenter.is_on())


@st.cache_resource(max_entries=100, show_spinner=False, hash_funcs={Picture: id})
def _drawing(picture: Picture, place: int, *, is_large: bool, dark: bool) -> tuple[Picture, bytes]:
    factor = presenter.FACTOR if is_large else 1.0
    return picture, written(svg.in_page(picture, place=place, factor=factor, dark=dark))


def footer(
    picture: Picture, provenance: Provenance | None, *, key: str, table: pd.DataFrame | None = None,
    linked: bool = False, live: bool = False,
) -> None:  # fmt: skip
    """Draws only the lines below a figure, for figures not drawn by plotly."""
    finding = "" if picture.is_empty else f"**{plain(picture.finding)}**"
    line = "" if provenance is None else f":small[{plain(provenance.line())}]"
    if said := "\n\n".join(filter(None, (finding, line))):
        st.markdown(said)
    if live:
        return
    files = layout.popover("Save", f"save-{key}", type="tertiary", help=_SAVE)
    if files is not None:
        with files:
            _files(picture, provenance, key, table, linked)


def _files(picture: Picture, provenance: Provenance | None, key: str, table: pd.DataFrame | None, linked: bool) -> None:
    """Draws what can be saved, only when it is asked for: a page with many figures would send six pieces for each."""
    dark = style.is_dark()  # asked now: a download is built outside of the page's run
    source = provenance.line() if provenance is not None else ""
    with st.container(key=f"files-{key}", horizontal=True, gap="small"):
        if table is not None:
            _file("Numbers (CSV)", partial(table.to_csv, index=False), f"{key}.csv", "text/csv", "A table")
        _file("Page (HTML)", partial(html.page, picture, provenance), f"{key}.html", "text/html", "Opens without the app")
        drawn = partial(svg.drawn, picture, dark=dark, source=source)
        _file("Drawing (SVG)", drawn, f"{key}.svg", "image/svg+xml", "Stays sharp at every size")
        painted = partial(png.drawn, picture, dark=dark, source=source)
        _file("Picture (PNG)", painted, f"{key}.png", "image/png", "For documents and slides")
    if linked:
        st.markdown("This link opens exactly this view:")
        address.draw()


def _file(label: str, make: Callable[[], str | bytes], name: str, mime: str, help_text: str) -> None:
    st.download_button(label, make, name, mime, key=f"file-{name}", type="tertiary", on_click="ignore", help=help_text)
