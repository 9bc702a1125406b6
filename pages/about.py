"""About: can I trust this? Methods and their papers, what the words mean, what is not claimed, and which versions run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import streamlit as st

from dpcl_core import __version__
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.lessons import glossary
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts.shell import citation
from pages.parts.shell.header import header
from pages.parts.shell.text import plain

LIMITS = """
- The datasets here are public: a run simulates what such a release would protect.
- A bound holds for one released model. Several models of one run, or of several runs, together reveal more.
- Choosing settings by looking at results on the same data spends privacy that no ledger here has counted.
- Seeded noise is for teaching: whoever knows the seed can subtract it, and then no bound holds.
- Every release is rounded together with its noise, so its last digits tell nothing. How long a run takes is not protected.
- Results on a subset or on a stand-in dataset say so in their title; they are not results on the full set.
"""
PACKAGES = ("torch", "dp-accounting", "numpy", "scikit-learn", "streamlit", "plotly")


def page() -> None:
    """The page."""
    header("About", "Can I trust this?")
    how, words, limits = st.tabs(["Methods and data", "Words", "Limits, version, citation"], key="about-tabs")
    with how:
        _cards("Methods", [(card.title, card.summary, card.source) for card in methods.CARDS.values()])
        _cards("Streams", [(card.title, card.summary, card.source) for card in scenarios.CARDS.values()])
        _cards("Networks for features", [(card.title, card.summary, card.source) for card in backbones.CARDS.values()])
        _cards("Datasets", [(card.title, card.summary, card.source) for card in datasets.CARDS.values()])
    with words:
        for entry in glossary.words():
            st.markdown(f"**{plain(entry.word)}** {plain(entry.meaning)}")
    with limits:
        st.markdown(LIMITS)
        st.markdown(f"**dpcl {__version__}** · Python {platform.python_version()} · " + " · ".join(_versions()))
        citation.button()


def _cards(title: str, cards: list[tuple[str, str, str]]) -> None:
    with st.container(key=f"card-about-{title.split()[0].lower()}"):
        st.header(title, anchor=False)
        for name, summary, source in cards:
            st.markdown(f"**{plain(name)}** {plain(summary)} :small[{plain(source)}]")


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return found


if __name__ == "__main__":
    page()
