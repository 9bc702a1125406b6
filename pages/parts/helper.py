"""Which ε, which method, are my data too few: what recorded runs let one expect, from public numbers alone."""

from __future__ import annotations

import streamlit as st

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import expected
from dpcl_core.papers.expected import Sizes
from pages.parts import layout

TITLE = "Which ε, which method, are the data too few?"


def helper(sizes: Sizes | None, key: str) -> None:
    """Draws the advice and the table, once opened; nothing where the records say nothing of such a run (None)."""
    if sizes is not None and (box := layout.folded(TITLE, key)) is not None:
        with box:
            _advice(sizes)


def asking_helper() -> None:
    """Draws the same for data that nobody has brought, once opened: numbers that a visitor types."""
    if (box := layout.folded(TITLE, "explore-helper")) is None:
        return
    with box:
        asked = (("Training examples", 10, 10**7, 1000), ("Classes", 2, 1000, 10), ("Tasks", 1, 100, 5))
        with st.container(horizontal=True, gap="small"):
            n, classes, tasks = (
                int(st.number_input(title, least, most, start, key=f"helper-{title}", width=150))
                for title, least, most, start in asked
            )
            cards = {card.name: card for card in backbones.CARDS.values() if card.feature_dim and not card.is_language_model}
            network = st.selectbox("Network", cards, format_func=lambda name: cards[name].title, key="helper-network")
        n_features, delta = cards[network].feature_dim or 0, checks.default_delta(n)
        _advice(Sizes(n, classes, tasks, network, n_features, "prior-const", delta))


def _advice(sizes: Sizes) -> None:
    with st.spinner("Looking at recorded runs ..."):
        n, classes, tasks = f"{sizes.n_people:,} examples", f"{sizes.n_classes} classes", f"{sizes.n_tasks} tasks"
        st.markdown(f"With about {n}, {classes} and {tasks}: **{expected.advice(sizes)}**")
        found = expected.expected(sizes)
        rows = [
            (methods.card(name).title, *(_cell(found.get((name, epsilon))) for epsilon in expected.BUDGETS))
            for name in expected.METHODS
        ]
        layout.draw_table(("accuracy to expect, %", *(f"ε = {epsilon:g}" for epsilon in expected.BUDGETS)), rows)
        said = f"From runs on other data: at least {10 * expected.SHARE:.0f} in 10 lay within such an interval."
        if all(one.network != sizes.network for one in expected.known()):
            said += " None of them used this network, so trust it less."
        st.caption(f"{said} Guessing gives {100 / sizes.n_classes:.0f} % where classes are equally large.")


def _cell(one: expected.Expected | None) -> str:
    return "–" if one is None else f"{100 * one.accuracy:.0f} ({100 * one.low:.0f}–{100 * one.high:.0f})"
