"""About page: methods and their papers, the glossary, the limits of the guarantees, and the installed versions."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.lessons import glossary
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.runs import process, queue
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.version import __version__
from pages.parts import figure_card, layout, text
from pages.parts.layout import header
from pages.parts.text import plain

LIMITS = """
- The datasets here are public: a run simulates what such a release would protect.
- A bound holds for one released model. Several models together, of one run or of several, reveal more.
- Choosing settings by their results on the same data spends privacy that no ledger here counts.
- Seeded noise is for teaching only: anyone who knows the seed can subtract it, and then no bound holds.
- Every release is rounded together with its noise, so its last digits reveal nothing more. Running times are not protected.
- Results on a subset or a stand-in dataset are labelled in their title; they are not results on the full set.
"""
PACKAGES = ("torch", "dp-accounting", "numpy", "scikit-learn", "streamlit", "plotly")


def page() -> None:
    """The page."""
    header("About", "Can I trust this?")
    draw = {"Methods and data": _methods_and_data, "Words": _words, "Limits, version, citation": _limits}
    layout.views(draw, "about-views")


def _methods_and_data() -> None:
    _cards("Methods", methods.CARDS.values())
    _cards("Streams", scenarios.CARDS.values())
    _cards("Networks for features", backbones.CARDS.values())
    _cards("Datasets", datasets.CARDS.values())


def _words() -> None:
    st.markdown("\n\n".join(f"**{plain(entry.word)}** {plain(entry.meaning)}" for entry in glossary.words()))


def _limits() -> None:
    st.markdown(LIMITS)
    st.markdown(f"**dpcl {__version__}** · Python {platform.python_version()} · " + " · ".join(_versions()))
    text.button()
    _this_computer()
    if queue.limits() is None:
        figure_card.draw()
    else:
        st.page_link("pages/administration.py", label=":primary[Administration of this server →]")


def _this_computer() -> None:
    device = "its processor" if process.default() == "cpu" else "its graphics card"
    ready = [card.title for card in datasets.CARDS.values() if datasets.available(card) is None]
    missing = len(datasets.CARDS) - len(ready)
    rest = f"; {missing} more can be added, see Train" if missing else ""
    st.header("This computer", anchor=False)
    st.markdown(f"This computer trains on {device}. Datasets ready to use: {', '.join(ready)}{rest}.")


def _cards(
    title: str, cards: Iterable[MethodCard | scenarios.ScenarioCard | backbones.BackboneCard | datasets.DatasetCard]
) -> None:
    with st.container(key=f"card-about-{title.split()[0].lower()}"):
        st.header(title, anchor=False)
        lines = [f"**{plain(card.title)}** {plain(card.summary)} :small[{plain(_origin(card))}]" for card in cards]
        st.markdown("\n\n".join(lines))  # one element: a browser takes milliseconds for each


def _origin(card: MethodCard | scenarios.ScenarioCard | backbones.BackboneCard | datasets.DatasetCard) -> str:
    """Where it comes from; of a network also what it was trained on, which decides what can be private for it."""
    if isinstance(card, backbones.BackboneCard):
        return f"{card.source}. Trained on: {card.seen}."
    return card.source


def _versions() -> list[str]:
    installed = []
    for package in PACKAGES:
        try:
            installed.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            installed.append(f"{package} not installed")
    return installed


if __name__ == "__main__":
    page()
