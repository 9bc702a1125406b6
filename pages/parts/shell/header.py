"""The head of every page: its name, the question it answers, and the link to exactly this view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.shell import link
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

INSIDE = "inside-the-app"  # app.py leaves this mark for the page that it runs


def header(
    title: str,
    question: str,
    *,
    share: Mapping[str, str] | None = None,
    help_text: str = "",
    notices: Sequence[str] = (),
) -> None:
    """Title, question, Share and Help; below them one line for each thing a link asked for and did not get.

    `share`: the view's query parameters as its codec wrote them (None: nothing to share).
    """
    actions(heading(title, question, notices=notices), share=share, help_text=help_text)


def heading(title: str, question: str, *, notices: Sequence[str] = ()) -> DeltaGenerator:
    """Title, question and notices at once; gives the place for `actions`, which a page fills when it knows its view."""
    _inside_the_app()
    with st.container(key="page-head", horizontal=True, vertical_alignment="bottom", gap="small"):
        with st.container(key="page-title", gap=None):
            st.title(title, anchor=False)
            st.markdown(question)
        place = st.container(key="page-actions", horizontal=True, horizontal_alignment="right", width="content", gap="small")
    for notice in notices:
        st.warning(plain(notice))
    return place


def actions(
    place: DeltaGenerator, *, share: Mapping[str, str] | None = None, help_text: str = "", view: View | None = None
) -> None:
    """The buttons of the head: undo and redo where there is a view, the link to exactly this view, help."""
    with place:
        if view is not None:
            st.button("Undo", key="undo", on_click=view.undo, disabled=not view.can_undo, shortcut="alt+z")
            st.button("Redo", key="redo", on_click=view.redo, disabled=not view.can_redo, shortcut="alt+y")
        if share is not None:
            with st.popover("Share", help="A link to exactly this view"):
                st.markdown("This link opens exactly this view:")
                st.code(link.address(st.context.url or "", share), language=None, wrap_lines=True)
        if help_text:
            with st.popover("Help"):
                st.markdown(help_text)


def _inside_the_app() -> None:
    """Starts over through app.py where streamlit ran the page's file on its own.

    It does so, because of the folder's name `pages`, when a link to a page is the first thing that a fresh server is asked
    for; after app.py has called `st.navigation` once it never does again. A test may run a page file by itself.
    """
    context = get_script_run_ctx()
    through_app = st.session_state.pop(INSIDE, False)
    if not through_app and context is not None and context.main_script_path.endswith("app.py"):
        PagesManager.uses_pages_directory = False
        st.rerun()
