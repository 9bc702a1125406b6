"""About: can I trust this? Methods and their papers, what the words mean, what is not claimed, and which versions run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts.shell.header import header
from pages.parts.shell.text import plain

GLOSSARY = {
    "ε (epsilon)": "The privacy budget. Taking part makes any outcome at most e^ε times as likely. Smaller protects more.",
    "δ (delta)": "A small slack: beyond e^ε times, any outcome may be likelier by δ at most. It is not the chance "
    "that the bound fails. It stays well below one over the number of people.",
    "unit": "What is protected as a whole: one training example, or everything of one person.",
    "neighbouring datasets": "Two datasets that differ in one unit: it is there or left out, or is replaced by another. "
    "The number of units is announced and stays: left out means that it contributes zero (zero-out).",
    "ledger": "The list of every noisy step on private data. The ε on screen is computed from it, never from the form.",
    "accounted, claimed, audited": "What the ledger adds up to; what a paper says; what an attack measured from below.",
    "parallel and sequential": "Where nobody is in two tasks, the worst task counts; where somebody may be, tasks add up.",
    "task": "A part of the data that arrives together. Most learners see it once. Some read earlier tasks again, as "
    "`non-cl`, `dp-agem` and `lm-er` do: their ledgers pay for every reading.",
    "home task": "In a blurred stream: the task a class belongs to and is tested in. Part of its examples strays elsewhere.",
    "prediction rule": "How models of several tasks answer together. Another one costs no privacy: post-processing.",
    "accuracy over tasks (AA)": "After each task: mean test accuracy over the tasks seen so far that have test examples.",
    "forgetting (AF)": "Points an old task has lost since its best. Defined from the second task on.",
    "label list": "The names a classifier may answer with. A list read from the data can show that someone took part; one "
    "learned under DP leaves out labels that few people have.",
    "seed": "One draw of class order and subset. Intervals are over seeds.",
    "clipping": "Every example's influence is cut to the same length before noise is added, so that the noise can hide it.",
    "not DP": "There is no bound. It is not a weak guarantee but none, whatever ε was asked for.",
    "claimed, not verified": "A publication gives this ε for its method, and no ledger bears it out. It is a name of a "
    "setting, not a bound; beside it stands what an attack has proved.",
    "audited": "An attack is played many times against the method's own mechanism. How often it is right proves, at a "
    "stated confidence, what ε is at least; an ε that is larger yet is not excluded.",
}
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
    how, words, limits = st.tabs(["Methods and data", "Words", "Limits and versions"], key="about-tabs")
    with how:
        _cards("Methods", [(card.title, card.summary, card.source) for card in methods.CARDS.values()])
        _cards("Streams", [(card.title, card.summary, card.source) for card in scenarios.CARDS.values()])
        _cards("Networks for features", [(card.title, card.summary, card.source) for card in backbones.CARDS.values()])
        _cards("Datasets", [(card.title, card.summary, card.source) for card in datasets.CARDS.values()])
    with words:
        for word, meaning in GLOSSARY.items():
            st.markdown(f"**{word}** {meaning}")
    with limits:
        st.markdown(LIMITS)
        st.markdown(f"Python {platform.python_version()} · " + " · ".join(_versions()))


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
