"""The address bar: the parameters of the visited page's view, beside them the presenter's size, and links to the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.parts.shell import link
from pages.parts.shell.link import LARGE

_LINKS = "links-to-this-view"


@dataclass
class _Links:
    """The links on a page to its own view: a page knows its view only when all of its controls are drawn."""

    view: dict[str, str] | None = None
    places: list[DeltaGenerator] = field(default_factory=list)


def parameters() -> dict[str, str]:
    """The parameters of the page's own view."""
    return {key: text for key, text in link.without_trackers(st.query_params.to_dict()).items() if key != LARGE}


def put(view: Mapping[str, str]) -> None:
    """Writes a view to the address bar and leaves the presenter's size as it is there."""
    size = {LARGE: st.query_params[LARGE]} if LARGE in st.query_params else {}
    st.query_params.from_dict({**view, **size})


def begin() -> None:
    """Starts a page: its view is not known yet."""
    st.session_state[_LINKS] = _Links()


def settle() -> None:
    """Writes all links that the page has drawn so far: the address bar has its view now."""
    links = _links()
    links.view = link.without_trackers(st.query_params.to_dict())
    for place in links.places:
        _write(place, links.view)


def offer() -> None:
    """Draws the button that shows the link to this view."""
    with st.popover("link", type="tertiary"):
        draw()


def draw() -> None:
    """Draws the link to this view, at once or as soon as the page knows its view."""
    links, place = _links(), st.empty()
    if links.view is None:
        links.places.append(place)
    else:
        _write(place, links.view)


def _links() -> _Links:
    links: _Links = st.session_state.setdefault(_LINKS, _Links())
    return links


def _write(place: DeltaGenerator, view: Mapping[str, str]) -> None:
    place.code(link.address(st.context.url or "", view), language=None, wrap_lines=True)
