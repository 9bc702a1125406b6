"""Which ε do I need: a wanted accuracy, and the smallest ε that reached it, with the uncertainty that seeds leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.figures.picture import Provenance
from pages.parts.shell import figure_card, link, style
from pages.parts.shell.text import capital
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.statement import Standing

TITLE = "Which ε do I need?"
FIELD = link.Field("wanted", "want", "wanted accuracy in percent", link.Maybe(link.Whole(1, 100)), None)
NO_BOUND = "The list of labels is read from the data: no ε bounds that, so none is enough."
NO_BUDGET = "No finite ε, so there is nothing to choose from."
_HOW = """The line is the mean over seeds, made to rise with ε: where a larger ε came out worse by luck, neighbours share
their mean. The diamond is where it meets the wanted accuracy, the bar through it what the 95 % intervals over seeds allow.
Nothing is extrapolated beyond the budgets tried. On your own data, choosing ε by results spends privacy too."""


@dataclass(frozen=True)
class Budgets:
    """Final scores of one run in [0, 1], by ε and seed, and what its ε are. `is_exact`: computed for budgets 5 % apart.

    `accounted`: what the ledger adds up to, by requested ε; empty where it is as requested.
    """

    finals: Mapping[float, Sequence[float]]
    standing: Standing = "bound"
    is_exact: bool = False
    accounted: Mapping[float, float] = field(default_factory=dict)


def panel(
    view: View, runs: Mapping[str, Budgets], *, colours: Sequence[str], provenance: Provenance, score: str = "accuracy"
) -> int | None:
    """Draws the question and its answer for each run; returns the wanted score in percent for the link."""
    import pandas as pd

    from dpcl_core.figures import needed_epsilon

    usual = {name: needed_epsilon.needed(run.finals, 0.0) for name, run in runs.items()}
    best = max((answer.means[-1] for answer in usual.values() if answer is not None), default=None)
    if best is None:
        st.info(NO_BUDGET)
        return None
    linked = cast("int | None", view["wanted"])
    start = linked if linked is not None else max(1, min(100, round(90 * best)))  # nine tenths of the best
    wanted = st.number_input(
        f"Wanted {score} (%)", 1, 100, start, key=view.key("wanted"), width=220,
        help="Mean over the tasks after the last one, and over seeds.",
    )  # fmt: skip
    found = {name: needed_epsilon.needed(run.finals, wanted / 100) for name, run in runs.items()}
    answers = {name: answer for name, answer in found.items() if answer is not None}
    sentences = [
        needed_epsilon.sentence(
            answer, score=score, standing=run.standing, is_exact=run.is_exact, accounted=run.accounted
        )
        for run, answer in ((runs[name], answer) for name, answer in answers.items())
    ]
    chosen = [colour for name, colour in zip(runs, colours, strict=True) if name in answers]
    picture = needed_epsilon.figure(answers, sentences, colours=chosen, score=score, dark=style.is_dark())
    rows = [
        (name, epsilon, mean, *((low, high) if answer.ends is not None else (None, None)))
        for name, answer in answers.items()
        for epsilon, mean, low, high in zip(answer.budgets, answer.means, *(answer.ends or (answer.means,) * 2), strict=True)
    ]
    figure_card.show(
        picture, provenance, key="needed", title=f"{capital(score)} by ε", note="diamond: the ε that is needed",
        table=pd.DataFrame(rows, columns=["run", "epsilon", "mean", "low", "high"]), linked=True,
    )  # fmt: skip
    st.caption(_HOW)
    return wanted if wanted != start or linked is not None else None

