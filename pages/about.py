"""About page: methods and their papers, the glossary, the limits of the guarantees, and the installed versions."""

import platform
from importlib.metadata import PackageNotFoundError, version

import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.lessons import text as course
from dpcl_core.methods import catalog as methods
from dpcl_core.runs import process, queue
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.version import __version__
from pages.parts import figure_card, layout, text
from pages.parts.text import WORDS, plain

PACKAGES = ("torch", "dp-accounting", "numpy", "scikit-learn", "streamlit", "plotly")


def page() -> None:
    """The page."""
    layout.header("About", "Can I trust this?")
    words = "\n\n".join(f"**{plain(entry.word)}** {plain(entry.meaning)}" for entry in course.words())
    draw = {"Methods and data": _cards, "Words": lambda: st.markdown(words), "Limits, version, citation": _limits}
    layout.views(draw, "about-views")


def _limits() -> None:
    st.markdown(WORDS["about"]["limits"])
    st.markdown(f"**dpcl {__version__}** · Python {platform.python_version()} · " + " · ".join(map(_version, PACKAGES)))
    text.button()
    device = "its processor" if process.default() == "cpu" else "its graphics card"
    ready = [card.title for card in datasets.CARDS.values() if datasets.available(card) is None]
    missing = len(datasets.CARDS) - len(ready)
    rest = f"; {missing} more can be added, see Train" if missing else ""
    st.header("This computer", anchor=False)
    st.markdown(f"This computer trains on {device}. Datasets ready to use: {', '.join(ready)}{rest}.")
    if queue.limits() is None:
        figure_card.draw()
    else:
        layout.arrow("administration", "Administration of this server")


def _cards() -> None:
    catalogs = {"Methods": methods, "Streams": scenarios, "Networks for features": backbones, "Datasets": datasets}
    for title, catalog in catalogs.items():
        lines = []
        for card in catalog.CARDS.values():
            # What a network was trained on decides what can be private for it.
            seen = f". Trained on: {card.seen}." if catalog is backbones else ""
            lines.append(f"**{plain(card.title)}** {plain(card.summary)} :small[{plain(card.source + seen)}]")
        with st.container(key=f"card-about-{title.split()[0].lower()}"):
            st.header(title, anchor=False)
            st.markdown("\n\n".join(lines))  # one element: a browser takes milliseconds for each


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"


if __name__ == "__main__":
    page()
