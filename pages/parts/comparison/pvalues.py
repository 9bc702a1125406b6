"""The p-value curve of the Compare page: a t-test of two runs' average accuracies after every task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import Provenance, epsilon_label
from dpcl_core.results import Result
from pages.parts.comparison import pairs
from pages.parts.shell import figure_card, link, style
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.figures.t_tests import PValue

Side = tuple[str, float]  # a run's letter and one of its budgets
NOT_CHOSEN: Mapping[str, object] = {
    "t_first": None, "t_first_budget": None, "t_second": None, "t_second_budget": None, "paired": True
}  # fmt: skip


def fields(letters: tuple[str, ...]) -> list[object]:
    """The link fields of the t-test."""
    return [
        link.Field("t_first", "ta", "first curve of the t-test", link.Maybe(link.Choice(letters)), None),
        link.Field("t_first_budget", "tc", "budget of the first curve", link.Maybe(link.BUDGET), None),
        link.Field("t_second", "tb", "second curve of the t-test", link.Maybe(link.Choice(letters)), None),
        link.Field("t_second_budget", "td", "budget of the second curve", link.Maybe(link.BUDGET), None),
        link.Field("paired", "tp", "paired t-test", link.Flag(), True),
    ]


def p_value_curve(
    view: View, results: dict[str, Result], chosen: float | None, provenance: Callable[[dict[str, Result]], Provenance]
) -> dict[str, object]:
    """Draws the choice of two curves and their p-values; returns the link values. `chosen`: the budget shown above."""
    from dpcl_core.figures import pvalues, t_tests

    sides = [(letter, epsilon) for letter, result in results.items() for epsilon in sorted(result.spec.privacy.epsilons)]
    if len(sides) < 2:
        st.info("A test needs two curves: pick another run above, or one with several budgets.")
        return {}
    first, second, is_paired = _chosen(view, results, sides, chosen)
    values: dict[str, object] = {
        "t_first": first[0], "t_first_budget": first[1], "t_second": second[0], "t_second_budget": second[1],
        "paired": is_paired,
    }  # fmt: skip
    try:
        one, other = (_curve(results[letter], epsilon) for letter, epsilon in (first, second))
        tests = t_tests.p_values(one, other, is_paired=is_paired)
    except BadInput as error:
        st.warning(plain(f"No test: {error}."))
        return values
    runs = {letter: results[letter] for letter in dict.fromkeys((first[0], second[0]))}
    refusal = pairs.different_tests({letter: result.spec for letter, result in runs.items()})
    if refusal:
        st.warning(f"{plain(refusal)} No test.")
        return values
    names = (_name(results, first), _name(results, second))
    picture = pvalues.p_value_curve(tests, names=names, dark=style.is_dark())
    kind = "paired by task" if is_paired else "not paired, equal variances"
    figure_card.show(
        picture, provenance(runs), key="p-values", title="Do the two curves differ?",
        note=f"{names[0]} against {names[1]}; two-tailed t-test, {kind}; lines at 0.05 and 0.01",
        table=pvalues.table(tests), linked=True,
    )  # fmt: skip
    st.caption(t_tests.CAVEAT)
    _shown_as_table(tests)
    return values


def _chosen(view: View, results: dict[str, Result], sides: list[Side], chosen: float | None) -> tuple[Side, Side, bool]:
    """The two chosen curves and whether tasks are paired; initially those of the link, else two runs at one budget."""
    left, right = st.columns(2)

    def curve(place: str, offered: list[Side], likely: list[Side]) -> Side:
        wanted = cast("Side", (view[f"t_{place}"], view[f"t_{place}_budget"]))
        start = offered.index(wanted if wanted in offered else likely[0])
        column, name = (left if place == "first" else right), f"{place.title()} curve"
        return column.selectbox(name, offered, start, lambda side: _name(results, side), key=view.key(f"t-{place}"))

    likely = [side for side in sides if side[1] == chosen] or sides
    first = curve("first", sides, likely)
    others = [side for side in sides if side != first]
    likely = [side for side in likely if side[0] != first[0]] or [side for side in others if side[0] != first[0]] or others
    second = curve("second", others, likely)
    is_paired = st.toggle(
        "Paired by task", value=bool(view["paired"]), key=view.key("t-paired"),
        help="Paired: tests the differences after each task. Not paired: tests the two means as if the tasks were "
        "independent. The paper that introduced these curves does not say which test it used.",
    )  # fmt: skip
    return first, second, is_paired


def _curve(result: Result, epsilon: float) -> list[float | None]:
    """Average accuracy after each task, mean over the seeds; None where nothing was evaluated."""
    from dpcl_core.figures import curves

    frame = result.accuracy[result.accuracy["epsilon"] == epsilon]
    means = curves.mean_so_far(frame).groupby("after_task")["value"].mean()
    return [float(means[task]) if task in means.index else None for task in range(result.n_tasks)]


def _name(results: dict[str, Result], side: Side) -> str:
    return f"{side[0]}, {epsilon_label(side[1], results[side[0]].standing)}"


def _shown_as_table(tests: list[PValue]) -> None:
    from dpcl_core.figures import pvalues

    with st.expander("The same as a table"):
        table = pvalues.table(tests)
        table["difference"] *= 100
        st.dataframe(
            table, hide_index=True, key="p-values-table", height="content",
            alt=f"p values after 2 to {tests[-1].n_tasks} tasks",
            column_config={
                "tasks": "tasks learned",
                "difference": st.column_config.NumberColumn("mean difference, points", format="%.2f"),
                "t": st.column_config.NumberColumn(format="%.2f"),
                "p": st.column_config.NumberColumn(format="%.2g"),
                "note": "why there is no test",
            },
        )  # fmt: skip
