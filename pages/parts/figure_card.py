"""A figure with its finding, provenance, downloads and link."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from html import escape
from typing import Any, ParamSpec, cast

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dpcl_core.backbones import catalog
from dpcl_core.elements.calculator import Source
from dpcl_core.elements.element import DRAG, PICTURE, Element, drag_document
from dpcl_core.figures.picture import Picture, Provenance, epsilon_text
from dpcl_core.later import pd
from dpcl_core.lessons import text as course
from pages.parts import layout, link, served, text
from pages.parts.text import plain

# Elements drawn in the browser, mounted on a page.


@cache
def mounted(element: Element) -> Callable[..., Any]:
    """The element as a component: a call draws it and returns what it reports.

    A call takes `key`, `data` (a document, or one that `written` has made bytes of), and the component's other arguments.
    """
    component = st.components.v2.component(
        element.folder, html=element.html, css=element.css, js=element.module_of_bytes, isolate_styles=element.is_isolated
    )

    def draw(*, key: str, data: bytes | Mapping[str, object], **how: Any) -> Any:
        return component(key=key, data=data if isinstance(data, bytes) else json_bytes(data), **how)

    return draw


def json_bytes(document: Mapping[str, object], **public: bytes) -> bytes:
    """A document that is not empty as bytes of JSON, with `public`, JSON that everybody may read, as further entries.

    These go as the addresses of files, which a browser loads once; where files cannot be kept, they go as they are. Given
    the document itself, Streamlit would write it twice each time that a page is drawn.
    """
    files = {}
    for name, part in public.items():
        with suppress(OSError):
            files[name] = served.address(f"{name}.json", part)
    text = _json({**document, "files": files} if files else document)
    inside = (f',"{name}":'.encode() + part for name, part in public.items() if name not in files)
    return b"".join([text[:-1], *inside, b"}"])


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@lru_cache(maxsize=32)
def written_once(make: Callable[..., Mapping[str, object]], *of: object) -> bytes:
    """The document that a function makes of these arguments, as bytes of JSON, kept for all visitors."""
    return json_bytes(make(*of))


_SAVE = "The numbers as a table, the figure as a file, where they come from, the link to this view"
_USUAL, _NARROWEST, _WIDEST = 720, 200, 4000  # pixels
_MOST_MARKS = 4000  # points and cells of an SVG, each an element of the page
_CONFIG = {"displayModeBar": False, "responsive": True, "scrollZoom": False}


def show(
    picture: Picture, provenance: Provenance | None, *, key: str, title: str = "", note: str = "",
    table: pd.DataFrame | None = None, linked: bool = False, live: bool = False, caption: str = "", by_plotly: bool = False,
) -> None:  # fmt: skip
    """Draws a card with title, figure, caption, finding and footer, or the reason if there is nothing to draw. The title's
    help mark explains its glossary words.

    `key` must be stable: a figure is updated by it. `table`: the drawn numbers, offered as CSV. `linked`:
    offers the link to this view. `live`: the run is active, so downloads are left out (each update would rebuild them).
    `by_plotly`: not as SVG, because the browser is said to draw no elements.
    """
    with st.container(key=f"card-{key}", gap="small"):
        if title:
            st.markdown(f"**{title}**" + (f" :small[{note}]" if note else ""), help=course.explained(title) or None)
        if not picture.is_empty:
            drawing(picture, key, by_plotly=by_plotly)
            layout.await_paint()
        else:  # text that wraps, as high as the later figure
            height = f"{picture.layout.get('height', 200):g}px"
            st.html(f'<p class="nothing-yet" style="height: {height}">{escape(picture.finding)}</p>')
        if caption:
            st.caption(caption)
        footer(picture, provenance, key=key, table=table, linked=linked, live=live or picture.is_empty)


# The message is kept for all visitors, as the figure is: writing it takes as long as the rest of a card. A picture is known
# by its identity, and returned, so that it stays alive as long as its message: no other one can get the same identity.
@st.cache_resource(max_entries=200, show_spinner=False, hash_funcs={Picture: id})
def _chart(picture: Picture, key: str, *, is_large: bool) -> Picture:
    from dpcl_core.figures import theme

    figure = theme.enlarged(picture.figure, layout.FACTOR) if is_large else picture.figure
    st.plotly_chart(figure, theme=None, width="stretch", key=f"chart-{key}", config=_CONFIG, alt=picture.finding)
    return picture


def drawing(picture: Picture, key: str, *, by_plotly: bool = False) -> None:
    """Draws a figure as SVG, as wide as the browser has said that its place is.

    By Plotly where that is asked for or it has too many marks, and where the element cannot load.
    """
    import numpy as np

    if by_plotly or sum(np.size(trace["z" if "z" in trace else "y"]) for trace in picture.traces) > _MOST_MARKS:
        _chart(picture=picture, key=key, is_large=layout.is_on())
        return
    name = f"chart-{key}"
    widths: dict[str, int] = st.session_state.setdefault("widths-of-pictures", {})

    def fit() -> None:
        width = st.session_state[name].get("width")
        if isinstance(width, int) and _NARROWEST <= width <= _WIDEST:
            widths[name] = width

    data = _drawing(picture=picture, place=widths.get(name, _USUAL), is_large=layout.is_on(), dark=text.is_dark())[1]
    # Its height is given, so that what stands below it does not move when it comes.
    height = round(picture.layout["height"] * (layout.FACTOR if layout.is_on() else 1))
    try:
        mounted(PICTURE)(key=name, data=data, height=height, on_width_change=fit)
    except (OSError, StreamlitAPIException):
        _chart(picture=picture, key=key, is_large=layout.is_on())


@st.cache_resource(max_entries=100, show_spinner=False, hash_funcs={Picture: id})
def _drawing(picture: Picture, place: int, *, is_large: bool, dark: bool) -> tuple[Picture, bytes]:
    from dpcl_core.figures import svg  # needs NumPy, which no page loads before its first figure

    return picture, json_bytes(svg.in_page(picture, place=place, factor=layout.FACTOR if is_large else 1.0, dark=dark))


def footer(
    picture: Picture, provenance: Provenance | None, *, key: str, table: pd.DataFrame | None = None,
    linked: bool = False, live: bool = False,
) -> None:  # fmt: skip
    """Draws only the lines below a figure, for those that an element of their own draws."""
    finding = "" if picture.is_empty else f"**{plain(picture.finding)}**"
    caution = "" if provenance is None else plain(provenance.cautions())
    if said := "\n\n".join(filter(None, (finding, caution and f":small[{caution}]"))):
        st.markdown(said)
    if not live and (files := layout.popover("Save", f"save-{key}", type="tertiary", help=_SAVE)) is not None:
        with files:
            from dpcl_core.figures import html, svg

            file = partial(layout.download, type="tertiary")
            dark = text.is_dark()  # asked now: a download is built outside of the page's run
            source = provenance.line() if provenance is not None else ""
            with st.container(key=f"files-{key}", horizontal=True, gap="small"):
                if table is not None:
                    file("Numbers (CSV)", partial(table.to_csv, index=False), f"{key}.csv", "A table")
                file("Page (HTML)", partial(html.page, picture, provenance), f"{key}.html", "Opens without the app")
                drawn = partial(svg.draw_svg, picture, dark=dark, source=source)
                file("Drawing (SVG)", drawn, f"{key}.svg", "Stays sharp at every size")
                painted = partial(svg.draw_png, picture, dark=dark, source=source)
                file("Picture (PNG)", painted, f"{key}.png", "For documents and slides")
            st.caption(plain(source))
            if linked:
                st.markdown("This link opens exactly this view:")
                link.draw()


# The ε-drag: a browser element that redraws while ε is dragged and sends its value to the server when released.
#
# It gets its data once (`elements.element.drag_document`). If it cannot load, a plain slider replaces it.


def drag(source: Source, start: float, *, key: str, panels: Sequence[str], is_plain: bool = False) -> float:
    """Draws the element and returns the budget at which it was released. `start`: the initial budget.

    `panels`: from accuracy, matrix, classes. `is_plain`, or an element that cannot load, gives a select slider instead.
    """
    start = source.nearest(start)
    if not is_plain:
        with suppress(OSError, StreamlitAPIException):
            public = {"arms": _arms()} if source.is_exact and source.labels == "prior-const" else {}
            document = json_bytes(drag_document(source, start, panels), **public)
            reported = mounted(DRAG)(key=key, data=document, on_epsilon_change=lambda: None)
            with suppress(ValueError):  # what this source cannot show counts as the start
                if (value := float(str(reported.get("epsilon")))) > 0 and source.nearest(value) == value:
                    return value
            return start
    start = min(start, max(source.stops))
    nearest = start if start in source.stops else min(source.stops, key=lambda stop: abs(math.log(stop / start)))
    value = st.select_slider(
        "Privacy budget ε", source.stops, nearest, format_func=epsilon_text, key=f"{key}-plain",
        help="From stronger privacy (left) to higher accuracy (right).",
    )  # fmt: skip
    st.markdown(f"**{source.sentence(value)}**")
    st.caption(source.odds(value))
    return float(value)


@cache
def _arms() -> bytes:
    from dpcl_core.explorers import cosine_replay

    return _json(cosine_replay.arms_document())


# Pictures that are kept for all visitors: to tell tables apart takes a fraction of the time of building a figure.


P = ParamSpec("P")


def built(build: Callable[P, Picture], *of: P.args, **how: P.kwargs) -> Picture:
    """The picture that `build` makes in this theme; for tables and options of equal content, the one that it made before."""
    return _kept(build)(*of, **how, dark=text.is_dark())


@cache
def _kept(build: Callable[..., Picture]) -> Callable[..., Picture]:
    return st.cache_resource(max_entries=100, show_spinner=False, hash_funcs={pd.DataFrame: content})(build)


def content(table: pd.DataFrame) -> bytes:
    """A digest of a table's column names, types and values in order; its row names do not count.

    Streamlit's own takes four times as long for the small tables of a page, and looks at a part of long ones only.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, column in table.items():
        values = column.to_numpy()
        digest.update(f"{name!r} {values.dtype} {len(values)}:".encode())
        digest.update(values.tobytes() if values.dtype.kind in "biuf" else repr(values.tolist()).encode())
    return digest.digest()


# Parts of a page that no visitor changes: the messages that drew them once are kept, and sent again to everybody.


def still(draw: Callable[P, None]) -> Callable[P, None]:
    """Makes the drawing of a part send, for arguments that it had before, what it sent then. No widget may be in it.

    What it shows must follow from its arguments alone, never from the session or the theme. An argument whose name starts
    with an underscore must follow from the others; it is not compared.
    """
    return cast("Callable[P, None]", st.cache_resource(max_entries=100, show_spinner=False)(draw))


# What is kept on this computer to save time, with buttons that delete it: on About or Administration.


def draw() -> None:
    """Draws what is kept, with a button for each kind. Never for visitors: sizes depend on the texts of others' runs."""
    st.header("Kept on this computer", anchor=False)
    st.caption("To save time. What is deleted here is fetched or computed again when a run needs it; runs stay.")
    for kept in catalog.backbones_by_kind():
        words, button = st.columns([4, 1], vertical_alignment="center")
        words.markdown(f"**{plain(kept.title)}** {kept.size / 1e6:,.1f} MB")
        if button.button(f"Delete {kept.name}", key=f"clean-{kept.name}", disabled=not kept.size):
            kept.clean()
            st.rerun()
