"""What ε and lists of labels mean, in words and tables that depend on nothing."""

from __future__ import annotations

import math
from typing import Final

import streamlit as st

from dpcl_core.elements.calculator import BUDGETS, DELTA
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.privacy import statement
from dpcl_core.privacy.budget import list_budget
from pages.parts.shell import layout
from pages.parts.shell.still import still

_LISTED: Final = (0.5, 1.0, 8.0)
_PEOPLE: Final = (1, 5, 20, 100, 200, 500)
LEAK: Final = """**Where the list of labels comes from matters as much as the noise.** Suppose you are the only person with a
certain label. If the classifier takes its list of labels from the data, your label is on the list exactly when you took
part: one look is proof, however much noise the sums carry. That is **not DP: there is no bound**. It is not a weak ε, and no
δ below 1 repairs it. On a list that was public beforehand, the label is there either way and reveals nothing; only the noisy
sum depends on you, and the noise bounds what it reveals. A list **learned under DP** includes a label at random, and likely
only if many people have it: a single person's label appears with probability at most δ."""
LISTS: Final = (
    ("one public list", "nothing", "nothing", "noise of every task on every class"),
    ("a public list per task", "nothing, if it was public", "nothing", "an assumption"),
    ("learned under DP", "labels that many people have, within ε", "a share of ε, half of δ", "rare labels are left out"),
    ("from the data", "with certainty, who alone has a label", "**no bound**", "every promise"),
)


@still
def odds() -> None:
    """Draws how often a guess whether somebody took part can be right."""
    from dpcl_core.privacy import gaussian

    sigmas = {epsilon: gaussian.sigma(epsilon, DELTA) for epsilon in BUDGETS}
    with layout.card("odds"):
        st.markdown("**ε as odds**: how often can a guess whether someone took part be right?")
        layout.table(("ε", "worst case, at most", "one Gaussian release", "its σ"), (
            (
                epsilon_text(epsilon), _percent(epsilon), f"{100 * statement.gaussian_odds_bound(sigma):.1f} %",
                rounded_up(sigma),
            )
            for epsilon, sigma in sigmas.items()
        ), names=0)  # fmt: skip
        st.caption(
            f"δ = {DELTA:g}. Taking part and not taking part are equally likely beforehand. The attacker sees the release "
            "and knows everything else. The worst case holds for any mechanism with this ε; the third column is exact for "
            "the Gaussian release used here."
        )


@still
def leak() -> None:
    """Draws what lists of labels reveal, and which labels a learned one includes."""
    from dpcl_core.privacy import partition
    from dpcl_core.spec import PrivacySpec

    privacy = PrivacySpec(delta=DELTA)
    columns = {budget: partition.chances(*list_budget(privacy, budget, 1), _PEOPLE[-1]) for budget in _LISTED}
    with layout.card("leak"):
        st.markdown(LEAK)
        layout.table(("list of labels", "what the list reveals", "privacy spent", "drawback"), LISTS, names=4)
        st.markdown("**How likely a learned list includes a label**, by the number of people of a task who have it")
        heads = ("people", *(f"at ε = {epsilon_text(budget)}" for budget in columns))
        chances = {n: [_chance(column[n] / partition.ONE) for column in columns.values()] for n in _PEOPLE}
        layout.table(heads, ((str(n), *cells) for n, cells in chances.items()), names=0)
        st.caption(
            f"δ = {DELTA:g}, one task; {privacy.label_share:.0%} of ε and half of δ pay for the list. Exact; no other list "
            "at this ε and δ includes more labels (Desfontaines et al. 2022)."
        )


def rounded_up(value: float, digits: int = 4) -> str:
    """A privacy parameter as text, rounded up."""
    step = 10.0**-digits
    return f"{math.ceil(value / step - 1e-6) * step:.{digits}f}".rstrip("0").rstrip(".")


def _percent(epsilon: float, delta: float = DELTA) -> str:
    return f"{math.ceil(statement.odds_bound(epsilon, delta) * 1e4 - 1e-6) / 100:g} %"


def _chance(value: float) -> str:
    """A probability in percent, rounded up."""
    if value < 0.001:
        return f"{math.ceil(1e9 * value - 1e-6) / 1e7:.1g} %"
    return "> 99.9 %" if 0.999 < value < 1 else f"{math.ceil(value * 1e3 - 1e-9) / 10:g} %"
