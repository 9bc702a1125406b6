"""The layout of a page: two columns, cards, views and tables."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dpcl_core import paths
from dpcl_core.lessons import text as course
from pages.parts import fields, link, served, state, visitor
from pages.parts.text import plain

_IS_FIRST: Final = "picture-is-first"  # session key: whether a part is drawn by itself and has drawn no picture yet
_TAG: Final = re.compile(r"(?<!\\)<")
IN_BROWSER: Final = "Open in your browser"
_IN_BROWSER: Final = "The same engine, as a plain page: it trains in the browser, without a server, and rows never leave it."


def controls_and_answer() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two containers: controls (320 px, a card) and answer (the rest).

    From 700 to 1,099 px the controls are in two columns above the answer; below 700 px, and on Lessons, they follow the
    answer. At most one pair per page.
    """
    split = st.container(key="split", horizontal=True, gap="medium")
    return split.container(key="controls", width=320, gap="small"), split.container(key="answer", gap="small")


def link_to_controls(controls: DeltaGenerator, answer: DeltaGenerator, label: str) -> None:
    """Draws a link from the top of the answer to the controls, where a narrow screen has them far below it."""
    controls.container(key="controls-place").html('<span id="to-controls"></span>')
    answer.container(key="controls-link").markdown(f"[{label}](#to-controls)")


def card(key: str, title: str = "") -> DeltaGenerator:
    """A container with a thin border and a white background, for a figure or a form, under its title if any (Markdown)."""
    place = st.container(key=f"card-{key}", gap="small")
    if title:
        place.markdown(title)
    return place


def folded(title: str, key: str, *, is_open: bool = False) -> DeltaGenerator | None:
    """An expander for what few visitors need; None until it is opened, since every element costs the server time.

    From then on it is drawn even while closed: a field that is left out forgets its value.
    """
    box = st.expander(title, expanded=is_open, key=key, on_change="rerun")
    was_open = f"{key}-was-open"
    if box.open:
        st.session_state[was_open] = True
    return box if was_open in st.session_state else None


def popover(label: str, key: str, **looks: Any) -> DeltaGenerator | None:
    """A popover for what few visitors need; None while it is closed, since every element costs the server time.

    `looks`: what else `st.popover` takes.
    """
    box = st.popover(label, key=key, on_change="rerun", **looks)
    return box if box.open else None


def views(draw: Mapping[str, Callable[[], object]], key: str, default: str | None = None) -> None:
    """Draws one of several views by title, under the choice of it. `default`: the one open at first, else the first.

    Not `st.tabs`: while a page is drawn again, those lose the keyboard's focus or return to the tab before the last.
    """
    opened = fields.buttons("View", list(draw), default, str, key=key, label_visibility="collapsed")
    draw[opened]()


def draw_apart(draw: Callable[[], None], settle: Callable[[], None], *, every: float | None = None) -> None:
    """Draws a part of a page. A press or a move inside it draws the part again, without the page around it.

    `settle` then does what the rest of the page needs: it writes the address, or draws the page again. `every`: seconds
    after which the part is drawn again by itself.
    """

    def part() -> None:
        is_by_itself = is_alone()
        st.session_state[_IS_FIRST] = is_by_itself
        if is_by_itself:
            link.begin()
        draw()
        if is_by_itself:
            settle()

    st.fragment(state.guarded(part), run_every=every)()


def is_alone() -> bool:
    """Whether a part of a page is drawn by itself, without the page around it."""
    context = get_script_run_ctx()
    return context is not None and bool(context.fragment_ids_this_run)


def await_paint() -> None:
    """Lets the browser draw the first picture of a part that is drawn by itself, before the rest of it comes.

    A browser draws at once all that it has received. What a slider moves need not wait for the figures below it.
    """
    if st.session_state.pop(_IS_FIRST, False):
        time.sleep(0.1)


def download(label: str, make: Callable[[], str | bytes], name: str, help_text: str | None = None, **looks: Any) -> None:
    """Draws a button that saves a file of this name, which `make` makes when it is pressed.

    `looks`: what else `st.download_button` takes.
    """
    mime = guess_type(name)[0] or "text/plain"
    st.download_button(label, make, name, mime, key=f"file-{name}", on_click="ignore", help=help_text, **looks)


def arrow(page: str, label: str, query: Mapping[str, str] | None = None) -> None:
    """Draws a link to a page, with an arrow behind its label."""
    st.page_link(f"pages/{page}.py", label=f":primary[{label} →]", query_params=query)


def way_here(fragment: str = "") -> None:
    """Draws the way to the page that trains in a browser, with the settings of `fragment` ("#run=…"), or how to get it."""
    if served.here() is not None:
        st.link_button(IN_BROWSER, f"./{served.HERE}/{served.HERE_PAGE}{fragment}", help=_IN_BROWSER)
    elif not visitor.is_shared() and (box := popover(IN_BROWSER, "here", type="tertiary")) is not None:
        with box:
            st.caption(_IN_BROWSER)
            place = paths.shared_dirs("live")[1]
            where = f"~/{place.relative_to(Path.home())}" if place.is_relative_to(Path.home()) else str(place)
            st.code(f"dpcl fetch pyodide\ndpcl site --live --to {where}", language=None)
            st.caption("Then start the app again. Any static host can hand out that folder, too.")


def draw_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1, title: str = "") -> None:
    """Draws a table, under its title if any: the first `names` columns are words, the others right-aligned numbers.

    Cells are Markdown without tags. On a narrow screen the table scrolls by itself, so it can take the focus.
    """
    rule = ["---"] * names + ["---:"] * (len(heads) - names)
    lines = "".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in (heads, rule, *rows))
    lines = _TAG.sub(r"\\<", lines)
    name = escape(title or f"Table: {', '.join(filter(None, heads))}").replace("*", "")
    frame = f'<div class="table" role="group" tabindex="0" aria-label="{name}">\n\n{lines}\n</div>'
    st.markdown(f"**{title}**\n\n{frame}" if title else frame, unsafe_allow_html=True)


# Texts whose words of the glossary are explained on hover and on keyboard focus, each where a page first uses it.


_SEEN = "explained-words"  # session key: words that the page has explained in this run
_KEPT = re.compile(r"`[^`]*`|\$[^$]*\$|!?\[[^\]]*\]\([^)]*\)|<[^>]*>")  # code, formulas, links, tags


def markdown(text: str) -> None:
    """Draws the project's own Markdown with its words explained. Never for text of a visitor: tags in it are drawn."""
    text = marked(text, st.session_state.setdefault(_SEEN, set()))
    st.markdown(text, unsafe_allow_html="<" in text)  # for which a browser must load a parser


def marked(text: str, seen: set[course.Word]) -> str:
    """The Markdown with tags around the first use of every word that is not in `seen`; grows `seen`."""
    places = [0, *(place for kept in _KEPT.finditer(text) for place in kept.span()), len(text)]
    parts = [text[start:end] for start, end in pairwise(places)]  # every second one stays as it is
    return "".join(part if place % 2 else _prose(part, seen) for place, part in enumerate(parts))


def _prose(text: str, seen: set[course.Word]) -> str:
    said, done = "", 0
    for start, end, word in course.first_uses(text, seen):
        meaning = escape(f"{word.word}: {word.meaning}")
        said += f'{text[done:start]}<span class="term" role="term" tabindex="0" aria-description="{meaning}">'
        said, done = f"{said}{text[start:end]}</span>", end
    return said + text[done:]


# A page of several views: the address names the one that is drawn. To change it is a change of page, with widgets anew.


_VIEWS: Final = "views-of-page"  # session key: how the heading draws the choice, and its notices
_TURNED: Final = "turned-view"  # session key: the address that a browser may still send after another view was chosen


def open_view(titles: Mapping[str, str]) -> str:
    """The name of the view to draw: the link's, else the one open last, else the first; `heading` draws the choice."""
    key, notices = f"view-of-{'-'.join(titles)}", list[str]()
    last, address = st.session_state.get(f"last-{key}"), st.query_params.to_dict()
    is_behind = st.session_state.get(_TURNED) == (address, state.n_changes())
    if is_behind and not state.is_history():  # a fast visitor, or a slow browser
        link.restore()
    asked = st.query_params.get(link.VIEW)
    if asked is not None and asked not in titles:
        notices.append(f"The link asks for view = {asked[:40]}: must be one of {', '.join(titles)}.")
    opened = next(str(name) for name in (asked, last, *titles) if name in titles)
    if st.session_state.get(link.VIEW) != opened:
        st.session_state[link.VIEW] = opened
        state.change_page()

    def turn() -> None:
        """Opens the view that was chosen, as it was left; a callback."""
        st.session_state[link.VIEW] = str(st.session_state[key])
        state.change_page()
        st.session_state[_TURNED] = st.query_params.to_dict(), state.n_changes()
        link.put({})

    def draw() -> None:
        """Draws the choice."""
        st.session_state[key] = opened
        st.segmented_control(
            "View of the page", list(titles), format_func=titles.__getitem__, key=key, required=True, on_change=turn,
            label_visibility="collapsed",
        )  # fmt: skip

    st.session_state[_VIEWS] = draw, notices
    st.session_state[f"last-{key}"] = opened  # the choice itself is forgotten on another page
    return opened


# Presenter size: letters, lines and markers for a projector, by `large=1` in a link or a switch; kept in the address.


FACTOR: Final = 1.3  # of letters, lines and markers; the same in presenter.css
_STATE: Final = "presenter-size"
_SHEET: Final = Path(__file__).with_name("presenter.css")


def take() -> None:
    """Takes the size from the link, else that of the visit, keeps it in the address and applies it."""
    if link.LARGE in st.query_params:
        st.session_state[_STATE] = st.query_params[link.LARGE] == "1"
    _write()
    if is_on():
        st.html(f"<style>{_SHEET.read_text(encoding='utf-8')}</style>")


def is_on() -> bool:
    """Whether everything is drawn in presenter size."""
    return bool(st.session_state.get(_STATE, False))


def _turn() -> None:
    st.session_state[_STATE] = not is_on()
    _write()


def _write() -> None:
    """Writes the size to the address, which holds nothing of the usual one."""
    if is_on():
        st.query_params[link.LARGE] = "1"
    elif link.LARGE in st.query_params:
        del st.query_params[link.LARGE]


# The header of every page: its title, its question, and the link to this view.


INSIDE = "inside-the-app"  # app.py sets this for the page that it runs
_HEADER_SEEN: Final = "has-seen-a-heading"


def header(title: str, question: str, *, is_shared: bool = False, help_text: str = "", notices: Sequence[str] = ()) -> None:
    """Draws title, question, Share and Help, and below them one notice for each part of the link that was not used.

    `is_shared`: the page has a view, whose link can be shared.
    """
    actions(heading(title, question, notices=notices), is_shared=is_shared, help_text=help_text)


def heading(title: str, question: str, *, notices: Sequence[str] = ()) -> DeltaGenerator:
    """Draws title, question and notices; returns the container for `actions`, filled later when the view is known."""
    # Reruns through app.py if Streamlit ran the page's file directly. Because the folder is called `pages`, Streamlit does
    # this when the first request to a fresh server is a link to a page; after the first `st.navigation` of app.py it does
    # not happen again. A test may run a page file by itself.
    context = get_script_run_ctx()
    if not st.session_state.pop(INSIDE, False) and context is not None and context.main_script_path.endswith("app.py"):
        PagesManager.uses_pages_directory = False
        st.rerun()
    st.session_state[_SEEN] = set()  # starts a page: no word is explained yet
    with st.container(key="page-head", gap="small"):
        st.title(title, anchor=False)
        draw_views, of_views = st.session_state.pop(_VIEWS, (None, ()))
        if draw_views is not None:
            with st.container(key="page-views"):
                draw_views()
        markdown(question)
        place = st.container(key="page-actions", horizontal=True, horizontal_alignment="right", width="content", gap="small")
    # A browser draws at once all that it has received, which is slow: it gets time for the heading of its first page. Start
    # has no pause, where a visitor waits for the picture.
    is_first = _HEADER_SEEN not in st.session_state
    st.session_state[_HEADER_SEEN] = True
    if is_first and st.session_state.get("page") and st.context.headers:  # a test without a browser has no headers
        time.sleep(0.2)
    for notice in [*of_views, *notices]:
        st.warning(plain(notice))
    return place


def actions(place: DeltaGenerator, *, is_shared: bool = False, help_text: str = "", view: state.View | None = None) -> None:
    """Draws the header's buttons: undo and redo if there is a view, the link to this view, help and the presenter's size."""
    with place:
        if view is not None:
            back, on = view.steps()
            go = view.step
            st.button("Undo", "undo", "Alt + Z", on_click=go, kwargs={"is_back": True}, disabled=not back, shortcut="alt+z")
            st.button("Redo", "redo", "Alt + Y", on_click=go, kwargs={"is_back": False}, disabled=not on, shortcut="alt+y")
        # Drawn when it is opened: by then a part of the page may have changed the view by itself.
        if is_shared and (share := popover("Share", "share", help="A link to exactly this view")) is not None:
            with share:
                st.markdown("This link opens exactly this view:")
                link.draw()
        st.button("Normal size" if is_on() else "Presenter size", key="presenter", on_click=_turn)
        if (box := popover("Help", "help")) is not None:
            with box:
                st.markdown(help_text)
                visitor.out()
