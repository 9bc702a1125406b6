"""The page that trains in a browser, beside the app: this server hands it out where `dpcl site --live` has put it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from dpcl_core import paths
from dpcl_core.spec import RunSpec
from pages.parts import layout, visitor

LABEL: Final = "Open in your browser"
_PATH: Final = "here"
_PAGE: Final = "train-here.html"
_HELP: Final = "The same engine, as a plain page: it trains in the browser, without a server, and rows never leave it."


def folder() -> Path | None:
    """The folder of the site with its engine; None where there is none yet."""
    return next((place for place in paths.shared_dirs("live") if (place / _PAGE).exists()), None)


def routes() -> list[Mount]:
    """The address of the site's files, below the server's own; looked for once, when the server starts."""
    place, base = folder(), st.get_option("server.baseUrlPath").strip("/")
    if place is None:
        return []
    return [Mount("/".join(["", *filter(None, [base]), _PATH]), StaticFiles(directory=place))]


def repeated(specs: Iterable[RunSpec]) -> str | None:
    """The end of the link to the first of these runs that a page can repeat; None if there is none."""
    from dpcl_core import page as engine  # few questions need them
    from dpcl_core.site import live

    return next((engine.link(spec) for spec in specs if live.runs_here(spec)), None)


def door(fragment: str = "") -> None:
    """Draws the way to the page, with the settings of `fragment` ("#run=…"); where it is missing, how to get it."""
    if folder() is not None:
        st.link_button(LABEL, f"./{_PATH}/{_PAGE}{fragment}", help=_HELP)
    elif not visitor.is_shared() and (box := layout.popover(LABEL, "here", type="tertiary")) is not None:
        with box:
            st.caption(_HELP)
            place = paths.shared_dirs("live")[1]
            where = f"~/{place.relative_to(Path.home())}" if place.is_relative_to(Path.home()) else str(place)
            st.code(f"dpcl fetch pyodide\ndpcl site --live --to {where}", language=None)
            st.caption("Then start the app again. Any static host can hand out that folder, too.")
