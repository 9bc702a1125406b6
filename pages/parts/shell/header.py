"""The header of every page: its title, its question, and the link to this view."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.shell import address, layout, login, presenter, terms
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

INSIDE = "inside-the-app"  # app.py sets this for the page that it runs
_SEEN: Final = "has-seen-a-heading"
_FIRST_LOOK_SECONDS: Final = 0.2


def header(
    title: str, question: str, *, is_shared: bool = False, help_text: str = "", notices: Sequence[str] = ()
) -> None:
    """Draws title, question, Share and Help, and below them one notice for each part of the link that was not used.

    `is_shared`: the page has a view, whose link can be shared.
    """
    actions(heading(title, question, notices=notices), is_shared=is_shared, help_text=help_text)


def heading(title: str, question: str, *, notices: Sequence[str] = ()) -> DeltaGenerator:
    """Draws title, question and notices; returns the container for `actions`, filled later when the view is known."""
    _inside_the_app()
    terms.begin()
    with st.container(key="page-head", gap="small"):
        st.title(title, anchor=False)
        terms.markdown(question)
        place = st.container(key="page-actions", horizontal=True, horizontal_alignment="right", width="content", gap="small")
    _wait_until_it_is_seen()
    for notice in notices:
        st.warning(plain(notice))
    return place


def actions(place: DeltaGenerator, *, is_shared: bool = False, help_text: str = "", view: View | None = None) -> None:
    """Draws the header's buttons: undo and redo if there is a view, the link to this view, help and the presenter's size."""
    with place:
        if view is not None:
            st.button("Undo", key="undo", on_click=view.undo, disabled=not view.can_undo, shortcut="alt+z")
            st.button("Redo", key="redo", on_click=view.redo, disabled=not view.can_redo, shortcut="alt+y")
        if is_shared:
            # Drawn when it is opened: by then a part of the page may have changed the view by itself.
            share = layout.popover("Share", "share", help="A link to exactly this view")
            if share is not None:
                with share:
                    st.markdown("This link opens exactly this view:")
                    address.draw()
        box = layout.popover("Help", "help")
        if box is not None:
            with box:
                st.markdown(help_text)
                presenter.switch()
                login.out()


def _wait_until_it_is_seen() -> None:
    """Gives a browser time to draw the heading of its first page: it draws all that it has received at once, which is slow.

    Start has no pause: there a visitor waits for the picture.
    """
    is_first = _SEEN not in st.session_state
    st.session_state[_SEEN] = True
    if is_first and st.session_state.get("page") and st.context.headers:  # a test without a browser has no headers
        time.sleep(_FIRST_LOOK_SECONDS)


def _inside_the_app() -> None:
    """Reruns through app.py if Streamlit ran the page's file directly.

    Because the folder is called `pages`, Streamlit does this when the first request to a fresh server is a link to a page;
    after the first `st.navigation` of app.py it does not happen again. A test may run a page file by itself.
    """
    context = get_script_run_ctx()
    through_app = st.session_state.pop(INSIDE, False)
    if not through_app and context is not None and context.main_script_path.endswith("app.py"):
        PagesManager.uses_pages_directory = False
        st.rerun()
