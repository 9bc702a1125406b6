"""Entry point of the app: navigation, theme, and the server's part, which moves the run queue. No numerics."""

import logging

import streamlit as st
from starlette.middleware import Middleware
from streamlit import net_util
from streamlit.starlette import App

from dpcl_core.paths import assets_dir
from pages.parts import document, layout, link, rooms, served, state, text, visitor

PAGES = [
    ("start", "Start"), ("lessons", "Lessons"), ("explore", "Explore"), ("privacy", "Privacy"), ("questions", "Questions"),
    ("data", "Your data"), ("train", "Train"), ("runs", "Runs"), ("teach", "Teach"), ("about", "About"),
]  # fmt: skip
UNLISTED = [("administration", "Administration")]  # not in the menu, which a phone shows whole: About leads there

_MENU = "menu"  # session keys
_STYLED = "document-has-style"


def main() -> None:
    """Draws the visited page."""
    if _MENU not in st.session_state:  # made once for each visitor: every page looks for its file
        menu = [st.Page(f"pages/{name}.py", title=title, url_path=name, default=name == "start") for name, title in PAGES]
        hidden = [st.Page(f"pages/{name}.py", title=title, url_path=name, visibility="hidden") for name, title in UNLISTED]
        st.session_state[_MENU] = menu + hidden
        st.session_state[_STYLED] = document.is_own(st.context.url, dict(PAGES + UNLISTED))
    page = st.navigation(st.session_state[_MENU], position="top")
    st.set_page_config(page_title=document.title(page.title), layout="wide")
    if not st.session_state[_STYLED]:
        text.apply()
    layout.take()
    st.logo(assets_dir() / f"logo-{'dark' if text.is_dark() else 'light'}.svg", size="large")
    if st.session_state.get("page") != page.url_path:
        st.session_state["page"] = page.url_path
        st.session_state.pop(link.VIEW, None)
        state.change_page()
    st.session_state[layout.INSIDE] = True
    if visitor.is_shared() and visitor.is_missing() and page.url_path:  # Start is open to everybody
        visitor.ask()
    else:
        page.run()


if __name__ == "__main__":  # drawn for a visitor
    main()
else:  # imported by the server: the same file is its address
    # Where a page of another origin connects, the framework would ask a host on the internet for this server's address.
    net_util.get_external_ip = lambda: None
    document.install()
    for log in ("streamlit.error_util", "uvicorn.error"):
        logging.getLogger(log).addFilter(document.Masking())
    documents = document.routes(PAGES + UNLISTED)
    app = App(
        __file__, lifespan=state.moving, routes=[*rooms.routes(), *served.routes(), *documents],
        on_script_error=document.show_break,
        middleware=[Middleware(document.Gate), Middleware(visitor.GivesToken), Middleware(served.Compressed)],
    )  # fmt: skip
